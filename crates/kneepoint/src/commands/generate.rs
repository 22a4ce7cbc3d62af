//! `kneepoint --generate`: man page and completions, from the same structures as the parser.

use crate::cli::{Cli, Generate};
use clap::CommandFactory;
use clap_complete::{Shell, generate as complete};

pub(crate) fn generate(what: Generate) -> anyhow::Result<u8> {
    let mut bytes = Vec::new();
    let shell = match what {
        Generate::Man => {
            clap_mangen::Man::new(Cli::command()).render(&mut bytes)?;
            None
        }
        Generate::CompleteBash => Some(Shell::Bash),
        Generate::CompleteZsh => Some(Shell::Zsh),
        Generate::CompleteFish => Some(Shell::Fish),
        Generate::CompleteElvish => Some(Shell::Elvish),
        Generate::CompletePowershell => Some(Shell::PowerShell),
    };
    if let Some(shell) = shell {
        complete(shell, &mut Cli::command(), "kneepoint", &mut bytes);
    }
    crate::print::out(&String::from_utf8_lossy(&bytes))?;
    Ok(crate::OK)
}
