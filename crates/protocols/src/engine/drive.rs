//! The steps of a session that every protocol shares: lease, look, start, end, look again; then park, ask, or try again. What is
//! prepared, how a result is judged and where it belongs, the protocol says by [`Host`].

use super::notice::{Hold, Holds, Notice, broken};
use super::session::{Ended, Looked, Ready, Session, Stage, Step, Work};
use super::tries::{Retries, Verdict};
use super::{Draft, InFlight, Remember, owner};
use crate::model::{
    Access, Condition, Deadline, Decision, Effect, Event, Fact, Failure, Fate, LiveRun, Moment,
    NewWorktree, Now, Outcome, Query, RunId, Runner, Seat, Snapshot, Spawn, Timestamp, TreeId,
    TreeRef, Work as LiveWork, clip, clock_time, counted, fate,
};

/// A protocol that runs sessions.
pub trait Host {
    type Work: Work;
    type Memo: Remember;

    fn protocol(&self) -> &'static str;

    /// What people call it, as in "no such run is alive in …".
    fn called(&self) -> &'static str {
        self.protocol()
    }

    /// The first part of the ids of its runs. It distinguishes those of different repositories.
    fn repo(&self) -> &str {
        self.protocol()
    }

    fn in_flight(&self) -> &InFlight;

    fn holds(&self) -> &Holds;

    fn draft(&self) -> Draft<Self::Memo>;

    /// What the engine remembers, among the protocol's memos.
    fn memo(common: Common<Self::Work>) -> Self::Memo;

    /// A notice in the protocol's own words for what it did and will not do.
    fn notice(&self, rule: &'static str, subject: &str, summary: String) -> Notice {
        Notice::new(rule, subject, summary)
    }

    fn seat(&self, session: &Session<Self::Work>) -> Seat;

    /// What is worked on, for people.
    fn task(&self, session: &Session<Self::Work>) -> String;

    fn tree(&self, _: &Session<Self::Work>) -> TreeRef {
        TreeRef::Main
    }

    /// The worktree that is made for it; `None`: its tree is there.
    fn worktree(
        &self,
        _: &Session<Self::Work>,
        _: &<Self::Work as Work>::Base,
    ) -> Option<NewWorktree> {
        None
    }

    fn retries(&self, _: &Session<Self::Work>) -> Retries {
        Retries::default()
    }

    /// Asked together with the look at the tree, before the agent starts.
    fn questions(&self, _: &Session<Self::Work>) -> Vec<Query> {
        Vec::new()
    }

    /// What the agent is told; `None`: an answer is missing.
    fn assignment(&self, session: &Session<Self::Work>, run: &RunId) -> Option<Assignment>;
}

/// What a session needs now.
pub enum Duty<'a, W: Work> {
    /// Time, a run or the owner moves it on.
    Wait,
    /// The engine has decided.
    Decided(Decision),
    /// The protocol prepares it, then takes [`Step::Prepared`].
    Prepare,
    /// The run is over: the protocol looks at what it left.
    Look(&'a Ended<W>),
    Judge(&'a Looked<W>),
    /// The result is on its way.
    Land(&'a W::Landing),
}

/// What to do for a session, while nothing is in flight and nothing is held.
pub fn duty<'a, H: Host>(host: &H, session: &'a Session<H::Work>, now: Now) -> Duty<'a, H::Work> {
    if session.tries.pause(now).is_some() {
        return Duty::Wait;
    }
    match &session.stage {
        Stage::Opening => Duty::Prepare,
        Stage::Ready(ready) => begin(host, session, ready, now).map_or(Duty::Wait, Duty::Decided),
        Stage::Running(_) => Duty::Wait,
        Stage::Ended(ended) => Duty::Look(ended),
        Stage::Looked(looked) => Duty::Judge(looked),
        Stage::Landing(landing) => Duty::Land(landing.as_ref()),
    }
}

/// What comes before every duty: an effect that failed, the end of a run, a permission that cannot be used.
pub fn chores<H: Host>(host: &H, session: &Session<H::Work>, now: Now) -> Option<Decision> {
    match host.in_flight().failed() {
        Some((Effect::Spawn(spawn), failure)) => {
            start_failed(host, session, spawn, failure, now.wall)
        }
        Some((effect, failure)) => {
            let mut draft = host.draft();
            let notice = broken(host.notice("DM-10", "", String::new()), effect, failure);
            owner::hold(host, &mut draft, notice);
            Some(draft.finish())
        }
        None => note_exit(host, session).or_else(|| give_back(host, session)),
    }
}

/// What the engine remembers for every protocol.
#[derive(Clone, Debug)]
pub enum Common<W: Work> {
    Session(Box<Session<W>>),
    Holds(Vec<Hold>),
    Epoch(u64),
}

/// What an agent is told and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub phase: String,
    pub prompt: String,
    pub why: String,
    pub access: Access,
}

/// Worktree and lease, then a look at the tree, then the agent.
pub fn begin<H: Host>(
    host: &H,
    session: &Session<H::Work>,
    ready: &Ready<H::Work>,
    now: Now,
) -> Option<Decision> {
    let tree = host.tree(session);
    if !host.in_flight().is_granted(&tree) {
        let asked = host.in_flight().is_leasing(&tree);
        return (!asked).then(|| make_room(host, session, ready, tree));
    }
    let looked = host.in_flight().fact(|query| matches!(query, Query::Snapshot { .. }));
    let mut draft = host.draft();
    let run = RunId::new(format!("{}-{}", host.repo(), draft.key()));
    if let Some(Fact::Snapshot(start)) = looked
        && let Some(assignment) = host.assignment(session, &run)
    {
        return Some(start_run(host, session, assignment, run, start.tree.clone(), now));
    }
    ask_for_start(host, session, &mut draft);
    Some(draft.finish())
}

fn ask_for_start<H: Host>(host: &H, session: &Session<H::Work>, draft: &mut Draft<H::Memo>) {
    let (tree, label) = (host.tree(session), format!("{}-start", host.protocol()));
    draft.effect(Effect::Ask { query: Query::Snapshot { tree, label, since: None } });
    for query in host.questions(session) {
        draft.effect(Effect::Ask { query });
    }
}

fn make_room<H: Host>(
    host: &H,
    session: &Session<H::Work>,
    ready: &Ready<H::Work>,
    tree: TreeRef,
) -> Decision {
    let mut draft = host.draft();
    let worktree = host.worktree(session, &ready.base);
    draft.effects(worktree.map(|wanted| Effect::Worktree(Box::new(wanted))));
    let seat = host.seat(session);
    draft.effect(Effect::Lease { tree, role: seat.to_string(), seat });
    draft.finish()
}

fn start_run<H: Host>(
    host: &H,
    session: &Session<H::Work>,
    assignment: Assignment,
    run: RunId,
    start: TreeId,
    now: Now,
) -> Decision {
    let mut draft = host.draft();
    let (seat, task) = (host.seat(session), host.task(session));
    let Assignment { phase, prompt, why, access } = assignment;
    let context = [("run", run.as_str()), ("step", task.as_str()), ("phase", phase.as_str())];
    draft.effect(Effect::Log(Event {
        event: "run.start".to_owned(),
        agent: Some(seat.clone()),
        context: context.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }));
    draft.effect(Effect::Spawn(Box::new(Spawn {
        run: run.clone(),
        role: seat.to_string(),
        seat,
        tree: host.tree(session),
        task,
        phase,
        prompt,
        why,
        resume: None,
        command: None,
        access,
    })));
    let mut next = session.step(Step::Started { start, run, since: now.wall });
    next.tries.start();
    remember::<H>(&mut draft, next);
    draft.finish()
}

fn remember<H: Host>(draft: &mut Draft<H::Memo>, session: Session<H::Work>) {
    draft.remember(H::memo(Common::Session(Box::new(session))));
}

/// A permission to start that cannot be used now is given back.
pub fn give_back<H: Host>(host: &H, session: &Session<H::Work>) -> Option<Decision> {
    let tree = host.tree(session);
    (host.in_flight().is_granted(&tree) && host.holds().is_held()).then(|| {
        let mut draft = host.draft();
        draft.effect(Effect::Release { tree });
        draft.finish()
    })
}

/// A run has ended: remember that before anything else.
pub fn note_exit<H: Host>(host: &H, session: &Session<H::Work>) -> Option<Decision> {
    let end = host.in_flight().end_of(session.stage.run()?)?;
    let (outcome, tail) = (end.outcome.clone(), end.tail.clone());
    Some(exit(host, session, Step::Exited { at: end.ended_at, outcome, tail }))
}

/// An agent that could not be started is one that crashed at once.
pub fn start_failed<H: Host>(
    host: &H,
    session: &Session<H::Work>,
    spawn: &Spawn,
    failure: &Failure,
    at: Timestamp,
) -> Option<Decision> {
    (session.stage.run() == Some(&spawn.run)).then(|| {
        let outcome = Outcome::Crash { how: failure.said.clone() };
        exit(host, session, Step::Exited { at, outcome, tail: failure.said.clone() })
    })
}

pub fn exit<H: Host>(host: &H, session: &Session<H::Work>, exited: Step<H::Work>) -> Decision {
    let mut draft = host.draft();
    let mut next = session.step(exited);
    if let Stage::Ended(ended) = &next.stage {
        let over = next.tries.after(&ended.outcome);
        draft.effects(over);
    }
    remember::<H>(&mut draft, next);
    draft.finish()
}

/// The tree after the end, or the decision that asks for it.
pub fn look_after<'a, H: Host>(
    host: &'a H,
    session: &Session<H::Work>,
    ended: &Ended<H::Work>,
) -> Result<&'a Snapshot, Decision> {
    let looked = host.in_flight().fact(|query| matches!(query, Query::Snapshot { .. }));
    if let Some(Fact::Snapshot(end)) = looked {
        return Ok(end);
    }
    let mut draft = host.draft();
    let (tree, label) = (host.tree(session), format!("{}-end", host.protocol()));
    let since = Some(ended.start.clone());
    draft.effect(Effect::Ask { query: Query::Snapshot { tree, label, since } });
    Err(draft.finish())
}

/// Ends that say nothing about the work: it is parked, or the owner is asked, and no try is spent. `None`: the result is judged.
pub fn excused<H: Host>(
    host: &H,
    session: &Session<H::Work>,
    ended: &Ended<H::Work>,
    now: Now,
) -> Option<Decision> {
    let (seat, backoff) = (host.seat(session), host.retries(session).backoff);
    let runner = Runner { protocol: host.protocol(), agent: seat.as_str(), backoff };
    let mut next = session.step(Step::Again);
    let mut draft = host.draft();
    let ask = match (fate(&ended.outcome, runner, session.tries.outage(), now), &ended.outcome) {
        (Fate::Park(park), _) => {
            draft.effects(next.tries.park(*park));
            None
        }
        (Fate::Count, Outcome::Stopped { why }) => {
            Some(("SU-03", format!("`{}` was stopped: {why}", ended.run)))
        }
        // What was denied matters only if something is missing.
        (Fate::Ask { .. }, Outcome::Denied { .. }) | (Fate::Count, _) => return None,
        (Fate::Ask { rule, summary }, _) => Some((rule, summary)),
    };
    release(host, session, &mut draft);
    remember::<H>(&mut draft, next);
    if let Some((rule, summary)) = ask {
        let mut notice = host.notice(rule, ended.run.as_str(), summary);
        notice.evidence = vec![ended.tail.clone()];
        owner::hold(host, &mut draft, notice);
    }
    Some(draft.finish())
}

/// The tree is given back. A worktree of ours goes; what is in no commit is kept by the shell.
pub fn release<H: Host>(host: &H, session: &Session<H::Work>, draft: &mut Draft<H::Memo>) {
    let tree = host.tree(session);
    if let TreeRef::Worktree(name) = &tree {
        draft.effect(Effect::DropWorktree { name: name.clone(), branch: None });
    }
    draft.effect(Effect::Release { tree });
}

/// SU-06: one more try later, or the owner. `what` came to nothing because of `why`.
pub fn try_again<H: Host>(
    host: &H,
    draft: &mut Draft<H::Memo>,
    session: &Session<H::Work>,
    run: &RunId,
    (what, why): (&str, &str),
    now: Now,
) -> Session<H::Work> {
    let mut next = session.step(Step::Again);
    let words = |until: Moment| {
        let at = clock_time(until.wall());
        format!("{}: {}; next try {at}", host.seat(session), clip(why, 160))
    };
    if let Verdict::Spent { tries } = next.tries.fail(host.retries(session), run, now, words) {
        // The owner is asked, and all tries are there again when they resume.
        next.tries.renew();
        let tries = counted(tries, "try");
        let summary = format!("{what} came to nothing in {tries}; the last: {why}");
        let mut notice = host.notice("SU-06", run.as_str(), summary);
        notice.evidence = vec![why.to_owned()];
        owner::hold(host, draft, notice);
    }
    next
}

/// When time alone changes what is decided.
pub fn deadline<H: Host>(host: &H, session: &Session<H::Work>, now: Now) -> Option<Deadline> {
    if host.holds().is_held() { None } else { session.tries.deadline(now) }
}

/// DM-16: what happens to this session right now.
pub fn condition<H: Host>(host: &H, session: &Session<H::Work>, now: Now) -> Condition {
    let (seat, task) = (host.seat(session), host.task(session));
    if let Stage::Running(running) = &session.stage {
        return Condition::Working(LiveWork::Run(LiveRun {
            run: running.run.clone(),
            agent: seat.to_string(),
            task,
            since: Some(running.since),
            trouble: None,
            others: 0,
        }));
    }
    if let Some(effect) = host.in_flight().blocking() {
        return Condition::doing(effect);
    }
    if host.in_flight().is_leasing(&host.tree(session)) {
        return Condition::starts(seat.to_string(), task);
    }
    match session.tries.pause(now) {
        Some((until, "")) => {
            let at = clock_time(until.wall());
            return Condition::waits_until(format!("next try of {seat} {at}"), until);
        }
        Some((until, words)) => return Condition::waits_until(words, until),
        None => {}
    }
    Condition::step(match &session.stage {
        Stage::Opening | Stage::Ready(_) => format!("preparing {seat} for {task}"),
        Stage::Running(running) => format!("following the run {}", running.run),
        Stage::Ended(_) | Stage::Looked(_) => format!("judging what {seat} left"),
        Stage::Landing(_) => format!("recording {task}"),
    })
}
