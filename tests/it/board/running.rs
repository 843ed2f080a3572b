//! The board runs itself: builders in their own worktrees, an auditor, a verify of the merged tree, the merge; and what each of
//! them may not do.

use super::status;
use super::terminal::Terminal;
use crate::e2e::stage::Stage;
use serde_json::Value;
use std::path::PathBuf;

const AGENT: &str = include_str!("../agents/board.sh");
pub(crate) const CONFIG: &str = "board: { auditor: codex, disk_floor: 1MiB }\nlimits: { parallel: 4, per_repo: 4, per_agent: 4 }\n";

/// A board that runs itself, with these settings.
pub(crate) fn board_with(config: &str) -> Stage {
    let stage = Stage::new(AGENT);
    stage.configure(config);
    stage.ok(&["init", "--orchestrator", "other", "--builders", "claude-code,codex,alice"]);
    let profile = "name: tiny\ndescription: one check\ncommands:\n  - \"test ! -e broken\"\n";
    stage.write(".kodingx/dod/profiles/tiny.yml", profile);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a board"]);
    stage
}

fn board() -> Stage {
    board_with(CONFIG)
}

pub(crate) fn task(stage: &Stage, title: &str, more: &[&str]) -> (String, PathBuf) {
    let fixed = ["task", "new", "--title", title, "--json"];
    let scope = ["--dod-profile", "tiny", "--may-touch", "work/**", "--may-touch", "broken"];
    let who: &[&str] =
        if more.contains(&"--assignee") { &[] } else { &["--assignee", "claude-code"] };
    let made = stage.json(&[&fixed[..], &scope[..], who, more].concat());
    let word = |name: &str| made[name].as_str().unwrap().to_owned();
    (word("id"), PathBuf::from(word("path")))
}

/// The subtasks that put a task right, oldest first.
pub(super) fn remedies(stage: &Stage, id: &str) -> Vec<Value> {
    let all = stage.json(&["task", "list", "--json"]);
    let all = all.as_array().unwrap().iter();
    all.filter(|task| task["parent"] == id).cloned().collect()
}

pub(super) fn on_main(stage: &Stage, path: &str) -> Option<String> {
    let listed = stage.git(&["ls-tree", "-r", "--name-only", "main"]);
    listed.lines().any(|line| line == path).then(|| stage.git(&["show", &format!("main:{path}")]))
}

/// Subjects of the merges on the main branch, without the commits of our own folder.
pub(super) fn merges(stage: &Stage) -> Vec<String> {
    let log = stage.git(&["log", "--format=%s", "--author=agency", "--first-parent", "main"]);
    log.lines().filter(|line| !line.starts_with("Board: ")).map(str::to_owned).collect()
}

pub(crate) fn log(stage: &Stage) -> String {
    format!(
        "{}\n{}",
        stage.ok(&["escalations", "--all"]),
        stage.daemon_log().lines().rev().take(60).collect::<Vec<_>>().join("\n")
    )
}

/// Works until nothing is left to do.
pub(crate) fn work(stage: &Stage) {
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", log(stage));
}

pub(super) fn artifact(stage: &Stage, task: &std::path::Path) -> Value {
    let day = task.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let stem = task.file_stem().unwrap().to_str().unwrap();
    let text = stage.read(&format!(".kodingx/verify/{day}/{stem}.verify.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// How often a role began for a task.
fn runs_of(stage: &Stage, id: &str, role: &str) -> usize {
    let wanted = format!("{role} {id}");
    stage.started().iter().filter(|line| line.ends_with(&wanted)).count()
}

// covers: AG-09, AG-10, AG-12, AG-13, AG-14, AG-18, AG-27, AG-34
#[test]
fn tasks_are_built_audited_verified_and_merged() {
    let stage = board();
    let plain = task(&stage, "plain", &[]);
    let after = task(&stage, "after it", &["--depends-on", &plain.0]);
    let breach = task(&stage, "a breach of scope", &["--priority", "P0"]);
    let badly = task(&stage, "done badly", &[]);
    let breaks = task(&stage, "breaks the check", &[]);
    let blocked = task(&stage, "is blocked", &[]);
    let sly = task(&stage, "sly", &[]);
    let clashes = [task(&stage, "a clash", &[]), task(&stage, "another clash", &[])];
    let profile = on_main(&stage, ".kodingx/dod/profiles/tiny.yml");
    work(&stage);
    let done = [&plain, &after, &breach, &badly, &breaks, &sly, &clashes[0], &clashes[1]];
    for (id, file) in done {
        assert_eq!(status(&stage, file), "DONE", "{id}: {}", log(&stage));
        assert!(on_main(&stage, &format!("work/{id}.txt")).is_some(), "{id} is merged");
        let artifact = artifact(&stage, file);
        assert_eq!(
            (artifact["result"].as_str(), artifact["commands"][0]["exit_code"].as_i64()),
            (Some("pass"), Some(0))
        );
    }
    assert_eq!(status(&stage, &blocked.1), "BLOCKED");
    assert!(stage.escalation("AG-12").unwrap()["summary"].as_str().unwrap().contains("no access"));
    assert!(on_main(&stage, "outside.txt").is_none() && on_main(&stage, "broken").is_none());
    assert_eq!(
        on_main(&stage, ".kodingx/dod/profiles/tiny.yml"),
        profile,
        "its own gate stays out"
    );
    assert_eq!(merges(&stage).len(), done.len(), "each once: {:?}", merges(&stage));
    check_remedies(&stage, [&breach, &badly, &breaks], &clashes);
    assert_eq!(
        (runs_of(&stage, &plain.0, "builder"), runs_of(&stage, &plain.0, "auditor")),
        (1, 1)
    );
    let runs = stage.started();
    let first = |what: &str| runs.iter().position(|line| line.ends_with(what)).unwrap();
    let (begun, audited) = (format!("builder {}", after.0), format!("auditor {}", plain.0));
    assert!(first(&begun) > first(&audited), "a dependency comes first: {runs:?}");
    let checks = stage.git(&["branch", "--list", "agency/verify/*"]);
    assert_eq!(checks, "", "the branches of verified trees go with them");
    assert!(
        stage.git(&["worktree", "list"]).lines().count() <= 2,
        "only the blocked one's tree is left"
    );
    // What we wrote is committed, each file as it lies there; of an agent's edits nothing.
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    let state = on_main(&stage, ".kodingx/STATE.md").unwrap();
    assert!(state.contains(&format!("blocked_tasks: [\"{}\"]", blocked.0)), "{state}");
    stage.ok(&["task", "unblock", &blocked.0, "--reason", "granted"]);
    assert_eq!(stage.escalation("AG-12").unwrap()["state"], "resolved");
    assert_eq!(stage.agency(&["check"]).code, 0, "{}", stage.agency(&["check"]).out);
}

/// What failed a check came back as a file of its own, once each, and ended with its parent.
fn check_remedies(
    stage: &Stage,
    failed: [&(String, PathBuf); 3],
    clashes: &[(String, PathBuf); 2],
) {
    let words = ["outside the scope", "does not say fixed", "ended with exit code 1"];
    for ((id, _), reason) in failed.into_iter().zip(words) {
        let found = remedies(stage, id);
        assert_eq!(found.len(), 1, "{id}: {found:?}");
        let (remedy, path) = (found[0]["id"].as_str().unwrap(), found[0]["path"].as_str().unwrap());
        assert_eq!(found[0]["status"], "DONE");
        assert_eq!(found[0]["labels"], serde_json::json!(["remediation"]));
        assert!(path.starts_with(".kodingx/inbox/claude-code/"), "{path}");
        assert!(stage.read(path).unwrap().contains(reason), "{}", stage.read(path).unwrap());
        assert_eq!((runs_of(stage, id, "builder"), runs_of(stage, remedy, "builder")), (1, 1));
        assert!(on_main(stage, &format!("work/{id}.txt")).unwrap().contains("fixed"));
        assert!(on_main(stage, path).unwrap().contains("status: DONE"), "it is committed too");
    }
    let conflicts: Vec<Value> = clashes.iter().flat_map(|(id, _)| remedies(stage, id)).collect();
    assert_eq!(conflicts.len(), 1, "one of two that clash comes back: {conflicts:?}");
    let text = stage.read(conflicts[0]["path"].as_str().unwrap()).unwrap();
    assert!(text.contains("conflicts with `main`"), "{text}");
    // A breach never reaches the auditor; what it or the verify found is looked at again.
    let audits = failed.map(|(id, _)| runs_of(stage, id, "auditor"));
    assert_eq!(audits, [1, 2, 2]);
    let told = std::fs::read_to_string(stage.at("home/subtasks")).unwrap();
    assert!(told.contains("does not say fixed"), "the builder had the file in its tree: {told}");
}

// covers: AG-10, AG-34, AG-11, AG-07, AG-09
#[test]
fn what_cannot_be_trusted_waits_for_the_owner() {
    let stage = board();
    let meddled = task(&stage, "meddled with", &[]);
    let silent = task(&stage, "silent", &[]);
    let hopeless = task(&stage, "hopeless", &[]);
    let (own, own_file) = task(&stage, "by the auditor", &["--assignee", "codex"]);
    work(&stage);
    let all = stage.json(&["escalations", "--json"]);
    let told = |rule: &str, id: &str| {
        let says =
            |one: &&Value| one["rule"] == rule && one["summary"].as_str().unwrap().contains(id);
        all.as_array().unwrap().iter().any(|one| says(&one))
    };
    assert!(told("AG-34", &meddled.0) && told("AG-10", &own) && told("SU-06", &silent.0), "{all}");
    assert!(told("AG-10", &hopeless.0), "after three subtasks the owner decides: {all}");
    assert_eq!(status(&stage, &silent.1), "BLOCKED", "no report is no success");
    assert_eq!(status(&stage, &own_file), "READY_FOR_REVIEW");
    assert_eq!(merges(&stage), Vec::<String>::new(), "nothing was merged");
    let statuses = |stage: &Stage| -> Vec<String> {
        let found = remedies(stage, &hopeless.0);
        found.iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(&stage), ["READY_FOR_REVIEW"; 3]);
    let last = remedies(&stage, &hopeless.0)[2]["id"].as_str().unwrap().to_owned();
    let refused = stage.agency(&["task", "cancel", &last]);
    assert!(refused.code == 1 && refused.err.contains("AG-09"), "{}", refused.err);
    let done = stage.agency(&["task", "done", &meddled.0]);
    assert!(done.code == 1 && done.err.contains("AG-14"), "{}", done.err);
    stage.ok(&["task", "cancel", &meddled.0]);
    stage.ok(&["task", "cancel", &hopeless.0]);
    assert_eq!(statuses(&stage), ["CANCELED"; 3]);
    work(&stage);
    assert!(
        !stage.git(&["worktree", "list"]).contains(&meddled.0),
        "its tree is gone, its branch stays"
    );
    assert!(stage.git(&["branch", "--list", "agency/*"]).contains(&meddled.0));
}

// covers: AG-14, DM-06, AG-09
#[test]
fn kills_of_the_daemon_lose_nothing_and_merge_nothing_twice() {
    let trials: usize =
        std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let stage = board();
    std::fs::write(stage.at("home/slow"), "0.1").unwrap();
    // Every fifth comes back from its auditor, every seventh is blocked.
    let title = |n: usize| match (n % 5, n % 7) {
        (_, 6) => format!("number {n} is blocked"),
        (1, _) => format!("number {n} done badly"),
        _ => format!("number {n}"),
    };
    let tasks: Vec<_> = (0..trials.min(20)).map(|n| task(&stage, &title(n), &[])).collect();
    // Any moment may be the last: chance finds those that nobody thought of, and a seed finds them again.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..trials.min(20) {
        let daemon = stage.start();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(std::time::Duration::from_millis(150 + (seed >> 33) % 900));
        daemon.kill();
    }
    work(&stage);
    let blocked = |n: usize| n % 7 == 6;
    for (n, (id, file)) in tasks.iter().enumerate() {
        let wanted = if blocked(n) { "BLOCKED" } else { "DONE" };
        assert_eq!(status(&stage, file), wanted, "{id}: {}", log(&stage));
        let marker = on_main(&stage, &format!("work/{id}.txt"));
        assert_eq!(marker.is_some(), !blocked(n), "{id}");
    }
    let mut wanted: Vec<String> = tasks
        .iter()
        .enumerate()
        .filter(|(n, _)| !blocked(*n))
        .map(|(n, (id, _))| format!("{id}: {}", title(n)))
        .collect();
    let mut found = merges(&stage);
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted, "every branch once");
    assert_eq!(stage.git(&["status", "--porcelain"]), "", "every record is committed");
}

// covers: AG-40
#[test]
fn the_dod_runs_once_on_the_base_commit_and_is_named_as_it_runs() {
    let stage = board();
    let (_, file) = task(&stage, "plain", &[]);
    std::fs::write(stage.at("home/wait"), "").unwrap();
    let daemon = stage.start();
    stage.wait("the builder", || (!stage.started().is_empty()).then_some(()));
    daemon.kill();
    std::fs::remove_file(stage.at("home/wait")).unwrap();
    let mut terminal = Terminal::open(&stage, &["run", "--once"]);
    terminal.wait("runs `test ! -e broken`");
    let (code, shown) = terminal.end();
    assert_eq!((code, status(&stage, &file).as_str()), (0, "DONE"), "{shown}");
    let runs = stage.json(&["runs", "--all", "--json"]);
    let on_base = runs.as_array().unwrap().iter().filter(|run| run["phase"] == "base").count();
    assert_eq!(on_base, 1, "what passed on a commit is not run there again: {runs}");
}

// covers: AG-40
#[test]
fn a_dod_that_fails_before_the_first_builder_waits_for_the_owner() {
    let stage = board();
    let profile = "name: tiny\ndescription: x\ncommands: [\"echo too-old; test -e mended\"]\n";
    stage.write(".kodingx/dod/profiles/tiny.yml", profile);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a check that fails"]);
    let (_, file) = task(&stage, "plain", &[]);
    let daemon = stage.start();
    let told = stage.wait("the owner to be told", || stage.escalation("AG-40"));
    assert!(told.to_string().contains("too-old"), "the output is shown: {told}");
    assert!(stage.started().is_empty(), "no builder works before that");
    stage.write("mended", "");
    stage.git(&["add", "mended"]);
    stage.git(&["commit", "--quiet", "-m", "mended", "--", "mended"]);
    stage.ok(&["resume"]);
    stage.wait("the merge", || (status(&stage, &file) == "DONE").then_some(()));
    assert_eq!(daemon.stop(), 0);
}

// covers: DM-16, AG-16
#[test]
fn work_without_checks_is_held_for_the_owner() {
    let stage = board();
    let scope = ["--may-touch", "work/**", "--dod-profile", "auto"];
    let words = ["task", "new", "--title", "Unchecked", "--assignee", "claude-code"];
    stage.ok(&[&words[..], &scope[..]].concat());
    assert_eq!(stage.start_with(&["--once"]).wait(), 1, "{}", log(&stage));
    let status = stage.json(&["status", "--json"]);
    let repo = &status["repos"][0];
    let condition = &repo["protocols"][0]["condition"];
    assert!(repo["held"] == true && condition["kind"] == "held", "{status}");
    let reason = condition["reason"].as_str().unwrap();
    assert!(reason.contains("`auto` found nothing to check by"), "{reason}");
    let resolve = condition["resolve"].as_str().unwrap();
    assert!(resolve.starts_with("agency task request-changes T0001 --reason"), "{resolve}");
    stage.write(".kodingx/agency.json", {
        let manifest = stage.read(".kodingx/agency.json").unwrap();
        manifest.replace("\"dod_profile\": \"auto\"", "\"dod_profile\": \"tiny\"")
    });
    stage.git(&["commit", "--quiet", "-am", "a profile for all"]);
    stage.ok(&["task", "request-changes", "T0001", "--reason", "there are checks now"]);
    work(&stage);
    assert_eq!(merges(&stage).len(), 1, "{}", log(&stage));
}
