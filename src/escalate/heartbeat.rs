//! A dead-man's switch (ES-08): an address that is pinged only while everybody who promised proves that they live.

use super::send::{Reach, client, why};
use crate::config::Heartbeat as Config;
use reqwest::{Client, Url};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Everybody who has promised to prove themselves. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Proofs {
    promised: Arc<Mutex<Vec<Weak<AtomicU64>>>>,
}

/// One promise. It ends when it is dropped.
#[derive(Debug)]
pub struct Proof {
    beats: Arc<AtomicU64>,
}

impl Proof {
    /// Says: I have just done my work.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }
}

impl Proofs {
    /// From now on silence of this one stops the heartbeat.
    pub fn promise(&self) -> Proof {
        let beats = Arc::new(AtomicU64::new(0));
        self.lock().push(Arc::downgrade(&beats));
        Proof { beats }
    }

    pub(super) fn witness(&self) -> Witness {
        Witness { proofs: self.clone(), seen: HashMap::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<AtomicU64>>> {
        // The list is whole whatever happened to whoever held it.
        self.promised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers what it has seen; each user of the proofs has one of its own.
pub(super) struct Witness {
    proofs: Proofs,
    seen: HashMap<usize, u64>,
}

impl Witness {
    /// Has everybody proven themselves since the last time that this was so? With nobody there is no proof.
    pub(super) fn is_proven(&mut self) -> bool {
        let mut promised = self.proofs.lock();
        promised.retain(|beats| beats.strong_count() > 0);
        let now: HashMap<usize, u64> = promised
            .iter()
            .filter_map(Weak::upgrade)
            .map(|beats| (Arc::as_ptr(&beats) as usize, beats.load(Ordering::Relaxed)))
            .collect();
        let alive =
            |(who, beats): (&usize, &u64)| self.seen.get(who).is_none_or(|seen| seen < beats);
        let proven =
            !now.is_empty() && now.iter().all(|(who, beats)| *beats > 0 && alive((who, beats)));
        if proven {
            self.seen = now;
        }
        proven
    }
}

pub struct Heartbeat {
    client: Client,
    url: Url,
    every: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("the heartbeat cannot be sent: {why}")]
pub struct HeartbeatError {
    why: String,
}

impl Heartbeat {
    /// The owner's own address: it may well be on a private network.
    pub fn new(config: &Config) -> Result<Self, HeartbeatError> {
        let url =
            Url::parse(&config.url).map_err(|error| HeartbeatError { why: error.to_string() })?;
        let reach = Reach::of(url.host_str().unwrap_or_default(), true);
        let client = client(reach, &[]).map_err(|error| HeartbeatError { why: why(error) })?;
        Ok(Self { client, url, every: config.every })
    }

    /// Pings every so often for as long as it is polled. A ping that fails is logged; the next one comes in its turn.
    pub async fn run(self, proofs: Proofs) {
        let mut witness = proofs.witness();
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !witness.is_proven() {
                tracing::warn!("no heartbeat: not everybody has proven that they work");
                continue;
            }
            if let Err(error) = self.ping().await {
                tracing::warn!(error, "the heartbeat was not taken");
            }
        }
    }

    async fn ping(&self) -> Result<(), String> {
        let response = self.client.get(self.url.clone()).send().await.map_err(why)?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("the receiver answered {status}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ES-08
    #[test]
    fn everybody_must_prove_themselves_since_the_last_ping() {
        let proofs = Proofs::default();
        let (mut ping, mut other) = (proofs.witness(), proofs.witness());
        assert!(!ping.is_proven(), "nobody has promised anything");
        let (one, two) = (proofs.promise(), proofs.promise());
        one.beat();
        assert!(!ping.is_proven(), "one of two");
        two.beat();
        assert!(ping.is_proven());
        assert!(!ping.is_proven(), "the same proof does not count twice");
        one.beat();
        assert!(!ping.is_proven(), "one of two");
        drop(two);
        assert!(ping.is_proven(), "who has left owes nothing");
        assert!(other.is_proven(), "each witness has an eye of its own");
    }
}
