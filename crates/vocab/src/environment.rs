//! Which variables of an environment change what is measured.

/// Begins of names that change how the C library, a loader, an allocator or a runtime works, and
/// whose code reads them: begins of names of modules or functions; none where every program may.
const TELLING: [(&str, &[&str]); 18] = [
    ("GLIBC_TUNABLES", &[]),
    ("LD_PRELOAD", &[]),
    ("LD_LIBRARY_PATH", &[]),
    ("LD_BIND_NOW", &[]),
    ("MALLOC_", &[]),
    ("TCMALLOC_", &[]),
    ("MIMALLOC_", &[]),
    ("OMP_", OPENMP),
    ("KMP_", OPENMP),
    ("GOMP_", OPENMP),
    ("MKL_", &["libmkl"]),
    ("OPENBLAS_", &["libopenblas", "libblas"]),
    ("GOMAXPROCS", GO),
    ("GOGC", GO),
    ("JAVA_TOOL_OPTIONS", &["libjvm"]),
    ("PYTHON", &["python", "libpython"]),
    ("RUST_LOG", RUST),
    ("RUST_MIN_STACK", RUST),
];
const OPENMP: &[&str] = &["libgomp", "libomp", "libiomp"];
const RUST: &[&str] = &["std::rt::", "std::sys::", "core::ops::function::"];
const GO: &[&str] = &["runtime.goexit", "runtime.mcall", "runtime.mstart", "runtime.main"];

/// Whether a variable of this name changes how programs run that are not written to read it.
#[must_use]
pub fn changes_programs(name: &str) -> bool {
    read_by(name).is_some()
}

/// Begins of the names of modules or functions of the code that reads such a variable; none where
/// every program may. `None` for a variable that only programs written for it read.
#[must_use]
pub fn read_by(name: &str) -> Option<&'static [&'static str]> {
    TELLING.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_how_they_begin() {
        for name in ["GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "LD_PRELOAD", "OMP_NUM_THREADS"] {
            assert!(changes_programs(name), "{name}");
        }
        // How a panic is told changes no program that does not panic.
        for name in ["", "PATH", "HOME", "LANG", "MALLOC", "MY_LD_PRELOAD", "RUST_BACKTRACE"] {
            assert!(!changes_programs(name), "{name}");
        }
    }

    #[test]
    fn a_runtime_s_variables_are_read_by_its_code_only() {
        assert_eq!(read_by("LD_PRELOAD"), Some(&[][..]));
        assert!(read_by("PYTHONUNBUFFERED").unwrap().contains(&"libpython"));
        assert_eq!(read_by("PATH"), None);
    }
}
