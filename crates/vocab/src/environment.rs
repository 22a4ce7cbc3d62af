//! Which variables of an environment change what is measured.

/// Begins of names that change how the C library, a loader, an allocator or a runtime works.
const TELLING: [&str; 17] = [
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_BIND_NOW",
    "MALLOC_",
    "TCMALLOC_",
    "MIMALLOC_",
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "OPENBLAS_",
    "GOMAXPROCS",
    "GOGC",
    "JAVA_TOOL_OPTIONS",
    "PYTHON",
    "RUST_",
];

/// Whether a variable of this name changes how programs run that are not written to read it.
#[must_use]
pub fn changes_programs(name: &str) -> bool {
    TELLING.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_how_they_begin() {
        for name in ["GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "LD_PRELOAD", "OMP_NUM_THREADS"] {
            assert!(changes_programs(name), "{name}");
        }
        for name in ["", "PATH", "HOME", "LANG", "MALLOC", "MY_LD_PRELOAD"] {
            assert!(!changes_programs(name), "{name}");
        }
    }
}
