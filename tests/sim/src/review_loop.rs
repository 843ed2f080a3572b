//! Seeded simulation of the review loop: agents that lie, stall, write half a file, write twice, edit the state, commit by
//! themselves or die; an owner who works beside them; a daemon that is killed between any two effects.
//! The checkers know the specification by themselves: they share no code with the table.

mod check;

use crate::dice::Dice;
use crate::world::{Entry, Killed, MakeProtocol, World};
use agency::model::*;
use agency::protocol::Protocol;
use agency::protocol::review_loop::{Limits, RepoFacts, ReviewLoop};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

const STATE: &str = ".review-loop-state.json";
const FLAG: &str = ".agent-status.json";
const STEPS: &str = "1,6.5,11b";

/// Spec 1 §1 and LP-02, written down once more: phase, holder, status → phase, holder.
const LEGAL: &[(&str, &str, &str, &str, &str)] = &[
    ("propose", "claude-code", "proposed", "review", "codex"),
    ("review", "codex", "approved", "execute", "claude-code"),
    ("review", "codex", "reviewed", "review", "claude-code"),
    ("review", "claude-code", "proposed", "review", "codex"),
    ("review", "claude-code", "revised", "review", "codex"),
    ("execute", "claude-code", "executed", "verify", "codex"),
    ("verify", "codex", "verified-clean", "advance", ""),
    ("verify", "codex", "reviewed", "verify", "claude-code"),
    ("verify", "claude-code", "executed", "verify", "codex"),
    ("verify", "claude-code", "revised", "verify", "codex"),
];

fn make() -> Box<dyn Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git: true };
    Box::new(ReviewLoop::new(place, Limits::default()))
}

/// The same with a gate of the owner's.
fn make_gated() -> Box<dyn Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git: true };
    let gates = vec!["make check".to_owned()];
    Box::new(ReviewLoop::new(place, Limits { gates, ..Limits::default() }))
}

/// One seed's world, and everybody in it.
pub struct Play {
    world: World,
    dice: Dice,
    seed: u64,
    kills: u32,
    /// Contents that no commit of ours may hold.
    owners_work: BTreeSet<Digest>,
    owner_files: u32,
    /// How many transitions there were when a flag was written by hand: the next one may hold the owner's work (LP-19).
    by_hand: BTreeSet<usize>,
}

fn change_request(round: &Value, n: u64) -> String {
    format!(
        "### CR-001: wish {n}\n- **ID**: CR-001\n- **Round**: {round}\n- **Severity**: medium\n\
         - **Category**: quality\n- **File(s)**: src/work.rs:1\n- **Status**: open\n"
    )
}

/// Plays the seed to its end; panics where a rule is broken.
pub fn play(seed: u64) -> Play {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    let make: MakeProtocol = if seed.is_multiple_of(2) { make } else { make_gated };
    let world = World::new(make, start);
    let (dice, owners_work) = (Dice::new(seed), BTreeSet::new());
    let mut play =
        Play { world, dice, seed, kills: 0, owners_work, owner_files: 0, by_hand: BTreeSet::new() };
    play.world.write("README.md", "the project\n");
    play.world.commit_all("the owner's first commit");
    play.settle();
    let id = play.world.command(Verb::Init, &[("steps", STEPS)]);
    play.settle();
    assert!(
        play.world.replies.contains_key(&id) || play.kills > 0,
        "seed {seed}: init is not answered"
    );
    // A daemon that is killed before it has answered has forgotten the command, and the owner gives it again.
    while play.state().is_null() {
        play.world.look();
        play.world.command(Verb::Init, &[("steps", STEPS)]);
        play.settle();
    }
    for event in 1..=60 {
        play.turn_of_events();
        if event % 10 == 0 {
            play.check();
        }
    }
    play.finish_honestly();
    play
}

/// A broken rule names the seed that shows it again.
impl Drop for Play {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again: AGENCY_SIM_FIRST={} AGENCY_SIM_SEEDS=1", self.seed);
        }
    }
}

impl Play {
    /// What was decided and journalled, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.world.decisions
    }

    /// How often the protocol was asked, answers of "nothing to do" included.
    pub fn asked(&self) -> u64 {
        self.world.asked
    }

    pub fn kills(&self) -> u32 {
        self.kills
    }

    /// Lets the daemon work; it may be killed at any effect, again and again, and is started anew.
    fn settle(&mut self) {
        if self.dice.one_in(3) {
            self.world.fuse = Some(self.dice.below(12));
        }
        let mut result = self.world.settle();
        while let Err(Killed) = result {
            self.kills += 1;
            self.world.fuse = self.dice.one_in(2).then(|| self.dice.below(12));
            result = self.world.restart();
            if result.is_ok() {
                result = self.world.settle();
            }
        }
        self.world.fuse = None;
        if self.dice.one_in(8) {
            self.world.rotate();
        }
    }

    fn turn_of_events(&mut self) {
        match self.dice.below(12) {
            0 => self.owner_works(),
            1 => self.owner_goes_away(),
            2 => self.resume(),
            3 => self.someone_edits_the_state(),
            4 => self.by_hand(),
            _ => self.agent_acts(),
        }
        self.settle();
        let wait = Duration::from_millis(self.dice.below(400_000).into());
        self.world.pass(wait);
        self.settle();
    }

    fn state(&self) -> Value {
        self.world
            .bytes(STATE)
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .unwrap_or_default()
    }

    fn owner_works(&mut self) {
        self.owner_files += 1;
        let text = format!("the owner's work {}\n", self.owner_files);
        self.owners_work.insert(Digest::of(text.as_bytes()));
        // Only between runs: what changes during a run counts as the run's.
        if self.world.alive().is_none() {
            self.world.write(&format!("owner/{}.rs", self.dice.below(3)), text);
        }
    }

    fn owner_goes_away(&mut self) {
        let head = self.world.heads["main"].clone();
        self.world.heads.entry("feature".to_owned()).or_insert(head);
        self.world.branch = Some("feature".to_owned());
        let spawned = self.world.runs.len();
        self.settle();
        assert_eq!(self.world.runs.len(), spawned, "seed {}: started while away", self.seed);
        self.world.branch = Some("main".to_owned());
        // The new ref is there for good now; later switches change nothing that a run could be blamed for.
    }

    fn resume(&mut self) {
        self.world.look();
        self.world.command(Verb::Resume, &[]);
    }

    fn someone_edits_the_state(&mut self) {
        if self.world.bytes(STATE).is_some() {
            self.world
                .write(STATE, format!("{{\"currentStep\": \"11b\", \"n\": {}}}", self.dice.next()));
        }
    }

    /// A flag with no run alive.
    fn by_hand(&mut self) {
        if self.world.alive().is_none() {
            let history = self.state()["history"].as_array().map_or(0, Vec::len);
            self.by_hand.insert(history);
            self.write_flag();
        }
    }

    fn agent_acts(&mut self) {
        let Some(run) = self.world.alive().map(|run| run.spawn.run.clone()) else { return };
        if let Some(why) = self.world.runs[&run].stop.clone() {
            return self.world.end_run(&run, Outcome::Stopped { why });
        }
        if self.world.runs[&run].spawn.command.is_some() {
            return self.gate_ends(&run);
        }
        let state = self.state();
        let builds = state["phase"] == "execute"
            || (state["phase"] == "verify" && state["activeAgent"] == "claude-code");
        if builds || self.dice.one_in(8) {
            self.world.write("src/work.rs", format!("work {}\n", self.dice.next()));
        }
        match self.dice.below(14) {
            0 => return self.world.end_run(&run, Outcome::Crash { how: "signal 11".to_owned() }),
            1 => return self.world.end_run(&run, Outcome::Lost),
            2 => return self.world.end_run(&run, Outcome::Timeout { limit: "silence".to_owned() }),
            3 => return self.world.end_run(&run, Outcome::UsageLimit { until: None }),
            4 => return, // it goes on working
            5 => self.world.commit_all("an agent commits by itself"),
            6 => self.world.write("deploy.key", "secret"),
            7 => {
                let odd =
                    Unreadable { found: "a named pipe".to_owned(), wanted: "a file".to_owned() };
                self.world.files.insert(RelPath::fixed(FLAG), Entry::Odd(odd));
            }
            _ => self.write_flag(),
        }
        if !self.dice.one_in(4) {
            self.world.end_run(&run, Outcome::Ok);
        }
    }

    /// Mostly well; sometimes it fails, is lost, or writes into the tree it judges.
    fn gate_ends(&mut self, run: &RunId) {
        let outcome = match self.dice.below(8) {
            0 => Outcome::Crash { how: "exited with 1".to_owned() },
            1 => Outcome::Lost,
            2 => Outcome::Timeout { limit: "wall-clock".to_owned() },
            _ => Outcome::Ok,
        };
        if self.dice.one_in(10) {
            self.world.write("coverage.txt", format!("{}", self.dice.next()));
        }
        self.world.end_run(run, outcome);
    }

    /// Mostly right, sometimes a lie in one field, sometimes only half of it.
    fn write_flag(&mut self) {
        let mut flag = self.right_flag();
        if flag["status"] == "reviewed" {
            let round = &self.state()["currentRound"];
            self.world.write("ENG_REVIEW_COMMENTS.md", change_request(round, self.dice.next()));
        }
        let lies = ["agent", "step", "status", "nextAgent", "timestamp"];
        if self.dice.one_in(3) {
            let field = lies[self.dice.below(5) as usize];
            flag[field] = match self.dice.below(4) {
                0 => json!("codex"),
                1 => json!(""),
                2 => json!("2031-01-01T00:00:00Z"),
                _ => json!(["approved"]),
            };
        }
        let mut text = flag.to_string();
        if self.dice.one_in(12) {
            text.truncate(text.len() / 2);
        }
        self.world.write(FLAG, text);
    }

    fn right_flag(&mut self) -> Value {
        let state = self.state();
        let legal: Vec<_> = LEGAL
            .iter()
            .filter(|(phase, holder, ..)| {
                state["phase"] == *phase && state["activeAgent"] == *holder
            })
            .collect();
        if legal.is_empty() {
            return json!({});
        }
        let (_, holder, status, _, next) = legal[self.dice.below(legal.len() as u32) as usize];
        let next = if next.is_empty() { "advance" } else { next };
        let stamp = self.world.now.wall.to_rfc3339_opts(chrono::SecondsFormat::Nanos, true);
        json!({"agent": holder, "step": state["currentStep"], "status": status, "nextAgent": next, "timestamp": stamp})
    }

    /// From here on everybody is honest and the owner helps: the loop must come to its end.
    fn finish_honestly(&mut self) {
        for _ in 0..400 {
            self.world.remove("deploy.key");
            if self.state()["phase"] == "complete" {
                return self.check();
            }
            self.resume();
            self.settle();
            if let Some(run) = self.world.alive().map(|run| run.spawn.clone()) {
                if run.command.is_none() {
                    let flag = self.finishing_flag();
                    self.world.write(FLAG, flag.to_string());
                }
                self.world.end_run(&run.run, Outcome::Ok);
            }
            self.settle();
            self.commit_owners_work();
            self.world.pass(Duration::from_secs(120));
            self.settle();
        }
        let last: Vec<_> = self.world.decisions.iter().rev().take(9).collect();
        panic!("seed {}: the loop never ends: {:#}\n{last:#?}", self.seed, self.state());
    }

    /// The owner commits what they had lying around, so that nothing of it is in the way.
    fn commit_owners_work(&mut self) {
        let held = self.world.protocol.status(self.world.now).held.is_some();
        if held && self.world.alive().is_none() {
            let mut tree = self.world.head().map(|commit| commit.tree.clone()).unwrap_or_default();
            for (path, digest) in self.world.tree() {
                if ![FLAG, "deploy.key"].contains(&path.as_str()) {
                    tree.insert(path, digest);
                }
            }
            self.world.commit_tree(tree, "the owner commits");
        }
    }

    fn finishing_flag(&mut self) -> Value {
        loop {
            let flag = self.right_flag();
            if flag["status"] != "reviewed" {
                return flag;
            }
        }
    }
}
