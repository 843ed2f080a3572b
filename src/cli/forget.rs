//! `agency forget`: drops what agency remembers of a repository. The repository's own files stay as they are.

use super::context::{Context, root_of, runtime};
use super::escalations::refuse_agents;
use super::exit::{Exit, Misused, Refused};
use crate::clock;
use crate::control;
use crate::daemon::{Frozen, Life, daemons};
use crate::model::{CHECKS_TREE, Verb};
use crate::repository::{Known, Repository, repositories};
use crate::run::history::Today;
use crate::verbs::{OwnerVerb, RequestId};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A daemon that leaves a repository closes its journal first.
const LEAVING_MAX: Duration = Duration::from_secs(20);

/// Stop watching a repository and delete what agency remembers of it; the repository's files stay
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency forget ~/src/shop\n  agency forget /mnt/gone --yes      a repository that is no longer there\nDeleted: the journal, the logs of runs, open messages and quarantined files of this repository below the state directory."
)]
pub(super) struct Args {
    /// The repository, also one that is gone from the disk
    #[arg(value_name = "REPO")]
    at: PathBuf,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    refuse_agents()?;
    let path = match root_of(&args.at) {
        Ok(root) => root,
        Err(_) => std::path::absolute(&args.at)?,
    };
    let state_dir = context.state_dir()?;
    let all = repositories(&state_dir)?;
    let known: Vec<Known> = all.into_iter().filter(|known| known.path == path).collect();
    refuse_configured(context, &path)?;
    let left = frozen_lists(context, &path)?;
    if known.is_empty() && left.is_empty() {
        let why = format!("agency does not know `{}`", path.display());
        return Err(Misused(format!("{why}; `agency status` lists what it knows")).into());
    }
    for known in &known {
        refuse_alive(known)?;
        refuse_unmerged(known)?;
    }
    if !args.yes && !is_confirmed(&path)? {
        anstream::println!("nothing was changed");
        return Ok(Exit::Finding);
    }
    for known in &known {
        leave(context, known)?;
        Repository::forget(known, LEAVING_MAX)?;
    }
    for folder in left {
        Frozen::drop_from(&folder, &path)?;
    }
    anstream::println!("forgot `{}`; its own files are as they were", path.display());
    Ok(Exit::Fine)
}

/// The daemon would open it again at once.
fn refuse_configured(context: &Context, path: &Path) -> anyhow::Result<()> {
    let named = |entry: &Path| entry == path || root_of(entry).is_ok_and(|root| root == path);
    if !context.config()?.repos.iter().any(|entry| named(&entry.path)) {
        return Ok(());
    }
    let file = context.config_path()?.unwrap_or_default();
    Err(Refused(format!(
        "`{repo}` is in `repos:` of `{}`. Take that entry out (a running daemon notices it within seconds), then: agency forget {repo}",
        file.display(),
        repo = path.display()
    ))
    .into())
}

/// The folders of stopped daemons that list it as frozen. One that runs would list it again.
fn frozen_lists(context: &Context, path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let lists = |folder: &Path| Frozen::list(folder).iter().any(|frozen| frozen.path == path);
    let mut left = Vec::new();
    for seen in daemons(&context.state_dir()?).into_iter().filter(|seen| lists(&seen.folder)) {
        if let Life::Running { pid, .. } = seen.life {
            let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            return Err(Refused(format!(
                "the daemon{pid} was started with `{repo}` and tries to open it. Stop that daemon, then: agency forget {repo}",
                repo = path.display()
            ))
            .into());
        }
        left.push(seen.folder);
    }
    Ok(left)
}

fn refuse_alive(known: &Known) -> Result<(), Refused> {
    let look = Today::default().look(&known.folder.join("runs"), clock::now().wall);
    let Some(first) = look.running.first() else { return Ok(()) };
    let all: Vec<&str> = look.running.iter().map(|run| run.id.as_str()).collect();
    Err(Refused(format!(
        "runs are alive in `{repo}`: {}. Wait for them, or end one: agency stop {} --repo {repo}",
        all.join(", "),
        first.id,
        repo = known.path.display()
    )))
}

/// A worktree of ours exists as long as its work is neither merged nor given up.
fn refuse_unmerged(known: &Known) -> Result<(), Refused> {
    let entries = std::fs::read_dir(known.folder.join("worktrees")).into_iter().flatten();
    // Gates run in a checkout of ours that holds no work.
    let holds_work = |entry: &std::fs::DirEntry| entry.file_name() != CHECKS_TREE;
    let trees: Vec<PathBuf> =
        entries.flatten().filter(holds_work).map(|entry| entry.path()).collect();
    let Some(first) = trees.first() else { return Ok(()) };
    let all: Vec<String> = trees.iter().map(|tree| format!("`{}`", tree.display())).collect();
    Err(Refused(format!(
        "work that is not merged lies in {}. Let it be merged or cancel its task; or copy what you need and delete it: rm -r '{}'",
        all.join(", "),
        first.display()
    )))
}

fn is_confirmed(path: &Path) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let why = "this deletes the journal, the logs of runs and open messages of the repository";
        let repo = path.display();
        return Err(Misused(format!("{why}; say so: agency forget {repo} --yes")).into());
    }
    anstream::print!(
        "Forget `{}`? Its journal, logs of runs and open messages are deleted; its own files stay. [y/N] ",
        path.display()
    );
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// A daemon that works there stops its watch first.
fn leave(context: &Context, known: &Known) -> anyhow::Result<()> {
    let command =
        OwnerVerb::new(Verb::Forget, None, &[]).command(RequestId::fresh(), context.caller());
    let socket = known.folder.join("control.sock");
    match runtime()?.block_on(control::send(&socket, &known.lock, &command))? {
        Some(answer) if !answer.accepted => Err(Refused(answer.text).into()),
        Some(_) | None => Ok(()),
    }
}
