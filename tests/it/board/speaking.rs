//! An auditor that its CLI lets read only: its last message is its verdict, under the real daemon.

use super::running::{CONFIG, board_with, log, merges, remedies, task, work};
use super::status;
use crate::e2e::stage::Stage;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const CLAUDE: &str = include_str!("../agents/board_claude.sh");
const AGENTS: &str = "agents:\n  claude-code: { profile: claude, retries: 1, backoff: 100ms }\n  \
                      second: { profile: claude, retries: 1, backoff: 100ms }\n";

/// Builder and auditor are the same CLI, found in a `PATH` of this stage's own.
fn board() -> Stage {
    let stage = board_with(CONFIG);
    let claude = stage.at("bin/claude");
    fs::create_dir(stage.at("bin")).unwrap();
    fs::write(&claude, CLAUDE).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", stage.at("bin").display(), std::env::var("PATH").unwrap());
    let stage = stage.with_env("PATH", &path);
    audited_by(&stage, "second");
    stage
}

/// `second` is a claude as well; `codex` is a script of the owner's.
fn audited_by(stage: &Stage, auditor: &str) {
    let config = CONFIG.replace("auditor: codex", &format!("auditor: {auditor}"));
    let script = format!("  codex: {{ command: [sh, {}] }}\n", stage.at("agent.sh").display());
    stage.set_config(&format!("{AGENTS}{script}{config}"));
}

/// What each of a role's runs was told.
fn prompts(stage: &Stage, role: &str) -> Vec<String> {
    let all = below(&stage.at("state"), "prompt.md").into_iter().map(fs::read_to_string);
    let start = format!("You are the {role} of task");
    all.map(Result::unwrap).filter(|prompt| prompt.starts_with(&start)).collect()
}

fn below(dir: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    let (dirs, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let here = files.into_iter().filter(|path| path.to_str().unwrap().ends_with(name));
    here.chain(dirs.iter().flat_map(|dir| below(dir, name))).collect()
}

/// The audits of a task that lie in the owner's tree.
fn audits(stage: &Stage, id: &str) -> Vec<String> {
    let found = below(&stage.repo().join(".kodingx/outbox/second"), "-audit.md");
    let of = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(id);
    found.into_iter().filter(of).map(|path| fs::read_to_string(path).unwrap()).collect()
}

// covers: AG-10, AG-34, AG-09
#[test]
fn an_auditor_that_may_only_read_says_its_verdict() {
    let stage = board();
    stage.without_sandbox();
    let plain = task(&stage, "plain", &[]);
    let badly = task(&stage, "done badly", &[]);
    let meddled = task(&stage, "meddled with", &[]);
    let undecided = task(&stage, "undecided", &[]);
    work(&stage);
    for (id, file) in [&plain, &badly] {
        assert_eq!(status(&stage, file), "DONE", "{id}: {}", log(&stage));
        let audit = audits(&stage, id);
        assert_eq!(audit.len(), 1, "kept where a file of its own would lie: {audit:?}");
        assert!(audit[0].starts_with("---\n") && audit[0].ends_with("---\n\nSaid, not written.\n"));
    }
    assert_eq!(remedies(&stage, &badly.0).len(), 1, "what it said went to the builder");
    assert_eq!(merges(&stage).len(), 2, "{}", log(&stage));
    for ((id, file), rule) in [(&meddled, "AG-34"), (&undecided, "SU-06")] {
        assert_eq!(status(&stage, file), "READY_FOR_REVIEW", "{id}");
        let told = stage.escalation(rule).unwrap().to_string();
        assert!(told.contains(id.as_str()), "{told}");
    }
    assert!(stage.escalation("SU-06").unwrap()["summary"].to_string().contains("AG-10"));
    let flags = fs::read_to_string(stage.at("home/flags")).unwrap();
    for line in flags.lines() {
        let reads = line.contains("--permission-mode dontAsk");
        assert_eq!(reads, line.starts_with("auditor "), "{line}");
        assert_eq!(reads, !line.contains("acceptEdits"), "{line}");
    }
    let open = stage.git(&["status", "--porcelain"]);
    assert!(!open.contains("-audit.md"), "what was said is committed: {open}");
    for prompt in prompts(&stage, "auditor") {
        assert!(prompt.contains("write nothing"), "{prompt}");
        assert!(prompt.contains("\nwork/T000"), "it hears what differs: {prompt}");
    }
    same_maker_is_told_once(&stage);
}

/// A script of the owner's cannot be kept from writing, so it is asked for a file; and it is no claude.
// covers: AG-10
#[test]
fn another_auditor_is_asked_for_a_file_and_warned_of_no_more() {
    let stage = board();
    let first = task(&stage, "plain", &[]);
    work(&stage);
    let warnings = || {
        let shown = stage.json(&["status", "--json"]);
        shown["repos"][0]["protocols"][0]["detail"]["warnings"].as_array().unwrap().len()
    };
    assert_eq!((status(&stage, &first.1).as_str(), warnings()), ("DONE", 1), "{}", log(&stage));
    audited_by(&stage, "codex");
    let next = task(&stage, "next", &[]);
    work(&stage);
    assert_eq!((status(&stage, &next.1).as_str(), warnings()), ("DONE", 0), "{}", log(&stage));
    let asked = prompts(&stage, "auditor");
    let wanted: [Vec<bool>; 2] = ["second/", "codex/"].map(|who| {
        let of = |prompt: &&String| prompt.contains(&format!("`.kodingx/outbox/{who}"));
        asked.iter().filter(of).map(|prompt| prompt.contains("write your verdict to")).collect()
    });
    assert_eq!(wanted, [vec![false], vec![true]], "{asked:?}");
}

/// Four audits by the builder's own maker: one notice, and `agency status` goes on showing it.
fn same_maker_is_told_once(stage: &Stage) {
    let says = "auditor `second` and builder `claude-code` are both claude";
    let all = stage.json(&["escalations", "--all", "--json"]);
    let told =
        all.as_array().unwrap().iter().filter(|one| one["summary"].to_string().contains(says));
    let counts: Vec<_> = told.map(|one| (&one["rule"], &one["count"])).collect();
    assert_eq!(counts, [(&"AG-10".into(), &1.into())], "{all}");
    let shown = stage.json(&["status", "--json"]);
    let board = &shown["repos"][0]["protocols"][0];
    assert_eq!(board["name"], "board");
    let warnings = board["detail"]["warnings"].as_array().unwrap();
    assert!(warnings.len() == 1 && warnings[0].as_str().unwrap().starts_with(says), "{board}");
}

/// Its verdict is in nobody's file: it must not depend on a daemon that hears it.
// covers: AG-10, DM-06, SU-02
#[test]
fn a_verdict_that_was_said_while_no_daemon_lived_counts() {
    let stage = board();
    fs::write(stage.at("home/hold-audit"), "").unwrap();
    let (id, file) = task(&stage, "plain", &[]);
    let daemon = stage.start();
    stage.wait("the auditor", || (stage.started().len() == 2).then_some(()));
    daemon.kill();
    fs::remove_file(stage.at("home/hold-audit")).unwrap();
    let ends = || below(&stage.at("state"), "exit.json").len();
    stage.wait("its end", || (ends() >= 2).then_some(()));
    assert_eq!(status(&stage, &file), "READY_FOR_REVIEW");
    work(&stage);
    assert_eq!(status(&stage, &file), "DONE", "{}", log(&stage));
    assert_eq!(audits(&stage, &id).len(), 1);
    let begun: Vec<String> = stage.started();
    assert_eq!(begun.len(), 2, "nobody was asked twice: {begun:?}");
}
