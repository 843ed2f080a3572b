//! A message as mail: plain text and simple HTML, one thread per cause. It opens no connection.

use super::defuse::escape_html;
use crate::escalate::message::{Kind, Message};
use crate::model::Timestamp;
use lettre::Address;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};

/// Who writes to whom.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub from: Address,
    pub to: Address,
}

/// Tells other machines not to answer (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

/// The whole mail, ready to be sent. The same message gives the same `Message-ID`.
pub(crate) fn letter(
    message: &Message,
    letter: &Letter,
    made: Timestamp,
) -> Result<Vec<u8>, lettre::error::Error> {
    let root = thread_id(message, 1, &letter.from);
    let id = thread_id(message, message.seq, &letter.from);
    let mut builder = lettre::Message::builder()
        .from(Mailbox::new(Some("agency".to_owned()), letter.from.clone()))
        .to(Mailbox::new(None, letter.to.clone()))
        .date(made.into())
        .message_id(Some(id))
        .subject(subject(message))
        .header(AutoSubmitted);
    if message.seq > 1 {
        builder = builder.in_reply_to(root.clone()).references(root);
    }
    let text = SinglePart::builder().header(ContentType::TEXT_PLAIN).body(message.plain());
    let html = SinglePart::builder().header(ContentType::TEXT_HTML).body(html(message));
    let mail = builder.multipart(MultiPart::alternative().singlepart(text).singlepart(html))?;
    Ok(mail.formatted())
}

fn subject(message: &Message) -> String {
    let title = message.title();
    match message.kind {
        Kind::Opened | Kind::Digest => title,
        Kind::Repeated => format!("Re: {title}"),
        Kind::Resolved => format!("Re: {title} (resolved)"),
    }
}

fn thread_id(message: &Message, seq: u32, from: &Address) -> String {
    format!("<{}.{seq}@{}>", message.cause, from.domain())
}

fn html(message: &Message) -> String {
    let part = |(heading, text): &(&str, String)| {
        let text = escape_html(text).replace('\n', "<br>\n");
        format!("<tr><th align=\"left\" valign=\"top\">{heading}</th><td>{text}</td></tr>\n")
    };
    let rows: String = message.parts().iter().map(part).collect();
    let summary = escape_html(&message.summary);
    format!("<html><body><p><b>{summary}</b></p>\n<table>\n{rows}</table></body></html>\n")
}
