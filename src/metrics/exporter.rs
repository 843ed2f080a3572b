//! The numbers as Prometheus reads them (MX-01). No label names a task, a run or a path, so the number of series depends on
//! repositories, agents and rules alone. A counter only grows while one exporter lives; each run is counted once.

use super::judged::{Judged, Reading};
use super::{Metrics, RepoMetrics};
use crate::clock;
use crate::escalate::{Outbox, Record};
use crate::run::Folder;
use crate::run::history::{self, RunRecord};
use crate::workspace::{Kind, RepoStatus};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
type Float = Gauge<f64, AtomicU64>;
type FloatCounter = Counter<f64, AtomicU64>;
type Histograms = Family<Labels, Histogram, Buckets>;

/// From seconds to hours.
#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

const RUN_SECONDS: Buckets =
    Buckets(&[10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 2_700.0, 5_400.0, 10_800.0]);
const ACTION_SECONDS: Buckets = Buckets(&[0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0]);

/// Numbers that live as long as whoever asks for them.
pub struct Exporter {
    registry: Registry,
    up: Gauge,
    frozen: Family<Labels, Gauge>,
    condition: Family<Labels, Gauge>,
    paused: Family<Labels, Gauge>,
    waiting_until: Family<Labels, Float>,
    open: Family<Labels, Gauge>,
    active: Family<Labels, Gauge>,
    agent_seconds: Family<Labels, FloatCounter>,
    handoffs: Family<Labels, Gauge>,
    fixes: Family<Labels, Gauge>,
    rate: Family<Labels, Float>,
    runs: Family<Labels, Counter>,
    seconds: Histograms,
    tokens: Family<Labels, Counter>,
    cost: Family<Labels, FloatCounter>,
    gates: Family<Labels, Counter>,
    judgements: Family<Labels, Counter>,
    waited: Histograms,
    known: BTreeMap<String, Known>,
}

/// What was counted of one repository.
#[derive(Default)]
struct Known {
    runs: HashSet<u64>,
    journal: Reading,
}

impl Default for Exporter {
    fn default() -> Self {
        let mut new = Self {
            registry: Registry::default(),
            up: Gauge::default(),
            frozen: Family::default(),
            condition: Family::default(),
            paused: Family::default(),
            waiting_until: Family::default(),
            open: Family::default(),
            active: Family::default(),
            agent_seconds: Family::default(),
            handoffs: Family::default(),
            fixes: Family::default(),
            rate: Family::default(),
            runs: Family::default(),
            seconds: Family::new_with_constructor(RUN_SECONDS),
            tokens: Family::default(),
            cost: Family::default(),
            gates: Family::default(),
            judgements: Family::default(),
            waited: Family::new_with_constructor(ACTION_SECONDS),
            known: BTreeMap::new(),
        };
        new.register();
        new
    }
}

impl Exporter {
    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("agency_up", "1 while a daemon runs", self.up.clone());
        r.register("agency_frozen", "1 where the daemon cannot work at all", self.frozen.clone());
        r.register(
            "agency_condition",
            "1 for what each protocol does now, 0 for the rest",
            self.condition.clone(),
        );
        r.register("agency_paused", "1 where the owner lets no run start", self.paused.clone());
        r.register(
            "agency_quota_reset_timestamp_seconds",
            "When a wait such as a usage limit ends by itself, in Unix time",
            self.waiting_until.clone(),
        );
        r.register("agency_escalations_open", "Open messages to the owner", self.open.clone());
        r.register("agency_runs_active", "Runs that are alive", self.active.clone());
        r.register("agency_agent_seconds", "Time of finished runs", self.agent_seconds.clone());
        r.register("agency_handoffs", "Handoffs between agents", self.handoffs.clone());
        r.register("agency_fix_iterations", "Fixes that were begun", self.fixes.clone());
        r.register("agency_escalation_rate", "Escalations for each handoff", self.rate.clone());
        r.register("agency_runs", "Runs of agents that have ended, by outcome", self.runs.clone());
        r.register(
            "agency_run_duration_seconds",
            "How long runs of agents took",
            self.seconds.clone(),
        );
        r.register("agency_tokens", "Tokens of runs that have ended", self.tokens.clone());
        r.register(
            "agency_cost_usd",
            "Dollars of runs that have ended, as far as their CLIs say so",
            self.cost.clone(),
        );
        r.register(
            "agency_gate_result",
            "Commands of the owner's (gates, checks) that have ended",
            self.gates.clone(),
        );
        r.register(
            "agency_judgements",
            "What was accepted by which row, and refused by which rule",
            self.judgements.clone(),
        );
        r.register(
            "agency_flag_to_action_seconds",
            "From the end of a run to the transition that followed it",
            self.waited.clone(),
        );
    }

    /// Takes in how things are, and counts what is new since the last look.
    pub fn look(&mut self, daemon_runs: bool, repos: &[RepoMetrics]) {
        self.up.set(i64::from(daemon_runs));
        for family in [&self.frozen, &self.condition, &self.paused, &self.open, &self.active] {
            family.clear();
        }
        self.waiting_until.clear();
        let names = repos.iter().map(name).collect::<HashSet<_>>();
        self.known.retain(|known, _| names.contains(known));
        for repo in repos {
            self.look_at(repo);
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a String cannot fail");
        text
    }

    fn look_at(&mut self, one: &RepoMetrics) {
        let repo = name(one);
        let here = || vec![("repo", repo.clone())];
        self.frozen.get_or_create(&here()).set(i64::from(one.frozen));
        for (protocol, now) in &one.conditions {
            for kind in Kind::ALL {
                let labels = vec![
                    ("repo", repo.clone()),
                    ("protocol", protocol.clone()),
                    ("kind", kind.word().to_owned()),
                ];
                self.condition.get_or_create(&labels).set(i64::from(kind == *now));
            }
        }
        self.take_events(&repo, &one.metrics);
        let Some(folder) = &one.metrics.folder else { return };
        self.take_status(&repo, folder);
        self.take_messages(&repo, folder);
        let mut known = self.known.remove(&repo).unwrap_or_default();
        self.take_runs(&repo, &folder.join("runs"), &mut known.runs);
        for judged in known.journal.look(&folder.join("journal")) {
            self.take_judged(&repo, judged);
        }
        self.known.insert(repo, known);
    }

    fn take_events(&self, repo: &str, metrics: &Metrics) {
        for (agent, spent) in &metrics.time_per_agent {
            let counter = self
                .agent_seconds
                .get_or_create_owned(&vec![("repo", repo.to_owned()), ("agent", agent.clone())]);
            counter.inc_by((spent.seconds - counter.get()).max(0.0));
        }
        let here = vec![("repo", repo.to_owned())];
        let set = |family: &Family<Labels, Gauge>, counts: &BTreeMap<String, u64>| {
            let sum = i64::try_from(counts.values().sum::<u64>()).unwrap_or(i64::MAX);
            family.get_or_create(&here).set(sum);
        };
        set(&self.handoffs, &metrics.handoffs_per_workflow);
        set(&self.fixes, &metrics.fix_iterations);
        self.rate.get_or_create(&here).set(metrics.escalation_rate);
    }

    fn take_status(&self, repo: &str, folder: &Path) {
        let status = RepoStatus::read(folder).unwrap_or_default();
        let here = vec![("repo", repo.to_owned())];
        self.paused.get_or_create(&here).set(i64::from(status.paused.is_some()));
        for protocol in status.protocols {
            if let Some(until) = protocol.condition.until.filter(|until| *until > clock::wall()) {
                let labels = vec![("repo", repo.to_owned()), ("protocol", protocol.name)];
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "seconds of this age stay far below 2^53"
                )]
                self.waiting_until.get_or_create(&labels).set(until.timestamp() as f64);
            }
        }
    }

    fn take_messages(&self, repo: &str, folder: &Path) {
        let open = Outbox::list(&folder.join("outbox")).into_iter().filter(Record::is_for_owner);
        for record in open {
            let holds = if record.holds { "yes" } else { "no" };
            let severity = format!("{:?}", record.severity).to_lowercase();
            let labels = vec![
                ("repo", repo.to_owned()),
                ("severity", severity),
                ("holds", holds.to_owned()),
            ];
            self.open.get_or_create(&labels).inc();
        }
    }

    /// Each run once, after its end is known for good.
    fn take_runs(&self, repo: &str, runs: &Path, seen: &mut HashSet<u64>) {
        let mut alive = 0;
        for entry in std::fs::read_dir(runs).into_iter().flatten().flatten() {
            let hash = hash(&entry.file_name());
            if seen.contains(&hash) {
                continue;
            }
            let Some(run) = history::one(&entry.path()) else { continue };
            if run.ended_at.is_none() {
                alive += i64::from(!run.command);
            } else if Folder::new(entry.path()).has(history::DONE) {
                seen.insert(hash);
                self.take_run(repo, &run);
            }
        }
        self.active.get_or_create(&vec![("repo", repo.to_owned())]).set(alive);
    }

    fn take_run(&self, repo: &str, run: &RunRecord) {
        let outcome = run.outcome.unwrap_or("lost").to_owned();
        let seconds =
            run.ended_at.map_or(0.0, |end| (end - run.started_at).as_seconds_f64().max(0.0));
        let here = ("repo", repo.to_owned());
        if run.command {
            self.gates.get_or_create(&vec![here, ("outcome", outcome)]).inc();
            return;
        }
        let agent = ("agent", run.agent.clone());
        self.runs.get_or_create(&vec![here.clone(), agent.clone(), ("outcome", outcome)]).inc();
        self.seconds.get_or_create(&vec![agent.clone()]).observe(seconds);
        let model = ("model", run.model.clone().unwrap_or_else(|| "unknown".to_owned()));
        for (kind, count) in [("input", run.input_tokens), ("output", run.output_tokens)] {
            if let Some(count) = count {
                let labels = vec![agent.clone(), model.clone(), ("type", kind.to_owned())];
                self.tokens.get_or_create(&labels).inc_by(count);
            }
        }
        if let Some(cost) = run.cost_usd {
            self.cost.get_or_create(&vec![here, agent]).inc_by(cost);
        }
    }

    fn take_judged(&self, repo: &str, judged: Judged) {
        match judged {
            Judged::Verdict { protocol, row, accepted } => {
                let verdict = if accepted { "accepted" } else { "refused" };
                let labels = vec![
                    ("repo", repo.to_owned()),
                    ("protocol", protocol),
                    ("row", row),
                    ("verdict", verdict.to_owned()),
                ];
                self.judgements.get_or_create(&labels).inc();
            }
            Judged::Waited { protocol, seconds } => {
                self.waited.get_or_create(&vec![("protocol", protocol)]).observe(seconds);
            }
        }
    }
}

/// The folder's name, which no two repositories share; where none is known, the last part of the path.
fn name(one: &RepoMetrics) -> String {
    let folder = one.metrics.folder.as_deref().and_then(Path::file_name).filter(|_| {
        one.metrics.folder.as_ref().is_some_and(|folder| folder.join("repo.json").exists())
    });
    let last = folder.or_else(|| Path::new(&one.repo).file_name());
    last.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn hash(name: &std::ffi::OsStr) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn put(folder: &Path, name: &str, value: &serde_json::Value) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(name), value.to_string()).unwrap();
    }

    fn run(runs: &Path, id: &str, task: &str) {
        let folder = runs.join(id);
        let at = "2026-01-01T00:00:00Z";
        let limits = crate::run::Limits::default();
        put(
            &folder,
            "run.json",
            &json!({
                "version": 1, "run": id, "argv": ["true"], "dir": "/", "env": [], "limits": limits, "beat_ms": 1000, "repo": "/src/shop",
                "protocol": "loop", "seat": "codex", "role": "reviewer", "task": task, "phase": "review", "why": "a test",
                "prompt_file": null, "intended_at": at,
            }),
        );
        let ended = at.parse::<crate::model::Timestamp>().unwrap() + chrono::TimeDelta::seconds(90);
        let exit = crate::run::ExitRecord::new(crate::run::How::Exited(0), ended);
        put(&folder, "exit.json", &serde_json::to_value(exit).unwrap());
        put(
            &folder,
            "usage.json",
            &json!({"version": 1, "usage": {"cost_microusd": 250_000, "input_tokens": 10, "output_tokens": 5}}),
        );
        put(&folder, history::DONE, &json!(null));
    }

    // covers: MX-01
    #[test]
    fn the_examples_use_numbers_that_there_are() {
        // A number that nothing has been counted for yet is not in the text.
        let registered = include_str!("exporter.rs").split(".register(").skip(1);
        let known: HashSet<&str> = registered.filter_map(|rest| rest.split('"').nth(1)).collect();
        assert!(known.len() > 15, "{known:?}");
        let examples = [
            include_str!("../../examples/monitoring/alerts.yml"),
            include_str!("../../examples/monitoring/grafana.json"),
        ];
        for example in examples {
            let words = example
                .split(|c: char| !c.is_ascii_lowercase() && c != '_')
                .filter(|word| word.starts_with("agency_"));
            let plain = |word: &'static str| {
                ["_total", "_bucket"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word)
            };
            let words: Vec<&str> = words.map(plain).collect();
            assert!(words.len() > 5, "{words:?}");
            for word in words {
                assert!(known.contains(word), "{word} is not among {known:?}");
            }
        }
        assert!(serde_json::from_str::<serde_json::Value>(examples[1]).is_ok());
    }

    // covers: MX-01
    #[test]
    fn tasks_and_runs_make_no_series_and_each_run_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        let metrics = Metrics { folder: Some(dir.path().to_owned()), ..Metrics::default() };
        let one = RepoMetrics {
            repo: "/src/shop".to_owned(),
            metrics,
            conditions: Vec::new(),
            frozen: false,
        };
        let mut exporter = Exporter::default();
        let mut series = Vec::new();
        for count in [1, 40] {
            for n in 0..count {
                run(&runs, &format!("r-{n}"), &format!("T{n:04}"));
            }
            exporter.look(true, std::slice::from_ref(&one));
            exporter.look(true, std::slice::from_ref(&one));
            let text = exporter.text();
            assert!(
                text.contains(&format!(
                    "agency_runs_total{{repo=\"shop\",agent=\"codex\",outcome=\"ok\"}} {count}\n"
                )),
                "{text}"
            );
            assert!(
                !text.contains("T0000") && !text.contains("r-0") && !text.contains("/src"),
                "{text}"
            );
            series.push(text.lines().filter(|line| !line.starts_with('#')).count());
        }
        assert_eq!(series[0], series[1], "as many series for 40 runs as for one");
        let text = exporter.text();
        assert!(
            text.contains("agency_cost_usd_total{repo=\"shop\",agent=\"codex\"} 10.0\n"),
            "{text}"
        );
        assert!(
            text.contains("agency_run_duration_seconds_sum{agent=\"codex\"} 3600.0\n"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"), "{text}");
        std::fs::remove_dir_all(runs.join("r-0")).unwrap();
        exporter.look(true, std::slice::from_ref(&one));
        assert_eq!(exporter.text(), text, "a run that was cleared away still counts");
    }
}
