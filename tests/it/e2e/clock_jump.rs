//! The machine's clock is set back by two hours while a protocol works: what agents write stays good, and the end is the same.

use super::faults::{Outcome, PLAYS, Play, outcome};
use super::stage::Stage;
use std::process::{Command, Stdio};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agents/clock.c");
/// Where the library looks.
const CLOCK: &str = "/etc/agency-test-clock";

/// When the first agent sees the clock set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jump {
    Never,
    BeforeItsWork,
    /// What it wrote is two hours ahead then.
    AfterItsWork,
}

/// A copy of `/etc` that makes the loader give every process a clock which can be set.
fn prepare_etc(stage: &Stage) {
    let (etc, library) = (stage.at("etc"), stage.at("clock.so"));
    // It is there wherever Rust links.
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(SOURCE);
    assert!(compiler.status().unwrap().success());
    std::fs::create_dir(&etc).unwrap();
    // Files that only root may read are not needed.
    drop(Command::new("cp").args(["-a", "/etc/."]).arg(&etc).output().unwrap());
    std::fs::write(etc.join("ld.so.preload"), format!("{}\n", library.display())).unwrap();
}

/// The first agent sets the clock; all do their work.
fn script(stage: &Stage, jump: Jump) {
    std::fs::rename(stage.at("agent.sh"), stage.at("work.sh")).unwrap();
    let (work, first) = (stage.at("work.sh"), stage.at("first"));
    let (work, first) = (work.display(), first.display());
    let set = |when| match jump == when {
        true => format!(
            "mkdir {first} 2> {first}.log && echo -7200 > {CLOCK}.new && mv {CLOCK}.new {CLOCK}\n"
        ),
        false => String::new(),
    };
    let (before, after) = (set(Jump::BeforeItsWork), set(Jump::AfterItsWork));
    let text = format!("{before}sh {work} \"$@\"\ncode=$?\n{after}exit $code\n");
    std::fs::write(stage.at("agent.sh"), text).unwrap();
}

/// The daemon in a namespace where `/etc` is the copy. `None` where nobody may make one.
fn run_once(stage: &Stage) -> Option<i32> {
    let program = stage.program();
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" /etc || exit 99; exec \"$0\" run --once";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command.arg(program.get_program()).arg(stage.at("etc")).env_clear().current_dir(stage.repo());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let log = std::fs::File::create(stage.at("daemon.log")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).env("AGENCY_LOG", "info");
    let code = command.status().unwrap().code();
    code.filter(|_| stage.daemon_log().contains("agency is at work"))
}

/// How it ended, and the rules that the owner was told of.
fn played(play: &Play, jump: Jump) -> Option<(Outcome, Vec<String>)> {
    let stage = (play.prepare)();
    // The agents set the clock by a file outside their tree.
    stage.without_sandbox();
    prepare_etc(&stage);
    script(&stage, jump);
    let code = run_once(&stage)?;
    let told = stage.ok(&["escalations", "--all"]);
    assert_eq!(code, 0, "{}, {jump:?}: {told}\n{}", play.name, stage.daemon_log());
    let was_set = stage.at("etc/agency-test-clock").exists();
    assert_eq!(was_set, jump != Jump::Never, "{}: the clock", play.name);
    let all = stage.json(&["escalations", "--all", "--json"]);
    let rules = all.as_array().unwrap().iter().map(|one| one["rule"].to_string());
    let mut rules: Vec<String> = rules.collect();
    rules.sort();
    Some((outcome(&stage), rules))
}

#[expect(clippy::print_stderr, reason = "a test that proves nothing should say so")]
fn the_end_is_the_same(play: &Play) {
    let Some(wanted) = played(play, Jump::Never) else {
        eprintln!("skipped: this machine lets nobody make a namespace");
        return;
    };
    for jump in [Jump::BeforeItsWork, Jump::AfterItsWork] {
        assert_eq!(played(play, jump).as_ref(), Some(&wanted), "{}, {jump:?}", play.name);
    }
}

// covers: DM-11, LP-28
#[test]
fn a_loop_goes_on_when_the_clock_is_set_back() {
    the_end_is_the_same(&PLAYS[0]);
}

// covers: DM-11
#[test]
fn a_relay_goes_on_when_the_clock_is_set_back() {
    the_end_is_the_same(&PLAYS[1]);
}

// covers: DM-11
#[test]
fn a_board_goes_on_when_the_clock_is_set_back() {
    the_end_is_the_same(&PLAYS[2]);
}

// covers: DM-11
#[test]
fn codifica_goes_on_when_the_clock_is_set_back() {
    the_end_is_the_same(&PLAYS[3]);
}

// covers: DM-11
#[test]
fn a_ledger_goes_on_when_the_clock_is_set_back() {
    the_end_is_the_same(&PLAYS[4]);
}
