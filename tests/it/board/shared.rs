//! Builders in the owner's own tree (`isolation: shared`), with git and without; and a command that stands for a builder.

use super::running::{artifact, board_with, log, merges, on_main, remedies, task, work};
use super::status;
use crate::e2e::stage::Stage;
use std::os::unix::fs::PermissionsExt as _;

const SHARED: &str = "board: { auditor: codex, isolation: shared }\nlimits: { parallel: 4, per_repo: 4, per_agent: 4 }\n";

fn polite(stage: &Stage) {
    std::fs::write(stage.at("home/polite"), "").unwrap();
}

// covers: AG-14, AG-13, AG-34
#[test]
fn one_at_a_time_in_the_owners_tree_and_only_its_own_change_is_committed() {
    let stage = board_with(SHARED);
    polite(&stage);
    let plain = task(&stage, "plain", &[]);
    let badly = task(&stage, "done badly", &[]);
    let breach = task(&stage, "a breach of scope", &[]);
    stage.write("README.md", "the owner is at work here\n");
    work(&stage);
    for (id, file) in [&plain, &badly, &breach] {
        assert_eq!(status(&stage, file), "DONE", "{id}: {}", log(&stage));
        assert!(on_main(&stage, &format!("work/{id}.txt")).is_some(), "{id}");
        let notes = artifact(&stage, file)["notes"].to_string();
        assert!(notes.contains("isolation: shared"), "{notes}");
    }
    assert_eq!(merges(&stage).len(), 3, "{:?}", merges(&stage));
    assert_eq!((remedies(&stage, &badly.0).len(), remedies(&stage, &breach.0).len()), (1, 1));
    assert_eq!(on_main(&stage, "README.md").as_deref(), Some("the project"));
    assert_eq!(stage.git(&["status", "--porcelain"]), " M README.md".trim_end());
    assert_eq!(stage.git(&["worktree", "list"]).lines().count(), 1);
    let tasks: Vec<String> =
        stage.started().iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
    let first = tasks.iter().filter(|id| **id == plain.0).count();
    assert_eq!(first, 2);
    assert!(tasks[..2].iter().all(|id| *id == tasks[0]), "no two at a time: {tasks:?}");
}

// covers: AG-13, AG-14
#[test]
fn without_git_it_is_said_that_nobody_compared_the_change() {
    let stage = Stage::new(include_str!("../agents/board.sh"));
    polite(&stage);
    std::fs::remove_dir_all(stage.repo().join(".git")).unwrap();
    stage.configure("board: { auditor: codex }\n");
    stage.ok(&["init", "--orchestrator", "other", "--builders", "claude-code,codex"]);
    let profile = "name: tiny\ndescription: one check\ncommands:\n  - \"test ! -e broken\"\n";
    stage.write(".kodingx/dod/profiles/tiny.yml", profile);
    let (id, file) = task(&stage, "done badly", &[]);
    work(&stage);
    assert!(stage.escalation("AG-14").unwrap()["summary"].to_string().contains("isolation"));
    assert_eq!((status(&stage, &file), stage.started().len()), ("ASSIGNED".to_owned(), 0));
    stage.configure(SHARED);
    work(&stage);
    assert_eq!(status(&stage, &file), "DONE", "{}", log(&stage));
    let artifact = artifact(&stage, &file);
    assert_eq!(artifact["result"], "pass");
    assert!(artifact["notes"].to_string().contains("without git"), "{artifact}");
    let told = stage.escalation("AG-13").unwrap();
    assert_eq!((told["count"].as_u64(), remedies(&stage, &id).len()), (Some(1), 1), "{told}");
}

// covers: AG-29
#[test]
fn playwright_is_a_command_and_its_report_is_ours() {
    let stage = board_with(super::running::CONFIG);
    let bin = stage.at("bin");
    std::fs::create_dir(&bin).unwrap();
    let npx = "#!/bin/sh\necho \"$*\" >> \"$HOME/npx\"\ncase \"$*\" in *T0002*) echo 'two of three failed'; exit 1;; esac\nmkdir -p test-results && echo x > test-results/a\n";
    std::fs::write(bin.join("npx"), npx).unwrap();
    std::fs::set_permissions(bin.join("npx"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let stage = stage.with_env("PATH", &path);
    let passes = task(&stage, "looks right", &["--assignee", "playwright"]);
    let fails = task(&stage, "looks wrong", &["--assignee", "playwright"]);
    work(&stage);
    assert_eq!(status(&stage, &passes.1), "DONE", "{}", log(&stage));
    assert_eq!(status(&stage, &fails.1), "BLOCKED", "{}", log(&stage));
    let ran = std::fs::read_to_string(stage.at("home/npx")).unwrap();
    assert!(ran.contains(&format!("playwright test --grep {}\n", passes.0)), "{ran}");
    assert!(stage.escalation("AG-12").unwrap()["summary"].to_string().contains("two of three"));
    let report = stage.ok(&["report", &passes.0]);
    assert!(
        report.contains("agent: playwright") && report.contains("READY_FOR_REVIEW"),
        "{report}"
    );
    assert_eq!(on_main(&stage, "test-results/a"), None);
}
