//! How a task's branch reaches the target, by each style; what the target may do meanwhile.

use super::running::{board_with, log, merges, on_main, task, work};
use super::status;
use crate::e2e::stage::Stage;

fn board(style: &str) -> Stage {
    board_with(&format!(
        "board: {{ auditor: codex, disk_floor: 1MiB, merge: {style} }}\nlimits: {{ parallel: 4, per_repo: 4, per_agent: 4 }}\n"
    ))
}

/// Parents of the newest commit whose subject begins so.
fn parents(stage: &Stage, subject: &str) -> usize {
    let grep = format!("--grep=^{subject}");
    let found = stage.git(&["log", "-1", "--format=%P", &grep, "main"]);
    found.split_whitespace().count()
}

// covers: AG-14
#[test]
fn each_style_brings_the_work_as_it_says() {
    let stage = board("merge");
    let one = task(&stage, "one", &[]);
    work(&stage);
    assert_eq!(status(&stage, &one.1), "DONE", "{}", log(&stage));
    assert_eq!(parents(&stage, &format!("{}: one", one.0)), 2);
    assert_eq!(stage.git(&["branch", "--list", "agency/*"]), "", "a merged branch is deleted");
    assert_eq!(on_main(&stage, &format!("work/{}.txt", one.0)).as_deref(), Some(&one.0[..]));

    let stage = board("ff");
    let two = [task(&stage, "one", &[]), task(&stage, "two", &[])];
    work(&stage);
    for (id, file) in &two {
        assert_eq!(status(&stage, file), "DONE", "{id}: {}", log(&stage));
        assert_eq!(on_main(&stage, &format!("work/{id}.txt")).as_deref(), Some(&id[..]));
    }
    let count = stage.git(&["rev-list", "--merges", "--count", "main"]);
    assert_eq!(count, "1", "the first is the branch itself, the second found the target moved");

    let stage = board("none");
    let one = task(&stage, "one", &[]);
    work(&stage);
    assert_eq!(status(&stage, &one.1), "DONE", "{}", log(&stage));
    assert_eq!(merges(&stage), Vec::<String>::new());
    assert_eq!(on_main(&stage, &format!("work/{}.txt", one.0)), None);
    let branch = format!("agency/{}:work/{0}.txt", one.0);
    assert_eq!(stage.git(&["show", &branch]), one.0);
    let board = stage.read(".kodingx/TASK_BOARD.md").unwrap();
    assert!(board.contains("left for a pull request"), "{board}");
}
