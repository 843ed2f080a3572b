//! Three of the demo's repositories under one daemon: loops and handoffs that begin again when they are complete, a ledger.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// As many as the demo has. The state that the loop's protocol keeps in the repository grows with each step of a plan, and the
/// daemon holds it: a plan without an end would show that, and nothing about the daemon.
const STEPS: &str = "1,2,3";
const SEATS: [(&str, &str); 6] = [
    ("claude-code", "agent.sh"),
    ("codex", "agent.sh"),
    ("planner", "handoff.sh"),
    ("builder", "handoff.sh"),
    ("reviewer", "handoff.sh"),
    ("fixer", "handoff.sh"),
];

pub(crate) struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn build() -> Self {
        let stage = Self { dir: tempfile::tempdir().expect("a temporary folder") };
        std::fs::create_dir(stage.at("home")).expect("a temporary folder is writable");
        stage.configure();
        for repo in stage.repos() {
            make(&repo);
        }
        let [review_loop, handoff, ledger] = stage.repos();
        stage.ok(&review_loop, &["loop", "init", "--steps", STEPS]);
        stage.ok(&handoff, &["handoff", "start", "Add user auth"]);
        stage.ok(&ledger, &["ledger", "init"]);
        stage
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn repos(&self) -> [PathBuf; 3] {
        ["loop", "handoff", "ledger"].map(|name| self.at(name))
    }

    /// Handoffs and the ledger share the seats' names, so one script asks which of the two it plays.
    fn configure(&self) {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/demo");
        let both = format!(
            "case \"$AGENCY_PROTOCOL\" in ledger) exec sh {0}/ledger.sh \"$@\" ;; *) exec sh {0}/handoff.sh \"$@\" ;; esac\n",
            scripts.display()
        );
        std::fs::write(self.at("handoff.sh"), both).expect("a temporary folder is writable");
        std::fs::copy(scripts.join("agent.sh"), self.at("agent.sh")).expect("a copy");
        let program = env!("CARGO_BIN_EXE_agency");
        let mut text = "limits: { parallel: 3, per_agent: 2 }\nagents:\n".to_owned();
        for (seat, script) in SEATS {
            let script = self.at(script);
            let agent = format!("{{ command: [sh, {}, {program}] }}", script.display());
            text.push_str(&format!("  {seat}: {agent}\n"));
        }
        text.push_str("roles:\n");
        for (seat, _) in &SEATS[2..] {
            text.push_str(&format!("  {seat}: {seat}\n"));
        }
        // The scripts keep their notes beside the repositories.
        text.push_str(&format!("sandbox: {{ write: [\"{}\"] }}\n", self.at("home").display()));
        std::fs::write(self.at("agency.yaml"), text).expect("a temporary folder is writable");
    }

    pub(crate) fn agency(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agency"));
        command
            .current_dir(self.dir.path())
            .env("HOME", self.at("home"))
            .env("AGENCY_STATE_DIR", self.at("state"))
            .env("AGENCY_CONFIG", self.at("agency.yaml"))
            .env("AGENCY_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn ok(&self, repo: &Path, words: &[&str]) {
        let status = self.agency().args(words).current_dir(repo).status();
        assert!(status.is_ok_and(|status| status.success()), "agency {words:?}");
    }

    /// What is complete is followed by the next of its kind; how many were.
    pub(crate) fn begin_again(&self) -> usize {
        let [review_loop, handoff, _] = self.repos();
        let looped = says(&review_loop, ".review-loop-state.json", "/phase", "complete");
        if looped {
            self.ok(&review_loop, &["loop", "init", "--steps", STEPS]);
        }
        let handed = says(&handoff, ".claude/state.json", "/current_workflow/status", "completed");
        if handed {
            clear(&handoff.join(".claude/handoffs/completed"));
            self.ok(&handoff, &["handoff", "start", "Add user auth"]);
        }
        usize::from(looped) + usize::from(handed)
    }

    /// How many agents were started in all.
    pub(crate) fn runs(&self) -> usize {
        let mut command = self.agency();
        let said = command.args(["runs", "--all", "--json"]).stdout(Stdio::piped()).output();
        let runs: Option<Vec<serde_json::Value>> =
            said.ok().and_then(|said| serde_json::from_slice(&said.stdout).ok());
        runs.map_or(0, |runs| runs.len())
    }
}

/// Its owner tidies up. Messages that lie there are known to the daemon and in no commit: they would show how the repository
/// grows, as a plan without an end would.
fn clear(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        std::fs::remove_file(entry.path()).expect("a temporary folder is writable");
    }
}

fn says(repo: &Path, file: &str, field: &str, word: &str) -> bool {
    let text = std::fs::read_to_string(repo.join(file)).unwrap_or_default();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    state.pointer(field).is_some_and(|value| value == word)
}

fn make(repo: &Path) {
    std::fs::create_dir(repo).expect("a temporary folder is writable");
    std::fs::write(repo.join("README.md"), "# A shop\n").expect("a temporary folder is writable");
    let map = "# Map\n\n- README.md:1 what this is\n";
    std::fs::write(repo.join("CODEBASE.md"), map).expect("a temporary folder is writable");
    for words in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "-A"],
        &["commit", "-qm", "first"],
    ] {
        let names = ["-c", "user.name=Owner", "-c", "user.email=owner@example.com"];
        let status = Command::new("git").args(names).args(words).current_dir(repo).status();
        assert!(status.is_ok_and(|status| status.success()), "git {words:?}");
    }
}
