//! A message for an ntfy topic: headers in ASCII, the text as the body. It knows no address.

use crate::escalate::message::Message;
use crate::model::Severity;
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// A longer body would become an attachment.
const BODY_MAX: usize = 3_900;
const TITLE_MAX: usize = 200;

pub(crate) struct Note {
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

pub(crate) fn ntfy(message: &Message) -> Note {
    let (priority, tags) = match message.severity {
        Severity::Notice => ("2", "information_source"),
        Severity::Warning => ("4", "warning"),
        Severity::Critical => ("5", "rotating_light"),
    };
    let title: String = message.title().chars().take(TITLE_MAX).collect();
    let headers = vec![
        ("Title", header_text(&title)),
        ("Priority", priority.to_owned()),
        ("Tags", tags.to_owned()),
        ("Markdown", "no".to_owned()),
    ];
    let mut body = message.plain();
    if body.len() > BODY_MAX {
        let end = (0..=BODY_MAX).rev().find(|end| body.is_char_boundary(*end)).unwrap_or(0);
        body.truncate(end);
        body.push('…');
    }
    Note { headers, body: body.into_bytes() }
}

/// As it is when it is plain ASCII on one line, else encoded (RFC 2047).
pub(super) fn header_text(text: &str) -> String {
    // A text that looks encoded would be decoded into something that nobody has looked at.
    let plain = text.chars().all(|c| c == ' ' || c.is_ascii_graphic()) && !text.contains("=?");
    if plain {
        return text.to_owned();
    }
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("=?UTF-8?B?{}?=", STANDARD.encode(clean))
}
