//! What may be taken as a repository (DM-01), and which repository a linked worktree belongs to. It changes nothing.

use super::context::Context;
use super::exit::Refused;
use crate::repository::{Repository, StateDir, repositories};
use crate::route;
use std::path::{Path, PathBuf};

/// What is to happen in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// A daemon watches it.
    Watch,
    /// A verb, perhaps one that begins a protocol there.
    Verb,
}

/// Refuses a folder that hardly anybody means. One that is known already, or that `repos:` names, is meant.
pub(super) fn check(context: &Context, root: &Path, wish: Wish) -> anyhow::Result<()> {
    let Some(why) = problem(context, root, wish) else { return Ok(()) };
    let known = repositories(&context.state_dir()?)?;
    if known.iter().any(|known| known.path == root) || is_configured(context, root) {
        return Ok(());
    }
    let path = root.display();
    let anyway = match wish {
        Wish::Watch => format!("agency run --force {path}"),
        Wish::Verb => format!("add `- path: {path}` to `repos:` in agency.yaml"),
    };
    Err(Refused(format!("`{path}` {why}. If you mean it: {anyway}")).into())
}

fn is_configured(context: &Context, root: &Path) -> bool {
    let is_here = |path: &Path| path.canonicalize().is_ok_and(|path| path == root);
    context.config().is_ok_and(|config| config.repos.iter().any(|entry| is_here(&entry.path)))
}

fn problem(context: &Context, root: &Path, wish: Wish) -> Option<&'static str> {
    let home = context.env.get("HOME").and_then(|home| Path::new(home).canonicalize().ok());
    if root == Path::new("/") {
        return Some("is the root of the file system: go to a repository, or name one with --repo");
    }
    if home.as_deref() == Some(root) {
        return Some("is your home folder: go to a repository, or name one with --repo");
    }
    if is_bare(root) {
        return Some("is a bare repository, which has no files to work on: git clone it first");
    }
    let plain = wish == Wish::Watch && !root.join(".git").exists() && !shows_protocol(root);
    plain.then_some(
        "is not a git repository and has no files of a protocol: go to a repository, or make one with git init",
    )
}

fn is_bare(root: &Path) -> bool {
    let has = |name: &str| root.join(name).exists();
    !has(".git") && has("HEAD") && has("objects") && has("refs")
}

fn shows_protocol(root: &Path) -> bool {
    let files = route::marks().into_iter().map(|mark| mark.path);
    let trees = route::marked_trees().into_iter().map(|(_, tree)| tree.root);
    files.chain(trees).any(|path| root.join(path.as_str()).exists())
}

/// The repository that agency works in, where `root` is another worktree of it.
pub(super) fn main_of(root: &Path, state_dir: &StateDir) -> Option<PathBuf> {
    let link = std::fs::read_to_string(root.join(".git")).ok()?;
    let git_dir = root.join(link.strip_prefix("gitdir:")?.trim());
    let common = git_dir.parent().filter(|dir| dir.ends_with("worktrees"))?.parent()?;
    let id = Repository::look(root, Some(common), state_dir).ok()??.id;
    let known = repositories(state_dir).ok()?.into_iter().find(|known| known.id == id)?;
    (known.path != root && known.path.is_dir()).then_some(known.path)
}
