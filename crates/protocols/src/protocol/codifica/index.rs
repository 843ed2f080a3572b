//! Everything the keeper knows right now. Derived: journal and files rebuild it at any time. It decides nothing.

use super::baseline::{Baseline, diff_query, mark};
use super::board::Board;
use super::config::Config;
use super::finding::Finding;
use super::memory::Memory;
use super::scope::is_image;
use super::{FILE, STATE_MAX, history};
use crate::engine::InFlight;
use crate::model::{
    Change, Checkout, CommitId, CommitSeen, Fact, FileState, Key, Query, RelPath, TreeRef, Wake,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) memory: Memory,
    /// As it lies there now.
    config: Option<Result<Arc<Config>, Vec<Finding>>>,
    /// As it is in the accepted version: an edit of the contract counts when it is committed and judged.
    accepted_config: Option<Arc<Config>>,
    files: BTreeMap<RelPath, FileState>,
    /// The images of the evidence folder that lie there now, by their marks.
    pub(super) images: BTreeMap<RelPath, String>,
    board: Option<Board>,
    pub(super) checkout: Option<Checkout>,
    pub(super) in_flight: InFlight,
    /// The accepted version, as far as it was read again.
    pub(super) baseline: Option<Baseline>,
    /// What comes after it, oldest first.
    pub(super) waiting: Vec<CommitSeen>,
}

impl Index {
    pub(super) fn absorb(&mut self, wake: &Wake) {
        match wake {
            Wake::File(seen) => self.absorb_file(&seen.path, &seen.state),
            Wake::Checkout(checkout) => self.checkout = Some(checkout.clone()),
            Wake::Fact { key, .. } => {
                self.in_flight.absorb(wake);
                self.queue_commits(key);
            }
            Wake::Decided(decision) => {
                self.memory.take(decision);
                if decision.memo.iter().any(|memo| memo.name == "accepted") {
                    self.move_baseline();
                }
                self.in_flight.absorb(wake);
                self.forget_known_ends();
            }
            Wake::Run(_)
            | Wake::Deadline
            | Wake::Done { .. }
            | Wake::Leased { .. }
            | Wake::Failed { .. }
            | Wake::Command(_) => drop(self.in_flight.absorb(wake)),
        }
    }

    /// The answer that has just come may say which commits wait to be judged.
    fn queue_commits(&mut self, key: &Key) {
        if let Some((asked, Query::Range { to, .. }, Fact::Commits(commits))) =
            self.in_flight.answers().last()
            && asked == key
            && let Some(accepted) = &self.memory.accepted
        {
            self.waiting = history::line(commits, &accepted.commit, to).unwrap_or_default();
        }
    }

    /// An end whose run memory does not wait for any more is dealt with.
    fn forget_known_ends(&mut self) {
        let memory = &self.memory;
        self.in_flight.keep_ends(|run| {
            let noting =
                memory.noting.as_ref().is_some_and(|noting| noting.run.as_ref() == Some(run));
            noting || memory.jobs.values().any(|job| job.stage.run() == Some(run))
        });
    }

    /// The answers that no decision has used yet.
    pub(super) fn answers(&self) -> impl Iterator<Item = (&Query, &Fact)> {
        self.in_flight.answers().iter().map(|(_, query, fact)| (query, fact))
    }

    fn absorb_file(&mut self, path: &RelPath, state: &FileState) {
        if self.config().is_some_and(|config| config.is_asset(path) && !config.is_state(path)) {
            return self.absorb_image(path, state);
        }
        let same = |known: &FileState| match (known, state) {
            (FileState::Whole(a), FileState::Whole(b)) => a.digest == b.digest,
            (a, b) => a == b,
        };
        if self.files.get(path).is_some_and(same) {
            return;
        }
        if path.as_str() == FILE {
            self.config = match state {
                FileState::Whole(file) => Some(Config::read(&file.bytes).map(Arc::new)),
                FileState::Absent | FileState::Unreadable(_) => None,
            };
        }
        let known = self.files.insert(path.clone(), state.clone()).is_some();
        // A state file that we did not know of may be in the accepted version too.
        let asked = |baseline: &Baseline| baseline.marks.contains_key(path);
        if !known
            && self.config().is_some_and(|config| config.is_state(path))
            && !self.baseline.as_ref().is_some_and(asked)
        {
            self.baseline = None;
        }
        self.board = self.config().map(|config| self.read_board(&config));
    }

    /// Only what it is known by is kept of an image.
    fn absorb_image(&mut self, path: &RelPath, state: &FileState) {
        let now = match state {
            FileState::Whole(file) => Some(file.digest.to_string()),
            FileState::Unreadable(odd) => Some(mark(odd.found.as_bytes())),
            FileState::Absent => None,
        };
        match now.filter(|_| is_image(path)) {
            Some(now) => drop(self.images.insert(path.clone(), now)),
            None => drop(self.images.remove(path)),
        }
    }

    fn read_board(&self, config: &Arc<Config>) -> Board {
        let mut paths = self.state_paths();
        paths.retain(|path| matches!(self.files.get(path), Some(FileState::Whole(_))));
        let bytes = |path: &RelPath| match self.files.get(path) {
            Some(FileState::Whole(file)) => file.bytes.to_vec(),
            Some(FileState::Absent | FileState::Unreadable(_)) | None => Vec::new(),
        };
        let files = paths.into_iter().map(|path| {
            let bytes = bytes(&path);
            (path, bytes)
        });
        Board::read(config, files.collect())
    }

    /// The contract that counts.
    pub(super) fn config(&self) -> Option<Arc<Config>> {
        let now = || self.config.as_ref().and_then(|config| config.as_ref().ok()).cloned();
        self.accepted_config.clone().or_else(now)
    }

    pub(super) fn config_problems(&self) -> Option<&[Finding]> {
        self.config.as_ref().and_then(|config| config.as_ref().err()).map(Vec::as_slice)
    }

    /// The state files as they lie in the main tree.
    pub(super) fn board(&self) -> Option<&Board> {
        self.board.as_ref()
    }

    /// The version that tasks are handed out from and that says how far they are: claims are made on commits, so an edit that
    /// is in none does not count yet.
    pub(super) fn ruling_board(&self) -> Option<&Board> {
        self.known_baseline().map(|baseline| &baseline.board).or(self.board())
    }

    /// What lies there of the contract and the state files: its mark, or `None` where it is not there.
    pub(super) fn marks(&self) -> BTreeMap<RelPath, Option<String>> {
        let mut paths = self.state_paths();
        paths.push(RelPath::fixed(FILE));
        let mark = |path: &RelPath| match self.files.get(path) {
            Some(FileState::Whole(file)) => Some(file.digest.to_string()),
            Some(FileState::Unreadable(odd)) => Some(mark(odd.found.as_bytes())),
            Some(FileState::Absent) | None => None,
        };
        paths.into_iter().map(|path| (path.clone(), mark(&path))).collect()
    }

    /// All state files by name: those that `state` names, and those that a glob has shown.
    pub(super) fn state_paths(&self) -> Vec<RelPath> {
        self.config().map(|config| self.state_paths_by(&config)).unwrap_or_default()
    }

    /// Those that the accepted version had are among them: a file that is gone had tasks too.
    pub(super) fn state_paths_by(&self, config: &Config) -> Vec<RelPath> {
        let named = config.state.iter().filter_map(|pattern| pattern.plain());
        let accepted = self.memory.accepted.iter().flat_map(|accepted| &accepted.paths);
        let shown = self.files.keys().chain(accepted).filter(|path| config.is_state(path)).cloned();
        let mut paths: Vec<_> = named.chain(shown).collect::<BTreeSet<_>>().into_iter().collect();
        config.order(&mut paths);
        paths
    }

    /// State files that could not be read at all.
    pub(super) fn unreadable(&self) -> Option<(&RelPath, String)> {
        self.files.iter().find_map(|(path, state)| match state {
            FileState::Unreadable(odd) => Some((
                path,
                format!("{}; wanted {} of at most {STATE_MAX} bytes", odd.found, odd.wanted),
            )),
            FileState::Absent | FileState::Whole(_) => None,
        })
    }

    /// CD-26: what the contract names and is not there, in words.
    pub(super) fn missing(&self) -> Option<String> {
        let config = self.config()?;
        let gone = |path: &RelPath| self.files.get(path) == Some(&FileState::Absent);
        if gone(&config.spec) {
            return Some(format!("`{}`, named as `spec`, is not there (CD-26)", config.spec));
        }
        let named = config.state.iter().filter_map(|pattern| pattern.plain());
        if let Some(path) = named.into_iter().find(gone) {
            return Some(format!("`{path}`, named as `state`, is not there (CD-26)"));
        }
        let globs = config.state.iter().all(|pattern| pattern.plain().is_none());
        let paths = self.state_paths_by(&config);
        // One that nobody has looked for yet is not missing.
        let none = globs && !paths.is_empty() && paths.iter().all(gone);
        let patterns: Vec<_> = config.state.iter().map(|pattern| pattern.text.as_str()).collect();
        none.then(|| format!("no file matches `state`: `{}` (CD-26)", patterns.join("`, `")))
    }

    /// After a version was accepted: what was answered about it becomes the baseline.
    fn move_baseline(&mut self) {
        let Some(accepted) = self.memory.accepted.clone() else { return };
        let commit = &accepted.commit;
        let changes = self.changes_since_baseline(commit);
        let contract =
            changes.as_ref().is_some_and(|all| all.iter().any(|it| it.path.as_str() == FILE));
        let next = match &changes {
            // A new contract may name other files: everything is read again.
            Some(_) if contract => None,
            Some(changes) => self.step_baseline(commit, changes),
            None => self.read_baseline(commit),
        };
        if let Some(next) = &next {
            self.accepted_config = Some(next.board.config.clone());
        } else if contract || self.baseline.is_none() {
            self.accepted_config = None;
        }
        self.baseline = next;
        self.board = self.config().map(|config| self.read_board(&config));
        let judged = self.waiting.iter().position(|waiting| waiting.id == *commit);
        self.waiting.drain(..judged.map_or(self.waiting.len(), |at| at + 1));
    }

    fn changes_since_baseline(&self, commit: &CommitId) -> Option<Vec<Change>> {
        let wanted = diff_query(&self.baseline.as_ref()?.commit, commit);
        self.answers().find_map(|(query, fact)| {
            let Fact::Changes(changes) = fact else { return None };
            (*query == wanted).then(|| changes.clone())
        })
    }

    /// The owner's checkout is on our branch, and nothing of theirs is under way in it.
    pub(super) fn is_at_home(&self) -> bool {
        let (Some(accepted), Some(checkout)) = (&self.memory.accepted, &self.checkout) else {
            return false;
        };
        checkout.branch.as_ref() == Some(&accepted.branch) && checkout.busy.is_none()
    }

    pub(super) fn asked_for(&self, tree: &TreeRef) -> bool {
        self.in_flight.is_granted(tree) || self.in_flight.is_leasing(tree)
    }

    pub(super) fn head(&self) -> Option<&CommitId> {
        self.checkout.as_ref().and_then(|checkout| checkout.head.as_ref())
    }
}
