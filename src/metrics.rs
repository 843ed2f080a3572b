//! What the event log says in numbers (HO-10): time per agent, handoffs per workflow, fix iterations, escalation rate; and beside
//! them each protocol's condition (DM-16). It reads `events.ndjson` and writes nothing. What runs and judgements add to that is in
//! `exporter`.

mod exporter;
mod judged;

pub use exporter::Exporter;

use crate::model::Timestamp;
use crate::workspace::Kind;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

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
    /// Our folder of the repository, where its runs and its journal lie.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
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
    let mut count = Count::default();
    count.metrics.folder = events.parent().filter(|folder| folder.is_dir()).map(Path::to_owned);
    let file = match std::fs::File::open(events) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(count.finish()),
        Err(error) => return Err(error),
    };
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

/// The text that Prometheus reads, for any number of repositories, from one look.
pub fn prometheus(daemon_runs: bool, repos: &[RepoMetrics]) -> String {
    let mut exporter = Exporter::default();
    exporter.look(daemon_runs, repos);
    exporter.text()
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
        let lines = [
            "agency_agent_seconds_total{repo=\"a\\\"b\",agent=\"builder\"} 10.0",
            "agency_handoffs{repo=\"a\\\"b\"} 2",
            "agency_fix_iterations{repo=\"a\\\"b\"} 1",
            "agency_escalation_rate{repo=\"a\\\"b\"} 0.5",
            "agency_condition{repo=\"a\\\"b\",protocol=\"loop\",kind=\"held\"} 1",
            "agency_condition{repo=\"a\\\"b\",protocol=\"loop\",kind=\"working\"} 0",
            "agency_up 1",
        ];
        for line in lines {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        let nothing = read(&dir.path().join("none")).unwrap();
        assert_eq!(Metrics { folder: None, ..nothing }, Metrics::default());
    }
}
