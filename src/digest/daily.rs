//! The daily report (`escalation.digest`): written into the daemon's own outbox once a day, and carried by the channels like every
//! other message.

use super::Digest;
use crate::apply::chain;
use crate::clock;
use crate::config::Config;
use crate::daemon::Home;
use crate::model::{Cause, Escalation, RuleId, Severity, Timestamp};
use crate::repository::{StateDir, repositories};
use crate::store::write_atomic;
use crate::workspace::Settings;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;

const LOOK: Duration = Duration::from_secs(20);
/// No report looks further back, however long the daemon was down.
const LONGEST: TimeDelta = TimeDelta::days(14);
const FILE: &str = "digest.json";
const RULE: &str = "OP-09";

/// Up to when the owner has a report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Sent {
    until: Timestamp,
}

/// As long as it is polled. New settings count at the next look.
pub(crate) async fn send_daily(home: Home, settings: watch::Receiver<Settings>) {
    loop {
        let (config, state_dir) = {
            let settings = settings.borrow();
            (settings.config.clone(), settings.state_dir.clone())
        };
        let home = home.clone();
        let looked =
            tokio::task::spawn_blocking(move || look(&home, &config, &state_dir, clock::wall()));
        if let Err(error) = looked.await {
            tracing::error!(%error, "the daily report failed");
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn look(home: &Home, config: &Config, state_dir: &StateDir, now: Timestamp) {
    let Some(time) = config.escalation.digest else { return };
    let file = home.folder().join(FILE);
    let Some(sent) = read(&file) else {
        // The first one comes at the next such time, and not at once.
        return write(&file, Sent { until: now });
    };
    let due = time.last(now);
    if sent.until >= due {
        return;
    }
    let since = sent.until.max(due - LONGEST);
    let known = repositories(state_dir).unwrap_or_default();
    let digest = Digest::of(&known, &[home.folder().join("outbox")], since, due);
    match home.report(&escalation(&digest), now) {
        Ok(()) => write(&file, Sent { until: due }),
        Err(error) => {
            tracing::error!(error = %chain(&error), "the daily report cannot be written yet")
        }
    }
}

fn read(file: &Path) -> Option<Sent> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

fn write(file: &Path, sent: Sent) {
    let text = serde_json::to_vec(&sent).expect("BUG: a time is plain data");
    if let Err(error) = write_atomic(file, &text) {
        tracing::error!(error = %chain(&error), "the time of the daily report cannot be written");
    }
}

fn escalation(digest: &Digest) -> Escalation {
    let subject = digest.until.format("%Y-%m-%d").to_string();
    let rule = RuleId::new(RULE);
    let names = digest
        .time_per_agent
        .iter()
        .map(|(agent, seconds)| format!("{agent} {:.1} h", seconds / 3600.0));
    let did = format!(
        "{} runs; ${:.2}{}; {} tokens; {}",
        digest.runs,
        digest.cost_usd,
        if digest.estimated_usd > 0.0 { " (part of it estimated)" } else { "" },
        digest.tokens,
        names.collect::<Vec<_>>().join(", "),
    );
    Escalation {
        cause: Cause { protocol: "agency".to_owned(), rule, subject, epoch: 0 },
        severity: Severity::Notice,
        holds: false,
        summary: digest.headline(),
        what: format!(
            "From {} to {} UTC",
            digest.since.format("%b %d, %H:%M"),
            digest.until.format("%b %d, %H:%M")
        ),
        did,
        wont: String::new(),
        resolve: "the whole report: agency digest --html report.html".to_owned(),
        options: Vec::new(),
        evidence: lines(digest),
        everywhere: true,
    }
}

/// What waits first, then what landed, then what was refused.
fn lines(digest: &Digest) -> Vec<String> {
    let mut lines: Vec<String> = digest
        .waiting
        .iter()
        .map(|one| format!("waits: {}: {} ({})", one.repo, one.summary, one.rule))
        .collect();
    for repo in &digest.repos {
        let all = [
            ("merged", &repo.merged),
            ("committed", &repo.committed),
            ("held", &repo.held),
            ("refused", &repo.refused),
        ];
        for (word, found) in all {
            lines.extend(found.iter().map(|line| format!("{word}: {}: {line}", repo.name)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, TimeOfDay};
    use crate::escalate::{Notifier, Outbox, State};

    // covers: OP-09
    #[test]
    fn the_report_comes_once_a_day_at_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir =
            StateDir::resolve(&Env::from_iter([("AGENCY_STATE_DIR", dir.path())])).unwrap();
        let home = Home::open(&state_dir, &Notifier::default()).unwrap();
        let mut config = Config::default();
        let reports = || {
            Outbox::list(&home.folder().join("outbox"))
                .into_iter()
                .map(|record| (record.rule, record.state))
                .collect::<Vec<_>>()
        };
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        look(&home, &config, &state_dir, at("2026-01-01T09:00:00Z"));
        config.escalation.digest = TimeOfDay::of("08:00 UTC");
        look(&home, &config, &state_dir, at("2026-01-01T09:00:00Z"));
        look(&home, &config, &state_dir, at("2026-01-02T07:59:00Z"));
        assert_eq!(reports(), [], "the first one waits for its time");
        for _ in 0..3 {
            look(&home, &config, &state_dir, at("2026-01-02T08:00:10Z"));
        }
        assert_eq!(
            reports(),
            [("OP-09".to_owned(), State::Resolved)],
            "and waits for nobody's answer"
        );
        // The daemon was down for some days: one report covers them.
        look(&home, &config, &state_dir, at("2026-01-06T10:00:00Z"));
        assert_eq!(reports().len(), 2);
    }
}
