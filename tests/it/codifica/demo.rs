//! `agency demo codifica` as a newcomer sees it: the real binary, real git, real processes, to its end.

use super::stage;
use std::process::Command;
use std::time::{Duration, Instant};

// covers: OP-01, CD-05, CD-08, CD-15
#[test]
fn the_demo_serves_every_task_in_under_a_minute_and_shows_where_to_look() {
    let stage = stage(&[]);
    let begun = Instant::now();
    let output = stage
        .program()
        .args(["demo", "codifica"])
        .env("TMPDIR", stage.at("home"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    for id in ["MENU-1", "SOUP-1", "BREAD-1", "TASTE-1"] {
        for what in [format!("claims {id}"), format!("works on {id}"), format!("finished {id}")] {
            assert_eq!(said.matches(&what).count(), 1, "{what}\n{said}");
        }
    }
    let last = said.find("claims TASTE-1").unwrap();
    assert!(said.find("finished SOUP-1").unwrap() < last, "what it depends on comes first");
    for words in ["complete for the agents", "Look around:", "On your own repository:", " status\n"]
    {
        assert!(said.contains(words), "it does not say {words}\n{said}");
    }
    let dir = said.lines().find_map(|line| line.strip_prefix("A throw-away repository: ")).unwrap();
    let audit = Command::new(env!("CARGO_BIN_EXE_agency"))
        .args(["--repo", dir, "work", "audit"])
        .env("HOME", stage.at("home"))
        .output()
        .unwrap();
    let audit = String::from_utf8_lossy(&audit.stdout).into_owned();
    assert!(audit.contains("no violation was ever committed"), "{audit}");
}
