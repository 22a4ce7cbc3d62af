//! Every quick command as a user types it, with what it prints.

/// Each file of `cmd/` is a console session; `[..]` and `...` stand for what differs between
/// machines.
#[test]
fn sessions() {
    trycmd::TestCases::new().case("tests/cmd/*.md").env("NO_COLOR", "1").run();
}

/// The README's table of commands names every command and its forms, and no other.
#[test]
fn the_readme_names_every_command() {
    let readme = include_str!("../../../README.md");
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_kneepoint"))
        .arg("-h")
        .output()
        .expect("the binary runs");
    let help = String::from_utf8(help.stdout).expect("help is text");
    let section = help.split("Commands:\n").nth(1).expect("help lists commands");
    let lines = section.lines().take_while(|line| !line.is_empty());
    // Deeper lines go on with what a command is for.
    let heads = lines.filter(|line| !line.starts_with("   "));
    let commands: Vec<_> = heads.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands.iter().filter(|command| **command != "help") {
        assert!(readme.contains(&format!("`kneepoint {command}")), "{command} is not there");
    }
    let reported = readme.lines().filter_map(|line| line.strip_prefix("| `kneepoint "));
    for words in reported {
        let word = words.split([' ', '`']).next().unwrap_or_default();
        assert!(word == "--generate" || commands.contains(&word), "there is no {word}");
    }
}
