//! aider: its headless command line, and the fixed lines that it prints. It has no events, and exits with 0 on most errors.
//!
//! Its model's answer stands between these lines, and could imitate one. So an error counts only until the next line of
//! costs, which follows every answer.

use super::reader::Stream;
use super::report::{Class, Seen, is_session, microusd, whole};
use super::{Options, OwnState, Permissions, argv};
use crate::model::clip;

pub(super) const ENV: &[&str] = &["AIDER_*", "ANTHROPIC_*", "GEMINI_*", "OPENAI_*", "OPENROUTER_*"];

pub(super) const OWN_STATE: OwnState =
    OwnState { variable: None, folder: ".aider", files: &[], temp: None };

/// Without an identity in git's settings it writes one into the repository's, which our sandbox denies, and ends. It makes no
/// commit in such a run.
pub(super) const ENV_SANDBOXED: &[(&str, &str)] = &[
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "user.name"),
    ("GIT_CONFIG_VALUE_0", "aider"),
    ("GIT_CONFIG_KEY_1", "user.email"),
    ("GIT_CONFIG_VALUE_1", "aider@localhost"),
];

/// After this it waits for somebody at a browser.
const NO_KEY: &str = "No LLM model was specified and no API keys were provided.";

/// Without these it leaves histories, the cache of its repository map and an edited `.gitignore` in the tree, which count as changes
/// by the run: a proposal or a review would be refused for them (LP-31). An owner who ignores `.aider*` may set
/// `args: [--map-tokens=4096]`.
const NO_TRACES: [&str; 4] = [
    "--no-gitignore",
    "--chat-history-file=/dev/null",
    "--input-history-file=/dev/null",
    "--map-tokens=0",
];

/// Commits are ours to make.
pub(super) fn args(options: &Options) -> Vec<String> {
    let mut args = argv(["--yes-always", "--no-stream", "--no-pretty", "--no-check-update"]);
    args.extend(argv(["--analytics-disable", "--no-auto-commits", "--no-dirty-commits"]));
    if options.may() == Permissions::ReadOnly {
        args.extend(argv(["--dry-run"]));
    }
    args.extend(argv(NO_TRACES));
    // It knows one conversation per folder, without a name.
    if options.resume.as_deref().is_some_and(is_session) {
        args.extend(argv(["--restore-chat-history"]));
    }
    args.extend(options.more("--model"));
    // A list of processes shows the arguments of every program, so the prompt goes by its file.
    args.extend(argv(["--message-file={prompt_file}"]));
    args
}

pub(super) fn read(seen: &mut Seen, stream: Stream, line: &[u8]) {
    if stream == Stream::Stderr {
        return;
    }
    let Ok(line) = std::str::from_utf8(line) else { return seen.hush() };
    if let Some(error) = line.strip_prefix("litellm.") {
        error.split_once(':').into_iter().for_each(|(name, _)| seen.trouble(named(name)));
    } else if let Some(used) = line.strip_prefix("Tokens: ")
        && costs(seen, used.trim_end())
    {
        return seen.conclude();
    } else if let Some(model) = main_model(line) {
        seen.work_of(Some(model));
    } else if line.starts_with(NO_KEY) {
        seen.trouble(Class::Auth { said: "it has no model and no key".to_owned() });
    }
    // What stands between two lines of costs is one message, and what aider says around it.
    seen.say(line);
    seen.say("\n");
}

/// `Main model: openai/gpt-4o with diff edit format`, or `Model: …` of the same form.
fn main_model(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Main model: ").or_else(|| line.strip_prefix("Model: "))?;
    rest.split_once(" with ").map(|(model, _)| model)
}

fn named(error: &str) -> Class {
    match error {
        "AuthenticationError" | "PermissionDeniedError" => Class::Auth { said: error.to_owned() },
        "RateLimitError" => Class::RateLimited { retry_after_s: None },
        "APIConnectionError" | "Timeout" => Class::Unreachable,
        "InternalServerError" | "ServiceUnavailableError" | "BadGatewayError" => {
            Class::Overloaded { said: error.to_owned() }
        }
        other => Class::failed(clip(other, 60)),
    }
}

/// `1.0k sent, 50 received. Cost: $0.0028 message, $0.0028 session.`: tokens of one answer, dollars of the whole run.
/// `false`: it is no such line.
fn costs(seen: &mut Seen, text: &str) -> bool {
    let (tokens, dollars) = text.split_once(" Cost: ").unwrap_or((text, ""));
    let before = |unit: &str| {
        tokens
            .trim_end_matches('.')
            .split(", ")
            .find_map(|part| tokens_of(part.strip_suffix(unit)?))
    };
    let (Some(sent), Some(received)) = (before(" sent"), before(" received")) else { return false };
    seen.progress();
    seen.add(sent, received);
    let session = dollars.split(", ").find_map(|part| part.strip_suffix(" session."));
    let session = session.and_then(|text| text.strip_prefix('$')?.parse().ok());
    seen.usage.cost_microusd = session.and_then(microusd).or(seen.usage.cost_microusd);
    true
}

/// `50`, `1.0k`, `12k`: rounded as it is printed.
fn tokens_of(text: &str) -> Option<u64> {
    let (number, scale) = match (text.strip_suffix('k'), text.strip_suffix('M')) {
        (Some(number), _) => (number, 1e3),
        (None, Some(number)) => (number, 1e6),
        (None, None) => (text, 1.0),
    };
    whole(number.replace(',', "").parse::<f64>().ok()? * scale)
}
