//! A message for a Microsoft Teams workflow: an adaptive card whose texts are runs, which know no markup. It knows no address.

use super::defuse::{defuse, fit};
use crate::escalate::message::Message;
use crate::model::Severity;
use serde_json::{Value, json};

/// A card may have 28 KB; each run has this much of it.
const RUN_MAX: usize = 2_000;

pub(crate) fn teams(message: &Message) -> Vec<u8> {
    let colour = match message.severity {
        Severity::Notice => "accent",
        Severity::Warning => "warning",
        Severity::Critical => "attention",
    };
    let mut body = vec![rich(vec![run(&message.title(), "bolder", colour)])];
    for (heading, text) in message.parts() {
        let heading = run(&format!("{heading}: "), "bolder", "default");
        body.push(rich(vec![heading, run(&text, "default", "default")]));
    }
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    });
    let kind = "application/vnd.microsoft.card.adaptive";
    let attachment = json!({ "contentType": kind, "contentUrl": null, "content": card });
    json!({ "type": "message", "attachments": [attachment] }).to_string().into_bytes()
}

fn rich(inlines: Vec<Value>) -> Value {
    json!({ "type": "RichTextBlock", "inlines": inlines })
}

fn run(text: &str, weight: &str, color: &str) -> Value {
    let text = fit(&defuse(text), RUN_MAX, |c, out| out.push(c));
    json!({ "type": "TextRun", "text": text, "weight": weight, "color": color })
}
