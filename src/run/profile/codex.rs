//! Codex: the command line of `codex exec`, and the events of `--json`. What its commands print is not read.
//!
//! Its errors have no code but a message of its own making, whose fixed beginnings and end are compared: "try again at
//! 2:22 AM" is when a usage limit ends, by the local clock. Under `read-only` it reports no denial: its model is offered no way to write.

use super::reader::Stream;
use super::report::{Class, Counting, Finish, Reset, Seen, is_session};
use super::{Options, OwnState, Permissions, argv};
use crate::model::clip;
use chrono::{NaiveDateTime, NaiveTime};
use serde_json::Value;

pub(super) const ENV: &[&str] = &["OPENAI_*", "CODEX_*"];

pub(super) const OWN_STATE: OwnState =
    OwnState { variable: Some("CODEX_HOME"), folder: ".codex", files: &[], temp: None };

/// Fixed beginnings of its messages that are followed by a status.
const BEFORE_STATUS: &[&str] = &["unexpected status ", "exceeded retry limit, last status: "];

/// Fixed beginnings of its messages when no answer comes.
const NO_ANSWER: &[&str] = &["Connection failed", "stream disconnected before completion"];

/// No `-C`: it works in the run's directory, which may be another tree than the repository's own.
pub(super) fn args(options: &Options) -> Vec<String> {
    let sandbox = match options.may() {
        Permissions::ReadOnly => "read-only",
        // Its own sandbox keeps commands in, so that it may run them.
        Permissions::Edit | Permissions::Test => "workspace-write",
        Permissions::Full => "danger-full-access",
    };
    let mut args = argv(["exec", "--json"]);
    match options.sandboxed {
        // Its own is bwrap, which cannot start inside Landlock.
        true => args.extend(argv(["--dangerously-bypass-approvals-and-sandbox"])),
        false => args.extend(argv(["-s", sandbox])),
    }
    if sandbox == "workspace-write" && !options.sandboxed {
        // Its sandbox keeps git folders read-only unless they are named, also those inside the workspace.
        let dirs = options.git_dirs.iter().map(|dir| dir.display().to_string());
        args.extend(dirs.flat_map(|dir| ["--add-dir".to_owned(), dir]));
    }
    args.extend(options.more("-m"));
    if let Some(resume) = options.resume.as_deref().filter(|id| is_session(id)) {
        args.extend(argv(["resume", resume]));
    }
    // It reads the prompt from its standard input.
    args.extend(argv(["-"]));
    args
}

pub(super) fn read(seen: &mut Seen, stream: Stream, line: &[u8]) {
    if stream == Stream::Stderr || !line.starts_with(b"{") {
        return;
    }
    let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
    match event["type"].as_str() {
        Some("thread.started") => seen.session(event["thread_id"].as_str().unwrap_or("")),
        Some("turn.started") => {
            seen.finish = Finish::Open;
            seen.hush();
        }
        Some("item.started" | "item.updated") => item(seen, &event["item"]),
        Some("item.completed") => {
            item(seen, &event["item"]);
            message(seen, &event["item"]);
        }
        Some("error") => {
            if let Some(class) = said(event["message"].as_str().unwrap_or("")) {
                seen.trouble(class);
            }
        }
        Some("turn.completed") => {
            total(seen, &event["usage"]);
            seen.progress();
            seen.conclude();
            seen.finish = Finish::Done;
        }
        Some("turn.failed") => {
            let class = said(event["error"]["message"].as_str().unwrap_or(""));
            seen.trouble(class.unwrap_or_else(|| Class::failed("the turn failed")));
            seen.hush();
            seen.finish = Finish::Done;
        }
        _ => {}
    }
}

/// Items come from the model, except the warnings.
fn item(seen: &mut Seen, item: &Value) {
    if item["type"] == "error" {
        return;
    }
    seen.progress();
    if item["status"] == "declined" {
        seen.deny(&declined(item));
    }
}

/// It speaks between its acts too; the last message of a turn is its answer.
fn message(seen: &mut Seen, item: &Value) {
    if item["type"] == "agent_message" {
        seen.hush();
        seen.say(item["text"].as_str().unwrap_or(""));
    }
}

/// The sums begin with the thread, and the input's includes what was cached.
fn total(seen: &mut Seen, usage: &Value) {
    seen.counting = Counting::Session;
    seen.usage.input_tokens = usage["input_tokens"].as_u64();
    seen.usage.output_tokens = usage["output_tokens"].as_u64();
}

fn said(message: &str) -> Option<Class> {
    let message = cause(message);
    let status = BEFORE_STATUS.iter().find_map(|start| message.strip_prefix(start));
    if let Some(rest) = status {
        return rest.get(..3)?.parse().ok().and_then(Class::of_status);
    }
    // It writes them with either apostrophe.
    let plain = message.replace('\u{2019}', "'");
    if plain.starts_with("You've hit your usage limit") {
        return Some(Class::UsageLimit { until: reset(&plain) });
    }
    if plain.starts_with("We're currently experiencing high demand") {
        return Some(Class::Overloaded { said: "high demand".to_owned() });
    }
    NO_ANSWER.iter().any(|start| plain.starts_with(start)).then_some(Class::Unreachable)
}

/// `… or try again at 2:22 AM.`, on another day `… try again at Nov 20th, 2026 2:22 AM.`
fn reset(message: &str) -> Reset {
    let Some((_, at)) = message.rsplit_once("try again at ") else { return Reset::Unknown };
    let at = at.trim_end().trim_end_matches('.');
    if let Ok(time) = NaiveTime::parse_from_str(at, "%I:%M %p") {
        return Reset::Clock(time);
    }
    let (day, rest) = at.split_once(", ").unwrap_or((at, ""));
    let day = day.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let date = NaiveDateTime::parse_from_str(&format!("{day}, {rest}"), "%b %d, %Y %I:%M %p");
    date.map_or(Reset::Unknown, Reset::Date)
}

fn declined(item: &Value) -> String {
    match (item["command"].as_str(), item["type"].as_str()) {
        (Some(command), _) => format!("run \"{}\"", clip(command, 80)),
        (None, Some("command_execution")) => "run a command".to_owned(),
        (None, Some("file_change")) => "change a file".to_owned(),
        (None, Some(kind)) => format!("use {kind}"),
        (None, None) => "use a tool".to_owned(),
    }
}

/// While it retries, the cause stands in brackets: `Reconnecting... 2/5 (cause)`.
fn cause(message: &str) -> &str {
    match message.strip_prefix("Reconnecting... ") {
        Some(retry) => retry.split_once('(').map_or(retry, |(_, cause)| cause),
        None => message,
    }
}
