//! A small simulation of Codifica's daemon: agents that finish, stop, die or hit a limit, claims that fail or are lost, people who
//! take tasks back and work on another branch, and a daemon that is killed between any two effects. After every step the world
//! checks that nothing stands still in silence (DM-17); at the end everybody is honest, and every task must be over.

use crate::world::{Killed, World};
use agency::model::*;
use agency::protocol::Protocol;
use agency::protocol::codifica::{
    Action, Actor, Board, Codifica, Config, KeeperSettings, Stamp, State, act,
};
use std::sync::Arc;
use std::time::Duration;

/// `AGENCY_TRIALS=200` and more for longer.
const EVERYDAY: u64 = 4;
const CONTRACT: &str =
    r#"{"protocol": "codifica", "version": "0.2", "spec": "spec.md", "state": ["work.md"]}"#;
const FILE: &str = "work.md";

fn make() -> Box<dyn Protocol> {
    let agents = ["one", "two"].map(str::to_owned).to_vec();
    let desk = KeeperSettings {
        repo: "a1b2c3d4".to_owned(),
        git: true,
        program: "agency".to_owned(),
        agents,
        ..KeeperSettings::default()
    };
    Box::new(Codifica::new(desk))
}

fn tasks() -> String {
    let task = |id: &str, owner: &str, more: &str| {
        format!(
            "- id: {id}\n  type: build\n  state: todo\n  owner: {owner}\n  title: Task {id}\n  acceptance: [works]\n{more}"
        )
    };
    let all = [
        task("A-1", "unassigned", ""),
        task("A-2", "unassigned", "  depends_on: [A-1]\n"),
        task("A-3", "unassigned", ""),
        task("A-4", "human", ""),
        task("A-5", "unassigned", "  depends_on: [A-4]\n"),
    ];
    format!("# Work\n\n```yaml\n{}```\n", all.join("\n"))
}

struct Play {
    world: World,
    seed: u64,
    dice: u64,
    kills: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Honest {
    Always,
    Perhaps,
}

// covers: DM-16, DM-17, DM-05, CD-08
#[test]
fn no_seed_of_codifica_stands_still() {
    let seeds =
        std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(EVERYDAY);
    let (mut decisions, mut kills) = (0, 0);
    for seed in 1..=seeds {
        let mut play = Play::new(seed);
        (0..40).for_each(|_| play.something_happens());
        play.come_to_the_end();
        decisions += play.world.decisions.len();
        kills += play.kills;
    }
    eprintln!("{seeds} seeds: {decisions} decisions, {kills} kills, nothing stood still");
    assert!(kills > 0, "the daemon was never killed");
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut world = World::new(make, "2026-01-01T00:00:00Z".parse().unwrap());
        world.write("codifica.json", CONTRACT);
        world.write("spec.md", "the protocol\n");
        world.write(FILE, tasks());
        world.commit_all("the owner's tasks");
        let dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut play = Self { world, seed, dice, kills: 0 };
        play.world.settle().unwrap();
        play.world.look();
        play.world.command(Verb::Adopt, &[]);
        play.world.settle().unwrap();
        play
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % limit
    }

    /// Lets the daemon work; it may be killed at any effect, again and again, and is started anew.
    fn settle(&mut self) {
        if self.below(3) == 0 {
            self.world.fuse = Some(self.below(20) as u32);
        }
        let mut result = self.world.settle();
        while let Err(Killed) = result {
            self.kills += 1;
            self.world.fuse = (self.below(2) == 0).then(|| self.below(20) as u32);
            result = self.world.restart();
            if result.is_ok() {
                result = self.world.settle();
            }
        }
        self.world.fuse = None;
    }

    fn something_happens(&mut self) {
        match self.below(10) {
            0 => self.resume(),
            1 => self.a_person_acts(),
            2 => self.the_owner_is_away(),
            3 => {
                self.world.write("docs/plan.md", format!("{}\n", self.dice));
                self.world.commit_all("the owner works");
            }
            _ => self.runs_act(Honest::Perhaps),
        }
        self.settle();
        let wait = Duration::from_secs(self.below(200));
        self.world.pass(wait);
        self.settle();
    }

    fn resume(&mut self) {
        self.world.look();
        self.world.command(Verb::Resume, &[]);
    }

    fn the_owner_is_away(&mut self) {
        // A claim writes into the owner's tree: only between two of them.
        if self.alive().iter().any(|run| run.command.is_some()) {
            return;
        }
        let head = self.world.heads["main"].clone();
        self.world.heads.entry("feature".to_owned()).or_insert(head);
        self.world.branch = Some("feature".to_owned());
        self.settle();
        self.world.branch = Some("main".to_owned());
    }

    fn alive(&self) -> Vec<Spawn> {
        let runs = self.world.runs.values().filter(|run| run.end.is_none());
        runs.map(|run| run.spawn.clone()).collect()
    }

    fn board(&self) -> Board {
        let config = Arc::new(Config::read(CONTRACT.as_bytes()).unwrap());
        let bytes = self.world.bytes(FILE).unwrap().to_vec();
        Board::read(&config, vec![(RelPath::fixed(FILE), bytes)])
    }

    /// One verb of ours on the main tree, and its commit.
    fn act(&mut self, id: &str, actor: &Actor, action: &Action) -> bool {
        let at = self.world.now.wall;
        let stamp = Stamp { at, session: None, commit: None };
        let Ok(acted) = act(&self.board(), id, actor, action, &stamp) else { return false };
        self.world.write(FILE, acted.bytes);
        self.world.commit_all(&format!("{actor}: {id}"));
        true
    }

    fn states(&self) -> Vec<(String, State)> {
        self.board().glances().map(|task| (task.id.clone(), task.state)).collect()
    }

    fn a_person_acts(&mut self) {
        let states = self.states();
        let (id, state) = states[self.below(states.len() as u64) as usize].clone();
        let reason = "because".to_owned();
        let action = match state {
            State::Todo => return,
            State::InProgress if self.below(2) == 0 => Action::Reclaim { reason },
            State::InProgress => Action::Block { reason, by: None },
            State::Blocked => Action::Unblock { to: State::Todo, reason: Some(reason) },
            State::ToBeTested => Action::Done { note: None, summary: Some("tested".to_owned()) },
            State::Done | State::Rejected => return,
        };
        self.act(&id, &Actor::Human, &action);
    }

    fn runs_act(&mut self, honest: Honest) {
        for run in self.alive() {
            let bad = if honest == Honest::Always { 99 } else { self.below(12) };
            if let Some(why) = self.world.runs[&run.run].stop.clone() {
                self.world.end_run(&run.run, Outcome::Stopped { why });
            } else if run.command.is_some() {
                self.our_own_command(&run, bad);
            } else {
                self.agent_works(&run, bad);
            }
        }
    }

    fn our_own_command(&mut self, run: &Spawn, bad: u64) {
        let actor = Actor::Agent(run.seat.to_string());
        let done = match run.phase.as_str() {
            _ if bad < 2 => false,
            "claim" => self.act(&run.task, &actor, &Action::Claim),
            _ => {
                let text = "a dependency fell back".to_owned();
                self.act(&run.task, &actor, &Action::Note { text, summary: None })
            }
        };
        let outcome = match (bad, done) {
            (2, _) => Outcome::Lost,
            (_, true) => Outcome::Ok,
            (_, false) => Outcome::Crash { how: "exited with 1".to_owned() },
        };
        self.world.end_run(&run.run, outcome);
    }

    fn agent_works(&mut self, run: &Spawn, bad: u64) {
        let TreeRef::Worktree(tree) = &run.tree else { panic!("an agent in the owner's tree") };
        match bad {
            0 => {
                return self.world.end_run(&run.run, Outcome::Crash { how: "signal 9".to_owned() });
            }
            1 => return self.world.end_run(&run.run, Outcome::Ok),
            2 if self.below(2) == 0 => {
                let what = "cannot reach its provider".to_owned();
                return self.world.end_run(&run.run, Outcome::Provider { what, retry_at: None });
            }
            2 => return self.world.end_run(&run.run, Outcome::UsageLimit { until: None }),
            3 => return, // it goes on working
            _ => {}
        }
        let text = format!("{} {}\n", run.task, self.dice);
        self.world.write_in(tree, &format!("src/{}.py", run.task), text);
        let actor = Actor::Agent(run.seat.to_string());
        let submit = Action::Submit { note: None, summary: Some("works".to_owned()) };
        self.act(&run.task, &actor, &submit);
        if bad == 99 || self.below(2) == 0 {
            let done = Action::Done { note: None, summary: Some("works".to_owned()) };
            self.act(&run.task, &actor, &done);
        }
        self.world.end_run(&run.run, Outcome::Ok);
    }

    /// From here on everybody is honest and the people do their part: every task must be over.
    fn come_to_the_end(&mut self) {
        for _ in 0..100 {
            if self.alive().is_empty() && self.states().iter().all(|(_, at)| at.is_terminal()) {
                return;
            }
            self.resume();
            self.settle();
            self.runs_act(Honest::Always);
            self.settle();
            self.people_do_their_part();
            self.world.pass(Duration::from_secs(1000));
            self.settle();
        }
        let condition = self.world.protocol.condition(self.world.now);
        panic!("seed {}: it never ends: {condition:?} with {:?}", self.seed, self.states());
    }

    fn people_do_their_part(&mut self) {
        let working: Vec<String> = self.alive().into_iter().map(|run| run.task).collect();
        for (id, state) in self.states() {
            let reason = "because".to_owned();
            let human = Actor::Human;
            match state {
                State::Blocked => {
                    let to = State::Todo;
                    self.act(&id, &human, &Action::Unblock { to, reason: Some(reason) });
                }
                // Only its owner completes it: a person takes it out and puts it back.
                State::ToBeTested if id != "A-4" => {
                    self.act(&id, &human, &Action::Block { reason, by: None });
                }
                State::ToBeTested => {
                    let summary = Some("tested".to_owned());
                    self.act(&id, &human, &Action::Done { note: None, summary });
                }
                State::InProgress if !working.contains(&id) => {
                    let is_theirs = id == "A-4";
                    let done = Action::Submit { note: None, summary: Some("works".to_owned()) };
                    let back = Action::Reclaim { reason };
                    self.act(&id, &human, if is_theirs { &done } else { &back });
                }
                State::Todo if id == "A-4" => drop(self.act(&id, &human, &Action::Claim)),
                State::Todo | State::InProgress | State::Done | State::Rejected => {}
            }
        }
    }
}
