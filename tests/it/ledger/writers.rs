//! Many writers at once: nothing is lost, ids are consecutive.

use super::{Desk, FEATURES};

/// `AGENCY_TRIALS=200` is the full number of updates for each writer.
const EVERYDAY: usize = 4;
const WRITERS: usize = 16;

fn updates() -> usize {
    std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(EVERYDAY)
}

// covers: LG-09
#[test]
fn sixteen_writers_lose_nothing_and_number_in_order() {
    let (desk, updates) = (Desk::new(), updates());
    desk.write("feature_list.json", FEATURES);
    desk.ok(&["progress", "init", "-n", "Shop", "-c", "3"]);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let desk = &desk;
            scope.spawn(move || {
                for update in 0..updates {
                    let summary = format!("{writer}/{update}");
                    // Two files, in turns, under one lock.
                    if (writer + update) % 4 == 0 {
                        let entry = format!(r#"[{{"name": "{summary}", "type": "bug"}}]"#);
                        desk.ok(&["features", "append", "--entries", &entry]);
                    } else {
                        desk.ok(&[
                            "progress",
                            "add-session",
                            "-a",
                            "IMPLEMENT",
                            "-o",
                            "READY_FOR_REVIEW",
                            "-s",
                            &summary,
                        ]);
                    }
                }
            });
        }
    });
    let progress = desk.json("progress.json");
    let sessions = progress["sessions"].as_array().unwrap();
    let list = desk.json("feature_list.json");
    let features = list["features"].as_array().unwrap();
    assert_eq!(sessions.len() + features.len() - 3, WRITERS * updates, "an update was lost");
    for (at, session) in sessions.iter().enumerate() {
        assert_eq!(session["session_id"], at + 1);
    }
    for (at, bug) in features[2..].iter().enumerate() {
        assert_eq!(bug["id"], format!("BUG-{:03}", at + 1));
    }
    let mut said: Vec<_> =
        sessions.iter().map(|session| session["summary"].as_str().unwrap()).collect();
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), sessions.len(), "an update was done twice");
    assert_eq!(progress["project"]["total_features"], features.len(), "counts are computed");
}
