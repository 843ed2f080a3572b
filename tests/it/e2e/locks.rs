//! Locks with the real program: many processes fight for one, a frozen holder is fenced off, other writers keep their keys.

use super::stage::{Stage, wait_until};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

/// Fights in all; `AGENCY_TRIALS=2000` is the full number.
const EVERYDAY: usize = 64;
const FIGHTERS: usize = 16;
const STATE: &str = ".claude/state.json";

/// Each fight: alone in the room, one more in the count, and the token written down.
const FIGHT: &str = r#"
mkdir "$HOME/room" 2> /dev/null || echo two >> "$HOME/violations"
n=$(cat "$HOME/count"); echo $((n + 1)) > "$HOME/count"
echo "$AGENCY_LOCK_TOKEN" >> "$HOME/tokens"
rmdir "$HOME/room" 2> /dev/null || true
"#;

fn state(stage: &Stage) -> Value {
    serde_json::from_str(&stage.read(STATE).unwrap_or_default()).unwrap_or_default()
}

// covers: HO-05, HO-04
#[test]
fn sixteen_processes_fight_for_one_lock_and_never_two_hold_it() {
    let trials = std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok());
    let each = trials.unwrap_or(EVERYDAY).min(2000).div_ceil(FIGHTERS);
    let stage = Stage::new("");
    stage.write(STATE, r#"{"schema_version": "1.0.0", "theirs": "stays"}"#);
    std::fs::write(stage.at("home/count"), "0").unwrap();
    std::fs::write(stage.at("home/fight.sh"), FIGHT).unwrap();
    let program = env!("CARGO_BIN_EXE_agency");
    let fighters: Vec<_> = (0..FIGHTERS)
        .map(|n| {
            let script = format!(
                "for i in $(seq {each}); do {program} lock run board --agent p{n} --wait 10m -- sh \"$HOME/fight.sh\" || exit 1; done"
            );
            let command = stage.program();
            let mut shell = std::process::Command::new("sh");
            shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            shell.args(["-c", &script]).current_dir(stage.repo()).stdin(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut fighter in fighters {
        assert!(fighter.wait().unwrap().success());
    }
    let read = |name: &str| std::fs::read_to_string(stage.at(name)).unwrap_or_default();
    let total = each * FIGHTERS;
    assert_eq!(read("home/violations"), "", "two held the lock at once");
    assert_eq!(read("home/count").trim(), total.to_string(), "no count was lost");
    let tokens: Vec<u64> = read("home/tokens").lines().map(|line| line.parse().unwrap()).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "the token rises");
    let state = state(&stage);
    assert_eq!(state["lock_counter"], total, "no update of the state was lost");
    assert_eq!((&state["theirs"], &state["locks"]), (&"stays".into(), &serde_json::json!({})));
    eprintln!("{total} fights of {FIGHTERS} processes");
}

// covers: HO-05
#[test]
fn a_holder_frozen_past_its_expiry_cannot_write_after_the_take_over() {
    let stage = Stage::new("");
    let program = env!("CARGO_BIN_EXE_agency");
    let script = format!(
        "echo \"$AGENCY_LOCK_TOKEN\" > \"$HOME/token\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; \
         echo old | {program} lock write docs --token \"$AGENCY_LOCK_TOKEN\" out.txt"
    );
    let mut command = stage.program();
    command.args([
        "lock", "run", "docs", "--agent", "first", "--ttl", "400ms", "--", "sh", "-c", &script,
    ]);
    command.process_group(0).stderr(Stdio::piped());
    let holder = command.spawn().unwrap();
    let group = Pid::from_raw(i32::try_from(holder.id()).unwrap());
    stage.wait("the first holder", || {
        std::fs::read_to_string(stage.at("home/token")).ok().filter(|it| it.ends_with('\n'))
    });
    // In the middle of its work, between two renewals: everything of it stands still.
    killpg(group, Signal::SIGSTOP).unwrap();
    let first = std::fs::read_to_string(stage.at("home/token")).unwrap().trim().to_owned();
    let second = stage
        .ok(&["lock", "acquire", "docs", "--agent", "second", "--wait", "20s"])
        .trim()
        .to_owned();
    assert!(second.parse::<u64>().unwrap() > first.parse::<u64>().unwrap());
    let write = |token: &str, text: &str| {
        let mut command = stage.program();
        command.args(["lock", "write", "docs", "--token", token, "out.txt"]).stdin(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        child.wait().unwrap().code().unwrap()
    };
    assert_eq!(write(&second, "new"), 0);
    std::fs::write(stage.at("home/go"), "").unwrap();
    killpg(group, Signal::SIGCONT).unwrap();
    let ended = holder.wait_with_output().unwrap();
    assert!(!ended.status.success(), "the frozen holder learns that it lost the lock");
    assert_eq!(
        stage.read("out.txt").as_deref(),
        Some("new"),
        "nothing of the old holder got through"
    );
    assert_eq!(write(&first, "old"), 1, "its token is refused");
    for verb in ["check", "release", "renew"] {
        assert_eq!(stage.agency(&["lock", verb, "docs", "--token", &first]).code, 1, "{verb}");
    }
    assert_eq!(stage.read("out.txt").as_deref(), Some("new"));
    stage.ok(&["lock", "check", "docs", "--token", &second]);
    stage.ok(&["lock", "release", "docs", "--token", &second]);
    assert_eq!(stage.json(&["lock", "list", "--json"]), serde_json::json!([]));
}

// covers: HO-05, HO-04
#[test]
fn locks_written_by_hand_count_and_another_file_is_never_overwritten() {
    let stage = Stage::new("");
    let lock = |expires: &str| {
        format!(
            r#"{{"schema_version": "1.0.0", "locks": {{"a": {{"agent": "reviewer", "acquired": "2026-01-01T00:00:00Z", "expires": "{expires}"}}}}}}"#
        )
    };
    stage.write(STATE, lock("2999-01-01T00:00:00Z"));
    let busy = stage.agency(&["lock", "acquire", "a"]);
    assert_eq!(busy.code, 75, "{}", busy.err);
    assert!(busy.err.contains("held by `reviewer`"), "{}", busy.err);
    assert_eq!(stage.agency(&["lock", "run", "a", "--", "touch", "never"]).code, 75);
    assert!(stage.read("never").is_none());
    stage.write(STATE, lock("2026-01-01T00:30:00Z"));
    let taken = stage.json(&["lock", "acquire", "a", "--agent", "fixer", "--json"]);
    assert_eq!((&taken["taken_over_from"], &taken["token"]), (&"reviewer".into(), &1.into()));
    assert_eq!(state(&stage)["locks"]["a"]["agent"], "fixer");
    for other in ["[1, 2]", "{\"locks\": 7}", "not json", "{\"schema_version\": \"2.0.0\"}"] {
        stage.write(STATE, other);
        assert_eq!(stage.agency(&["lock", "acquire", "a"]).code, 1, "{other}");
        assert_eq!(stage.agency(&["handoff", "start", "Add it"]).code, 1, "{other}");
        assert_eq!(stage.read(STATE).as_deref(), Some(other), "it stays as it is");
    }
}

// covers: HO-05
#[test]
fn a_command_under_a_lock_is_renewed_and_gives_its_exit_code() {
    let stage = Stage::new("");
    let begun = stage.at("home/begun");
    let script = format!(
        "touch {}; while [ ! -e $HOME/stop ]; do sleep 0.02; done; exit 7",
        begun.display()
    );
    let mut holder = stage.program();
    holder.args(["lock", "run", "x", "--ttl", "300ms", "--", "sh", "-c", &script]);
    let mut holder = holder.spawn().unwrap();
    stage.wait("the command", || begun.exists().then_some(()));
    let expires = || state(&stage)["locks"]["x"]["expires"].as_str().map(str::to_owned);
    let first = expires().unwrap();
    let renewed = wait_until(Duration::from_secs(30), || expires().filter(|now| *now != first));
    assert!(renewed.is_some(), "it is renewed while it is held");
    let unique: BTreeSet<i64> = [state(&stage)["locks"]["x"]["token"].as_i64().unwrap(), 1].into();
    assert_eq!(unique.len(), 1, "with the same token");
    std::fs::write(stage.at("home/stop"), "").unwrap();
    assert_eq!(holder.wait().unwrap().code(), Some(7));
    assert_eq!(state(&stage)["locks"], serde_json::json!({}), "and given back");
}
