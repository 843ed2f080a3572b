//! What the event log says in numbers (HO-10): time per agent, handoffs per workflow, fix iterations, escalation rate; and beside
//! them each protocol's condition (DM-16). It reads `events.ndjson` and writes nothing.

use crate::model::Timestamp;
use crate::workspace::Kind;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

/// A log beyond this is cut at its beginning; the newest part counts.
const LOG_MAX: u64 = 256 << 20;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Seconds of finished runs, and how many they were.
    pub time_per_agent: BTreeMap<String, Spent>,
    pub handoffs_per_workflow: BTreeMap<String, u64>,
    /// Fixes that were begun, by workflow.
    pub fix_iterations: BTreeMap<String, u64>,
    pub escalations: u64,
    /// Escalations for each handoff.
    pub escalation_rate: f64,
    pub errors: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    pub seconds: f64,
    pub runs: u64,
}

/// One repository, for Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct RepoMetrics {
    pub repo: String,
    pub metrics: Metrics,
    /// By protocol.
    pub conditions: Vec<(String, Kind)>,
    /// The daemon cannot work here at all.
    pub frozen: bool,
}

/// Numbers of one repository. No log means that nothing happened yet.
pub fn read(events: &Path) -> io::Result<Metrics> {
    let file = match std::fs::File::open(events) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Metrics::default()),
        Err(error) => return Err(error),
    };
    let mut count = Count::default();
    for line in BufReader::new(file.take(LOG_MAX)).split(b'\n') {
        // A line that a crash cut off is no event.
        if let Ok(event) = serde_json::from_slice::<Value>(&line?) {
            count.take(&event);
        }
    }
    Ok(count.finish())
}

#[derive(Default)]
struct Count {
    metrics: Metrics,
    started: BTreeMap<String, (String, Timestamp)>,
    handoffs: BTreeSet<String>,
}

impl Count {
    fn take(&mut self, event: &Value) {
        let word = |name: &str| event["context"][name].as_str().unwrap_or_default();
        let at = event["timestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        match (event["event"].as_str().unwrap_or_default(), at) {
            ("agent_started", Some(at)) => {
                let agent = event["agent"].as_str().unwrap_or_default().to_owned();
                self.started.insert(word("run").to_owned(), (agent, at));
            }
            ("agent_completed" | "error_occurred", Some(at)) => {
                self.metrics.errors += u64::from(event["event"] == "error_occurred");
                if let Some((agent, since)) = self.started.remove(word("run")) {
                    let spent = self.metrics.time_per_agent.entry(agent).or_default();
                    spent.seconds += (at - since).as_seconds_f64().max(0.0);
                    spent.runs += 1;
                }
            }
            ("handoff_created", _) if !matches!(word("type"), "completion" | "escalation") => {
                self.handoffs.insert(word("message").to_owned());
                *self
                    .metrics
                    .handoffs_per_workflow
                    .entry(word("workflow_id").to_owned())
                    .or_default() += 1;
            }
            ("handoff_accepted", _) if word("type") == "fix_request" => {
                *self.metrics.fix_iterations.entry(word("workflow_id").to_owned()).or_default() +=
                    1;
            }
            ("escalation_triggered", _) => self.metrics.escalations += 1,
            _ => {}
        }
    }

    fn finish(mut self) -> Metrics {
        let handoffs = u32::try_from(self.handoffs.len()).unwrap_or(u32::MAX);
        let escalations = u32::try_from(self.metrics.escalations).unwrap_or(u32::MAX);
        if handoffs > 0 {
            self.metrics.escalation_rate = f64::from(escalations) / f64::from(handoffs);
        }
        self.metrics
    }
}

/// The text that Prometheus reads, for any number of repositories.
pub fn prometheus(daemon_runs: bool, repos: &[RepoMetrics]) -> String {
    let mut text = Text::default();
    text.head("agency_up", "1 while a daemon runs.", "gauge");
    text.line("agency_up", &[], f64::from(u8::from(daemon_runs)));
    text.head("agency_frozen", "1 where the daemon cannot work at all.", "gauge");
    for one in repos {
        let frozen = f64::from(u8::from(one.frozen));
        text.line("agency_frozen", &[("repo", &one.repo)], frozen);
    }
    let name = "agency_condition";
    text.head(name, "1 for what each protocol does now, 0 for the rest.", "gauge");
    for one in repos {
        for (protocol, now) in &one.conditions {
            for kind in Kind::ALL {
                let labels = [("repo", &*one.repo), ("protocol", protocol), ("kind", kind.word())];
                text.line(name, &labels, f64::from(u8::from(kind == *now)));
            }
        }
    }
    let name = "agency_agent_seconds_total";
    text.head(name, "Time of finished runs.", "counter");
    for RepoMetrics { repo, metrics, .. } in repos {
        for (agent, spent) in &metrics.time_per_agent {
            text.line(name, &[("repo", repo), ("agent", agent)], spent.seconds);
        }
    }
    let name = "agency_handoffs";
    text.head(name, "Handoffs between agents.", "gauge");
    for RepoMetrics { repo, metrics, .. } in repos {
        for (workflow, count) in &metrics.handoffs_per_workflow {
            text.line(name, &[("repo", repo), ("workflow", workflow)], number(*count));
        }
    }
    let name = "agency_fix_iterations";
    text.head(name, "Fixes that were begun.", "gauge");
    for RepoMetrics { repo, metrics, .. } in repos {
        for (workflow, count) in &metrics.fix_iterations {
            text.line(name, &[("repo", repo), ("workflow", workflow)], number(*count));
        }
    }
    let name = "agency_escalation_rate";
    text.head(name, "Escalations for each handoff.", "gauge");
    for RepoMetrics { repo, metrics, .. } in repos {
        text.line(name, &[("repo", repo)], metrics.escalation_rate);
    }
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n")
            .expect("writing to a String cannot fail");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        writeln!(self.0, "{name}{labels} {value}").expect("writing to a String cannot fail");
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: HO-10, DM-16
    #[test]
    fn the_four_numbers_come_from_the_events() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.ndjson");
        let event = |at: u32, name: &str, agent: &str, context: Value| {
            serde_json::json!({"event": name, "timestamp": format!("2026-01-01T00:00:{at:02}Z"), "agent": agent, "context": context}).to_string()
        };
        let of = |kind: &str, id: &str| serde_json::json!({"type": kind, "message": id, "workflow_id": "w"});
        let run = |id: &str| serde_json::json!({"run": id, "workflow_id": "w"});
        let lines = [
            event(0, "agent_started", "builder", run("r1")),
            event(7, "error_occurred", "builder", run("r1")),
            event(10, "agent_started", "builder", run("r2")),
            event(13, "agent_completed", "builder", run("r2")),
            event(13, "handoff_created", "builder", of("review_request", "m1")),
            event(13, "handoff_created", "builder", of("completion", "m2")),
            event(14, "handoff_created", "reviewer", of("fix_request", "m3")),
            event(15, "handoff_accepted", "fixer", of("fix_request", "m3")),
            event(16, "escalation_triggered", "fixer", of("escalation", "m4")),
            "{\"event\": \"cut".to_owned(),
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let metrics = read(&path).unwrap();
        assert_eq!(metrics.time_per_agent["builder"], Spent { seconds: 10.0, runs: 2 });
        assert_eq!(metrics.handoffs_per_workflow["w"], 2);
        assert_eq!(metrics.fix_iterations["w"], 1);
        assert!((metrics.escalation_rate - 0.5).abs() < 1e-9);
        let conditions = vec![("loop".to_owned(), Kind::Held)];
        let repo = "/src/a\"b".to_owned();
        let text = prometheus(true, &[RepoMetrics { repo, metrics, conditions, frozen: false }]);
        assert!(
            text.contains(
                "agency_agent_seconds_total{repo=\"/src/a\\\"b\",agent=\"builder\"} 10\n"
            ),
            "{text}"
        );
        assert!(text.contains("agency_escalation_rate{repo=\"/src/a\\\"b\"} 0.5\n"), "{text}");
        let condition = |kind: &str, value: u8| {
            format!(
                "agency_condition{{repo=\"/src/a\\\"b\",protocol=\"loop\",kind=\"{kind}\"}} {value}\n"
            )
        };
        assert!(text.contains(&condition("held", 1)), "{text}");
        assert!(text.contains(&condition("working", 0)), "{text}");
        assert!(text.contains("agency_up 1\n"), "{text}");
        assert_eq!(read(&dir.path().join("none")).unwrap(), Metrics::default());
    }
}
