//! Seeded simulation of the board: builders and auditors that lie, stall, write half a file, leave their scope, speak for others or
//! die; an owner with all their verbs; somebody who edits files that are not theirs; a daemon that is killed between any two effects.
//! The checkers know the specification by themselves: they share no code with the table.

mod agents;
mod check;
mod owner;

use crate::dice::Dice;
use crate::sheets::{MANIFEST, PROFILE, Task};
use crate::world::{Killed, MakeProtocol, Tree, World};
use agency::model::*;
use agency::protocol::Protocol;
use agency::protocol::board::{Board, Limits, RepoFacts};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const BUILDERS: [&str; 2] = ["claude-code", "codex"];
const PERSON: &str = "alice";
/// How much goes on before everybody becomes honest.
const EVENTS: u32 = 40;

fn board(setup: &[&str]) -> Box<dyn Protocol> {
    let agents = ["claude-code", "codex", "gemini"].map(str::to_owned);
    let setup = setup.iter().map(|&line| line.to_owned()).collect();
    let limits = Limits { agents: agents.into(), setup, ..Limits::default() };
    Box::new(Board::new(RepoFacts { repo: "a1b2c3d4".to_owned(), git: true }, limits))
}

/// One seed's world, and everybody in it.
pub struct Play {
    world: World,
    dice: Dice,
    seed: u64,
    kills: u32,
    /// Every task there ever was.
    tasks: BTreeMap<String, Task>,
    /// Trees that an auditor let pass, unchanged while it looked.
    passed: Vec<(String, Tree)>,
    /// Trees that all commands of a verify run found good, as its command saw them.
    verified: Vec<(String, Tree)>,
    /// Tasks that the owner overrode, or of a person's that they verified.
    vouched: BTreeSet<String>,
    /// Makes every text another one.
    texts: u32,
}

/// Plays the seed to its end; panics where a rule is broken.
pub fn play(seed: u64) -> Play {
    let make: MakeProtocol =
        if seed.is_multiple_of(2) { || board(&[]) } else { || board(&["npm ci"]) };
    let world = World::new(make, "2026-01-01T09:00:00Z".parse().unwrap());
    let mut play = Play {
        world,
        dice: Dice::new(seed),
        seed,
        kills: 0,
        tasks: BTreeMap::new(),
        passed: Vec::new(),
        verified: Vec::new(),
        vouched: BTreeSet::new(),
        texts: 0,
    };
    play.begin();
    for event in 1..=EVENTS {
        play.turn_of_events();
        if event % 8 == 0 {
            play.check();
        }
    }
    play.finish_honestly();
    play.check();
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

    pub fn kills(&self) -> u32 {
        self.kills
    }

    /// How many tasks came to be DONE.
    pub fn done(&self) -> usize {
        self.history().values().filter(|moves| moves.iter().any(|to| to == "DONE")).count()
    }

    fn begin(&mut self) {
        self.world.write("README.md", "a shop\n");
        self.world.write(".kodingx/agency.json", MANIFEST);
        self.world.write(".kodingx/dod/profiles/tiny.yml", PROFILE);
        self.world.commit_all("the owner's first commit");
        self.world.look();
        // Without it there is no board to simulate: this one command is not lost.
        self.world.command(Verb::Init, &[]);
        self.world.settle().unwrap();
        for _ in 0..3 + self.dice.below(3) {
            self.new_task();
        }
        self.settle();
    }

    fn new_task(&mut self) {
        let number = self.next_number();
        let others: Vec<String> = self.tasks.keys().cloned().collect();
        let first = self.dice.one_in(3).then(|| self.one_of(&others)).flatten();
        let assignee = match self.dice.below(6) {
            0 => PERSON,
            n => BUILDERS[n as usize % 2],
        };
        let task = Task {
            id: format!("T{number:04}"),
            assignee: assignee.to_owned(),
            depends_on: first.into_iter().collect(),
            ..Task::default()
        };
        self.world.write(&task.path(), task.text());
        self.tasks.insert(task.id.clone(), task);
    }

    /// As `agency task new` would give it: one more than the highest in any inbox.
    fn next_number(&self) -> u32 {
        let names = self.world.files.keys().filter(|path| path.as_str().contains("/inbox/"));
        let number = |path: &RelPath| path.file_name().get(1..5)?.parse::<u32>().ok();
        names.filter_map(number).max().unwrap_or(0) + 1
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let limit = u32::try_from(all.len()).unwrap();
        (limit > 0).then(|| all[self.dice.below(limit) as usize].clone())
    }

    fn any_task(&mut self) -> String {
        let ids: Vec<String> = self.tasks.keys().cloned().collect();
        self.one_of(&ids).expect("there are tasks")
    }

    /// A text that nobody has written before.
    fn text(&mut self, about: &str) -> String {
        self.texts += 1;
        format!("{about}, text {}\n", self.texts)
    }

    /// Lets the daemon work; it may be killed at any effect, again and again, and is started anew.
    fn settle(&mut self) {
        if self.dice.one_in(3) {
            self.world.fuse = Some(self.dice.below(25));
        }
        let mut result = self.world.settle();
        while let Err(Killed) = result {
            self.kills += 1;
            self.world.fuse = self.dice.one_in(2).then(|| self.dice.below(25));
            result = self.world.restart();
            if result.is_ok() {
                result = self.world.settle();
            }
        }
        self.world.fuse = None;
        self.check_turns();
        if self.dice.one_in(8) {
            self.world.rotate();
        }
    }

    fn turn_of_events(&mut self) {
        match self.dice.below(16) {
            0 | 1 => self.owner_speaks(),
            2 => self.owner_commits(),
            3 | 4 => self.somebody_meddles(),
            5 if self.tasks.len() < 9 => self.new_task(),
            6 => self.owner_goes_away(),
            _ => {
                let run = self.some_run();
                if let Some(run) = run {
                    self.act(&run, Honest::Perhaps);
                }
            }
        }
        self.settle();
        let wait = Duration::from_millis(self.dice.below(200_000).into());
        self.world.pass(wait);
        self.settle();
    }

    fn alive(&self) -> Vec<Spawn> {
        let runs = self.world.runs.values().filter(|run| run.end.is_none());
        runs.map(|run| run.spawn.clone()).collect()
    }

    fn some_run(&mut self) -> Option<Spawn> {
        let runs = self.alive();
        self.one_of(&runs)
    }

    /// From here on everybody is honest and the owner helps: every task must come to its end, and no work may be lost.
    fn finish_honestly(&mut self) {
        for _ in 0..150 {
            self.owner_helps();
            self.settle();
            for run in self.alive() {
                self.act(&run, Honest::Always);
            }
            self.settle();
            self.world.pass(Duration::from_secs(200));
            self.settle();
            if self.open().is_empty() {
                return;
            }
        }
        panic!(
            "seed {}: {:?} never end: {}\n{:#?}",
            self.seed,
            self.open(),
            self.world.protocol.status(self.world.now).summary,
            self.world.escalations.iter().map(|told| &told.summary).collect::<Vec<_>>()
        );
    }

    /// Tasks that are neither DONE nor CANCELED.
    fn open(&self) -> Vec<(String, String)> {
        let mut statuses = self.statuses();
        statuses.retain(|id, at| at != "DONE" && at != "CANCELED" && self.tasks.contains_key(id));
        statuses.into_iter().collect()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Honest {
    Always,
    Perhaps,
}
