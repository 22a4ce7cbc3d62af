//! The environment that a measured process runs in, without what is nobody's business.

use std::collections::BTreeMap;
use std::fs;

/// A variable whose name holds one of these is a secret, for all that one can tell.
const SECRET: [&str; 8] =
    ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE"];
/// What stands in place of a secret.
pub const LEFT_OUT: &str = "(left out)";

/// The environment of a process, sorted by name, without secrets; where there is no process yet
/// or it may not be looked at, what it is given: Kneepoint's own and what is `set` besides.
#[must_use]
pub fn of(process: Option<u32>, set: &[(String, String)]) -> Vec<(String, String)> {
    let found = process.and_then(|pid| fs::read(format!("/proc/{pid}/environ")).ok());
    let all: BTreeMap<String, String> = match found.filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => pairs(&bytes),
        None => {
            let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
            let own = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
            own.chain(set.iter().cloned()).collect()
        }
    };
    all.into_iter().map(|(name, value)| censored(name, value)).collect()
}

/// The variables of a text like `/proc/PID/environ`.
fn pairs(bytes: &[u8]) -> BTreeMap<String, String> {
    let texts = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let split = texts.filter_map(|text| {
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    });
    split.collect()
}

fn censored(name: String, value: String) -> (String, String) {
    let upper = name.to_uppercase();
    // An address may hold a password: scheme://user:password@host.
    let login = value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    if login || SECRET.iter().any(|word| upper.contains(word)) {
        return (name, LEFT_OUT.to_owned());
    }
    (name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_and_the_rest_is_kept() {
        let text = b"LD_PRELOAD=/x.so\0AWS_SECRET_ACCESS_KEY=1\0npm_token=2\0A=b=c\0odd\0\
            DB=mysql://me:word@host/x\0SITE=http://host/\0";
        let found: Vec<_> = pairs(text).into_iter().map(|(n, v)| censored(n, v)).collect();
        let expected = [
            ("A", "b=c"),
            ("AWS_SECRET_ACCESS_KEY", LEFT_OUT),
            ("DB", LEFT_OUT),
            ("LD_PRELOAD", "/x.so"),
            ("SITE", "http://host/"),
            ("npm_token", LEFT_OUT),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_process_is_asked_and_without_one_what_it_will_get_is_told() {
        let own = of(Some(std::process::id()), &[]);
        assert!(own.iter().any(|(name, _)| name == "PATH"), "{own:?}");
        let set = [("KNEEPOINT_TEST".to_owned(), "7".to_owned())];
        let given = of(None, &set);
        assert!(given.contains(&set[0]) && given.len() > 1, "{given:?}");
        assert!(given.is_sorted());
    }
}
