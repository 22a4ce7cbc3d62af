//! Compresses the debug information of a release build. It is there for names of inlined functions
//! in stacks of the embedded workload, which is this same program; uncompressed it is half of it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    }
}
