//! The owner's ways out: pause, forget, refusals that say what to do instead, folders that nobody means, the service's files.

use super::stage::{HONEST, Stage};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A loop whose agents write what they should, slowly.
fn slow_loop(steps: &str) -> Stage {
    let stage = Stage::new(HONEST);
    std::fs::write(stage.at("home/slow"), "0.5").unwrap();
    stage.ok(&["loop", "init", "--steps", steps]);
    stage
}

// covers: OP-10, SE-04
#[test]
fn a_pause_lets_the_live_run_end_and_starts_no_other_until_it_is_over() {
    let stage = slow_loop("1");
    let daemon = stage.start();
    stage.wait("a run", || stage.json(&["runs", "--json"])[0]["pid"].as_i64());
    let said = stage.ok(&["pause", "--reason", "I work here by hand"]);
    assert!(said.contains("agency unpause"), "{said}");
    assert!(stage.ok(&["pause"]).contains("already paused"), "a second one changes nothing");
    // The run that was alive is judged: the loop has moved on, and waits.
    stage.wait("its judgement", || (stage.transitions().len() == 1).then_some(()));
    let paused = |stage: &Stage| {
        let repo = stage.json(&["status", "--json"])["repos"][0].clone();
        let condition = &repo["protocols"][0]["condition"];
        let waits =
            condition["kind"] == "waiting" && condition["reason"].as_str()?.contains("paused");
        (waits && repo["paused"]["reason"] == "I work here by hand").then_some(repo)
    };
    let repo = stage.wait("the pause in the status", || paused(&stage));
    let resolve = repo["protocols"][0]["condition"]["resolve"].as_str().unwrap();
    assert!(resolve.starts_with("agency unpause --repo"), "{resolve}");
    assert_eq!(repo["held"], false);
    assert_eq!(stage.agency(&["status", "--check"]).code, 0, "the owner chose it");
    let text = stage.ok(&["status"]);
    assert!(text.contains("PAUSED") && text.contains("paused by the owner since"), "{text}");
    daemon.kill();
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "nothing is left to do while paused");
    assert_eq!(stage.started().len(), 1, "a restart does not end the pause");
    let daemon = stage.start();
    stage.wait("the next daemon", || paused(&stage));
    stage.ok(&["unpause"]);
    stage.wait_for_phase("complete");
    assert!(stage.json(&["status", "--json"])["repos"][0]["paused"].is_null());
    drop(daemon);
}

// covers: OP-10
#[test]
fn a_pause_works_without_a_daemon_too() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage.ok(&["pause"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    assert!(stage.started().is_empty(), "nothing was started");
    let text = stage.ok(&["status"]);
    assert!(text.contains("agency unpause --repo"), "{text}");
    assert!(stage.ok(&["unpause"]).contains("runs start again"));
    let again = stage.agency(&["unpause"]);
    assert!(again.code == 1 && again.err.contains("agency status"), "{}", again.err);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    stage.wait_for_phase("complete");
}

// covers: SE-04, OP-10
#[test]
fn an_agent_can_neither_end_a_pause_nor_forget() {
    let program = env!("CARGO_BIN_EXE_agency");
    let stage = Stage::new(&format!(
        "for verb in unpause pause \"forget $PWD --yes\"; do \
         env -i PATH=\"$PATH\" HOME=\"$HOME\" AGENCY_STATE_DIR=\"$HOME/../state\" {program} $verb \
         >> \"$HOME/said\" 2>&1; echo $? >> \"$HOME/codes\"; done; exit 1"
    ));
    stage.configure_agents("retries: 0", "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 1);
    assert_eq!(std::fs::read_to_string(stage.at("home/codes")).unwrap(), "1\n1\n1\n");
    let said = std::fs::read_to_string(stage.at("home/said")).unwrap();
    assert_eq!(said.matches("agents may not do this").count(), 3, "{said}");
}

fn state_folders(stage: &Stage) -> usize {
    let entries = std::fs::read_dir(stage.at("state")).unwrap().flatten();
    entries.filter(|entry| entry.path().join("repo.json").exists()).count()
}

// covers: OP-10
#[test]
fn forget_drops_the_watch_and_the_state_and_keeps_the_files() {
    let stage = Stage::new("sleep 1000");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let repo = stage.repo().display().to_string();
    let daemon = stage.start();
    let run = stage
        .wait("a run", || stage.json(&["runs", "--json"])[0]["id"].as_str().map(str::to_owned));
    let alive = stage.agency(&["forget", &repo, "--yes"]);
    assert!(alive.code == 1 && alive.err.contains(&format!("agency stop {run}")), "{}", alive.err);
    stage.ok(&["stop", &run]);
    stage.wait("the end of the run", || {
        (stage.json(&["runs", "--json"])[0]["state"] != "running").then_some(())
    });
    let asked = stage.agency(&["forget", &repo]);
    assert!(asked.code == 2 && asked.err.contains("--yes"), "no terminal to ask on: {}", asked.err);
    let tree = stage.folder().join("worktrees/T0001");
    std::fs::create_dir_all(&tree).unwrap();
    let unmerged = stage.agency(&["forget", &repo, "--yes"]);
    assert!(unmerged.code == 1 && unmerged.err.contains("worktrees/T0001"), "{}", unmerged.err);
    std::fs::remove_dir(&tree).unwrap();
    assert!(stage.ok(&["forget", &repo, "--yes"]).contains("forgot"));
    assert_eq!(state_folders(&stage), 0);
    assert!(stage.repo().join(".review-loop-state.json").exists(), "its files stay");
    assert_eq!(daemon.wait(), 0, "the daemon has nothing left to watch");
    let unknown = stage.agency(&["forget", &repo, "--yes"]);
    assert!(unknown.code == 2 && unknown.err.contains("agency status"), "{}", unknown.err);
}

// covers: OP-10
#[test]
fn a_repository_that_is_gone_can_be_forgotten() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let (repo, gone) = (stage.repo(), stage.repo().display().to_string());
    let entry = format!("repos: [ {{ path: {gone} }} ]\n");
    stage.configure(&entry);
    std::fs::rename(&repo, stage.at("elsewhere")).unwrap();
    let home = stage.at("home");
    let named = stage.agency_in(&home, &["forget", &gone, "--yes"]);
    assert!(named.code == 1 && named.err.contains("`repos:`"), "{}", named.err);
    stage.configure("");
    let done = stage.agency_in(&home, &["forget", &gone, "--yes"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(state_folders(&stage), 0);
    std::fs::rename(stage.at("elsewhere"), &repo).unwrap();
}

// covers: DM-01
#[test]
fn folders_that_nobody_means_are_refused_with_what_to_do() {
    let stage = Stage::new(HONEST);
    stage.git_in(&stage.at(""), &["clone", "--quiet", "--bare", "repo", "bare"]);
    std::fs::create_dir(stage.at("plain")).unwrap();
    for (dir, word) in [("home", "home folder"), ("bare", "bare"), ("plain", "git init")] {
        let said = stage.agency_in(&stage.at(dir), &["run", "--once"]);
        assert!(said.code == 1 && said.err.contains(word), "{dir}: {} {}", said.code, said.err);
        assert!(said.err.contains("agency run --force"), "{dir}: {}", said.err);
    }
    let root = stage.agency_in(Path::new("/"), &["run", "--once"]);
    assert!(root.code == 1 && root.err.contains("root of the file system"), "{}", root.err);
    for dir in ["home", "bare"] {
        let said = stage.agency_in(&stage.at(dir), &["loop", "init", "--steps", "1"]);
        assert!(said.code == 1 && said.err.contains("repos:"), "{dir}: {}", said.err);
    }
    assert_eq!(state_folders(&stage), 0, "nothing was begun anywhere");
    let forced = stage.agency_in(&stage.at("plain"), &["run", "--once", "--force"]);
    assert_eq!(forced.code, 0, "{}", forced.err);
    stage.configure(&format!("repos: [ {{ path: {} }} ]\n", stage.at("home").display()));
    let named = stage.agency_in(&stage.at("home"), &["run", "--once"]);
    assert_eq!(named.code, 0, "an entry in `repos:` is meant: {}", named.err);
}

// covers: DM-01
#[test]
fn a_worktree_of_a_watched_repository_is_named() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage.git(&["worktree", "add", "--quiet", "--detach", "../tree"]);
    let tree = stage.at("tree");
    let run = stage.agency_in(&tree, &["run", "--once"]);
    let named = format!("is a worktree of `{}`", stage.repo().display());
    assert!(run.code == 1 && run.err.contains(&named), "{}", run.err);
    let paused = stage.agency_in(&tree, &["pause"]);
    assert!(paused.code == 0 && paused.err.contains(&named), "{}", paused.err);
    let status = stage.agency_in(&tree, &["status", "--json", "--repo", "."]);
    let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status["repos"][0]["path"], stage.repo().display().to_string());
    assert!(!status["repos"][0]["paused"].is_null(), "the pause counts there: {status}");
}

/// A refusal names a command of ours, of git's, or a file to edit.
fn says_what_to_do(err: &str) -> bool {
    ["agency ", "git ", "agency.yaml"].iter().any(|word| err.contains(word))
}

// covers: OP-10
#[test]
fn every_refusal_of_an_owners_verb_says_what_to_do_instead() {
    let empty: &[&[&str]] = &[
        &["resume"],
        &["ack", "123abc"],
        &["answer", "123abc", "resume"],
        &["adopt"],
        &["unpause"],
        &["stop", "nope"],
        &["loop", "inject", "--phase", "review", "--reason", "x"],
        &["loop", "restore"],
        &["loop", "end", "--reason", "x"],
        &["loop", "steps", "add", "9"],
        &["task", "unblock", "T0001", "--reason", "x"],
        &["task", "cancel", "T0001", "--reason", "x"],
        &["task", "audit", "T0001"],
        &["task", "done", "T0001"],
        &["verify", "--task", "T0001", "--override", "--reason", "x"],
        &["work", "reclaim", "A-1", "--reason", "x", "--as-human"],
        &["handoff", "cancel"],
        &["forget", "/nowhere", "--yes"],
    ];
    let begun: &[&[&str]] = &[
        &["resume"],
        &["adopt"],
        &["stop", "nope"],
        &["loop", "init", "--steps", "1"],
        &["loop", "inject", "--phase", "dance", "--reason", "x"],
        &["loop", "inject", "--step", "77", "--reason", "x"],
        &["loop", "inject", "--turn", "nobody", "--reason", "x"],
        &["loop", "steps", "add", "1"],
        &["loop", "steps", "remove", "9"],
        &["loop", "steps", "remove", "1"],
        &["task", "done", "T0009"],
        &["task", "done", "T0001"],
        &["task", "audit", "T0001"],
        &["task", "request-changes", "T0001", "--reason", "x"],
        &["verify", "--task", "T0001", "--override", "--reason", "x"],
    ];
    let stage = Stage::new(HONEST);
    let check = |words: &[&str]| {
        let said = stage.agency(words);
        assert!(said.code != 0, "agency {words:?} was not refused: {}", said.out);
        let first = said.err.replace("hint: `agency --help` shows the commands", "");
        assert!(says_what_to_do(&first), "agency {words:?}: {}", said.err);
    };
    empty.iter().for_each(|words| check(words));
    stage.ok(&["loop", "init", "--steps", "1,2"]);
    stage.ok(&["init"]);
    stage.ok(&["task", "new", "--title", "one", "--assignee", "claude-code"]);
    begun.iter().for_each(|words| check(words));
    stage.ok(&["task", "cancel", "T0001", "--reason", "x"]);
    check(&["task", "cancel", "T0001", "--reason", "x"]);
    check(&["task", "unblock", "T0001", "--reason", "x"]);
    stage.ok(&["loop", "end", "--reason", "x"]);
    check(&["loop", "end", "--reason", "x"]);
}

// covers: OP-03
#[test]
fn the_service_has_a_path_a_file_for_keys_and_a_repository() {
    let stage = Stage::new(HONEST);
    let none = stage.agency(&["service", "install", "--no-start"]);
    let entry = format!("repos: [ {{ path: {} }} ]", stage.repo().display());
    assert!(none.code == 1 && none.err.contains(&entry), "{}", none.err);
    assert!(!stage.at("home/.config").exists(), "nothing is written");
    stage.configure(&format!("{entry}\n"));
    let said = stage.ok(&["service", "install", "--no-start"]);
    let keys = stage.at("home/.config/agency/agency.env");
    assert!(said.contains(keys.to_str().unwrap()), "{said}");
    assert_eq!(keys.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&keys).unwrap();
    assert!(text.contains("ANTHROPIC_API_KEY"), "{text}");
    assert!(text.lines().all(|line| line.starts_with('#')), "no key is in it: {text}");
    std::fs::write(&keys, "OPENAI_API_KEY=mine\n").unwrap();
    stage.ok(&["service", "install", "--no-start"]);
    assert_eq!(std::fs::read_to_string(&keys).unwrap(), "OPENAI_API_KEY=mine\n", "it stays");
    let unit = stage.at("home/.config/systemd/user/agency.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    for words in [
        format!("Environment=\"PATH={}\"", std::env::var("PATH").unwrap()),
        format!("Environment=\"AGENCY_STATE_DIR={}\"", stage.at("state").display()),
        format!("Environment=\"AGENCY_CONFIG={}\"", stage.at("agency.yaml").display()),
        format!("EnvironmentFile=-{}", keys.display()),
    ] {
        assert!(unit.contains(&words), "{words}: {unit}");
    }
}
