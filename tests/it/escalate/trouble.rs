//! Receivers that fail in every way: nothing is lost, the id stays, redirects lead nowhere, nobody blocks anybody.

use super::receiver::{Answer, Receiver};
use super::{Post, channels, env, escalation, plain_channels, wait_until, work};
use agency::escalate::{Courier, Record, Surroundings};
use agency::model::Severity;
use std::collections::BTreeSet;
use std::time::Duration;

fn hook(receiver: &Receiver) -> String {
    format!("  webhooks: [ {{ name: hook, url: '{}' }} ]", receiver.url("services/T0PSECRETPATH"))
}

// covers: ES-02 ES-04
#[tokio::test]
async fn one_id_through_every_failure_until_it_arrives() {
    let elsewhere = Receiver::fine();
    let moved = Answer::With(302, "location: http://169.254.169.254/latest/meta-data".to_owned());
    let near = Answer::With(307, format!("location: {}", elsewhere.url("x")));
    let patience = Answer::With(429, "retry-after: 0".to_owned());
    let stuck = Answer::Slow(Duration::from_secs(2));
    let script = [
        Answer::Hang,
        Answer::Drop,
        Answer::Status(500),
        Answer::Half,
        moved,
        near,
        patience,
        stuck,
        Answer::Status(404),
        Answer::Status(401),
        Answer::Status(200),
    ];
    let tries = script.len();
    let receiver = Receiver::new(move |n| script.get(n).cloned().unwrap_or(Answer::Status(200)));
    let post = Post::new();
    let mut around = Surroundings::new(env(&[]));
    around.attempt_limit = Duration::from_millis(300);
    let id = post.raise(&escalation("a", Severity::Critical));
    let _working = work(channels(&hook(&receiver), &around), &post);
    wait_until("delivery", || post.deliveries() == [format!("hook delivered {tries}")]).await;
    let ids: BTreeSet<String> = receiver.requests().iter().map(|r| r.id().to_owned()).collect();
    assert_eq!(ids, BTreeSet::from([format!("msg_{id}_1_opened")]));
    assert_eq!(elsewhere.count(), 0, "a redirect was followed");
    let bodies: BTreeSet<Vec<u8>> = receiver.requests().into_iter().map(|r| r.body).collect();
    assert_eq!(bodies.len(), 1, "the same message every time");
}

// covers: ES-02
#[tokio::test]
async fn what_is_refused_again_and_again_is_a_dead_letter_that_says_why() {
    let (receiver, post) = (Receiver::new(|_| Answer::Status(422)), Post::new());
    post.raise(&escalation("a", Severity::Warning));
    let _working = work(plain_channels(&hook(&receiver)), &post);
    wait_until("death", || post.deliveries() == ["hook dead 5"]).await;
    assert_eq!(post.records()[0].deliveries[0].error.as_deref(), Some("the receiver answered 422"));
}

// covers: ES-04
#[tokio::test]
async fn link_local_addresses_are_never_reached_and_no_error_says_the_address() {
    let post = Post::new();
    post.raise(&escalation("a", Severity::Warning));
    let hooks = "  webhooks: [ { name: cloud, url: 'https://169.254.169.254/T0PSECRETPATH', allow_private: true },
    { name: dead, url: 'https://127.0.0.1:1/T0PSECRETPATH' } ]";
    let _working = work(plain_channels(hooks), &post);
    let errors = || {
        let all = post.records().remove(0).deliveries;
        all.into_iter().filter_map(|delivery| delivery.error).collect::<Vec<String>>()
    };
    wait_until("two errors", || errors().len() == 2).await;
    assert!(errors()[0].contains("private"), "{:?}", errors());
    assert!(!errors().concat().contains("T0PSECRETPATH"), "{:?}", errors());
}

// covers: ES-02
#[tokio::test]
async fn a_slow_channel_does_not_keep_another_waiting() {
    let slow = Receiver::new(|_| Answer::Slow(Duration::from_secs(30)));
    let (fast, post) = (Receiver::fine(), Post::new());
    let channels = plain_channels(&format!(
        "  webhooks: [{{ name: slow, url: '{}' }}, {{ name: fast, url: '{}' }}]",
        slow.url("s"),
        fast.url("f")
    ));
    let working = work(channels, &post);
    for subject in ["a", "b", "c"] {
        post.raise(&escalation(subject, Severity::Warning));
        working.handle.nudge();
    }
    wait_until("the fast one has all", || fast.count() == 3).await;
    wait_until("the slow one has one", || slow.count() == 1).await;
    wait_until("what waits is shown", || post.deliveries()[1].starts_with("slow waiting")).await;
    // What is under way is on disk, with its id, before anybody has taken it.
    let first = slow.requests()[0].id().to_owned();
    let cause = first.split('_').nth(1).unwrap();
    let track = std::fs::read(post.path().join(format!("sent/{cause}.json"))).unwrap();
    let track: serde_json::Value = serde_json::from_slice(&track).unwrap();
    let parcel = &track["slow"]["parcel"];
    assert_eq!((&parcel["stage"], &parcel["id"]), (&"active".into(), &first.into()));
}

// covers: ES-02
#[tokio::test]
async fn a_courier_that_is_stopped_finishes_what_is_under_way() {
    let receiver = Receiver::new(|_| Answer::Slow(Duration::from_millis(200)));
    let post = Post::new();
    post.raise(&escalation("a", Severity::Warning));
    post.raise(&escalation("b", Severity::Warning));
    let running = Courier::start(plain_channels(&hook(&receiver)));
    running.handle().watch(post.path());
    wait_until("a request", || receiver.count() == 1).await;
    running.stop().await;
    let delivered = |record: &Record| record.deliveries.iter().any(|d| !d.is_waiting());
    assert_eq!(post.records().iter().filter(|record| delivered(record)).count(), 1);
    assert_eq!(receiver.count(), 1, "nothing new was started");
}
