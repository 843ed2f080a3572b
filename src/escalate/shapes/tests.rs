//! Hostile texts in every shape: valid JSON, no new header, nothing that pings, no secret.

use super::*;
use crate::escalate::message::{Kind, Message};
use crate::escalate::outbox::{Record, tests::record};
use crate::escalate::redact::Redactor;
use serde_json::Value;

const CANARIES: &[&str] = &[
    "canary-5ecret-value",
    "sk-canaryA1b2C3d4E5f6",
    "ghp_canaryA1b2C3d4E5f6",
    "AKIACANARYCANARYCANA",
    "xoxb-canary-12345678",
    "whsec_canaryA1b2C3d4",
    "Bearer canaryA1b2C3d4",
    "-----BEGIN PRIVATE KEY-----\ncanaryA1b2\n-----END PRIVATE KEY-----",
];

const NASTY: &[&str] = &[
    "<!channel>",
    "<@U123>",
    "<#C1>",
    "@everyone",
    "@here",
    "@Channel",
    "<at>Ann</at>",
    "[x](http://evil)",
    "\r\nBcc: x@evil",
    "\nSubject: evil",
    "\r\n\r\nbody",
    "\r\n.\r\n",
    "\"}],\"x\":[{\"",
    "\\",
    "`",
    "```",
    "**",
    "||",
    "</td><script>",
    "&lt;!here&gt;",
    "=?UTF-8?B?QUJD?=",
    "\u{202e}",
    "\u{0}",
    "\u{1b}[31m",
    "é",
    "𝕏",
    "\u{2028}",
    "https://u:pass@host/",
    " ",
    "\n",
    "a",
    "{{",
    "${x}",
    "%s",
    "\u{feff}",
    "\u{85}",
    "\u{0b}",
];

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn text(&mut self) -> String {
        let pieces = self.below(12);
        let mut text = String::new();
        for _ in 0..pieces {
            match self.below(12) {
                // A canary stands alone, as one does in a log: glued to a letter it may be another word.
                0 => text.push_str(&format!(" {} ", CANARIES[self.below(CANARIES.len())])),
                1 => text.push_str(
                    &"q".repeat([30, 30, 30, 30, 30, 30, 30, 30, 30, 2500][self.below(10)]),
                ),
                2..=9 => text.push_str(NASTY[self.below(NASTY.len())]),
                _ => text.extend(char::from_u32(u32::try_from(self.below(0x3000)).unwrap())),
            }
        }
        text
    }
}

fn hostile(dice: &mut Dice, base: &Record) -> Message {
    let record = Record {
        rule: dice.text(),
        repo: dice.text().into(),
        protocol: dice.text(),
        summary: dice.text(),
        what: dice.text(),
        did: dice.text(),
        wont: dice.text(),
        resolve: dice.text(),
        evidence: (0..dice.below(4)).map(|_| dice.text()).collect(),
        ..base.clone()
    };
    let kind = [Kind::Opened, Kind::Repeated, Kind::Resolved][dice.below(3)];
    let seq = u32::try_from(dice.below(3)).unwrap() + 1;
    Message::of(&record, kind, seq, &Redactor::new([CANARIES[0]]))
}

fn texts(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, all)),
        Value::Object(entries) => entries.values().for_each(|item| texts(item, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Valid JSON without canaries; gives all texts in it.
fn parsed(body: &[u8], limit: usize) -> Vec<String> {
    assert!(body.len() <= limit, "{} bytes", body.len());
    let mut all = Vec::new();
    texts(&serde_json::from_slice(body).expect("valid JSON"), &mut all);
    no_canary(&all.join("\n"));
    all
}

fn no_canary(text: &str) {
    let lower = text.to_lowercase();
    assert!(!lower.contains("canary"), "{text}");
}

fn no_ping(text: &str) {
    let lower = text.to_lowercase();
    for ping in ["<!", "<@", "<#", "@everyone", "@here", "@channel", "<at", "]("] {
        assert!(!lower.contains(ping), "{ping} in {text}");
    }
}

fn check_mail(message: &Message) {
    let ends =
        Letter { from: "agency@box".parse().unwrap(), to: "ann@example.com".parse().unwrap() };
    let mail = String::from_utf8(letter(message, &ends, message.first_seen).unwrap()).unwrap();
    let (head, body) = mail.split_once("\r\n\r\n").unwrap();
    let names: Vec<&str> = head
        .split("\r\n")
        .filter(|line| !line.starts_with([' ', '\t']))
        .map(|line| line.split_once(':').expect("a header").0)
        .collect();
    let mut wanted = vec!["From", "To", "Date", "Message-ID", "Subject", "Auto-Submitted"];
    if message.seq > 1 {
        wanted.extend(["In-Reply-To", "References"]);
    }
    wanted.extend(["MIME-Version", "Content-Type"]);
    assert_eq!(names, wanted, "{head}");
    assert!(mail.is_ascii() && !mail.replace("\r\n", "").contains(['\r', '\n']), "{mail}");
    assert!(body.split("\r\n").all(|line| line.len() <= 998), "{body}");
    no_canary(&mail);
}

fn check_slack(message: &Message) {
    for text in parsed(&slack(message), 200_000) {
        no_ping(&text);
        assert!(!text.contains(['<', '>']) && text.encode_utf16().count() <= 3_000, "{text}");
    }
}

fn check_ntfy(message: &Message) {
    let note = ntfy(message);
    for (name, value) in &note.headers {
        assert!(value.chars().all(|c| c == ' ' || c.is_ascii_graphic()), "{name}: {value}");
        no_canary(value);
    }
    assert!(note.body.len() < 4_096);
    no_canary(&String::from_utf8(note.body).unwrap());
}

// covers: ES-05
#[test]
fn a_hundred_thousand_hostile_texts_stay_texts() {
    let (mut dice, base) = (Dice(7), record("a1b2c3d4e5f6"));
    let (mut fields, mut turn) = (0, 0);
    while fields < 100_000 {
        let message = hostile(&mut dice, &base);
        fields += 8 + message.evidence.len();
        turn += 1;
        match turn % 6 {
            0 => drop(parsed(&json(&message), 200_000)),
            1 => check_slack(&message),
            2 => parsed(&discord(&message), 100_000).iter().for_each(|text| no_ping(text)),
            3 => parsed(&teams(&message), 200_000).iter().for_each(|text| no_ping(text)),
            4 => check_ntfy(&message),
            _ => check_mail(&message),
        }
    }
}

// covers: ES-04
#[test]
fn the_json_body_has_the_pinned_fields() {
    let message = Message::of(&record("a1b2c3d4e5f6"), Kind::Opened, 1, &Redactor::default());
    let value: Value = serde_json::from_slice(&json(&message)).unwrap();
    assert_eq!(value["type"], "escalation.opened");
    assert_eq!((&value["id"], &value["severity"]), (&"a1b2c3d4e5f6".into(), &"critical".into()));
    assert_eq!(value["resolve"], "agency resume --repo /src/shop");
    assert_eq!(value["first_seen"], "2026-01-01T00:00:00Z");
    assert_eq!((&value["count"], &value["evidence"].as_array().unwrap().len()), (&1.into(), &1));
}

#[test]
fn every_shape_says_everything() {
    let message = Message::of(&record("a1b2c3d4e5f6"), Kind::Opened, 1, &Redactor::default());
    let plain = |body: Vec<u8>| String::from_utf8(body).unwrap().replace('\\', "");
    for body in [
        plain(slack(&message)),
        plain(discord(&message)),
        plain(teams(&message)),
        plain(ntfy(&message).body),
    ] {
        for words in [
            "/src/shop",
            "loop, LP-03",
            "approved its own work",
            "The flag was refused.",
            "agency resume --repo",
        ] {
            assert!(body.contains(words), "{words} is missing in {body}");
        }
    }
}

#[test]
fn one_cause_is_one_thread() {
    let ends =
        Letter { from: "agency@box".parse().unwrap(), to: "ann@example.com".parse().unwrap() };
    let record = record("a1b2c3d4e5f6");
    let mail = |seq, kind| {
        let message = Message::of(&record, kind, seq, &Redactor::default());
        String::from_utf8(letter(&message, &ends, record.first_seen).unwrap()).unwrap()
    };
    assert!(mail(1, Kind::Opened).contains("Message-ID: <a1b2c3d4e5f6.1@box>"));
    let end = mail(3, Kind::Resolved);
    assert!(end.contains("Message-ID: <a1b2c3d4e5f6.3@box>"), "{end}");
    assert!(end.contains("References: <a1b2c3d4e5f6.1@box>"), "{end}");
}
