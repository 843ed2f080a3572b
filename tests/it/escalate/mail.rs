//! Mail over a real SMTP conversation: STARTTLS, sign-in, refusals for a while and for ever, threads.

use super::server::Server;
use super::{Post, channels, env, escalation, wait_until, work};
use agency::escalate::Surroundings;
use agency::model::Severity;

fn yaml(server: &Server, to: &str) -> String {
    format!(
        "  email: {{ name: owner, smtp: 'smtp://ann%40example.com@localhost:{}?tls=required', password_env: PASS, from: agency@box, to: [{to}] }}",
        server.port
    )
}

fn around(server: &Server, password: &str) -> Surroundings {
    let mut around = Surroundings::new(env(&[("PASS", password)]));
    around.roots = vec![server.root.clone()];
    around
}

// covers: ES-01 ES-06
#[tokio::test]
async fn mail_is_encrypted_signed_in_complete_and_one_thread() {
    let (server, post) = (Server::new(|_| None), Post::new());
    let cause = escalation("a", Severity::Critical);
    let id = post.raise(&cause);
    let working =
        work(channels(&yaml(&server, "owner@example.com"), &around(&server, "s3cret-pass")), &post);
    wait_until("a mail", || server.mails().len() == 1).await;
    post.resolve(&cause);
    working.handle.nudge();
    wait_until("its end", || server.mails().len() == 2).await;
    let [opened, ended] = <[_; 2]>::try_from(server.mails()).unwrap();
    assert!(opened.encrypted && opened.signed_in.as_deref() == Some("ann@example.com s3cret-pass"));
    assert_eq!(opened.to, "owner@example.com");
    for words in [
        &format!("Message-ID: <{id}.1@box>")[..],
        "Content-Type: multipart/alternative",
        "Content-Type: text/html",
        "approved its own work",
        "agency resume --repo /src/shop",
        "Auto-Submitted: auto-generated",
    ] {
        assert!(opened.text.contains(words), "{words} is missing in\n{}", opened.text);
    }
    assert!(ended.text.contains(&format!("References: <{id}.1@box>")), "{}", ended.text);
}

// covers: ES-02
#[tokio::test]
async fn one_wrong_recipient_costs_nobody_else_the_mail() {
    let mut busy = 2;
    let refuse = move |to: &str| match to {
        "gone@example.com" => Some("550 no such user"),
        "busy@example.com" if busy > 0 => {
            busy -= 1;
            Some("451 later")
        }
        _ => None,
    };
    let (server, post) = (Server::new(refuse), Post::new());
    post.raise(&escalation("a", Severity::Critical));
    let to = "gone@example.com, busy@example.com, owner@example.com";
    let _working = work(channels(&yaml(&server, to), &around(&server, "s3cret-pass")), &post);
    wait_until("delivery", || post.deliveries() == ["owner delivered 3"]).await;
    let reached: Vec<String> = server.mails().into_iter().map(|mail| mail.to).collect();
    assert_eq!(reached, ["owner@example.com", "busy@example.com"], "once each");
}

// covers: ES-02
#[tokio::test]
async fn a_recipient_who_does_not_exist_is_a_dead_letter_and_a_wrong_password_is_not() {
    let (server, post) = (Server::new(|_| Some("550 no such user")), Post::new());
    post.raise(&escalation("a", Severity::Critical));
    let yaml = yaml(&server, "gone@example.com");
    let _working = work(channels(&yaml, &around(&server, "s3cret-pass")), &post);
    wait_until("death", || post.deliveries() == ["owner dead 1"]).await;

    let post = Post::new();
    post.raise(&escalation("a", Severity::Critical));
    let _working = work(channels(&yaml, &around(&server, "wrong-password")), &post);
    wait_until("a retry", || post.records()[0].deliveries.first().is_some_and(|d| d.tries > 1))
        .await;
    assert!(post.records()[0].deliveries[0].is_waiting());
    assert!(
        !std::fs::read_to_string(
            post.path().join("sent").join(format!("{}.json", post.records()[0].id))
        )
        .unwrap()
        .contains("wrong-password")
    );
}

// covers: ES-01
#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_gets_no_mail() {
    let (server, post) = (Server::new(|_| None), Post::new());
    post.raise(&escalation("a", Severity::Critical));
    let around = Surroundings::new(env(&[("PASS", "s3cret-pass")]));
    let _working = work(channels(&yaml(&server, "owner@example.com"), &around), &post);
    let waits = || {
        post.records()[0].deliveries.first().cloned().filter(|d| d.tries > 1 && d.error.is_some())
    };
    wait_until("a second try", || waits().is_some()).await;
    assert!(server.mails().is_empty());
}
