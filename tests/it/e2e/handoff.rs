//! The relay with the real program: the flow of the spec, questions and answers, priorities; `kills` adds kills at any moment.

mod kills;

use super::stage::Stage;
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
    let said = stage.ok(&["answer", asked["id"].as_str().unwrap(), "JWT, as before"]);
    assert!(said.contains("hears: JWT"), "{said}");
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(state(&stage)["current_workflow"]["status"], "completed");
    let all = messages(&stage);
    let answer = all.values().find(|places| places[0].1["type"] == "answer").unwrap();
    assert_eq!(answer[0].1["payload"]["answer"], "JWT, as before");
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
    stage.ok(&["handoff", "complete", &first]);
    stage.ok(&["handoff", "reject", &second]);
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
    for problem in [
        "`priority`",
        "`to` = builder",
        "`context.workflow`",
        "`context.spec`",
        "no `payload.spec`",
        "no `payload.commit`",
    ] {
        assert!(said.err.contains(problem), "{problem} is missing in {}", said.err);
    }
    assert!(messages(&stage).is_empty());
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
