//! What the owner asks of the board. The same table and journal as everything else, with or without a daemon (DM-15).

mod verified;

use super::memory::{Known, Ours, Stage, Verified, WayOut};
use super::moves::{Moves, place};
use super::names::TaskId;
use super::state::{self, State};
use super::table::{Actor, Status, find};
use super::task::Task;
use super::{Board, base, hand, judge, remedy, risks, tamper};
use crate::model::{
    Answer, Builder, Bytes, Command, CommitId, Decision, Effect, Fact, Now, Query, RelPath,
    TreeRef, Verb, clip, counted,
};
use std::collections::BTreeMap;

/// What to do and what to say; why not; or a question that must be answered first.
enum Outcome {
    Done(Builder, String),
    No(String),
    /// A decision that comes before the answer.
    First(Decision),
}

/// Answers the oldest command that is for us.
pub(super) fn answer(board: &Board, now: Now) -> Option<Decision> {
    let command = board.index.commands.first()?;
    let outcome = match command.verb {
        Verb::Init => init(board, now),
        Verb::Adopt => adopt(board, now),
        Verb::Resume => resume(board, command),
        Verb::Do => own(board, command, now),
        Verb::Restore
        | Verb::Inject
        | Verb::Stop
        | Verb::Trust
        | Verb::Ack
        | Verb::Pause
        | Verb::Unpause
        | Verb::Forget => Outcome::No("that is not the board's to do".to_owned()),
    };
    let (mut decision, answer) = match outcome {
        Outcome::First(decision) => return Some(decision),
        Outcome::Done(decision, text) => (decision, Answer { accepted: true, text }),
        Outcome::No(text) => (board.builder(), Answer { accepted: false, text }),
    };
    for (key, _, fact) in &board.index.answers {
        decision.used(key.clone(), fact.clone());
    }
    decision.effect(Effect::Reply { command: command.id.clone(), answer });
    Some(decision.finish())
}

/// The board begins here, with the tasks as they lie there.
fn init(board: &Board, now: Now) -> Outcome {
    if let Some(why) = board.is_frozen() {
        return Outcome::No(why);
    }
    if board.index.memory.ours.is_some() && board.index.memory.state.is_some() {
        return Outcome::Done(board.builder(), "the board is known here already".to_owned());
    }
    let mut decision = board.builder();
    take_over(board, &mut decision, now);
    let count = board.index.columns.values().map(std::collections::BTreeSet::len).sum::<usize>();
    Outcome::Done(decision, format!("the board is ready; {}", counted(count, "task")))
}

fn adopt(board: &Board, now: Now) -> Outcome {
    if board.index.memory.ours.is_some() {
        return Outcome::No("there is nothing to adopt: our journal knows this board".to_owned());
    }
    if let Some(why) = board.is_frozen() {
        return Outcome::No(why);
    }
    let mut decision = board.builder();
    take_over(board, &mut decision, now);
    let text = "the owner adopted the board as it is".to_owned();
    decision.announce("adopt", &text);
    Outcome::Done(decision, text)
}

/// Every task counts as its file says, once; STATE.md is written from that.
fn take_over(board: &Board, decision: &mut Builder, now: Now) {
    let index = &board.index;
    let mut adopted: BTreeMap<TaskId, Status> = BTreeMap::new();
    let old = index.whole(state::PATH).and_then(|(bytes, _)| state::parse(bytes).ok());
    let mut state = State {
        protocol: super::PROTOCOL.to_owned(),
        updated_at: board.zone().stamp(now.wall),
        last_verify: old.as_ref().and_then(|old| old.last_verify.clone()),
        done_tasks_recent: old.map(|old| old.done_tasks_recent).unwrap_or_default(),
        ..State::default()
    };
    for id in index.columns.values().flatten().map(|(_, id)| id) {
        let Some(status) = index.task(id).map(|task| task.status) else { continue };
        if !matches!(status, Status::New | Status::Assigned) {
            adopted.insert(id.clone(), status);
        }
        if !status.is_over() {
            place(&mut state, id, status);
        }
    }
    let header = board.header();
    let now_there = index.whole(state::PATH);
    let bytes = state.render(now_there.map(|(bytes, _)| bytes), &header);
    let seen = now_there.map(|(_, digest)| digest.clone());
    decision.effect(Effect::Replace {
        path: RelPath::fixed(state::PATH),
        bytes: Bytes(bytes),
        seen,
    });
    for hold in &index.memory.holds {
        let how = "the owner took the board over".to_owned();
        decision.effect(Effect::Resolve { cause: hold.cause.clone(), how });
    }
    let branch = index.checkout.as_ref().and_then(|checkout| checkout.branch.clone());
    decision.remember("ours", Ours { since: now.wall, branch });
    decision.remember("adopted", adopted);
    decision.remember("state", state);
    decision.forget("holds");
    decision.remember("epoch", index.memory.epoch + 1);
}

fn resume(board: &Board, command: &Command) -> Outcome {
    let memory = &board.index.memory;
    if let Some(hold) = memory.holds.iter().find(|hold| hold.way_out == WayOut::Adopt) {
        return Outcome::No(format!("{}; `agency adopt` ends this", hold.summary));
    }
    if !memory.is_held() {
        return Outcome::No("the board is not held".to_owned());
    }
    let mut decision = board.builder();
    let accepted = match base::resumed(board, &mut decision, command) {
        Ok(accepted) => accepted.map(|accepted| format!("; {accepted}")).unwrap_or_default(),
        Err(why) => return Outcome::No(why),
    };
    for hold in &memory.holds {
        let how = "the owner resumed".to_owned();
        decision.effect(Effect::Resolve { cause: hold.cause.clone(), how });
    }
    decision.forget("holds");
    decision.remember("epoch", memory.epoch + 1);
    decision.announce("resume", &format!("the owner lets the board go on{accepted}"));
    Outcome::Done(decision, format!("the owner resumed{accepted}"))
}

/// The board's own verbs, all about one task.
fn own(board: &Board, command: &Command, now: Now) -> Outcome {
    if board.index.memory.ours.is_none() {
        return Outcome::No(
            "agency has not managed this board here; `agency adopt` continues it, `agency init` begins a new one".to_owned(),
        );
    }
    if let Some(why) = board.is_frozen() {
        return Outcome::No(why);
    }
    if command.arg("do") == Some("listed") {
        return listed(board, now);
    }
    let Some(id) = command.arg("task").and_then(TaskId::parse) else {
        let found = clip(command.arg("task").unwrap_or_default(), 40);
        return Outcome::No(format!(
            "`{found}` is not a task id; wanted one such as T0001 (AG-06)"
        ));
    };
    if let Some(first) = judge::report_of(board, &id, now) {
        return Outcome::First(first);
    }
    let Some(task) = board.index.task(&id) else { return no_task(board, &id) };
    if let Some(parent) = board.index.parent_of(&id).filter(|_| !is_over(board, &id)) {
        return Outcome::No(format!(
            "{id} is a subtask of {parent} and goes where that goes; give the command for {parent} (AG-09)"
        ));
    }
    let verb = Ask { board, command, now, id: &id, task };
    let goes_on = matches!(command.arg("do"), Some("done" | "verified"));
    if let Some(path) = judge::out_of_scope_report(board, &id).filter(|_| goes_on) {
        match hand::scope(board, &id) {
            Err(ask) => return Outcome::First(*ask),
            Ok(Some(scope)) if !hand::breaches(&scope, path).is_empty() => {}
            Ok(_) => {
                let first = judge::judge_report(board, path, now);
                return first.map_or_else(|| no_task(board, &id), Outcome::First);
            }
        }
    }
    match command.arg("do") {
        Some("start") => verb.start(),
        Some("request-changes") => verb.request_changes(),
        Some("done") => verb.done(),
        Some("unblock") => verb.step(Status::Assigned, "the owner unblocked it"),
        Some("cancel") => verb.step(Status::Canceled, "the owner canceled it"),
        Some("audit") => verb.audit(),
        Some("verified") => verb.verified(),
        Some(other) => Outcome::No(format!("the board has no verb `{}`", clip(other, 40))),
        None => Outcome::No("which verb?".to_owned()),
    }
}

/// AG-38: tasks were added; STATE.md and TASK_BOARD.md say so.
fn listed(board: &Board, now: Now) -> Outcome {
    if tamper::is_foreign(board) {
        let what = "was changed by something other than `agency`; the daemon puts it right";
        return Outcome::No(format!("`{}` {what} (AG-15)", state::PATH));
    }
    let mut decision = board.builder();
    Moves::new(board, now).into(&mut decision, None);
    Outcome::Done(decision, "the board is up to date".to_owned())
}

fn is_over(board: &Board, id: &TaskId) -> bool {
    board.index.status_of(id).is_some_and(Status::is_over)
}

fn no_task(board: &Board, id: &TaskId) -> Outcome {
    let said = match board.index.find(id) {
        Some((path, _)) => {
            let problems = board.index.refusal_of(path).unwrap_or_default();
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("{id} is not valid:\n  {}", problems.join("\n  "))
        }
        None => format!("there is no one task {id}; `agency task list` shows them"),
    };
    Outcome::No(said)
}

/// A verb about a task that exists.
struct Ask<'a> {
    board: &'a Board,
    command: &'a Command,
    now: Now,
    id: &'a TaskId,
    task: &'a Task,
}

impl Ask<'_> {
    fn status(&self) -> Status {
        self.board.index.status_of(self.id).unwrap_or(Status::New)
    }

    fn reason(&self) -> Option<&str> {
        self.command.arg("reason").map(str::trim).filter(|reason| !reason.is_empty())
    }

    /// No row: what the table says instead.
    fn no_row(&self, to: Status) -> Outcome {
        let (id, from) = (self.id, self.status());
        if from == to {
            return Outcome::No(format!("{id} is {} already (AG-08)", from.word().to_lowercase()));
        }
        if to == Status::Done
            && let Some(why) = self.refused_report()
        {
            return Outcome::No(format!("{id} cannot be DONE: its report is refused ({why})"));
        }
        let ways: Vec<&str> = Status::ALL
            .into_iter()
            .filter(|to| find(from, *to, Actor::Orchestrator).is_some())
            .map(Status::word)
            .collect();
        let ways = match ways.as_slice() {
            [] => format!("a {} task stays {}", from.word(), from.word()),
            ways => format!("from {} it can go to {}", from.word(), ways.join(" or ")),
        };
        Outcome::No(format!(
            "{id} is {}, so it cannot become {}: {ways} (AG-08)",
            from.word(),
            to.word()
        ))
    }

    /// Why the newest report of this task was refused, if it was.
    fn refused_report(&self) -> Option<String> {
        let index = &self.board.index;
        let (path, file) = index.newest_report(self.id)?;
        if index.memory.refused.get(path) != Some(&file.digest) {
            return None;
        }
        let why = judge::why_refused(self.board, self.id, path, file)?;
        Some(format!("{why}; {path}"))
    }

    /// A move that needs nothing but its row.
    fn step(&self, to: Status, why: &str) -> Outcome {
        let Some(row) = find(self.status(), to, Actor::Orchestrator) else {
            return self.no_row(to);
        };
        let why = self.reason().unwrap_or(why);
        let mut decision = self.board.builder();
        let mut moves = Moves::new(self.board, self.now);
        let known = moves.to(self.id, to, why);
        known.verified = None;
        let words = match to {
            Status::Assigned => format!("The owner unblocked this task: {why}"),
            Status::New
            | Status::InProgress
            | Status::Blocked
            | Status::ReadyForReview
            | Status::Done
            | Status::Canceled => format!("The owner asks for changes: {why}"),
        };
        let audit = known.work.take_if(|work| work.by_hand).map(|work| work.run);
        if audit.is_some() {
            decision.effect(Effect::Release { tree: TreeRef::Main });
        }
        known.audited = None;
        let run = audit.flatten().or_else(|| {
            known.work.as_mut().and_then(|work| {
                work.back_to_builder(&words);
                work.run.clone()
            })
        });
        if let Some(work) = known.work.clone() {
            remedy::along(&mut moves, self.board, &work, to, why);
        }
        moves.into(&mut decision, Some(row.id));
        // The reason that stopped it is passed by.
        if self.status() == Status::Blocked && !to.is_over() {
            decision.announce("task unblock", &format!("{}: {why}", self.id));
        }
        if let Some(run) = run {
            decision.effect(Effect::Stop { run, why: format!("{} is {}", self.id, to.word()) });
        }
        Outcome::Done(decision, self.moved(to))
    }

    /// `T0001: ASSIGNED → IN_PROGRESS`.
    fn moved(&self, to: Status) -> String {
        format!("{}: {} → {}", self.id, self.status().word(), to.word())
    }

    /// NEW and ASSIGNED both: whoever starts a task has assigned it.
    fn start(&self) -> Outcome {
        let known = self.board.index.known(self.id, self.now.wall);
        if self.status() == Status::InProgress && known.work.is_none() && self.reason().is_some() {
            return self.start_anew();
        }
        let from = if self.status() == Status::New { Status::Assigned } else { self.status() };
        let Some(row) =
            find(from, Status::InProgress, Actor::Orchestrator).filter(|row| row.id == "TB2")
        else {
            return self.no_row(Status::InProgress);
        };
        let waits = self.board.index.waits_for(self.task);
        if !waits.is_empty() {
            return Outcome::No(format!("{} waits: {} (AG-27)", self.id, waits.join(", ")));
        }
        let begins = match hand::begins(self.board, self.id) {
            Ok(begins) => begins,
            Err(ask) => return Outcome::First(*ask),
        };
        let mut decision = self.board.builder();
        let mut moves = Moves::new(self.board, self.now);
        let known =
            moves.to(self.id, Status::InProgress, self.reason().unwrap_or("started by hand"));
        known.scope = Some(self.task.scope.clone());
        known.hand = begins;
        moves.into(&mut decision, Some(row.id));
        Outcome::Done(decision, self.moved(Status::InProgress))
    }

    /// The owner says that what changed so far is not this task's: its work counts from the tree as it is.
    fn start_anew(&self) -> Outcome {
        let begins = match hand::begins(self.board, self.id) {
            Ok(begins) => begins,
            Err(ask) => return Outcome::First(*ask),
        };
        let mut decision = self.board.builder();
        let known = self.board.index.known(self.id, self.now.wall);
        let known = Known { hand: begins, verified: None, audited: None, ..known };
        decision.remember(&format!("task/{}", self.id), known);
        decision.announce("task start", &format!("{}: {}", self.id, self.reason().unwrap_or("")));
        Outcome::Done(decision, format!("{}: its changes count from now on", self.id))
    }

    /// AG-41: a new audit of the tree as it is.
    fn audit(&self) -> Outcome {
        let known = self.board.index.known(self.id, self.now.wall);
        if self.status() != Status::ReadyForReview {
            let at = self.status().word();
            return Outcome::No(format!(
                "{} is {at}; an audit looks at work that is READY_FOR_REVIEW (AG-41)",
                self.id
            ));
        }
        if !hand::has_auditor(self.board) {
            let auditor = &self.board.limits.auditor;
            return Outcome::No(format!(
                "the auditor `{auditor}` is not an agent here; set board.auditor in agency's config (AG-41)"
            ));
        }
        let work = match known.work.clone() {
            Some(work) if work.run.is_some() => {
                let what = "a run of this task is under way; wait for its end, or agency stop it";
                return Outcome::No(format!("{}: {what} (AG-41)", self.id));
            }
            Some(work) if !work.by_hand => work,
            Some(_) | None => match hand::audit(self.board, self.id) {
                Ok(work) => work,
                Err(ask) => return Outcome::First(*ask),
            },
        };
        let mut decision = self.board.builder();
        if let Some(check) = work.check.as_ref().filter(|_| !work.shared) {
            decision.effect(check.drop_tree());
        }
        let mut moves = Moves::new(self.board, self.now);
        let known = moves.to(self.id, Status::ReadyForReview, "the owner asks for a new audit");
        known.verified = None;
        known.audited = None;
        known.work = Some(work.audited_anew());
        moves.into(&mut decision, None);
        let auditor = &self.board.limits.auditor;
        Outcome::Done(decision, format!("{}: `{auditor}` audits it anew", self.id))
    }

    fn request_changes(&self) -> Outcome {
        let Some(reason) = self.reason() else {
            return Outcome::No("a reason is required: --reason TEXT".to_owned());
        };
        if self.status() != Status::ReadyForReview {
            return self.no_row(Status::InProgress);
        }
        self.step(Status::InProgress, reason)
    }

    /// §9.2's hard rule, AG-11: a report that was read, and our own pass on this very content.
    fn done(&self) -> Outcome {
        let index = &self.board.index;
        let Some(row) = find(self.status(), Status::Done, Actor::Orchestrator) else {
            return self.no_row(Status::Done);
        };
        let known = index.known(self.id, self.now.wall);
        let overridden = known.verified.as_ref().is_some_and(|verified| verified.overridden);
        if let Some(work) = known.work.as_ref().filter(|work| work.by_hand && !overridden) {
            let auditor = &self.board.limits.auditor;
            if work.stage == Stage::Owner {
                return Outcome::No(format!("{}: {} (AG-28)", self.id, known.reason));
            }
            return Outcome::No(format!(
                "{} waits for its audit by `{auditor}`; `agency run` starts it (AG-28)",
                self.id
            ));
        }
        if known.work.as_ref().is_some_and(|work| !work.by_hand) {
            return Outcome::No(format!(
                "we work on {} ourselves: it is DONE when its verify has passed and it is merged (AG-14)",
                self.id
            ));
        }
        if known.report.is_none() && index.report_of(self.id).is_none() {
            return Outcome::No(format!("{} has no valid report; DONE needs one (AG-11)", self.id));
        }
        let Some(verified) = &known.verified else {
            return Outcome::No(format!(
                "{0} was not verified by us; run `agency verify --task {0}` (AG-11). An artifact that somebody else wrote does not count",
                self.id
            ));
        };
        if let Some(objection) = &verified.objection {
            return Outcome::No(format!(
                "{}: verify does not allow DONE: {objection} (AG-11)",
                self.id
            ));
        }
        match self.unchanged(verified) {
            Same::Yes => {}
            Same::Ask(query) => return Outcome::First(self.ask(*query)),
            Same::No(what) => {
                return Outcome::No(format!(
                    "{what} changed after the verify; run `agency verify --task {}` again (AG-11)",
                    self.id
                ));
            }
        }
        if let Some(outcome) = self.risks(verified).or_else(|| self.by_hand(&known)) {
            return outcome;
        }
        let mut decision = self.board.builder();
        let mut moves = Moves::new(self.board, self.now);
        let why = if verified.overridden { "by override" } else { "verified" };
        let run = moves.to(self.id, Status::Done, why).work.take().and_then(|work| work.run);
        if let Some(run) = run {
            let why = format!("{} is DONE by override", self.id);
            decision.effect(Effect::Stop { run, why });
        }
        moves.into(&mut decision, Some(row.id));
        Outcome::Done(decision, self.moved(Status::Done))
    }

    /// AG-13, AG-28: a person's work stayed in its scope, and passed its audit where there is an auditor.
    fn by_hand(&self, known: &Known) -> Option<Outcome> {
        let overridden = known.verified.as_ref().is_some_and(|verified| verified.overridden);
        match hand::scope(self.board, self.id) {
            Err(ask) => return Some(Outcome::First(*ask)),
            Ok(Some(scope)) => {
                let path = RelPath::fixed(state::PATH);
                if let Some(breach) = hand::breaches(&scope, &path).first() {
                    return Some(Outcome::No(format!("{}: {} (AG-13)", self.id, breach.found)));
                }
            }
            Ok(None) => {}
        }
        if overridden || !self.board.limits.audits_people || !hand::has_auditor(self.board) {
            return None;
        }
        let ask = format!("agency task audit {}", self.id);
        let Some(audited) = &known.audited else {
            return Some(Outcome::No(format!(
                "{} was not audited; `{ask}` asks for it (AG-28)",
                self.id
            )));
        };
        match hand::changed_since(self.board, self.id, audited) {
            Err(ask) => Some(Outcome::First(*ask)),
            Ok(Some(why)) => {
                Some(Outcome::No(format!("{}: {why}; `{ask}` asks for a new one (AG-34)", self.id)))
            }
            Ok(None) => None,
        }
    }

    fn ask(&self, query: Query) -> Decision {
        let mut decision = self.board.builder();
        decision.effect(Effect::Ask { query });
        decision.finish()
    }

    /// Is what was verified what lies there now? Our own folder does not count.
    fn unchanged(&self, verified: &Verified) -> Same {
        let Some(tree) = verified.tree.as_ref().filter(|_| self.board.place.git) else {
            return Same::Yes;
        };
        let label = format!("board/{}", self.id);
        let answer = self.board.index.answers.iter().find(|(_, query, _)| {
            matches!(query, Query::Snapshot { label: asked, .. } if *asked == label)
        });
        match answer {
            None => Same::Ask(Box::new(Query::Snapshot {
                tree: TreeRef::Main,
                label,
                since: Some(tree.clone()),
            })),
            Some((_, _, Fact::Snapshot(snapshot))) => {
                let other = snapshot
                    .changed
                    .iter()
                    .find(|change| !change.path.as_str().starts_with(super::scope::OURS));
                other.map_or(Same::Yes, |change| Same::No(format!("`{}`", change.path)))
            }
            Some((_, _, fact)) => Same::No(format!("git could not say what ({fact:?}); something")),
        }
    }

    /// AG-20: checked before DONE whatever the verify was asked to do; RISKS.md as it was committed.
    fn risks(&self, verified: &Verified) -> Option<Outcome> {
        let text = match self.trusted(risks::PATH) {
            Ok(text) => text,
            Err(query) => return Some(Outcome::First(self.ask(*query))),
        };
        let check = risks::check(self.id, &self.task.risks, &risks::parse(&text));
        let p1 = check.override_required.first().filter(|_| !verified.overridden);
        let p1 = p1.map(|id| format!("{id} is P1 OPEN — DONE needs an override"));
        let reason = check.blocking_reason.clone().or(p1)?;
        Some(Outcome::No(format!("{}: {reason} (AG-20)", self.id)))
    }

    /// A file as the last commit has it, or as it lies there where there is none.
    fn trusted(&self, path: &'static str) -> Result<String, Box<Query>> {
        let index = &self.board.index;
        let here = || index.text(path).unwrap_or_default();
        let head: Option<&CommitId> =
            index.checkout.as_ref().and_then(|checkout| checkout.head.as_ref());
        let Some(commit) = head.filter(|_| self.board.place.git) else { return Ok(here()) };
        let path = RelPath::fixed(path);
        let answer = index.answers.iter().find(
            |(_, query, _)| matches!(query, Query::FileAt { path: asked, .. } if *asked == path),
        );
        match answer {
            None => Err(Box::new(Query::FileAt { commit: commit.clone(), path })),
            Some((_, _, Fact::File(Some(bytes)))) => {
                Ok(String::from_utf8_lossy(&bytes.0).into_owned())
            }
            Some(_) => Ok(here()),
        }
    }
}

/// Whether the content is what was verified.
enum Same {
    Yes,
    Ask(Box<Query>),
    No(String),
}
