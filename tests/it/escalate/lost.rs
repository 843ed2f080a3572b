//! A courier that is dropped at any moment, hundreds of times: nothing lost, nothing invented, repeats under the same id.

use super::receiver::{Answer, Receiver};
use super::{Post, escalation, plain_channels};
use agency::escalate::{Channels, Courier, FloodLimit, Record};
use agency::model::Severity;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

const DROPS: usize = 500;
/// Everything goes alone.
const CALM: FloodLimit = FloodLimit { alone: 1_000, window: Duration::from_secs(60) };

/// Repeatable luck.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u32::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// Looks at a future a number of times, then lets it fall.
struct Fuse<F> {
    inner: Pin<Box<F>>,
    left: u32,
}

impl<F: Future> Future for Fuse<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.left -= 1;
        match self.inner.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    }
}

// covers: ES-02
#[tokio::test]
async fn a_courier_dropped_five_hundred_times_loses_and_invents_nothing() {
    let mut dice = Dice(11);
    let mut luck = Dice(12);
    let receiver = Receiver::new(move |_| match luck.below(8) {
        0 => Answer::Status(500),
        1 => Answer::Drop,
        2 => Answer::Hang,
        3 => Answer::Slow(Duration::from_millis(3)),
        _ => Answer::Status(200),
    });
    let post = Post::in_memory();
    let channels = hook(&receiver);
    let (mut wanted, mut open) = (BTreeSet::new(), Vec::new());
    for drop in 0..DROPS {
        if drop % 5 == 0 {
            let cause = escalation(&format!("{drop}"), Severity::Warning);
            wanted.insert(format!("msg_{}_1_opened", post.raise(&cause)));
            open.push(cause);
        } else if drop % 10 == 7 {
            let cause = open.remove(0);
            let id = cause.cause.id("a1b2c3d4");
            wanted.insert(format!("msg_{id}_2_resolved"));
            post.resolve(&cause);
        }
        live(&channels, CALM, &post, dice.below(12), dice.below(8)).await;
    }
    let done = || {
        let records = post.records();
        let told = |n: usize, kind: &str| {
            records
                .iter()
                .filter(|r| {
                    r.deliveries.iter().any(|d| !d.is_waiting() && d.message.ends_with(kind))
                })
                .count()
                == n
        };
        told(50, "_resolved") && told(50, "_opened")
    };
    for _ in 0..200 {
        if done() {
            break;
        }
        live(&channels, CALM, &post, 1_000_000, 100).await;
    }
    check(&receiver, &wanted);
}

// covers: ES-02 ES-03
#[tokio::test]
async fn a_courier_dropped_in_a_storm_tells_each_cause_once() {
    let (mut dice, mut luck) = (Dice(21), Dice(22));
    let receiver = Receiver::new(move |_| match luck.below(4) {
        0 => Answer::Drop,
        _ => Answer::Status(200),
    });
    let post = Post::in_memory();
    let channels = hook(&receiver);
    let limit = FloodLimit { alone: 3, window: Duration::from_millis(20) };
    for drop in 0..60 {
        for n in 0..10 {
            post.raise(&escalation(&format!("{drop} {n}"), Severity::Warning));
        }
        live(&channels, limit, &post, dice.below(12), dice.below(30)).await;
    }
    let told = |record: &Record| record.deliveries.iter().any(|d| !d.is_waiting());
    for _ in 0..200 {
        if post.records().iter().all(told) {
            break;
        }
        live(&channels, limit, &post, 1_000_000, 100).await;
    }
    let taken: BTreeMap<String, u64> = receiver
        .requests()
        .iter()
        .filter(|request| request.answer == Answer::Status(200))
        .map(|request| (request.id().to_owned(), request.json()))
        .map(|(id, body)| {
            (
                id,
                if body["type"] == "escalation.digest" {
                    body["count"].as_u64().unwrap()
                } else {
                    1
                },
            )
        })
        .collect();
    assert_eq!(taken.values().sum::<u64>(), 600, "each of 600 causes once: {taken:?}");
    assert!(taken.len() < 400, "{} messages", taken.len());
}

fn hook(receiver: &Receiver) -> Channels {
    plain_channels(&format!("  webhooks: [ {{ name: hook, url: '{}' }} ]", receiver.url("x")))
}

/// One life of a courier: so many looks, at most so many milliseconds.
async fn live(channels: &Channels, limit: FloodLimit, post: &Post, looks: u32, millis: u32) {
    let (courier, handle) = Courier::new(channels.clone().with_flood_limit(limit));
    handle.watch(post.path());
    let life = Fuse { inner: Box::pin(courier.run()), left: looks };
    // Both ends are ordinary: it was dropped by the fuse, or by the clock.
    drop(tokio::time::timeout(Duration::from_millis(u64::from(millis)), life).await);
}

fn check(receiver: &Receiver, wanted: &BTreeSet<String>) {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    let mut heard = BTreeSet::new();
    for request in receiver.requests() {
        heard.insert(request.id().to_owned());
        if matches!(request.answer, Answer::Status(200) | Answer::Slow(_)) {
            *taken.entry(request.id().to_owned()).or_default() += 1;
        }
    }
    let lost: Vec<&String> = wanted.iter().filter(|id| !taken.contains_key(*id)).collect();
    let invented: Vec<&String> = heard.difference(wanted).collect();
    let again: usize = taken.values().map(|times| times - 1).sum();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(invented.is_empty(), "invented: {invented:?}");
    assert!(again <= DROPS, "{again} taken again in {DROPS} drops");
}
