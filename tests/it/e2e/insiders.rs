//! Agents that turn on the daemon itself: its verbs, its socket, its records. Each attempt is prevented, or detected and told.

use super::stage::{Daemon, Stage};
use std::fs;

const INSIDER: &str = include_str!("../agents/insider.sh");

/// A loop whose builder waits for the name of an attack.
fn stage() -> Stage {
    let stage = Stage::new(INSIDER);
    stage.configure_agents("retries: 20, backoff: 10ms", "");
    // The sandbox would prevent most of it; this is about what holds where there is none.
    stage.without_sandbox();
    fs::write(stage.at("home/agency"), env!("CARGO_BIN_EXE_agency")).unwrap();
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

fn start(stage: &Stage) -> Daemon {
    let daemon = stage.start();
    fs::write(stage.at("home/daemon"), daemon.pid().to_string()).unwrap();
    daemon
}

fn order(stage: &Stage, name: &str) {
    fs::remove_file(stage.at("home/result")).ok();
    fs::write(stage.at("home/attack.tmp"), name).unwrap();
    fs::rename(stage.at("home/attack.tmp"), stage.at("home/attack")).unwrap();
}

/// The exit code and the words of one attack.
fn attack(stage: &Stage, name: &str) -> (i32, String) {
    order(stage, name);
    let result = stage
        .wait(&format!("the end of {name}"), || fs::read_to_string(stage.at("home/result")).ok());
    let (code, text) = result.split_once('\n').unwrap_or((&result, ""));
    (code.parse().unwrap(), text.to_owned())
}

fn told(stage: &Stage, rule: &str) -> usize {
    let all = stage.json(&["escalations", "--json"]);
    all.as_array().unwrap().iter().filter(|one| one["rule"] == rule).count()
}

fn wait_until_told(stage: &Stage, rule: &str, before: usize) {
    stage.wait(&format!("{rule} to be told"), || (told(stage, rule) > before).then_some(()));
}

/// Verbs that the owner alone may use, each tried in another way; and what the refusal names.
const VERBS: &[(&str, &str)] = &[
    ("verb", "inside the run"),
    ("verb-clean", "inside the run"),
    ("verb-session", "inside the run"),
    ("verb-orphan", "inside the run"),
    ("verb-deep", "SE-07"),
    ("verb-raw", "belongs to the run"),
    ("verb-raw-deep", "SE-07"),
    ("verb-gone", ""),
    ("adopt", "inside the run"),
    ("trust", "inside the run"),
    ("resume", "inside the run"),
    ("inject", "inside the run"),
    ("ack", "inside the run"),
    ("forget", "inside the run"),
    ("human", "inside the run"),
];

// covers: SE-04, SE-07
#[test]
fn no_verb_of_the_owners_is_had_from_inside_a_run() {
    let stage = stage();
    let daemon = start(&stage);
    for (name, words) in VERBS {
        let (_, text) = attack(&stage, name);
        assert!(text.contains(words), "{name} ended with: {text}");
    }
    // What the daemon heard while it was stopped is judged by now: it answers in order.
    stage.ok(&["pause", "--reason", "by-the-owner"]);
    stage.ok(&["unpause"]);
    let journal = stage.ok(&["journal", "--json", "--lines", "10000"]);
    assert!(journal.contains("by-the-owner") && !journal.contains("by-the-agent"));
    let log = stage.daemon_log();
    assert!(log.contains("the calling process ended before it could be checked"), "{log}");
    assert_eq!(daemon.stop(), 0);
}

// covers: SE-10
#[test]
fn a_socket_that_is_not_the_daemons_hears_nothing_and_is_replaced() {
    let stage = stage();
    let daemon = start(&stage);
    stage.wait("the agent", || {
        (stage.json(&["runs", "--json"])[0]["state"] == "running").then_some(())
    });
    assert_eq!(attack(&stage, "socket-fake").0, 0);
    let refused = stage.agency(&["pause", "--reason", "secret"]);
    assert_eq!(refused.code, 3, "{}{}", refused.out, refused.err);
    assert!(
        refused.err.contains("SE-10") && refused.err.contains(&daemon.pid().to_string()),
        "{}",
        refused.err
    );
    let heard = fs::read_to_string(stage.at("home/enough.heard")).unwrap_or_default();
    assert_eq!(heard, "", "nothing was sent to it");
    assert_eq!(attack(&stage, "socket-real").0, 0);
    wait_until_told(&stage, "SE-10", 0);
    for (count, name) in ["socket-removed", "socket-folder", "socket-link"].iter().enumerate() {
        assert_eq!(attack(&stage, name).0, 0);
        wait_until_told(&stage, "SE-10", count + 1);
        stage.ok(&["pause"]);
        stage.ok(&["unpause"]);
    }
    assert_eq!(daemon.stop(), 0);
}

// covers: SE-09
#[test]
fn a_forged_record_counts_for_nothing_and_is_told() {
    let stage = stage();
    let daemon = start(&stage);
    assert_eq!(attack(&stage, "usage").0, 0);
    wait_until_told(&stage, "SE-09", 0);
    let lost = || {
        let runs = stage.json(&["runs", "--all", "--json"]);
        runs.as_array().unwrap().iter().filter(|run| run["outcome"] == "lost").count()
    };
    assert_eq!(lost(), 0, "the run goes on");
    // These may not live long enough to say that they are done.
    for (count, name) in [(1, "exit"), (2, "shim")] {
        order(&stage, name);
        wait_until_told(&stage, "SE-09", count);
        stage.wait("the lost run", || (lost() == count).then_some(()));
    }
    assert!(stage.transitions().is_empty());
    assert_eq!(daemon.stop(), 0);
}

// covers: SE-11
#[test]
fn a_configuration_that_a_run_changed_waits_for_the_owner_also_over_a_restart() {
    let stage = stage();
    let daemon = start(&stage);
    let before = fs::read_to_string(stage.at("agency.yaml")).unwrap();
    assert_eq!(attack(&stage, "config").0, 0);
    let notes = |stage: &Stage| stage.json(&["status", "--json"]).to_string();
    let waits = |stage: &Stage| notes(stage).contains("agency trust --settings");
    stage.wait("the configuration to wait", || waits(&stage).then_some(()));
    wait_until_told(&stage, "SE-11", 0);
    let told = stage.escalation("SE-11").unwrap();
    assert!(told["evidence"].to_string().contains("parallel: 99"), "{told}");
    daemon.kill();
    let daemon = start(&stage);
    stage.wait("it to wait after a restart", || waits(&stage).then_some(()));
    // Put back, nothing waits any more.
    fs::write(stage.at("agency.yaml"), &before).unwrap();
    stage.wait("the old configuration", || (!waits(&stage)).then_some(()));
    assert_eq!(stage.escalation("SE-11").unwrap()["state"], "resolved");
    assert_eq!(daemon.stop(), 0);
}

// covers: SE-09
#[test]
fn files_of_the_state_directory_are_the_owners_alone_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::new(super::stage::HONEST);
    stage.configure("loop: { gates: [\"true\"] }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" run --once", env!("CARGO_BIN_EXE_agency")]);
    let program = stage.program();
    command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(command.current_dir(stage.repo()).output().unwrap().status.success());
    assert_eq!(stage.state()["phase"], "complete");
    let mut folders = vec![stage.at("state")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let meta = entry.path().symlink_metadata().unwrap();
            // The checkout of the gates holds the repository's own files, with the repository's own modes.
            let is_checkout = entry.file_name() == "worktrees";
            if meta.is_dir() && !is_checkout {
                folders.push(entry.path());
            }
            let open = meta.permissions().mode() & 0o077;
            assert!(
                is_checkout || meta.is_symlink() || open == 0,
                "{} has {open:o}",
                entry.path().display()
            );
        }
    }
}

/// What an agent does to the daemon's own files while it runs, and how the owner puts it right.
const OWN_FILES: &[(&str, &str)] =
    &[("journal", "journal"), ("quarantine", "quarantine"), ("lock", "lock")];

// covers: SE-09, DM-21
#[test]
fn an_outbox_that_a_run_replaced_is_made_again_and_told() {
    let stage = stage();
    let daemon = start(&stage);
    assert_eq!(attack(&stage, "outbox").0, 0);
    let told = stage.wait("the outbox to be told", || stage.escalation("SE-09"));
    assert!(told["summary"].as_str().unwrap().contains("outbox"), "{told}");
    assert!(stage.folder().join("outbox").is_dir(), "it is made again");
    assert!(stage.escalation("DM-10").is_none(), "work goes on");
    assert_eq!(daemon.stop(), 0);
}

// covers: SE-09, DM-18
#[test]
fn what_a_run_does_to_the_daemons_own_files_freezes_and_is_told() {
    for (name, word) in OWN_FILES {
        let stage = stage();
        let folder = stage.folder();
        let daemon = start(&stage);
        assert_eq!(attack(&stage, name).0, 0);
        let told = stage.wait(&format!("{name} to be told"), || stage.escalation("DM-10"));
        assert!(told["what"].as_str().unwrap().contains(word), "{name}: {told}");
        assert!(stage.transitions().is_empty(), "{name}");
        if folder.join(format!("{name}.old")).exists() {
            let shown = stage.json(&["status", "--json"]);
            let kind = &shown["repos"][0]["protocols"][0]["condition"]["kind"];
            assert_eq!(kind, "frozen", "{name}: {shown}");
            let place = folder.join(name);
            fs::remove_file(&place).unwrap();
            fs::rename(folder.join(format!("{name}.old")), &place).unwrap();
            stage.wait(&format!("work to go on after {name}"), || {
                (stage.escalation("DM-10")?["state"] == "resolved").then_some(())
            });
        }
        drop(daemon);
    }
}

// covers: SE-13
#[test]
fn what_a_run_left_for_the_owners_own_tools_is_named_and_told() {
    let stage = stage();
    let daemon = start(&stage);
    assert_eq!(attack(&stage, "tools").0, 0);
    wait_until_told(&stage, "SE-13", 0);
    let told = stage.escalation("SE-13").unwrap();
    let summary = told["summary"].as_str().unwrap();
    assert!(summary.contains("~/.gitconfig") && summary.contains(".envrc"), "{told}");
    assert!(!summary.contains("info/exclude"), "it runs nothing: {told}");
    let runs = stage.json(&["runs", "--all", "--json"]);
    let changed = runs.as_array().unwrap().iter().find_map(|run| run["changed"].as_array());
    let changed: Vec<_> = changed.unwrap().iter().filter_map(|name| name.as_str()).collect();
    assert_eq!(changed, [".envrc", "~/.gitconfig", ".git/info/exclude"]);
    assert_eq!(daemon.stop(), 0);
}
