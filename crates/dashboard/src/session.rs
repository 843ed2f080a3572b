//! Who has entered: one-use links and the sessions that they open. Kept in memory only, so that nobody who can write our files
//! can make one; a restart of the daemon ends them all.

use crate::token::{Hashed, Key, Token};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A link that was not used within this time is worth nothing.
pub(crate) const LINK_LIFE: Duration = Duration::from_secs(300);
const SESSION_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
const LINKS: usize = 32;
const SESSIONS: usize = 64;
/// Requests of one session whose second use is known.
const USED: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Read,
    /// And read.
    Act,
}

/// One browser that has entered.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) right: Right,
    pub(crate) key: Key,
}

struct Known {
    session: Session,
    expires: Instant,
    /// What the last act was answered, for the next page.
    flash: Option<String>,
    used: VecDeque<String>,
}

#[derive(Default)]
struct Inner {
    links: BTreeMap<Hashed, (Right, Instant)>,
    sessions: BTreeMap<Hashed, Known>,
}

#[derive(Default)]
pub(crate) struct Sessions(Mutex<Inner>);

impl Sessions {
    pub(crate) fn link(&self, right: Right, now: Instant) -> io::Result<Token> {
        let token = Token::fresh()?;
        let mut inner = self.lock();
        inner.links.retain(|_, (_, expires)| *expires > now);
        while inner.links.len() >= LINKS {
            inner.links.pop_first();
        }
        inner.links.insert(token.hashed(), (right, now + LINK_LIFE));
        Ok(token)
    }

    /// A link becomes a session, once. `None`: there is no such link, or no longer.
    pub(crate) fn enter(&self, link: &Token, now: Instant) -> io::Result<Option<Token>> {
        let (cookie, key) = (Token::fresh()?, Key::fresh()?);
        let mut inner = self.lock();
        let Some((right, expires)) = inner.links.remove(&link.hashed()) else { return Ok(None) };
        if expires <= now {
            return Ok(None);
        }
        inner.sessions.retain(|_, known| known.expires > now);
        if inner.sessions.len() >= SESSIONS {
            let oldest = inner.sessions.iter().min_by_key(|(_, known)| known.expires);
            let oldest = oldest.map(|(hashed, _)| *hashed);
            oldest.and_then(|hashed| inner.sessions.remove(&hashed));
        }
        let session = Session { right, key };
        let (expires, used) = (now + SESSION_LIFE, VecDeque::new());
        inner.sessions.insert(cookie.hashed(), Known { session, expires, flash: None, used });
        Ok(Some(cookie))
    }

    pub(crate) fn find(&self, cookie: &Token, now: Instant) -> Option<Session> {
        let inner = self.lock();
        let known = inner.sessions.get(&cookie.hashed()).filter(|known| known.expires > now)?;
        Some(known.session.clone())
    }

    pub(crate) fn leave(&self, cookie: &Token) {
        self.lock().sessions.remove(&cookie.hashed());
    }

    /// False: this request came before, or its session is gone.
    pub(crate) fn use_once(&self, cookie: &Token, request: &str) -> bool {
        let mut inner = self.lock();
        let Some(known) = inner.sessions.get_mut(&cookie.hashed()) else { return false };
        if known.used.iter().any(|used| used == request) {
            return false;
        }
        if known.used.len() >= USED {
            known.used.pop_front();
        }
        known.used.push_back(request.to_owned());
        true
    }

    pub(crate) fn set_flash(&self, cookie: &Token, text: String) {
        if let Some(known) = self.lock().sessions.get_mut(&cookie.hashed()) {
            known.flash = Some(text);
        }
    }

    pub(crate) fn take_flash(&self, cookie: &Token) -> Option<String> {
        self.lock().sessions.get_mut(&cookie.hashed())?.flash.take()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WB-03
    #[test]
    fn a_link_opens_one_session_within_five_minutes() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let link = sessions.link(Right::Read, now).unwrap();
        let cookie = sessions.enter(&link, now).unwrap().unwrap();
        assert!(sessions.enter(&link, now).unwrap().is_none(), "a second use opens nothing");
        assert_eq!(sessions.find(&cookie, now).unwrap().right, Right::Read);
        assert!(sessions.find(&link, now).is_none(), "a link is no cookie");
        let late = sessions.link(Right::Act, now).unwrap();
        assert!(sessions.enter(&late, now + LINK_LIFE).unwrap().is_none());
        assert!(sessions.find(&cookie, now + SESSION_LIFE).is_none());
        sessions.leave(&cookie);
        assert!(sessions.find(&cookie, now).is_none(), "a cookie is worth nothing after leaving");
    }

    // covers: WB-02
    #[test]
    fn a_request_works_once() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let link = sessions.link(Right::Act, now).unwrap();
        let cookie = sessions.enter(&link, now).unwrap().unwrap();
        assert!(sessions.use_once(&cookie, "r1") && sessions.use_once(&cookie, "r2"));
        assert!(!sessions.use_once(&cookie, "r1"));
        assert!(!sessions.use_once(&link, "r3"), "without a session nothing works");
    }
}
