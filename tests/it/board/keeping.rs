//! What git has of a board: `init` offers to commit it (AG-40), and what git ignores is named. Files keep their line ends.

use super::running::{self, board_with};
use super::terminal::Terminal;
use super::{board, report, status, task};
use crate::e2e::stage::Stage;

fn subjects(stage: &Stage) -> String {
    stage.git(&["log", "--format=%an: %s", "main"])
}

// covers: AG-40
#[test]
fn init_commits_the_board_where_the_owner_says_so_and_nothing_else() {
    let stage = Stage::new("exit 0");
    stage.write("mine.txt", "not yet\n");
    stage.git(&["config", "user.name", "Olga"]);
    stage.git(&["config", "user.email", "olga@example.com"]);
    let words = ["init", "--orchestrator", "claude_code", "--builders", "codex"];
    let said = stage.agency(&words);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("git add .kodingx && git commit"), "{}", said.err);
    assert_eq!(subjects(&stage), "Owner: the owner's first commit", "nothing by itself");
    let said = stage.ok(&["init", "--commit"]);
    assert!(said.contains("files on main: Begin a task board"), "{said}");
    assert!(subjects(&stage).starts_with("Olga: Begin a task board\n"), "{}", subjects(&stage));
    let left = stage.git(&["status", "--porcelain"]);
    assert_eq!(left, "?? CLAUDE.md\n?? mine.txt", "what set-up did not make now is the owner's");
    assert!(stage.git(&["ls-tree", "-r", "--name-only", "main"]).contains(".kodingx/STATE.md"));
    // There is nothing left to commit, and nothing is said of it.
    let said = stage.agency(&["init", "--commit"]);
    assert!(said.code == 0 && !said.err.contains("git add"), "{}{}", said.out, said.err);
    assert_eq!(subjects(&stage).lines().count(), 2);
}

// covers: AG-40
#[test]
fn a_first_init_commits_its_new_rules_file_too() {
    let stage = Stage::new("exit 0");
    stage.write("AGENTS.md", "# Mine\n");
    stage.ok(&["init", "--orchestrator", "cursor", "--builders", "codex", "--commit"]);
    let files = stage.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(files.contains(".cursor/rules/agency.mdc") && !files.contains("AGENTS.md"), "{files}");
    assert_eq!(stage.git(&["status", "--porcelain"]), "?? AGENTS.md");
}

// covers: AG-40
#[test]
fn at_a_terminal_init_asks_before_it_commits() {
    for (answer, commits) in [("no\n", 1), ("\n", 2)] {
        let stage = Stage::new("exit 0");
        let words = ["init", "--orchestrator", "other", "--builders", "codex"];
        let more = ["--license-mode", "dual", "--role-mode", "solo"];
        let mut terminal = Terminal::open(&stage, &[&words[..], &more[..]].concat());
        terminal.answer("on `main` [yes]: ", answer);
        let (code, shown) = terminal.end();
        assert_eq!((code, subjects(&stage).lines().count()), (0, commits), "{shown}");
        assert_eq!(shown.contains("git add .kodingx"), commits == 1, "{shown}");
    }
}

// covers: AG-40
#[test]
fn without_git_or_a_branch_nothing_is_committed() {
    let stage = Stage::new("exit 0");
    stage.git(&["checkout", "--quiet", "--detach"]);
    let said = stage.agency(&["init", "--builders", "codex", "--commit"]);
    assert!(said.code == 1 && said.err.contains("no branch is checked out"), "{}", said.err);
    std::fs::remove_dir_all(stage.repo().join(".git")).unwrap();
    let said = stage.agency(&["init", "--builders", "codex", "--commit"]);
    assert!(said.code == 2 && said.err.contains("no git repository"), "{}", said.err);
}

// covers: AG-40
#[test]
fn builders_start_only_from_the_profile_that_the_owner_sees() {
    let stage = board_with(running::CONFIG);
    let strict = "name: tiny\ndescription: stricter\ncommands: [\"test ! -e broken\", \"true\"]\n";
    stage.write(".kodingx/dod/profiles/tiny.yml", strict);
    let (_, file) = running::task(&stage, "plain", &[]);
    let daemon = stage.start();
    let told = stage.wait("the owner to be told", || stage.escalation("AG-40"));
    let summary = told["summary"].as_str().unwrap();
    assert!(summary.contains("`tiny` that you see is not the committed one"), "{summary}");
    assert!(stage.started().is_empty(), "no builder starts before that");
    assert!(
        stage.ok(&["status"]).contains("is not the committed one"),
        "{}",
        stage.ok(&["status"])
    );
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "stricter"]);
    stage.wait("the merge", || (status(&stage, &file) == "DONE").then_some(()));
    stage.wait("the end of the notice", || {
        let notice = stage.escalation("AG-40");
        notice.is_none_or(|notice| notice["state"] != "open").then_some(())
    });
    assert_eq!(daemon.stop(), 0);
    let branches = stage.git(&["branch", "--list", "agency/*"]);
    assert_eq!(branches, "", "a merged task leaves no branch");
}

// covers: AG-40
#[test]
fn a_profile_that_the_owner_deleted_starts_no_builder_either() {
    let stage = board_with(running::CONFIG);
    std::fs::remove_file(stage.repo().join(".kodingx/dod/profiles/tiny.yml")).unwrap();
    running::task(&stage, "plain", &[]);
    let daemon = stage.start();
    stage.wait("the owner to be told", || stage.escalation("AG-40"));
    assert!(stage.started().is_empty());
    assert_eq!(daemon.stop(), 0);
}

// covers: AG-22, AG-24
#[test]
fn what_git_ignores_of_a_board_is_named() {
    let stage = Stage::new("exit 0");
    stage.write(".gitignore", "*.json\nCLAUDE.md\n");
    let said = stage.agency(&["install", "--orchestrator", "claude_code", "--builders", "codex"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let check = stage.agency(&["check"]);
    assert_eq!(check.code, 0, "the owner may keep things out of git: {}", check.out);
    for (path, words) in [
        (".kodingx/verify", "a clone lacks the evidence that tasks are DONE"),
        (".kodingx/agency.json", "a clone lacks the board's settings"),
        ("CLAUDE.md", "only this machine's tool reads the board's rules"),
    ] {
        for text in [&said.err, &check.out] {
            let found = text.lines().any(|line| line.contains(path) && line.contains(words));
            assert!(found, "{path}: {text}");
        }
    }
    assert!(!check.out.contains(".kodingx/inbox"), "{}", check.out);
    stage.write(".gitignore", ".kodingx/\n");
    let check = stage.agency(&["check"]);
    assert!(check.out.contains("git ignores the whole board"), "{}", check.out);
    assert_eq!(check.out.matches("git ignores").count(), 1, "{}", check.out);
    assert_eq!(stage.read(".gitignore").unwrap(), ".kodingx/\n", "its patterns are respected");
}

fn is_crlf(text: &str) -> bool {
    text.matches('\n').count() == text.matches("\r\n").count() && text.contains('\n')
}

// covers: AG-39, AG-15, AG-19
#[test]
fn files_with_crlf_keep_it_whatever_changes_in_them() {
    let stage = board();
    stage.git(&["config", "user.email", "me@example.com"]);
    let file = task(&stage, &[]);
    task(&stage, &[]);
    let path = file.to_str().unwrap();
    let generated = [
        path,
        ".kodingx/agency.json",
        ".kodingx/STATE.md",
        ".kodingx/RISKS.md",
        ".kodingx/DECISIONS.md",
        ".kodingx/PROTOCOL.md",
        ".kodingx/templates/report.md",
        ".kodingx/dod/profiles/generic.yml",
        ".kodingx/agents/codex.md",
        "AGENTS.md",
    ];
    for path in generated {
        let text = stage.read(path).unwrap().replace('\n', "\r\n");
        stage.write(path, text);
    }
    stage.ok(&["task", "start", "T0001"]);
    assert_eq!(status(&stage, &file).trim_end(), "IN_PROGRESS");
    report(&stage, &file, "READY_FOR_REVIEW", "");
    stage.write("broken", "");
    stage.ok(&["verify", "--task", "T0001", "--override", "--reason", "x", "--followup", "T0002"]);
    stage.ok(&["init", "--license-mode", "dual"]);
    stage.ok(&["install", "--force"]);
    for path in generated {
        let text = stage.read(path).unwrap();
        assert!(is_crlf(&text), "{path}: {text:?}");
    }
    assert!(stage.read(".kodingx/STATE.md").unwrap().contains("active_tasks: [\"T0001\"]"));
    assert_eq!(stage.escalation("AG-15"), None, "other line ends are no forgery");
    let check = stage.agency(&["check"]);
    assert_eq!(check.code, 0, "{}", check.out);
}

// covers: AG-17, AG-24
#[test]
fn the_last_artifact_stays_where_state_says_and_check_finds_one_that_is_gone() {
    let stage = board();
    let file = task(&stage, &[]);
    stage.ok(&["task", "start", "T0001"]);
    report(&stage, &file, "READY_FOR_REVIEW", "");
    let last = |stage: &Stage| {
        let state = stage.read(".kodingx/STATE.md").unwrap();
        let line = state.lines().find_map(|line| line.trim().strip_prefix("artifact_path: "));
        line.unwrap().trim_matches('"').to_owned()
    };
    for _ in 0..2 {
        stage.ok(&["verify", "--task", "T0001"]);
        assert!(stage.repo().join(last(&stage)).is_file());
    }
    stage.ok(&["task", "done", "T0001"]);
    stage.ok(&["archive", "--older-than", "0"]);
    assert!(stage.repo().join(last(&stage)).is_file(), "the archive leaves the one that is named");
    assert_eq!(stage.agency(&["check"]).code, 0);
    std::fs::remove_file(stage.repo().join(last(&stage))).unwrap();
    let check = stage.agency(&["check"]);
    assert!(check.code == 1 && check.out.contains("`last_verify` names"), "{}", check.out);
}
