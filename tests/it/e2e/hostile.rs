//! Flags that are not flags: links, pipes, devices, giants and broken text are refused, gone and kept; the loop goes on.

use super::parked::{flag, parked_in, put_flag, quarantined, refusals, unmark, wait_until_parked};
use super::stage::{FLAG, HONEST, STATE, Stage};

/// Plants the kind of flag that `$1` names, or the same in the place of `$2`.
const PLANT: &str = r#"
flag=${2:-.agent-status.json}
now=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
good="\"step\":\"1\",\"status\":\"proposed\",\"nextAgent\":\"codex\",\"timestamp\":\"$now\"}"
case "$1" in
  passwd) ln -s /etc/passwd $flag ;;
  dangling) ln -s nowhere $flag ;;
  zero) ln -s /dev/zero $flag ;;
  fifo) mkfifo $flag ;;
  huge) truncate -s 10G $flag ;;
  folder) mkdir $flag; echo inside > $flag/inside ;;
  linked) echo "{\"agent\":\"claude-code\",$good" > "$HOME/original"; ln "$HOME/original" $flag ;;
  utf16) printf '\377\376{\000}\000' > $flag ;;
  twice) echo "{\"agent\":\"codex\",\"agent\":\"claude-code\",$good" > $flag ;;
  deep) { printf '%010000d' 0 | tr 0 '['; printf '%010000d' 0 | tr 0 ']'; } > $flag ;;
  types) echo '{"agent":1,"step":[],"status":null,"nextAgent":{},"timestamp":0}' > $flag ;;
  empty) : > $flag ;;
esac
"#;

/// Each kind with the rule that refuses it.
const AT_ONCE: [(&str, &str); 10] = [
    ("passwd", "DM-04"),
    ("dangling", "DM-04"),
    ("zero", "DM-04"),
    ("fifo", "DM-04"),
    ("huge", "DM-04"),
    ("folder", "DM-04"),
    ("utf16", "LP-04"),
    ("twice", "LP-04"),
    ("deep", "LP-04"),
    ("types", "LP-04"),
];
/// What could still become a good flag is waited for.
const IN_TIME: [(&str, &str); 2] = [("empty", "LP-04"), ("linked", "DM-04")];

fn plant(stage: &Stage, kind: &str, path: &str) {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", PLANT, "plant", kind, path]).env("HOME", stage.at("home"));
    assert!(command.current_dir(stage.repo()).status().unwrap().success(), "{kind}");
}

fn is_gone(stage: &Stage) -> bool {
    stage.repo().join(FLAG).symlink_metadata().is_err()
}

fn check_quarantine(stage: &Stage) {
    let kept = quarantined(stage);
    let holds = |bytes: &[u8]| kept.iter().any(|one| one == bytes);
    assert!(holds(b"/etc/passwd") && holds(b"nowhere") && holds(b"/dev/zero"), "targets' names");
    assert!(holds(b"\xff\xfe{\0}\0"));
    let passwd = std::fs::read("/etc/passwd").unwrap();
    assert!(!holds(&passwd), "no link was followed");
    assert!(kept.iter().any(|one| one.starts_with(b"[[[") && one.len() == 20_000));
    assert!(kept.iter().all(|one| one.len() <= 1 << 20), "a giant is cut");
}

/// Plants each by hand while no run is alive; then a good flag, and honest agents.
fn by_hand(kinds: &[(&str, &str)]) -> Stage {
    let stage = parked_in("propose");
    let daemon = stage.start();
    wait_until_parked(&stage, "propose");
    for (at, (kind, rule)) in kinds.iter().enumerate() {
        plant(&stage, kind, FLAG);
        stage.wait(&format!("the refusal of {kind}"), || {
            (is_gone(&stage) && refusals(&stage).len() > at).then_some(())
        });
        assert_eq!(refusals(&stage)[at], *rule, "{kind}");
        assert!(stage.transitions().is_empty(), "{kind} moved the loop");
    }
    unmark(&stage, "fail-propose");
    put_flag(&stage, &flag("claude-code", "proposed"));
    stage.wait("the last commit", || (stage.transitions().len() == 4).then_some(()));
    assert_eq!(refusals(&stage).len(), kinds.len(), "each once");
    super::beside::wait_for_status(&stage, "");
    drop(daemon);
    stage
}

// covers: DM-04, LP-09, LP-04
#[test]
fn hostile_flags_by_hand_are_refused_at_once() {
    check_quarantine(&by_hand(&AT_ONCE));
}

// covers: DM-04, DM-03
#[test]
fn an_empty_flag_by_hand_is_refused_in_time() {
    by_hand(&IN_TIME[..1]);
}

// covers: DM-04, DM-03
#[test]
fn a_hard_link_by_hand_is_refused_in_time() {
    let stage = by_hand(&IN_TIME[1..]);
    assert!(stage.at("home/original").exists(), "its other name is left alone");
}

// covers: DM-04, LP-09, LP-04
#[test]
fn hostile_flags_of_an_agent_are_refused_at_its_exit() {
    let agent = format!(
        "todo=$(head -n 1 \"$HOME/todo\"); sed -i 1d \"$HOME/todo\"\n\
         if [ -n \"$todo\" ]; then set -- \"$todo\"; {PLANT}\nexit 0; fi\n{HONEST}"
    );
    let stage = Stage::new(&agent);
    super::parked::park_for_long(&stage);
    let kinds: Vec<_> = AT_ONCE.iter().chain(&IN_TIME).collect();
    let todo: String = kinds.iter().map(|(kind, _)| format!("{kind}\n")).collect();
    std::fs::write(stage.at("home/todo"), todo).unwrap();
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the last commit", || (stage.transitions().len() == 4).then_some(()));
    let wanted: Vec<_> = kinds.iter().map(|(_, rule)| (*rule).to_owned()).collect();
    assert_eq!(refusals(&stage), wanted, "in the order of {kinds:?}");
    check_quarantine(&stage);
    assert!(is_gone(&stage));
    super::beside::wait_for_status(&stage, "");
    drop(daemon);
}

// covers: LP-11, DM-04
#[test]
fn what_is_planted_in_the_place_of_our_state_is_put_right() {
    let stage = parked_in("propose");
    let daemon = stage.start();
    wait_until_parked(&stage, "propose");
    let ours = stage.read(STATE).unwrap();
    let path = stage.repo().join(STATE);
    for (at, kind) in ["passwd", "zero", "fifo", "huge", "folder", "deep"].iter().enumerate() {
        std::fs::remove_file(&path).unwrap();
        plant(&stage, kind, STATE);
        stage.wait(&format!("the repair after {kind}"), || {
            let told = stage.escalation("LP-11")?;
            // Not read before it is small: nobody else should read a giant either.
            let meta = path.symlink_metadata().ok()?;
            let small = meta.is_file() && meta.len() < 1 << 20;
            let repaired = small && stage.read(STATE)? == ours;
            (repaired && told["count"].as_u64()? > at as u64).then_some(())
        });
    }
    assert!(!quarantined(&stage).contains(&std::fs::read("/etc/passwd").unwrap()));
    unmark(&stage, "fail-propose");
    put_flag(&stage, &flag("claude-code", "proposed"));
    stage.wait("the last commit", || (stage.transitions().len() == 4).then_some(()));
    super::beside::wait_for_status(&stage, "");
    drop(daemon);
}
