//! `completions` and `man`: pages made from the definition of the commands.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold completions bash >~/.local/share/bash-completion/completions/leasehold
  leasehold completions zsh >~/.zfunc/_leasehold
  leasehold completions fish >~/.config/fish/completions/leasehold.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Print a man page, or write all of them
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold man | man -l -
  leasehold man run | man -l -
  leasehold man --dir ~/.local/share/man/man1     one page per command")]
pub(crate) struct Man {
    /// The command to describe [default: leasehold itself]
    #[arg(conflicts_with = "dir")]
    pub(crate) command: Option<String>,

    /// Write a page per command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
