//! Who sits in a seat, end to end: a program that is missing, what an agent may do, what it costs. The agents are scripts named
//! `claude`, so that they are started by its profile.

use super::stage::{HONEST, Stage};
use agency::run::sandbox::Kernel;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"model-c"}"#;
/// How its runs end: 2,000 tokens in, 100 out, and no price.
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","modelUsage":{"model-c":{"inputTokens":2000,"outputTokens":100}},"permission_denials":[DENIED]}"#;

fn program(stage: &Stage, name: &str, script: &str) {
    fs::create_dir_all(stage.at("bin")).unwrap();
    let file = stage.at("bin").join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A loop whose builder is `claude`, which keeps its arguments, works as this script says and is refused these tools.
fn with_claude(work: &str, denied: &str, settings: &str, more: &str) -> Stage {
    let stage = Stage::new(HONEST);
    let result = RESULT.replace("DENIED", denied);
    let args = "printf '%s ' \"$@\" | head -c 600 >> \"$HOME/args\"; echo >> \"$HOME/args\"";
    program(&stage, "claude", &format!("{args}\necho '{INIT}'\n{work}\necho '{result}'"));
    let agent = stage.at("agent.sh");
    let text = format!(
        "agents:\n  claude-code: {{ profile: claude, retries: 0{settings} }}\n  codex: {{ command: [sh, {}] }}\n{more}",
        agent.display()
    );
    stage.set_config(&text);
    let path = format!("{}:{}", stage.at("bin").display(), std::env::var("PATH").unwrap());
    stage.with_env("PATH", &path)
}

fn notes(stage: &Stage) -> Vec<String> {
    let status = stage.json(&["status", "--json"]);
    serde_json::from_value(status["repos"][0]["notes"].clone()).unwrap()
}

// covers: SU-11
#[test]
fn a_missing_program_is_shown_and_told_before_its_first_start_and_noticed_when_it_comes() {
    let waits = "while [ -e \"$HOME/wait\" ]; do sleep 0.05; done\nsh \"$HOME/../agent.sh\"";
    let stage = with_claude(waits, "", "", "");
    let text = fs::read_to_string(stage.at("agency.yaml")).unwrap();
    let reviewer = "  codex: { command: [reviewer-that-is-missing], retries: 0 }\n";
    let sandbox = |line: &&str| line.starts_with("sandbox");
    let kept = text.lines().filter(|line| !line.starts_with("  codex") && !sandbox(line));
    let kept: Vec<_> = kept.collect();
    stage.set_config(&format!("{}\n{reviewer}", kept.join("\n")));
    fs::write(stage.at("home/wait"), "").unwrap();
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let says = "codex cannot start: \"reviewer-that-is-missing\" is not in PATH. Install it";
    let told = stage.wait("the message", || stage.escalation("SU-11"));
    assert_eq!((&told["summary"], &told["severity"]), (&says.into(), &"warning".into()));
    assert_eq!(notes(&stage), [says], "status has the fix");
    assert!(stage.ok(&["status"]).contains(says));
    let runs = stage.json(&["runs", "--json"]);
    assert!(runs.as_array().unwrap().iter().all(|run| run["agent"] != "codex"), "{runs}");
    program(&stage, "reviewer-that-is-missing", "exec sh \"$HOME/../agent.sh\"");
    fs::remove_file(stage.at("home/wait")).unwrap();
    stage.wait_for_phase("complete");
    stage.wait("the end of the notice", || {
        let all = stage.json(&["escalations", "--all", "--json"]);
        let ours = all.as_array().unwrap().iter().find(|one| one["rule"] == "SU-11").cloned();
        (ours?["state"] == "resolved" && notes(&stage).is_empty()).then_some(())
    });
    assert_eq!(daemon.stop(), 0);
}

// covers: SU-12
#[test]
fn a_denial_names_the_command_and_the_setting_that_allows_it() {
    let denied = r#"{"tool_name":"Bash","tool_input":{"command":"npm test"}}"#;
    let stage = with_claude(":", denied, ", permissions: edit", "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the question", || stage.escalation("SU-12"));
    let asks = "claude-code was not allowed to run \"npm test\". Allow it: agents.claude-code.permissions: test";
    assert!(told["summary"].as_str().unwrap().starts_with(asks), "{told}");
    let runs = stage.json(&["runs", "--json"]);
    assert_eq!((runs.as_array().unwrap().len(), &runs[0]["outcome"]), (1, &"denied".into()));
    let edit = fs::read_to_string(stage.at("home/args")).unwrap();
    assert!(edit.contains("acceptEdits") && !edit.contains("--allowedTools"), "{edit}");
    assert_eq!(daemon.stop(), 0);
}

// covers: SU-12
#[test]
fn a_builder_may_run_the_gates_without_asking_and_doctor_shows_its_command_line() {
    let gate = "loop: { gates: [\"sh -c true && echo fine\"] }\n";
    let stage = with_claude("sh \"$HOME/../agent.sh\"", "", ", model: m-1", gate);
    let doctor = stage.agency(&["doctor"]);
    let allowed = "--allowedTools=Bash(sh -c true:*),Bash(echo fine:*) --model m-1";
    assert!(doctor.out.contains(allowed), "{}", doctor.out);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait_for_phase("complete");
    let args = fs::read_to_string(stage.at("home/args")).unwrap();
    assert!(args.contains("--allowedTools=Bash(sh -c true:*),Bash(echo fine:*)"), "{args}");
    assert_eq!(daemon.stop(), 0);
}

/// A board whose builder is `claude`, with a DoD profile of its own and one that no task names.
fn with_board(work: &str, settings: &str) -> Stage {
    let stage = with_claude(work, "", ", permissions: test", settings);
    fs::write(stage.at("agent.sh"), include_str!("../agents/board.sh")).unwrap();
    stage.ok(&["init", "--orchestrator", "other", "--builders", "claude-code,codex"]);
    let profiles = [("tiny", "[\"test ! -e broken && echo fine\"]"), ("other", "[\"exit 1\"]")];
    for (name, commands) in profiles {
        let profile = format!("name: {name}\ndescription: checks\ncommands: {commands}\n");
        stage.write(&format!(".kodingx/dod/profiles/{name}.yml"), &profile);
    }
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a board"]);
    stage
}

fn finish_one_task(stage: &Stage) {
    let task = ["task", "new", "--title", "plain", "--may-touch", "work/**"];
    stage.ok(&[&task[..], &["--dod-profile", "tiny", "--assignee", "claude-code"]].concat());
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    let tasks = stage.json(&["task", "list", "--json"]);
    assert_eq!(tasks[0]["status"], "DONE", "{tasks}\n{}", stage.daemon_log());
}

// covers: SU-12
#[test]
fn a_boards_builder_may_run_the_commands_of_its_dod_profile_without_asking() {
    let board = "board: { auditor: codex, disk_floor: 1MiB, setup: [\"echo ready\"] }\n";
    let stage = with_board("sh \"$HOME/../agent.sh\"", board);
    finish_one_task(&stage);
    let args = fs::read_to_string(stage.at("home/args")).unwrap();
    let allowed = "--allowedTools=Bash(echo ready:*),Bash(test ! -e broken:*),Bash(echo fine:*) ";
    assert!(args.contains(allowed), "its own profile's commands and the setup: {args}");
}

// covers: SE-06, AG-34
#[test]
fn an_auditor_that_may_only_look_reads_its_worktree_in_the_sandbox_and_writes_nothing_there() {
    let verdict = r"---\ntask_id: T0001\nagent: looker\nverdict: PASS\nfindings: []\n---\nGood.\n";
    let looks = format!(
        "if [ \"$AGENCY_ROLE\" = auditor ]; then\n\
         cat .git work/T0001.txt > \"$HOME/read\"; touch work/mine && touch \"$HOME/wrote\"\n\
         printf '%s\\n' '{}'; exit 0; fi\nsh \"$HOME/../agent.sh\"",
        RESULT.replace("\"done\"", &format!("\"{verdict}\"")).replace("DENIED", "")
    );
    let board =
        "  looker: { profile: claude, retries: 0 }\nboard: { auditor: looker, disk_floor: 1MiB }\n";
    let stage = with_board(&looks, board);
    finish_one_task(&stage);
    let read = fs::read_to_string(stage.at("home/read")).unwrap();
    assert!(read.starts_with("gitdir: ") && read.ends_with("\nT0001\n"), "{read}");
    if let Kernel::Landlock { .. } = Kernel::here() {
        assert!(!stage.at("home/wrote").exists(), "it wrote to its worktree");
    }
}

// covers: SU-13
#[test]
fn tokens_become_money_by_a_price_and_a_cap_on_tokens_stops_the_work() {
    let more = "prices: { model-c: { input: 1, output: 10 } }\nlimits: { tokens_per_day: 2000 }\n";
    let stage = with_claude("sh \"$HOME/../agent.sh\"", "", "", more);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let words = "today's runs used 2100 tokens, and limits.tokens_per_day is 2000";
    stage.wait("the cap", || {
        let status = stage.json(&["status", "--json"]);
        let reason = &status["repos"][0]["protocols"][0]["condition"]["reason"];
        reason.as_str().unwrap_or_default().contains(words).then_some(())
    });
    let runs = stage.json(&["runs", "--json"]);
    let run = &runs[0];
    assert_eq!(
        (runs.as_array().unwrap().len(), &run["cost_usd"]),
        (1, &Value::from(0.003)),
        "{runs}"
    );
    assert_eq!((&run["input_tokens"], &run["output_tokens"]), (&2000.into(), &100.into()));
    assert!(stage.ok(&["runs"]).contains("~$0.00"), "{}", stage.ok(&["runs"]));
    let cost = stage.json(&["cost", "--by", "agent", "--json"]);
    assert!(cost.to_string().contains("\"estimated_usd\":0.003"), "{cost}");
    assert_eq!(daemon.stop(), 0);
}

// covers: SU-12, OP-02
#[test]
fn doctor_names_a_cli_that_is_newer_than_the_proven_one_and_the_end_of_geminis_consumer_sign_in() {
    let stage = Stage::new(HONEST);
    program(&stage, "claude", "echo '99.1.0 (Claude Code)'");
    program(&stage, "gemini", "echo 0.1.0");
    fs::create_dir_all(stage.at("home/.gemini")).unwrap();
    fs::write(stage.at("home/.gemini/oauth_creds.json"), "{}").unwrap();
    fs::write(stage.at("agency.yaml"), "").unwrap();
    let path = format!("{}:/usr/bin:/bin", stage.at("bin").display());
    let stage = stage.with_env("PATH", &path).with_env("ANTHROPIC_API_KEY", "k");
    let said = stage.agency(&["doctor"]);
    for wanted in [
        "99.1.0 (Claude Code)",
        "newer than 2.",
        "Gemini CLI no longer serves free, Pro and Ultra accounts",
    ] {
        assert!(said.out.contains(wanted), "{wanted}: {}", said.out);
    }
}
