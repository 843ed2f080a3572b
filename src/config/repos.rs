//! The `repos` of a configuration: which repositories the daemon looks after. It does not look at them.

use super::env::Env;
use super::value::{list, one_of, text};
use super::walk::{Spot, section};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoEntry {
    /// Absolute; `~` is expanded.
    pub path: PathBuf,
    /// Empty: found from the repository's content.
    pub protocols: Vec<ProtocolName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolName {
    Loop,
    Board,
    Codifica,
    Handoff,
    Ledger,
}

const PROTOCOLS: &[(&str, ProtocolName)] = &[
    ("loop", ProtocolName::Loop),
    ("board", ProtocolName::Board),
    ("codifica", ProtocolName::Codifica),
    ("handoff", ProtocolName::Handoff),
    ("ledger", ProtocolName::Ledger),
];

impl ProtocolName {
    pub fn word(self) -> &'static str {
        let found = PROTOCOLS.iter().find(|(_, name)| *name == self);
        found.map(|(word, _)| *word).expect("BUG: every protocol has its word in the table")
    }
}

pub(super) fn read_repos(spot: &mut Spot<'_>, env: &Env) -> Option<Vec<RepoEntry>> {
    let repos = list(|spot| read_repo(spot, env))(spot)?;
    for (at, repo) in repos.iter().enumerate() {
        if repos[..at].iter().any(|earlier| earlier.path == repo.path) {
            let found = format!("`{}` twice", repo.path.display());
            spot.refuse_as(found, "each repository once", None);
        }
    }
    Some(repos)
}

fn read_repo(spot: &mut Spot<'_>, env: &Env) -> Option<RepoEntry> {
    section(spot, |keys| {
        let path = keys.need("path", "the repository's folder", |spot| read_path(spot, env));
        let protocols = keys.get("protocols", list(one_of(PROTOCOLS))).unwrap_or_default();
        Some(RepoEntry { path: path?, protocols })
    })?
}

fn read_path(spot: &mut Spot<'_>, env: &Env) -> Option<PathBuf> {
    let written = text(spot)?;
    let Some(path) = env.expand(&written) else {
        spot.refuse_as("`~` while HOME is not set", "an absolute path", None);
        return None;
    };
    if !path.is_absolute() {
        spot.refuse("an absolute path, or one that starts with `~/`");
        return None;
    }
    Some(path)
}
