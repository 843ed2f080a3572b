//! A night with one daemon and three repositories: every trouble of a provider once, a hang, two kills of the daemon. In the
//! morning all work is done, and each trouble is accounted for. The agents are scripts; `real_clis` has the real ones.

use super::handoff::RELAY;
use super::stage::{HONEST, Stage, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

const BOARD: &str = include_str!("../agents/board.sh");
/// What the provider does, one for each run of `claude` that begins, in this order; then the sky is clear.
const WEATHER: [(&str, &str); 6] = [
    ("1-unavailable", r#"{"type":"system","subtype":"api_retry","error_status":503,"error":"x"}"#),
    ("2-refused", r#"{"type":"system","subtype":"api_retry","error":"x"}"#),
    (
        "3-slow-down",
        r#"{"type":"system","subtype":"api_retry","error_status":429,"error":"rate_limit","retry_delay_ms":1000}"#,
    ),
    (
        "4-limit",
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":SOON}}"#,
    ),
    (
        "5-sign-in",
        r#"{"type":"system","subtype":"api_retry","error_status":401,"error":"authentication_failed"}"#,
    ),
    ("6-hang", ""),
];
/// A fake `claude`: takes the next trouble, says it four times and hangs; without one it does its part.
const CLAUDE: &str = r#"#!/bin/sh
for trouble in "$HOME"/weather/*; do
  mv "$trouble" "$HOME/$AGENCY_RUN.trouble" 2> /dev/null || continue
  line=$(sed "s/SOON/$(($(date +%s) + 2))/" "$HOME/$AGENCY_RUN.trouble")
  if [ -n "$line" ]; then
    echo '{"type":"system","subtype":"init","session_id":"s-1"}'
    for n in 1 2 3 4; do echo "$line"; done
  fi
  exec sleep 300
done
exec sh "$HOME/../agent.sh"
"#;
const PROFILE: &str = "name: tiny\ndescription: x\ncommands: [\"true\"]\n";

fn night() -> (Stage, [PathBuf; 3]) {
    let stage = Stage::new("");
    for (name, script) in [("loop.sh", HONEST), ("board.sh", BOARD), ("relay.sh", RELAY)] {
        fs::write(stage.at(name), script).unwrap();
    }
    let agent = "case \"$AGENCY_PROTOCOL\" in board) s=board ;; handoff) s=relay ;; *) s=loop ;; esac\nexec sh \"$HOME/../$s.sh\"\n";
    fs::write(stage.at("agent.sh"), agent).unwrap();
    for dir in ["bin", "home/weather", "board", "relay"] {
        fs::create_dir_all(stage.at(dir)).unwrap();
    }
    let claude = stage.at("bin/claude");
    fs::write(&claude, CLAUDE).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, line) in WEATHER {
        fs::write(stage.at("home/weather").join(name), line).unwrap();
    }
    let config = format!(
        "agents:\n  claude-code: {{ profile: claude, retries: 2, backoff: 100ms, first_output: 2s }}\n  \
         codex: {{ command: [sh, {}], retries: 2, backoff: 100ms }}\nboard: {{ auditor: codex, disk_floor: 1MiB }}\n",
        stage.at("agent.sh").display()
    );
    stage.set_config(&config);
    let path = format!("{}:{}", stage.at("bin").display(), std::env::var("PATH").unwrap());
    let stage = stage.with_env("PATH", &path);
    let roots = [stage.repo(), stage.at("board"), stage.at("relay")];
    begin(&stage, &roots);
    (stage, roots)
}

fn begin(stage: &Stage, [in_loop, board, relay]: &[PathBuf; 3]) {
    let ok = |dir: &PathBuf, words: &[&str]| {
        let said = stage.agency_in(dir, words);
        assert_eq!(said.code, 0, "agency {words:?}: {}{}", said.out, said.err);
    };
    ok(in_loop, &["loop", "init", "--steps", "1"]);
    for dir in [board, relay] {
        fs::write(dir.join("README.md"), "the project\n").unwrap();
        stage.git_in(dir, &["init", "--quiet", "--initial-branch=main"]);
        stage.git_in(dir, &["add", "-A"]);
        stage.git_in(dir, &["commit", "--quiet", "-m", "the owner's first commit"]);
    }
    ok(board, &["init", "--orchestrator", "other", "--builders", "claude-code,codex"]);
    fs::write(board.join(".kodingx/dod/profiles/tiny.yml"), PROFILE).unwrap();
    stage.git_in(board, &["add", "-A"]);
    stage.git_in(board, &["commit", "--quiet", "-m", "a board"]);
    let task = ["task", "new", "--title", "plain", "--assignee", "claude-code"];
    ok(board, &[&task[..], &["--dod-profile", "tiny", "--may-touch", "work/**"]].concat());
    ok(relay, &["handoff", "start", "--type", "feature", "Add", "user", "auth"]);
}

fn conditions(stage: &Stage, roots: &[PathBuf]) -> Vec<String> {
    let of = |dir: &PathBuf| {
        let status = stage.agency_in(dir, &["status", "--json"]);
        let status: Value = serde_json::from_str(&status.out).unwrap_or_default();
        let repos = status["repos"].as_array().cloned().unwrap_or_default();
        let here = repos.iter().find(|repo| repo["path"] == dir.to_str().unwrap()).cloned();
        let condition = &here.unwrap_or_default()["protocols"][0]["condition"];
        format!("{}: {}", condition["kind"].as_str().unwrap_or("?"), condition["reason"])
    };
    roots.iter().map(of).collect()
}

/// How many runs ended in which way.
fn outcomes(stage: &Stage) -> BTreeMap<String, usize> {
    let runs = stage.agency_in(&stage.at(""), &["runs", "--all", "--json"]);
    let runs: Value = serde_json::from_str(&runs.out).unwrap();
    let mut count = BTreeMap::new();
    for run in runs.as_array().unwrap() {
        *count.entry(run["outcome"].as_str().unwrap_or("alive").to_owned()).or_default() += 1;
    }
    count
}

// covers: SU-02, SU-05, SU-09, SU-10, DM-06
#[test]
fn three_repositories_come_through_a_night_of_every_trouble() {
    let (stage, roots) = night();
    let words: Vec<&str> = roots.iter().map(|root| root.to_str().unwrap()).collect();
    let left = || fs::read_dir(stage.at("home/weather")).unwrap().count();
    // Two kills while troubles are under way: with 4 and with 2 of the 6 still to come.
    for wanted in [4, 2] {
        let daemon = stage.start_with(&words);
        stage.wait("the weather", || (left() <= wanted).then_some(()));
        daemon.kill();
    }
    let daemon = stage.start_with(&words);
    let mut asked = 0;
    let over = wait_until(Duration::from_secs(60), || {
        let now = conditions(&stage, &roots);
        for (root, _) in roots.iter().zip(&now).filter(|(_, now)| now.starts_with("held")) {
            let said = stage.agency_in(root, &["resume"]);
            asked += usize::from(said.code == 0);
        }
        let done = |now: &String| now.starts_with("done") || now.starts_with("idle");
        (left() == 0 && now.iter().all(done)).then_some(())
    });
    let now = conditions(&stage, &roots);
    assert!(over.is_some(), "{now:?}\n{:?}\n{}", outcomes(&stage), stage.daemon_log());
    assert_eq!(asked, 1, "the failed sign-in asks once, nothing else does");
    let count = outcomes(&stage);
    let of = |word: &str| count.get(word).copied().unwrap_or_default();
    let troubles = ["provider", "usage-limit", "auth", "timeout"].map(of);
    assert_eq!(troubles, [3, 1, 1, 1], "{count:?}");
    for word in ["lost", "crash", "no-artifact", "denied", "not-found", "alive"] {
        assert_eq!(of(word), 0, "{count:?}");
    }
    assert_eq!(stage.state()["phase"], "complete");
    assert_eq!(stage.git_in(&roots[1], &["show", "main:work/T0001.txt"]), "T0001");
    assert!(stage.git_in(&roots[2], &["log", "--format=%s"]).contains("the work"));
    for root in &roots {
        let told = stage.agency_in(root, &["escalations", "--all", "--json"]).out;
        for rule in ["SU-06", "SU-09", "DM-10", "DM-17", "DM-21"] {
            assert!(!told.contains(&format!("\"{rule}\"")), "{rule}: {told}");
        }
    }
    assert_eq!(daemon.stop(), 0);
}
