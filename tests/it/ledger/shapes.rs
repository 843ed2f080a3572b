//! Files of another shape, files that are no files, and where a file is looked for.

use super::{Desk, FEATURES};
use std::fs;

/// What people keep under these names.
const FOREIGN: &[(&str, &str)] = &[
    ("reviews.json", r#"{"reviews": [{"product": "Kettle", "stars": 5}]}"#),
    ("reviews.json", r#"[{"review_id": 1, "verdict": "PASS"}]"#),
    ("reviews.json", r#"{"reviews": []}"#),
    ("reviews.json", r#"{"reviews": [{"review_id": "1", "verdict": "PASS"}], "fixes": []}"#),
    ("progress.json", r#"{"percent": 40}"#),
    ("progress.json", r#"{"project": {}, "status": {"current_phase": "FIX"}, "sessions": [1]}"#),
    ("progress.json", "{\"project\": {},"),
    ("feature_list.json", r#"{"features": ["dark mode"]}"#),
    ("feature_list.json", r#"{"features": [{"id": 1.5, "passes": false}]}"#),
    ("feature_list.json", r#"{"features": [{"id": "F001", "status": "shipped"}]}"#),
    ("feature_list.json", r#"{"features": [{"id": "F001", "implemented": true}]}"#),
    ("feature_list.json", r#"{"features": [{"price": 3}]}"#),
    ("feature_list.json", r#"{"auth": [{"id": "F001", "passes": false}]}"#),
    ("feature_list.json", r#"{"features": [{"id": "F001", "passes": "yes"}]}"#),
    ("feature_list.json", "\u{feff}{}"),
];

/// Every verb that writes.
const WRITERS: &[(&str, &[&str])] = &[
    ("reviews.json", &["reviews", "init", "--force"]),
    (
        "reviews.json",
        &[
            "reviews",
            "add-review",
            "-a",
            "REVIEW",
            "--feature-id",
            "F001",
            "-b",
            "b",
            "-v",
            "PASS",
            "-s",
            "s",
        ],
    ),
    ("reviews.json", &["reviews", "add-fix", "-r", "1", "-b", "b"]),
    ("reviews.json", &["reviews", "mark-merged", "1"]),
    ("progress.json", &["progress", "init", "-n", "n", "-c", "1", "--force"]),
    ("progress.json", &["progress", "add-session", "-a", "REVIEW", "-s", "s", "-o", "SUCCESS"]),
    ("progress.json", &["progress", "update-status", "--phase", "FIX"]),
    ("feature_list.json", &["features", "pass", "F001"]),
    ("feature_list.json", &["features", "pass-batch", "F001"]),
    ("feature_list.json", &["features", "fail", "F001", "--reason", "r"]),
    ("feature_list.json", &["features", "append", "--entries", "[{\"name\": \"n\"}]"]),
];

// covers: LG-02
#[test]
fn a_file_of_another_shape_is_never_written() {
    let desk = Desk::new();
    for (file, text) in FOREIGN {
        desk.write(file, text);
        for (_, words) in WRITERS.iter().filter(|(writes, _)| writes == file) {
            let said = desk.fails(1, words);
            assert!(said.starts_with("ERROR: LG-"), "{words:?} on {text}: {said}");
            assert_eq!(desk.read(file), *text, "{words:?} wrote over {text}");
        }
        fs::remove_file(desk.at(file)).unwrap();
    }
    assert_eq!(fs::read_dir(desk.path()).unwrap().count(), 0, "nothing is left behind");
}

// covers: LG-02
#[test]
fn links_and_pipes_are_neither_read_nor_written() {
    let desk = Desk::new();
    desk.write("precious", FEATURES);
    std::os::unix::fs::symlink("precious", desk.at("feature_list.json")).unwrap();
    assert!(desk.fails(1, &["features", "next"]).contains("a symbolic link"));
    assert!(desk.fails(1, &["features", "pass", "F001"]).contains("a symbolic link"));
    assert_eq!(desk.read("precious"), FEATURES);
    nix::unistd::mkfifo(&desk.at("progress.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(desk.fails(1, &["progress", "get-status"]).contains("a named pipe"));
}

// covers: LG-01
#[test]
fn unknown_fields_and_their_order_are_kept() {
    let desk = Desk::new();
    let before = "{\n  \"zeal\": {\n    \"b\": 1,\n    \"a\": [\n      1.5\n    ]\n  },\n  \"features\": [\n    {\n      \"team\": \"blue\",\n      \"id\": \"F001\",\n      \"passes\": false,\n      \"name\": \"Ä\"\n    }\n  ],\n  \"after\": null\n}\n";
    desk.write("feature_list.json", before);
    desk.ok(&["features", "pass", "F001"]);
    let after = desk.read("feature_list.json");
    let stamp =
        desk.json("feature_list.json")["features"][0]["passed_at"].as_str().unwrap().to_owned();
    let wanted = before
        .replace("\"passes\": false", "\"passes\": true")
        .replace("\"name\": \"Ä\"", &format!("\"name\": \"Ä\",\n      \"passed_at\": \"{stamp}\""));
    assert_eq!(after, wanted);
    desk.ok(&["features", "pass", "F001"]);
    assert_eq!(desk.read("feature_list.json"), after, "again is no change");
}

// covers: LG-10
#[test]
fn a_bare_list_is_read_and_stays_one() {
    let desk = Desk::new();
    desk.write("feature_list.json", r#"[{"id": "F001", "name": "a", "passes": false}]"#);
    assert!(desk.ok(&["features", "next"]).contains("\"F001\""));
    desk.ok(&["features", "append", "--entries", r#"[{"name": "b"}]"#]);
    let list = desk.json("feature_list.json");
    assert_eq!((list[0]["id"].as_str(), list[1]["id"].as_str()), (Some("F001"), Some("FEAT-002")));
}

// covers: LG-10
#[test]
fn the_forms_of_the_scripts_in_the_wild_are_read() {
    let desk = Desk::new();
    desk.write(
        "reviews.json",
        r#"{"schema_version": "1.0", "reviews": [
            {"review_id": 1, "agent_type": "REVIEW", "feature_id": "F001", "branch": "b", "verdict": "APPROVE", "summary": "s",
             "timestamp": "2026-01-01T00:00:00.123456+00:00",
             "issues": [{"id": "R1-S1", "severity": "suggestion", "description": "shorter"},
                        {"id": "R1-M1", "severity": "MAJOR", "description": "worse"}]}], "fixes": []}"#,
    );
    let shown = desk.ok(&["reviews", "show-issues"]);
    assert!(shown.find("--- MAJOR (1) ---") < shown.find("--- SUGGESTION (1) ---"), "{shown}");
    assert!(desk.ok(&["reviews", "list"]).contains("R1: [REVIEW] F001 - APPROVE (2 issues)"));
    desk.ok(&[
        "reviews",
        "add-review",
        "-a",
        "REVIEW",
        "--feature-id",
        "F001",
        "-b",
        "b",
        "-v",
        "APPROVE",
        "-s",
        "s",
    ]);
    assert_eq!(desk.json("reviews.json")["reviews"][1]["verdict"], "PASS");
    assert_eq!(
        desk.json("reviews.json")["reviews"][0]["verdict"],
        "APPROVE",
        "what was there stays"
    );
}

// covers: LG-03
#[test]
fn the_state_directory_is_found_in_the_right_order() {
    let desk = Desk::new();
    for name in ["flag", "env", "file"] {
        fs::create_dir(desk.at(name)).unwrap();
        let text = format!(r#"[{{"id": "{name}", "name": "n", "passes": false}}]"#);
        desk.write(&format!("{name}/feature_list.json"), &text);
    }
    desk.write("feature_list.json", r#"[{"id": "here", "name": "n", "passes": false}]"#);
    let next = |words: &[&str], env: Option<&str>| {
        let mut command = desk.command(words);
        command.envs(env.map(|dir| ("AGENT_STATE_DIR", dir)));
        let output = command.output().unwrap();
        let feature: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        feature["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(next(&["features", "next"], None), "here");
    assert_eq!(next(&["features", "next"], Some("env")), "env");
    assert_eq!(next(&["features", "-d", "flag", "next"], Some("env")), "flag");
    let all = ["features", "--file", "file/feature_list.json", "-d", "flag", "next"];
    assert_eq!(next(&all, Some("env")), "file");
}

// covers: LG-06
#[test]
fn an_agent_hears_at_once_what_is_not_its_to_do() {
    let desk = Desk::new();
    desk.write("feature_list.json", FEATURES);
    desk.ok(&["reviews", "init"]);
    let refused: &[(&str, &[&str])] = &[
        ("IMPLEMENT", &["features", "pass", "F001"]),
        ("FIX", &["features", "pass-batch", "F001"]),
        ("ARCHITECTURE", &["features", "pass", "F001"]),
        ("FIX", &["features", "fail", "F001", "--reason", "r"]),
        ("IMPLEMENT", &["reviews", "add-fix", "-r", "1", "-b", "b"]),
        (
            "IMPLEMENT",
            &[
                "reviews",
                "add-review",
                "-a",
                "REVIEW",
                "--feature-id",
                "F001",
                "-b",
                "b",
                "-v",
                "PASS",
                "-s",
                "s",
            ],
        ),
        (
            "ARCHITECTURE",
            &[
                "reviews",
                "add-review",
                "-a",
                "REVIEW",
                "--feature-id",
                "F001",
                "-b",
                "b",
                "-v",
                "PASS",
                "-s",
                "s",
            ],
        ),
        ("FIX", &["reviews", "mark-merged", "1"]),
    ];
    for (agent, words) in refused {
        let output = desk
            .command(words)
            .env("AGENCY_PROTOCOL", "ledger")
            .env("AGENCY_PHASE", agent)
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1) && said.contains("LG-06"),
            "{agent} {words:?}: {said}"
        );
    }
    assert_eq!(desk.read("feature_list.json"), FEATURES);
}

// covers: LG-01, LG-05
#[test]
fn the_specs_own_examples_are_right_and_come_back_byte_for_byte() {
    use agency::protocol::ledger::{Document, Features, Progress, Reviews};
    fn same<D: Document>(text: &str) {
        let document = D::read(text.as_bytes()).unwrap();
        assert_eq!(document.problems(), [], "{}", D::FILE);
        assert_eq!(String::from_utf8(document.to_bytes()).unwrap(), text);
    }
    same::<Progress>(include_str!("spec/progress.json"));
    same::<Reviews>(include_str!("spec/reviews.json"));
    let features: serde_json::Value = serde_json::from_str(FEATURES).unwrap();
    same::<Features>(&format!("{}\n", serde_json::to_string_pretty(&features).unwrap()));
}

// covers: LG-01, LG-05, LG-09, LG-12
#[test]
fn check_tells_every_problem_of_the_three_files_at_once() {
    let desk = Desk::new();
    fs::create_dir(desk.at(".git")).unwrap();
    let wrong = |text: &str, changes: &[(&str, &str)]| {
        changes.iter().fold(text.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        })
    };
    let progress = wrong(
        include_str!("spec/progress.json"),
        &[
            ("\"session_id\": 2", "\"session_id\": 7"),
            ("\"outcome\": \"READY_FOR_REVIEW\"", "\"outcome\": \"DONE\""),
            ("\"outcome\": \"SUCCESS\"", "\"outcome\": \"NEEDS_FIX\""),
            ("2025-01-29T14:30:00Z", "yesterday"),
            ("\"total_features\": 50", "\"total_features\": \"many\""),
        ],
    );
    let reviews = wrong(
        include_str!("spec/reviews.json"),
        &[
            ("\"id\": \"R1-M1\"", "\"id\": \"R2-M1\""),
            ("\"health_status\": \"NEEDS_ATTENTION\"", "\"health_status\": \"GOOD\""),
            ("\"testing\": \"FAIL\"", "\"testing\": \"so so\""),
            (
                "\"review_id\": 2,\n      \"feature_id\": null,\n      \"branch\": \"refactor",
                "\"review_id\": 9,\n      \"feature_id\": null,\n      \"branch\": \"refactor",
            ),
        ],
    );
    desk.write("progress.json", &progress);
    desk.write("reviews.json", &reviews);
    desk.write("feature_list.json", &FEATURES.replace("\"F002\"", "\"F001\""));
    let output = desk
        .command(&["check", "--json", "."])
        .env("AGENCY_STATE_DIR", desk.at("state"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let wanted = [
        "LG-09",
        "DONE",
        "READY_FOR_REVIEW",
        "SUCCESS or ERROR",
        "yesterday",
        "many",
        "`R1-M1`",
        "NEEDS_ATTENTION, by",
        "so so",
        "names",
        "the id `F001` twice",
        "a review that exists",
    ];
    let missing: Vec<_> = wanted.iter().filter(|word| !said.contains(*word)).collect();
    assert!(missing.is_empty(), "{missing:?} in {said}");
}
