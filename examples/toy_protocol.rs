//! A sixth protocol, small enough to read in one sitting: how to plug one in.
//!
//! The protocol: somebody writes `TODO.txt`, one wish per line. The first wish is given to the agent in the seat `builder`; when
//! its run has ended well and the line `done: <wish>` stands in `DONE.txt`, the next one is its turn. Two tries each, then the
//! owner is called. Leases, tries, pauses, holds and the owner's verbs are the engine's: the protocol says what is to be done and
//! whether it is done.
//!
//! `examples/README.md` says where each part of it lies in a real one, and the two lines by which the shell gets to know it.
//!
//! `cargo run --example toy_protocol` plays it in memory; `cargo test --example toy_protocol` judges it.

use agency::engine::{
    self, Assignment, Common, Draft, Duty, Ended, Hold, Holds, Host, InFlight, Nothing, Remember,
    Retries, Session, Step, Work,
};
use agency::memos;
use agency::model::*;
use agency::protocol::{Protocol, Status};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const WISHES: &str = "TODO.txt";
const RESULTS: &str = "DONE.txt";

/// What is known. Everything here can be rebuilt from the files and from the memos of our own decisions.
#[derive(Default)]
struct Toy {
    in_flight: InFlight,
    wishes: Vec<String>,
    done: Vec<String>,
    decisions: u64,
    holds: Holds,
    session: Option<Box<Session<Wish>>>,
}

memos! {
    pub enum Memo {
        one {
            Count("count"): u64,
            Session("session"): Box<Session<Wish>>,
            Holds("holds"): Vec<Hold>,
            Epoch("epoch"): u64,
        }
        each {}
    }
}

/// What an agent works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wish {
    wish: String,
}

impl Work for Wish {
    type Task = Self;
    type Base = Nothing;
    type Found = Nothing;
    type Landing = Nothing;
}

impl Host for Toy {
    type Work = Wish;
    type Memo = Memo;

    fn protocol(&self) -> &'static str {
        "toy"
    }

    fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    fn holds(&self) -> &Holds {
        &self.holds
    }

    fn draft(&self) -> Draft<Memo> {
        Draft::new("toy", self.decisions)
    }

    fn memo(common: Common<Wish>) -> Memo {
        match common {
            Common::Session(session) => Memo::Session(Some(session)),
            Common::Holds(open) => Memo::Holds(Some(open)),
            Common::Epoch(epoch) => Memo::Epoch(Some(epoch)),
        }
    }

    fn seat(&self, _: &Session<Wish>) -> Seat {
        Seat::new("builder")
    }

    fn task(&self, session: &Session<Wish>) -> String {
        session.task.wish.clone()
    }

    fn retries(&self, _: &Session<Wish>) -> Retries {
        Retries { max: 1, backoff: Duration::ZERO }
    }

    fn assignment(&self, session: &Session<Wish>, _: &RunId) -> Option<Assignment> {
        let wish = &session.task.wish;
        let prompt = format!("Fulfil this wish, then add the line `done: {wish}` to {RESULTS}.");
        let (phase, why) = ("build".to_owned(), "it is the first".to_owned());
        Some(Assignment { phase, prompt, why, access: Access::Write })
    }
}

impl Toy {
    fn absorb_file(&mut self, path: &RelPath, state: &FileState) {
        let text = match state {
            FileState::Whole(file) => String::from_utf8_lossy(&file.bytes).into_owned(),
            FileState::Absent | FileState::Unreadable(_) => String::new(),
        };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        if path.as_str() == WISHES {
            self.wishes = lines.map(str::to_owned).collect();
        } else {
            let done = lines.filter_map(|line| line.strip_prefix("done: "));
            self.done = done.map(str::to_owned).collect();
        }
    }

    fn remember(&mut self, memo: Memo) {
        match memo {
            Memo::Count(count) => self.decisions = count.unwrap_or_default(),
            Memo::Session(session) => self.session = session,
            Memo::Holds(open) => self.holds.open = open.unwrap_or_default(),
            Memo::Epoch(epoch) => self.holds.epoch = epoch.unwrap_or_default(),
        }
    }

    /// A decision that moves the session on.
    fn to(&self, session: Session<Wish>) -> Decision {
        let mut draft = self.draft();
        draft.remember(Memo::Session(Some(Box::new(session))));
        draft.finish()
    }

    fn take_next(&self) -> Option<Decision> {
        let wish = self.wishes.iter().find(|wish| !self.done.contains(wish))?.clone();
        Some(self.to(Session::new(Wish { wish })))
    }

    /// A run is never believed: what counts is whether its line is there.
    fn judge(&self, session: &Session<Wish>, ended: &Ended<Wish>, now: Now) -> Decision {
        if let Some(decision) = engine::excused(self, session, ended, now) {
            return decision;
        }
        let mut draft = self.draft();
        engine::release(self, session, &mut draft);
        let next = (!self.done.contains(&session.task.wish)).then(|| {
            let came = (session.task.wish.as_str(), "its line is missing");
            Box::new(engine::try_again(self, &mut draft, session, &ended.run, came, now))
        });
        draft.remember(Memo::Session(next));
        draft.finish()
    }

    fn go_on(&self, session: &Session<Wish>, now: Now) -> Option<Decision> {
        match engine::duty(self, session, now) {
            Duty::Decided(decision) => Some(decision),
            Duty::Prepare => Some(self.to(session.step(Step::Prepared(Nothing {})))),
            Duty::Look(ended) => Some(self.judge(session, ended, now)),
            Duty::Wait | Duty::Judge(_) | Duty::Land(_) => None,
        }
    }
}

impl Protocol for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn interest(&self) -> Interest {
        let file =
            |path| WatchedFile { path: RelPath::fixed(path), shape: Shape::Text, limit: 1 << 20 };
        Interest { files: vec![file(WISHES), file(RESULTS)], trees: Vec::new() }
    }

    /// Memory is only what our own journalled decisions say.
    fn absorb(&mut self, wake: &Wake) {
        self.in_flight.absorb(wake);
        if let Wake::File(file) = wake {
            self.absorb_file(&file.path, &file.state);
        }
        if let Wake::Decided(decision) = wake {
            self.decisions += 1;
            decision.memo.iter().for_each(|memo| self.remember(Memo::from_memo(memo)));
            let running = self.session.as_ref().and_then(|session| session.stage.run());
            self.in_flight.keep_ends(|run| running == Some(run));
        }
    }

    fn decide(&self, now: Now) -> Decision {
        if self.in_flight.blocking().is_some() {
            return Decision::default();
        }
        let session = self.session.as_deref();
        let decision = engine::answer(self, session)
            .or_else(|| engine::chores(self, session?, now))
            .or_else(|| match session.filter(|_| !self.holds.is_held()) {
                Some(session) => self.go_on(session, now),
                None if self.holds.is_held() => None,
                None => self.take_next(),
            });
        let deadline = || session.and_then(|session| engine::deadline(self, session, now));
        decision.unwrap_or_else(|| Decision { next_deadline: deadline(), ..Decision::default() })
    }

    /// Every state has an answer, and none of them is "nothing happens, and nobody knows why".
    fn condition(&self, now: Now) -> Condition {
        match (self.holds.open.first(), &self.session) {
            (Some(hold), _) => Condition::held(&hold.summary, hold.way_out.command()),
            (None, Some(session)) => engine::condition(self, session, now),
            (None, None) if self.wishes.is_empty() => Condition::idle("nobody has a wish"),
            (None, None) => Condition::done("every wish is fulfilled"),
        }
    }

    fn status(&self, _: Now) -> Status {
        let summary = format!("{} of {} wishes fulfilled", self.done.len(), self.wishes.len());
        let held = self.holds.open.first().map(|hold| hold.summary.clone());
        Status { summary, held, detail: serde_json::json!({ "wishes": self.wishes }) }
    }
}

/// The smallest shell there can be: it journals nothing and starts nobody, but keeps the order of things.
#[derive(Default)]
struct Shell {
    toy: Toy,
    said: Vec<String>,
}

impl Shell {
    fn write(&mut self, path: &'static str, text: &str) {
        let (bytes, digest) = (text.as_bytes().into(), Digest::of(text.as_bytes()));
        let file = WholeFile { bytes, digest, written: now().wall, seen: now() };
        let state = FileState::Whole(Box::new(file));
        self.toy.absorb(&Wake::File(FileSeen { path: RelPath::fixed(path), state }));
    }

    /// Decides until there is nothing left to decide.
    fn settle(&mut self) {
        loop {
            let decision = self.toy.decide(now());
            if decision.is_quiet() {
                return;
            }
            self.toy.absorb(&Wake::Decided(decision.clone()));
            for Keyed { key, effect } in decision.effects {
                let wake = match effect {
                    Effect::Ask { .. } => Wake::Fact { key, value: Fact::Snapshot(tree()) },
                    Effect::Lease { tree, .. } => {
                        self.toy.absorb(&Wake::Leased { tree });
                        Wake::Done { key }
                    }
                    Effect::Spawn(spawn) => {
                        self.said.push(format!("start for {}", spawn.task));
                        Wake::Done { key }
                    }
                    Effect::Escalate(escalation) => {
                        self.said.push(escalation.summary);
                        Wake::Done { key }
                    }
                    _ => Wake::Done { key },
                };
                self.toy.absorb(&wake);
            }
        }
    }

    /// The run that is alive ends, whatever it says of itself.
    fn end(&mut self) {
        let run = self.toy.session.as_ref().and_then(|session| session.stage.run());
        let end = RunEnd {
            run: run.expect("a run is alive").clone(),
            outcome: Outcome::Ok,
            ended_at: now().wall,
            tail: String::new(),
            exit_code: Some(0),
            usage: Default::default(),
            said: None,
        };
        self.toy.absorb(&Wake::Run(RunEvent::Ended(Box::new(end))));
        self.settle();
    }
}

/// Time stands still here; a real shell reads its clock.
fn now() -> Now {
    Now { wall: Default::default(), ticks: Ticks(0) }
}

/// What a real shell would see in the tree.
fn tree() -> Snapshot {
    let checkout = Checkout { branch: None, head: None, busy: None, busy_since: None };
    let (dirty, changed) = (Vec::new(), Vec::new());
    Snapshot { tree: TreeId::new("0"), checkout, dirty, changed, refs: Digest::of(b"") }
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() {
    let mut shell = Shell::default();
    shell.write(WISHES, "a door\na window\n");
    shell.settle();
    shell.write(RESULTS, "done: a door\n");
    shell.end();
    shell.end();
    shell.end();
    println!("{}\n{}", shell.said.join("\n"), shell.toy.status(now()).summary);
}

#[test]
fn a_wish_counts_when_its_line_is_there_and_not_before() {
    let mut shell = Shell::default();
    shell.write(WISHES, "a door\na window\n");
    shell.settle();
    shell.end();
    assert_eq!(shell.said, ["start for a door", "start for a door"], "exit 0 is no result");
    shell.write(RESULTS, "done: a door\n");
    shell.end();
    assert_eq!(shell.said.last().unwrap(), "start for a window");
    shell.end();
    shell.end();
    assert_eq!(
        shell.said.last().unwrap(),
        "a window came to nothing in 2 tries; the last: its line is missing"
    );
    assert!(shell.toy.decide(now()).is_quiet(), "the owner is told once");
}
