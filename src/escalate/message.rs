//! One message to the owner, from a record: complete, redacted, cut. How a channel shows it is not known here.

use super::outbox::{Record, State};
use super::redact::Redactor;
use crate::model::{Digest as Hash, Severity, Timestamp, clip};
use serde::{Deserialize, Serialize};

pub(super) const SUMMARY_MAX: usize = 200;
pub(super) const TEXT_MAX: usize = 2_000;
pub(super) const EVIDENCE_MAX: usize = 20;
pub(super) const LINE_MAX: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Opened,
    Repeated,
    Resolved,
    Digest,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Repeated => "repeated",
            Self::Resolved => "resolved",
            Self::Digest => "digest",
        }
    }
}

pub(super) fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Notice => "notice",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

/// What the owner reads (ES-06). Every text is redacted, within its bound, and free of control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The `webhook-id`: one per message, the same whenever it is sent again.
    pub id: String,
    /// Which message of its cause this is; the first one opens a thread.
    pub seq: u32,
    pub kind: Kind,
    /// The escalation's id.
    pub cause: String,
    pub rule: String,
    pub severity: Severity,
    pub repo: String,
    pub protocol: String,
    pub summary: String,
    pub what: String,
    pub did: String,
    pub wont: String,
    /// The exact command, on one line.
    pub resolve: String,
    pub evidence: Vec<String>,
    pub count: u64,
    pub first_seen: Timestamp,
}

/// One line of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DigestLine {
    pub kind: Kind,
    pub rule: String,
    pub severity: Severity,
    pub summary: String,
}

/// The id of a message: the same cause, number and kind give the same one.
pub(super) fn message_id(cause: &str, seq: u32, kind: Kind) -> String {
    format!("msg_{cause}_{seq}_{}", kind.word())
}

impl Message {
    pub(super) fn of(record: &Record, kind: Kind, seq: u32, redactor: &Redactor) -> Self {
        let text = |text: &str| cut(&redactor.clean(text), TEXT_MAX);
        let line = |text: &str, limit| clip(&redactor.clean(text), limit);
        let kind = if record.is_report() { Kind::Digest } else { kind };
        Self {
            id: message_id(&record.id, seq, kind),
            seq,
            kind,
            cause: record.id.clone(),
            rule: line(&record.rule, 64),
            severity: record.severity,
            repo: line(&record.repo.to_string_lossy(), LINE_MAX),
            protocol: line(&record.protocol, 64),
            summary: line(&record.summary, SUMMARY_MAX),
            what: text(&record.what),
            did: text(&record.did),
            wont: text(&record.wont),
            resolve: line(&record.resolve, 4 * LINE_MAX),
            evidence: evidence(&record.evidence, |item| line(item, LINE_MAX)),
            count: record.count,
            first_seen: record.first_seen,
        }
    }

    /// Many causes in one message. `total` counts those without a line, too.
    pub(super) fn digest(head: &DigestHead, redactor: &Redactor) -> Self {
        let repo = clip(&redactor.clean(&head.repo), LINE_MAX);
        let more = head.total.saturating_sub(head.lines.len());
        let mut evidence: Vec<String> =
            head.lines.iter().map(|l| digest_line(l, redactor)).collect();
        if more > 0 {
            evidence.push(format!("and {more} more"));
        }
        Self {
            id: head.id.clone(),
            seq: 1,
            kind: Kind::Digest,
            cause: head.id.clone(),
            rule: "ES-03".to_owned(),
            severity: head.severity,
            repo: repo.clone(),
            protocol: "agency".to_owned(),
            summary: format!("{} escalations at once", head.total),
            what: "More happened at once than is sent one by one; the first of them are below."
                .into(),
            did: "Each one is recorded and listed; nothing was dropped.".to_owned(),
            wont: "We resolve none of them alone.".to_owned(),
            resolve: format!("agency escalations --repo {}", quoted(&repo)),
            evidence,
            count: head.total as u64,
            first_seen: head.first_seen,
        }
    }

    /// What `agency escalate --test` sends.
    pub(super) fn test(nonce: &str, host: &str, at: Timestamp) -> Self {
        let cause = Hash::of(format!("test\n{nonce}").as_bytes()).short().to_owned();
        Self {
            id: message_id(&cause, 1, Kind::Opened),
            seq: 1,
            kind: Kind::Opened,
            cause,
            rule: "ES-07".to_owned(),
            severity: Severity::Notice,
            repo: "none".to_owned(),
            protocol: "agency".to_owned(),
            summary: "test message: this channel works".to_owned(),
            what: format!("Somebody ran `agency escalate --test` on `{}`.", clip(host, 64)),
            did: "We sent this message to every channel.".to_owned(),
            wont: "Nothing waits for it.".to_owned(),
            resolve: "agency escalations".to_owned(),
            evidence: Vec::new(),
            count: 1,
            first_seen: at,
        }
    }

    /// `agency: CRITICAL LP-03 in shop: summary`, the same for each message of a cause.
    pub(super) fn title(&self) -> String {
        let repo = self.repo.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&self.repo);
        let severity = severity_word(self.severity).to_uppercase();
        format!("agency: {severity} {} in {repo}: {}", self.rule, self.summary)
    }

    /// The parts of the message under their headings, in reading order. Empty ones are left out.
    pub(super) fn parts(&self) -> Vec<(&'static str, String)> {
        let state = match self.kind {
            Kind::Opened => "new".to_owned(),
            Kind::Repeated => format!("still open, seen {} times", self.count),
            Kind::Resolved => "resolved: nothing to do".to_owned(),
            Kind::Digest if self.rule == "OP-09" => "a report".to_owned(),
            Kind::Digest => "many at once".to_owned(),
        };
        let mut parts = vec![
            ("State", state),
            ("Repository", self.repo.clone()),
            ("Protocol and rule", format!("{}, {}", self.protocol, self.rule)),
            ("What happened", self.what.clone()),
            ("Evidence", self.evidence.join("\n")),
            ("What was done", self.did.clone()),
            ("What we will not do alone", self.wont.clone()),
            ("To resolve it, run", self.resolve.clone()),
            ("First seen", self.first_seen.format("%Y-%m-%d %H:%M:%S UTC").to_string()),
            ("Escalation", self.cause.clone()),
        ];
        parts.retain(|(_, text)| !text.is_empty());
        parts
    }

    /// All parts as plain text.
    pub(super) fn plain(&self) -> String {
        let part = |(heading, text): &(&str, String)| match text.contains('\n') {
            true => format!("{heading}:\n{text}\n"),
            false => format!("{heading}: {text}\n"),
        };
        let parts: String = self.parts().iter().map(part).collect();
        format!("{}\n\n{parts}", self.summary)
    }
}

/// What a digest is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DigestHead {
    pub id: String,
    pub repo: String,
    pub severity: Severity,
    pub total: usize,
    pub first_seen: Timestamp,
    pub lines: Vec<DigestLine>,
}

fn digest_line(line: &DigestLine, redactor: &Redactor) -> String {
    let DigestLine { kind, rule, severity, summary } = line;
    let head = format!("{} {} {}: ", severity_word(*severity), clip(rule, 64), kind.word());
    head + &clip(&redactor.clean(summary), SUMMARY_MAX)
}

impl Record {
    pub(super) fn digest_line(&self, kind: Kind) -> DigestLine {
        let summary = clip(&self.summary, SUMMARY_MAX);
        DigestLine { kind, rule: self.rule.clone(), severity: self.severity, summary }
    }

    /// May it break quiet hours? That something has ended can wait for the morning.
    pub(super) fn is_urgent(&self, kind: Kind) -> bool {
        let ended = kind == Kind::Resolved || self.state == State::Resolved;
        !ended && (self.holds || self.severity == Severity::Critical)
    }
}

fn evidence(items: &[String], line: impl Fn(&str) -> String) -> Vec<String> {
    let mut shown: Vec<String> = items.iter().take(EVIDENCE_MAX).map(|item| line(item)).collect();
    if items.len() > EVIDENCE_MAX {
        shown.push(format!("and {} more", items.len() - EVIDENCE_MAX));
    }
    shown
}

/// At most `limit` characters, lines kept, everything else as [`clip`] does it.
pub(super) fn cut(text: &str, limit: usize) -> String {
    let lines: Vec<String> = text.lines().map(|line| clip(line, limit)).collect();
    let whole = lines.join("\n");
    match whole.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escalate::outbox::tests::record;

    // covers: ES-06
    #[test]
    fn a_message_says_everything_the_owner_needs() {
        let plain =
            Message::of(&record("a1b2c3d4e5f6"), Kind::Opened, 1, &Redactor::default()).plain();
        for words in [
            "Repository: /src/shop",
            "Protocol and rule: loop, LP-03",
            "What happened: The builder approved its own work.",
            "Evidence: .agent-status.json says `approved`",
            "What was done: The flag was refused.",
            "What we will not do alone: Go on.",
            "To resolve it, run: agency resume --repo /src/shop",
            "Escalation: a1b2c3d4e5f6",
        ] {
            assert!(plain.contains(words), "{words} is missing in\n{plain}");
        }
    }

    // covers: ES-05
    #[test]
    fn texts_are_redacted_before_they_are_cut() {
        let mut record = record("a1b2c3d4e5f6");
        record.what = format!("{}canary-secret-1", "x".repeat(TEXT_MAX - 6));
        record.evidence = vec!["line\r\nBcc: x".to_owned(); 100];
        let redactor = Redactor::new(["canary-secret-1"]);
        let message = Message::of(&record, Kind::Repeated, 2, &redactor);
        assert!(!message.what.contains("canary"), "{}", message.what);
        assert!(message.what.chars().count() <= TEXT_MAX + 1);
        assert_eq!(message.evidence.len(), EVIDENCE_MAX + 1);
        assert_eq!(message.evidence[0], "line  Bcc: x");
        assert_eq!(message.id, "msg_a1b2c3d4e5f6_2_repeated");
    }

    #[test]
    fn a_digest_counts_what_it_does_not_show() {
        let line = record("a1b2c3d4e5f6").digest_line(Kind::Opened);
        let head = DigestHead {
            id: "msg_digest_1".to_owned(),
            repo: "/src/it's mine".to_owned(),
            severity: Severity::Critical,
            total: 137,
            first_seen: record("x").first_seen,
            lines: vec![line; 20],
        };
        let message = Message::digest(&head, &Redactor::default());
        assert_eq!(message.evidence.last().unwrap(), "and 117 more");
        assert_eq!(message.resolve, r"agency escalations --repo '/src/it'\''s mine'");
        assert_eq!((message.count, message.kind.word()), (137, "digest"));
    }
}
