//! Every kind of channel gets every part of a message, signed, routed, and without a secret.

use super::receiver::Receiver;
use super::server::certified;
use super::{Post, channels, env, escalation, plain_channels, wait_until, work};
use agency::escalate::{Channels, Surroundings, signature};
use agency::model::{Escalation, Severity};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

fn five_shapes(receiver: &Receiver) -> String {
    let hook = |format: &str| {
        let url = receiver.url(format);
        format!("    - {{ name: {format}, url: '{url}', format: {format}, secret_env: HOOK }}\n")
    };
    let hooks: String = ["json", "slack", "discord", "ntfy", "teams"].map(hook).concat();
    format!("  webhooks:\n{hooks}")
}

fn with_keys(yaml: &str, keys: &str) -> Channels {
    channels(yaml, &Surroundings::new(env(&[("HOOK", keys)])))
}

// covers: ES-01 ES-04 ES-06
#[tokio::test]
async fn five_shapes_of_webhook_are_signed_with_both_keys_of_a_rotation() {
    let (receiver, post) = (Receiver::fine(), Post::new());
    let (new, old) = (STANDARD.encode("the new key"), STANDARD.encode("the old key"));
    let channels = with_keys(&five_shapes(&receiver), &format!("whsec_{new} whsec_{old}"));
    let id = post.raise(&escalation("a", Severity::Critical));
    let _working = work(channels, &post);
    wait_until("five requests", || receiver.count() == 5).await;
    for request in receiver.requests() {
        assert_eq!(request.id(), format!("msg_{id}_1_opened"));
        let timestamp: i64 = request.headers["webhook-timestamp"].parse().unwrap();
        assert!((chrono::Utc::now().timestamp() - timestamp).abs() < 60);
        let signed: Vec<&str> = request.headers["webhook-signature"].split(' ').collect();
        for (key, signed) in [&b"the new key"[..], b"the old key"].iter().zip(&signed) {
            assert_eq!(*signed, signature(key, request.id(), timestamp, &request.body));
        }
        let text = request.text().replace('\\', "");
        for words in
            ["/src/shop", "LP-03", "approved its own work", "agency resume --repo /src/shop"]
        {
            assert!(text.contains(words), "{words} is missing in {} {text}", request.path);
        }
    }
    wait_until("all delivered", || post.deliveries().iter().all(|d| d.ends_with("delivered 1")))
        .await;
}

// covers: ES-01
#[tokio::test]
async fn a_severity_goes_where_it_is_sent() {
    let (team, pager, post) = (Receiver::fine(), Receiver::fine(), Post::new());
    let channels = plain_channels(&format!(
        "  webhooks: [{{ name: team, url: '{}' }}, {{ name: pager, url: '{}' }}]
  routes: {{ notice: [], warning: [team], critical: [team, pager] }}",
        team.url("t"),
        pager.url("p")
    ));
    let all = [Severity::Notice, Severity::Warning, Severity::Critical];
    for severity in all {
        post.raise(&escalation(&format!("{severity:?}"), severity));
    }
    let working = work(channels, &post);
    wait_until("all", || team.count() == 2 && pager.count() == 1).await;
    assert_eq!(pager.requests()[0].json()["severity"], "critical");
    // The end goes to those who heard of the beginning.
    for severity in all {
        post.resolve(&escalation(&format!("{severity:?}"), severity));
    }
    working.handle.nudge();
    wait_until("the ends", || team.count() == 4 && pager.count() == 2).await;
    assert_eq!(pager.requests()[1].json()["type"], "escalation.resolved");
}

// covers: SE-04
#[tokio::test]
async fn the_use_of_a_loosening_verb_goes_to_every_channel_whatever_the_routes_say() {
    let (team, pager, post) = (Receiver::fine(), Receiver::fine(), Post::new());
    let channels = plain_channels(&format!(
        "  webhooks: [{{ name: team, url: '{}' }}, {{ name: pager, url: '{}' }}]
  routes: {{ notice: [], critical: [pager] }}",
        team.url("t"),
        pager.url("p")
    ));
    post.raise(&escalation("a notice that goes nowhere", Severity::Notice));
    post.raise(&Escalation::announcement("loop", "loop-7", "inject", "injected: a reason"));
    let _working = work(channels, &post);
    wait_until("both", || team.count() == 1 && pager.count() == 1).await;
    for request in [&team.requests()[0], &pager.requests()[0]] {
        let body = request.json();
        assert_eq!((&body["rule"], &body["severity"]), (&json!("SE-04"), &json!("notice")));
        assert!(body["summary"].as_str().unwrap().contains("agency inject"), "{body}");
    }
}

// covers: ES-01
#[tokio::test]
async fn a_command_gets_json_and_no_secret() {
    let post = Post::new();
    let out = post.path().join("out");
    let script = format!("cat > {0}.tmp; env >> {0}.tmp; mv {0}.tmp {0}", out.display());
    let yaml = format!("  commands: [ {{ name: pager, command: [sh, -c, '{script}'] }} ]");
    let around = Surroundings::new(env(&[("HOOK", "whsec_canary"), ("HOME", "/home/ann")]));
    let id = post.raise(&escalation("a", Severity::Warning));
    let _working = work(channels(&yaml, &around), &post);
    wait_until("the command", || out.exists()).await;
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(
        text.contains(r#""type":"escalation.opened""#) && text.contains("HOME=/home/ann"),
        "{text}"
    );
    assert!(text.contains(&format!("AGENCY_MESSAGE=msg_{id}_1_opened")), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

// covers: ES-05 SE-03
#[tokio::test]
async fn canaries_are_nowhere() {
    let (receiver, post) = (Receiver::fine(), Post::new());
    let key = STANDARD.encode("canary-of-the-hook-itself");
    let mut around = Surroundings::new(env(&[
        ("HOOK", &format!("whsec_{key}")),
        ("AGENT_KEY", "canary-of-an-agent"),
    ]));
    around.secret_names = vec!["AGENT_KEY".to_owned()];
    let channels = channels(&five_shapes(&receiver), &around);
    let text = format!(
        "a canary-of-an-agent b whsec_{key} c ghp_canaryA1b2C3d4E5f6G7h8 d Bearer canaryA1b2C3d4E5f6"
    );
    let leaky = Escalation {
        summary: text.clone(),
        what: text.clone(),
        did: text.clone(),
        wont: text.clone(),
        resolve: text.clone(),
        evidence: vec![text; 3],
        ..escalation("a", Severity::Critical)
    };
    post.outbox
        .clone()
        .redacting(channels.redactor().clone())
        .raise(&leaky, &agency::model::Key::new("loop-1.0"), chrono::Utc::now())
        .unwrap();
    let _working = work(channels, &post);
    wait_until("five requests", || receiver.count() == 5).await;
    wait_until("delivered", || post.deliveries().iter().all(|d| d.contains("delivered"))).await;
    let mut said: Vec<String> =
        receiver.requests().iter().map(|r| format!("{:?} {}", r.headers, r.text())).collect();
    for dir in [post.path(), post.path().join("sent")] {
        let files = std::fs::read_dir(dir).unwrap().flatten().filter(|f| f.path().is_file());
        said.extend(files.map(|file| std::fs::read_to_string(file.path()).unwrap()));
    }
    assert!(said.len() >= 7);
    for text in said {
        assert!(!text.contains("canary") && !text.contains(&key), "{text}");
    }
}

// covers: ES-01 ES-04
#[tokio::test]
async fn https_reaches_only_whom_somebody_vouches_for() {
    let (tls, root) = certified();
    let (receiver, post) = (Receiver::over_tls(tls), Post::new());
    let yaml =
        format!("  webhooks: [ {{ name: hook, url: 'https://localhost:{}/x' }} ]", receiver.port());
    post.raise(&escalation("a", Severity::Critical));
    let mut around = Surroundings::new(env(&[]));
    let working = work(channels(&yaml, &around), &post);
    let error = || post.records().remove(0).deliveries.pop().and_then(|delivery| delivery.error);
    wait_until("a refusal", || error().is_some_and(|error| error.contains("certificate"))).await;
    assert_eq!(receiver.count(), 0);
    around.roots = vec![root];
    working.handle.reload(channels(&yaml, &around));
    wait_until("delivery", || post.deliveries()[0].starts_with("hook delivered")).await;
    assert_eq!(receiver.count(), 1);
}

// covers: ES-01
#[tokio::test]
async fn a_desktop_with_a_session_is_notified_by_arguments() {
    let post = Post::new();
    let (program, out) = (post.dir.path().join("notify-send"), post.dir.path().join("out"));
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > {0}.tmp && /bin/mv {0}.tmp {0}\n",
        out.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let dir = post.dir.path().to_str().unwrap();
    let session = [("PATH", dir), ("DISPLAY", ":0"), ("XDG_RUNTIME_DIR", "/run/user/1")];
    post.raise(&Escalation {
        what: "<b>$(id)</b>".to_owned(),
        ..escalation("a", Severity::Critical)
    });
    let _working =
        work(channels("  desktop: true", &Surroundings::new(session.into_iter().collect())), &post);
    wait_until("the notification", || out.exists()).await;
    let said = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..3], ["--app-name=agency", "--urgency=critical", "--"], "{said}");
    assert!(
        lines[4].starts_with("&lt;b&gt;$(id)&lt;/b&gt;. To resolve it: agency resume"),
        "{said}"
    );
}

// covers: ES-07
#[tokio::test]
async fn a_test_message_proves_each_channel() {
    let (good, bad) = (Receiver::fine(), Receiver::new(|_| super::receiver::Answer::Status(403)));
    let channels = plain_channels(&format!(
        "  webhooks: [{{ url: '{}' }}, {{ url: '{}' }}, {{ url: 'https://10.0.0.1/x' }}, {{ url: 'https://a.example', secret_env: NONE }}]
  commands: [ {{ command: ['false'] }} ]",
        good.url("services/T0PSECRETPATH"),
        bad.url("services/T0PSECRETPATH"),
    ));
    assert_eq!(channels.problems(), [("webhook-4", "the variable `NONE` is not set")]);
    let results = channels.test("box", chrono::Utc::now()).await;
    let said: Vec<String> =
        results.iter().map(|(name, result)| format!("{name} {result:?}")).collect();
    assert_eq!(said[0], "webhook-1 Ok(())");
    assert_eq!(said[1], r#"webhook-2 Err("the receiver answered 403")"#);
    assert!(said[2].contains("allow_private") && said[3].contains("NONE"), "{said:?}");
    assert!(said[4].contains("exit status: 1"), "{said:?}");
    assert_eq!(good.requests()[0].json()["rule"], "ES-07");
}
