//! How the owner is reached: the `escalation` and `heartbeat` of a configuration. It sends nothing.

use super::address::{mail_address, smtp, url};
use super::quiet::{Quiet, TimeOfDay, quiet, time_of_day};
use super::value::{
    duration, env_name, known_name, list, name, one_of, optional, some_list, text, yes_or_no,
};
use super::walk::{Section, Spot, section};
use super::yaml::Kind;
use crate::model::Severity;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscalationConfig {
    pub webhooks: Vec<Webhook>,
    pub email: Vec<Email>,
    pub commands: Vec<CommandChannel>,
    /// Channel `desktop`: notifications of this machine.
    pub desktop: bool,
    /// When the desktop stays quiet.
    pub desktop_quiet: Option<Quiet>,
    /// The channels of a severity, by name; a severity that is not here goes to all.
    pub routes: BTreeMap<Severity, Vec<String>>,
    /// Before an unacknowledged escalation is repeated.
    pub repeat: Duration,
    /// Before the first retry of a delivery; doubles.
    pub backoff: Duration,
    /// When the daily report is sent.
    pub digest: Option<TimeOfDay>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// `webhook-1`, `webhook-2` … unless given.
    pub name: String,
    pub url: String,
    pub format: WebhookFormat,
    /// The variable that holds the signing secret.
    pub secret_env: Option<String>,
    /// May the address be one of a private network?
    pub allow_private: bool,
    /// When only what is critical may come.
    pub quiet: Option<Quiet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookFormat {
    Json,
    Slack,
    Discord,
    Ntfy,
    Teams,
}

const FORMATS: &[(&str, WebhookFormat)] = &[
    ("json", WebhookFormat::Json),
    ("slack", WebhookFormat::Slack),
    ("discord", WebhookFormat::Discord),
    ("ntfy", WebhookFormat::Ntfy),
    ("teams", WebhookFormat::Teams),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    /// `email-1`, `email-2` … unless given.
    pub name: String,
    pub smtp: String,
    /// The variable that holds the password.
    pub password_env: Option<String>,
    pub from: String,
    pub to: Vec<String>,
    /// When only what is critical may come.
    pub quiet: Option<Quiet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandChannel {
    /// `command-1`, `command-2` … unless given.
    pub name: String,
    pub command: Vec<String>,
    /// When only what is critical may come.
    pub quiet: Option<Quiet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    pub url: String,
    pub every: Duration,
}

const SECOND: Duration = Duration::from_secs(1);

impl Default for EscalationConfig {
    fn default() -> Self {
        Self {
            webhooks: Vec::new(),
            email: Vec::new(),
            commands: Vec::new(),
            desktop: false,
            desktop_quiet: None,
            routes: BTreeMap::new(),
            repeat: 4 * 3600 * SECOND,
            backoff: 30 * SECOND,
            digest: None,
        }
    }
}

impl EscalationConfig {
    /// The names of all channels.
    pub fn channels(&self) -> Vec<&str> {
        let webhooks = self.webhooks.iter().map(|channel| &channel.name);
        let email = self.email.iter().map(|channel| &channel.name);
        let commands = self.commands.iter().map(|channel| &channel.name);
        let named = webhooks.chain(email).chain(commands).map(String::as_str);
        named.chain(self.desktop.then_some("desktop")).collect()
    }

    /// The variables that hold secrets of channels: no agent may ever see them (SE-03).
    pub fn secret_names(&self) -> Vec<&str> {
        let webhooks = self.webhooks.iter().filter_map(|channel| channel.secret_env.as_deref());
        let email = self.email.iter().filter_map(|channel| channel.password_env.as_deref());
        webhooks.chain(email).collect()
    }
}

pub(super) fn read_escalation(spot: &mut Spot<'_>) -> Option<EscalationConfig> {
    section(spot, |keys| {
        let mut escalation = EscalationConfig::default();
        keys.set("webhooks", &mut escalation.webhooks, list(read_webhook));
        keys.set("email", &mut escalation.email, one_or_more(read_email));
        keys.set("commands", &mut escalation.commands, list(read_command));
        keys.set("desktop", &mut escalation.desktop, yes_or_no);
        keys.set("desktop_quiet", &mut escalation.desktop_quiet, optional(quiet));
        keys.set("repeat", &mut escalation.repeat, duration(60 * SECOND));
        keys.set("backoff", &mut escalation.backoff, duration(Duration::from_millis(1)));
        keys.set("digest", &mut escalation.digest, optional(time_of_day));
        name_channels(&mut escalation);
        refuse_twins(keys, &escalation);
        let channels: Vec<&str> = escalation.channels();
        let routes = keys.get("routes", |spot| read_routes(spot, &channels));
        escalation.routes = routes.unwrap_or_default();
        escalation
    })
}

fn read_webhook(spot: &mut Spot<'_>) -> Option<Webhook> {
    section(spot, |keys| {
        let name = keys.get("name", name).unwrap_or_default();
        let url = keys.need("url", "the address of the webhook", url);
        let format = keys.get("format", one_of(FORMATS)).unwrap_or(WebhookFormat::Json);
        let secret_env = keys.get("secret_env", optional(env_name)).flatten();
        let allow_private = keys.get("allow_private", yes_or_no).unwrap_or(false);
        let quiet = keys.get("quiet", optional(quiet)).flatten();
        Some(Webhook { name, url: url?, format, secret_env, allow_private, quiet })
    })?
}

fn read_email(spot: &mut Spot<'_>) -> Option<Email> {
    section(spot, |keys| {
        let name = keys.get("name", name).unwrap_or_default();
        let smtp = keys.need("smtp", "the mail server, such as `smtps://user@host:465`", smtp);
        let password_env = keys.get("password_env", optional(env_name)).flatten();
        let from = keys.need("from", "the sender's address", mail_address);
        let to = keys.need("to", "a list of addresses", some_list(mail_address));
        let quiet = keys.get("quiet", optional(quiet)).flatten();
        Some(Email { name, smtp: smtp?, password_env, from: from?, to: to?, quiet })
    })?
}

fn read_command(spot: &mut Spot<'_>) -> Option<CommandChannel> {
    section(spot, |keys| {
        let name = keys.get("name", name).unwrap_or_default();
        let command = keys.need("command", "a program and its arguments", some_list(text));
        let quiet = keys.get("quiet", optional(quiet)).flatten();
        Some(CommandChannel { name, command: command?, quiet })
    })?
}

pub(super) fn read_heartbeat(spot: &mut Spot<'_>) -> Option<Heartbeat> {
    section(spot, |keys| {
        let url = keys.need("url", "the address to ping", url);
        let every = keys.get("every", duration(SECOND)).unwrap_or(5 * 60 * SECOND);
        Some(Heartbeat { url: url?, every })
    })?
}

fn read_routes(spot: &mut Spot<'_>, channels: &[&str]) -> Option<BTreeMap<Severity, Vec<String>>> {
    section(spot, |keys| {
        let mut routes = BTreeMap::new();
        for (word, severity) in [
            ("notice", Severity::Notice),
            ("warning", Severity::Warning),
            ("critical", Severity::Critical),
        ] {
            let names = keys.get(word, list(known_name("a channel", channels)));
            routes.extend(names.map(|names| (severity, names)));
        }
        routes
    })
}

/// A list, or a single mapping that stands for a list of one.
fn one_or_more<T>(
    read: impl Fn(&mut Spot<'_>) -> Option<T>,
) -> impl FnOnce(&mut Spot<'_>) -> Option<Vec<T>> {
    move |spot| match &spot.node.kind {
        Kind::Map(_) => read(spot).map(|one| vec![one]),
        Kind::Null | Kind::List(_) | Kind::Scalar { .. } => list(read)(spot),
    }
}

fn name_channels(escalation: &mut EscalationConfig) {
    fn number<'a>(kind: &str, names: impl Iterator<Item = &'a mut String>) {
        for (at, name) in names.enumerate().filter(|(_, name)| name.is_empty()) {
            *name = format!("{kind}-{}", at + 1);
        }
    }
    number("webhook", escalation.webhooks.iter_mut().map(|channel| &mut channel.name));
    number("email", escalation.email.iter_mut().map(|channel| &mut channel.name));
    number("command", escalation.commands.iter_mut().map(|channel| &mut channel.name));
}

fn refuse_twins(keys: &mut Section<'_>, escalation: &EscalationConfig) {
    let mut channels = escalation.channels();
    channels.sort_unstable();
    for pair in channels.windows(2).filter(|pair| pair[0] == pair[1]) {
        keys.refuse(format!("two channels with the name `{}`", pair[0]), "a name for each");
    }
}
