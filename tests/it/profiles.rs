//! What the output of each agent CLI means, on samples in the shapes that the real ones were seen to write. No process runs here.

use agency::config::Profile;
use agency::model::{Outcome, SAID_MAX, Timestamp, Usage};
use agency::run::How;
use agency::run::profile::{Reader, Report, Situation, Stream, by_word, outcome};
use std::path::PathBuf;

fn samples() -> PathBuf {
    crate::scenarios::root("tests/it/profiles")
}

/// Reads `<cli>-<case>.jsonl` (aider: `.txt`) as stdout, and `.stderr` beside it.
fn report(sample: &str) -> Report {
    reader(sample).report()
}

fn reader(sample: &str) -> Reader {
    let profile = by_word(sample.split('-').next().unwrap()).unwrap();
    let mut reader = Reader::new(profile);
    let ext = if profile == Profile::Aider { "txt" } else { "jsonl" };
    let stdout = std::fs::read(samples().join(format!("{sample}.{ext}"))).unwrap();
    let stderr = std::fs::read(samples().join(format!("{sample}.stderr"))).unwrap_or_default();
    for (stream, text) in [(Stream::Stderr, stderr), (Stream::Stdout, stdout)] {
        text.split(|byte| *byte == b'\n').for_each(|line| reader.feed(stream, line));
    }
    reader
}

fn end(how: &How, report: &Report) -> Outcome {
    let now = Timestamp::from_timestamp(1_794_800_000, 0).unwrap();
    outcome(how, report, Situation { agent: "codex", now })
}

fn wall() -> How {
    How::Timeout("wall-clock".to_owned())
}

/// sample, how its process ended, the sentence of its outcome
#[rustfmt::skip]
fn cases() -> Vec<(&'static str, How, &'static str)> {
    use How::Exited;
    vec![
        ("claude-ok",                 Exited(0), "exited with 0"),
        ("claude-resumed",            Exited(0), "exited with 0"),
        ("claude-401",                Exited(1), "could not sign in: 401"),
        ("claude-not-signed-in",      Exited(1), "could not sign in: authentication_failed"),
        ("claude-401-retrying",       wall(),    "could not sign in: 401"),
        ("claude-429-retrying",       wall(),    "was ended: the agent is rate-limited by its provider (429)"),
        ("claude-429-recovered",      Exited(0), "exited with 0"),
        ("claude-429-recovered",      wall(),    "passed its wall-clock limit and was ended"),
        ("claude-429-key",            Exited(1), "was ended: the agent is rate-limited by its provider (429)"),
        ("claude-usage-subscription", Exited(1), "hit a usage limit until 2026-11-16T03:57:08Z"),
        ("claude-near-limit",         Exited(0), "exited with 0"),
        ("claude-500-retrying",       wall(),    "was ended: the agent is not served by its provider (500)"),
        ("claude-529",                Exited(1), "was ended: the agent is not served by its provider (529)"),
        ("claude-refused",            Exited(1), "was ended: the agent cannot reach its provider (no connection)"),
        ("claude-refused-retrying",   wall(),    "was ended: the agent cannot reach its provider (no connection)"),
        ("claude-refused-retrying",   Exited(1), "was ended: the agent cannot reach its provider (no connection)"),
        ("claude-denied",             Exited(0), "was denied something: codex was not allowed to use Write. Allow it: agents.codex.permissions: full"),
        ("claude-max-turns",          Exited(1), "crashed: exited with 1: max_turns"),
        ("claude-max-budget",         Exited(1), "crashed: exited with 1: budget_exhausted"),
        ("claude-interrupted",        Exited(0), "crashed: exited with 0 before its work had an end"),
        ("claude-interrupted",        How::Stopped("x".to_owned()), "was stopped: x"),
        ("claude-liar",               Exited(0), "exited with 0"),
        ("claude-audit",              Exited(0), "exited with 0"),
        ("codex-ok",                  Exited(0), "exited with 0"),
        ("codex-resumed",             Exited(0), "exited with 0"),
        ("codex-401",                 Exited(1), "could not sign in: 401"),
        ("codex-429",                 Exited(1), "was ended: the agent is rate-limited by its provider (429)"),
        ("codex-429-recovered",       Exited(0), "exited with 0"),
        ("codex-500",                 Exited(1), "was ended: the agent is not served by its provider (high demand)"),
        ("codex-529-retrying",        wall(),    "was ended: the agent is not served by its provider (529)"),
        ("codex-refused-retrying",    wall(),    "was ended: the agent cannot reach its provider (no connection)"),
        ("codex-declined",            Exited(0), r#"was denied something: codex was not allowed to run "/bin/bash -lc 'printf hi > hello.txt'". Allow it: agents.codex.permissions: test"#),
        ("codex-command-failed",      Exited(0), "exited with 0"),
        ("codex-read-only",           Exited(0), "exited with 0"),
        ("codex-audit",               Exited(0), "exited with 0"),
        ("codex-reset",               Exited(1), "was ended: the agent cannot reach its provider (no connection)"),
        ("codex-other-failure",       Exited(1), "crashed: exited with 1: the turn failed"),
        ("codex-interrupted",         Exited(1), "crashed: exited with 1"),
        ("gemini-ok",                 Exited(0), "exited with 0"),
        ("gemini-401",                Exited(145), "could not sign in: 401"),
        ("gemini-400-key",            Exited(144), "could not sign in: API_KEY_INVALID"),
        ("gemini-usage",              Exited(173), "hit a usage limit"),
        ("gemini-429-retrying",       wall(),    "was ended: the agent is rate-limited by its provider (429)"),
        ("gemini-429-retrying",       Exited(173), "was ended: the agent is rate-limited by its provider (429)"),
        ("gemini-429-recovered",      Exited(0), "exited with 0"),
        ("gemini-500-retrying",       wall(),    "was ended: the agent is not served by its provider (500)"),
        ("gemini-500-retrying",       Exited(244), "was ended: the agent is not served by its provider (500)"),
        ("gemini-refused-retrying",   Exited(1), "was ended: the agent cannot reach its provider (no connection)"),
        ("gemini-plan",               Exited(0), "was denied something: codex was not allowed to use write_file. Allow it: agents.codex.permissions: full"),
        ("gemini-no-tools",           Exited(0), "exited with 0"),
        ("gemini-audit",              Exited(0), "exited with 0"),
        ("gemini-interrupted",        Exited(0), "crashed: exited with 0 before its work had an end"),
        ("aider-ok",                  Exited(0), "exited with 0"),
        ("aider-401",                 Exited(0), "could not sign in: AuthenticationError"),
        ("aider-429",                 Exited(0), "was ended: the agent is rate-limited by its provider (429)"),
        ("aider-429-recovered",       Exited(0), "exited with 0"),
        ("aider-500",                 Exited(0), "was ended: the agent is not served by its provider (InternalServerError)"),
        ("aider-no-key",              wall(),    "could not sign in: it has no model and no key"),
        ("aider-liar",                Exited(0), "exited with 0"),
        ("aider-audit",               Exited(0), "exited with 0"),
    ]
}

// covers: SU-05
#[test]
fn each_sample_ends_in_its_class() {
    for (sample, how, wanted) in cases() {
        assert_eq!(end(&how, &report(sample)).sentence(), wanted, "{sample} {how:?}");
    }
}

#[test]
fn every_sample_is_used() {
    let cases = cases();
    for entry in std::fs::read_dir(samples()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let dated = name == "codex-usage";
        assert!(dated || cases.iter().any(|(sample, ..)| *sample == name), "{name} is in no case");
    }
}

/// What its tools printed or it said on the way is not what it said last.
// covers: AG-10
#[test]
fn the_last_message_is_read_of_each_cli() {
    let audit = "---\ntask_id: T0001\nagent: gemini\nverdict: FAIL\nfindings: [\"it is not tested\"]\n---\n\nI looked.\n";
    for cli in ["claude", "codex", "gemini"] {
        assert_eq!(reader(&format!("{cli}-audit")).said().as_deref(), Some(audit), "{cli}");
    }
    let aider = reader("aider-audit").said().unwrap();
    assert!(aider.ends_with(&format!("\n{audit}\n")) && !aider.contains("Please add"), "{aider}");
    for sample in ["claude-ok", "codex-ok", "gemini-ok"] {
        assert_eq!(reader(sample).said().as_deref(), Some("I wrote hello.txt"), "{sample}");
    }
}

// covers: AG-10, AG-34
#[test]
fn whoever_did_not_come_to_its_end_has_no_last_message() {
    for (sample, how, _) in cases() {
        let reader = reader(sample);
        let whole = matches!(end(&how, &reader.report()), Outcome::Ok | Outcome::Denied { .. });
        assert!(reader.said().is_none() || whole || how == wall(), "{sample}: {:?}", reader.said());
    }
    for sample in ["claude-interrupted", "codex-interrupted", "gemini-interrupted"] {
        assert_eq!(reader(sample).said(), None, "{sample}");
    }
}

/// Where a line was too long to be read, or a message to be kept, an earlier one is not taken for it.
// covers: AG-10
#[test]
fn a_message_that_is_too_long_is_none() {
    let said = |length: usize| {
        let mut reader = Reader::new(Profile::Codex);
        for text in ["---\nverdict: PASS\n---\n".to_owned(), "x".repeat(length)] {
            let item = serde_json::json!({"type": "agent_message", "text": text});
            let event = serde_json::json!({"type": "item.completed", "item": item});
            reader.feed(Stream::Stdout, event.to_string().as_bytes());
        }
        reader.feed(Stream::Stdout, br#"{"type":"turn.completed","usage":{}}"#);
        reader.said().map(|said| said.len())
    };
    assert_eq!(said(SAID_MAX), Some(SAID_MAX));
    assert_eq!(said(SAID_MAX + 1), None);
    assert_eq!(said(2 * agency::run::profile::LINE_MAX), None);
}

fn used(input: u64, output: u64, cost: Option<u64>) -> [Option<u64>; 3] {
    [Some(input), Some(output), cost]
}

fn numbers(usage: &Usage) -> [Option<u64>; 3] {
    [usage.input_tokens, usage.output_tokens, usage.cost_microusd]
}

// covers: SU-07
#[test]
fn session_tokens_and_cost_are_read() {
    let claude = report("claude-ok");
    assert_eq!(claude.session(), Some("0b9c7f1e-7d5a-4f5e-9a53-2f8f4a1c0001"));
    assert_eq!(numbers(&claude.usage), used(2_000, 100, Some(8_480)));
    let codex = report("codex-ok");
    assert_eq!(codex.session(), Some("01a1e27e-265c-7ce0-a46a-6705705d1e84"));
    assert_eq!(numbers(&codex.usage), used(2_000, 100, None));
    let gemini = report("gemini-ok");
    assert_eq!(gemini.session(), claude.session());
    assert_eq!(numbers(&gemini.usage), used(2_000, 100, None));
    let aider = report("aider-ok");
    assert_eq!((aider.session(), numbers(&aider.usage)), (None, used(13_000, 300, Some(12_800))));
}

// covers: SU-07
#[test]
fn a_resumed_session_is_not_counted_twice() {
    for (cli, cost) in [("claude", Some(8_480)), ("codex", None)] {
        let first = report(&format!("{cli}-ok")).usage;
        let resumed = report(&format!("{cli}-resumed")).usage_since(&first);
        assert_eq!(numbers(&resumed), used(2_000, 100, cost), "{cli}");
    }
    let gemini = report("gemini-ok");
    assert_eq!(gemini.usage_since(&gemini.usage), gemini.usage, "it counts each run for itself");
}

/// A run that we end has no result. Then its messages tell what it used at least, each of them once.
// covers: SU-07
#[test]
fn an_unfinished_run_has_used_something_too() {
    assert_eq!(numbers(&report("claude-interrupted").usage), used(1_000, 1, None));
}

// covers: SU-09
#[test]
fn codex_says_in_its_message_when_a_limit_ends() {
    let Outcome::UsageLimit { until: Some(until) } = end(&How::Exited(1), &report("codex-usage"))
    else {
        panic!("no reset is known")
    };
    // It says 3:55 and no second: the limit is over when that minute is.
    assert_eq!(
        until.with_timezone(&chrono::Local).format("%I:%M:%S %p").to_string(),
        "03:56:00 AM"
    );
    let mut reader = Reader::new(Profile::Codex);
    let error = r#"{"type":"error","message":"You've hit your usage limit. Try again at Nov 20th, 2026 2:22 AM."}"#;
    reader.feed(Stream::Stdout, error.replace("Try", "try").as_bytes());
    let Outcome::UsageLimit { until: Some(until) } = end(&How::Exited(1), &reader.report()) else {
        panic!("no reset is known")
    };
    let local = until.with_timezone(&chrono::Local).format("%Y-%m-%d %H:%M").to_string();
    assert_eq!(local, "2026-11-20 02:22");
}

// covers: SU-05
#[test]
fn a_limit_says_until_when_where_the_cli_does() {
    let until = Timestamp::from_timestamp(1_794_801_428, 0);
    let end = end(&How::Exited(1), &report("claude-usage-subscription"));
    assert_eq!(end, Outcome::UsageLimit { until });
}

/// Half lines, wrong types and noise come from any CLI at some time; none may stop the reader.
#[test]
fn noise_is_passed_over() {
    let noise: &[&[u8]] = &[
        b"",
        b"{",
        b"{}",
        b"[1,2]",
        b"null",
        b"\xff\xfe{\"type\":\"result\"}",
        br#"{"type":7,"subtype":[],"session_id":{"a":1},"usage":"x"}"#,
        br#"{"type":"result","is_error":"yes","total_cost_usd":-1e300,"modelUsage":[1],"permission_denials":7}"#,
        br#"{"type":"assistant","message":{"id":"x","usage":{"input_tokens":18446744073709551615}}}"#,
        br#"{"type":"assistant","message":{"id":"y","usage":{"input_tokens":18446744073709551615}}}"#,
        br#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":9e99}}"#,
        br#"{"type":"thread.started","thread_id":"--yolo"}"#,
        br#"{"type":"error","message":"unexpected status \u00e9\u00e9"}"#,
        b"litellm.",
        b"Tokens: , sent received. Cost: $",
        b"Tokens: 9e99k sent, -1 received. Cost: $-1 session.",
        b"Attempt x failed with status 4",
        b"Attempt 1 failed with status \xc3",
    ];
    for cli in ["claude", "codex", "gemini", "aider"] {
        let mut reader = Reader::new(by_word(cli).unwrap());
        for line in noise {
            reader.feed(Stream::Stdout, line);
            reader.feed(Stream::Stderr, line);
        }
        let report = reader.report();
        assert_eq!((report.session(), report.usage.cost_microusd), (None, None), "{cli}");
    }
}
