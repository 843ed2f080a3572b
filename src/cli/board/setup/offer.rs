//! AG-40: builders start only from what is committed, so `init` offers to commit `.kodingx/` and the rules files that it made. It
//! commits nothing by itself.

use super::super::super::audit::Vault;
use super::super::super::context::runtime;
use super::super::super::exit::{Misused, Refused};
use super::super::prompt::{Question, is_terminal};
use super::super::{bytes, folders};
use crate::clock;
use crate::git::{Committed, Repo};
use crate::model::{PlannedCommit, RelPath};
use std::path::Path;

const MESSAGE: &str = "Begin a task board";
const BY_HAND: &str = "git add .kodingx && git commit -m 'Begin a task board'";

/// What the owner said about committing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// By the flag.
    Commit,
    /// Asked at a terminal, where set-up changed something.
    Ask,
    /// Said, and not asked.
    Tell,
}

/// `made`: rules files outside of `.kodingx/` that did not exist before.
pub(super) fn offer(root: &Path, made: &[String], wish: Wish) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let Some(git) = Repo::open(root).await? else {
            return match wish {
                Wish::Commit => Err(Misused("there is no git repository here".to_owned()).into()),
                Wish::Ask | Wish::Tell => Ok(()),
            };
        };
        let vault = Vault::new();
        git.guard(vault.0.clone(), None)?;
        match plan(root, &git, made).await? {
            Plan::Nothing => Ok(()),
            Plan::No(why) => match wish {
                Wish::Commit => {
                    Err(Refused(format!("nothing is committed: {why}. Then: {BY_HAND}")).into())
                }
                Wish::Ask | Wish::Tell => {
                    tell();
                    Ok(())
                }
            },
            Plan::Commit(planned) if is_wanted(wish, &planned)? => commit(&git, &planned).await,
            Plan::Commit(_) => {
                tell();
                Ok(())
            }
        }
    })
}

fn tell() {
    anstream::eprintln!("note: builders start only when the board is committed: {BY_HAND} (AG-40)");
}

fn is_wanted(wish: Wish, planned: &PlannedCommit) -> anyhow::Result<bool> {
    match wish {
        Wish::Commit => Ok(true),
        Wish::Ask if is_terminal() => {
            let count = planned.changes.len();
            let what = format!("Commit these {count} files on `{}`", planned.branch);
            let question =
                Question { what: &what, flag: "commit", wanted: "yes or no", usual: Some("yes") };
            question.ask(None, |word| match word.to_lowercase().as_str() {
                "y" | "yes" => Some(true),
                "n" | "no" => Some(false),
                _ => None,
            })
        }
        Wish::Ask | Wish::Tell => Ok(false),
    }
}

enum Plan {
    /// All of it is committed, or kept out of git.
    Nothing,
    No(String),
    Commit(Box<PlannedCommit>),
}

async fn plan(root: &Path, git: &Repo, made: &[String]) -> anyhow::Result<Plan> {
    let checkout = git.checkout().await?;
    let mut paths = Vec::new();
    below(root, ".kodingx", &mut paths);
    paths.extend(made.iter().filter_map(|path| RelPath::new(path.clone()).ok()));
    let ignored = git.ignored(&paths).await?;
    paths.retain(|path| !ignored.contains(path));
    let mut write = Vec::new();
    for path in paths {
        if let Some(bytes) = bytes(root, path.as_str())? {
            write.push((path, bytes));
        }
    }
    let Some(branch) = checkout.branch.filter(|_| !write.is_empty()) else {
        return Ok(if write.is_empty() {
            Plan::Nothing
        } else {
            Plan::No("no branch is checked out; check one out".to_owned())
        });
    };
    let author = git.owner().await?;
    let (head, now) = (checkout.head.as_ref(), clock::now().wall);
    let planned = git.plan_by(author.as_ref(), &branch, head, &[], &write, MESSAGE, now).await?;
    if planned.changes.is_empty() {
        return Ok(Plan::Nothing);
    }
    if checkout.busy.is_some() {
        return Ok(Plan::No("git is in the middle of something; end it first".to_owned()));
    }
    Ok(Plan::Commit(Box::new(planned)))
}

/// The plain files of a folder, however deep.
fn below(root: &Path, folder: &str, paths: &mut Vec<RelPath>) {
    let dir = root.join(folder);
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let name = entry.file_name().into_string().ok().filter(|_| is_file);
        paths.extend(name.and_then(|name| RelPath::new(format!("{folder}/{name}")).ok()));
    }
    for (name, _) in folders(&dir) {
        below(root, &format!("{folder}/{name}"), paths);
    }
}

async fn commit(git: &Repo, planned: &PlannedCommit) -> anyhow::Result<()> {
    match git.commit(planned).await? {
        Committed::Done { .. } | Committed::Already { .. } => {
            let (count, branch) = (planned.changes.len(), &planned.branch);
            anstream::println!("committed {count} files on {branch}: {MESSAGE}");
            Ok(())
        }
        Committed::Moved { .. } => {
            let why = format!("`{}` moved meanwhile; nothing is committed", planned.branch);
            Err(Refused(format!("{why}. Run it again, or: {BY_HAND}")).into())
        }
    }
}
