//! Looks that are only due by the clock go together: a thousand idle roots wake one thread once a second, and none for each.
//! One that does not come back keeps its walker; the next one takes the rest of the way.

use super::tell_of;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::timeout;

/// A walker that takes longer may stand before a dead mount.
const PATIENCE: Duration = Duration::from_millis(250);

type Look = Box<dyn FnOnce() -> HandBack + Send>;
/// Tells whoever waits for a look what it found.
type HandBack = Box<dyn FnOnce() + Send>;

pub(super) struct Patrol {
    /// Walkers are looks among the others.
    looks: Arc<Semaphore>,
    round: Mutex<Round>,
}

#[derive(Default)]
struct Round {
    /// Somebody takes care of what waits.
    led: bool,
    waiting: VecDeque<Look>,
    /// Handed back together: each alone would wake somebody.
    done: Vec<HandBack>,
}

impl Patrol {
    pub(super) fn new(looks: Arc<Semaphore>) -> Arc<Self> {
        Arc::new(Self { looks, round: Mutex::default() })
    }

    /// `None` only when the look failed by a fault of ours.
    pub(super) async fn take_along<R: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (send, back) = oneshot::channel();
        let look = move || -> HandBack {
            let found = look();
            Box::new(move || drop(send.send(found)))
        };
        if self.join(Box::new(look)) {
            tokio::spawn(Arc::clone(self).lead());
        }
        back.await.ok()
    }

    /// True for the first one: it needs somebody to lead.
    fn join(&self, look: Look) -> bool {
        self.with(|round| {
            round.waiting.push_back(look);
            !std::mem::replace(&mut round.led, true)
        })
    }

    async fn lead(self: Arc<Self>) {
        // Whoever is due in the same moment comes along.
        yield_now().await;
        while self.goes_on() {
            let Ok(permit) = Arc::clone(&self.looks).acquire_owned().await else { return };
            let patrol = Arc::clone(&self);
            let walker = spawn_blocking(move || {
                patrol.walk();
                drop(permit);
            });
            if let Ok(Err(error)) = timeout(PATIENCE, walker).await {
                tell_of(&error, "a look at a root failed");
            }
            self.hand_back();
        }
    }

    fn goes_on(&self) -> bool {
        self.with(|round| {
            round.led = !round.waiting.is_empty();
            round.led
        })
    }

    fn walk(&self) {
        while let Some(look) = self.with(|round| round.waiting.pop_front()) {
            let found = look();
            self.with(|round| round.done.push(found));
        }
        self.hand_back();
    }

    fn hand_back(&self) {
        for tell in self.with(|round| std::mem::take(&mut round.done)) {
            tell();
        }
    }

    fn with<R>(&self, change: impl FnOnce(&mut Round) -> R) -> R {
        change(&mut self.round.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::mpsc;
    use tokio::task::JoinSet;

    fn patrol() -> Arc<Patrol> {
        Patrol::new(Arc::new(Semaphore::new(4)))
    }

    // On a clock that stands still nobody loses patience with the walker.
    #[tokio::test(start_paused = true)]
    async fn what_is_due_together_is_looked_at_by_one_thread() {
        let (patrol, mut due) = (patrol(), JoinSet::new());
        for _ in 0..100 {
            let patrol = Arc::clone(&patrol);
            due.spawn(async move { patrol.take_along(|| std::thread::current().id()).await });
        }
        let threads: Vec<_> = due.join_all().await.into_iter().flatten().collect();
        assert_eq!(threads.len(), 100);
        let different = threads.iter().map(|id| format!("{id:?}")).collect::<BTreeSet<_>>();
        assert_eq!(different.len(), 1, "{different:?}");
    }

    #[tokio::test]
    async fn a_look_that_hangs_keeps_neither_those_before_nor_those_after_it() {
        let (patrol, (release, hung)) = (patrol(), mpsc::channel::<()>());
        let mut hanging = JoinSet::new();
        let stuck = Arc::clone(&patrol);
        let (before, after) = (Arc::clone(&patrol), Arc::clone(&patrol));
        let mut others = JoinSet::new();
        others.spawn(async move { before.take_along(|| "before").await });
        hanging.spawn(async move { stuck.take_along(move || hung.recv().is_ok()).await });
        others.spawn(async move { after.take_along(|| "after").await });
        let mut found = others.join_all().await;
        found.sort_unstable();
        assert_eq!(found, [Some("after"), Some("before")]);
        assert_eq!(patrol.take_along(|| "the next round").await, Some("the next round"));
        release.send(()).unwrap();
        assert_eq!(hanging.join_all().await, [Some(true)]);
    }

    #[tokio::test]
    async fn a_look_that_fails_ends_alone() {
        let patrol = patrol();
        let (bad, good) = (Arc::clone(&patrol), Arc::clone(&patrol));
        let (bad, good) = tokio::join!(
            bad.take_along(|| -> u8 { panic!("a fault in a test") }),
            good.take_along(|| 1_u8)
        );
        assert_eq!((bad, good), (None, Some(1)));
    }
}
