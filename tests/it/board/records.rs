//! What the board commits of its own folder: exactly what it wrote or judged about tasks that ended, and nothing else.

use super::running::{on_main, task, work};
use super::{board, status, task as by_hand};
use crate::e2e::stage::Stage;

fn records(stage: &Stage) -> Vec<String> {
    let log = stage.git(&["log", "--format=%s", "--author=agency", "main"]);
    log.lines().map(str::to_owned).collect()
}

fn changed_by_last(stage: &Stage) -> Vec<String> {
    let shown = stage.git(&["show", "--name-only", "--format=", "main"]);
    shown.lines().map(str::to_owned).collect()
}

// covers: AG-14, AG-18
#[test]
fn only_what_the_board_wrote_is_committed() {
    let stage = board();
    let file = by_hand(&stage, &[]);
    let path = file.to_str().unwrap().to_owned();
    // The owner is in the middle of something, and an agent has been at the gates.
    stage.write(".kodingx/RISKS.md", "# Risks\nhalf a sen");
    stage.write(
        ".kodingx/dod/profiles/tiny.yml",
        "name: tiny\ndescription: x\ncommands: [\"true\"]\n",
    );
    stage.write("README.md", "unfinished\n");
    stage.write("staged.txt", "staged\n");
    stage.git(&["add", "staged.txt"]);
    stage.ok(&["task", "cancel", "T0001"]);
    work(&stage);
    assert_eq!(records(&stage), ["Board: T0001 CANCELED"]);
    let ours = [".kodingx/STATE.md", ".kodingx/TASK_BOARD.md"];
    let changed = changed_by_last(&stage);
    assert!(changed.contains(&path), "{changed:?}");
    assert!(
        changed.iter().all(|name| *name == path || ours.contains(&name.as_str())),
        "{changed:?}"
    );
    let left = stage.git(&["status", "--porcelain"]);
    let left: Vec<&str> = left.lines().map(|line| line.get(3..).unwrap_or(line)).collect();
    assert_eq!(left.len(), 4, "the rest is as it was: {left:?}");
    assert!(stage.git(&["diff", "--cached", "--name-only"]) == "staged.txt");
    work(&stage);
    assert_eq!(records(&stage).len(), 1, "once");
    // What somebody changed after we wrote it is theirs.
    let second = by_hand(&stage, &[]);
    stage.ok(&["task", "cancel", "T0002"]);
    let text = stage.read(second.to_str().unwrap()).unwrap();
    stage.write(second.to_str().unwrap(), format!("{text}\nand a thought\n"));
    work(&stage);
    let changed = changed_by_last(&stage);
    assert!(changed.iter().all(|name| ours.contains(&name.as_str())), "{changed:?}");
    assert_eq!(status(&stage, &second), "CANCELED");
}

// covers: AG-14
#[test]
fn another_branch_waits_and_an_ignored_folder_stays_out() {
    let stage = board();
    by_hand(&stage, &[]);
    by_hand(&stage, &[]);
    stage.ok(&["task", "cancel", "T0001"]);
    stage.git(&["switch", "--quiet", "-c", "elsewhere"]);
    work(&stage);
    assert_eq!(records(&stage), Vec::<String>::new());
    stage.git(&["switch", "--quiet", "main"]);
    work(&stage);
    assert_eq!(records(&stage), ["Board: T0001 CANCELED"]);
    stage.write(".gitignore", ".kodingx\n");
    stage.git(&["rm", "-r", "--quiet", "--cached", ".kodingx"]);
    stage.git(&["add", ".gitignore"]);
    stage.git(&["commit", "--quiet", "-m", "the board is mine alone"]);
    stage.ok(&["task", "cancel", "T0002"]);
    work(&stage);
    assert_eq!(records(&stage).len(), 1);
    assert_eq!(on_main(&stage, ".kodingx/STATE.md"), None);
}

// covers: AG-09, AG-05
#[test]
fn nobody_else_makes_a_remediation() {
    let stage = board();
    let file = by_hand(&stage, &[]);
    let text = stage.read(file.to_str().unwrap()).unwrap();
    let forged = text
        .replace("id: T0001", "id: T0002\nremediates: T0001")
        .replace("status: NEW", "status: ASSIGNED");
    stage.write(&file.to_str().unwrap().replace("T0001-", "T0002-"), forged);
    work(&stage);
    let told = stage.escalation("AG-06").unwrap();
    assert!(
        told["evidence"].to_string().contains("AG-09")
            || told["summary"].to_string().contains("AG-09"),
        "{told}"
    );
}

// covers: AG-09, AG-05
#[test]
fn subtasks_have_ulids_where_the_board_has() {
    let stage = super::running::board_with(super::running::CONFIG);
    let manifest = stage.read(".kodingx/agency.json").unwrap();
    stage.write(".kodingx/agency.json", manifest.replace("\"sequential\"", "\"ulid\""));
    stage.git(&["commit", "--quiet", "-am", "other ids"]);
    let (id, file) = task(&stage, "done badly", &[]);
    assert_eq!(id.len(), 27);
    work(&stage);
    assert_eq!(status(&stage, &file), "DONE", "{}", super::running::log(&stage));
    let found = super::running::remedies(&stage, &id);
    assert!(found.len() == 1 && found[0]["id"].as_str().unwrap().len() == 27, "{found:?}");
}
