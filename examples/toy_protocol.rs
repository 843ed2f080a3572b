//! A sixth protocol, small enough to read in one sitting: how to plug one in.
//!
//! The protocol: somebody writes `TODO.txt`, one wish per line. The first wish is given to the agent in the seat `builder`; when
//! its run has ended well and the line `done: <wish>` stands in `DONE.txt`, the next one is its turn. Two tries each, then the
//! owner is called.
//!
//! `examples/README.md` says where each part of it lies in a real one, and the two lines by which the shell gets to know it.
//!
//! `cargo run --example toy_protocol` plays it in memory; `cargo test --example toy_protocol` judges it.

use agency::model::{
    Access, Builder, Cause, Condition, Decision, Effect, Escalation, FileState, Interest, LiveRun,
    Now, RelPath, RuleId, RunEvent, RunId, Seat, Severity, Shape, Spawn, TreeRef, Wake,
    WatchedFile, Work,
};
use agency::protocol::{Protocol, Status};
use serde_json::json;

const WISHES: &str = "TODO.txt";
const RESULTS: &str = "DONE.txt";
const TRIES: u64 = 2;

/// What is known. Everything here can be rebuilt from the files and from the memos of our own decisions.
#[derive(Default)]
struct Toy {
    decisions: u64,
    wishes: Vec<String>,
    done: Vec<String>,
    granted: bool,
    asked: bool,
    /// The run that is alive, and its wish.
    running: Option<(RunId, String)>,
    /// It has ended; its wish is judged next.
    ended: bool,
    /// Tries of the first open wish that left nothing.
    failures: u64,
    told: bool,
}

impl Toy {
    fn next(&self) -> Option<&str> {
        self.wishes.iter().find(|wish| !self.done.contains(wish)).map(String::as_str)
    }

    fn absorb_file(&mut self, path: &RelPath, state: &FileState) {
        let text = match state {
            FileState::Whole(file) => String::from_utf8_lossy(&file.bytes).into_owned(),
            FileState::Absent | FileState::Unreadable(_) => String::new(),
        };
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        match path.as_str() {
            WISHES => self.wishes = lines().map(str::to_owned).collect(),
            RESULTS => {
                let done = lines().filter_map(|line| line.strip_prefix("done: "));
                self.done = done.map(str::to_owned).collect();
            }
            _ => {}
        }
    }

    /// Memory is only what our own journalled decisions say.
    fn absorb_decision(&mut self, decision: &Decision) {
        self.decisions += 1;
        for memo in &decision.memo {
            let number = memo.value.as_ref().and_then(serde_json::Value::as_u64);
            match memo.name.as_str() {
                "count" => self.decisions = number.unwrap_or_default(),
                "failures" => self.failures = number.unwrap_or_default(),
                "told" => self.told = memo.value.is_some(),
                "running" => {
                    self.ended = false;
                    self.running =
                        memo.value.clone().and_then(|run| serde_json::from_value(run).ok());
                }
                other => panic!("BUG: the memo `{other}` is not ours"),
            }
        }
        for keyed in &decision.effects {
            match keyed.effect {
                Effect::Lease { .. } => self.asked = true,
                Effect::Spawn(_) | Effect::Release { .. } => {
                    (self.granted, self.asked) = (false, false)
                }
                _ => {}
            }
        }
    }

    fn start(&self, wish: &str) -> Decision {
        let mut decision = Builder::new(self.name(), self.decisions);
        let run = RunId::new(format!("toy-{}", decision.key()));
        decision.effect(Effect::Spawn(Box::new(Spawn {
            run: run.clone(),
            seat: Seat::new("builder"),
            role: "builder".to_owned(),
            tree: TreeRef::Main,
            task: wish.to_owned(),
            phase: "build".to_owned(),
            prompt: format!("Fulfil this wish, then add the line `done: {wish}` to {RESULTS}."),
            why: "it is the first open wish".to_owned(),
            resume: None,
            command: None,
            access: Access::Write,
        })));
        decision.remember("running", (run, wish));
        decision.finish()
    }

    /// A run is never believed: what counts is whether its line is there.
    fn judge(&self, wish: &String) -> Decision {
        let mut decision = Builder::new(self.name(), self.decisions);
        let failures = if self.done.contains(wish) { 0 } else { self.failures + 1 };
        decision.effect(Effect::Release { tree: TreeRef::Main });
        decision.remember("failures", failures);
        decision.forget("running");
        decision.finish()
    }

    fn give_up(&self, wish: &str) -> Decision {
        let mut decision = Builder::new(self.name(), self.decisions);
        decision.effect(Effect::Escalate(Box::new(Escalation {
            cause: Cause {
                protocol: self.name().to_owned(),
                rule: RuleId::new("TY-01"),
                subject: wish.to_owned(),
                epoch: 0,
            },
            severity: Severity::Critical,
            holds: true,
            summary: format!("nobody fulfils `{wish}`"),
            what: format!("{TRIES} runs ended without `done: {wish}` in {RESULTS}."),
            did: "No further run was started.".to_owned(),
            wont: "We do not try for ever.".to_owned(),
            resolve: format!("take the line out of {WISHES}"),
            options: Vec::new(),
            evidence: Vec::new(),
            everywhere: false,
        })));
        decision.remember("told", true);
        decision.finish()
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

    fn absorb(&mut self, wake: &Wake) {
        match wake {
            Wake::File(file) => self.absorb_file(&file.path, &file.state),
            Wake::Decided(decision) => self.absorb_decision(decision),
            Wake::Leased { .. } => self.granted = true,
            Wake::Run(RunEvent::Ended(end)) => {
                self.ended = self.running.as_ref().is_some_and(|(run, _)| *run == end.run);
            }
            _ => {}
        }
    }

    fn decide(&self, _: Now) -> Decision {
        if let (true, Some((_, wish))) = (self.ended, &self.running) {
            return self.judge(wish);
        }
        let Some(wish) = self.next().filter(|_| self.running.is_none() && !self.told) else {
            return Decision::default();
        };
        if self.failures >= TRIES {
            return self.give_up(wish);
        }
        if self.granted {
            return self.start(wish);
        }
        if self.asked {
            return Decision::default();
        }
        let mut decision = Builder::new(self.name(), self.decisions);
        let (seat, role) = (Seat::new("builder"), "builder".to_owned());
        decision.effect(Effect::Lease { tree: TreeRef::Main, seat, role });
        decision.finish()
    }

    /// Every state has an answer, and none of them is "nothing happens, and nobody knows why".
    fn condition(&self, _: Now) -> Condition {
        match (self.next(), &self.running) {
            (Some(wish), _) if self.told => Condition::held(
                format!("nobody fulfils `{wish}`"),
                format!("take the line out of {WISHES}"),
            ),
            (_, Some((run, wish))) => Condition::Working(Work::Run(LiveRun {
                run: run.clone(),
                agent: "builder".to_owned(),
                task: wish.clone(),
                since: None,
                trouble: None,
                others: 0,
            })),
            (Some(wish), None) => Condition::starts("builder", wish),
            (None, None) if self.wishes.is_empty() => Condition::idle("nobody has a wish"),
            (None, None) => Condition::done("every wish is fulfilled"),
        }
    }

    fn status(&self, _: Now) -> Status {
        let summary = format!("{} of {} wishes fulfilled", self.done.len(), self.wishes.len());
        let held = self.told.then(|| "a wish that nobody fulfils".to_owned());
        Status { summary, held, detail: json!({ "wishes": self.wishes, "done": self.done }) }
    }
}

/// The smallest shell there can be: it journals nothing and starts nobody, but keeps the order of things.
struct Shell {
    toy: Toy,
    said: Vec<String>,
}

impl Shell {
    fn new() -> Self {
        Self { toy: Toy::default(), said: Vec::new() }
    }

    fn write(&mut self, path: &'static str, text: &str) {
        let file = agency::model::WholeFile {
            bytes: text.as_bytes().into(),
            digest: agency::model::Digest::of(text.as_bytes()),
            written: now().wall,
            seen: now(),
        };
        let state = FileState::Whole(Box::new(file));
        let path = RelPath::fixed(path);
        self.toy.absorb(&Wake::File(agency::model::FileSeen { path, state }));
    }

    /// Decides until there is nothing left to decide.
    fn settle(&mut self) {
        loop {
            let decision = self.toy.decide(now());
            if decision.is_quiet() {
                return;
            }
            self.toy.absorb(&Wake::Decided(decision.clone()));
            for keyed in decision.effects {
                match &keyed.effect {
                    Effect::Lease { tree, .. } => {
                        self.toy.absorb(&Wake::Leased { tree: tree.clone() });
                    }
                    Effect::Spawn(spawn) => self.said.push(format!("start for {}", spawn.task)),
                    Effect::Escalate(escalation) => self.said.push(escalation.summary.clone()),
                    _ => {}
                }
                self.toy.absorb(&Wake::Done { key: keyed.key });
            }
        }
    }

    /// The run that is alive ends, whatever it says of itself.
    fn end(&mut self) {
        let (run, _) = self.toy.running.clone().expect("a run is alive");
        let end = agency::model::RunEnd {
            run,
            outcome: agency::model::Outcome::Ok,
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
    Now { wall: Default::default(), ticks: agency::model::Ticks(0) }
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() {
    let mut shell = Shell::new();
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
    let mut shell = Shell::new();
    shell.write(WISHES, "a door\na window\n");
    shell.settle();
    shell.end();
    assert_eq!(shell.said, ["start for a door", "start for a door"], "exit 0 is no result");
    shell.write(RESULTS, "done: a door\n");
    shell.end();
    assert_eq!(shell.said.last().unwrap(), "start for a window");
    shell.end();
    shell.end();
    assert_eq!(shell.said.last().unwrap(), "nobody fulfils `a window`");
    assert!(shell.toy.decide(now()).is_quiet(), "the owner is told once");
}
