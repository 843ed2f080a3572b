//! The ways out of the house: one attempt, with a time limit, on one channel. It keeps nothing and repeats nothing.

mod command;
mod desktop;
mod email;
mod guard;
mod http;
mod sign;
mod webhook;

pub(super) use command::CommandSender;
pub(super) use desktop::Desktop;
pub(super) use email::Mailer;
pub(super) use guard::Reach;
pub(super) use http::{client, secure, why};
pub use sign::{SigningKeys, signature};
pub(super) use webhook::WebhookSender;

use super::message::Message;
use super::pace::Outcome;
use crate::model::Timestamp;
use std::time::Duration;

pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(10);
pub(super) const ATTEMPT_LIMIT: Duration = Duration::from_secs(20);

/// One attempt to deliver.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) made: Timestamp,
    pub(super) now: Timestamp,
    /// Recipients who have it already.
    pub(super) reached: Vec<String>,
}

pub(super) enum Sender {
    Webhook(Box<WebhookSender>),
    Mail(Box<Mailer>),
    Desktop(Desktop),
    Command(CommandSender),
    /// Configured, but not usable as it is; says why.
    Broken(String),
}

impl Sender {
    pub(super) async fn send(&self, outgoing: &Outgoing) -> Outcome {
        match self {
            Self::Webhook(webhook) => webhook.send(outgoing).await,
            Self::Mail(mailer) => mailer.send(outgoing).await,
            Self::Desktop(desktop) => desktop.send(outgoing).await,
            Self::Command(command) => command.send(outgoing).await,
            Self::Broken(why) => Outcome::later(why.clone()),
        }
    }
}
