//! What the daemon cannot open or read is listed, told within 5 s, and goes on by itself; and every view says whether it runs.

use super::stage::{Daemon, HONEST, Said, Stage, wait_until};
use crate::escalate::receiver::{Answer, Receiver};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// From the moment at which the daemon is at work or the damage is done (DM-18).
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// Two quick agents, one webhook, and the repositories that a test names.
fn configure(stage: &Stage, hooks: &Receiver, more: &str) {
    let url = hooks.url("hook");
    let text = format!(
        "escalation:\n  backoff: 100ms\n  webhooks: [ {{ url: \"{url}\", secret_env: HOOK_SECRET }} ]\n{more}"
    );
    stage.configure_agents("retries: 0", &text);
}

fn repos(paths: &[PathBuf]) -> String {
    let line = |path: &PathBuf| format!("  - path: {}\n", path.display());
    format!("repos:\n{}", paths.iter().map(line).collect::<String>())
}

/// A loop of one step that has run to its end, and a daemon that was killed.
fn finished(hooks: &Receiver) -> Stage {
    let stage = Stage::new(HONEST);
    configure(&stage, hooks, "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait_for_phase("complete");
    stage.wait("the loop's end in the status", || {
        (condition(&stage.json(&["status", "--json"])["repos"][0])["kind"] == "done").then_some(())
    });
    daemon.kill();
    stage
}

fn condition(repo: &Value) -> Value {
    repo["protocols"][0]["condition"].clone()
}

fn repo_at(stage: &Stage, path: &Path) -> Option<Value> {
    let status = stage.json(&["status", "--json"]);
    let repos = status["repos"].as_array().unwrap();
    repos.iter().find(|repo| repo["path"] == path.to_str().unwrap()).cloned()
}

/// The first message of a rule about a repository.
fn message(hooks: &Receiver, kind: &str, rule: &str, repo: &Path) -> Option<Value> {
    let bodies = hooks.requests().into_iter().map(|request| request.json());
    let is_it = |body: &Value| {
        body["type"] == kind && body["rule"] == rule && body["repo"] == repo.to_str().unwrap()
    };
    bodies.into_iter().find(is_it)
}

fn wait_until_at_work(stage: &Stage, times: usize) -> Instant {
    stage.wait("the daemon", || {
        stage.daemon_log().matches("agency is at work").nth(times - 1).map(drop)
    });
    Instant::now()
}

/// Waits for the message, which must come in time.
fn told(stage: &Stage, hooks: &Receiver, since: Instant, rule: &str, repo: &Path) -> Value {
    let found = wait_until(TOLD_WITHIN, || message(hooks, "escalation.opened", rule, repo));
    let found = found.unwrap_or_else(|| panic!("{rule} was not told\n{}", stage.daemon_log()));
    assert!(since.elapsed() <= TOLD_WITHIN, "told after {:?}", since.elapsed());
    found
}

fn check(stage: &Stage) -> Said {
    stage.agency(&["status", "--check"])
}

/// One of our own files is damaged while no daemon runs; `find` says which.
fn a_damaged_file(find: impl Fn(&Stage) -> PathBuf, damage: impl Fn(&mut Vec<u8>), named: &str) {
    let hooks = Receiver::fine();
    let stage = finished(&hooks);
    let path = find(&stage);
    let whole = fs::read(&path).ok();
    let mut bytes = whole.clone().unwrap_or_default();
    damage(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let daemon = stage.start();
    let body = told(&stage, &hooks, wait_until_at_work(&stage, 2), "DM-10", &stage.repo());
    assert!(body["summary"].as_str().unwrap().contains(named), "{body}");
    assert!(!body["resolve"].as_str().unwrap().is_empty(), "{body}");
    let repo = repo_at(&stage, &stage.repo()).unwrap();
    assert_eq!((&repo["frozen"], &repo["held"]), (&true.into(), &true.into()), "{repo}");
    assert!(repo["closed"].as_str().unwrap().contains(named), "{repo}");
    for protocol in repo["protocols"].as_array().unwrap() {
        assert_eq!(protocol["condition"]["kind"], "frozen", "{repo}");
        assert!(protocol["condition"]["resolve"].is_string(), "{repo}");
    }
    let text = stage.ok(&["status"]);
    assert!(text.starts_with("daemon: running (pid "), "{text}");
    assert!(text.contains(&format!("{}  FROZEN", stage.repo().display())), "{text}");
    let said = check(&stage);
    assert!(said.code == 1 && said.out.contains("FROZEN"), "{}{}", said.out, said.err);
    match whole {
        Some(whole) => fs::write(&path, whole).unwrap(),
        None => fs::remove_file(&path).unwrap(),
    }
    stage.wait("the notice's end", || {
        message(&hooks, "escalation.resolved", "DM-10", &stage.repo())
    });
    let repo = repo_at(&stage, &stage.repo()).unwrap();
    assert_eq!((&repo["frozen"], &condition(&repo)["kind"]), (&false.into(), &"done".into()));
    assert_eq!(check(&stage).code, 0, "{}", check(&stage).out);
    drop(daemon);
}

fn flip_the_middle(bytes: &mut [u8]) {
    let text = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(bytes.len());
    bytes[text / 2] ^= 1;
}

// Over 5 s: the daemon tries again after 3 s. The same holds for the three that follow.
// covers: DM-18, DM-08, DM-10
#[test]
fn a_flipped_bit_in_the_journal_is_told_and_mended() {
    let journal = |stage: &Stage| stage.folder().join("journal/000001.jsonl");
    a_damaged_file(journal, |bytes| flip_the_middle(bytes), "000001.jsonl");
}

// covers: DM-18, DM-10, DM-13
#[test]
fn a_damaged_repo_json_is_told_and_mended() {
    a_damaged_file(
        |stage| stage.folder().join("repo.json"),
        |bytes| bytes.truncate(20),
        "repo.json",
    );
}

// covers: DM-18, DM-10, DM-13
#[test]
fn a_damaged_identity_is_told_and_mended() {
    let id = |stage: &Stage| stage.repo().join(".git/agency/id");
    a_damaged_file(id, |bytes| *bytes = b"nobody\n".to_vec(), "agency/id");
}

// covers: DM-18, DM-08, DM-10
#[test]
fn a_damaged_anchor_of_the_journal_is_told_and_mended() {
    // Written when a segment of the journal is full, which is not yet.
    let pins = |stage: &Stage| stage.folder().join("pins.json");
    a_damaged_file(pins, |bytes| *bytes = b"{\"head\": ".to_vec(), "pins.json");
}

// covers: DM-19, DM-18, DM-10
#[test]
fn a_missing_repository_keeps_no_other_from_starting_and_goes_on_when_it_is_back() {
    let hooks = Receiver::fine();
    let stage = Stage::new(HONEST);
    let missing = stage.at("missing");
    configure(&stage, &hooks, &repos(&[missing.clone(), stage.repo()]));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let body = told(&stage, &hooks, wait_until_at_work(&stage, 1), "DM-10", &missing);
    assert!(body["resolve"].as_str().unwrap().contains("repos:"), "{body}");
    stage.wait_for_phase("complete");
    let repo = repo_at(&stage, &missing).unwrap();
    assert_eq!(repo["frozen"], true, "{repo}");
    let one = stage.agency(&["--repo", missing.to_str().unwrap(), "status", "--check"]);
    assert!(one.code == 1 && one.out.contains("there is no folder"), "{}{}", one.out, one.err);
    let id = body["id"].as_str().unwrap();
    stage.ok(&["ack", id]);
    assert_eq!(stage.escalation("DM-10").unwrap()["state"], "acked");
    stage.git_in(&stage.at(""), &["init", "--quiet", "missing"]);
    stage.wait("the notice's end", || message(&hooks, "escalation.resolved", "DM-10", &missing));
    stage.wait("a daemon that is well", || (check(&stage).code == 0).then_some(()));
    drop(daemon);
}

// covers: DM-20, OP-06
#[test]
fn a_daemon_that_was_killed_is_not_running_and_its_work_waits() {
    let stage = Stage::new("sleep 1000");
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert!(stage.ok(&["status"]).starts_with("daemon: NOT RUNNING; start it"));
    assert_eq!(check(&stage).code, 3);
    let daemon = stage.start();
    let status = stage.wait("an agent at work", || {
        let status = stage.json(&["status", "--json"]);
        (condition(&status["repos"][0])["kind"] == "working").then_some(status)
    });
    assert_eq!(status["daemon"]["running"], true);
    assert_eq!(status["daemon"]["pid"], daemon.pid());
    assert!(status["daemon"]["since"].is_string(), "{status}");
    let now = condition(&status["repos"][0]);
    for field in ["run", "agent", "task", "since"] {
        assert!(now[field].is_string(), "{field}: {now}");
    }
    assert!(now["reason"].as_str().unwrap().starts_with("claude-code works on step 1"), "{now}");
    assert_eq!(check(&stage).code, 0);
    assert!(stage.ok(&["metrics", "--prometheus"]).contains("kind=\"working\"} 1\n"));
    daemon.kill();
    let status = stage.wait("the daemon's end", || {
        let status = stage.json(&["status", "--json"]);
        (status["daemon"]["running"] == false).then_some(status)
    });
    assert!(status["daemon"]["since"].is_string() && status["daemon"]["pid"].is_null());
    let now = condition(&status["repos"][0]);
    assert_eq!(now["kind"], "waiting", "nobody works on it: {now}");
    assert!(now["reason"].as_str().unwrap().starts_with("no daemon runs"), "{now}");
    assert!(stage.ok(&["status"]).starts_with("daemon: NOT RUNNING since "));
    let said = check(&stage);
    assert!(said.code == 3 && said.out.starts_with("daemon: NOT RUNNING since "), "{}", said.out);
    assert!(stage.ok(&["metrics", "--prometheus"]).contains("agency_up 0\n"));
}

// covers: DM-16
#[test]
fn a_run_that_waits_for_its_place_says_what_is_in_the_way() {
    let stage = Stage::new("sleep 1000");
    stage.git_in(&stage.at(""), &["clone", "--quiet", "repo", "other"]);
    let both = [stage.repo(), stage.at("other")];
    stage.configure(&format!("limits: {{ per_agent: 1 }}\n{}", repos(&both)));
    for path in &both {
        assert_eq!(stage.agency_in(path, &["loop", "init", "--steps", "1"]).code, 0);
    }
    let daemon = stage.start();
    let reason = stage.wait("one that works and one that waits", || {
        let all = both.each_ref().map(|path| repo_at(&stage, path).map(|repo| condition(&repo)));
        let of = |kind| all.iter().flatten().find(|one| one["kind"] == kind);
        of("working")?;
        let reason = of("waiting")?["reason"].as_str()?;
        reason.starts_with("claude-code is to start").then(|| reason.to_owned())
    });
    assert_eq!(
        reason,
        "claude-code is to start on step 1: 1 of 1 places of claude-code are taken (limits.per_agent)"
    );
    drop(daemon);
}

// covers: DM-18, DM-20, DM-13
#[test]
fn a_state_directory_that_is_deleted_under_the_daemon_is_told() {
    let hooks = Receiver::fine();
    let stage = finished(&hooks);
    let daemon = stage.start();
    wait_until_at_work(&stage, 2);
    stage.wait("the repository", || (check(&stage).code == 0).then_some(()));
    // Moved first: the daemon writes while it is deleted.
    fs::rename(stage.at("state"), stage.at("deleted")).unwrap();
    fs::remove_dir_all(stage.at("deleted")).unwrap();
    let body = told(&stage, &hooks, Instant::now(), "DM-10", &stage.repo());
    assert!(body["summary"].as_str().unwrap().contains("was removed"), "{body}");
    // The daemon's own folder was deleted too; it is made again in the same moment.
    let is_running = || stage.ok(&["status"]).starts_with("daemon: running (pid ");
    stage.wait("the status to show the daemon", || is_running().then_some(()));
    // The journal is gone, so the loop is one that this machine does not know.
    stage.wait("the unknown loop", || message(&hooks, "escalation.opened", "DM-13", &stage.repo()));
    let said = stage.wait("the way out", || {
        Some(check(&stage)).filter(|said| said.out.contains("resolve: agency adopt"))
    });
    assert_eq!(said.code, 1, "{}", said.out);
    stage.ok(&["adopt"]);
    stage.wait("the loop as it was", || (check(&stage).code == 0).then_some(()));
    drop(daemon);
}

/// The daemon with so few descriptors that it cannot raise the limit itself.
fn start_with_files(stage: &Stage, limit: u32) -> Daemon {
    let program = stage.program();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {limit}; exec \"$0\" run"));
    command.arg(program.get_program()).env_clear().current_dir(stage.repo());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let log = fs::File::create(stage.at("daemon.log")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Daemon::of(command.spawn().unwrap())
}

// covers: DM-18, DM-10
#[test]
fn a_daemon_with_40_descriptors_works_where_it_can_and_tells_of_the_rest() {
    let hooks = Receiver::fine();
    let stage = Stage::new(HONEST);
    let mut paths = vec![stage.repo()];
    for number in 1..12 {
        let name = format!("repo{number}");
        stage.git_in(&stage.at(""), &["clone", "--quiet", "repo", &name]);
        paths.push(stage.at(&name));
    }
    configure(&stage, &hooks, &repos(&paths));
    for path in &paths {
        assert_eq!(stage.agency_in(path, &["loop", "init", "--steps", "1"]).code, 0);
    }
    let daemon = start_with_files(&stage, 40);
    let since = wait_until_at_work(&stage, 1);
    let frozen = || {
        let status = stage.json(&["status", "--json"]);
        let repos = status["repos"].as_array().unwrap().clone();
        repos.into_iter().filter(|repo| repo["frozen"] == true).collect::<Vec<_>>()
    };
    let rest = wait_until(TOLD_WITHIN, || Some(frozen()).filter(|rest| !rest.is_empty()));
    let rest = rest.unwrap_or_else(|| panic!("{}", stage.daemon_log()));
    assert!(rest[0]["closed"].as_str().unwrap().contains("may open 40 files"), "{}", rest[0]);
    let first = PathBuf::from(rest[0]["path"].as_str().unwrap());
    let heard = |rule: &str| {
        hooks.requests().iter().any(|request| request.json().to_string().contains(rule))
    };
    wait_until(TOLD_WITHIN, || heard("DM-10").then_some(()))
        .unwrap_or_else(|| panic!("{first:?} was not told\n{}", stage.daemon_log()));
    assert!(since.elapsed() <= TOLD_WITHIN, "{:?}", since.elapsed());
    let working: Vec<_> = paths
        .iter()
        .filter(|path| rest.iter().all(|repo| repo["path"] != path.to_str().unwrap()))
        .collect();
    assert!(!working.is_empty() && working.len() + rest.len() == 12, "{rest:?}");
    // 40 are few for a run and git at the same moment: what does not end is held, and never silent.
    stage.wait("the end of a loop that has its files", || {
        let now = condition(&repo_at(&stage, working[0])?);
        matches!(now["kind"].as_str()?, "done" | "held" | "frozen").then_some(())
    });
    assert_eq!(check(&stage).code, 1);
    drop(daemon);
}

// covers: DM-18, ES-08
#[test]
fn the_heartbeat_is_silent_until_the_owner_was_told() {
    let may_pass = Arc::new(AtomicBool::new(false));
    let passes = Arc::clone(&may_pass);
    let hooks = Receiver::new(move |_| {
        Answer::Status(if passes.load(Ordering::Relaxed) { 200 } else { 503 })
    });
    let beats = Receiver::fine();
    let stage = Stage::new(HONEST);
    let heartbeat = format!("heartbeat: {{ url: \"{}\", every: 1s }}\n", beats.url("beat"));
    let missing = stage.at("missing");
    configure(&stage, &hooks, &format!("{heartbeat}{}", repos(std::slice::from_ref(&missing))));
    let daemon = stage.start();
    // Three tries take longer than a beat.
    stage.wait("three tries to tell it", || (hooks.count() >= 3).then_some(()));
    let skipped = || stage.daemon_log().contains("no heartbeat");
    stage.wait("a beat that was left out", || skipped().then_some(()));
    assert_eq!(beats.count(), 0, "the owner has not heard of it yet");
    may_pass.store(true, Ordering::Relaxed);
    stage.wait("a beat", || (beats.count() > 0).then_some(()));
    assert!(message(&hooks, "escalation.opened", "DM-10", &missing).is_some());
    drop(daemon);
}

/// A file that the named protocol cannot read: the protocol is held or frozen in the status, and told.
fn an_unreadable_file(protocol: &str, file: &str, bytes: &[u8], reason: &str) {
    let hooks = Receiver::fine();
    let stage = Stage::new(HONEST);
    let entry =
        format!("repos: [ {{ path: {}, protocols: [{protocol}] }} ]\n", stage.repo().display());
    configure(&stage, &hooks, &entry);
    stage.write(file, bytes);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a file of another kind"]);
    let daemon = stage.start();
    let since = wait_until_at_work(&stage, 1);
    let now = wait_until(TOLD_WITHIN, || {
        let now = condition(&repo_at(&stage, &stage.repo())?);
        matches!(now["kind"].as_str()?, "held" | "frozen").then_some(now)
    });
    let now = now.unwrap_or_else(|| panic!("{file}: {}", stage.ok(&["status"])));
    assert!(now["reason"].as_str().unwrap().contains(reason), "{file}: {now}");
    assert!(now["resolve"].is_string(), "{file}: {now}");
    let is_about =
        |body: &Value| body["type"] == "escalation.opened" && body["protocol"] == protocol;
    wait_until(TOLD_WITHIN, || {
        let bodies = hooks.requests().into_iter().map(|request| request.json());
        bodies.into_iter().find(is_about)
    })
    .unwrap_or_else(|| panic!("{file} was not told\n{}", stage.daemon_log()));
    assert!(since.elapsed() <= TOLD_WITHIN, "{file}: told after {:?}", since.elapsed());
    assert_eq!(check(&stage).code, 1);
    assert_eq!(fs::read(stage.repo().join(file)).unwrap(), bytes, "{file} is left as it is");
    drop(daemon);
}

const LOOP: &str = r#"{"currentStep":"1","currentRound":1,"phase":"propose","status":"starting","activeAgent":"claude-code","steps":["1"],"stepsComplete":[],"history":[],"escalations":[],"lastUpdated":"2026-01-01T00:00:00Z"}"#;

// covers: DM-18, DM-16
#[test]
fn a_loop_whose_state_cannot_be_read_is_shown_and_told() {
    let file = ".review-loop-state.json";
    let phase = LOOP.replace("propose", "ponder");
    let step = LOOP.replace("\"currentStep\":\"1\"", "\"currentStep\":1");
    let mark = format!("\u{feff}{LOOP}");
    for (text, reason) in
        [(phase.as_str(), "ponder"), (&step, "integer `1`"), (&mark, ""), ("[]", "")]
    {
        an_unreadable_file("loop", file, text.as_bytes(), reason);
    }
}

// covers: DM-18, DM-16, HO-04
#[test]
fn a_state_of_another_tool_in_the_place_of_the_workflows_is_shown_and_told() {
    let file = ".claude/state.json";
    an_unreadable_file("handoff", file, br#"{"locks": {}, "theme": "dark"}"#, "schema_version");
    an_unreadable_file("handoff", file, "\u{feff}{}".as_bytes(), file);
}

// covers: DM-18, DM-16
#[test]
fn files_of_the_other_protocols_that_cannot_be_read_are_shown_and_told() {
    let manifest = ".kodingx/agency.json";
    // A board that this machine does not know is the owner's first, readable or not.
    an_unreadable_file("board", manifest, b"[]", "task board");
    an_unreadable_file("board", manifest, &[0xff, 0xfe, 0x00], "task board");
    let tasks = "codifica.json";
    an_unreadable_file("codifica", tasks, b"[]", tasks);
    an_unreadable_file("codifica", tasks, &[0xff, 0xfe, 0x00], tasks);
    let progress = "progress.json";
    an_unreadable_file("ledger", progress, &[0xff, 0xfe, 0x00], progress);
}

// covers: DM-02, DM-16
#[test]
fn a_daemon_without_file_events_looks_by_the_clock_and_says_so() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let program = stage.program();
    let mut command = Command::new("unshare");
    // In a namespace of its own, no process gets a watch; ours learns that from the kernel.
    let none = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$0\" run";
    command.args(["--user", "--map-root-user", "sh", "-c", none]).arg(program.get_program());
    command.env_clear().current_dir(stage.repo());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let log = fs::File::create(stage.at("daemon.log")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn().unwrap();
    let at_work = wait_until(Duration::from_secs(20), || {
        let is_over = child.try_wait().unwrap().is_some();
        (is_over || stage.daemon_log().contains("agency is at work")).then_some(!is_over)
    });
    if at_work == Some(false) {
        eprintln!("skipped: this machine lets nobody make a user namespace");
        return;
    }
    let daemon = Daemon::of(child);
    let said = stage.wait("the note", || {
        let said = stage.ok(&["status"]);
        said.contains("looking every 1s instead").then_some(said)
    });
    assert!(said.contains("  note      "), "{said}");
    stage.wait_for_phase("complete");
    let repo = repo_at(&stage, &stage.repo()).unwrap();
    assert!(repo["notes"].to_string().contains("looking every"), "{repo}");
    drop(daemon);
}
