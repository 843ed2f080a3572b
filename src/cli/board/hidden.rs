//! What git ignores of a board: evidence that no clone has, and rules that only this machine's tool reads. It asks git and changes
//! nothing: what the owner keeps out of git stays out.

use super::super::audit::Vault;
use super::super::context::runtime;
use crate::git::Repo;
use crate::model::RelPath;
use crate::protocol::board::adapters::{AIDER_CONFIG, LEGACY_CURSOR, Tool};
use crate::protocol::board::manifest::{self, Manifest};
use crate::protocol::board::{artifact, profile, risks, state};
use std::path::Path;

/// A file or folder of the board that git ignores.
pub(in super::super) struct Hidden {
    pub(in super::super) path: String,
    pub(in super::super) words: String,
}

/// One of each kind of file, and what a clone lacks without it.
fn evidence() -> [(String, String, &'static str); 9] {
    let one = |path: &str| path.to_owned();
    let stem = "2026-01-31/T0001-1200-task";
    [
        (one(manifest::PATH), one(manifest::PATH), "the board's settings"),
        (one(state::PATH), one(state::PATH), "the board's state"),
        (one(state::BOARD), one(state::BOARD), "the picture of the board"),
        (one(risks::PATH), one(risks::PATH), "the risks"),
        (one(artifact::DECISIONS), one(artifact::DECISIONS), "the record of overrides"),
        (one(profile::FOLDER), format!("{}/node.yml", profile::FOLDER), "the checks of the DoD"),
        (one(".kodingx/inbox"), format!(".kodingx/inbox/codex/{stem}.md"), "the tasks"),
        (one(".kodingx/outbox"), format!(".kodingx/outbox/codex/{stem}-report.md"), "the reports"),
        (
            one(".kodingx/verify"),
            format!(".kodingx/verify/{stem}.verify.json"),
            "the evidence that tasks are DONE",
        ),
    ]
}

/// What git ignores, evidence first. A repository that git cannot be asked about is named as one finding.
pub(in super::super) fn find(root: &Path, manifest: &Manifest) -> Vec<Hidden> {
    let evidence = evidence();
    let tool = Tool::parse(&manifest.orchestrator).unwrap_or(Tool::Other);
    let chosen = tool.file_here(|path| root.join(path).exists());
    let rules = [chosen, "CLAUDE.md", LEGACY_CURSOR, Tool::Cursor.file(), AIDER_CONFIG];
    let mut rules: Vec<&str> =
        rules.into_iter().filter(|path| root.join(path).symlink_metadata().is_ok()).collect();
    rules.sort_unstable();
    rules.dedup();
    let asked = evidence.iter().map(|(_, probe, _)| probe.as_str()).chain(rules.iter().copied());
    let ignored = match ignored(root, asked) {
        Ok(ignored) => ignored,
        Err(error) => {
            let words = format!("git could not say what it ignores: {error:#}");
            return vec![Hidden { path: ".gitignore".to_owned(), words }];
        }
    };
    let is_ignored = |path: &str| ignored.iter().any(|other| other.as_str() == path);
    let hidden: Vec<_> = evidence.iter().filter(|(_, probe, _)| is_ignored(probe)).collect();
    let mut found = Vec::new();
    if hidden.len() == evidence.len() {
        let words = "git ignores the whole board: a clone has no task and no evidence";
        found.push(Hidden { path: ".kodingx".to_owned(), words: words.to_owned() });
    } else {
        found.extend(hidden.into_iter().map(|(path, _, what)| Hidden {
            path: path.clone(),
            words: format!("git ignores it: a clone lacks {what}"),
        }));
    }
    found.extend(rules.into_iter().filter(|path| is_ignored(path)).map(|path| Hidden {
        path: path.to_owned(),
        words: "git ignores it: only this machine's tool reads the board's rules".to_owned(),
    }));
    found
}

/// Says at set-up what git ignores.
pub(super) fn tell(root: &Path, manifest: &Manifest) {
    for Hidden { path, words } in find(root, manifest) {
        anstream::eprintln!("note: `{path}`: {words}");
    }
}

fn ignored<'a>(root: &Path, paths: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<RelPath>> {
    let paths = paths.map(RelPath::new).collect::<Result<Vec<_>, _>>()?;
    runtime()?.block_on(async {
        let Some(git) = Repo::open(root).await? else { return Ok(Vec::new()) };
        let vault = Vault::new();
        git.guard(vault.0.clone(), None)?;
        Ok(git.ignored(&paths).await?)
    })
}
