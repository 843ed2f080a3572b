//! `agency status` on a board that is large enough to be remembered between two calls.

use super::board;
use crate::e2e::stage::{Stage, wait_until};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

const TASKS: usize = 2100;

fn counts(stage: &Stage) -> Value {
    let status = stage.json(&["status", "--json"]);
    status["repos"][0]["protocols"][0]["detail"]["counts"].clone()
}

fn memory(stage: &Stage) -> Option<PathBuf> {
    let folders = std::fs::read_dir(stage.at("state")).unwrap().map(|entry| entry.unwrap().path());
    folders.map(|dir| dir.join("board/seen")).find(|path| path.exists())
}

// covers: AG-21
#[test]
fn what_is_remembered_of_a_large_board_is_never_believed_over_its_files() {
    let stage = board();
    let day = stage.repo().join(".kodingx/inbox/codex/2026-01-31");
    std::fs::create_dir_all(&day).unwrap();
    let path = |number: usize| day.join(format!("T{number:04}-1010-x.md"));
    for number in 1..=TASKS {
        std::fs::write(path(number), "---\nstatus: ASSIGNED\n---\n").unwrap();
    }
    assert_eq!(counts(&stage), json!({ "ASSIGNED": TASKS }));
    // Files that were written just now are not remembered.
    let remembered = wait_until(Duration::from_secs(30), || {
        assert_eq!(counts(&stage), json!({ "ASSIGNED": TASKS }));
        memory(&stage)
    });
    assert!(remembered.is_some(), "a large board is remembered");
    let before = std::fs::metadata(path(7)).unwrap().modified().unwrap();
    std::fs::write(path(7), "---\nstatus: CANCELED\n---\n").unwrap();
    let file = std::fs::File::options().write(true).open(path(7)).unwrap();
    file.set_modified(before).unwrap();
    assert_eq!(counts(&stage), json!({ "ASSIGNED": TASKS - 1, "CANCELED": 1 }));
    std::fs::write(memory(&stage).unwrap(), "half of it").unwrap();
    assert_eq!(counts(&stage), json!({ "ASSIGNED": TASKS - 1, "CANCELED": 1 }));
    std::fs::remove_dir_all(&day).unwrap();
    assert_eq!(counts(&stage), json!({}));
    assert_eq!(memory(&stage), None, "nothing is left of what is gone");
}
