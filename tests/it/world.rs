//! An in-memory shell: files, git, runs and a journal as plain values, so that the pure part can be tested by the thousand.
//! It performs effects the way the real shell promises to, and can be killed between any two of them.

use agency::model::*;
use agency::protocol::Protocol;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) type Tree = BTreeMap<RelPath, Digest>;
pub(crate) type MakeProtocol = fn() -> Box<dyn Protocol>;

/// What lies at a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    File { bytes: Vec<u8>, written: Timestamp },
    Odd(Unreadable),
}

#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) id: CommitId,
    pub(crate) parent: Option<CommitId>,
    pub(crate) tree: Tree,
    pub(crate) message: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Record {
    /// The decision of this number.
    Decided(usize),
    Done(Key),
    Failed {
        key: Key,
        effect: Effect,
        failure: Failure,
    },
    /// Everything before it that still counts, as after a rotation of the real journal.
    Snapshot(Decision),
}

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) spawn: Spawn,
    pub(crate) end: Option<RunEnd>,
    pub(crate) told: bool,
    pub(crate) stop: Option<String>,
}

/// A worktree of ours: the branch it is on, and its files.
#[derive(Clone, Debug)]
pub(crate) struct Worktree {
    pub(crate) branch: String,
    pub(crate) files: BTreeMap<RelPath, Vec<u8>>,
}

/// The daemon was killed here.
#[derive(Debug)]
pub(crate) struct Killed;

pub(crate) struct World {
    make: MakeProtocol,
    pub(crate) protocol: Box<dyn Protocol>,
    pub(crate) now: Now,
    pub(crate) files: BTreeMap<RelPath, Entry>,
    pub(crate) branch: Option<String>,
    pub(crate) busy: Option<Busy>,
    pub(crate) busy_since: Option<Timestamp>,
    pub(crate) heads: BTreeMap<String, CommitId>,
    pub(crate) commits: BTreeMap<CommitId, Commit>,
    pub(crate) journal: Vec<Record>,
    pub(crate) runs: BTreeMap<RunId, Run>,
    pub(crate) escalations: Vec<Escalation>,
    pub(crate) resolved: Vec<Cause>,
    pub(crate) quarantine: Vec<(RelPath, Vec<u8>, String)>,
    pub(crate) replies: BTreeMap<String, Answer>,
    pub(crate) pushes: Vec<CommitId>,
    pub(crate) push_result: Result<(), Failure>,
    pub(crate) decisions: Vec<Decision>,
    /// How often the protocol was asked to decide, quiet answers included.
    pub(crate) asked: u64,
    pub(crate) git: bool,
    /// The owner commits once more, between our next plan and its commit.
    pub(crate) owner_is_faster: bool,
    pub(crate) worktrees: BTreeMap<String, Worktree>,
    /// How often a file was written, by its tree and path: what a file system's stamps tell.
    written: BTreeMap<(String, String), u64>,
    /// Bytes by digest, for what is merged, compared or read from a commit.
    pub(crate) blobs: BTreeMap<Digest, Vec<u8>>,
    /// Something was planted: git answers so many more times, then it is held with these words.
    pub(crate) planted: Option<(u32, String)>,
    trees: BTreeMap<TreeId, Tree>,
    pending: VecDeque<Keyed>,
    /// Effects left before the daemon dies; `None`: it lives.
    pub(crate) fuse: Option<u32>,
    seen: BTreeMap<RelPath, FileState>,
    /// What was hashed last at each path: most files do not change from one look to the next.
    hashed: RefCell<BTreeMap<RelPath, (Vec<u8>, Digest)>>,
}

impl World {
    pub(crate) fn new(make: MakeProtocol, now: Timestamp) -> Self {
        let ticks = Ticks(u64::try_from(now.timestamp_millis()).unwrap());
        Self {
            make,
            protocol: make(),
            now: Now { wall: now, ticks },
            files: BTreeMap::new(),
            branch: Some("main".to_owned()),
            busy: None,
            busy_since: None,
            heads: BTreeMap::new(),
            commits: BTreeMap::new(),
            journal: Vec::new(),
            runs: BTreeMap::new(),
            escalations: Vec::new(),
            resolved: Vec::new(),
            quarantine: Vec::new(),
            replies: BTreeMap::new(),
            pushes: Vec::new(),
            push_result: Ok(()),
            decisions: Vec::new(),
            asked: 0,
            git: true,
            owner_is_faster: false,
            worktrees: BTreeMap::new(),
            written: BTreeMap::new(),
            blobs: BTreeMap::new(),
            planted: None,
            trees: BTreeMap::new(),
            pending: VecDeque::new(),
            fuse: None,
            seen: BTreeMap::new(),
            hashed: RefCell::default(),
        }
    }

    pub(crate) fn pass(&mut self, time: std::time::Duration) {
        self.now.wall += time;
        self.now.ticks = self.now.ticks.after(time);
    }

    pub(crate) fn write(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.keep_bytes(&bytes);
        let name = format!("{:?}", TreeRef::Main);
        *self.written.entry((name, path.to_owned())).or_default() += 1;
        let entry = Entry::File { bytes, written: self.now.wall };
        self.files.insert(RelPath::new(path).unwrap(), entry);
    }

    fn keep_bytes(&mut self, bytes: &[u8]) {
        self.blobs.entry(Digest::of(bytes)).or_insert_with(|| bytes.to_vec());
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.files.remove(&RelPath::new(path).unwrap());
    }

    pub(crate) fn bytes(&self, path: &str) -> Option<&[u8]> {
        match self.files.get(&RelPath::new(path).unwrap())? {
            Entry::File { bytes, .. } => Some(bytes),
            Entry::Odd(_) => None,
        }
    }

    /// Everything that lies there, committed by the owner.
    pub(crate) fn commit_all(&mut self, message: &str) {
        let tree = self.tree();
        self.commit_tree(tree, message);
    }

    pub(crate) fn commit_tree(&mut self, tree: Tree, message: &str) {
        let branch = self.branch.clone().unwrap();
        let parent = self.heads.get(&branch).cloned();
        let id = commit_id(parent.as_ref(), &tree, message, self.now.wall);
        let commit = Commit { id: id.clone(), parent, tree, message: message.to_owned() };
        self.commits.insert(id.clone(), commit);
        self.heads.insert(branch, id);
    }

    pub(crate) fn head(&self) -> Option<&Commit> {
        self.commits.get(self.heads.get(self.branch.as_ref()?)?)
    }

    /// From the newest to the first.
    pub(crate) fn log(&self, branch: &str) -> Vec<&Commit> {
        let mut commits = Vec::new();
        let mut at = self.heads.get(branch);
        while let Some(commit) = at.and_then(|id| self.commits.get(id)) {
            commits.push(commit);
            at = commit.parent.as_ref();
        }
        commits
    }

    pub(crate) fn tree(&self) -> Tree {
        let plain = |(path, entry): (&RelPath, &Entry)| match entry {
            Entry::File { bytes, .. } => Some((path.clone(), self.digest(path, bytes))),
            Entry::Odd(_) => None,
        };
        self.files.iter().filter_map(plain).collect()
    }

    fn digest(&self, path: &RelPath, bytes: &[u8]) -> Digest {
        let mut hashed = self.hashed.borrow_mut();
        match hashed.get(path) {
            Some((known, digest)) if known == bytes => digest.clone(),
            _ => {
                let digest = Digest::of(bytes);
                hashed.insert(path.clone(), (bytes.to_vec(), digest.clone()));
                digest
            }
        }
    }

    pub(crate) fn tree_of(&self, tree: &TreeRef) -> Tree {
        match tree {
            TreeRef::Main => self.tree(),
            TreeRef::Worktree(name) => {
                let files = self.worktrees.get(name).map(|tree| tree.files.iter());
                files
                    .into_iter()
                    .flatten()
                    .map(|(p, bytes)| (p.clone(), Digest::of(bytes)))
                    .collect()
            }
        }
    }

    /// Writes into a worktree of ours, as its agent would.
    pub(crate) fn write_in(&mut self, worktree: &str, path: &str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.keep_bytes(&bytes);
        let name = format!("{:?}", TreeRef::Worktree(worktree.to_owned()));
        *self.written.entry((name, path.to_owned())).or_default() += 1;
        let tree = self.worktrees.get_mut(worktree).expect("the worktree was made");
        tree.files.insert(RelPath::new(path).unwrap(), bytes);
    }

    /// Commits everything that lies in a worktree of ours, as its agent would.
    pub(crate) fn commit_in(&mut self, worktree: &str, message: &str) {
        let branch = self.worktrees[worktree].branch.clone();
        let tree = self.tree_of(&TreeRef::Worktree(worktree.to_owned()));
        let parent = self.heads.get(&branch).cloned();
        let id = commit_id(parent.as_ref(), &tree, message, self.now.wall);
        let commit = Commit { id: id.clone(), parent, tree, message: message.to_owned() };
        self.commits.insert(id.clone(), commit);
        self.heads.insert(branch, id);
    }

    fn checkout_of(&self, tree: &TreeRef) -> Checkout {
        let TreeRef::Worktree(name) = tree else { return self.checkout() };
        let branch = self.worktrees.get(name).map(|tree| tree.branch.clone());
        let head = branch.as_ref().and_then(|branch| self.heads.get(branch)).cloned();
        Checkout { branch, head, busy: None, busy_since: None }
    }

    pub(crate) fn checkout(&self) -> Checkout {
        let head = self.branch.as_ref().and_then(|branch| self.heads.get(branch)).cloned();
        let (busy, busy_since) = (self.busy, self.busy_since);
        Checkout { branch: self.branch.clone(), head, busy, busy_since }
    }

    pub(crate) fn alive(&self) -> Option<&Run> {
        self.runs.values().find(|run| run.end.is_none())
    }

    pub(crate) fn end_run(&mut self, run: &RunId, outcome: Outcome) {
        self.end_run_saying(run, outcome, None);
    }

    /// The same, with the last message of an agent that may not write.
    pub(crate) fn end_run_saying(&mut self, run: &RunId, outcome: Outcome, said: Option<String>) {
        let end = RunEnd {
            run: run.clone(),
            outcome,
            ended_at: self.now.wall,
            tail: "tail".to_owned(),
            exit_code: None,
            usage: Usage::default(),
            said,
        };
        self.runs.get_mut(run).unwrap().end = Some(end);
    }

    pub(crate) fn command(&mut self, verb: Verb, args: &[(&str, &str)]) -> String {
        let id = format!("c{}", self.decisions.len());
        let args = args.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let by = "owner".to_owned();
        let command =
            Command { id: id.clone(), protocol: None, verb, args, by, from: String::new() };
        self.protocol.absorb(&Wake::Command(command));
        id
    }

    /// Looks at files and checkout; tells what is new, then ends of runs.
    pub(crate) fn look(&mut self) {
        if self.git {
            self.protocol.absorb(&Wake::Checkout(self.checkout()));
        }
        for path in self.watched() {
            if !self.is_as_seen(&path) {
                let state = self.state_of(&path);
                self.seen.insert(path.clone(), state.clone());
                self.protocol.absorb(&Wake::File(FileSeen { path, state }));
            }
        }
        for run in self.runs.values_mut().filter(|run| !run.told) {
            if let Some(end) = &run.end {
                run.told = true;
                self.protocol.absorb(&Wake::Run(RunEvent::Ended(Box::new(end.clone()))));
            }
        }
    }

    fn is_as_seen(&self, path: &RelPath) -> bool {
        match (self.files.get(path), self.seen.get(path)) {
            (None, Some(FileState::Absent)) => true,
            (Some(Entry::Odd(now)), Some(FileState::Unreadable(before))) => *now == **before,
            (Some(Entry::File { bytes, written }), Some(FileState::Whole(before))) => {
                before.written == *written && *before.bytes == **bytes
            }
            _ => false,
        }
    }

    /// Named files, files that lie in watched trees, and those that did when we last looked.
    fn watched(&self) -> BTreeSet<RelPath> {
        let interest = self.protocol.interest();
        let within = |path: &RelPath| {
            interest.trees.iter().any(|tree| {
                let below = path.as_str().strip_prefix(tree.root.as_str());
                below.is_some_and(|rest| rest.starts_with('/'))
                    && tree.endings.iter().any(|ending| path.as_str().ends_with(ending.as_str()))
            })
        };
        let trees = !interest.trees.is_empty();
        let known = self.files.keys().chain(self.seen.keys()).filter(|_| trees);
        let mut paths: BTreeSet<_> = known.filter(|path| within(path)).cloned().collect();
        paths.extend(interest.files.into_iter().map(|file| file.path));
        paths
    }

    fn state_of(&self, path: &RelPath) -> FileState {
        match self.files.get(path) {
            None => FileState::Absent,
            Some(Entry::Odd(odd)) => FileState::Unreadable(Box::new(odd.clone())),
            Some(Entry::File { bytes, written }) => {
                let digest = self.digest(path, bytes);
                let seen = match self.seen.get(path) {
                    Some(FileState::Whole(file)) if file.digest == digest => file.seen,
                    _ => self.now,
                };
                let bytes = bytes.as_slice().into();
                FileState::Whole(Box::new(WholeFile { bytes, digest, written: *written, seen }))
            }
        }
    }

    /// Looks, decides and acts until nothing is left to do now.
    pub(crate) fn settle(&mut self) -> Result<(), Killed> {
        for _ in 0..200 {
            self.look();
            let decision = self.protocol.decide(self.now);
            assert_eq!(decision, self.protocol.decide(self.now), "the same facts, another answer");
            self.asked += 2;
            if decision.is_quiet() {
                self.check_moves(&decision);
                return Ok(());
            }
            self.journal.push(Record::Decided(self.decisions.len()));
            self.decisions.push(decision);
            self.burn()?;
            self.absorb_last_decision();
            self.apply_pending()?;
        }
        panic!(
            "the protocol is never quiet: {:#?}",
            self.decisions.iter().rev().take(3).collect::<Vec<_>>()
        );
    }

    /// DM-17, after every step of every simulation: what should move has something that moves it.
    fn check_moves(&self, decision: &Decision) {
        let condition = self.protocol.condition(self.now);
        assert_eq!(condition, self.protocol.condition(self.now), "the same facts, another answer");
        // A scenario may begin with a run that this world did not start.
        let is_alive = |run: &RunId| self.runs.get(run).is_none_or(|run| run.end.is_none());
        let activity = Activity {
            has_live_run: match condition.run() {
                Some(live) => is_alive(&live.run),
                None => self.alive().is_some(),
            },
            has_deadline: decision.next_deadline.is_some(),
            effects_in_flight: self.pending.len(),
        };
        if let Some(stall) = stalled(&condition, activity) {
            panic!(
                "DM-17: {} stands still; it is {}\nlast: {:#?}",
                self.protocol.name(),
                stall.claims,
                self.decisions.last()
            );
        }
    }

    fn absorb_last_decision(&mut self) {
        let wake = Wake::Decided(self.decisions.pop().expect("there is one"));
        self.protocol.absorb(&wake);
        let Wake::Decided(decision) = wake else { unreachable!("it was put in above") };
        self.pending.extend(decision.effects.iter().cloned());
        self.decisions.push(decision);
    }

    fn burn(&mut self) -> Result<(), Killed> {
        match &mut self.fuse {
            Some(0) => Err(Killed),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn apply_pending(&mut self) -> Result<(), Killed> {
        // What is not finished when the daemon dies is found again in the journal.
        while let Some(keyed) = self.pending.pop_front() {
            let wake = self.apply(&keyed);
            self.burn()?;
            if let Wake::Failed { key, effect, failure } = wake.clone() {
                self.journal.push(Record::Failed { key, effect, failure });
                self.protocol.absorb(&Wake::Checkout(self.checkout()));
            } else {
                self.journal.push(Record::Done(keyed.key.clone()));
            }
            if let Wake::Leased { .. } = wake {
                self.protocol.absorb(&Wake::Done { key: keyed.key.clone() });
            }
            self.protocol.absorb(&wake);
            self.burn()?;
        }
        Ok(())
    }

    /// A new daemon on the same disk: journal, then unfinished effects, then everything is looked at again.
    pub(crate) fn restart(&mut self) -> Result<(), Killed> {
        self.protocol = (self.make)();
        self.seen.clear();
        let mut open: Vec<Keyed> = Vec::new();
        for record in &self.journal {
            match record {
                Record::Decided(number) => {
                    let decision = self.decisions[*number].clone();
                    open.extend(decision.effects.iter().cloned());
                    self.protocol.absorb(&Wake::Decided(decision));
                }
                Record::Snapshot(decision) => {
                    open.extend(decision.effects.iter().cloned());
                    self.protocol.absorb(&Wake::Decided(decision.clone()));
                }
                Record::Done(key) => {
                    self.protocol.absorb(&Wake::Done { key: key.clone() });
                    open.retain(|keyed| keyed.key != *key);
                }
                Record::Failed { key, effect, failure } => {
                    let (effect, failure) = (effect.clone(), failure.clone());
                    self.protocol.absorb(&Wake::Failed { key: key.clone(), effect, failure });
                    open.retain(|keyed| keyed.key != *key);
                }
            }
        }
        for run in self.runs.values_mut() {
            run.told = false;
        }
        self.protocol.absorb(&Wake::Checkout(self.checkout()));
        self.pending = open.into();
        self.apply_pending()
    }

    /// The journal begins anew with what still counts: memory, unfinished effects, and how many decisions there were.
    pub(crate) fn rotate(&mut self) {
        let mut memory: BTreeMap<String, serde_json::Value> = BTreeMap::new();
        let mut open: Vec<Keyed> = Vec::new();
        let mut failed = None;
        for record in self.journal.drain(..) {
            let decision = match &record {
                Record::Failed { key, .. } => {
                    open.retain(|keyed| keyed.key != *key);
                    failed = Some(record);
                    continue;
                }
                Record::Decided(number) => &self.decisions[*number],
                Record::Snapshot(decision) => decision,
                Record::Done(key) => {
                    open.retain(|keyed| keyed.key != *key);
                    continue;
                }
            };
            failed = None;
            open.extend(decision.effects.iter().cloned());
            for memo in &decision.memo {
                match &memo.value {
                    Some(value) => memory.insert(memo.name.clone(), value.clone()),
                    None => memory.remove(&memo.name),
                };
            }
        }
        memory.insert("count".to_owned(), self.decisions.len().into());
        let memo = memory.into_iter().map(|(name, value)| Memo { name, value: Some(value) });
        let snapshot = Decision { memo: memo.collect(), effects: open, ..Decision::default() };
        self.journal.push(Record::Snapshot(snapshot));
        // What nobody has decided about yet still counts.
        self.journal.extend(failed);
    }

    fn apply(&mut self, keyed: &Keyed) -> Wake {
        let done = Wake::Done { key: keyed.key.clone() };
        match &keyed.effect {
            Effect::Replace { path, bytes, seen } => self.replace(path, &bytes.0, seen.as_ref()),
            Effect::Create { path, bytes, under, start } => {
                let below = format!("{under}/");
                let taken = |other: &&RelPath| {
                    other.as_str().starts_with(&below)
                        && other.file_name().starts_with(start.as_str())
                        && *other != path
                };
                if self.files.keys().any(|other| taken(&other)) {
                    let (key, effect) = (keyed.key.clone(), keyed.effect.clone());
                    let failure = Failure { kind: FailureKind::Moved, said: "taken".to_owned() };
                    return Wake::Failed { key, effect, failure };
                }
                self.replace(path, &bytes.0, None);
            }
            Effect::Take { path, seen, why } => self.take(path, seen.as_ref(), why),
            Effect::Move { from, to, bytes, seen } => {
                if !self.relocate(from, to, &bytes.0, seen) {
                    let (key, effect) = (keyed.key.clone(), keyed.effect.clone());
                    let failure = Failure { kind: FailureKind::Moved, said: "moved".to_owned() };
                    return Wake::Failed { key, effect, failure };
                }
            }
            Effect::Amend { path, fields } => {
                if let Err(said) = self.amend(path, fields) {
                    let (key, effect) = (keyed.key.clone(), keyed.effect.clone());
                    let failure = Failure { kind: FailureKind::Broken, said };
                    return Wake::Failed { key, effect, failure };
                }
            }
            Effect::Copy { from, to, seen } => self.copy(from, to, seen),
            Effect::Ask { query } => {
                return Wake::Fact { key: keyed.key.clone(), value: self.answer(query) };
            }
            Effect::Lease { tree, .. } => return Wake::Leased { tree: tree.clone() },
            Effect::Release { .. } | Effect::Log(_) => {}
            Effect::Spawn(spawn) => {
                let others = self.runs.values().filter(|run| run.end.is_none());
                let mut here = others.filter(|run| run.spawn.tree == spawn.tree);
                assert!(here.all(|run| run.spawn.run == spawn.run), "two agents in one tree");
                let run = Run { spawn: (**spawn).clone(), end: None, told: false, stop: None };
                self.runs.entry(spawn.run.clone()).or_insert(run);
            }
            Effect::Stop { run, why } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.stop.get_or_insert_with(|| why.clone());
                }
            }
            Effect::Commit(_)
            | Effect::Merge(_)
            | Effect::Worktree(_)
            | Effect::DropWorktree { .. }
            | Effect::Ref { .. }
            | Effect::Push { .. } => return self.apply_to_git(keyed),
            Effect::Escalate(escalation) => {
                if !self.escalations.iter().any(|known| known.cause == escalation.cause) {
                    self.escalations.push((**escalation).clone());
                }
            }
            Effect::Resolve { cause, .. } => self.resolved.push(cause.clone()),
            Effect::Reply { command, answer } => {
                self.replies.insert(command.clone(), answer.clone());
            }
        }
        done
    }

    fn apply_to_git(&mut self, keyed: &Keyed) -> Wake {
        if matches!(keyed.effect, Effect::Commit(_) | Effect::Merge(_) | Effect::Push { .. })
            && let Some(said) = self.git_held()
        {
            return held(keyed, said);
        }
        match &keyed.effect {
            Effect::Commit(planned) => return self.commit(keyed, planned),
            Effect::Merge(planned) => {
                let wake = self.commit(keyed, planned);
                if matches!(wake, Wake::Done { .. })
                    && self.branch.as_ref() == Some(&planned.branch)
                {
                    self.bring_files(planned);
                }
                return wake;
            }
            Effect::Worktree(wanted) => self.add_worktree(wanted),
            Effect::DropWorktree { name, branch } => {
                self.worktrees.remove(name);
                let here =
                    |(branch, was): &&(String, CommitId)| self.heads.get(branch) == Some(was);
                if let Some((branch, _)) = branch.as_ref().filter(here) {
                    self.heads.remove(branch);
                }
            }
            Effect::Ref { name, was, to } => {
                let branch = name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
                let found = self.heads.get(&branch);
                if found != to.as_ref() && found != was.as_ref() {
                    return self.moved(keyed);
                }
                match to {
                    Some(to) => drop(self.heads.insert(branch, to.clone())),
                    None => drop(self.heads.remove(&branch)),
                }
            }
            Effect::Push { commit, .. } => match &self.push_result {
                Ok(()) => self.pushes.push(commit.clone()),
                Err(failure) => {
                    let (key, effect) = (keyed.key.clone(), keyed.effect.clone());
                    return Wake::Failed { key, effect, failure: failure.clone() };
                }
            },
            other => unreachable!("{other:?} is not git's"),
        }
        Wake::Done { key: keyed.key.clone() }
    }

    fn replace(&mut self, path: &RelPath, bytes: &[u8], seen: Option<&Digest>) {
        if let Some(Entry::File { bytes: old, .. }) = self.files.get(path)
            && old != bytes
            && seen != Some(&Digest::of(old))
        {
            self.quarantine.push((path.clone(), old.clone(), "swapped out".to_owned()));
        }
        self.write(path.as_str(), bytes);
    }

    fn take(&mut self, path: &RelPath, seen: Option<&Digest>, why: &str) {
        let bytes = match self.files.get(path) {
            Some(Entry::File { bytes, .. }) if seen == Some(&Digest::of(bytes)) => bytes.clone(),
            Some(Entry::Odd(_)) if seen.is_none() => Vec::new(),
            _ => return,
        };
        self.files.remove(path);
        self.quarantine.push((path.clone(), bytes, why.to_owned()));
    }

    fn relocate(&mut self, from: &RelPath, to: &RelPath, bytes: &[u8], seen: &Digest) -> bool {
        if self.bytes(from.as_str()).is_some_and(|old| Digest::of(old) == *seen) {
            self.files.remove(from);
            self.write(to.as_str(), bytes);
            return true;
        }
        self.bytes(to.as_str()) == Some(bytes)
    }

    fn amend(&mut self, path: &RelPath, fields: &[Field]) -> Result<(), String> {
        let old = self.bytes(path.as_str()).unwrap_or(b"{}");
        let mut value: serde_json::Value =
            serde_json::from_slice(without_bom(old)).map_err(|error| error.to_string())?;
        for field in fields {
            let (last, way) = field.at.split_last().unwrap();
            let mut at = &mut value;
            for name in way {
                let below = at.as_object_mut().ok_or("not an object")?.entry(name.clone());
                at = below.or_insert_with(|| serde_json::json!({}));
                if at.is_null() {
                    *at = serde_json::json!({});
                }
            }
            let object = at.as_object_mut().ok_or("not an object")?;
            match &field.value {
                Some(value) => drop(object.insert(last.clone(), value.clone())),
                None => drop(object.remove(last)),
            }
        }
        self.write(path.as_str(), serde_json::to_vec_pretty(&value).unwrap());
        Ok(())
    }

    fn copy(&mut self, from: &RelPath, to: &RelPath, seen: &Digest) {
        let Some(Entry::File { bytes, .. }) = self.files.get(from) else { return };
        if Digest::of(bytes) == *seen {
            let bytes = bytes.clone();
            let entry = Entry::File { bytes, written: self.now.wall };
            self.files.entry(to.clone()).or_insert(entry);
        }
    }

    fn moved(&self, keyed: &Keyed) -> Wake {
        let failure = Failure { kind: FailureKind::Moved, said: "the branch moved".to_owned() };
        Wake::Failed { key: keyed.key.clone(), effect: keyed.effect.clone(), failure }
    }

    fn commit(&mut self, keyed: &Keyed, planned: &PlannedCommit) -> Wake {
        let key = keyed.key.clone();
        if self.log(&planned.branch).iter().any(|commit| commit.id == planned.id) {
            return Wake::Done { key };
        }
        if std::mem::take(&mut self.owner_is_faster) {
            let tree = self.head().map(|commit| commit.tree.clone()).unwrap_or_default();
            self.commit_tree(tree, "the owner was faster");
        }
        if self.heads.get(&planned.branch) != planned.parent.as_ref() {
            return self.moved(keyed);
        }
        let commit = Commit {
            id: planned.id.clone(),
            parent: planned.parent.clone(),
            tree: self.trees[&planned.tree].clone(),
            message: planned.message.clone(),
        };
        self.commits.insert(planned.id.clone(), commit);
        self.heads.insert(planned.branch.clone(), planned.id.clone());
        Wake::Done { key }
    }

    fn git_held(&mut self) -> Option<String> {
        match &mut self.planted {
            Some((0, said)) => Some(said.clone()),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        }
    }

    fn answer(&mut self, query: &Query) -> Fact {
        if let Some(said) = self.git_held() {
            return Fact::GitHeld(said);
        }
        match query {
            Query::Snapshot { since, tree, .. } => {
                let checkout = self.checkout_of(tree);
                let tree = self.tree_of(tree);
                let head = checkout.head.as_ref().and_then(|id| self.commits.get(id));
                let head = head.map(|commit| commit.tree.clone()).unwrap_or_default();
                let before = since.as_ref().map(|id| self.trees[id].clone());
                let changed = before.map(|before| diff(&before, &tree)).unwrap_or_default();
                let refs = format!("{:?}", self.heads);
                Fact::Snapshot(Snapshot {
                    dirty: diff(&head, &tree).into_iter().map(|change| change.path).collect(),
                    changed,
                    checkout,
                    refs: Digest::of(refs.as_bytes()),
                    tree: self.keep_tree(tree),
                })
            }
            Query::Plan { branch, parent, take, write, message, date } => {
                let mut tree =
                    parent.as_ref().map(|id| self.commits[id].tree.clone()).unwrap_or_default();
                for change in take {
                    match &change.to {
                        Some((_, object)) => {
                            let digest = self.object(&change.path, object);
                            tree.insert(
                                change.path.clone(),
                                digest.expect("a taken object exists"),
                            );
                        }
                        None => drop(tree.remove(&change.path)),
                    }
                }
                for (path, bytes) in write {
                    self.keep_bytes(&bytes.0);
                    tree.insert(path.clone(), Digest::of(&bytes.0));
                }
                let id = commit_id(parent.as_ref(), &tree, message, *date);
                let before =
                    parent.as_ref().map(|id| self.commits[id].tree.clone()).unwrap_or_default();
                let changes = diff(&before, &tree);
                let (branch, parent) = (branch.clone(), parent.clone());
                let (message, date) = (message.clone(), *date);
                let tree = self.keep_tree(tree);
                let planned = PlannedCommit {
                    id,
                    tree,
                    branch,
                    parent,
                    merged: None,
                    author: None,
                    message,
                    date,
                    changes,
                };
                self.keep_commit(&planned);
                Fact::Planned(planned)
            }
            Query::Contains { branch, commit } => {
                if self.log(branch).iter().any(|known| known.id == *commit) {
                    Fact::Yes
                } else {
                    Fact::No
                }
            }
            other => self.answer_of_history(other),
        }
    }

    fn answer_of_history(&mut self, query: &Query) -> Fact {
        match query {
            Query::Merge { .. } => self.plan_merge(query),
            Query::Ignored { .. } => Fact::Paths(Vec::new()),
            Query::Tip { name } => {
                let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
                Fact::Tip(self.heads.get(branch).cloned())
            }
            Query::Branches { name } => {
                let tip = |tip: &CommitId| BranchTip { branch: name.clone(), tip: tip.clone() };
                Fact::Branches(self.heads.get(name).map(tip).into_iter().collect())
            }
            Query::Touched { from, to } => {
                let tree = |id: &CommitId| self.commits.get(id).map(|commit| commit.tree.clone());
                let mut paths = BTreeSet::new();
                for commit in self.range(Some(from), to) {
                    let parent = commit.parents.first().and_then(tree).unwrap_or_default();
                    let changes = diff(&parent, &tree(&commit.id).unwrap_or_default());
                    paths.extend(changes.into_iter().map(|change| change.path));
                }
                Fact::Paths(paths.into_iter().collect())
            }
            Query::Digest { path } => Fact::Digest(self.bytes(path.as_str()).map(Digest::of)),
            Query::Range { from, to } => Fact::Commits(self.range(from.as_ref(), to)),
            Query::Read { tree, path } => Fact::File(self.read(tree, path).map(Bytes)),
            Query::Diff { from, to } => {
                // As git does, a commit is taken for its tree.
                let of_commit = |id: &TreeId| self.commits.get(&CommitId::new(id.as_str()));
                let tree = |id: &TreeId| {
                    let known = self.trees.get(id).or_else(|| Some(&of_commit(id)?.tree));
                    known.cloned().unwrap_or_default()
                };
                Fact::Changes(diff(&tree(from), &tree(to)))
            }
            Query::FileAt { commit, path } => {
                let digest = self.commits.get(commit).and_then(|commit| commit.tree.get(path));
                Fact::File(digest.and_then(|digest| self.blobs.get(digest)).cloned().map(Bytes))
            }
            Query::Sides { from, to, paths } => {
                // As git does, a tree may stand in for a commit.
                let tree = |id: &CommitId| self.trees.get(&TreeId::new(id.as_str()));
                let before = from.as_ref().and_then(|id| {
                    self.commits.get(id).map(|commit| &commit.tree).or_else(|| tree(id))
                });
                let before = before.cloned().unwrap_or_default();
                let bytes = |tree: &Tree, path: &RelPath| {
                    tree.get(path).and_then(|digest| self.blobs.get(digest)).cloned().map(Bytes)
                };
                let side = |path: &RelPath| Sides {
                    path: path.clone(),
                    before: bytes(&before, path),
                    after: bytes(&self.trees[to], path),
                };
                Fact::Sides(paths.iter().map(side).collect())
            }
            other => self.answer_of_names(other),
        }
    }

    fn answer_of_names(&self, query: &Query) -> Fact {
        match query {
            Query::Named { commit, names } => {
                let tree = self.commits.get(commit).map(|commit| commit.tree.clone());
                let paths = tree.unwrap_or_default().into_keys();
                let wanted = |path: &RelPath| {
                    let name = path.file_name();
                    names.iter().any(|wanted| match wanted.strip_prefix('*') {
                        Some(ending) => name.ends_with(ending),
                        None => name == wanted,
                    })
                };
                let near = |path: &RelPath| path.as_str().matches('/').count() < 3;
                Fact::Paths(paths.filter(|path| wanted(path) && near(path)).collect())
            }
            Query::Stamp { tree, path } => {
                let written = self.written.get(&(format!("{tree:?}"), path.to_string()));
                let bytes = self.read(tree, path);
                Fact::Digest(bytes.map(|bytes| {
                    Digest::of(format!("{written:?} {}", Digest::of(&bytes)).as_bytes())
                }))
            }
            other => Fact::Unknown(format!("{other:?}")),
        }
    }

    /// What is planned exists already, in no branch yet.
    fn keep_commit(&mut self, planned: &PlannedCommit) {
        let commit = Commit {
            id: planned.id.clone(),
            parent: planned.parent.clone(),
            tree: self.trees[&planned.tree].clone(),
            message: planned.message.clone(),
        };
        self.commits.entry(commit.id.clone()).or_insert(commit);
    }

    /// The tree as it is now, with no earlier one to compare with.
    pub(crate) fn snapshot(&mut self) -> Fact {
        self.answer(&Query::Snapshot { tree: TreeRef::Main, label: "now".to_owned(), since: None })
    }

    /// The object of a change, if some tree has it.
    fn object(&self, path: &RelPath, object: &str) -> Option<Digest> {
        let fits = |tree: &Tree| tree.get(path).filter(|found| found.as_str() == object).cloned();
        fits(&self.tree()).or_else(|| {
            let names = self.worktrees.keys().cloned().map(TreeRef::Worktree);
            names.into_iter().find_map(|tree| fits(&self.tree_of(&tree)))
        })
    }

    fn keep_tree(&mut self, tree: Tree) -> TreeId {
        let id = TreeId::new(Digest::of(format!("{tree:?}").as_bytes()).short());
        self.trees.insert(id.clone(), tree);
        id
    }
}

fn held(keyed: &Keyed, said: String) -> Wake {
    let failure = Failure { kind: FailureKind::GitHeld, said };
    Wake::Failed { key: keyed.key.clone(), effect: keyed.effect.clone(), failure }
}

/// An agent's commit begins with its name.
fn author_of(message: &str) -> String {
    let name = message.split_once(": ").map(|(name, _)| name);
    name.filter(|name| name.starts_with("agent:")).unwrap_or("somebody").to_owned()
}

fn commit_id(parent: Option<&CommitId>, tree: &Tree, message: &str, date: Timestamp) -> CommitId {
    let text = format!("{parent:?}{tree:?}{message}{date}");
    CommitId::new(Digest::of(text.as_bytes()).short())
}

fn diff(from: &Tree, to: &Tree) -> Vec<Change> {
    let paths: BTreeSet<_> = from.keys().chain(to.keys()).collect();
    let change = |path: &&RelPath| {
        let (old, new) = (from.get(*path), to.get(*path));
        let to = new.map(|digest| ("100644".to_owned(), digest.to_string()));
        (old != new).then(|| Change { path: (*path).clone(), to, new: old.is_none() })
    };
    paths.iter().filter_map(change).collect()
}

/// Worktrees and merges, as the real shell promises them.
impl World {
    fn add_worktree(&mut self, wanted: &NewWorktree) {
        self.heads.entry(wanted.branch.clone()).or_insert_with(|| wanted.base.clone());
        if self.worktrees.contains_key(&wanted.name) {
            return;
        }
        let tip = self.heads[&wanted.branch].clone();
        let tree = self.commits.get(&tip).map(|commit| commit.tree.clone()).unwrap_or_default();
        let bytes =
            |digest: &Digest| self.blobs.get(digest).cloned().expect("the world keeps bytes");
        let mut files: BTreeMap<_, _> =
            tree.iter().map(|(path, digest)| (path.clone(), bytes(digest))).collect();
        for path in &wanted.copy {
            if let Some(Entry::File { bytes, .. }) = self.files.get(path) {
                files.insert(path.clone(), bytes.clone());
            }
        }
        let made = Worktree { branch: wanted.branch.clone(), files };
        self.worktrees.insert(wanted.name.clone(), made);
    }

    fn bring_files(&mut self, planned: &PlannedCommit) {
        for change in &planned.changes {
            match &change.to {
                Some((_, object)) => {
                    let digest = self.trees[&planned.tree][&change.path].clone();
                    assert_eq!(digest.as_str(), object);
                    let bytes = self.blobs.get(&digest).cloned().expect("the world keeps bytes");
                    self.write(change.path.as_str(), bytes);
                }
                None => self.remove(change.path.as_str()),
            }
        }
    }

    fn read(&self, tree: &TreeRef, path: &RelPath) -> Option<Vec<u8>> {
        match tree {
            TreeRef::Main => self.bytes(path.as_str()).map(<[u8]>::to_vec),
            TreeRef::Worktree(name) => self.worktrees.get(name)?.files.get(path).cloned(),
        }
    }

    /// From the oldest; all parents are first parents here.
    fn range(&self, from: Option<&CommitId>, to: &CommitId) -> Vec<CommitSeen> {
        let mut commits = Vec::new();
        let mut at = Some(to);
        while let Some(commit) =
            at.filter(|id| Some(*id) != from).and_then(|id| self.commits.get(id))
        {
            commits.push(CommitSeen {
                id: commit.id.clone(),
                parents: commit.parent.iter().cloned().collect(),
                author: author_of(&commit.message),
                email: "somebody@example.com".to_owned(),
                date: self.now.wall,
                subject: commit.message.lines().next().unwrap_or_default().to_owned(),
            });
            at = commit.parent.as_ref();
        }
        commits.reverse();
        commits
    }

    /// A three-way merge by whole files.
    fn plan_merge(&mut self, query: &Query) -> Fact {
        let Query::Merge { target, onto, theirs, style, message, date, keep } = query else {
            unreachable!("only merges are planned here")
        };
        let ours: Vec<_> = self.range(None, onto).into_iter().map(|commit| commit.id).collect();
        let base = self.range(None, theirs).into_iter().rev().find(|seen| ours.contains(&seen.id));
        let tree = |id: Option<&CommitId>| {
            id.and_then(|id| self.commits.get(id))
                .map(|commit| commit.tree.clone())
                .unwrap_or_default()
        };
        let base = base.map(|seen| seen.id);
        if *style == MergeStyle::FastForward && base.as_ref() != Some(onto) {
            return Fact::No;
        }
        let (base, mine, other) = (tree(base.as_ref()), tree(Some(onto)), tree(Some(theirs)));
        // A folder that is kept is as the target has it, whatever the other side made of it.
        let kept = |change: &Change| {
            keep.as_ref().is_some_and(|keep| change.path.as_str().starts_with(&format!("{keep}/")))
        };
        let mut theirs_changed = diff(&base, &other);
        if *style == MergeStyle::FastForward && theirs_changed.iter().any(kept) {
            return Fact::No;
        }
        theirs_changed.retain(|change| !kept(change));
        let clash = |change: &&Change| {
            let (was, now) = (base.get(&change.path), mine.get(&change.path));
            was != now && now != other.get(&change.path)
        };
        let clashes: Vec<_> = theirs_changed.iter().filter(clash).map(|c| c.path.clone()).collect();
        if !clashes.is_empty() {
            return Fact::Conflict(clashes);
        }
        let mut merged = mine.clone();
        for change in &theirs_changed {
            match other.get(&change.path) {
                Some(digest) => drop(merged.insert(change.path.clone(), digest.clone())),
                None => drop(merged.remove(&change.path)),
            }
        }
        let id = match style {
            MergeStyle::FastForward => theirs.clone(),
            MergeStyle::Squash | MergeStyle::Merge => {
                commit_id(Some(onto), &merged, message, *date)
            }
        };
        let planned = PlannedCommit {
            id,
            changes: diff(&mine, &merged),
            tree: self.keep_tree(merged),
            branch: target.clone(),
            parent: Some(onto.clone()),
            merged: (*style == MergeStyle::Merge).then(|| theirs.clone()),
            author: None,
            message: message.clone(),
            date: *date,
        };
        self.keep_commit(&planned);
        Fact::Planned(planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::quiet_loop;

    // A journal that begins anew says the same as the one before it.
    #[test]
    fn a_rotated_journal_brings_everything_back() {
        let mut world = World::new(quiet_loop, "2026-01-01T00:00:00Z".parse().unwrap());
        world.write("README.md", "the project");
        world.commit_all("first");
        world.command(Verb::Init, &[("steps", "1")]);
        world.settle().unwrap();
        let before = world.protocol.status(world.now);
        let (decisions, run) = (world.decisions.len(), world.alive().unwrap().spawn.run.clone());
        world.rotate();
        world.restart().unwrap();
        world.settle().unwrap();
        assert_eq!(world.protocol.status(world.now), before);
        assert_eq!(world.decisions.len(), decisions, "nothing new is decided");
        world.end_run(&run, Outcome::Ok);
        world.settle().unwrap();
        let keys: Vec<_> =
            world.decisions.iter().flat_map(|decision| &decision.effects).map(|e| &e.key).collect();
        let different: BTreeSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len(), "no key is given twice");
    }

    // The stand-in must keep the promises that the real shell is tested for.
    #[test]
    fn work_in_a_worktree_is_merged_unless_both_changed_a_file() {
        let mut world = World::new(quiet_loop, "2026-01-01T00:00:00Z".parse().unwrap());
        world.write("a", "1");
        world.write("b", "1");
        world.commit_all("first");
        let base = world.heads["main"].clone();
        let wanted = NewWorktree {
            name: "t1".to_owned(),
            branch: "task".to_owned(),
            base: base.clone(),
            copy: Vec::new(),
            disk_floor: 0,
        };
        world.add_worktree(&wanted);
        world.write_in("t1", "a", "2");
        let tree = TreeRef::Worktree("t1".to_owned());
        let ask = |world: &mut World, query: Query| world.answer(&query);
        let label = "x".to_owned();
        let Fact::Snapshot(end) = ask(&mut world, Query::Snapshot { tree, label, since: None })
        else {
            panic!("no snapshot")
        };
        assert_eq!(end.dirty, [RelPath::fixed("a")]);
        let take = vec![Change {
            path: RelPath::fixed("a"),
            to: Some(("100644".to_owned(), Digest::of(b"2").to_string())),
            new: false,
        }];
        let date = world.now.wall;
        let plan = Query::Plan {
            branch: "task".to_owned(),
            parent: Some(base.clone()),
            take,
            write: Vec::new(),
            message: "build".to_owned(),
            date,
        };
        let Fact::Planned(planned) = ask(&mut world, plan) else { panic!("no plan") };
        let keyed = |effect| Keyed { key: Key::new("k"), effect };
        assert!(matches!(world.apply(&keyed(Effect::Commit(planned.clone()))), Wake::Done { .. }));
        let merge = |world: &World| Query::Merge {
            target: "main".to_owned(),
            onto: world.heads["main"].clone(),
            theirs: planned.id.clone(),
            style: MergeStyle::Squash,
            message: "merge".to_owned(),
            date,
            keep: None,
        };
        let query = merge(&world);
        let Fact::Planned(merged) = ask(&mut world, query) else { panic!("no merge") };
        assert!(matches!(world.apply(&keyed(Effect::Merge(merged))), Wake::Done { .. }));
        assert_eq!(world.bytes("a"), Some(&b"2"[..]));
        world.write("a", "3");
        world.commit_all("the owner's");
        let query = merge(&world);
        assert_eq!(ask(&mut world, query), Fact::Conflict(vec![RelPath::fixed("a")]));
    }
}
