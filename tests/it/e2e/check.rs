//! `agency check` on a loop's files: everything that is wrong, at once, with its file and line.

use super::stage::{STATE, Stage};

fn findings(stage: &Stage) -> Vec<(String, String, u64)> {
    let said = stage.agency(&["check", "--json"]);
    let all: Vec<serde_json::Value> = serde_json::from_str(&said.out).unwrap();
    assert_eq!(said.code, i32::from(!all.is_empty()), "{}{}", said.out, said.err);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|one| (text(&one["rule"]), text(&one["file"]), one["line"].as_u64().unwrap_or(0)))
        .collect()
}

// covers: LP-18, LP-14, LP-29, LP-11
#[test]
fn check_lists_everything_that_is_wrong_with_a_loop() {
    let stage = Stage::new("exit 0");
    stage.ok(&["loop", "init", "--steps", "1,2"]);
    stage.write("src/a.rs", "one\ntwo\nthree");
    let map = "# Map\n## File map\n`src/a.rs:1-3`\n## API catalog\nnone\n## Step index\nStep 1 touches src/a.rs:2\n";
    stage.write("CODEBASE.md", map);
    assert_eq!(findings(&stage), [], "a map that is right");
    stage.write("CODEBASE.md", format!("{map}src/a.rs:4\nsrc/gone.rs:1\n"));
    stage.write("owner-mandates.json", "{\"mandatedSteps\": 5}");
    stage.write("ENG_REVIEW_COMMENTS.md", "### CR-001: x\n- **ID**: CR-002\n- **Round**: one\n");
    let state = stage.read(STATE).unwrap();
    stage.write(STATE, state.replace("\"currentRound\": 1", "\"currentRound\": 7"));
    let lines: Vec<_> = findings(&stage)
        .into_iter()
        .map(|(rule, file, line)| format!("{rule} {file}:{line}"))
        .collect();
    assert_eq!(
        lines,
        [
            "LP-11 .review-loop-state.json:0",
            "LP-29 owner-mandates.json:0",
            "LP-14 ENG_REVIEW_COMMENTS.md:1",
            "LP-14 ENG_REVIEW_COMMENTS.md:1",
            "LP-14 ENG_REVIEW_COMMENTS.md:1",
            "LP-14 ENG_REVIEW_COMMENTS.md:1",
            "LP-14 ENG_REVIEW_COMMENTS.md:2",
            "LP-14 ENG_REVIEW_COMMENTS.md:3",
            "LP-18 CODEBASE.md:8",
            "LP-18 CODEBASE.md:9",
        ]
    );
    std::os::unix::fs::symlink("/etc/passwd", stage.repo().join("src/link.rs")).unwrap();
    stage.write("CODEBASE.md", format!("{map}src/link.rs:1\n"));
    let said = stage.agency(&["check"]);
    assert!(
        said.out.contains("CODEBASE.md:8: found `src/link.rs:1`: is a symbolic link"),
        "{}",
        said.out
    );
    std::fs::remove_file(stage.repo().join("CODEBASE.md")).unwrap();
    assert!(findings(&stage).contains(&("LP-18".to_owned(), "CODEBASE.md".to_owned(), 0)));
}
