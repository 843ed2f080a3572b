//! The real daemon on a real loop whose agents do nothing but write their flag.

use super::agent;
use crate::{Stages, fill, git};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) enum Tree {
    Plain { others: usize },
    Git { others: usize },
}

/// A repository on a stage of its own.
pub(crate) struct Stage {
    pub(crate) dir: PathBuf,
}

impl Stage {
    pub(crate) fn new(dir: PathBuf, agents: &str) -> Self {
        std::fs::create_dir(dir.join("home")).expect("a temporary folder is writable");
        let agent = format!("{{ command: {agents}, retries: 0 }}");
        // The only file outside its tree that the agent writes.
        let notes = dir.join("notes");
        std::fs::write(&notes, "").expect("a temporary folder is writable");
        let sandbox = format!("sandbox: {{ write: [\"{}\"] }}\n", notes.display());
        let text = format!("agents:\n  claude-code: {agent}\n  codex: {agent}\n{sandbox}");
        std::fs::write(dir.join("agency.yaml"), text).expect("a temporary folder is writable");
        Self { dir }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn agency(&self, dir: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agency"));
        command
            .current_dir(dir)
            .env("HOME", self.at("home"))
            .env("AGENCY_STATE_DIR", self.at("state"))
            .env("AGENCY_CONFIG", self.at("agency.yaml"))
            .env("AGENCY_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }
}

/// The first of the turns warm git's and our own caches, and do not count.
const WARM: usize = 4;

pub(crate) fn measure(tree: Tree, stages: &mut Stages) -> Vec<Duration> {
    let dir = stages.another();
    let notes = dir.join("notes");
    let stage = Stage::new(dir, &agent::template(&notes));
    let repo = stage.at("repo");
    std::fs::create_dir(&repo).expect("a temporary folder is writable");
    let others = match tree {
        Tree::Plain { others } | Tree::Git { others } => others,
    };
    fill(&repo, others);
    if let Tree::Git { .. } = tree {
        std::fs::write(repo.join("README.md"), "x\n").expect("a temporary folder is writable");
        git(&repo, &["init", "--quiet", "--initial-branch=main"]);
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "--quiet", "-m", "first"]);
    }
    let steps: Vec<String> = (1..=6).map(|step| step.to_string()).collect();
    for words in [&["loop", "init", "--steps", &steps.join(",")][..], &["run", "--once"]] {
        let status = stage.agency(&repo).args(words).status();
        assert!(status.is_ok_and(|status| status.success()), "agency {words:?}");
    }
    let text = std::fs::read_to_string(&notes).expect("the agents have written");
    let line = |line: &str| {
        let (begun, closed) = line.split_once(' ').expect("two numbers");
        (begun.parse::<u128>().expect("a number"), closed.parse::<u128>().expect("a number"))
    };
    let lines: Vec<_> = text.lines().map(line).collect();
    assert_eq!(lines.len(), 4 * steps.len(), "every turn was played once");
    let pairs = lines.windows(2).skip(WARM);
    pairs.map(|pair| Duration::from_nanos((pair[1].0 - pair[0].1) as u64)).collect()
}
