//! How a daemon speaks: the courier that carries messages, what must not be in them, and the proofs of life. A command line
//! that works by itself has none of it: it writes the outbox, and the next daemon sends.

use super::{Channels, CourierHandle, Proofs, Redactor, Surroundings};
use crate::config::{Config, Env};
use crate::live::LiveFeed;

#[derive(Clone, Default)]
pub struct Notifier {
    pub courier: Option<CourierHandle>,
    pub redactor: Redactor,
    /// Somebody outside wants to know that every repository is looked after.
    pub proofs: Option<Proofs>,
    /// A terminal that shows what happens.
    pub live: LiveFeed,
}

impl Notifier {
    /// Something new is in an outbox.
    pub fn nudge(&self) {
        if let Some(courier) = &self.courier {
            courier.nudge();
        }
    }

    /// The channels as the configuration now wants them.
    pub fn reload(&self, config: &Config, env: &Env) {
        if let Some(courier) = &self.courier {
            courier.reload(channels(config, env));
        }
    }
}

/// The channels of a configuration. Whatever looks like a secret in our own environment never gets into a message (ES-05).
pub fn channels(config: &Config, env: &Env) -> Channels {
    let mut around = Surroundings::new(env.clone());
    around.secret_names =
        env.names().filter(|name| looks_secret(name)).map(str::to_owned).collect();
    Channels::new(&config.escalation, &around)
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"]
        .iter()
        .any(|word| name.contains(word))
}
