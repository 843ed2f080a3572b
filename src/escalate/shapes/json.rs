//! The body of a webhook, and what a command gets on its standard input (DESIGN §10). It signs nothing.

use crate::escalate::message::{Message, severity_word};
use serde_json::json as object;

pub(crate) fn json(message: &Message) -> Vec<u8> {
    let value = object!({
        "type": format!("escalation.{}", message.kind.word()),
        "id": message.cause,
        "rule": message.rule,
        "severity": severity_word(message.severity),
        "repo": message.repo,
        "protocol": message.protocol,
        "summary": message.summary,
        "what": message.what,
        "did": message.did,
        "wont": message.wont,
        "resolve": message.resolve,
        "evidence": message.evidence,
        "count": message.count,
        "first_seen": message.first_seen,
        "message": message.id,
    });
    value.to_string().into_bytes()
}
