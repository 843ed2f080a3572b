//! The board runs itself (spec 2 §3.5): a task that may begin gets a worktree, a builder, an auditor, a verify of the merged tree
//! and its merge. One step of one task per decision; what a step needs to know it asks for.

use super::Board;
use super::memory::{AcceptedReport, Known, Stage, WayOut, Work};
use super::moves::Moves;
use super::names::{DocumentPath, PLAYWRIGHT, TaskId, seat};
use super::table::Status;
use super::tell::{self, Reason};
use super::{auditing, base, building, hand, playwright, record, remedy, shared, verifying};
use crate::model::{
    Access, Builder, CommandLine, CommitId, Deadline, Decision, Effect, Event, Fact, FailureKind,
    Fate, Moment, NewWorktree, Now, Outage, Outcome, Query, RelPath, RunEnd, RunId, Runner, Seat,
    Severity, Snapshot, Spawn, TreeRef, clip, counted, fate,
};
use std::time::Duration;

/// How many tasks move from NEW to ASSIGNED in one decision.
const BATCH: usize = 50;
/// How long a merge waits for somebody's files before it looks again.
const BUSY_WAIT: Duration = Duration::from_secs(5);

pub(super) fn go(board: &Board, now: Now) -> Option<Decision> {
    if board.index.memory.is_held() || board.is_away() {
        return None;
    }
    if !board.place.git && !board.limits.shared {
        return assign(board, now).or_else(|| shared::no_git(board));
    }
    let working = board.index.memory.working.iter();
    working
        .filter_map(|id| Step::of(board, id, now))
        .find_map(|step| step.go())
        .or_else(|| begin(board, now))
        .or_else(|| assign(board, now))
}

/// TB1: a valid new task is assigned.
fn assign(board: &Board, now: Now) -> Option<Decision> {
    let new = board.index.columns.get(&Status::New)?;
    let fits = |id: &&TaskId| {
        board.index.find(id).is_some_and(|(path, sheet)| {
            sheet.task.is_ok() && !board.index.memory.refused.contains_key(path)
        })
    };
    let ids: Vec<&TaskId> = new.iter().map(|(_, id)| id).filter(fits).take(BATCH).collect();
    if ids.is_empty() {
        return None;
    }
    let mut decision = board.builder();
    let mut moves = Moves::new(board, now);
    for id in ids {
        moves.to(id, Status::Assigned, "");
    }
    moves.into(&mut decision, Some("TB1"));
    Some(decision.finish())
}

/// TB2: the first task that may begin, P0 first, while there is room.
fn begin(board: &Board, now: Now) -> Option<Decision> {
    let room =
        board.index.memory.working.len() < usize::try_from(board.limits.parallel).unwrap_or(1) * 2;
    board.index.ready.first().filter(|_| room)?;
    // One at a time in the owner's own tree.
    if board.limits.shared && !board.index.memory.working.is_empty() {
        return None;
    }
    let base = match (&board.index.checkout, board.place.git) {
        (Some(checkout), true) => checkout.head.clone()?,
        (None, true) => return None,
        (_, false) => CommitId::new(shared::NO_COMMIT),
    };
    let id = match committed(board, &base) {
        Ok(Some(id)) => id,
        Ok(None) => return uncommitted(board),
        Err(ask) => return Some(*ask),
    };
    let task = board.index.task(id)?;
    let mut decision = board.builder();
    tell::over(board, &mut decision, "AG-40", |about| about == UNCOMMITTED);
    let mut moves = Moves::new(board, now);
    let known = moves.to(id, Status::InProgress, "its builder begins");
    known.scope = Some(task.scope.clone());
    known.verified = None;
    let earlier = known.work.take();
    known.work = Some(earlier.map_or_else(
        || if board.limits.shared { Work::in_main(id, base) } else { Work::new(id, base) },
        |work| {
            let start = work.start.filter(|_| !work.shared);
            Work { stage: Stage::Build, tries: 0, run: None, start, ..work }
        },
    ));
    moves.into(&mut decision, Some("TB2"));
    Some(decision.finish())
}

/// How many tasks that may begin are looked at for one whose profile is committed.
const LOOK: usize = 20;
/// What the owner is told of, until a builder starts.
pub(super) const UNCOMMITTED: &str = "uncommitted profile";

/// The first task that may begin and whose profile is committed as the owner sees it (AG-40).
fn committed<'a>(board: &'a Board, base: &CommitId) -> Result<Option<&'a TaskId>, Box<Decision>> {
    for (_, id) in board.index.ready.iter().take(LOOK) {
        if !board.place.git || verifying::seen(board, id, base)?.is_ok() {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// AG-40: said once; it is looked at again with the next commit.
fn uncommitted(board: &Board) -> Option<Decision> {
    let (_, id) = board.index.ready.first()?;
    let base = board.index.checkout.as_ref()?.head.clone()?;
    let name = match verifying::seen(board, id, &base) {
        Ok(Err(name)) => name,
        Ok(Ok(())) => return None,
        Err(ask) => return Some(*ask),
    };
    let text = format!(
        "{id} does not start: the DoD profile `{name}` that you see is not the committed one. Commit it: git add .kodingx && git commit -m 'The board' (AG-40)"
    );
    let mut decision = board.builder();
    tell::once(board, &mut decision, "AG-40", UNCOMMITTED, &text);
    Some(decision.finish()).filter(|decision| !decision.is_quiet())
}

/// What a run is to do.
pub(super) enum Job {
    /// An agent, by what it is told and what it may do to the tree.
    Agent(String, Access),
    Command(CommandLine),
}

/// One task that is being worked on.
pub(super) struct Step<'a> {
    pub(super) board: &'a Board,
    pub(super) now: Now,
    pub(super) id: &'a TaskId,
    pub(super) known: &'a Known,
    pub(super) work: &'a Work,
}

impl<'a> Step<'a> {
    fn of(board: &'a Board, id: &'a TaskId, now: Now) -> Option<Self> {
        let known = board.index.memory.tasks.get(id)?;
        Some(Self { board, now, id, known, work: known.work.as_ref()? })
    }

    fn go(&self) -> Option<Decision> {
        if let Some(run) = &self.work.run {
            return self.note_end(self.board.index.ended.get(run)?);
        }
        if self.known.status.is_over() {
            return Some(self.clear());
        }
        // It begins again when its turn comes.
        if self.known.status == Status::Assigned {
            return None;
        }
        if self.work.not_before.is_some_and(|at| at.left(self.now).is_some()) {
            return None;
        }
        match self.work.stage {
            Stage::Prepare => Some(self.prepare()),
            Stage::Setup => Some(verifying::setup(self)),
            Stage::Base => base::check(self),
            Stage::Build if self.is_command() => Some(playwright::start(self)),
            Stage::Build => building::start(self),
            Stage::Remedy => Some(remedy::make(self)),
            Stage::Built if self.is_command() => playwright::look(self),
            Stage::Built => building::look(self),
            Stage::Audit => auditing::start(self),
            Stage::Audited => auditing::hear(self),
            Stage::Plan if self.work.by_hand => Some(hand::passed(self)),
            Stage::Plan if self.work.shared => Some(shared::plan(self)),
            Stage::Plan => self.has_turn().then(|| verifying::plan(self))?,
            Stage::Verify => verifying::run(self),
            Stage::Verified if self.work.shared => shared::finish(self),
            Stage::Verified => verifying::finish(self),
            Stage::Merged => Some(self.done()),
            Stage::Owner => self
                .known
                .verified
                .as_ref()
                .filter(|verified| {
                    let asks = verified.overridden && !self.work.by_hand;
                    asks && self.known.status == Status::ReadyForReview
                })
                .map(|_| self.to(Stage::Plan)),
        }
    }

    pub(super) fn tree(&self) -> TreeRef {
        if self.work.shared {
            return TreeRef::Main;
        }
        TreeRef::Worktree(self.work.tree.clone())
    }

    /// One merge at a time: what is verified is then what is merged, and no verify is in vain. First come, first served.
    fn has_turn(&self) -> bool {
        if self.board.limits.merge.is_none() {
            return true;
        }
        let memory = &self.board.index.memory;
        let waits = |work: &Work| work.not_before.is_some_and(|at| at.left(self.now).is_some());
        let planning = memory.working.iter().filter_map(|id| {
            let known = memory.tasks.get(id)?;
            let work = known.work.as_ref()?;
            let ready = work.stage == Stage::Plan && known.status == Status::ReadyForReview;
            (ready && !waits(work)).then_some((known.since, id))
        });
        !record::is_merging(self.board, self.now)
            && planning.min() == Some((self.known.since, self.id))
    }

    /// Its builder is a command of ours.
    pub(super) fn is_command(&self) -> bool {
        self.seat().as_str() == PLAYWRIGHT
    }

    /// What its builder works on now: the task itself, or the subtask that puts it right.
    pub(super) fn target(&self) -> &'a TaskId {
        self.work.remedies.last().unwrap_or(self.id)
    }

    /// The report of it that was accepted last.
    pub(super) fn reported(&self) -> Option<&'a AcceptedReport> {
        self.board.index.memory.tasks.get(self.target()).and_then(|known| known.report.as_ref())
    }

    /// The same task with this changed.
    pub(super) fn keep(&self, decision: &mut Builder, work: Work) {
        decision.remember(
            &format!("task/{}", self.id),
            Known { work: Some(work), ..self.known.clone() },
        );
    }

    pub(super) fn to(&self, stage: Stage) -> Decision {
        let mut decision = self.board.builder();
        self.keep(&mut decision, Work { stage, tries: 0, not_before: None, ..self.work.clone() });
        decision.finish()
    }

    /// An answer, or the question.
    pub(super) fn ask(&self, query: Query) -> Result<&'a Fact, Box<Decision>> {
        self.board.ask(query)
    }

    /// The tree as it is; `None` where nobody can say, in a shared tree without git.
    pub(super) fn looked<'f>(&self, fact: &'f Fact) -> Result<Option<&'f Snapshot>, String> {
        if let Fact::Snapshot(found) = fact {
            Ok(Some(found))
        } else if self.work.shared && *fact == Fact::NoGit {
            Ok(None)
        } else {
            Err(format!("git: {fact:?}"))
        }
    }

    fn prepare(&self) -> Decision {
        let mut decision = self.board.builder();
        let file = self.board.index.find(self.id).map(|(path, _)| path.clone());
        decision.effect(Effect::Worktree(Box::new(self.worktree(
            &self.work.tree,
            &self.work.branch,
            &self.work.base,
            file,
        ))));
        self.keep(&mut decision, Work { stage: Stage::Setup, ..self.work.clone() });
        decision.finish()
    }

    pub(super) fn worktree(
        &self,
        name: &str,
        branch: &str,
        base: &crate::model::CommitId,
        more: Option<RelPath>,
    ) -> NewWorktree {
        NewWorktree {
            name: name.to_owned(),
            branch: branch.to_owned(),
            base: base.clone(),
            copy: self.board.limits.copy.iter().cloned().chain(more).collect(),
            disk_floor: self.board.limits.disk_floor,
        }
    }

    /// Room first: one run at a time in a tree. `None`: we wait for it.
    pub(super) fn lease(&self, seat: &Seat, role: &str) -> Option<Decision> {
        let tree = self.tree();
        if self.board.index.is_leasing(&tree) {
            return Some(Decision::default());
        }
        if self.board.index.granted.contains(&tree) {
            return None;
        }
        let mut decision = self.board.builder();
        decision.effect(Effect::Lease { tree, seat: seat.clone(), role: role.to_owned() });
        Some(decision.finish())
    }

    pub(super) fn spawn(
        &self,
        decision: &mut Builder,
        tree: TreeRef,
        who: (Seat, &str, &str),
        job: Job,
    ) -> RunId {
        let (seat, role, task) = who;
        let (prompt, access, command) = match job {
            Job::Agent(prompt, access) => (prompt, access, None),
            Job::Command(command) => (String::new(), Access::Write, Some(command)),
        };
        let run = RunId::new(format!("{}-{}", self.board.place.repo, decision.key()));
        let why = command.as_ref().map_or_else(
            || format!("{role} of {}", self.id),
            |line| format!("`{}` for {}", clip(&line.line, 80), self.id),
        );
        let begins = self.event("run.start", Some(seat.clone()), ("phase", role));
        decision.effect(Effect::Spawn(Box::new(Spawn {
            run: run.clone(),
            seat,
            role: role.to_owned(),
            tree,
            task: task.to_owned(),
            phase: role.to_owned(),
            prompt,
            why,
            resume: None,
            command,
            access,
        })));
        decision.effect(begins);
        run
    }

    /// One line of the event log about this task.
    pub(super) fn event(&self, name: &str, agent: Option<Seat>, more: (&str, &str)) -> Effect {
        let words = [("task", self.id.as_str()), more];
        let context = words.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Effect::Log(Event { event: name.to_owned(), agent, context })
    }

    /// A run has ended: what it means is the next step's matter, except that a lost or failed one may be tried again.
    fn note_end(&self, end: &RunEnd) -> Option<Decision> {
        let mut decision = self.board.builder();
        let mut work = Work { run: None, checking: None, ..self.work.clone() };
        match self.work.stage {
            Stage::Verify => verifying::note(&mut work, end),
            Stage::Setup if end.outcome == Outcome::Ok => work.setup += 1,
            Stage::Setup => work.tries += 1,
            Stage::Base => base::note(self, &mut decision, end),
            Stage::Build if self.is_command() => playwright::note(self, &mut work, end),
            Stage::Build => work.stage = Stage::Built,
            Stage::Audit => auditing::note(&mut work, end),
            Stage::Prepare
            | Stage::Remedy
            | Stage::Built
            | Stage::Audited
            | Stage::Plan
            | Stage::Verified
            | Stage::Merged
            | Stage::Owner => {}
        }
        work.last = clip(&format!("{}: {}", end.outcome.sentence(), end.tail), 1000);
        decision.effects(Outage::after(&mut work.outage, &end.outcome));
        work.parked = String::new();
        let asked = self.after_agent(&mut decision, &mut work, end);
        self.keep(&mut decision, work);
        if let Some(reason) = asked {
            tell::hold(self.board, &mut decision, reason, WayOut::Resume);
        }
        Some(decision.finish())
    }

    /// An agent that could not work begins its stage again, later or when the owner says so. No try is spent.
    fn after_agent(&self, decision: &mut Builder, work: &mut Work, end: &RunEnd) -> Option<Reason> {
        let who = match self.work.stage {
            Stage::Build if !self.is_command() => self.seat(),
            Stage::Audit => Seat::new(seat(&self.board.limits.auditor)),
            Stage::Build
            | Stage::Prepare
            | Stage::Setup
            | Stage::Base
            | Stage::Remedy
            | Stage::Built
            | Stage::Audited
            | Stage::Plan
            | Stage::Verify
            | Stage::Verified
            | Stage::Merged
            | Stage::Owner => return None,
        };
        let (_, backoff) = self.board.limits.tries_of(&who);
        let runner = Runner { protocol: super::NAME, agent: who.as_str(), backoff };
        let fate = fate(&end.outcome, runner, self.work.outage.as_ref(), self.now);
        match (fate, &end.outcome) {
            // What was denied matters only if the report is missing.
            (Fate::Count, _) | (Fate::Ask { .. }, Outcome::Denied { .. }) => None,
            (Fate::Park(park), _) => {
                work.stage = self.work.stage;
                (work.not_before, work.parked) = (Some(park.until), park.words);
                work.outage = park.outage;
                decision.effects(park.tell);
                None
            }
            (Fate::Ask { rule, summary }, _) => {
                work.stage = self.work.stage;
                let mut reason = Reason::new(rule, end.run.as_str(), summary);
                reason.evidence = vec![end.tail.clone()];
                Some(reason)
            }
        }
    }

    /// What did not come in order is tried again, later each time; then the owner decides.
    pub(super) fn again(&self, stage: Stage, why: &str) -> Decision {
        let (retries, backoff) = self.board.limits.tries_of(&self.seat());
        if self.work.tries >= retries {
            let why = format!("{why} (after {})", counted(self.work.tries + 1, "try"));
            return match self.known.status {
                Status::InProgress => self.give_up("SU-06", &why),
                Status::New
                | Status::Assigned
                | Status::Blocked
                | Status::ReadyForReview
                | Status::Done
                | Status::Canceled => {
                    let way = format!("agency task request-changes {} --reason …", self.id);
                    self.ask_owner("SU-06", &why, way)
                }
            };
        }
        let mut decision = self.board.builder();
        let wait = backoff * 2_u32.saturating_pow(self.work.tries.min(10));
        let mut work = self.work.clone();
        work.tries += 1;
        work.not_before = Some(Moment::after(self.now, wait));
        work.stage = stage;
        work.refused = Some(clip(why, 2000));
        work.said = None;
        self.keep(&mut decision, work);
        decision.finish()
    }

    pub(super) fn seat(&self) -> Seat {
        let assignee = self.board.index.task(self.id).map(|task| seat(&task.assignee));
        Seat::new(assignee.unwrap_or_default())
    }

    /// The task is BLOCKED and the owner is told; its worktree and branch stay.
    pub(super) fn give_up(&self, rule: &'static str, why: &str) -> Decision {
        let mut decision = self.board.builder();
        let mut moves = Moves::new(self.board, self.now);
        let known = moves.to(self.id, Status::Blocked, why);
        known.work =
            Some(Work { stage: Stage::Build, tries: 0, not_before: None, ..self.work.clone() });
        let subject = format!("{} blocked {}", self.id, self.board.index.memory.decisions);
        known.told = Some(tell::cause(self.board, rule, &subject));
        remedy::along(&mut moves, self.board, self.work, Status::Blocked, why);
        moves.into(&mut decision, Some("TB4"));
        decision.effect(Effect::Release { tree: self.tree() });
        let mut reason =
            Reason::new(rule, subject, format!("{} is blocked: {}", self.id, clip(why, 140)));
        reason.did = if self.work.shared {
            "What it changed lies in your tree, not committed; nothing of it is lost.".to_owned()
        } else {
            format!("Its work is on the branch `{}`; nothing of it is lost.", self.work.branch)
        };
        reason.resolve = format!("agency task unblock {} --reason …", self.id);
        reason.evidence = vec![clip(why, 2000), self.work.last.clone()];
        tell::tell(self.board, &mut decision, Severity::Warning, reason);
        decision.finish()
    }

    /// Only the owner may go on with it; the work waits where it is.
    pub(super) fn ask_owner(&self, rule: &'static str, why: &str, resolve: String) -> Decision {
        let mut decision = self.board.builder();
        let subject = format!("{} {}", self.id, self.board.index.memory.decisions);
        let work = Work { stage: Stage::Owner, said: None, ..self.work.clone() };
        let told = Some(tell::cause(self.board, rule, &subject));
        let reason = clip(why, 500);
        let known = Known { work: Some(work), told, reason, ..self.known.clone() };
        decision.remember(&format!("task/{}", self.id), known);
        if let Some(cause) = self.known.told.clone() {
            let how = "it is asked anew".to_owned();
            decision.effect(Effect::Resolve { cause, how });
        }
        let mut reason = Reason::new(rule, subject, format!("{}: {}", self.id, clip(why, 160)));
        reason.did = if self.work.shared {
            "Its work lies in your tree; nothing was committed.".to_owned()
        } else {
            format!("Its work is on the branch `{}`; nothing is merged.", self.work.branch)
        };
        reason.resolve = resolve;
        reason.evidence = vec![clip(why, 2000)];
        tell::tell(self.board, &mut decision, Severity::Warning, reason);
        decision.finish()
    }

    /// An effect of this task failed.
    pub(super) fn failed(&self, effect: &Effect, kind: FailureKind, said: &str) -> Decision {
        match (effect, kind) {
            (Effect::Create { .. }, _) => remedy::failed(self, kind, said),
            // Nothing runs in a tree that was not made.
            (Effect::Worktree(wanted), _) if wanted.name == self.work.tree => {
                self.again(Stage::Prepare, &format!("{} failed: {said}", effect.doing()))
            }
            (Effect::Commit(_), FailureKind::Moved) if self.work.shared => self.to(Stage::Plan),
            (Effect::Merge(_), FailureKind::Moved) => self.to(Stage::Plan),
            (Effect::Merge(_), FailureKind::Busy) => {
                let mut decision = self.board.builder();
                let not_before = Some(Moment::after(self.now, BUSY_WAIT));
                self.keep(
                    &mut decision,
                    Work { stage: Stage::Verified, not_before, ..self.work.clone() },
                );
                decision.finish()
            }
            _ => self.again(self.work.stage, &format!("{} failed: {said}", effect.doing())),
        }
    }

    fn done(&self) -> Decision {
        let mut decision = self.board.builder();
        let mut moves = Moves::new(self.board, self.now);
        let why = match self.board.limits.merge {
            _ if self.work.shared => "verified in the owner's own tree".to_owned(),
            Some(_) => "verified and merged".to_owned(),
            None => format!(
                "verified; not merged: the branch `{}` is left for a pull request",
                self.work.branch
            ),
        };
        let known = moves.to(self.id, Status::Done, &why);
        known.work = Some(Work { stage: Stage::Merged, ..self.work.clone() });
        remedy::along(&mut moves, self.board, self.work, Status::Done, &why);
        moves.into(&mut decision, Some("TB5"));
        decision.finish()
    }

    /// The task's branch, if the target branch has everything of it. A branch that moved since stays.
    fn merged_branch(&self) -> Option<(String, CommitId)> {
        let merged = self.known.status == Status::Done
            && self.work.check.as_ref().is_some_and(|check| check.merge.is_some());
        let head = self.work.head.clone().filter(|_| merged)?;
        Some((self.work.branch.clone(), head))
    }

    /// The work is over: its tree goes, and its branch goes with it once it is merged.
    fn clear(&self) -> Decision {
        let mut decision = self.board.builder();
        decision.effect(Effect::Release { tree: self.tree() });
        if !self.work.shared {
            let branch = self.merged_branch();
            decision.effect(Effect::DropWorktree { name: self.work.tree.clone(), branch });
        }
        if let Some(check) = self.work.check.as_ref().filter(|_| !self.work.shared) {
            decision.effect(check.drop_tree());
        }
        let mut known = Known { work: None, ..self.known.clone() };
        known.papers.extend(self.work.papers.clone());
        decision.remember(&format!("task/{}", self.id), known);
        decision.finish()
    }
}

/// The task that an effect of ours belongs to, by its tree or branch.
pub(super) fn owner_of<'a>(board: &'a Board, effect: &Effect, now: Now) -> Option<Step<'a>> {
    let fits = |step: &Step<'_>| {
        if let Effect::Merge(planned) = effect {
            let merge = step.work.check.as_ref().and_then(|check| check.merge.as_ref());
            merge.is_some_and(|merge| merge.id == planned.id)
        } else if let Effect::Worktree(wanted) = effect {
            let check = step.work.check.as_ref().map(|check| &check.tree);
            wanted.name == step.work.tree || check == Some(&wanted.name)
        } else if let Effect::Create { path, .. } = effect {
            let last = step.work.remedies.last();
            last.is_some_and(|id| DocumentPath::parse(path.as_str()).is_some_and(|at| at.id == *id))
        } else if let Effect::Spawn(spawn) = effect {
            step.work.run.as_ref() == Some(&spawn.run)
        } else {
            let merge = step.work.check.as_ref().and_then(|check| check.merge.as_ref());
            matches!(effect, Effect::Commit(planned) if planned.branch == step.work.branch
                || merge.is_some_and(|merge| merge.id == planned.id))
        }
    };
    let working = board.index.memory.working.iter();
    working.filter_map(|id| Step::of(board, id, now)).find(fits)
}

/// When the next try of some task is due.
pub(super) fn deadline(board: &Board, now: Now) -> Option<Deadline> {
    let works = board
        .index
        .memory
        .working
        .iter()
        .filter_map(|id| board.index.memory.tasks.get(id)?.work.as_ref());
    let waits =
        works.filter(|work| work.run.is_none()).filter_map(|work| work.not_before?.left(now));
    waits.min().map(|left| Deadline { at: now.ticks.after(left), why: "try again" })
}
