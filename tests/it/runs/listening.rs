//! Runs whose output is understood: what is known while they run, at their end, and after a restart. Their agents are scripts.

use super::stage::{Stage, wait_until};
use agency::config::{Price, Profile};
use agency::model::{Access, Outcome, RunEnd};
use agency::run::{Executor, HeldState, RunSpec, history};
use std::time::Duration;
use tempfile::tempdir;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1"}"#;
const RETRY: &str =
    r#"{"type":"system","subtype":"api_retry","error_status":401,"error":"authentication_failed"}"#;
const BUSY: &str =
    r#"{"type":"system","subtype":"api_retry","error_status":529,"error":"overloaded"}"#;
const ANSWER: &str = r#"{"type":"assistant","message":{"id":"m","usage":{"input_tokens":9}}}"#;

fn result(cost: &str, more: &str) -> String {
    format!(
        r#"{{"type":"result","subtype":"success","session_id":"s-1","total_cost_usd":{cost},"modelUsage":{{"m":{{"inputTokens":70}}}}{more}}}"#
    )
}

/// A run of claude that says these lines, and then does the rest of the script.
fn claude(stage: &Stage, lines: &[&str], rest: &str) -> RunSpec {
    let mut script: String = lines.iter().map(|line| format!("echo '{line}'\n")).collect();
    script.push_str(rest);
    RunSpec { profile: Some(Profile::Claude), ..stage.spec(&script) }
}

fn cost(end: &RunEnd) -> Option<u64> {
    end.usage.cost_microusd
}

// covers: SU-05
#[tokio::test]
async fn exit_zero_with_an_error_in_the_stream_is_no_success() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let failed = result("0", r#","is_error":true,"api_error_status":401"#);
    let spec = claude(&stage, &[INIT, &failed], "exit 0");
    assert_eq!(stage.play(&spec).await.outcome.word(), "auth");
    let unread = RunSpec { profile: None, ..claude(&stage, &[INIT, &failed], "exit 0") };
    assert_eq!(stage.play(&unread).await.outcome, Outcome::Ok, "nobody's output is not read");
    assert!(!stage.folder(&unread).path().join("usage.json").exists());
}

/// It would go on to retry for minutes: what it says while it runs explains why our limit had to end it.
// covers: SU-05
#[tokio::test]
async fn a_refusal_is_known_while_it_runs_and_explains_the_time_limit() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let mut spec =
        claude(&stage, &[INIT, BUSY], "while [ ! -e go ]; do sleep 0.05; done; sleep 60");
    spec.limits.silence_s = Some(4);
    stage.start(&spec);
    let folder = stage.folder(&spec);
    wait_until("its trouble is known", || {
        folder.usage().is_some_and(|file| file.trouble.as_deref() == Some("overloaded"))
    })
    .await;
    let listed = history::list(&dir.path().join("runs"));
    assert_eq!((listed[0].state, listed[0].trouble.as_deref()), ("running", Some("overloaded")));
    assert_eq!(listed[0].session.as_deref(), Some("s-1"));
    let end = stage.end().await;
    assert_eq!(end.outcome.word(), "provider");
    assert_eq!(stage.json(&spec, "exit.json")["how"]["timeout"], "silence");
}

/// Its own retries would take minutes.
// covers: SU-10
#[tokio::test]
async fn a_failed_sign_in_ends_the_run_at_once_and_says_what_to_do() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let mut spec = claude(&stage, &[INIT, RETRY], "sleep 60");
    spec.agent = Some("claude-code".to_owned());
    let end = stage.play(&spec).await;
    let asks = "claude-code cannot sign in (401). Check ANTHROPIC_API_KEY or run \"claude\" once, then: agency resume";
    assert_eq!(end.outcome.request("x"), asks);
    assert_eq!(stage.json(&spec, "exit.json")["how"]["stopped"], "its provider refuses it");
    let listed = history::list(&dir.path().join("runs"));
    assert_eq!(listed[0].outcome, Some("auth"));
}

// covers: SU-09
#[tokio::test]
async fn a_provider_that_refuses_again_and_again_ends_the_run_early() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = claude(&stage, &[INIT, BUSY, BUSY, BUSY, BUSY], "sleep 60");
    let end = stage.play(&spec).await;
    let what = "is not served by its provider (529)".to_owned();
    assert_eq!(end.outcome, Outcome::Provider { what, retry_at: None });
    let network = r#"{"type":"error","message":"Reconnecting... waiting for network (Connection failed: error sending request)"}"#;
    let codex = RunSpec {
        profile: Some(Profile::Codex),
        ..claude(&stage, &[network, network, network, network], "sleep 60")
    };
    let end = stage.play(&codex).await;
    let what = "cannot reach its provider (no connection)".to_owned();
    assert_eq!(end.outcome, Outcome::Provider { what, retry_at: None });
}

// covers: SU-09
#[tokio::test]
async fn a_provider_that_answers_again_in_time_ends_nothing() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let lines = [INIT, BUSY, BUSY, BUSY, ANSWER, BUSY, BUSY, ANSWER, &result("0.1", "")];
    let spec = claude(&stage, &lines, "");
    assert_eq!(stage.play(&spec).await.outcome, Outcome::Ok);
}

// covers: SU-11
#[tokio::test]
async fn a_program_that_is_not_there_is_not_found() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let mut spec = claude(&stage, &[], "");
    (spec.argv, spec.agent) = (vec!["claude-is-not-here".to_owned()], Some("builder-1".to_owned()));
    let end = stage.play(&spec).await;
    assert_eq!(end.outcome.word(), "not-found");
    let asks = end.outcome.request("x");
    assert!(
        asks.starts_with(
            "builder-1 cannot start: \"claude-is-not-here\" is not in PATH. Install it: npm install"
        ),
        "{asks}"
    );
}

// covers: SU-05
#[tokio::test]
async fn our_own_stop_is_a_stop_whatever_the_stream_says() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = claude(&stage, &[INIT, BUSY], "sleep 60");
    stage.start(&spec);
    let folder = stage.folder(&spec);
    wait_until("it is heard", || folder.usage().is_some_and(|file| file.trouble.is_some())).await;
    stage.executor.cancel(&spec.spawn.run, "enough", Duration::ZERO).unwrap();
    assert_eq!(stage.end().await.outcome, Outcome::Stopped { why: "enough".to_owned() });
}

// covers: SU-07
#[tokio::test]
async fn each_run_of_a_session_is_charged_its_own_part() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let first = claude(&stage, &[INIT, &result("0.00848", "")], "");
    let end = stage.play(&first).await;
    assert_eq!((end.outcome.clone(), cost(&end)), (Outcome::Ok, Some(8_480)));
    let session = end.usage.session.unwrap();
    let mut second = claude(&stage, &[INIT, &result("0.01696", "")], "");
    second.spawn.resume = Some(session);
    assert_eq!(cost(&stage.play(&second).await), Some(8_480));
    let mut third = claude(&stage, &[INIT, &result("0.01896", "")], "");
    third.spawn.resume = Some("s-1".to_owned());
    let end = stage.play(&third).await;
    assert_eq!((cost(&end), end.usage.input_tokens), (Some(2_000), Some(0)));
    assert_eq!(stage.json(&third, "run.json")["before"]["cost_microusd"], 16_960);
    let costs: Vec<_> =
        history::list(&dir.path().join("runs")).iter().map(|r| r.cost_usd).collect();
    assert_eq!(costs, [Some(0.008_48), Some(0.008_48), Some(0.002)]);
}

// covers: SU-05
#[tokio::test]
async fn an_end_that_no_daemon_saw_is_judged_from_the_logs() {
    let dir = tempdir().unwrap();
    let mut first = Stage::new(dir.path());
    let limit =
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":4}}"#;
    let failed = result("0.5", r#","is_error":true,"api_error_status":429"#);
    let rest =
        format!("while [ ! -e go ]; do sleep 0.02; done; echo '{limit}'; echo '{failed}'; exit 1");
    let spec = claude(&first, &[INIT], &rest);
    first.start(&spec);
    first.started().await;
    drop(first);
    std::fs::write(dir.path().join("go"), "").unwrap();
    let mut second = Stage::new(dir.path());
    let folder = second.folder(&spec);
    wait_until("it has ended", || folder.exit().is_some()).await;
    assert_eq!(history::list(&dir.path().join("runs"))[0].outcome, Some("crash"), "not judged yet");
    assert_eq!(second.executor.adopt().unwrap()[0].state, HeldState::Ended);
    let end = second.end().await;
    let until = agency::model::Timestamp::from_timestamp(4, 0);
    assert_eq!((cost(&end), end.outcome), (Some(500_000), Outcome::UsageLimit { until }));
    assert_eq!(history::list(&dir.path().join("runs"))[0].outcome, Some("usage-limit"));
}

/// The line with the session is long gone from the logs; what was known of it stays known.
// covers: SU-07
#[tokio::test]
async fn what_was_read_before_a_rotation_survives_a_restart() {
    let dir = tempdir().unwrap();
    let mut first = Stage::new(dir.path());
    let flood = "while [ ! -e go ]; do sleep 0.02; done; yes 'not an event' | head -c 400000";
    let mut spec = claude(&first, &[INIT, ANSWER], flood);
    spec.limits.log_bytes = 1;
    first.start(&spec);
    let folder = first.folder(&spec);
    let knows = || folder.usage().is_some_and(|file| file.usage.input_tokens == Some(9));
    wait_until("the session is known", knows).await;
    first.started().await;
    drop(first);
    std::fs::write(dir.path().join("go"), "").unwrap();
    wait_until("it has ended", || folder.exit().is_some()).await;
    assert!(!std::fs::read_to_string(folder.stdout()).unwrap().contains("s-1"));
    let mut second = Stage::new(dir.path());
    second.executor.adopt().unwrap();
    let usage = second.end().await.usage;
    assert_eq!((usage.session.as_deref(), usage.input_tokens), (Some("s-1"), Some(9)));
}

/// Its answer is known to whoever hears of its end, also when the logs tell no more and also after a restart.
// covers: AG-34
#[tokio::test]
async fn the_last_message_of_one_that_may_not_write_comes_with_its_end() {
    let dir = tempdir().unwrap();
    let mut first = Stage::new(dir.path());
    let said = result("0", r#","result":"---\\nverdict: PASS\\n---\\n\\u001b[31m""#);
    let writer = claude(&first, &[INIT, ANSWER, &said], "");
    let mut reader = claude(&first, &[INIT, ANSWER, &said], "");
    reader.spawn.access = Access::ReadOnly;
    assert_eq!(first.play(&writer).await.said, None, "its files are its answer");
    let wanted = Some("---\nverdict: PASS\n---\n[31m".to_owned());
    assert_eq!(first.play(&reader).await.said, wanted);
    let folder = first.folder(&reader);
    drop(first);
    std::fs::write(folder.stdout(), "").unwrap();
    let mut second = Stage::new(dir.path());
    second.executor.adopt().unwrap();
    let ends = [second.end().await, second.end().await];
    let end = ends.iter().find(|end| end.run == reader.spawn.run).unwrap();
    assert_eq!(end.said, wanted);
}

// covers: SU-13
#[tokio::test]
async fn a_price_applies_by_the_model_that_the_cli_names() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let init = r#"{"type":"init","session_id":"s-1","model":"model-g"}"#;
    let used = r#"{"type":"result","status":"success","stats":{"input_tokens":2000,"output_tokens":100,"total_tokens":2100}}"#;
    let said = |model: &str| init.replace("model-g", model);
    for (model, wanted) in [("model-g", Some(3_000)), ("model-h", None)] {
        let script = format!("echo '{}'\necho '{used}'", said(model));
        let mut spec = RunSpec { profile: Some(Profile::Gemini), ..stage.spec(&script) };
        spec.prices.insert("model-g".to_owned(), Price { input: 1.0, output: 10.0 });
        let end = stage.play(&spec).await;
        assert_eq!((cost(&end), end.usage.estimated), (wanted, wanted.is_some()), "{model}");
    }
    let runs = history::list(&dir.path().join("runs"));
    assert!(runs.iter().any(|run| run.model.as_deref() == Some("model-h")), "it is shown");
}
