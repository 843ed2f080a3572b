//! Questions and progress at a real pseudo-terminal; and that nothing is asked where nobody can answer.

use super::{board, report, task};
use crate::e2e::stage::Stage;
use nix::pty::openpty;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Our program with a person in front of it.
pub(crate) struct Terminal {
    keys: File,
    screen: Receiver<Vec<u8>>,
    child: Child,
    /// All that was shown, and how much of it has been waited for.
    shown: String,
    read: usize,
}

impl Terminal {
    pub(crate) fn open(stage: &Stage, words: &[&str]) -> Self {
        let pty = openpty(None, None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = stage
            .program()
            .args(words)
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        drop(pty.slave);
        let keys = File::from(pty.master);
        let mut output = keys.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal that nobody writes to any more is an error to its other end.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { keys, screen, child, shown: String::new(), read: 0 }
    }

    /// Waits until this is shown, after what was waited for before.
    pub(crate) fn wait(&mut self, text: &str) {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.shown[self.read..].find(text) {
                self.read += at + text.len();
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("waited for {text:?}, saw {:?}", self.shown),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn answer(&mut self, question: &str, keys: &str) {
        self.wait(question);
        self.press(keys);
    }

    pub(crate) fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        while let Ok(bytes) = self.screen.recv_timeout(LIMIT) {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, self.shown)
    }
}

// covers: AG-02
#[test]
fn init_asks_for_what_no_flag_says() {
    let stage = Stage::new("exit 0");
    let mut terminal = Terminal::open(&stage, &["init", "--license-mode", "dual"]);
    terminal.answer("Orchestrator [other]: ", "emacs\n");
    terminal.wait("`emacs` is no orchestrator");
    terminal.answer("Orchestrator [other]: ", "cursor\n");
    terminal.answer("Builders [claude-code,codex,gemini]: ", "codex, gemini\n");
    terminal.answer("Role mode [tech_lead]: ", "\n");
    terminal.answer("files on `main` [yes]: ", "no\n");
    let (code, shown) = terminal.end();
    assert!(code == 0 && !shown.contains("License mode"), "{shown}");
    let manifest: serde_json::Value =
        serde_json::from_str(&stage.read(".kodingx/agency.json").unwrap()).unwrap();
    assert_eq!(manifest["orchestrator"], "cursor");
    assert_eq!(manifest["builders"], serde_json::json!(["codex", "gemini"]));
    assert_eq!(
        (&manifest["role_mode"], &manifest["license_mode"]),
        (&"tech_lead".into(), &"dual".into())
    );
    let (code, shown) = Terminal::open(&stage, &["init"]).end();
    assert!(code == 0 && !shown.contains("]: "), "what is known is not asked again: {shown}");
}

// covers: AG-02, AG-22
#[test]
fn whoever_leaves_or_never_answers_changes_nothing() {
    let stage = Stage::new("exit 0");
    for words in [&["init"][..], &["install"]] {
        let mut terminal = Terminal::open(&stage, words);
        terminal.answer("Orchestrator [other]: ", "\n");
        terminal.answer("Builders", "\u{4}");
        let (code, shown) = terminal.end();
        assert!(code == 2 && shown.contains("nothing was changed"), "{shown}");
        let mut terminal = Terminal::open(&stage, words);
        for _ in 0..3 {
            terminal.answer("Orchestrator [other]: ", "no such tool\n");
        }
        assert_eq!(terminal.end().0, 2, "three wrong answers are enough");
        assert!(!stage.repo().join(".kodingx").exists());
    }
}

// covers: AG-04, AG-33
#[test]
fn a_task_is_made_by_questions() {
    let stage = board();
    let mut terminal = Terminal::open(&stage, &["task", "new", "--label", "bug"]);
    terminal.answer("Title: ", "\n");
    terminal.wait("wanted one line of text");
    terminal.answer("Title: ", "Fix: \"VAT\" été\n");
    terminal.answer("Assignee [claude-code]: ", "\n");
    terminal.answer("Priority [P2]: ", "P1\n");
    terminal.answer("Files that it may change [**]: ", "src/**, tests/**\n");
    terminal.answer("What holds when it is done []: ", "\n");
    let (code, shown) = terminal.end();
    assert!(code == 0 && shown.contains("T0001  .kodingx/inbox/claude-code/"), "{shown}");
    let made = stage.json(&["task", "show", "T0001", "--json"]);
    assert_eq!((&made["title"], &made["priority"]), (&"Fix: \"VAT\" été".into(), &"P1".into()));
    assert_eq!(made["scope"]["may_touch"], serde_json::json!(["src/**", "tests/**"]));
    assert_eq!(made["labels"], serde_json::json!(["bug"]));
    let mut terminal = Terminal::open(&stage, &["task", "new", "--title", "Only the assignee"]);
    terminal.answer("Assignee [claude-code]: ", "codex\n");
    let (code, shown) = terminal.end();
    assert!(code == 0 && !shown.contains("Priority"), "{shown}");
    let mut terminal = Terminal::open(&stage, &["task", "new"]);
    terminal.answer("Title: ", "\u{4}");
    assert_eq!(terminal.end().0, 2);
    assert_eq!(stage.json(&["task", "list", "--json"]).as_array().unwrap().len(), 2);
}

// covers: AG-17, AG-19
#[test]
fn an_override_asks_before_it_runs_anything_and_verify_shows_where_it_is() {
    let stage = board();
    stage.git(&["config", "user.email", "me@example.com"]);
    stage.write(
        ".kodingx/dod/profiles/two.yml",
        "name: two\ndescription: x\ncommands: [\"echo first\", \"touch ran; test ! -e broken\"]\n",
    );
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "two"]);
    let file = task(&stage, &["--dod-profile", "two"]);
    task(&stage, &[]);
    stage.write("broken", "");
    stage.ok(&["task", "start", "T0001"]);
    report(&stage, &file, "READY_FOR_REVIEW", "");
    let mut terminal = Terminal::open(&stage, &["verify", "--task", "T0001", "--override"]);
    terminal.answer("Reason: ", "Hotfix INC-1234\n");
    terminal.answer("Follow-up task: ", "T0001\n");
    let (code, shown) = terminal.end();
    assert!(code == 1 && shown.contains("cannot put itself right"), "{shown}");
    assert!(!stage.repo().join("ran").exists(), "nothing ran for it");
    let mut terminal = Terminal::open(&stage, &["verify", "--task", "T0001", "--override"]);
    terminal.answer("Reason: ", "Hotfix INC-1234\n");
    terminal.answer("Follow-up task: ", "T2\n");
    terminal.answer("Follow-up task: ", "T0002\n");
    terminal.answer("Approver [me@example.com]: ", "\n");
    terminal.wait("[1/2] echo first");
    terminal.wait("first");
    terminal.wait("✓ exit 0 after ");
    terminal.wait("[2/2] touch ran");
    terminal.wait("✗ exit 1 after ");
    let (code, shown) = terminal.end();
    assert!(code == 0 && shown.contains("Result: FAIL"), "{shown}");
    assert!(shown.contains("\u{1b}[K… ["), "a line that counts the seconds: {shown:?}");
    let decisions = stage.read(".kodingx/DECISIONS.md").unwrap();
    assert!(decisions.contains("Hotfix INC-1234") && decisions.contains("me@example.com"));
}

// covers: AG-02
#[test]
fn without_a_terminal_nothing_is_asked() {
    let stage = board();
    let said = stage.agency(&["task", "new"]);
    assert!(said.code == 2 && said.err.contains("give --title"), "{}", said.err);
    let said = stage.agency(&["verify", "--task", "T0001", "--override"]);
    assert!(said.code == 1 && said.err.contains("no task"), "{}", said.err);
    // A person who types, but cannot see a question.
    let pty = openpty(None, None).unwrap();
    let output =
        stage.program().args(["task", "new"]).stdin(Stdio::from(pty.slave)).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

// covers: AG-33
#[test]
fn somebodys_text_plays_no_tricks_on_a_terminal() {
    let stage = board();
    let file = task(&stage, &[]);
    stage.ok(&["task", "start", "T0001"]);
    let path = report(&stage, &file, "READY_FOR_REVIEW", "");
    let text = stage.read(&path).unwrap();
    stage.write(&path, format!("{text}\n\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}hidden\r\n"));
    let (code, shown) = Terminal::open(&stage, &["report", "T0001"]).end();
    assert!(code == 0 && shown.contains("hidden"), "{shown:?}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
}
