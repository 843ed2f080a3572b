//! The relay with the real program: the flow of the spec, questions and answers, priorities; `kills` adds kills at any moment.

mod kills;

use super::stage::Stage;
use crate::board::terminal::Terminal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

pub(crate) const RELAY: &str = include_str!("../agents/relay.sh");

/// Every message, by its id: its folder and its document.
fn messages(stage: &Stage) -> BTreeMap<String, Vec<(String, Value)>> {
    let mut found: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for folder in ["pending", "accepted", "completed", "rejected"] {
        let dir = stage.repo().join(".claude/handoffs").join(folder);
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(name.ends_with(".json"), "{name} is left over");
            let message: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(message["status"], folder, "the status is the folder");
            let id = message["message_id"].as_str().unwrap().to_owned();
            found.entry(id).or_default().push((folder.to_owned(), message));
        }
    }
    found
}

fn events(stage: &Stage) -> Vec<Value> {
    let dir = std::fs::read_dir(stage.at("state")).unwrap();
    let path =
        dir.map(|entry| entry.unwrap().path().join("events.ndjson")).find(|path| path.is_file());
    let text = std::fs::read_to_string(path.unwrap()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn state(stage: &Stage) -> Value {
    let text = stage.read(".claude/state.json").unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn count(events: &[Value], name: &str) -> usize {
    events.iter().filter(|event| event["event"] == name).count()
}

// covers: HO-02, HO-03, HO-04, HO-08, HO-09, HO-10, HO-12, HO-13
#[test]
fn the_example_flow_runs_to_its_end_by_itself() {
    let stage = Stage::new(RELAY);
    std::fs::write(stage.at("home/fixes"), "2").unwrap();
    stage.write(
        ".claude/state.json",
        r#"{"schema_version": "1.0.0", "theirs": {"keep": [1, 2]}, "locks": {}}"#,
    );
    let said = stage.ok(&["handoff", "start", "--type", "feature", "Add", "user", "auth"]);
    assert!(said.contains("begins with the planner"), "{said}");
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    let phases: Vec<String> =
        stage.started().iter().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect();
    let wanted = [
        "plan",
        "task_handoff",
        "review_request",
        "fix_request",
        "rereview_request",
        "fix_request",
        "rereview_request",
    ];
    assert_eq!(phases, wanted, "{}", stage.ok(&["escalations", "--all"]));
    for (id, places) in messages(&stage) {
        assert_eq!((places.len(), places[0].0.as_str()), (1, "completed"), "{id}");
    }
    let state = state(&stage);
    assert_eq!(state["current_workflow"]["status"], "completed");
    assert_eq!((&state["iteration"], &state["current_agent"]), (&3.into(), &Value::Null));
    assert_eq!(state["theirs"]["keep"][1], 2, "keys of others stay");
    assert_eq!(state["agents"]["fixer"]["status"], "completed");
    let events = events(&stage);
    assert_eq!((count(&events, "agent_started"), count(&events, "agent_completed")), (7, 7));
    assert_eq!((count(&events, "handoff_created"), count(&events, "handoff_accepted")), (10, 6));
    for event in &events {
        assert!(event["timestamp"].is_string() && event["agent"].is_string(), "{event}");
        assert_eq!(event["context"]["workflow"], "feature");
        assert!(event["context"]["spec"].is_string());
    }
    let metrics = &stage.json(&["metrics", "--json"])[0]["metrics"];
    for line in include_str!("../relay/spec/metrics.md").lines() {
        let key = line.trim_start_matches("- ").to_lowercase().replace(' ', "_");
        assert!(!metrics[key.as_str()].is_null(), "the spec's `{line}` is not in {metrics}");
    }
    let one = |name: &str| metrics[name].as_object().unwrap().values().next().unwrap().clone();
    assert_eq!((one("handoffs_per_workflow"), one("fix_iterations")), (6.into(), 2.into()));
    assert_eq!(metrics["time_per_agent"]["reviewer"]["runs"], 3);
    assert_eq!(metrics["escalation_rate"], 0.0);
    assert_eq!(
        stage.git(&["log", "--format=%s", "main"]).lines().count(),
        4,
        "agents commit, nobody else does"
    );
}

// covers: HO-03, HO-02
#[test]
fn critical_overtakes_low() {
    let stage = Stage::new(RELAY);
    std::fs::write(stage.at("home/fixes"), "0").unwrap();
    let send = |priority: &str| {
        let words = [
            "handoff",
            "send",
            "--type",
            "fix_request",
            "--priority",
            priority,
            "--payload",
            r#"{"issues": ["x"]}"#,
            "--workflow",
            "feature",
            "--spec",
            "specs/auth.md",
        ];
        stage.ok(&words).trim().to_owned()
    };
    let (low, critical) = (send("low"), send("critical"));
    let listed = stage.json(&["handoff", "list", "--json"]);
    assert_eq!(listed[0]["message"]["message_id"], critical.as_str(), "the most urgent first");
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    let fixes: Vec<String> =
        stage.started().into_iter().filter(|line| line.contains(" fixer ")).collect();
    assert!(fixes[0].contains(&critical) && fixes[1].contains(&low), "{fixes:?}");
    assert!(
        messages(&stage).values().all(|places| places.len() == 1 && places[0].0 == "completed")
    );
}

// covers: HO-01, HO-05, HO-13
#[test]
fn agents_may_send_by_the_command_line_as_themselves_only() {
    let stage = Stage::new(RELAY);
    std::fs::write(stage.at("home/mode"), "cli").unwrap();
    std::fs::write(stage.at("home/program"), env!("CARGO_BIN_EXE_agency")).unwrap();
    stage.ok(&["handoff", "start", "Add user auth"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(
        state(&stage)["current_workflow"]["status"],
        "completed",
        "{}",
        stage.ok(&["escalations", "--all"])
    );
    assert!(
        state(&stage)["lock_counter"].as_u64().unwrap() >= 6,
        "each message was sent under a lock"
    );
    let mut inside = stage.program();
    inside.env("AGENCY_RUN", "r1").env("AGENCY_AGENT", "builder");
    let words = [
        "handoff",
        "send",
        "--type",
        "completion",
        "--from",
        "reviewer",
        "--workflow",
        "feature",
        "--payload",
        r#"{"status": "approved"}"#,
    ];
    let said = inside.args(words).current_dir(stage.repo()).output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(1) && text.contains("only its own agent sends"), "{text}");
}

// covers: HO-07, HO-09
#[test]
fn a_question_is_answered_and_the_answer_goes_back_as_a_handoff() {
    let stage = Stage::new(RELAY);
    std::fs::write(stage.at("home/mode"), "ask").unwrap();
    stage.ok(&["handoff", "start", "Add user auth"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 1, "{}", stage.daemon_log());
    let asked = stage.escalation("HO-07").unwrap();
    assert_eq!(asked["options"], serde_json::json!(["JWT", "Session", "OAuth"]));
    assert!(asked["summary"].as_str().unwrap().contains("Cannot determine auth method"));
    assert_eq!(stage.json(&["status", "--json"])["repos"][0]["held"], true);
    let before = stage.started().len();
    assert_eq!(stage.start_with(&["--once"]).wait(), 1);
    assert_eq!(stage.started().len(), before, "a blocking question holds the workflow");
    let id = asked["id"].as_str().unwrap();
    let refused = stage.agency(&["answer", id, "Basic auth"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("not one of the options: `JWT`, `Session`, `OAuth`"),
        "{}",
        refused.err
    );
    let said = stage.ok(&["answer", id, "OAuth"]);
    assert!(said.contains("builder gets the answer: OAuth"), "{said}");
    let said = stage.ok(&["answer", id, "jwt", "--reason", "as before"]);
    assert!(said.contains("corrected answer: JWT"), "{said}");
    assert!(stage.ok(&["check"]).contains("nothing is wrong"), "our own schema accepts the answer");
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(state(&stage)["current_workflow"]["status"], "completed");
    let all = messages(&stage);
    let answer = all.values().find(|places| places[0].1["type"] == "answer").unwrap();
    assert_eq!(answer[0].1["payload"]["answer"], "JWT");
    assert_eq!(answer[0].1["payload"]["reason"], "as before");
    let late = stage.agency(&["answer", id, "OAuth"]);
    assert_eq!(late.code, 1, "it was read: {}", late.out);
    assert_eq!((answer.len(), answer[0].0.as_str()), (1, "completed"));
    assert_eq!(count(&events(&stage), "escalation_triggered"), 1);
    assert!(stage.escalation("HO-07").is_some_and(|one| one["state"] == "resolved"));
}

// covers: HO-02, HO-11
#[test]
fn people_may_accept_complete_and_reject_by_hand() {
    let stage = Stage::new(RELAY);
    let words = |spec: &'static str| {
        [
            "handoff",
            "send",
            "--type",
            "task_handoff",
            "--payload",
            r#"{"spec": "a.md"}"#,
            "--workflow",
            "bugfix",
            "--spec",
            spec,
        ]
    };
    let first = stage.ok(&words("a.md")).trim().to_owned();
    let second = stage.ok(&words("b.md")).trim().to_owned();
    assert_eq!(stage.agency(&["handoff", "complete", &first]).code, 1, "no row leads there");
    stage.ok(&["handoff", "accept", &first[..8]]);
    stage.ok(&["handoff", "accept", &first]);
    assert_eq!(stage.json(&["handoff", "show", &first, "--json"])["status"], "accepted");
    let counts = || {
        let status = stage.json(&["status", "--json"]);
        let protocols = status["repos"][0]["protocols"].as_array().unwrap().clone();
        let relay = protocols.into_iter().find(|one| one["name"] == "handoff").unwrap();
        (relay["detail"]["pending"].clone(), relay["detail"]["accepted"].clone())
    };
    assert_eq!(counts(), (1.into(), 1.into()));
    assert_eq!(state(&stage)["agents"]["builder"]["status"], "active");
    assert_eq!(count(&events(&stage), "handoff_accepted"), 1);
    stage.ok(&["handoff", "complete", &first]);
    assert_eq!(counts(), (1.into(), 0.into()));
    assert_eq!(state(&stage)["agents"]["builder"]["status"], "completed");
    stage.ok(&["handoff", "reject", &second]);
    assert_eq!(counts(), (0.into(), 0.into()));
    assert_eq!(stage.agency(&["handoff", "accept", &second]).code, 1, "what is rejected stays so");
    assert!(stage.ok(&["check"]).contains("nothing is wrong"));
    assert_eq!(stage.start_with(&["--once"]).wait(), 1, "{}", stage.daemon_log());
    assert!(stage.started().is_empty(), "nobody is started for what people did");
    let folders: BTreeMap<_, _> =
        messages(&stage).into_iter().map(|(id, places)| (id, places[0].0.clone())).collect();
    assert_eq!((folders[&first].as_str(), folders[&second].as_str()), ("completed", "rejected"));
    assert!(
        stage.escalation("HO-11").is_some(),
        "a workflow without an open handoff is the owner's matter"
    );
    stage.ok(&["handoff", "cancel", "--reason", "a trial"]);
    assert_eq!(state(&stage)["current_workflow"]["cancelled"], true);
}

// covers: HO-01
#[test]
fn a_message_with_many_problems_names_them_all_and_moves_nowhere() {
    let stage = Stage::new(RELAY);
    let words = [
        "handoff",
        "send",
        "--type",
        "review_request",
        "--priority",
        "urgent",
        "--to",
        "builder",
        "--workflow",
        "chore",
    ];
    let said = stage.agency(&words);
    assert_eq!(said.code, 1);
    for problem in ["`priority`", "`to` = builder", "`context.workflow`", "`context.spec`"] {
        assert!(said.err.contains(problem), "{problem} is missing in {}", said.err);
    }
    assert!(messages(&stage).is_empty());
}

/// The spec's own escalation, word for word.
const SPEC_ESCALATION: &str = include_str!("../relay/spec/escalation.json");

const FIRST: &str = "3f2a9c1e-0000-4000-8000-000000000001";

// covers: HO-14, HO-01, HO-07
#[test]
fn a_first_message_without_a_state_file_makes_one_and_the_specs_escalation_is_heard() {
    let stage = Stage::new(RELAY);
    let path = format!(".claude/handoffs/pending/{FIRST}.json");
    stage.write(&path, format!("\u{feff}{SPEC_ESCALATION}"));
    assert!(stage.read(".claude/state.json").is_none());
    assert_eq!(stage.start_with(&["--once"]).wait(), 1, "the question holds");
    let asked = stage.escalation("HO-07").expect("the owner is asked");
    assert_eq!(asked["options"], serde_json::json!(["JWT", "Session", "OAuth"]));
    let state = state(&stage);
    assert_eq!(state["schema_version"], "1.0.0");
    for agent in ["planner", "builder", "reviewer", "fixer"] {
        assert_eq!(state["agents"][agent]["status"], "idle", "{agent}");
    }
}

// covers: HO-15, DM-13
#[test]
fn a_refused_message_is_told_with_its_first_problem() {
    let stage = Stage::new(RELAY);
    let path = format!(".claude/handoffs/pending/{FIRST}.json");
    let urgent = SPEC_ESCALATION.replacen('{', "{\"priority\": \"urgent\",", 1);
    stage.write(&path, &urgent);
    // A folder of messages that are none may be another tool's: nothing is taken away before `adopt`.
    assert_eq!(stage.start_with(&["--once"]).wait(), 1);
    assert_eq!(stage.read(&path).as_deref(), Some(urgent.as_str()));
    let held = stage.escalation("DM-13").expect("the owner is asked");
    assert!(held["evidence"][0].as_str().unwrap().contains("`priority` = \"urgent\""), "{held}");
    stage.ok(&["adopt"]);
    stage.start_with(&["--once"]).wait();
    let status = stage.ok(&["status"]);
    assert!(status.contains("a message was refused: `priority` = \"urgent\""), "{status}");
    assert!(stage.read(&path).is_none());
}

// covers: HO-14, HO-04
#[test]
fn a_state_file_of_another_tool_is_told_and_adopted_with_its_keys() {
    let stage = Stage::new(RELAY);
    let theirs = r#"{"theme": "dark", "agents": ["a"]}"#;
    stage.write(".claude/state.json", theirs);
    let path = format!(".claude/handoffs/pending/{FIRST}.json");
    stage.write(&path, SPEC_ESCALATION);
    let mut terminal = Terminal::open(&stage, &["run", "--once"]);
    terminal.wait("has another format");
    terminal.wait("to resolve: agency handoff adopt");
    let (code, shown) = terminal.end();
    assert_eq!(code, 1, "it is held: {shown}");
    assert_eq!(stage.read(".claude/state.json").as_deref(), Some(theirs), "it is left alone");
    let status = stage.ok(&["status"]);
    for words in ["has another format (no `schema_version`)", "agency handoff adopt"] {
        assert!(status.contains(words), "{words} is missing in {status}");
    }
    let said = stage.agency(&["lock", "acquire", "x"]);
    assert!(said.code == 1 && said.err.contains("has another format"), "{}", said.err);
    stage.ok(&["handoff", "adopt"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 1, "the question holds");
    let state = state(&stage);
    assert_eq!((&state["theme"], &state["schema_version"]), (&"dark".into(), &"1.0.0".into()));
    assert!(stage.escalation("HO-04").is_some_and(|one| one["state"] == "resolved"));
    assert!(stage.escalation("HO-07").is_some(), "the message is delivered now");
}

// covers: HO-05
#[test]
fn a_lock_without_an_expiry_is_shown_and_the_holder_releases_by_name() {
    let stage = Stage::new(RELAY);
    stage.write(
        ".claude/state.json",
        r#"{"schema_version": "1.0.0", "locks": {"a": {"agent": "builder", "acquired": "2026-01-01T00:00:00Z"}}}"#,
    );
    let listed = stage.ok(&["lock", "list"]);
    assert!(listed.contains("unknown; may be taken over"), "{listed}");
    stage.ok(&["lock", "acquire", "b", "--agent", "builder"]);
    let refused = stage.agency(&["lock", "release", "b", "--agent", "fixer"]);
    assert!(refused.code == 1 && refused.err.contains("only its holder"), "{}", refused.err);
    let mut inside = stage.program();
    inside.env("AGENCY_RUN", "r1").env("AGENCY_AGENT", "fixer").current_dir(stage.repo());
    let said = inside.args(["lock", "release", "b", "--agent", "builder"]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(1) && text.contains("its own locks only"), "{text}");
    stage.ok(&["lock", "release", "b", "--agent", "builder"]);
    stage.ok(&["lock", "acquire", "a", "--agent", "fixer"]);
}

// covers: HO-10
#[test]
fn the_metrics_endpoint_answers_on_the_control_socket() {
    let stage = Stage::new(RELAY);
    stage.ok(&["handoff", "start", "Add user auth"]);
    let daemon = stage.start();
    stage.wait("the end", || {
        (state(&stage)["current_workflow"]["status"] == "completed").then_some(())
    });
    let dirs = std::fs::read_dir(stage.at("state")).unwrap();
    let socket = dirs
        .map(|dir| dir.unwrap().path().join("control.sock"))
        .find(|path| path.exists())
        .unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for name in [
        "agency_agent_seconds_total",
        "agency_handoffs",
        "agency_fix_iterations",
        "agency_escalation_rate",
    ] {
        assert!(text.contains(&format!("\n{name}{{repo=")), "{name} is missing in {text}");
    }
    assert_eq!(daemon.stop(), 0);
}
