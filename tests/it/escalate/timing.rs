//! Reminders, quiet hours, storms and the heartbeat, with a clock that the test sets.

use super::receiver::{Receiver, Request};
use super::{Post, Working, escalation, plain_channels, wait_until, work};
use agency::escalate::{Channels, Courier, FloodLimit, Heartbeat, Outbox, Proofs};
use agency::model::{Escalation, Severity, Timestamp};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone)]
struct Watch(Arc<Mutex<Timestamp>>);

impl Watch {
    fn new(text: &str) -> Self {
        Self(Arc::new(Mutex::new(text.parse().unwrap())))
    }

    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn set(&self, text: &str) {
        *self.0.lock().unwrap() = text.parse().unwrap();
    }
}

fn work_by(watch: &Watch, channels: Channels, post: &Post) -> Working {
    let clock = watch.clone();
    let (courier, handle) = Courier::with_clock(channels, Arc::new(move || clock.now()));
    handle.watch(post.path());
    Working { handle, task: tokio::spawn(courier.run()) }
}

fn kinds(receiver: &Receiver) -> Vec<String> {
    receiver
        .requests()
        .iter()
        .map(|r| r.json()["type"].as_str().unwrap()[11..].to_owned())
        .collect()
}

// covers: ES-03 ES-07
#[tokio::test]
async fn a_cause_is_opened_repeated_acknowledged_and_resolved() {
    let (receiver, post, watch) =
        (Receiver::fine(), Post::new(), Watch::new("2026-01-01T00:00:00Z"));
    let channels = plain_channels(&format!("  webhooks: [ {{ url: '{}' }} ]", receiver.url("x")));
    let hold = Escalation { holds: true, ..escalation("a", Severity::Critical) };
    let id = post.raise_at(&hold, watch.now());
    let working = work_by(&watch, channels, &post);
    let expect = async |at: &str, wanted: &[&str]| {
        watch.set(at);
        working.handle.nudge();
        wait_until(at, || kinds(&receiver) == wanted).await;
        wait_until("written", || post.deliveries() == ["webhook-1 delivered 1"]).await;
    };
    expect("2026-01-01T00:00:01Z", &["opened"]).await;
    // Once more within the window is no message, only a count.
    post.raise_at(&hold, watch.now());
    expect("2026-01-01T03:59:00Z", &["opened"]).await;
    expect("2026-01-01T04:00:02Z", &["opened", "repeated"]).await;
    post.outbox.acknowledge(&id).unwrap();
    expect("2026-01-01T20:00:00Z", &["opened", "repeated"]).await;
    expect("2026-01-02T04:00:03Z", &["opened", "repeated", "repeated"]).await;
    post.resolve(&hold);
    expect("2026-01-02T05:00:00Z", &["opened", "repeated", "repeated", "resolved"]).await;
    assert_eq!(receiver.requests()[1].json()["count"], 2);
    let mut ids: Vec<String> = receiver.requests().iter().map(|r| r.id().to_owned()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
}

// covers: ES-01 ES-03
#[tokio::test]
async fn a_quiet_channel_wakes_nobody_but_for_what_is_critical_or_holds() {
    let (receiver, post, watch) =
        (Receiver::fine(), Post::new(), Watch::new("2026-01-01T23:00:00Z"));
    let yaml =
        format!("  webhooks: [ {{ url: '{}', quiet: '22:00-07:00 UTC' }} ]", receiver.url("x"));
    post.raise_at(&escalation("warning", Severity::Warning), watch.now());
    post.raise_at(&escalation("critical", Severity::Critical), watch.now());
    let hold = Escalation { holds: true, ..escalation("hold", Severity::Warning) };
    post.raise_at(&hold, watch.now());
    let working = work_by(&watch, plain_channels(&yaml), &post);
    wait_until("two", || receiver.count() == 2).await;
    let seen = || receiver.requests().iter().map(Request::text).collect::<String>();
    assert!(!seen().contains("flag warning"), "{}", seen());
    watch.set("2026-01-02T06:59:00Z");
    working.handle.nudge();
    post.raise_at(&escalation("late", Severity::Critical), watch.now());
    wait_until("the late one", || seen().contains("flag late")).await;
    assert!(!seen().contains("flag warning"), "{}", seen());
    watch.set("2026-01-02T07:00:00Z");
    working.handle.nudge();
    wait_until("the morning", || seen().contains("flag warning")).await;
}

// covers: ES-03
#[tokio::test]
async fn a_storm_of_ten_thousand_is_a_handful_of_messages_and_everything_is_listed() {
    let (receiver, post) = (Receiver::fine(), Post::in_memory());
    let limit = FloodLimit { alone: 10, window: Duration::from_secs(2) };
    let channels = plain_channels(&format!("  webhooks: [ {{ url: '{}' }} ]", receiver.url("x")));
    let working = work(channels.with_flood_limit(limit), &post);
    let start = Instant::now();
    for n in 0..10_000 {
        post.raise(&escalation(&format!("{}", n % 2_000), Severity::Warning));
        if n % 100 == 0 {
            working.handle.nudge();
            tokio::task::yield_now().await;
        }
    }
    let raised = start.elapsed();
    let hold = Escalation { holds: true, ..escalation("hold", Severity::Critical) };
    post.raise(&hold);
    working.handle.nudge();
    wait_until("the hold", || receiver.requests().iter().any(|r| r.text().contains("flag hold")))
        .await;
    let told = || {
        let delivered =
            |record: &agency::escalate::Record| record.deliveries.iter().any(|d| !d.is_waiting());
        Outbox::list(&post.path()).iter().filter(|record| delivered(record)).count()
    };
    wait_until("everything is told", || told() == 2_001).await;
    let (records, messages) = (post.records(), receiver.count());
    assert_eq!((records.len(), records.iter().map(|r| r.count).sum::<u64>()), (2_001, 10_001));
    println!("10,000 raises in {raised:?}, {messages} messages");
    assert!(messages <= 30, "{messages} messages: {:?}", kinds(&receiver));
    let digests: Vec<Request> = receiver
        .requests()
        .into_iter()
        .filter(|r| r.json()["type"] == "escalation.digest")
        .collect();
    let counted: u64 = digests.iter().map(|r| r.json()["count"].as_u64().unwrap()).sum();
    assert_eq!(counted + messages as u64 - digests.len() as u64, 2_001, "each cause is told once");
}

// covers: ES-08
#[tokio::test]
async fn the_heart_beats_only_on_proof() {
    let receiver = Receiver::fine();
    let every = Duration::from_millis(20);
    let config = agency::config::Heartbeat { url: receiver.url("ping"), every };
    let (proofs, heart) = (Proofs::default(), Heartbeat::new(&config).unwrap());
    let proof = proofs.promise();
    let beating = tokio::spawn(heart.run(proofs));
    tokio::time::sleep(5 * every).await;
    assert_eq!(receiver.count(), 0, "nobody has proven anything");
    proof.beat();
    wait_until("a ping", || receiver.count() == 1).await;
    tokio::time::sleep(5 * every).await;
    assert_eq!(receiver.count(), 1, "one proof is one ping");
    proof.beat();
    wait_until("another ping", || receiver.count() == 2).await;
    beating.abort();
}
