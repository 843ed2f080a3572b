//! How each kind of channel shows a message. Pure text: nothing is sent here, and nothing in a message can ping anybody.

mod defuse;
mod discord;
mod json;
mod mail;
mod ntfy;
mod slack;
mod teams;

pub(super) use defuse::escape_html;
pub(super) use discord::discord;
pub(super) use json::json;
pub(super) use mail::{Letter, letter};
pub(super) use ntfy::ntfy;
pub(super) use slack::slack;
pub(super) use teams::teams;

#[cfg(test)]
mod tests;
