//! Builders, auditors and the owner's commands as they run in their trees: what they do, well or badly.

use super::{Honest, Play};
use crate::sheets::{Answer, asked_for};
use agency::model::*;

impl Play {
    /// A run does something, and mostly ends with it.
    pub(super) fn act(&mut self, run: &Spawn, honest: Honest) {
        if let Some(why) = self.world.runs[&run.run].stop.clone() {
            return self.world.end_run(&run.run, Outcome::Stopped { why });
        }
        let TreeRef::Worktree(tree) = run.tree.clone() else {
            panic!("seed {}: {} in the owner's tree", self.seed, run.role)
        };
        match run.role.as_str() {
            "builder" => self.build(run, &tree, honest),
            "auditor" => self.audit(run, &tree, honest),
            _ => self.command_ends(run, &tree, honest),
        }
    }

    fn build(&mut self, run: &Spawn, tree: &str, honest: Honest) {
        let asked = asked_for(&run.prompt, "-report.md").expect("the prompt says where");
        let body = self.text("a report");
        let mut answer = Answer { body, ..Answer::default() };
        let mischief = if honest == Honest::Always { 99 } else { self.dice.below(30) };
        if let Some(end) = self.sudden_end(mischief) {
            return self.world.end_run(&run.run, end);
        }
        self.work(tree);
        match mischief {
            4 => return,                                           // it goes on working
            5 => return self.world.end_run(&run.run, Outcome::Ok), // no report
            6 => answer.cut = Some(self.dice.below(200) as usize),
            7 => answer.path = Some(self.report_path_of_another()),
            8 => answer.path = Some(asked.replace("/outbox/", "/outbox/somebody-")),
            9 => drop(answer.set.insert("status".to_owned(), Some("DONE".to_owned()))),
            10 | 11 => self.world.write_in(tree, "README.md", "mine now\n"),
            12 => self.world.write_in(tree, "work/secret/key.txt", "found\n"),
            13 | 14 => self.world.write_in(tree, "broken", "oops\n"),
            15 => drop(answer.set.insert("status".to_owned(), Some("BLOCKED".to_owned()))),
            16 | 17 => {
                answer.set.insert("status".to_owned(), Some("BLOCKED".to_owned()));
                answer.set.insert("reason".to_owned(), Some("no access".to_owned()));
            }
            18 => self.world.commit_in(tree, "by the builder itself"),
            19 => self.forge_done(tree),
            21 | 22 => self.forge_audit(tree),
            _ => {}
        }
        let path = answer.path.clone().unwrap_or(asked);
        let text = answer.report(&path);
        self.world.write_in(tree, &path, text);
        if mischief == 20 {
            // It reports, and does not end: the report alone moves nothing.
            return;
        }
        self.world.end_run(&run.run, Outcome::Ok);
    }

    fn sudden_end(&mut self, mischief: u32) -> Option<Outcome> {
        match mischief {
            0 => Some(Outcome::Crash { how: "signal 11".to_owned() }),
            1 => Some(Outcome::Lost),
            2 => Some(Outcome::Timeout { limit: "silence".to_owned() }),
            3 => Some(Outcome::UsageLimit { until: None }),
            _ => None,
        }
    }

    /// The task's own file anew; what an earlier try left outside of the scope is put back, a conflict is resolved.
    fn work(&mut self, tree: &str) {
        let own = format!("work/{tree}.txt");
        let more = format!("work/{tree}-more.txt");
        let text = self.text(tree);
        let on_main = self.world.head().and_then(|commit| {
            let digest = commit.tree.get(&RelPath::new(&own).unwrap())?;
            self.world.blobs.get(digest).cloned()
        });
        match on_main.filter(|bytes| bytes.starts_with(b"the owner's")) {
            Some(owners) => {
                self.world.write_in(tree, &own, owners);
                self.world.write_in(tree, &more, text);
            }
            None => self.world.write_in(tree, &own, text),
        }
        let readme = self.world.bytes("README.md").unwrap_or_default().to_vec();
        self.world.write_in(tree, "README.md", readme);
        let files = &mut self.world.worktrees.get_mut(tree).unwrap().files;
        for path in ["broken", "work/secret/key.txt"] {
            files.remove(&RelPath::fixed(path));
        }
    }

    fn report_path_of_another(&mut self) -> String {
        let id = self.any_task();
        let task = self.tasks[&id].path();
        task.replace("/inbox/", "/outbox/").replace(".md", "-report.md")
    }

    /// Into its own copy of the task, and as if the board had said so.
    fn forge_done(&mut self, tree: &str) {
        let Some(task) = self.tasks.get(tree) else { return };
        let path = task.path();
        let text = task.text().replace("status: NEW", "status: DONE");
        self.world.write_in(tree, &path, text);
        self.world.write_in(tree, ".kodingx/STATE.md", "---\ndone_tasks_recent: [T0001]\n---\n");
    }

    /// Where its auditor's verdict will be asked for.
    fn forge_audit(&mut self, tree: &str) {
        let Some(task) = self.tasks.get(tree) else { return };
        let stem = task.path().rsplit('/').next().unwrap().replace(".md", "-audit.md");
        let path = format!(".kodingx/outbox/gemini/{}/{stem}", self.world.now.wall.date_naive());
        let text = Answer::default().audit(&path);
        self.world.write_in(tree, &path, text);
    }

    fn audit(&mut self, run: &Spawn, tree: &str, honest: Honest) {
        let asked = asked_for(&run.prompt, "-audit.md").expect("the prompt says where");
        let mut answer = Answer { body: self.text("an audit"), ..Answer::default() };
        let mischief = if honest == Honest::Always { 99 } else { self.dice.below(22) };
        if let Some(end) = self.sudden_end(mischief) {
            // What it had said until then sounds good.
            let said = Some(answer.audit(&asked));
            return self.world.end_run_saying(&run.run, end, said);
        }
        let seen = self.world.tree_of(&run.tree);
        let mut passes = true;
        match mischief {
            4 => return,
            5 => return self.world.end_run(&run.run, Outcome::Ok), // no verdict
            6..=10 => {
                passes = false;
                answer.set.insert("verdict".to_owned(), Some("FAIL".to_owned()));
                answer.set.insert("findings".to_owned(), Some("[still wrong]".to_owned()));
            }
            11 => {
                passes = false;
                answer.set.insert("verdict".to_owned(), Some("FAIL".to_owned()));
            }
            12 => {
                passes = false;
                answer.cut = Some(self.dice.below(40) as usize);
            }
            13 => {
                passes = false;
                let text = self.text("by the auditor");
                self.world.write_in(tree, &format!("work/{tree}.txt"), text);
            }
            14 => {
                passes = false;
                answer.path = Some(asked.replace("/gemini/", "/claude-code/"));
            }
            _ => {}
        }
        let path = answer.path.clone().unwrap_or(asked);
        let text = answer.audit(&path);
        // It writes its verdict, or says it, as good or bad as it is.
        let said = match self.dice.below(4) {
            _ if answer.path.is_some() => None,
            0 => Some(text.clone()),
            1 => Some(format!("I looked at it.\n\n```markdown\n{text}\n```\n")),
            _ => None,
        };
        if said.is_none() {
            self.world.write_in(tree, &path, text);
        }
        if passes {
            self.passed.push((run.task.clone(), seen));
        }
        self.world.end_run_saying(&run.run, Outcome::Ok, said);
    }

    /// A check is as good as the tree; sometimes nobody sees how it ended.
    fn command_ends(&mut self, run: &Spawn, tree: &str, honest: Honest) {
        let broken = self.world.worktrees[tree].files.contains_key(&RelPath::fixed("broken"));
        let lost = honest == Honest::Perhaps && self.dice.one_in(8);
        let slow = honest == Honest::Perhaps && self.dice.one_in(16);
        let outcome = if lost {
            Outcome::Lost
        } else if slow {
            Outcome::Timeout { limit: "wall-clock".to_owned() }
        } else if broken {
            Outcome::Crash { how: "exit 1".to_owned() }
        } else {
            Outcome::Ok
        };
        if run.role == "verify" && outcome == Outcome::Ok {
            let seen = self.world.tree_of(&run.tree);
            self.verified.push((run.task.clone(), seen));
        }
        self.world.end_run(&run.run, outcome);
    }
}
