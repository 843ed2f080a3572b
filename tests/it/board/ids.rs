//! Many processes make tasks at once: every id is given once, no file is torn, no lock is left.

use super::board;
use crate::e2e::stage::Stage;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

fn trials() -> Option<usize> {
    std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok())
}

/// One process that makes so many tasks, one after the other.
fn maker(stage: &Stage, name: usize, count: usize) -> Child {
    let program = env!("CARGO_BIN_EXE_agency");
    let script = format!(
        "i=0; while [ $i -lt {count} ]; do \"{program}\" task new --title 'Task '$i' of {name}: \"x\" #é' --assignee codex >/dev/null || exit 1; i=$((i+1)); done"
    );
    let mut shell = std::process::Command::new("sh");
    let program = stage.program();
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    shell
        .args(["-c", &script])
        .current_dir(stage.repo())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    shell.spawn().unwrap()
}

/// Ids in the inbox, and whatever else lies there.
fn found(stage: &Stage) -> (Vec<String>, Vec<String>) {
    let files = crate::scenarios::files_below(&stage.repo().join(".kodingx/inbox"));
    let files = files.keys().filter(|name| !name.ends_with(".gitkeep"));
    let (tasks, other): (Vec<_>, Vec<_>) = files.cloned().partition(|name| name.ends_with(".md"));
    let ids = tasks
        .iter()
        .map(|name| name.rsplit('/').next().unwrap().split('-').next().unwrap().to_owned());
    (ids.collect(), other)
}

// covers: AG-05
#[test]
fn many_processes_get_consecutive_ids() {
    // 32 × 50 by AGENCY_TRIALS=1600.
    let (processes, each) = if trials().is_some_and(|n| n >= 1600) { (32, 50) } else { (8, 4) };
    let stage = board();
    let makers: Vec<Child> = (0..processes).map(|name| maker(&stage, name, each)).collect();
    for mut maker in makers {
        assert!(maker.wait().unwrap().success());
    }
    let (ids, other) = found(&stage);
    let wanted: BTreeSet<String> = (1..=processes * each).map(|n| format!("T{n:04}")).collect();
    assert_eq!(ids.len(), processes * each, "no id twice");
    assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), wanted);
    assert!(other.is_empty(), "nothing is left behind: {other:?}");
    let listed = stage.json(&["task", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), processes * each, "all of them are valid");
}

// covers: AG-05
#[test]
fn a_kill_leaves_no_torn_file_and_no_id_twice() {
    let rounds = trials().unwrap_or(6).min(200);
    let stage = board();
    for round in 0..rounds {
        let mut one = maker(&stage, round, 3);
        let mut other = maker(&stage, round, 3);
        std::thread::sleep(std::time::Duration::from_millis(
            u64::try_from(round * 7 % 60).unwrap(),
        ));
        // The shell and the command that it is just running.
        let group = nix::unistd::Pid::from_raw(i32::try_from(one.id()).unwrap());
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
        one.wait().unwrap();
        assert!(other.wait().unwrap().success(), "a lock of the dead one is nobody's");
    }
    stage.ok(&["task", "new", "--title", "The last one", "--assignee", "codex"]);
    let (ids, other) = found(&stage);
    assert!(other.is_empty(), "what the dead left is swept up: {other:?}");
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "an id was given twice: {ids:?}");
    assert!(ids.len() >= 3 * rounds);
    assert_eq!(
        stage.json(&["task", "list", "--json"]).as_array().unwrap().len(),
        ids.len(),
        "none is torn"
    );
}

// covers: AG-05, SE-02
#[test]
fn forged_names_and_links_neither_stop_nor_divert_new_tasks() {
    let stage = board();
    let new =
        |assignee: &str| stage.agency(&["task", "new", "--title", "x", "--assignee", assignee]);
    let day = ".kodingx/inbox/codex/2020-01-01";
    stage.write(&format!("{day}/T0041-not a task.md"), "");
    assert!(new("codex").out.starts_with("T0042"), "a number that is on any file is taken");
    let last = format!("{day}/T999999999999999999-1010-x.md");
    stage.write(&last, "");
    let said = new("codex");
    assert!(said.code == 1 && said.err.contains(&last), "{}", said.err);
    std::fs::remove_file(stage.repo().join(&last)).unwrap();
    assert!(new("codex").out.starts_with("T0043"));
    std::os::unix::fs::symlink(stage.at("home"), stage.repo().join(".kodingx/inbox/bob")).unwrap();
    assert_eq!(new("bob").code, 1);
    assert_eq!(std::fs::read_dir(stage.at("home")).unwrap().count(), 0, "nothing went outside");
    let long = "y".repeat(100_000);
    let mut words = vec!["task", "new", "--title", "x", "--assignee", "codex"];
    (0..11).for_each(|_| words.extend(["--acceptance", &long]));
    let said = stage.agency(&words);
    assert!(said.code == 1 && said.err.contains("bytes"), "what no reader takes is not written");
}

/// Where the last number that was given is noted.
pub(super) fn last_given(stage: &Stage) -> PathBuf {
    let folders = std::fs::read_dir(stage.at("state")).unwrap().map(|entry| entry.unwrap().path());
    let noted: Vec<PathBuf> =
        folders.map(|dir| dir.join("board/last-given")).filter(|path| path.exists()).collect();
    let [one] = &noted[..] else { panic!("{noted:?}") };
    one.clone()
}

// covers: AG-05
#[test]
fn a_number_is_not_given_again_when_its_file_is_gone_or_its_note_is_wrong() {
    let stage = board();
    let new = || stage.ok(&["task", "new", "--title", "x", "--assignee", "codex"]);
    let remove = |line: &str| {
        std::fs::remove_file(stage.repo().join(line.split_whitespace().last().unwrap())).unwrap();
    };
    assert!(new().starts_with("T0001"));
    let second = new();
    remove(&second);
    let third = new();
    assert!(third.starts_with("T0003"), "T0002 was given: {third}");
    assert_eq!(std::fs::read_to_string(last_given(&stage)).unwrap(), "3\n");
    let refused = stage.agency(&[
        "task",
        "new",
        "--title",
        "x",
        "--assignee",
        "codex",
        "--depends-on",
        "T0099",
    ]);
    assert_eq!(refused.code, 1);
    for forged in ["1\n", "0", "", "no number", "999999999999999999"] {
        std::fs::write(last_given(&stage), forged).unwrap();
        let before = found(&stage).0.len();
        let wanted = format!("T{:04}", before + 2);
        assert!(new().starts_with(&wanted), "{forged:?}: wanted {wanted}");
    }
    std::fs::remove_file(last_given(&stage)).unwrap();
    assert!(new().starts_with("T0009"), "without a note the files say it");
}

// covers: AG-05, SE-02
#[test]
fn no_id_comes_from_an_inbox_that_cannot_be_read() {
    let stage = board();
    stage.ok(&["task", "new", "--title", "x", "--assignee", "codex"]);
    let inbox = stage.repo().join(".kodingx/inbox");
    let aside = stage.at("home/inbox");
    std::fs::rename(&inbox, &aside).unwrap();
    let before = crate::scenarios::files_below(&stage.at("home"));
    for put in
        [(|inbox, _| std::fs::write(inbox, "").unwrap()) as fn(&Path, &Path), |inbox, aside| {
            std::os::unix::fs::symlink(aside, inbox).unwrap()
        }]
    {
        put(&inbox, &aside);
        for words in [["task", "new"], ["assign", "codex"]] {
            let more: &[&str] = if words[0] == "task" { &["--assignee", "codex"] } else { &[] };
            let said = stage.agency(&[&words[..], &["--title", "x"], more].concat());
            assert_eq!(said.code, 1, "{}", said.out);
            let wanted = [".kodingx/inbox", "is not a folder", "nothing is written", "SE-02"];
            assert!(wanted.iter().all(|word| said.err.contains(word)), "{}", said.err);
        }
        assert!(stage.ok(&["status"]).contains("no task yet"), "status goes on and reads no link");
        std::fs::remove_file(&inbox).unwrap();
    }
    assert_eq!(crate::scenarios::files_below(&stage.at("home")), before, "nothing went there");
    std::fs::rename(&aside, &inbox).unwrap();
    assert!(stage.ok(&["assign", "codex", "--title", "x"]).starts_with("T0002"));
}

// covers: AG-05
#[test]
fn ulids_are_distinct_and_valid() {
    let stage = Stage::new("exit 0");
    stage.ok(&["init", "--id-strategy", "ulid", "--builders", "codex"]);
    let first = stage.json(&["task", "new", "--title", "a", "--json"]);
    let second = stage.json(&["task", "new", "--title", "b", "--json"]);
    assert_ne!(first["id"], second["id"]);
    assert_eq!(first["id"].as_str().unwrap().len(), 27);
    assert_eq!(stage.json(&["task", "list", "--json"]).as_array().unwrap().len(), 2);
}
