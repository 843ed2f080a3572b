//! The owner's channels, ready to send: from the configuration and the environment. It decides nothing about when.

use super::message::Message;
use super::pace::{Outcome, Pace};
use super::plan::FloodLimit;
use super::redact::Redactor;
use super::send::{ATTEMPT_LIMIT, CommandSender, Desktop, Mailer, Outgoing, Sender, WebhookSender};
use crate::config::{Env, EscalationConfig, Quiet};
use crate::model::{Severity, Timestamp, clip};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// What channels take from the machine that they run on.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub env: Env,
    /// Variables whose values must never appear in a message, beside those of the channels themselves.
    pub secret_names: Vec<String>,
    /// Certificates (PEM) that are trusted beside the system's.
    pub roots: Vec<Vec<u8>>,
    /// The longest that one attempt may take, for each recipient.
    pub attempt_limit: Duration,
}

impl Surroundings {
    pub fn new(env: Env) -> Self {
        let (secret_names, roots) = (Vec::new(), Vec::new());
        Self { env, secret_names, roots, attempt_limit: ATTEMPT_LIMIT }
    }
}

#[derive(Clone)]
pub struct Channels {
    pub(super) list: Vec<Arc<Channel>>,
    routes: BTreeMap<Severity, Vec<String>>,
    pub(super) repeat: Duration,
    pub(super) pace: Pace,
    pub(super) flood: FloodLimit,
    pub(super) redactor: Redactor,
}

pub(super) struct Channel {
    pub(super) name: String,
    pub(super) quiet: Option<Quiet>,
    sender: Sender,
    limit: Duration,
}

impl Channels {
    /// A channel that cannot work as it is configured is there all the same: what it should send waits, and says why.
    pub fn new(config: &EscalationConfig, around: &Surroundings) -> Self {
        let EscalationConfig { routes, repeat, backoff, .. } = config;
        Self {
            list: channels(config, around).into_iter().map(Arc::new).collect(),
            routes: routes.clone(),
            repeat: *repeat,
            pace: Pace::new(*backoff),
            flood: FloodLimit::default(),
            redactor: redactor(config, around),
        }
    }

    #[must_use]
    pub fn with_flood_limit(self, flood: FloodLimit) -> Self {
        Self { flood, ..self }
    }

    pub fn names(&self) -> Vec<&str> {
        self.list.iter().map(|channel| channel.name.as_str()).collect()
    }

    /// Channels that cannot send, and why.
    pub fn problems(&self) -> Vec<(&str, &str)> {
        self.list
            .iter()
            .filter_map(|channel| Some((channel.name.as_str(), channel.broken()?)))
            .collect()
    }

    /// Knows the secrets of the channels; for everything else that is said or written.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<Channel>> {
        self.list.iter().find(|channel| channel.name == name)
    }

    /// A severity without a route goes everywhere.
    pub(super) fn is_routed(&self, severity: Severity, channel: &str) -> bool {
        let route = self.routes.get(&severity);
        route.is_none_or(|names| names.iter().any(|name| name == channel))
    }

    /// One message to every channel, all at once, once each (`agency escalate --test`).
    pub async fn test(&self, host: &str, now: Timestamp) -> Vec<(String, Result<(), String>)> {
        let nonce = uuid::Uuid::new_v4().to_string();
        let message = Message::test(&nonce, host, now);
        let mut attempts = JoinSet::new();
        for channel in &self.list {
            let outgoing =
                Outgoing { message: message.clone(), made: now, now, reached: Vec::new() };
            let channel = Arc::clone(channel);
            attempts.spawn(async move { (channel.name.clone(), channel.send(&outgoing).await) });
        }
        let mut results: Vec<_> = attempts
            .join_all()
            .await
            .into_iter()
            .map(|(name, outcome)| (name, self.verdict(outcome)))
            .collect();
        results.sort_by_key(|(name, _)| self.names().iter().position(|known| known == name));
        results
    }

    fn verdict(&self, outcome: Outcome) -> Result<(), String> {
        match outcome {
            Outcome::Delivered => Ok(()),
            Outcome::Later { error, .. }
            | Outcome::Refused { error }
            | Outcome::Never { error } => Err(clip(&self.redactor.clean(&error), 300)),
        }
    }
}

impl Channel {
    pub(super) async fn send(&self, outgoing: &Outgoing) -> Outcome {
        match tokio::time::timeout(self.limit, self.sender.send(outgoing)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::later("it took too long"),
        }
    }

    fn broken(&self) -> Option<&str> {
        match &self.sender {
            Sender::Broken(why) => Some(why),
            Sender::Webhook(_) | Sender::Mail(_) | Sender::Desktop(_) | Sender::Command(_) => None,
        }
    }
}

fn channels(config: &EscalationConfig, around: &Surroundings) -> Vec<Channel> {
    let limit = around.attempt_limit;
    let channel = |name: &str, quiet, sender: Result<Sender, String>| {
        let sender = sender.unwrap_or_else(Sender::Broken);
        Channel { name: name.to_owned(), quiet, sender, limit }
    };
    let webhooks = config.webhooks.iter().map(|webhook| {
        let sender = secret(&around.env, webhook.secret_env.as_deref())
            .and_then(|secret| WebhookSender::new(webhook, secret.as_deref(), &around.roots))
            .map(|sender| Sender::Webhook(Box::new(sender)));
        channel(&webhook.name, webhook.quiet, sender)
    });
    let email = config.email.iter().map(|email| {
        let sender = secret(&around.env, email.password_env.as_deref())
            .and_then(|password| Mailer::new(email, password, &around.roots))
            .map(|sender| Sender::Mail(Box::new(sender)));
        let recipients = u32::try_from(email.to.len()).unwrap_or(u32::MAX);
        Channel {
            limit: limit.saturating_mul(recipients),
            ..channel(&email.name, email.quiet, sender)
        }
    });
    let commands = config.commands.iter().map(|command| {
        let sender = Sender::Command(CommandSender::new(&command.command, &around.env));
        channel(&command.name, command.quiet, Ok(sender))
    });
    let desktop = config.desktop.then(|| {
        let sender = Sender::Desktop(Desktop::new(&around.env));
        channel("desktop", config.desktop_quiet, Ok(sender))
    });
    webhooks.chain(email).chain(commands).chain(desktop).collect()
}

fn secret(env: &Env, name: Option<&str>) -> Result<Option<String>, String> {
    let Some(name) = name else { return Ok(None) };
    let value = env.get(name).and_then(|value| value.to_str());
    value.map(|value| Some(value.to_owned())).ok_or(format!("the variable `{name}` is not set"))
}

/// The path of a webhook is often its only secret.
fn redactor(config: &EscalationConfig, around: &Surroundings) -> Redactor {
    let named =
        config.secret_names().into_iter().chain(around.secret_names.iter().map(String::as_str));
    let values = named.filter_map(|name| around.env.get(name)?.to_str());
    let urls = config.webhooks.iter().flat_map(|webhook| {
        let rest = webhook.url.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        // A short path is a word, not a secret.
        [webhook.url.as_str(), path].into_iter().filter(move |_| path.len() >= 12)
    });
    Redactor::new(values.chain(urls))
}
