//! `agency demo board` with the real binary, real git and real processes: what it shows, and what it leaves behind.

use crate::e2e::stage::Stage;
use std::process::Command;

// covers: OP-01, AG-09, AG-10, AG-13, AG-14, AG-19, AG-20, AG-27
#[test]
fn the_demo_of_the_board_ends_with_four_tasks_done() {
    let stage = Stage::new("exit 1");
    let begun = std::time::Instant::now();
    let output = stage.program().args(["demo", "board"]).env("TMPDIR", stage.at("")).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(begun.elapsed().as_secs() < 60, "under a minute");
    let shows = |words: &str| assert!(said.contains(words), "`{words}` is not in\n{said}");
    shows("T0001: READY_FOR_REVIEW → DONE");
    shows("T0003: READY_FOR_REVIEW → IN_PROGRESS");
    shows("a refund of nothing is paid out");
    shows("The rest waits for the owner");
    shows("$ agency verify --task T0004 --override");
    shows("T0004: READY_FOR_REVIEW → DONE");
    shows("Look around:");
    assert!(said.find("works on T0002") < said.find("T0001: IN_PROGRESS →"), "at once:\n{said}");
    let at = |words: &str| said.find(words).unwrap_or_else(|| panic!("`{words}` in\n{said}"));
    let begins = at("T0003: ASSIGNED → IN_PROGRESS");
    assert!(begins > at("T0001: READY_FOR_REVIEW → DONE"), "it waits for T0001:\n{said}");
    left_behind(&stage);
}

fn left_behind(stage: &Stage) {
    let folders = std::fs::read_dir(stage.at("")).unwrap().map(|entry| entry.unwrap().path());
    let repo = folders.into_iter().find(|path| path.join("shop").exists()).unwrap().join("shop");
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(&repo).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let files = git(&["ls-tree", "-r", "--name-only", "main", "src"]);
    let wanted = ["src/T0001.txt", "src/T0002.txt", "src/T0003.txt", "src/T0004.txt"];
    assert_eq!(files.lines().collect::<Vec<_>>(), wanted);
    assert!(!git(&["show", "main:README.md"]).contains("Receipts!"), "the breach was not merged");
    assert!(git(&["show", "main:src/T0003.txt"]).contains("checked"), "the audit was heard");
    let decisions = std::fs::read_to_string(repo.join(".kodingx/DECISIONS.md")).unwrap();
    assert!(decisions.contains("### ADR-001: Override T0004"), "{decisions}");
}
