//! Escalations over real sockets of this machine: channels, trouble on the way, storms, couriers that vanish.

mod channels;
mod lost;
mod mail;
pub(crate) mod receiver;
pub(crate) mod server;
mod timing;
mod trouble;

use agency::config::{Config, Env};
use agency::escalate::{Channels, Courier, CourierHandle, Outbox, Record, Surroundings};
use agency::model::{Cause, Escalation, Key, RuleId, Severity, Timestamp};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(20);

/// An outbox and those who use it.
pub(crate) struct Post {
    dir: TempDir,
    outbox: Outbox,
    keys: AtomicU64,
}

impl Post {
    pub(crate) fn new() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap())
    }

    /// In memory where the machine has such a place, for what would wear a disk out.
    pub(crate) fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::in_dir(dir.unwrap())
    }

    fn in_dir(dir: TempDir) -> Self {
        let outbox =
            Outbox::open(dir.path().join("outbox"), "a1b2c3d4", Path::new("/src/shop")).unwrap();
        Self { dir, outbox, keys: AtomicU64::new(0) }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("outbox")
    }

    fn key(&self) -> Key {
        Key::new(format!("loop-{}.0", self.keys.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn raise(&self, escalation: &Escalation) -> String {
        self.raise_at(escalation, chrono::Utc::now())
    }

    pub(crate) fn raise_at(&self, escalation: &Escalation, at: Timestamp) -> String {
        self.outbox.raise(escalation, &self.key(), at).unwrap()
    }

    pub(crate) fn resolve(&self, escalation: &Escalation) {
        self.outbox.resolve(&escalation.cause, &self.key(), chrono::Utc::now()).unwrap();
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        Outbox::list(&self.path())
    }

    /// What `agency escalations --json` would say of the first record's deliveries, as `channel state tries`.
    pub(crate) fn deliveries(&self) -> Vec<String> {
        let record = serde_json::to_value(&self.records()[0]).unwrap();
        let deliveries = record["deliveries"].as_array().unwrap();
        let one = |d: &serde_json::Value| {
            format!(
                "{} {} {}",
                d["channel"].as_str().unwrap(),
                d["state"].as_str().unwrap(),
                d["tries"]
            )
        };
        deliveries.iter().map(one).collect()
    }
}

pub(crate) fn escalation(subject: &str, severity: Severity) -> Escalation {
    Escalation {
        cause: Cause {
            protocol: "loop".to_owned(),
            rule: RuleId::new("LP-03"),
            subject: subject.to_owned(),
            epoch: 0,
        },
        severity,
        holds: false,
        summary: format!("flag {subject} was refused"),
        what: "The builder approved its own work.".to_owned(),
        did: "The flag was refused.".to_owned(),
        wont: "Go on.".to_owned(),
        resolve: "agency resume --repo /src/shop".to_owned(),
        options: Vec::new(),
        evidence: vec![".agent-status.json says `approved`".to_owned()],
        everywhere: false,
    }
}

pub(crate) fn env(pairs: &[(&str, &str)]) -> Env {
    let path = std::env::var("PATH").unwrap();
    let all = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    all.chain([("PATH".to_owned(), path)]).collect()
}

/// Channels from the `escalation` section of a configuration.
pub(crate) fn channels(yaml: &str, around: &Surroundings) -> Channels {
    let yaml = format!("escalation:\n  backoff: 1ms\n{yaml}\n");
    let config = Config::parse(yaml.as_bytes(), &Env::default());
    Channels::new(&config.unwrap_or_else(|problems| panic!("{problems}")).escalation, around)
}

pub(crate) fn plain_channels(yaml: &str) -> Channels {
    channels(yaml, &Surroundings::new(env(&[])))
}

/// A courier that ends with the test.
pub(crate) struct Working {
    pub(crate) handle: CourierHandle,
    task: JoinHandle<()>,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn work(channels: Channels, post: &Post) -> Working {
    let (courier, handle) = Courier::new(channels);
    handle.watch(post.path());
    Working { handle, task: tokio::spawn(courier.run()) }
}

pub(crate) async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let from = Instant::now();
    while !holds() {
        assert!(from.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
