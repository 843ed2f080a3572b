//! What `agency run` prints on a terminal, and how `run --once` ends.

use super::stage::{HONEST, Stage};
use crate::board::terminal::Terminal;
use crate::escalate::receiver::{Answer, Receiver};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

// covers: OP-07
#[test]
fn on_a_terminal_the_daemon_prints_who_works_what_moves_and_what_is_held() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1,2"]);
    // The second step's agent says what its phase does not allow.
    let lie = HONEST.replace(
        "status=proposed ;;",
        "status=proposed; [ $AGENCY_TASK = 1 ] || status=executed ;;",
    );
    std::fs::write(stage.at("agent.sh"), lie).unwrap();
    let mut terminal = Terminal::open(&stage, &["run", "--once"]);
    terminal.wait("claude-code works on step 1, propose");
    terminal.wait("claude-code: proposed accepted (RL1), now at 1/review");
    terminal.wait("codex works on step 1, review");
    terminal.wait("codex: approved accepted (RL2), now at 1/execute");
    terminal.wait("refused (loop): LP-03");
    terminal.wait("HELD: ");
    terminal.wait("to resolve: agency resume");
    let (code, shown) = terminal.end();
    assert_eq!(code, 1, "something is held: {shown}");
    assert!(!shown.contains("INFO"), "the log is for files: {shown}");
}

// covers: OP-07
#[test]
fn once_delivers_its_messages_before_it_ends_and_exits_1_when_something_is_held() {
    let hooks = Receiver::new(|number| match number {
        0 => Answer::Status(503),
        _ => Answer::Slow(Duration::from_millis(300)),
    });
    let stage = Stage::new("exit 3");
    let channel = format!(
        "escalation: {{ backoff: 100ms, webhooks: [ {{ url: \"{}\" }} ] }}\n",
        hooks.url("/hook")
    );
    stage.configure_agents("retries: 0", &channel);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let once = stage.agency(&["run", "--once"]);
    assert_eq!(once.code, 1, "{}", once.err);
    let delivered = stage.escalation("SU-06").unwrap()["deliveries"][0]["state"].clone();
    assert_eq!(delivered, "delivered", "before the program ended");
    assert_eq!(stage.agency(&["run", "--once"]).code, 1, "it is still held");
}

// covers: OP-07, SU-07
#[test]
fn once_ends_when_the_days_money_is_spent() {
    // What claude prints at the end of a run that cost a dollar.
    let said = r#"{"type":"result","subtype":"success","is_error":false,"total_cost_usd":1.0,"session_id":"s","result":"done"}"#;
    let script = HONEST.replace("set -eu", &format!("set -eu\necho '{said}'"));
    let stage = Stage::new("");
    let bin = stage.at("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("claude"), format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(bin.join("claude"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let stage = stage.with_env("PATH", &path);
    let text = "agents:\n  claude-code: { profile: claude }\n  codex: { profile: claude }\n\
                limits: { cost_per_day_usd: 1.5 }\n";
    stage.set_config(text);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let once = stage.agency(&["run", "--once"]);
    assert_eq!(stage.started().len(), 2, "{}", once.err);
    assert!(stage.escalation("SU-07").is_some(), "the owner is told: {}", once.err);
    assert_eq!(once.code, 0, "nothing is held: {}", once.err);
}

// covers: SE-04, ES-07
#[test]
fn the_owners_own_verb_is_sent_back_only_when_an_agent_may_have_given_it() {
    let hooks = Receiver::fine();
    let stage = Stage::new("exit 3");
    let channel =
        format!("escalation: {{ webhooks: [ {{ url: \"{}\" }} ] }}\n", hooks.url("/hook"));
    stage.configure_agents("retries: 0", &channel);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let sent = |rule: &str| {
        let bodies = hooks.requests().into_iter().map(|request| request.json());
        bodies.filter(|body| body["rule"] == rule && body["type"] == "escalation.opened").count()
    };
    let daemon = stage.start();
    stage.wait("the hold", || (sent("SU-06") == 1).then_some(()));
    stage.write(".git/hooks/post-commit", "#!/bin/sh\n");
    stage.ok(&["trust"]);
    stage.ok(&["resume"]);
    stage.wait("the next hold", || (sent("SU-06") == 2).then_some(()));
    assert_eq!(sent("SE-04"), 0, "nobody but the owner could have done it");
    let all = stage.json(&["escalations", "--all", "--json"]).to_string();
    assert_eq!(all.matches("SE-04").count(), 2, "it is listed: {all}");
    std::fs::write(stage.at("agent.sh"), "echo ready > \"$HOME/ready\"; sleep 60").unwrap();
    stage.ok(&["resume"]);
    stage.wait("an agent at work", || stage.at("home/ready").exists().then_some(()));
    stage.ok(&["trust"]);
    stage.wait("the announcement", || (sent("SE-04") == 1).then_some(()));
    drop(daemon);
}
