//! The accepted version of the state files, read again from its commit: what every edit is compared with, committed or not.
//! It asks nothing by itself; `history.rs` and `draft.rs` say when it is needed.

use super::FILE;
use super::board::Board;
use super::config::Config;
use super::index::Index;
use crate::model::{Change, CommitId, Digest, Fact, Query, RelPath, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Baseline {
    pub(super) commit: CommitId,
    pub(super) board: Board,
    /// What each file is known by, the contract's among them.
    pub(super) marks: BTreeMap<RelPath, String>,
}

/// What a file is known by without its bytes.
pub(super) fn mark(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

impl Index {
    /// The baseline, as far as it is that of the accepted version.
    pub(super) fn known_baseline(&self) -> Option<&Baseline> {
        let accepted = self.memory.accepted.as_ref()?;
        self.baseline.as_ref().filter(|baseline| baseline.commit == accepted.commit)
    }

    fn file_at(&self, commit: &CommitId, wanted: &RelPath) -> Option<&Fact> {
        let wanted = Query::FileAt { commit: commit.clone(), path: wanted.clone() };
        self.answers().find_map(|(query, fact)| (*query == wanted).then_some(fact))
    }

    /// The contract of a commit, if that was answered and is one.
    pub(super) fn contract_at(&self, commit: &CommitId) -> Option<Arc<Config>> {
        let fact = self.file_at(commit, &RelPath::fixed(FILE))?;
        bytes(fact).and_then(|bytes| Config::read(bytes).ok()).map(Arc::new)
    }

    /// Everything that a commit holds of ours, once all of it was answered.
    pub(super) fn read_baseline(&self, commit: &CommitId) -> Option<Baseline> {
        let mut marks = BTreeMap::new();
        let contract = bytes(self.file_at(commit, &RelPath::fixed(FILE))?);
        // A commit without a contract is judged by the one that lies there now.
        let config = self.contract_at(commit).or_else(|| self.config())?;
        marks.extend(contract.map(|bytes| (RelPath::fixed(FILE), mark(bytes))));
        let mut files = Vec::new();
        for path in self.state_paths_by(&config) {
            if let Some(bytes) = bytes(self.file_at(commit, &path)?) {
                marks.insert(path.clone(), mark(bytes));
                files.push((path, bytes.to_vec()));
            }
        }
        Some(Baseline { commit: commit.clone(), board: Board::read(&config, files), marks })
    }

    /// What a commit changed against the accepted one, if that was answered.
    pub(super) fn changes_of(&self, commit: &CommitId) -> Option<&[Change]> {
        let wanted = diff_query(&self.memory.accepted.as_ref()?.commit, commit);
        self.answers().find_map(|(query, fact)| {
            let Fact::Changes(changes) = fact else { return None };
            (*query == wanted).then_some(changes.as_slice())
        })
    }

    /// The files of ours among them.
    pub(super) fn wanted_of(&self, changes: &[Change]) -> Vec<RelPath> {
        let config = self.config();
        let ours = |path: &RelPath| {
            path.as_str() == FILE || config.as_ref().is_some_and(|config| config.is_state(path))
        };
        changes.iter().map(|change| change.path.clone()).filter(ours).collect()
    }

    /// The next version, from the accepted one and what the commit changed; `None` until all of it was answered.
    /// A contract that changed with it is read when the version is accepted.
    pub(super) fn step_baseline(&self, commit: &CommitId, changes: &[Change]) -> Option<Baseline> {
        let old = self.baseline.as_ref()?;
        let touched = self.wanted_of(changes);
        let mut marks = old.marks.clone();
        let kept = old.board.files.iter().filter(|file| !touched.contains(&file.path));
        let mut files: Vec<_> =
            kept.map(|file| (file.path.clone(), file.text.as_bytes().to_vec())).collect();
        for path in touched {
            marks.remove(&path);
            if let Some(bytes) = bytes(self.file_at(commit, &path)?) {
                marks.insert(path.clone(), mark(bytes));
                files.push((path, bytes.to_vec()));
            }
        }
        let config = &old.board.config;
        files.retain(|(path, _)| path.as_str() != FILE);
        let mut paths: Vec<RelPath> = files.iter().map(|(path, _)| path.clone()).collect();
        config.order(&mut paths);
        files.sort_by_key(|(path, _)| paths.iter().position(|known| known == path));
        Some(Baseline { commit: commit.clone(), board: Board::read(config, files), marks })
    }

    /// Answers of git that are none: it is held, or it cannot say.
    pub(super) fn unanswered(&self) -> Option<(&Query, &Fact)> {
        let ours = |query: &Query| {
            matches!(query, Query::FileAt { .. } | Query::Diff { .. } | Query::Range { .. })
        };
        let none = |(query, fact): &(&Query, &Fact)| {
            matches!(fact, Fact::GitHeld(_))
                || (matches!(fact, Fact::Unknown(_) | Fact::NoGit) && ours(query))
        };
        self.answers().find(none)
    }
}

/// Every file that the commits between these two changed, also where a later one undid it (CD-30).
pub(super) fn touched_query(from: &CommitId, to: &CommitId) -> Query {
    Query::Touched { from: from.clone(), to: to.clone() }
}

pub(super) fn diff_query(from: &CommitId, to: &CommitId) -> Query {
    Query::Diff { from: TreeId::new(from.as_str()), to: TreeId::new(to.as_str()) }
}

fn bytes(fact: &Fact) -> Option<&[u8]> {
    if let Fact::File(Some(bytes)) = fact { Some(&bytes.0) } else { None }
}
