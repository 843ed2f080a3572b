//! A message for a Slack incoming webhook: plain text blocks, nothing that Slack parses. It knows no address.

use super::defuse::{defuse, fit};
use crate::escalate::message::Message;
use serde_json::{Value, json};

/// Slack's bounds, with room for what escaping adds.
const HEADER_MAX: usize = 150;
const BLOCK_MAX: usize = 2_900;

pub(crate) fn slack(message: &Message) -> Vec<u8> {
    let title = safe(&message.title(), HEADER_MAX * 2);
    let mut blocks = vec![plain("header", &safe(&message.title(), HEADER_MAX))];
    for (heading, text) in message.parts() {
        blocks.push(plain("section", &safe(&format!("{heading}: {text}"), BLOCK_MAX)));
    }
    let value = json!({ "text": title, "blocks": blocks, "link_names": false, "parse": "none" });
    value.to_string().into_bytes()
}

/// Slack wants these three escaped everywhere.
fn safe(text: &str, limit: usize) -> String {
    fit(&defuse(text), limit, |c, out| match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        c => out.push(c),
    })
}

fn plain(kind: &str, text: &str) -> Value {
    json!({ "type": kind, "text": { "type": "plain_text", "text": text, "emoji": false } })
}
