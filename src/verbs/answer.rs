//! The answer to a message: which verb each option of a record stands for. Whether it may be done is judged elsewhere.

use super::OwnerVerb;
use crate::escalate::Record;
use crate::model::Verb;
use crate::protocol::handoff;

/// The words are not among the options of the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchOption {
    #[error("`{answer}` is no answer to `{id}`; its options: {options}")]
    Other { answer: String, id: String, options: String },
    #[error("`{id}` asks for no answer; `agency ack {id}` says that you have seen it")]
    NoQuestion { id: String },
}

/// A question of an agent takes one of its options, or any words where it has none; the protocol knows.
const QUESTION: &str = "HO-07";

pub fn answer(
    record: &Record,
    option: &str,
    reason: Option<&str>,
) -> Result<OwnerVerb, NoSuchOption> {
    if is_question(record) {
        let words = [
            ("do", Some("answer")),
            ("id", Some(record.id.as_str())),
            ("text", Some(option)),
            ("reason", reason),
        ];
        return Ok(OwnerVerb::new(Verb::Do, Some(handoff::NAME), &words));
    }
    let known = record.options.iter().any(|known| known == option);
    let verb = match option {
        "resume" if known => Verb::Resume,
        "trust" if known => Verb::Trust,
        "adopt" if known => Verb::Adopt,
        "restore" if known => Verb::Restore,
        other => {
            let (id, options) = (record.id.clone(), record.options.join(", "));
            return Err(match options.is_empty() {
                true => NoSuchOption::NoQuestion { id },
                false => NoSuchOption::Other { answer: other.to_owned(), id, options },
            });
        }
    };
    let words = [("reason", reason), ("answers", Some(record.id.as_str()))];
    Ok(OwnerVerb::new(verb, None, &words))
}

/// An agent waits for words of the owner's.
pub fn is_question(record: &Record) -> bool {
    record.rule == QUESTION
}
