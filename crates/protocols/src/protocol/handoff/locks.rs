//! Locks in `.claude/state.json` (spec 4, Lock Protocol): who holds what until when, judged as pure functions (HO-05).
//!
//! The entries are the spec's (`agent`, `acquired`, `expires`) plus `token`, which rises with every grant. The real lock is
//! the one on the folder, under which the caller reads, judges and writes; without it none of this excludes anybody.

use crate::model::{Timestamp, clip};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// spec 4: thirty minutes.
pub const EXPIRY: Duration = Duration::from_secs(30 * 60);
const COUNTER: &str = "lock_counter";
const NAME_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Lock {
    pub agent: String,
    /// `None`: the entry does not say it, or not as a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquired: Option<Timestamp>,
    /// `None`: the same. Such a lock would be held for ever, so it counts as expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// `None`: written by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
}

impl Lock {
    /// An entry as somebody wrote it; the parts that cannot be read are unknown.
    pub fn read(entry: &Value) -> Self {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let time = |name: &str| text(name)?.parse().ok();
        let agent = text("agent").or(entry.as_str()).filter(|agent| !agent.trim().is_empty());
        Self {
            agent: agent.unwrap_or("unknown").to_owned(),
            acquired: time("acquired"),
            expires: time("expires"),
            token: entry.get("token").and_then(Value::as_u64),
        }
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now >= expires)
    }

    pub fn sentence(&self) -> String {
        let token = self.token.map_or_else(String::new, |token| format!(", token {token}"));
        let until = self.expires.map_or_else(
            || ", without a time at which it expires".to_owned(),
            |expires| format!(" until {}", expires.format("%Y-%m-%dT%H:%M:%SZ")),
        );
        format!("held by `{}`{until}{token}", clip(&self.agent, 60))
    }
}

/// Why a lock is not given, kept or given back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockRefusal {
    #[error("`{resource}` is {}; wait, skip it, or take it over once it has expired", held.sentence())]
    Held { resource: String, held: Lock },
    #[error("`{resource}` is not locked; `agency lock list` shows what is")]
    Free { resource: String },
    #[error("token {given} is no longer valid for `{resource}`, which is {}; acquire the lock again", held.sentence())]
    Stale { resource: String, given: u64, held: Lock },
    #[error("`{resource}` is {}; only its holder may do this: --agent {}", held.sentence(), clip(&held.agent, 60))]
    NotYours { resource: String, held: Lock },
    #[error("`{0}` cannot be a name here; write 1 to 200 characters on one line")]
    Name(String),
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub token: u64,
    pub expires: Timestamp,
    /// The expired lock that this one took over.
    pub taken_over: Option<Lock>,
}

/// Who says that a lock is theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    Token(u64),
    /// Not against a take-over: a lock that another agent took over is that agent's.
    Agent(String),
}

/// The locks of a state document. One that is malformed does not keep the others from working.
pub fn all(document: &Map<String, Value>) -> BTreeMap<String, Lock> {
    let entries = document.get("locks").and_then(Value::as_object).into_iter().flatten();
    entries.map(|(resource, entry)| (resource.clone(), Lock::read(entry))).collect()
}

/// Gives the lock, if it is free or has expired.
pub fn acquire(
    document: &mut Map<String, Value>,
    resource: &str,
    agent: &str,
    expiry: Duration,
    now: Timestamp,
) -> Result<Grant, LockRefusal> {
    let fine = |text: &str| {
        !text.trim().is_empty() && text.len() <= NAME_MAX && !text.chars().any(char::is_control)
    };
    if let Some(bad) = [resource, agent].into_iter().find(|text| !fine(text)) {
        return Err(LockRefusal::Name(clip(bad, 60)));
    }
    let taken_over = match held(document, resource) {
        Some(held) if !held.is_expired(now) => {
            return Err(LockRefusal::Held { resource: resource.to_owned(), held });
        }
        other => other,
    };
    let token = next_token(document);
    let expires = until(now, expiry);
    let (acquired, expires_at) = (Some(now), Some(expires));
    let lock = Lock { agent: agent.to_owned(), acquired, expires: expires_at, token: Some(token) };
    document.insert(COUNTER.to_owned(), token.into());
    put(document, resource, Some(&lock));
    Ok(Grant { token, expires, taken_over })
}

/// Gives the lock back.
pub fn release(
    document: &mut Map<String, Value>,
    resource: &str,
    claim: &Claim,
) -> Result<Lock, LockRefusal> {
    let held = proven(document, resource, claim)?;
    put(document, resource, None);
    Ok(held)
}

/// Moves the expiry. A lock that has expired and that nobody took over is still its holder's.
pub fn renew(
    document: &mut Map<String, Value>,
    resource: &str,
    claim: &Claim,
    expiry: Duration,
    now: Timestamp,
) -> Result<Lock, LockRefusal> {
    let mut held = proven(document, resource, claim)?;
    held.expires = held.expires.max(Some(until(now, expiry)));
    put(document, resource, Some(&held));
    Ok(held)
}

/// The lock, if the claim to it is good.
pub fn proven(
    document: &Map<String, Value>,
    resource: &str,
    claim: &Claim,
) -> Result<Lock, LockRefusal> {
    let resource = resource.to_owned();
    let Some(held) = held(document, &resource) else { return Err(LockRefusal::Free { resource }) };
    match claim {
        Claim::Token(given) if held.token == Some(*given) => Ok(held),
        Claim::Token(given) => Err(LockRefusal::Stale { resource, given: *given, held }),
        Claim::Agent(agent) if held.agent == *agent => Ok(held),
        Claim::Agent(_) => Err(LockRefusal::NotYours { resource, held }),
    }
}

fn held(document: &Map<String, Value>, resource: &str) -> Option<Lock> {
    document.get("locks")?.get(resource).map(Lock::read)
}

/// Above every token that was ever given, as far as the file knows.
fn next_token(document: &Map<String, Value>) -> u64 {
    let entries = document.get("locks").and_then(Value::as_object).into_iter().flatten();
    let tokens = entries.filter_map(|(_, entry)| entry.get("token").and_then(Value::as_u64));
    let counter = document.get(COUNTER).and_then(Value::as_u64);
    tokens.chain(counter).max().unwrap_or(0) + 1
}

fn until(now: Timestamp, expiry: Duration) -> Timestamp {
    let expiry = chrono::TimeDelta::from_std(expiry).ok();
    expiry.and_then(|expiry| now.checked_add_signed(expiry)).unwrap_or(Timestamp::MAX_UTC)
}

fn put(document: &mut Map<String, Value>, resource: &str, lock: Option<&Lock>) {
    let locks = document.entry("locks").or_insert_with(|| json!({}));
    if locks.is_null() {
        *locks = json!({});
    }
    if let Some(locks) = locks.as_object_mut() {
        match lock {
            Some(lock) => drop(locks.insert(resource.to_owned(), json!(lock))),
            None => drop(locks.remove(resource)),
        }
    }
}

/// A lock that changed hands although it had not expired: somebody wrote around the lock.
pub(super) fn is_stolen(before: &Lock, after: &Lock, now: Timestamp) -> bool {
    let risen = after.token > before.token;
    !before.is_expired(now) && before.agent != after.agent && !risen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    // covers: HO-05
    #[test]
    fn a_lock_is_held_expires_is_taken_over_and_its_token_rises() {
        let mut state = Map::new();
        let (noon, later) = (at("2026-01-01T12:00:00Z"), at("2026-01-01T12:30:00Z"));
        let first = acquire(&mut state, "src/a.rs", "builder", EXPIRY, noon).unwrap();
        assert_eq!((first.token, first.expires), (1, later));
        let refused = acquire(&mut state, "src/a.rs", "fixer", EXPIRY, at("2026-01-01T12:29:59Z"));
        assert!(matches!(refused, Err(LockRefusal::Held { .. })));
        let second = acquire(&mut state, "src/a.rs", "fixer", EXPIRY, later).unwrap();
        assert_eq!(second.token, 2);
        assert_eq!(second.taken_over.unwrap().agent, "builder");
        for stale in [
            release(&mut state, "src/a.rs", &Claim::Token(1)).unwrap_err(),
            renew(&mut state, "src/a.rs", &Claim::Token(1), EXPIRY, later).unwrap_err(),
        ] {
            assert!(matches!(stale, LockRefusal::Stale { given: 1, .. }), "{stale}");
        }
        release(&mut state, "src/a.rs", &Claim::Token(2)).unwrap();
        assert_eq!(acquire(&mut state, "src/a.rs", "fixer", EXPIRY, later).unwrap().token, 3);
    }

    // covers: HO-05
    #[test]
    fn a_lock_written_by_hand_is_honoured_until_it_expires() {
        let mut state = Map::new();
        state.insert(
            "locks".to_owned(),
            json!({"x": {"agent": "reviewer", "acquired": "2026-01-01T12:00:00Z", "expires": "2026-01-01T12:30:00Z"}}),
        );
        let early = acquire(&mut state, "x", "fixer", EXPIRY, at("2026-01-01T12:10:00Z"));
        assert!(matches!(early, Err(LockRefusal::Held { .. })));
        assert!(release(&mut state.clone(), "x", &Claim::Agent("fixer".to_owned())).is_err());
        assert!(release(&mut state.clone(), "x", &Claim::Agent("reviewer".to_owned())).is_ok());
        assert!(acquire(&mut state, "x", "fixer", EXPIRY, at("2026-01-01T12:30:00Z")).is_ok());
    }

    // covers: HO-05
    #[test]
    fn the_holder_releases_by_its_name_and_nobody_else_does() {
        let (noon, later) = (at("2026-01-01T12:00:00Z"), at("2026-01-01T12:30:00Z"));
        let mut state = Map::new();
        acquire(&mut state, "x", "builder", EXPIRY, noon).unwrap();
        let by = |name: &str| Claim::Agent(name.to_owned());
        let refused = release(&mut state, "x", &by("fixer")).unwrap_err().to_string();
        assert!(refused.contains("only its holder may do this: --agent builder"), "{refused}");
        let renewed = renew(&mut state, "x", &by("builder"), 2 * EXPIRY, noon).unwrap();
        assert_eq!(renewed.expires, Some(at("2026-01-01T13:00:00Z")));
        release(&mut state, "x", &by("builder")).unwrap();
        acquire(&mut state, "x", "builder", EXPIRY, noon).unwrap();
        acquire(&mut state, "x", "fixer", EXPIRY, later).unwrap();
        assert!(release(&mut state, "x", &by("builder")).is_err(), "it was taken over");
    }

    // covers: HO-05
    #[test]
    fn a_lock_that_cannot_be_read_counts_as_expired_and_the_others_work() {
        let noon = at("2026-01-01T12:00:00Z");
        let mut state = Map::new();
        state.insert(
            "locks".to_owned(),
            json!({
                "a": {"agent": "builder", "acquired": "2026-01-01T11:59:00Z"},
                "b": {"agent": "builder", "acquired": "2026-01-01T11:59:00Z", "expires": "soon"},
                "c": "builder", "d": 7,
                "e": {"agent": "reviewer", "acquired": "2026-01-01T11:59:00Z", "expires": "2026-01-01T12:29:00Z"},
            }),
        );
        let read = all(&state);
        assert_eq!(read["d"].agent, "unknown");
        for resource in ["a", "b", "c"] {
            assert_eq!((read[resource].agent.as_str(), read[resource].expires), ("builder", None));
            let over = acquire(&mut state, resource, "fixer", EXPIRY, noon).unwrap().taken_over;
            assert_eq!(over.unwrap().agent, "builder");
        }
        assert!(acquire(&mut state, "e", "fixer", EXPIRY, noon).is_err(), "it is held");
    }
}
