//! What a program is before it begins: a process that leads a session of its own and waits for a
//! word, so that it is noted, placed and raised before it does anything. Where the word does not
//! come, because Kneepoint was killed meanwhile, the program never runs.

use anyhow::{Context as _, bail};
use kneepoint_machine::{Start, Stream, here};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

/// The name under which it is served.
pub(crate) const LAUNCH: &str = "launch";
/// Stands for an account or an input that there is none of.
const NONE: &str = "-";

/// A user and group that a program runs as, since servers refuse to run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

impl Account {
    /// Who a server runs as where Kneepoint is root: `preferred` if there is such a user, else
    /// `nobody`. Absent where Kneepoint is somebody else, who can start programs as himself only.
    #[must_use]
    pub fn unprivileged(preferred: &str) -> Option<Self> {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let known = |name: &str| Self::listed(&users, name);
        let nobody = Self { user: 65534, group: 65534 };
        rustix::process::geteuid()
            .is_root()
            .then(|| known(preferred).or_else(|| known("nobody")).unwrap_or(nobody))
    }

    /// The account of this name in a text like `/etc/passwd`.
    fn listed(users: &str, name: &str) -> Option<Self> {
        let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let line = fields.find(|line| line.first() == Some(&name))?;
        let id = |index: usize| line.get(index)?.parse().ok();
        Some(Self { user: id(2)?, group: id(3)? })
    }
}

/// The arguments that [`launch`] understands, but for those of the program.
pub(crate) fn arguments(
    account: Option<Account>,
    input: Option<&Path>,
    program: &Path,
) -> [OsString; 3] {
    let account = account.map_or(NONE.to_owned(), |it| format!("{}:{}", it.user, it.group));
    let input = input.map_or(OsString::from(NONE), Into::into);
    [account.into(), input, program.into()]
}

/// Waits for one byte on standard input, then becomes the program.
///
/// # Errors
/// The program cannot be started, or the word did not come.
pub(crate) fn launch(words: &[OsString]) -> anyhow::Result<()> {
    let [account, input, program, arguments @ ..] = words else {
        bail!("launch takes an account, an input and a program")
    };
    // The leader of a session already: then it has what is wanted.
    let _ = rustix::process::setsid();
    let mut word = [0];
    if std::io::stdin().read(&mut word).unwrap_or(0) == 0 {
        bail!("nobody said that it may begin");
    }
    let mut start = Start::new(program).args(arguments).input(match input.as_os_str() {
        none if none == NONE => Stream::Nothing,
        file => Stream::File(File::open(file).context("its input cannot be opened")?),
    });
    if let Some((user, group)) = identity(account)? {
        start = start.owned_by(user, group);
    }
    Err(here().become_program(start))
        .with_context(|| format!("{} cannot be started", program.display()))
}

fn identity(account: &OsStr) -> anyhow::Result<Option<(u32, u32)>> {
    if account == NONE {
        return Ok(None);
    }
    let ids = account.to_str().and_then(|text| text.split_once(':'));
    let parsed = ids.and_then(|(user, group)| Some((user.parse().ok()?, group.parse().ok()?)));
    parsed.map(Some).context("an account is USER:GROUP in numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_from_their_lines() {
        let users = "root:x:0:0:root:/root:/bin/sh\nmysql:x:102:105::/:/bin/false\nodd:x\n";
        assert_eq!(Account::listed(users, "mysql"), Some(Account { user: 102, group: 105 }));
        assert_eq!(Account::listed(users, "odd"), None);
        assert_eq!(Account::listed(users, "mys"), None);
    }
}
