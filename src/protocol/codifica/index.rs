//! Everything the keeper knows right now. Derived: journal and files rebuild it at any time. It decides nothing.

use super::board::Board;
use super::config::Config;
use super::finding::Finding;
use super::memory::Memory;
use super::{FILE, STATE_MAX, history};
use crate::model::{
    Checkout, Command, CommitId, CommitSeen, Effect, Fact, Failure, FileState, Key, Query, RelPath,
    RunEnd, RunEvent, TreeRef, Wake,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) memory: Memory,
    config: Option<Result<Arc<Config>, Vec<Finding>>>,
    files: BTreeMap<RelPath, FileState>,
    board: Option<Board>,
    pub(super) checkout: Option<Checkout>,
    in_flight: BTreeMap<Key, Effect>,
    /// Answers that no decision has used yet.
    pub(super) answers: Vec<(Query, Fact)>,
    pub(super) failed: Option<(Effect, Failure)>,
    pub(super) ended: Vec<RunEnd>,
    pub(super) granted: BTreeSet<TreeRef>,
    pub(super) commands: Vec<Command>,
    /// The accepted version, as far as it was read again.
    pub(super) baseline: Option<(CommitId, Board)>,
    /// What comes after it, oldest first.
    pub(super) waiting: Vec<CommitSeen>,
}

impl Index {
    pub(super) fn absorb(&mut self, wake: &Wake) {
        match wake {
            Wake::File(seen) => self.absorb_file(&seen.path, &seen.state),
            Wake::Checkout(checkout) => self.checkout = Some(checkout.clone()),
            Wake::Run(RunEvent::Ended(end)) => self.ended.push(end.clone()),
            Wake::Run(RunEvent::Started { .. }) | Wake::Deadline => {}
            Wake::Fact { key, value } => {
                if let Some(Effect::Ask { query }) = self.in_flight.remove(key) {
                    self.queue_commits(&query, value);
                    self.answers.push((query, value.clone()));
                }
            }
            Wake::Decided(decision) => {
                self.memory.take(decision);
                if decision.memo.iter().any(|memo| memo.name == "accepted") {
                    self.move_baseline();
                }
                self.answers.clear();
                self.failed = None;
                self.forget_known_ends();
                for keyed in &decision.effects {
                    self.absorb_intent(&keyed.effect);
                    self.in_flight.insert(keyed.key.clone(), keyed.effect.clone());
                }
            }
            Wake::Done { key } => drop(self.in_flight.remove(key)),
            Wake::Leased { tree } => drop(self.granted.insert(tree.clone())),
            Wake::Failed { key, effect, failure } => {
                self.in_flight.remove(key);
                self.failed = Some((effect.clone(), failure.clone()));
            }
            Wake::Command(command) => self.commands.push(command.clone()),
        }
    }

    fn queue_commits(&mut self, query: &Query, fact: &Fact) {
        if let (Query::Range { to, .. }, Fact::Commits(commits)) = (query, fact)
            && let Some(accepted) = &self.memory.accepted
        {
            self.waiting = history::line(commits, &accepted.commit, to).unwrap_or_default();
        }
    }

    fn absorb_intent(&mut self, effect: &Effect) {
        match effect {
            Effect::Reply { command, .. } => self.commands.retain(|known| known.id != *command),
            Effect::Spawn(spawn) => drop(self.granted.remove(&spawn.tree)),
            Effect::Release { tree } => drop(self.granted.remove(tree)),
            Effect::Replace { .. }
            | Effect::Take { .. }
            | Effect::Move { .. }
            | Effect::Create { .. }
            | Effect::Amend { .. }
            | Effect::Copy { .. }
            | Effect::Ask { .. }
            | Effect::Lease { .. }
            | Effect::Stop { .. }
            | Effect::Commit(_)
            | Effect::Merge(_)
            | Effect::Worktree(_)
            | Effect::DropWorktree { .. }
            | Effect::Ref { .. }
            | Effect::Push { .. }
            | Effect::Escalate(_)
            | Effect::Resolve { .. }
            | Effect::Log(_) => {}
        }
    }

    /// An end whose run memory does not wait for any more is dealt with.
    fn forget_known_ends(&mut self) {
        let memory = &self.memory;
        self.ended.retain(|end| {
            let noting =
                memory.noting.as_ref().is_some_and(|noting| noting.run.as_ref() == Some(&end.run));
            noting || memory.jobs.values().any(|job| job.stage.run() == Some(&end.run))
        });
    }

    fn absorb_file(&mut self, path: &RelPath, state: &FileState) {
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
            self.baseline = None;
        }
        let known = self.files.insert(path.clone(), state.clone()).is_some();
        // A state file that we did not know of was in the accepted version too.
        if !known && self.config().is_some_and(|config| config.is_state(path)) {
            self.baseline = None;
        }
        self.board = self.config().map(|config| self.read_board(&config));
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

    pub(super) fn config(&self) -> Option<Arc<Config>> {
        self.config.as_ref().and_then(|config| config.as_ref().ok()).cloned()
    }

    pub(super) fn config_problems(&self) -> Option<&[Finding]> {
        self.config.as_ref().and_then(|config| config.as_ref().err()).map(Vec::as_slice)
    }

    /// The state files as they lie in the main tree.
    pub(super) fn board(&self) -> Option<&Board> {
        self.board.as_ref()
    }

    /// All state files by name: those that `state` names, and those that a glob has shown.
    pub(super) fn state_paths(&self) -> Vec<RelPath> {
        let Some(config) = self.config() else { return Vec::new() };
        let named = config.state.iter().filter_map(|pattern| pattern.plain());
        let shown = self.files.keys().filter(|path| config.is_state(path)).cloned();
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

    /// The files of a commit, if all of them were answered.
    pub(super) fn board_at(&self, commit: &CommitId) -> Option<Board> {
        let config = self.config()?;
        let mut files = Vec::new();
        for wanted in self.state_paths() {
            let answer = self.answers.iter().find_map(|(query, fact)| match (query, fact) {
                (Query::FileAt { commit: at, path }, fact) if at == commit && *path == wanted => {
                    Some(fact)
                }
                _ => None,
            });
            // What cannot be had is as good as absent; asking again would not help.
            if let Fact::File(Some(bytes)) = answer? {
                files.push((wanted, bytes.0.clone()));
            }
        }
        Some(Board::read(&config, files))
    }

    fn move_baseline(&mut self) {
        let Some(accepted) = self.memory.accepted.clone() else { return };
        let known = self.board_at(&accepted.commit).filter(|_| !self.answers.is_empty());
        self.baseline = known.map(|board| (accepted.commit.clone(), board));
        let judged = self.waiting.iter().position(|commit| commit.id == accepted.commit);
        self.waiting.drain(..judged.map_or(self.waiting.len(), |at| at + 1));
    }

    /// Something of ours is under way; deciding waits for it. A wait for a lease never blocks.
    pub(super) fn is_busy(&self) -> bool {
        let waits = |effect: &Effect| {
            matches!(effect, Effect::Lease { .. } | Effect::Stop { .. } | Effect::Push { .. })
        };
        self.in_flight.values().any(|effect| !waits(effect))
    }

    pub(super) fn asked_for(&self, tree: &TreeRef) -> bool {
        self.granted.contains(tree)
            || self
                .in_flight
                .values()
                .any(|effect| matches!(effect, Effect::Lease { tree: asked, .. } if asked == tree))
    }

    pub(super) fn head(&self) -> Option<&CommitId> {
        self.checkout.as_ref().and_then(|checkout| checkout.head.as_ref())
    }

    pub(super) fn end_of(&self, run: &crate::model::RunId) -> Option<&RunEnd> {
        self.ended.iter().find(|end| end.run == *run)
    }
}
