//! One line of an agent's structured output as a line for people. It decides nothing about the run.

use super::super::show::plain;
use crate::config::Profile;
use crate::model::clip;
use serde_json::Value;

/// What of a message, and of a tool call or result, is shown.
const MESSAGE_MAX: usize = 4_000;
const CALL_MAX: usize = 160;

/// `None`: the line says nothing to a person. What is no event of the CLI's is shown as it is.
pub(crate) fn line(profile: Option<Profile>, line: &str) -> Option<String> {
    let event =
        line.trim_start().starts_with('{').then(|| serde_json::from_str::<Value>(line).ok());
    let shown = match (profile, event.flatten()) {
        (Some(Profile::Claude), Some(event)) => claude(&event),
        (Some(Profile::Codex), Some(event)) => codex(&event),
        (Some(Profile::Gemini), Some(event)) => gemini(&event),
        _ => vec![line.to_owned()],
    };
    let shown: Vec<String> =
        shown.iter().map(|text| plain(text.trim_end())).filter(|text| !text.is_empty()).collect();
    (!shown.is_empty()).then(|| shown.join("\n"))
}

fn text(value: &Value) -> String {
    clip(value.as_str().unwrap_or_default(), MESSAGE_MAX)
}

/// Folded to one line.
fn folded(value: &str) -> String {
    clip(&value.split_whitespace().collect::<Vec<_>>().join(" "), CALL_MAX)
}

fn call(name: &str, input: &Value) -> String {
    let known = ["command", "file_path", "path", "pattern", "url", "query", "description"];
    let said = known.iter().find_map(|key| input[*key].as_str()).map(str::to_owned);
    let said = said.unwrap_or_else(|| match input {
        Value::Null => String::new(),
        other => other.to_string(),
    });
    format!("→ {name} {}", folded(&said))
}

fn claude(event: &Value) -> Vec<String> {
    match (event["type"].as_str(), event["subtype"].as_str()) {
        (Some("system"), Some("init")) => {
            vec![format!("· {} begins", event["model"].as_str().unwrap_or("the agent"))]
        }
        (Some("system"), Some("api_retry")) => {
            let status = event["error_status"].as_u64();
            let status = status.map_or("no answer".to_owned(), |status| status.to_string());
            vec![format!("! the provider refuses it ({status}); it tries again")]
        }
        (Some("system"), Some("permission_denied")) => {
            vec![format!("! not allowed: {}", event["tool_name"].as_str().unwrap_or("a tool"))]
        }
        (Some("assistant" | "user"), _) => {
            let parts = event["message"]["content"].as_array();
            parts.into_iter().flatten().map(claude_part).collect()
        }
        (Some("result"), _) => vec![claude_result(event)],
        _ => Vec::new(),
    }
}

fn claude_part(part: &Value) -> String {
    match part["type"].as_str() {
        Some("text") => text(&part["text"]),
        Some("tool_use") => call(part["name"].as_str().unwrap_or("tool"), &part["input"]),
        Some("tool_result") => {
            let content = &part["content"];
            let said = content.as_str().map(str::to_owned).or_else(|| {
                content.as_array()?.iter().find_map(|part| part["text"].as_str()).map(str::to_owned)
            });
            let mark = if part["is_error"] == true { "✗" } else { "←" };
            format!("{mark} {}", folded(&said.unwrap_or_default()))
        }
        _ => String::new(),
    }
}

fn claude_result(event: &Value) -> String {
    let cost = event["total_cost_usd"].as_f64().unwrap_or(0.0);
    let turns = event["num_turns"].as_u64().unwrap_or(0);
    let how = if event["is_error"] == true {
        let why = ["terminal_reason", "subtype"].iter().find_map(|key| event[*key].as_str());
        format!("failed ({})", why.unwrap_or("it does not say why"))
    } else {
        "done".to_owned()
    };
    format!("= {how}; turns: {turns}; the session has cost ${cost:.4}")
}

fn codex(event: &Value) -> Vec<String> {
    let item = &event["item"];
    let shown = match (event["type"].as_str(), item["type"].as_str()) {
        (Some("thread.started"), _) => "· codex begins".to_owned(),
        (Some("error"), _) => format!("! {}", folded(event["message"].as_str().unwrap_or(""))),
        (Some("turn.failed"), _) => {
            format!("= failed: {}", folded(event["error"]["message"].as_str().unwrap_or("")))
        }
        (Some("turn.completed"), _) => {
            let count = |name: &str| event["usage"][name].as_u64().unwrap_or(0);
            let (input, output) = (count("input_tokens"), count("output_tokens"));
            format!("= done; the session has used {input} tokens in, {output} out")
        }
        (Some("item.completed"), Some("agent_message")) => text(&item["text"]),
        (Some("item.completed"), Some("command_execution")) => {
            let code = item["exit_code"].as_i64().map_or("?".to_owned(), |code| code.to_string());
            format!("→ {} (exit {code})", folded(item["command"].as_str().unwrap_or("")))
        }
        (Some("item.completed"), Some("file_change")) => {
            let changes = item["changes"].as_array().into_iter().flatten();
            let paths: Vec<_> = changes.filter_map(|change| change["path"].as_str()).collect();
            format!("→ changed {}", folded(&paths.join(" ")))
        }
        (Some("item.completed"), Some("error")) => {
            format!("! {}", folded(item["message"].as_str().unwrap_or("")))
        }
        (Some("item.completed"), Some("reasoning") | None) => String::new(),
        (Some("item.completed"), Some(kind)) => format!("→ {kind}"),
        _ => String::new(),
    };
    vec![shown]
}

fn gemini(event: &Value) -> Vec<String> {
    let shown = match event["type"].as_str() {
        Some("init") => format!("· {} begins", event["model"].as_str().unwrap_or("gemini")),
        Some("message") if event["role"] == "assistant" => text(&event["content"]),
        Some("tool_use") => {
            call(event["tool_name"].as_str().unwrap_or("tool"), &event["parameters"])
        }
        Some("tool_result") => {
            let mark = if event["status"] == "error" { "✗" } else { "←" };
            format!("{mark} {}", folded(event["output"].as_str().unwrap_or("")))
        }
        Some("result") if event["status"] == "success" => {
            let count = |name: &str| event["stats"][name].as_u64().unwrap_or(0);
            let (input, output) = (count("input_tokens"), count("output_tokens"));
            format!("= done; {input} tokens in, {output} out")
        }
        Some("result") => {
            format!("= failed: {}", folded(event["error"]["message"].as_str().unwrap_or("")))
        }
        _ => String::new(),
    };
    vec![shown]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_lines_for_people_without_control_characters() {
        let claude = |text: &str| line(Some(Profile::Claude), text);
        let call = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I \u001b[31mtest"},{"type":"tool_use","name":"Bash","input":{"command":"npm\n test"}}]}}"#;
        assert_eq!(claude(call).as_deref(), Some("I  [31mtest\n→ Bash npm test"));
        let retry = r#"{"type":"system","subtype":"api_retry","error_status":529}"#;
        let shown = "! the provider refuses it (529); it tries again";
        assert_eq!(claude(retry).as_deref(), Some(shown));
        let result = r#"{"type":"result","is_error":false,"num_turns":2,"total_cost_usd":0.5}"#;
        let shown = "= done; turns: 2; the session has cost $0.5000";
        assert_eq!(claude(result).as_deref(), Some(shown));
        let codex = r#"{"type":"item.completed","item":{"type":"command_execution","command":"ls","exit_code":0}}"#;
        assert_eq!(line(Some(Profile::Codex), codex).as_deref(), Some("→ ls (exit 0)"));
        let gemini = r#"{"type":"message","role":"assistant","content":"hello"}"#;
        assert_eq!(line(Some(Profile::Gemini), gemini).as_deref(), Some("hello"));
        assert_eq!(line(None, "plain \u{7} words").as_deref(), Some("plain \u{fffd} words"));
        assert_eq!(claude(r#"{"type":"rate_limit_event"}"#), None);
        assert_eq!(claude("{ half a line").as_deref(), Some("{ half a line"));
    }
}
