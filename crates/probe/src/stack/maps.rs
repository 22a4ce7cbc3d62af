//! `/proc/PID/maps`: where a process has code.

use std::ops::Range;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Addresses in the process.
    pub(crate) range: Range<u64>,
    /// Offset of the first byte in the file.
    pub(crate) offset: u64,
    /// Inode of the file; 0 where there is none.
    pub(crate) inode: u64,
    /// Path, `[vdso]` or the like, or empty.
    pub(crate) path: String,
}

impl Mapping {
    /// Whether the file's path no longer leads to the mapped file.
    pub(crate) fn deleted(&self) -> bool {
        self.path.ends_with(DELETED)
    }

    /// Path without the kernel's remark that the file was deleted.
    pub(crate) fn clean_path(&self) -> &str {
        self.path.strip_suffix(DELETED).unwrap_or(&self.path)
    }

    /// Last part of the path; `[anonymous]` where code lies in no file.
    pub(crate) fn base_name(&self) -> &str {
        let path = self.clean_path();
        if path.is_empty() {
            return ANONYMOUS;
        }
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// Name of code that comes from no file: a just-in-time compiler's.
pub(crate) const ANONYMOUS: &str = "[anonymous]";
const DELETED: &str = " (deleted)";

/// The executable mappings in `text`, in ascending order; lines of another form are passed over.
pub(crate) fn executable(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(executable_line).collect()
}

fn executable_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (begin, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    if fields.next()?.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let offset = hex(fields.next()?)?;
    let inode = fields.nth(1)?.parse().ok()?;
    let path = fields.next().unwrap_or("").trim_start().to_owned();
    Some(Mapping { range: hex(begin)?..hex(end)?, offset, inode, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c0a00000-55d0c0a2c000 r--p 00000000 fe:01 131 /usr/bin/some program
55d0c0a2c000-55d0c0b00000 r-xp 0002c000 fe:01 131 /usr/bin/some program
7f0000000000-7f0000001000 rwxp 00000000 00:00 0 
7f1200000000-7f1200001000 r-xp 00001000 fe:01 77                         /tmp/lib.so (deleted)
7ffd0b5f0000-7ffd0b5f2000 r-xp 00000000 00:00 0                          [vdso]
nonsense
";

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(
            cut in 0..TEXT.len(),
            inserted in "[0-9a-f -]{0,20}\\PC{0,8}",
        ) {
            let text = format!("{}{inserted}{}", &TEXT[..cut], &TEXT[cut..]);
            for mapping in executable(&text) {
                let _ = (mapping.base_name(), mapping.clean_path(), mapping.deleted());
            }
        }
    }

    #[test]
    fn only_code_is_kept_with_its_file() {
        let maps = executable(TEXT);
        let names: Vec<_> = maps.iter().map(Mapping::base_name).collect();
        assert_eq!(names, ["some program", "[anonymous]", "lib.so", "[vdso]"]);
        assert_eq!(maps[0].offset, 0x2c000);
        assert_eq!(maps[0].inode, 131);
        assert_eq!(maps[0].range, 0x55d0_c0a2_c000..0x55d0_c0b0_0000);
        assert!(maps[2].deleted() && !maps[0].deleted());
        assert_eq!(maps[2].clean_path(), "/tmp/lib.so");
    }
}
