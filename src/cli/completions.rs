//! `agency completions` and `agency man`: written from the same definitions that parse the command line.

use super::Cli;
use super::exit::{Exit, Misused};
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Completions for your shell, on stdout
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency completions bash > ~/.local/share/bash-completion/completions/agency\n  agency completions zsh > ~/.zfunc/_agency\n  agency completions fish > ~/.config/fish/completions/agency.fish"
)]
pub(super) struct CompletionArgs {
    shell: Shell,
}

/// The manual: one page on stdout, or all of them into a folder
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency man | man -l -\n  agency man --to ~/.local/share/man/man1"
)]
pub(super) struct ManArgs {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(super) fn complete(args: &CompletionArgs) -> anyhow::Result<Exit> {
    clap_complete::generate(args.shell, &mut Cli::command(), "agency", &mut std::io::stdout());
    Ok(Exit::Fine)
}

pub(super) fn man(args: &ManArgs) -> anyhow::Result<Exit> {
    match &args.to {
        None => clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?,
        Some(dir) => write_all(dir)?,
    }
    Ok(Exit::Fine)
}

fn write_all(dir: &Path) -> anyhow::Result<()> {
    if !dir.is_dir() {
        return Err(Misused(format!("`{}` is not a folder", dir.display())).into());
    }
    clap_mangen::generate_to(Cli::command(), dir)?;
    let pages = std::fs::read_dir(dir)?.count();
    writeln!(anstream::stderr(), "{pages} pages are in `{}`", dir.display())?;
    Ok(())
}
