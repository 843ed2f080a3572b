//! A small simulation of the ledger's loop: agents that build, lie, break files, change what is not theirs or die, an owner who works
//! beside them, and a daemon that is killed between any two effects. The checks know the specification by themselves.

use crate::scenarios::ledger_loop;
use crate::world::{Killed, World};
use agency::model::*;
use agency::protocol::ledger::{Document, Features, Progress, Reviews};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// `AGENCY_TRIALS=200` and more for longer.
const EVERYDAY: u64 = 4;

// covers: LG-04, LG-06, LG-08, LG-09, DM-05, DM-06
#[test]
fn no_seed_lets_anything_past_the_gatekeeper() {
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
    eprintln!(
        "{seeds} seeds: {decisions} decisions, {kills} kills, nothing got past the gatekeeper"
    );
    assert!(kills > 0, "the daemon was never killed");
}

struct Play {
    world: World,
    seed: u64,
    dice: u64,
    kills: u32,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut world = World::new(ledger_loop, "2026-01-01T00:00:00Z".parse().unwrap());
        world.write("README.md", "a shop\n");
        let features: Vec<Value> = (1..=6)
            .map(|n| json!({"id": format!("F00{n}"), "name": format!("Part {n}"), "passes": false}))
            .collect();
        world.write(
            "feature_list.json",
            serde_json::to_string_pretty(&json!({"features": features})).unwrap(),
        );
        world.commit_all("the owner's first commit");
        let mut play =
            Self { world, seed, dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), kills: 0 };
        play.world.look();
        play.world.command(Verb::Init, &[]);
        play.settle();
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
        self.check();
    }

    fn something_happens(&mut self) {
        match self.below(8) {
            0 => {
                self.world.look();
                self.world.command(Verb::Resume, &[]);
            }
            1 if self.world.alive().is_none() => {
                let text = format!("the owner's {}\n", self.below(1000));
                self.world.write("docs/plan.md", text);
                self.world.commit_all("the owner works");
            }
            _ => self.agent_acts(Honest::Perhaps),
        }
        self.settle();
        let wait = Duration::from_secs(self.below(200));
        self.world.pass(wait);
        self.settle();
    }

    fn agent_acts(&mut self, honest: Honest) {
        let Some(run) = self.world.alive().map(|run| run.spawn.clone()) else { return };
        let TreeRef::Worktree(tree) = &run.tree else { panic!("an agent in the owner's tree") };
        let mischief = if honest == Honest::Always { 99 } else { self.below(20) };
        match mischief {
            0 => {
                return self.world.end_run(&run.run, Outcome::Crash { how: "signal 9".to_owned() });
            }
            1 => return self.world.end_run(&run.run, Outcome::Lost),
            2 => return self.world.end_run(&run.run, Outcome::Ok),
            3 => self.world.write_in(tree, "feature_list.json", "{\"features\": ["),
            4 => self.mark_all_passing(tree),
            5 => self.world.write_in(tree, "progress.json", "{}"),
            6 => self.world.write_in(tree, "README.md", "rewritten\n"),
            7 => drop(self.world.heads.remove(&self.world.worktrees[tree].branch.clone())),
            8 => self.forge_review(tree),
            _ => {}
        }
        self.do_the_work(tree, &run, honest);
        self.world.end_run(&run.run, Outcome::Ok);
    }

    fn do_the_work(&mut self, tree: &str, run: &Spawn, honest: Honest) {
        let branch = self.world.worktrees[tree].branch.clone();
        match run.phase.as_str() {
            "IMPLEMENT" | "FIX" => {
                let text = format!("{} {}\n", run.phase, self.below(1_000_000));
                self.world.write_in(tree, &format!("src/{}.py", run.task.replace('/', "-")), text);
                if self.below(2) == 0 && self.world.heads.contains_key(&branch) {
                    self.world.commit_in(tree, "work");
                }
            }
            phase => {
                let verdict = if honest == Honest::Always { 0 } else { self.below(4) };
                let feature = run.task.starts_with('F').then_some(run.task.as_str());
                self.review(tree, phase, feature, &branch, verdict);
            }
        }
    }

    fn document<D: Document>(&self, tree: &str) -> Option<D> {
        D::read(self.world.worktrees[tree].files.get(&RelPath::fixed(D::FILE))?).ok()
    }

    fn review(
        &mut self,
        tree: &str,
        phase: &str,
        feature: Option<&str>,
        branch: &str,
        verdict: u64,
    ) {
        let Some(reviews) = self.document::<Reviews>(tree) else { return };
        let architecture = phase == "ARCHITECTURE";
        let letter = if architecture { "A" } else { "R" };
        let id = reviews.next_review_id();
        let (verdict, issues) = match verdict {
            0 => ("PASS", json!({})),
            1 => (
                "PASS_WITH_COMMENTS",
                json!({"minor": [{"id": format!("{letter}{id}-m1"), "description": "d"}]}),
            ),
            2 => (
                "REQUEST_CHANGES",
                json!({"major": [{"id": format!("{letter}{id}-M1"), "description": "d"}]}),
            ),
            _ => (
                "REJECT",
                json!({"critical": [{"id": format!("{letter}{id}-C1"), "description": "d"}]}),
            ),
        };
        let branch = (!architecture).then_some(branch);
        let review = json!({"review_id": id, "feature_id": feature, "branch": branch, "agent_type": phase,
            "timestamp": "2026-01-01T00:00:00Z", "verdict": verdict, "issues": issues, "summary": "looked"});
        let mut whole = reviews.value().clone();
        whole["reviews"].as_array_mut().unwrap().push(review);
        self.world.write_in(tree, "reviews.json", whole.to_string());
    }

    fn mark_all_passing(&mut self, tree: &str) {
        let Some(list) = self.document::<Features>(tree) else { return };
        let mut whole = list.value().clone();
        for feature in whole["features"].as_array_mut().unwrap() {
            feature["passes"] = json!(true);
        }
        self.world.write_in(tree, "feature_list.json", whole.to_string());
    }

    fn forge_review(&mut self, tree: &str) {
        self.review(tree, "REVIEW", Some("F006"), "feature/f006-part-6", 0);
    }

    /// From here on everybody is honest and the owner helps: every feature must come to pass.
    fn come_to_the_end(&mut self) {
        for _ in 0..300 {
            if self.world.alive().is_none()
                && self.passing().len() == 6
                && self.status().starts_with("complete")
            {
                return;
            }
            self.agent_acts(Honest::Always);
            self.settle();
            if self.world.protocol.status(self.world.now).held.is_some() {
                self.world.look();
                self.world.command(Verb::Resume, &[]);
            }
            self.settle();
            self.world.pass(Duration::from_secs(120));
            self.settle();
        }
        panic!("seed {}: it never ends: {} with {:?}", self.seed, self.status(), self.passing());
    }

    fn status(&self) -> String {
        self.world.protocol.status(self.world.now).summary
    }

    fn on_main<D: Document>(&self) -> Option<D> {
        let tree = &self.world.commits[&self.world.heads["main"]].tree;
        let bytes = &self.world.blobs[tree.get(&RelPath::fixed(D::FILE))?];
        Some(D::read(bytes).unwrap_or_else(|problems| panic!("seed {}: {problems:?}", self.seed)))
    }

    fn passing(&self) -> BTreeSet<String> {
        let list = self.on_main::<Features>().unwrap();
        list.all().filter(|feature| feature.passes()).map(|feature| feature.id()).collect()
    }

    /// What is on the main branch: right by its schemas, numbered in order, and nothing passes that no REVIEW let through.
    fn check(&self) {
        let seed = self.seed;
        let (Some(progress), Some(reviews)) =
            (self.on_main::<Progress>(), self.on_main::<Reviews>())
        else {
            return;
        };
        assert_eq!(progress.problems(), [], "seed {seed}");
        assert_eq!(reviews.problems(), [], "seed {seed}");
        for id in self.passing() {
            let let_in = reviews.reviews().iter().any(|review| {
                review["feature_id"] == json!(id)
                    && review["agent_type"] == "REVIEW"
                    && (review["verdict"] == "PASS" || review["verdict"] == "PASS_WITH_COMMENTS")
            });
            assert!(let_in, "seed {seed}: {id} passes without a review");
            let tree = &self.world.commits[&self.world.heads["main"]].tree;
            let work = RelPath::new(format!("src/{id}.py")).unwrap();
            assert!(
                tree.contains_key(&work),
                "seed {seed}: {id} passes but its work is not on main"
            );
        }
        assert_eq!(
            progress.status()["features_passing"],
            json!(self.passing().len()),
            "seed {seed}"
        );
        let tree = &self.world.commits[&self.world.heads["main"]].tree;
        let readme = &self.world.blobs[&tree[&RelPath::fixed("README.md")]];
        // IMPLEMENT and FIX may write it; a reviewer may not. Either way it reaches main only by a merge of ours.
        assert!(readme == b"a shop\n" || readme == b"rewritten\n");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Honest {
    Always,
    Perhaps,
}
