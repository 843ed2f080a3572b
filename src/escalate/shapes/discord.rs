//! A message for a Discord webhook: one embed, no mention allowed. It knows no address.

use super::defuse::{defuse, fit};
use crate::escalate::message::Message;
use crate::model::Severity;
use serde_json::json;

/// Discord's bounds; all texts of an embed together may have 6000.
const TITLE_MAX: usize = 250;
const FIELD_MAX: usize = 1_000;
const TOTAL_MAX: usize = 5_500;
const MARKUP: &[char] =
    &['\\', '*', '_', '~', '|', '`', '>', '<', '[', ']', '(', ')', '#', ':', '-'];

pub(crate) fn discord(message: &Message) -> Vec<u8> {
    let title = safe(&message.title(), TITLE_MAX);
    let mut left = TOTAL_MAX - title.encode_utf16().count();
    let mut fields = Vec::new();
    for (heading, text) in message.parts() {
        let text = safe(&text, FIELD_MAX.min(left.saturating_sub(heading.len())));
        left = left.saturating_sub(heading.len() + text.encode_utf16().count());
        if !text.trim().is_empty() {
            fields.push(json!({ "name": heading, "value": text }));
        }
    }
    let colour = match message.severity {
        Severity::Notice => 0x3b_82_f6,
        Severity::Warning => 0xf5_9e_0b,
        Severity::Critical => 0xdc_26_26,
    };
    let embed = json!({ "title": title, "fields": fields, "color": colour });
    let value = json!({ "embeds": [embed], "allowed_mentions": { "parse": [] } });
    value.to_string().into_bytes()
}

fn safe(text: &str, limit: usize) -> String {
    fit(&defuse(text), limit, |c, out| {
        if MARKUP.contains(&c) {
            out.push('\\');
        }
        out.push(c);
    })
}
