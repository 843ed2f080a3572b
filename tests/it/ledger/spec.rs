//! The tables, commands and smaller examples of spec 5, word for word (`spec/`). The two whole files are read in `shapes.rs`.

use super::Desk;
use agency::protocol::ledger::table::{Action, may};
use agency::protocol::ledger::words::{AgentType, Health, Outcome, Verdict};
use agency::protocol::ledger::{Progress, Reviews};
use serde_json::{Value, json};
use std::process::Command;

const PROGRESS: &str = include_str!("spec/progress.json");
const REVIEWS: &str = include_str!("spec/reviews.json");
const FEATURES: &str = r#"{"features": [
  {"id": "F001", "name": "a", "passes": false},
  {"id": "F002", "name": "b", "passes": false},
  {"id": "F003", "name": "c", "passes": false},
  {"id": "F004", "name": "d", "passes": false}
]}"#;

/// The cells of a table's rows, without backticks and bold marks.
fn rows(table: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().replace(['`', '*'], "")).collect()
    };
    table.lines().skip(2).map(cells).collect()
}

fn project() -> Desk {
    let desk = Desk::new();
    desk.write("progress.json", PROGRESS);
    desk.write("reviews.json", REVIEWS);
    desk.write("feature_list.json", FEATURES);
    desk.ok(&["ledger", "scripts"]);
    desk
}

fn shell(desk: &Desk, line: &str) -> (i32, String) {
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(desk.path())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

// covers: LG-03, LG-13
#[test]
fn every_command_of_the_spec_runs_as_it_stands() {
    let desk = project();
    let answers = [
        ("get-status --field current_branch", "feature/user-authentication\n"),
        ("get-status --field current_feature", "F016\n"),
        ("get-session -1 --field agent_type", "IMPLEMENT\n"),
        ("get-session -1 --field commit_range.from", "a1b2c3d\n"),
        ("get-last --field review_id", "2\n"),
        ("get-last --field verdict", "REQUEST_CHANGES\n"),
        ("features.py pass F001", "SUCCESS: Feature F001 marked as PASSING\n"),
    ];
    let mut answered = 0;
    let lines = include_str!("spec/commands.sh").lines();
    let commands: Vec<&str> = lines.filter(|line| line.starts_with("python3 ")).collect();
    assert_eq!(commands.len(), 17);
    for command in commands {
        let (code, said) = shell(&desk, command);
        assert!(code == 0 && !said.trim().is_empty(), "{command}: {code} {said}");
        let line = command.split(" #").next().unwrap().trim_end();
        if let Some((_, wanted)) = answers.iter().find(|(end, _)| line.ends_with(end)) {
            assert_eq!(said, *wanted, "{command}");
            answered += 1;
        }
    }
    assert_eq!(answered, answers.len());
}

// covers: LG-03, LG-08
#[test]
fn the_file_check_and_the_count_of_fixes_run_as_they_stand() {
    let desk = project();
    let check = include_str!("spec/file-check.sh");
    assert!(shell(&desk, check).1.contains("\"current_feature\": \"F016\""));
    std::fs::remove_file(desk.at("progress.json")).unwrap();
    assert_eq!(shell(&desk, check).1, "File not found\n");
    let count = include_str!("spec/fix-count.sh").replace("<FEATURE_ID>", "F001");
    assert_eq!(shell(&desk, &count), (0, "FIX_COUNT: 1\nREMAINING: 2\n".to_owned()));
}

// covers: LG-01, LG-05
#[test]
fn the_forms_of_commits_and_ranges_are_right_inside_their_files() {
    let commits: Value = serde_json::from_str(include_str!("spec/commits.json")).unwrap();
    let mut progress: Value = serde_json::from_str(PROGRESS).unwrap();
    for (name, value) in commits.as_object().unwrap() {
        progress["sessions"][1][name] = value.clone();
    }
    let read = Progress::read(progress.to_string().as_bytes()).unwrap();
    assert_eq!(read.problems(), []);
    let range: Value = serde_json::from_str(include_str!("spec/review-range.json")).unwrap();
    let mut reviews: Value = serde_json::from_str(REVIEWS).unwrap();
    reviews["reviews"][0]["commit_range"] = range["commit_range"].clone();
    assert_eq!(Reviews::read(reviews.to_string().as_bytes()).unwrap().problems(), []);
}

// covers: LG-01
#[test]
fn every_field_of_the_table_is_in_what_we_write() {
    let desk = Desk::new();
    desk.write("feature_list.json", FEATURES);
    desk.ok(&["progress", "init", "--project-name", "Shop", "--feature-count", "4"]);
    desk.ok(&[
        "progress",
        "add-session",
        "-a",
        "IMPLEMENT",
        "-s",
        "s",
        "-o",
        "READY_FOR_REVIEW",
        "--commit-from",
        "a1b2c3d",
        "--commit-to",
        "h7i8j9k",
    ]);
    let written = desk.json("progress.json");
    let table = rows(include_str!("spec/progress-fields.md"));
    assert_eq!(table.len(), 19);
    for row in table {
        let pointer = format!("/{}", row[0].replace("[]", "/0").replace('.', "/"));
        assert!(written.pointer(&pointer).is_some(), "{} is not in {written}", row[0]);
    }
}

// covers: LG-05
#[test]
fn the_outcomes_are_for_the_agents_that_the_table_names() {
    let table = rows(include_str!("spec/outcomes.md"));
    assert_eq!(table.len(), Outcome::ALL.len());
    for row in table {
        let outcome = Outcome::parse(&row[0]).unwrap();
        for &agent in AgentType::ALL {
            let named = row[1] == "Any" || row[1].contains(agent.word());
            assert_eq!(agent.outcomes().contains(&outcome), named, "{} {}", row[0], agent.word());
        }
        // `REVIEW (REQUEST_CHANGES, PASS_WITH_COMMENTS)`: the verdicts that end so.
        for &verdict in Verdict::ALL {
            let inside = row[1].split('(').nth(1).and_then(|rest| rest.split(')').next());
            let words = inside.unwrap_or_default().replace(" verdict", "");
            if words.split(", ").any(|word| word == verdict.word()) {
                assert_eq!(verdict.outcome(), outcome, "{}", verdict.word());
            }
        }
    }
}

// covers: LG-06
#[test]
fn the_matrix_of_responsibilities_is_ours() {
    use AgentType::{Architecture, Fix, Implement, Review};
    let agents = [Implement, Review, Fix, Architecture];
    let table = rows(include_str!("spec/matrix.md"));
    assert_eq!(table.len(), 7);
    for row in table {
        let actions: &[Action] = match row[0].as_str() {
            // Branches are made by the daemon.
            "Create feature branch" => continue,
            "Implement code" => &[Action::WriteCode],
            "Mark passes: false" => &[Action::MarkFailing],
            "Mark passes: true" => &[Action::MarkPassing],
            "Merge to main" => &[Action::Merge],
            "Delete feature branch" => &[Action::DeleteBranch],
            "Write to reviews.json" => &[Action::WriteReview, Action::WriteFix],
            other => panic!("{other}"),
        };
        for (agent, cell) in agents.into_iter().zip(&row[1..]) {
            let allowed = actions.iter().any(|action| may(agent, *action));
            assert_eq!(allowed, cell.contains('✓'), "{} by {}", row[0], agent.word());
        }
    }
}

// covers: LG-05
#[test]
fn verdicts_review_types_and_health_are_those_of_the_tables() {
    for row in rows(include_str!("spec/verdicts.md")) {
        let verdict = Verdict::parse(&row[0]).unwrap();
        let merges = row[2].contains("REVIEWER");
        assert_eq!(merges, verdict != Verdict::Reject, "{row:?}");
        // Whoever merges marks it as passing: in the program that is one right, REVIEW's.
        assert_eq!(merges, row[3].contains("REVIEWER") && may(AgentType::Review, Action::Merge));
    }
    for (at, row) in rows(include_str!("spec/review-types.md")).into_iter().enumerate() {
        let mut reviews: Value = serde_json::from_str(REVIEWS).unwrap();
        assert_eq!(reviews["reviews"][at]["agent_type"], row[0].as_str());
        let named = row[1] != "null";
        assert_eq!(reviews["reviews"][at]["feature_id"].is_string(), named);
        let other = if named { Value::Null } else { json!("F001") };
        reviews["reviews"][at]["feature_id"] = other;
        let read = Reviews::read(reviews.to_string().as_bytes()).unwrap();
        assert!(!read.problems().is_empty(), "{row:?}");
    }
    let health = rows(include_str!("spec/health.md"));
    let words: Vec<&str> = health.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(words, Health::ALL.iter().map(|health| health.word()).collect::<Vec<_>>());
    // The numbers of the criteria: above 80, 60 to 80, below 60 or an issue that blocks.
    for (row, cases) in
        health.iter().zip([&[(0, 80.1)][..], &[(0, 80.0), (0, 60.0)], &[(0, 59.9), (1, 99.0)]])
    {
        for (blocking, percent) in cases {
            assert_eq!(Health::of(*blocking, Some(*percent)).word(), row[0], "{row:?}");
        }
    }
}
