//! Man pages and completions, printed by the program itself.

use super::output;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Shells, and how the files of their completions are called where these look for them.
const SHELLS: [(&str, &str); 3] =
    [("bash", "kneepoint"), ("zsh", "_kneepoint"), ("fish", "kneepoint.fish")];

/// Writes `man/*.1.gz` and `complete/SHELL/FILE` anew below `folder`.
pub(super) fn generate(program: &Path, folder: &Path) -> Result<()> {
    let (man, complete) = (folder.join("man"), folder.join("complete"));
    for old in [&man, &complete] {
        if old.exists() {
            std::fs::remove_dir_all(old).with_context(|| old.display().to_string())?;
        }
    }
    std::fs::create_dir_all(&man)?;
    let printed = |what: &str| output(Command::new(program).args(["--generate", what]));
    std::fs::write(man.join("kneepoint.1"), printed("man")?)?;
    for command in commands(program)? {
        let page = printed(&format!("man-{command}"))?;
        std::fs::write(man.join(format!("kneepoint-{command}.1")), page)?;
    }
    let mut pages: Vec<_> = std::fs::read_dir(&man)?.collect::<Result<_, _>>()?;
    pages.sort_by_key(std::fs::DirEntry::path);
    // Without a name and a date inside, the same page gives the same bytes.
    let mut gzip = Command::new("gzip");
    output(gzip.args(["-9", "-n"]).args(pages.iter().map(std::fs::DirEntry::path)))?;
    for (shell, file) in SHELLS {
        let place = complete.join(shell);
        std::fs::create_dir_all(&place)?;
        std::fs::write(place.join(file), printed(&format!("complete-{shell}"))?)?;
    }
    Ok(())
}

/// The commands that its help lists.
fn commands(program: &Path) -> Result<Vec<String>> {
    let help = output(Command::new(program).arg("-h"))?;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<String> = listed
        .take_while(|line| !line.is_empty())
        // Deeper lines go on with what a command is for.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .map(str::to_owned)
        .collect();
    if commands.is_empty() {
        bail!("{} -h lists no commands", program.display());
    }
    Ok(commands)
}
