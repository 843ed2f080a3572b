//! Gemini CLI: its headless command line, the events of `-o stream-json`, its exit codes. What its tools print is not read.
//!
//! While it retries, nothing comes on stdout; then the fixed beginnings of its own lines on stderr are all there is.

use super::reader::Stream;
use super::report::{Class, Finish, Reset, Seen, is_session, whole};
use super::{Options, OwnState, Permissions, argv};
use serde_json::Value;

pub(super) const ENV: &[&str] = &[
    "GEMINI_*",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_*",
    "GOOGLE_GEMINI_*",
    "GOOGLE_GENAI_*",
];

/// Else it starts itself again as a child, and does not pass signals on to it.
pub(super) const ENV_SET: &[(&str, &str)] = &[("GEMINI_CLI_NO_RELAUNCH", "true")];

/// The same, with its own sandbox (a container) off.
pub(super) const ENV_SANDBOXED: &[(&str, &str)] =
    &[("GEMINI_CLI_NO_RELAUNCH", "true"), ("GEMINI_SANDBOX", "false")];

pub(super) const OWN_STATE: OwnState =
    OwnState { variable: None, folder: ".gemini", files: &[], temp: None };

pub(super) fn args(options: &Options) -> Vec<String> {
    let mode = match options.may() {
        // It has no mode between edits alone and everything.
        Permissions::Test | Permissions::Full => "yolo",
        Permissions::Edit => "auto_edit",
        // Off a terminal nobody can approve, so its model is offered no tool that writes or runs anything.
        Permissions::ReadOnly => "default",
    };
    let mut args = argv(["-o", "stream-json", "--approval-mode", mode, "--skip-trust"]);
    match (options.resume.as_deref().filter(|id| is_session(id)), options.session) {
        (Some(resume), _) => args.extend(argv(["-r", resume])),
        (None, Some(session)) => args.extend(argv(["--session-id", &session.to_string()])),
        (None, None) => {}
    }
    // Off a terminal and without `--prompt` it reads the prompt from its standard input.
    args.extend(options.more("-m"));
    args
}

/// Its own fixed codes, and for errors of the provider the status modulo 256.
pub(super) fn of_exit(code: i32) -> Option<Class> {
    match code {
        41 => Some(Class::Auth { said: "it has no way to sign in".to_owned() }),
        53 => Some(Class::failed("its turn limit is reached")),
        55 => Some(Class::failed("it does not trust the folder")),
        145 | 147 | 173 | 244..=247 => Class::of_status(u64::try_from(code).ok()? + 256),
        _ => None,
    }
}

pub(super) fn read(seen: &mut Seen, stream: Stream, line: &[u8]) {
    match stream {
        Stream::Stderr if seen.finish != Finish::Done => retried(seen, line),
        Stream::Stdout if line.starts_with(b"{") => {
            if let Ok(event) = serde_json::from_slice(line) {
                read_event(seen, &event);
            }
        }
        Stream::Stdout | Stream::Stderr => {}
    }
}

fn read_event(seen: &mut Seen, event: &Value) {
    match event["type"].as_str() {
        Some("init") => {
            seen.work_of(event["model"].as_str());
            seen.session(event["session_id"].as_str().unwrap_or(""));
            seen.finish = Finish::Open;
            seen.hush();
        }
        Some("message") if event["role"] == "assistant" => message(seen, event),
        Some("message") => seen.hush(),
        Some("tool_use") => {
            seen.progress();
            seen.hush();
        }
        Some("tool_result") if event["error"]["type"] == "policy_violation" => {
            seen.deny(&format!("use {}", tool(event["tool_id"].as_str().unwrap_or("a tool"))));
        }
        Some("result") => result(seen, event),
        _ => {}
    }
}

/// A message comes in pieces; an act between two pieces makes the later ones another message.
fn message(seen: &mut Seen, event: &Value) {
    seen.progress();
    if event["delta"] != true {
        seen.hush();
    }
    seen.say(event["content"].as_str().unwrap_or(""));
}

/// `write_file__…`: the tool, then what makes the call unique.
fn tool(id: &str) -> &str {
    id.split_once("__").map_or(id, |(tool, _)| tool)
}

fn result(seen: &mut Seen, event: &Value) {
    seen.usage.input_tokens = event["stats"]["input_tokens"].as_u64();
    seen.usage.output_tokens = event["stats"]["output_tokens"].as_u64();
    if event["status"] == "success" {
        seen.progress();
        seen.conclude();
    } else {
        seen.hush();
        let class = failure(event["error"]["message"].as_str().unwrap_or(""));
        match class {
            Some(class) => seen.trouble(class),
            None if seen.in_trouble() => {}
            None => seen.trouble(Class::failed("it reports an error")),
        }
    }
    seen.finish = Finish::Done;
}

/// The provider's own error object lies inside the message.
fn failure(message: &str) -> Option<Class> {
    let message = message.strip_prefix("[API Error: ")?;
    if message.starts_with("You have exhausted your daily quota") {
        return Some(Class::UsageLimit { until: Reset::Unknown });
    }
    let end = message.rfind('}')? + 1;
    let error: Value = serde_json::from_str(message.get(..end)?).ok()?;
    let error = &error["error"];
    let details = error["details"].as_array();
    // A wrong key is answered with 400.
    if details.into_iter().flatten().any(|detail| detail["reason"] == "API_KEY_INVALID") {
        return Some(Class::Auth { said: "API_KEY_INVALID".to_owned() });
    }
    match error["code"].as_u64().and_then(Class::of_status) {
        Some(Class::RateLimited { .. }) => Some(Class::RateLimited { retry_after_s: delay(error) }),
        class => class,
    }
}

/// `google.rpc.RetryInfo`: `"retryDelay": "2s"`.
fn delay(error: &Value) -> Option<u64> {
    let mut details = error["details"].as_array()?.iter();
    let delay = details.find_map(|detail| detail["retryDelay"].as_str()?.strip_suffix('s'))?;
    whole(delay.parse::<f64>().ok()?.ceil())
}

/// `Attempt 2 failed with status 500. …`, `Attempt 2 failed: …` (a quota), `Attempt 2 failed. …` (no answer).
fn retried(seen: &mut Seen, line: &[u8]) {
    let Some(rest) = line.strip_prefix(b"Attempt ") else { return };
    let text = String::from_utf8_lossy(&rest[..rest.len().min(64)]);
    let Some((number, rest)) = text.split_once(" failed") else { return };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return;
    }
    let status = rest.strip_prefix(" with status ").and_then(|rest| rest.get(..3)?.parse().ok());
    let class = match (status, rest.bytes().next()) {
        (Some(status), _) => Class::of_status(status),
        (None, Some(b':')) => Some(Class::RateLimited { retry_after_s: None }),
        (None, Some(b'.')) => Some(Class::Unreachable),
        (None, _) => None,
    };
    class.into_iter().for_each(|class| seen.trouble(class));
}
