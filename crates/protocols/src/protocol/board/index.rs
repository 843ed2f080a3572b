//! Everything the board knows right now, kept up with each wake in the time that the change takes. Derived: journal and files
//! rebuild it at any time. It decides nothing.

mod artifacts;
mod known;

use super::manifest::{self, Manifest};
use super::memory::{Memory, Touched};
use super::names::{DocumentKind, DocumentPath, TaskId, Zone};
use super::table::Status;
use super::task::{self, Priority, Task};
use super::{Board, artifact, risks, state};
use crate::model::{
    Checkout, Command, Decision, Digest, Effect, Fact, Failure, FileSeen, FileState, Key, Query,
    Rejection, RelPath, RunEnd, RunEvent, RunId, Shape, TreeRef, Wake,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const INBOX: &str = ".kodingx/inbox/";

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) memory: Memory,
    /// Seats that can be started; every other assignee is a person.
    agents: BTreeSet<String>,
    /// Files of one each: STATE.md, RISKS.md, …
    files: BTreeMap<RelPath, FileState>,
    /// What we wrote there ourselves, until the next look.
    written: BTreeMap<RelPath, Bytes>,
    /// Tasks and reports that we wrote, until a look shows them.
    pub(super) assumed: BTreeSet<RelPath>,
    pub(super) manifest: Option<Result<Manifest, Vec<Rejection>>>,
    sheets: BTreeMap<RelPath, TaskFile>,
    by_id: BTreeMap<TaskId, BTreeSet<RelPath>>,
    /// Who names this task in `depends_on`.
    dependents: BTreeMap<TaskId, BTreeSet<RelPath>>,
    /// Every task in its column, P0 first.
    pub(super) columns: BTreeMap<Status, BTreeSet<(Priority, TaskId)>>,
    filed: BTreeMap<TaskId, (Status, Priority)>,
    /// Tasks that wait for somebody who is not an agent, by that name (AG-37).
    pub(super) people: BTreeMap<String, BTreeSet<TaskId>>,
    /// Task files that say DONE although the task is not (AG-11).
    pub(super) forged: BTreeSet<RelPath>,
    /// Artifacts in the owner's tree that claim a verify of a task, without those whose bytes are committed (AG-11).
    claims: BTreeMap<TaskId, BTreeMap<RelPath, Digest>>,
    /// The task that each of them names.
    claimed_for: BTreeMap<RelPath, TaskId>,
    /// Those of them that are not as we wrote them, each with its task.
    forged_artifacts: BTreeMap<RelPath, TaskId>,
    /// The reports of each task, by path.
    reports: BTreeMap<TaskId, BTreeMap<RelPath, Bytes>>,
    /// Documents whose judgement is not in memory yet.
    pub(super) due: BTreeSet<RelPath>,
    pub(super) due_reports: BTreeSet<RelPath>,
    pub(super) checkout: Option<Checkout>,
    /// Effects of ours that are journalled but not finished.
    in_flight: BTreeMap<Key, Effect>,
    /// Answers that the command under way has asked for.
    pub(super) answers: Vec<(Key, Query, Fact)>,
    pub(super) failed: Option<(Effect, Failure)>,
    /// Tasks that may begin, P0 first.
    pub(super) ready: BTreeSet<(Priority, TaskId)>,
    /// Ends of runs that memory does not know yet.
    pub(super) ended: BTreeMap<RunId, RunEnd>,
    /// Trees in which one run may be started now.
    pub(super) granted: BTreeSet<TreeRef>,
    pub(super) commands: Vec<Command>,
}

/// A document as it lies there.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    pub(super) bytes: Arc<[u8]>,
    /// Of the bytes; where there are none to read, of what is there instead.
    pub(super) digest: Digest,
    /// Why it cannot be read: a link, a pipe, too large (DM-04).
    pub(super) odd: Option<Box<Rejection>>,
}

impl Bytes {
    fn of(file: &FileSeen) -> Option<Self> {
        match &file.state {
            FileState::Absent => None,
            FileState::Whole(whole) => {
                let (bytes, digest) = (Arc::clone(&whole.bytes), whole.digest.clone());
                Some(Self { bytes, digest, odd: None })
            }
            FileState::Unreadable(odd) => {
                let found = odd.found.clone();
                let (bytes, digest) = (Arc::default(), Digest::of(found.as_bytes()));
                let odd = Rejection::new("DM-04", &file.path, found, &odd.wanted);
                Some(Self { bytes, digest, odd: Some(Box::new(odd)) })
            }
        }
    }

    /// What it says, unless it cannot be read at all.
    pub(super) fn read<T>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, Vec<Rejection>>,
    ) -> Result<T, Vec<Rejection>> {
        match &self.odd {
            Some(odd) => Err(vec![(**odd).clone()]),
            None => parse(&self.bytes),
        }
    }
}

/// One task file.
#[derive(Clone, Debug)]
pub(super) struct TaskFile {
    pub(super) file: Bytes,
    pub(super) task: Result<Box<Task>, Vec<Rejection>>,
}

/// What a task file's `status` means, next to what we know.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Same,
    /// A move that its writer may make.
    Move(Status),
    No(Rejection),
}

impl Index {
    pub(super) fn new(agents: BTreeSet<String>) -> Self {
        Self { agents, ..Self::default() }
    }

    pub(super) fn zone(&self) -> Zone {
        match &self.manifest {
            Some(Ok(manifest)) => manifest.zone,
            Some(Err(_)) | None => Zone::UTC,
        }
    }

    pub(super) fn is_person(&self, assignee: &str) -> bool {
        let seat = super::names::seat(assignee);
        seat != super::names::PLAYWRIGHT && !self.agents.contains(&seat)
    }

    pub(super) fn absorb(&mut self, wake: &Wake) {
        match wake {
            Wake::File(file) => self.absorb_file(file),
            Wake::Checkout(checkout) => self.checkout = Some(checkout.clone()),
            Wake::Run(RunEvent::Started { .. }) | Wake::Deadline => {}
            Wake::Run(RunEvent::Ended(end)) => {
                self.answers.clear();
                self.ended.insert(end.run.clone(), (**end).clone());
            }
            Wake::Leased { tree } => drop(self.granted.insert(tree.clone())),
            Wake::Fact { key, value } => self.absorb_fact(key, value),
            Wake::Decided(decision) => self.absorb_decided(decision),
            Wake::Done { key } => self.absorb_done(key),
            Wake::Failed { key, effect, failure } => {
                self.in_flight.remove(key);
                self.failed = Some((effect.clone(), failure.clone()));
            }
            Wake::Command(command) => self.commands.push(command.clone()),
        }
    }

    fn absorb_file(&mut self, file: &FileSeen) {
        let there = Bytes::of(file);
        let path = &file.path;
        self.assumed.remove(path);
        if is_fixed(path.as_str()) {
            if path.as_str() == manifest::PATH {
                let whole = there.filter(|file| file.odd.is_none());
                self.manifest = whole.map(|whole| manifest::parse(&whole.bytes));
            }
            self.written.remove(path);
            self.files.insert(path.clone(), file.state.clone());
        } else if path.as_str().starts_with(INBOX) {
            self.file_task(path, there);
        } else if is_artifact(path) {
            self.file_artifact(path, there.as_ref());
        } else if let Some(place) = DocumentPath::parse(path.as_str())
            && place.kind == DocumentKind::Report
        {
            self.file_report(&place.id, path, there);
        }
    }

    fn file_task(&mut self, path: &RelPath, there: Option<Bytes>) {
        let old = self.sheets.remove(path);
        self.forget_links(path, old.as_ref());
        let mut touched: Vec<TaskId> = Vec::new();
        touched.extend(DocumentPath::parse(path.as_str()).map(|place| place.id));
        if let Some(file) = there {
            let zone = self.zone();
            let task = file.read(|bytes| task::parse_in(bytes, path, zone)).map(Box::new);
            self.note_links(path, &task);
            self.sheets.insert(path.clone(), TaskFile { file, task });
        }
        for id in touched {
            self.refile(&id);
            let others: Vec<RelPath> = self.by_id.get(&id).into_iter().flatten().cloned().collect();
            let users: Vec<RelPath> =
                self.dependents.get(&id).into_iter().flatten().cloned().collect();
            others.iter().chain(&users).for_each(|path| self.assess(path));
        }
        self.assess(path);
    }

    fn forget_links(&mut self, path: &RelPath, old: Option<&TaskFile>) {
        if let Some(place) = DocumentPath::parse(path.as_str())
            && let Some(paths) = self.by_id.get_mut(&place.id)
        {
            paths.remove(path);
        }
        for dep in
            old.and_then(|old| old.task.as_ref().ok()).into_iter().flat_map(|task| &task.depends_on)
        {
            if let Some(users) = self.dependents.get_mut(dep) {
                users.remove(path);
            }
        }
    }

    fn note_links(&mut self, path: &RelPath, task: &Result<Box<Task>, Vec<Rejection>>) {
        if let Some(place) = DocumentPath::parse(path.as_str()) {
            self.by_id.entry(place.id).or_default().insert(path.clone());
        }
        for dep in task.as_ref().ok().into_iter().flat_map(|task| &task.depends_on) {
            self.dependents.entry(dep.clone()).or_default().insert(path.clone());
        }
    }

    fn file_report(&mut self, id: &TaskId, path: &RelPath, there: Option<Bytes>) {
        let reports = self.reports.entry(id.clone()).or_default();
        match there {
            Some(there) => drop(reports.insert(path.clone(), there)),
            None => drop(reports.remove(path)),
        }
        self.assess_report(path);
    }

    fn absorb_decided(&mut self, decision: &Decision) {
        let Touched { tasks, papers, all } = self.memory.take(decision);
        self.failed = None;
        // What a decision was made on must not move the next one.
        if !decision.only_asks() || decision.memo.iter().any(|memo| memo.name.starts_with("task/"))
        {
            self.answers.clear();
        }
        let memory = &self.memory;
        self.ended.retain(|run, _| memory.is_running(run));
        for keyed in &decision.effects {
            if let Effect::Reply { command, .. } = &keyed.effect {
                self.commands.retain(|known| known.id != *command);
            } else if let Effect::Spawn(spawn) = &keyed.effect {
                // A command line of the owner's takes no place: the agent after it has that.
                if spawn.command.is_none() {
                    self.granted.remove(&spawn.tree);
                }
            } else if let Effect::Release { tree } = &keyed.effect {
                self.granted.remove(tree);
            }
            self.in_flight.insert(keyed.key.clone(), keyed.effect.clone());
        }
        if all {
            let ids: Vec<TaskId> = self.by_id.keys().cloned().collect();
            ids.iter().for_each(|id| self.refile(id));
            self.assess_all();
        }
        for id in &tasks {
            self.refile(id);
            self.assess_task(id);
            self.assess_artifacts(id);
        }
        for path in &papers {
            if let Some(place) = DocumentPath::parse(path.as_str()) {
                self.refile_one(&place.id);
            }
            self.assess(path);
            self.assess_report(path);
        }
    }

    fn absorb_fact(&mut self, key: &Key, value: &Fact) {
        if let Some(Effect::Ask { query }) = self.in_flight.remove(key) {
            self.note_committed(&query, value);
            self.answers.push((key.clone(), query, value.clone()));
        }
    }

    /// What we wrote is known without waiting for its event.
    fn absorb_done(&mut self, key: &Key) {
        let written = match self.in_flight.remove(key) {
            Some(Effect::Replace { path, bytes, .. } | Effect::Create { path, bytes, .. }) => {
                Some((path, bytes))
            }
            Some(Effect::Take { path, .. }) => {
                self.forget_artifact(&path);
                None
            }
            Some(_) | None => None,
        };
        if let Some((path, bytes)) = written {
            let bytes: Arc<[u8]> = bytes.0.into();
            let digest = Digest::of(&bytes);
            if path.as_str().starts_with(INBOX) {
                self.assumed.insert(path.clone());
                self.file_task(&path, Some(Bytes { bytes, digest, odd: None }));
            } else if is_artifact(&path) {
                self.forget_artifact(&path);
            } else if let Some(place) = DocumentPath::parse(path.as_str())
                && place.kind == DocumentKind::Report
            {
                self.assumed.insert(path.clone());
                self.file_report(&place.id, &path, Some(Bytes { bytes, digest, odd: None }));
            } else {
                // What lies there now is for the next look to say; until then it is what we wrote.
                self.files.remove(&path);
                self.written.insert(path, Bytes { bytes, digest, odd: None });
            }
        }
    }

    /// Puts a task into its column. Those that wait for it may begin now, or no longer.
    fn refile(&mut self, id: &TaskId) {
        self.refile_one(id);
        let users = self.dependents.get(id).into_iter().flatten();
        let users: BTreeSet<TaskId> =
            users.filter_map(|path| Some(DocumentPath::parse(path.as_str())?.id)).collect();
        users.iter().for_each(|user| self.refile_one(user));
    }

    fn refile_one(&mut self, id: &TaskId) {
        self.refile_person(id);
        if let Some((_, priority)) = self.filed.get(id) {
            self.ready.remove(&(*priority, id.clone()));
        }
        let now = self.status_of(id).zip(self.priority_of(id));
        if let Some((status, priority)) = self.filed.remove(id)
            && let Some(column) = self.columns.get_mut(&status)
        {
            column.remove(&(priority, id.clone()));
        }
        if let Some((status, priority)) = now {
            self.columns.entry(status).or_default().insert((priority, id.clone()));
            self.filed.insert(id.clone(), (status, priority));
            if status == Status::Assigned && self.may_begin(id) {
                self.ready.insert((priority, id.clone()));
            }
        }
    }

    fn refile_person(&mut self, id: &TaskId) {
        self.people.retain(|_, ids| {
            ids.remove(id);
            !ids.is_empty()
        });
        let waits = matches!(self.status_of(id), Some(Status::New | Status::Assigned));
        let person = self.task(id).filter(|task| waits && !task.person);
        if let Some(task) = person.filter(|task| self.is_person(&task.assignee)) {
            let name = super::names::seat(&task.assignee);
            self.people.entry(name).or_default().insert(id.clone());
        }
    }

    /// A valid task of an agent's whose dependencies are all DONE.
    fn may_begin(&self, id: &TaskId) -> bool {
        let Some((path, _)) = self.find(id) else { return false };
        let refused = self.memory.refused.contains_key(path);
        self.task(id).is_some_and(|task| {
            !refused
                && task.parent.is_none()
                && !self.is_person(&task.assignee)
                && self.waits_for(task).is_empty()
        })
    }

    pub(super) fn is_leasing(&self, tree: &TreeRef) -> bool {
        let mut open = self.in_flight.values();
        open.any(|effect| matches!(effect, Effect::Lease { tree: asked, .. } if asked == tree))
    }

    fn assess_all(&mut self) {
        let paths: Vec<RelPath> = self.sheets.keys().cloned().collect();
        paths.iter().for_each(|path| self.assess(path));
        let reports: Vec<RelPath> =
            self.reports.values().flat_map(BTreeMap::keys).cloned().collect();
        reports.iter().for_each(|path| self.assess_report(path));
    }

    fn assess_task(&mut self, id: &TaskId) {
        let paths: Vec<RelPath> = self.by_id.get(id).into_iter().flatten().cloned().collect();
        let users: Vec<RelPath> = self.dependents.get(id).into_iter().flatten().cloned().collect();
        paths.iter().chain(&users).for_each(|path| self.assess(path));
        let reports: Vec<RelPath> =
            self.reports.get(id).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        reports.iter().for_each(|path| self.assess_report(path));
    }

    /// Is there something to say about a task file that memory does not know?
    fn assess(&mut self, path: &RelPath) {
        if !path.as_str().starts_with(INBOX) {
            return;
        }
        let forged = self.is_forged(path);
        if forged {
            self.forged.insert(path.clone());
        } else {
            self.forged.remove(path);
        }
        let known = self.memory.refused.get(path);
        let due = match self.sheets.get(path) {
            Some(_) if forged => false,
            None => known.is_some(),
            Some(sheet) => match self.refusal_of(path) {
                Some(_) => known != Some(&sheet.file.digest),
                None => known.is_some() || matches!(self.claim(path), Claim::Move(_)),
            },
        };
        if due && self.memory.ours.is_some() {
            self.due.insert(path.clone());
        } else {
            self.due.remove(path);
        }
    }

    fn assess_report(&mut self, path: &RelPath) {
        let Some(place) =
            DocumentPath::parse(path.as_str()).filter(|place| place.kind == DocumentKind::Report)
        else {
            return;
        };
        let known = self.memory.refused.get(path);
        let file = self.reports.get(&place.id).and_then(|reports| reports.get(path));
        let due = match file {
            None => known.is_some(),
            // The builder in the owner's own tree writes it there; we take it when its run has ended.
            Some(_) if self.is_shared(&place.id) => false,
            Some(file) => {
                known != Some(&file.digest) && !self.is_settled(&place.id, path, &file.digest)
            }
        };
        if due && self.memory.ours.is_some() {
            self.due_reports.insert(path.clone());
        } else {
            self.due_reports.remove(path);
        }
    }

    /// It was accepted, or it belongs to what the owner vouched for.
    fn is_settled(&self, id: &TaskId, path: &RelPath, digest: &Digest) -> bool {
        match self.memory.tasks.get(id) {
            Some(known) => known.has_read(path, digest),
            None => self.memory.adopted.contains_key(id),
        }
    }
}

fn is_fixed(path: &str) -> bool {
    FIXED.contains(&path)
}

pub(super) const FIXED: [&str; 5] =
    [manifest::PATH, state::PATH, state::BOARD, risks::PATH, artifact::DECISIONS];
fn is_artifact(path: &RelPath) -> bool {
    let below = path.as_str().strip_prefix(artifact::FOLDER);
    below.is_some_and(|rest| rest.starts_with('/')) && path.as_str().ends_with(artifact::ENDING)
}

pub(super) const TREES: [(&str, &str); 3] =
    [(".kodingx/inbox", ".md"), (".kodingx/outbox", ".md"), (artifact::FOLDER, artifact::ENDING)];

/// How the content of a watched file is checked for being whole.
pub(super) fn shape_of(ending: &str) -> Shape {
    if ending.ends_with(".json") { Shape::Json } else { Shape::Frontmatter }
}

impl Board {
    pub(super) fn zone(&self) -> Zone {
        self.index.zone()
    }

    pub(super) fn header(&self) -> String {
        match &self.index.manifest {
            Some(Ok(manifest)) => manifest.header(),
            Some(Err(_)) | None => manifest::header(manifest::LicenseMode::Community),
        }
    }
}
