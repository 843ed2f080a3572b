//! Claude Code: its headless command line, and the events of `--output-format stream-json`. Its prose is not read; its last
//! message is what `result` says.

use super::reader::Stream;
use super::report::{Class, Counting, Finish, Reset, Seen, is_session, microusd};
use super::{Options, OwnState, Permissions, argv};
use crate::model::{Timestamp, clip};
use serde_json::Value;

pub(super) const ENV: &[&str] = &[
    "ANTHROPIC_*",
    "CLAUDE_CODE_*",
    "CLAUDE_CONFIG_DIR",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    // As root it refuses some permission modes without this.
    "IS_SANDBOX",
];

pub(super) const OWN_STATE: OwnState = OwnState {
    variable: Some("CLAUDE_CONFIG_DIR"),
    folder: ".claude",
    files: &[".claude.json"],
    temp: Some("CLAUDE_CODE_TMPDIR"),
};

/// As root it refuses to work without asking unless it is told that something keeps it in.
pub(super) const ENV_SANDBOXED: &[(&str, &str)] = &[("IS_SANDBOX", "1")];

/// Whatever the owner's settings say of its own sandbox: that is bwrap, which cannot start inside Landlock.
const NO_SANDBOX: &str = "--settings={\"sandbox\":{\"enabled\":false}}";

/// What would ask is denied, so that only tools and commands that read are left. No setting of the owner's brings the tools
/// back that write, and settings in the tree (hooks too) do not count: whoever is looked at may have written them.
const READ_ONLY: [&str; 4] = [
    "--permission-mode",
    "dontAsk",
    "--disallowedTools=Edit,Write,NotebookEdit",
    "--setting-sources=user",
];

/// More commands than this are not allowed by name.
const ALLOWED_MAX: usize = 40;

pub(super) fn args(options: &Options) -> Vec<String> {
    let mut args = argv(["-p", "--output-format", "stream-json", "--verbose"]);
    args.extend(match options.may() {
        Permissions::ReadOnly => argv(READ_ONLY),
        Permissions::Edit | Permissions::Test => argv(["--permission-mode", "acceptEdits"]),
        Permissions::Full => argv(["--permission-mode", "bypassPermissions"]),
    });
    if options.sandboxed {
        args.push(NO_SANDBOX.to_owned());
    }
    if options.may() == Permissions::Test {
        args.extend(allowed(&options.allow));
    }
    match (options.resume.as_deref().filter(|id| is_session(id)), options.session) {
        (Some(resume), _) => args.extend(argv(["--resume", resume])),
        (None, Some(session)) => args.extend(argv(["--session-id", &session.to_string()])),
        (None, None) => {}
    }
    if let Some(budget) = options.budget_usd {
        args.extend(argv(["--max-budget-usd", &budget.to_string()]));
    }
    args.extend(options.more("--model"));
    args
}

/// `--allowedTools=Bash(npm test:*),…`. It looks at each part of a command line by itself, so each is allowed by itself. A part
/// that its list could not hold is left out.
fn allowed(lines: &[String]) -> Option<String> {
    let parts = lines.iter().flat_map(|line| line.split([';', '&', '|', '\n'])).map(str::trim);
    let fits = |part: &&str| !part.is_empty() && !part.contains(['(', ')', ',', '*']);
    let mut rules: Vec<String> =
        parts.filter(fits).take(ALLOWED_MAX).map(|part| format!("Bash({part}:*)")).collect();
    rules.dedup();
    (!rules.is_empty()).then(|| format!("--allowedTools={}", rules.join(",")))
}

pub(super) fn read(seen: &mut Seen, stream: Stream, line: &[u8]) {
    if stream == Stream::Stderr || !line.starts_with(b"{") {
        return;
    }
    let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
    if let Some(id) = event["session_id"].as_str() {
        seen.session(id);
    }
    match (event["type"].as_str(), event["subtype"].as_str()) {
        (Some("system"), Some("init")) => {
            seen.work_of(event["model"].as_str());
            seen.finish = Finish::Open;
            seen.hush();
        }
        (Some("system"), Some("api_retry")) => seen.trouble(retried(&event)),
        (Some("system"), Some("permission_denied")) => {
            seen.deny(&denied(event["tool_name"].as_str(), &event["tool_input"]));
        }
        (Some("rate_limit_event"), _) => limit(seen, &event["rate_limit_info"]),
        (Some("assistant"), _) => answer(seen, &event),
        (Some("result"), _) => result(seen, &event),
        _ => {}
    }
}

/// Without a status there was no answer at all.
fn retried(event: &Value) -> Class {
    let class = match event["error_status"].as_u64() {
        Some(_) => named(event, "error_status").unwrap_or_else(|| Class::failed(why(event))),
        None => Class::Unreachable,
    };
    match class {
        // It waits as long as the provider asked for, where the provider did.
        Class::RateLimited { .. } => Class::RateLimited {
            retry_after_s: event["retry_delay_ms"].as_u64().map(|delay| delay.div_ceil(1000)),
        },
        other => other,
    }
}

fn limit(seen: &mut Seen, info: &Value) {
    if info["status"] == "rejected" {
        seen.trouble(Class::UsageLimit { until: reset(info).map_or(Reset::Unknown, Reset::At) });
    }
}

fn reset(info: &Value) -> Option<Timestamp> {
    Timestamp::from_timestamp(info["resetsAt"].as_i64()?, 0)
}

/// Errors of the provider come as messages that no model wrote, and are marked so.
fn answer(seen: &mut Seen, event: &Value) {
    if event["is_api_error_message"] == true {
        limit(seen, &event["api_error_params"]["rate_limit_info"]);
        if let Some(class) = named(event, "api_error_status") {
            // A plain 429 does not take back a limit that says until when.
            seen.trouble(class);
        }
        return;
    }
    seen.progress();
    seen.finish = Finish::Open;
    count(seen, &event["message"]);
}

/// Until the result comes, messages are all that tells what was used: exact for input, a lower bound for output.
fn count(seen: &mut Seen, message: &Value) {
    let Some(id) = message["id"].as_str().filter(|id| Some(*id) != seen.counted.as_deref()) else {
        return;
    };
    seen.counted = Some(clip(id, 128));
    if seen.counting == Counting::Session {
        return;
    }
    let usage = &message["usage"];
    let input = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    seen.add(sum(usage, &input), sum(usage, &["output_tokens"]));
}

/// `subtype` says `success` for a rejected key too; only `is_error` counts.
fn result(seen: &mut Seen, event: &Value) {
    total(seen, event);
    for denial in event["permission_denials"].as_array().into_iter().flatten() {
        seen.deny(&denied(denial["tool_name"].as_str(), &denial["tool_input"]));
    }
    seen.hush();
    if event["is_error"] == true {
        match named(event, "api_error_status") {
            Some(class) => seen.trouble(class),
            None if seen.in_trouble() => {}
            None => seen.trouble(Class::failed(why(event))),
        }
    } else {
        seen.progress();
        seen.say(event["result"].as_str().unwrap_or(""));
        seen.conclude();
    }
    seen.finish = Finish::Done;
}

/// What it was not allowed to do: `run "npm test"`, or `use Write`.
fn denied(tool: Option<&str>, input: &Value) -> String {
    match (tool, input["command"].as_str()) {
        (Some("Bash"), Some(command)) => format!("run \"{}\"", clip(command, 80)),
        (Some("Bash"), None) => "run a command".to_owned(),
        (Some(tool), _) => format!("use {tool}"),
        (None, _) => "use a tool".to_owned(),
    }
}

/// These sums begin with the session, unlike `usage` beside them.
fn total(seen: &mut Seen, event: &Value) {
    let models = || event["modelUsage"].as_object().into_iter().flatten().map(|(_, model)| model);
    let of = |names: &[&str]| models().map(|model| sum(model, names)).sum::<u64>();
    seen.counting = Counting::Session;
    let input = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    seen.usage.input_tokens = Some(of(&input));
    seen.usage.output_tokens = Some(of(&["outputTokens"]));
    seen.usage.cost_microusd = event["total_cost_usd"].as_f64().and_then(microusd);
}

fn sum(of: &Value, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| of[name].as_u64()).fold(0, u64::saturating_add)
}

/// By the name of the error first: it says more than the status.
fn named(event: &Value, status: &str) -> Option<Class> {
    match event["error"].as_str() {
        Some("authentication_failed") => {
            let said = event[status].as_u64().map_or_else(|| why(event), |code| code.to_string());
            Some(Class::Auth { said })
        }
        Some("rate_limit") => Some(Class::RateLimited { retry_after_s: None }),
        // Without a connection there is no status, and `error` blames the server.
        _ if event["api_error"] == "connection_failed" => Some(Class::Unreachable),
        _ => event[status].as_u64().and_then(Class::of_status),
    }
}

/// The most telling of the words that the event has; never its text.
fn why(event: &Value) -> String {
    let words = ["error", "api_error_type", "terminal_reason", "subtype"];
    let word = |name: &&str| event[*name].as_str().filter(|word| *word != "unknown");
    clip(words.iter().find_map(word).unwrap_or("it says that it failed"), 60)
}
