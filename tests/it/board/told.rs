//! What the owner reads: `status` with ids, waiting and refused work, and refusals that name the fix.

use super::running::{self, board_with, log};
use super::{board, report, status, task};
use crate::e2e::stage::Stage;
use serde_json::Value;

// covers: AG-15, AG-07, AG-12, AG-06
#[test]
fn status_lists_ids_what_waits_and_what_is_refused_with_its_first_problem() {
    let stage = board();
    let started = task(&stage, &[]);
    let blocked = task(&stage, &[]);
    task(&stage, &["--depends-on", "T0001"]);
    let refused = task(&stage, &[]);
    ["T0001", "T0002", "T0004"].iter().for_each(|id| drop(stage.ok(&["task", "start", id])));
    report(&stage, &blocked, "BLOCKED", "reason: \"no access to the database\"\n");
    let path = report(&stage, &refused, "READY_FOR_REVIEW", "");
    let text = stage.read(&path).unwrap();
    stage.write(&path, text.replace("risks: []\n", ""));
    stage.write(".kodingx/inbox/alice/2026-01-31/T0009-1200-broken.md", "---\nid: T0009\n---\n");
    let daemon = stage.start();
    let shown = stage.wait("the status of each task", || {
        let shown = stage.ok(&["status"]);
        let all = [
            "T0001 is IN_PROGRESS, for alice",
            "T0002 BLOCKED: no access to the database",
            "T0003 waits: T0001 is not DONE",
            "T0009-1200-broken.md: ",
            "-report.md: ",
        ];
        all.iter().all(|words| shown.contains(words)).then_some(shown)
    });
    let line = |words: &str| shown.lines().find(|line| line.contains(words)).unwrap().to_owned();
    assert!(line("-report.md: ").contains("risks"), "its first problem: {shown}");
    assert!(line("T0009-1200").contains("title") || line("T0009-1200").contains('`'), "{shown}");
    assert_eq!(status(&stage, &started), "IN_PROGRESS");
    assert_eq!(daemon.stop(), 0);
    // The same without a daemon.
    let shown = stage.ok(&["status"]);
    assert!(
        shown.contains("T0002 BLOCKED: no access") && shown.contains("-report.md: "),
        "{shown}"
    );
}

/// One config entry that calls the fake agent, with words that it notes.
fn entry(stage: &Stage, name: &str) -> String {
    format!(
        "  {name}: {{ command: [sh, {}], retries: 2, backoff: 100ms }}\n",
        stage.at("agent.sh").display()
    )
}

// covers: AG-36, AG-10
#[test]
fn agents_that_have_the_name_of_a_role_are_the_ones_that_start() {
    let stage = board_with("limits: { parallel: 4, per_repo: 4, per_agent: 4 }\n");
    stage.ok(&["init", "--builders", "builder,alice"]);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a builder by its role"]);
    let agents = format!("agents:\n{}{}", entry(&stage, "builder"), entry(&stage, "auditor"));
    stage.set_config(&format!("{agents}board: {{ disk_floor: 1MiB }}\n"));
    let (id, file) = running::task(&stage, "plain", &["--assignee", "builder"]);
    running::work(&stage);
    assert_eq!(status(&stage, &file), "DONE", "{}", log(&stage));
    let started = stage.started();
    let by = |seat: &str, role: &str| {
        started.iter().any(|line| line.ends_with(&format!(" {seat} {role} {id}")))
    };
    assert!(by("builder", "builder") && by("auditor", "auditor"), "{started:?}");
    assert_eq!(started.len(), 2, "{started:?}");
}

// covers: AG-44
#[test]
fn set_up_commands_start_no_builder_of_the_board_either() {
    let stage = board_with(running::CONFIG);
    running::task(&stage, "plain", &[]);
    for words in [
        &["init"][..],
        &["install", "--force"],
        &["upgrade", "--full"],
        &["migrate", "--to", "agency/1.0"],
        &["check"],
        &["status"],
        &["task", "list"],
        &["task", "show", "T0001"],
        &["verify", "--task", "T0001"],
    ] {
        stage.ok(words);
        let runs = stage.json(&["runs", "--all", "--json"]);
        assert_eq!(runs, serde_json::json!([]), "{words:?}");
    }
    assert!(stage.started().is_empty());
    assert_eq!(stage.git(&["worktree", "list"]).lines().count(), 1, "no tree is made");
}

// covers: AG-08, AG-07, AG-20, AG-31, AG-13
#[test]
fn refusals_say_what_is_wrong_and_what_to_do() {
    let stage = board();
    let file = task(&stage, &["--must-not-touch", "db/**"]);
    let started = stage.ok(&["task", "start", "T0001"]);
    assert!(started.starts_with("T0001: NEW → IN_PROGRESS\n"), "{started}");
    let path = report(&stage, &file, "READY_FOR_REVIEW", "");
    let text = stage.read(&path).unwrap();
    stage.write(&path, text.replace("risks: []\n", ""));
    let done = stage.agency(&["task", "done", "T0001"]);
    assert!(done.err.contains("T0001 cannot be DONE: its report is refused ("), "{}", done.err);
    stage.write(&path, text.replace("risks: []", "risks:\n\t- x"));
    let check = stage.agency(&["check"]);
    let words = "a line that is indented with a tab; wanted spaces: YAML allows only spaces";
    assert!(check.out.contains(words), "{}", check.out);
    stage.ok(&["task", "cancel", "T0001"]);
    let again = stage.agency(&["task", "cancel", "T0001"]);
    assert!(again.err.contains("T0001 is canceled already"), "{}", again.err);
    stage.write(".kodingx/agency.json", "{\n \"protocol\": \"agency/1.0\",\n \"builders\": 3\n}\n");
    let torn = stage.agency(&["task", "list"]);
    let torn = if torn.code == 0 { stage.agency(&["task", "start", "T0001"]) } else { torn };
    assert!(torn.err.contains("agency.json:3") && torn.err.contains("builders"), "{}", torn.err);
}

// covers: AG-13
#[test]
fn a_breach_names_the_file_and_its_pattern_as_the_owner_wrote_it() {
    let stage = board();
    let file = task(&stage, &["--may-touch", "src/**", "--must-not-touch", "db/**"]);
    stage.ok(&["task", "start", "T0001"]);
    stage.write("db/schema.sql", "x\n");
    report(&stage, &file, "READY_FOR_REVIEW", "");
    let done = stage.agency(&["task", "done", "T0001"]);
    let words = "T0001 cannot be DONE: its report is refused (a file outside the task's scope";
    assert!(done.err.contains(words), "{}", done.err);
    let status = stage.ok(&["status"]);
    assert!(status.contains("`db/schema.sql` was changed: must_not_touch has `db/**`"), "{status}");
}

// covers: AG-09, AG-12
#[test]
fn a_report_at_another_path_is_named_with_the_one_that_was_asked_for() {
    let agent = "echo \"$AGENCY_RUN $AGENCY_AGENT $AGENCY_ROLE $AGENCY_TASK\" >> \"$HOME/started\"\n\
        mkdir -p .kodingx/outbox/claude-code/x; echo no > .kodingx/outbox/claude-code/x/$AGENCY_TASK-report.md\n";
    let stage = board_with(running::CONFIG);
    std::fs::write(stage.at("agent.sh"), agent).unwrap();
    stage.configure_agents("retries: 0, backoff: 100ms", running::CONFIG);
    let (_, file) = running::task(&stage, "plain", &[]);
    let daemon = stage.start();
    let told = stage.wait("the owner to be told", || {
        let all = stage.json(&["escalations", "--json"]);
        let all: Vec<Value> = all.as_array().unwrap().clone();
        all.into_iter().find(|one| one["summary"].to_string().contains("no report"))
    });
    let summary = told["summary"].as_str().unwrap();
    assert!(summary.contains("no report at `.kodingx/outbox/claude-code/"), "{summary}");
    assert!(summary.contains("T0001-report.md") && !summary.contains("1 tries"), "{summary}");
    assert_eq!(status(&stage, &file), "BLOCKED");
    assert_eq!(daemon.stop(), 0);
}
