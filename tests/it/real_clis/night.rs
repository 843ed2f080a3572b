//! A night with real CLIs: one daemon, three repositories, every trouble of a provider for each CLI, two kills of the daemon. In
//! the morning all work is done, and every run and message is accounted for. `e2e/night.rs` is the same with scripts.

use super::audit::{TASK, begin_board};
use super::home::settled;
use super::provider::Provider;
use super::room::{place, search_path};
use crate::stage::{Stage, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Which CLI sits in a seat.
const SEATS: [(&str, &str); 8] = [
    ("claude-code", "claude"),
    ("codex", "codex"),
    ("builder", "codex"),
    ("fixer", "codex"),
    ("gemini", "gemini"),
    ("planner", "aider"),
    ("reviewer", "aider"),
    ("aider", "aider"),
];
/// With pauses that grow from a second, and a hang that is noticed after 25 s.
const CONFIG: &str = "\
agents:
  claude-code: { profile: claude, retries: 2, backoff: 1s, silence: 25s, first_output: 60s, timeout: 5m }
  codex: { profile: codex, retries: 2, backoff: 1s, silence: 25s, first_output: 60s, timeout: 5m }
  gemini: { profile: gemini, retries: 2, backoff: 1s, silence: 60s, first_output: 60s, timeout: 5m }
  aider: { profile: aider, retries: 2, backoff: 1s, silence: 60s, first_output: 60s, timeout: 5m }
roles: { auditor: gemini, planner: aider, builder: codex, reviewer: aider, fixer: codex }
board: { auditor: gemini, disk_floor: 1MiB }
limits: { parallel: 6, per_repo: 4, per_agent: 4 }
";
/// Rules whose messages a night like this has: what the setting lacks, the sign-ins, the owner's own verbs, the ends.
const EXPECTED: [&str; 6] = ["LP-18", "LP-22", "LP-24", "HO-13", "SE-04", "SU-10"];
/// Between two looks at the three repositories.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// gemini names no reset of a daily quota, so that one would take 15 min; aider has no room for one trouble more.
fn weather() -> Value {
    let all = |without: &str| {
        let all = json!([
            {"trouble": "503", "seconds": 20}, {"trouble": "refused", "seconds": 20}, {"trouble": "429", "retry_after": 5},
            {"trouble": "usage", "seconds": 30}, {"trouble": "401"}, {"trouble": "hang"},
        ]);
        let all = all.as_array().unwrap().iter();
        Value::from_iter(all.filter(|one| one["trouble"] != without).cloned())
    };
    json!({"claude": all(""), "codex": all(""), "gemini": all("usage"), "aider": all("hang")})
}

struct Night {
    stage: Stage,
    roots: [PathBuf; 3],
    _provider: Provider,
}

impl Night {
    fn new() -> Self {
        let stage = Stage::within(place(), "exit 9");
        fs::write(stage.at("agency.yaml"), CONFIG).unwrap();
        fs::write(stage.at("weather.json"), weather().to_string()).unwrap();
        fs::create_dir(stage.at("keys")).unwrap();
        for (_, cli) in SEATS {
            fs::write(stage.at("keys").join(cli), "expired").unwrap();
        }
        let mut provider = Provider::with_weather(&stage.at(""));
        // A subscription: with a plain key, claude is told of no reset.
        let stage = settled(stage, provider.ports(), &search_path())
            .with_env("ANTHROPIC_API_KEY", "")
            .with_env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake");
        let roots = [stage.repo(), stage.at("board"), stage.at("relay")];
        let night = Self { stage, roots, _provider: provider };
        night.begin();
        night
    }

    fn begin(&self) {
        let [review_loop, board, relay] = &self.roots;
        let ok = |dir: &PathBuf, words: &[&str]| {
            let said = self.stage.agency_in(dir, words);
            assert_eq!(said.code, 0, "agency {words:?}: {}{}", said.out, said.err);
        };
        ok(review_loop, &["loop", "init", "--steps", "1,2"]);
        for dir in [board, relay] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("README.md"), "the project\n").unwrap();
            self.stage.git_in(dir, &["init", "--quiet", "--initial-branch=main"]);
            self.stage.git_in(dir, &["add", "-A"]);
            self.stage.git_in(dir, &["commit", "--quiet", "-m", "the owner's first commit"]);
        }
        begin_board(&self.stage, board);
        for who in ["claude-code", "codex"].repeat(3) {
            ok(board, &[&TASK[..], &["--assignee", who]].concat());
        }
        ok(relay, &["handoff", "start", "--type", "feature", "Add", "user", "auth"]);
    }

    fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.stage.at("weather.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn begun(&self) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == "begin").collect()
    }

    fn conditions(&self) -> Vec<String> {
        let status = self.stage.agency_in(&self.stage.at(""), &["status", "--json"]);
        let status: Value = serde_json::from_str(&status.out).unwrap_or_default();
        let of = |root: &PathBuf| {
            let repos = status["repos"].as_array().into_iter().flatten();
            let here = repos.clone().find(|repo| repo["path"] == root.to_str().unwrap());
            let condition = here.map(|repo| &repo["protocols"][0]["condition"]);
            condition.map_or("?".to_owned(), |one| {
                format!("{}: {}", one["kind"].as_str().unwrap_or("?"), one["reason"])
            })
        };
        self.roots.iter().map(of).collect()
    }

    /// All messages, of all repositories.
    fn told(&self) -> Vec<Value> {
        let words = ["escalations", "--all", "--json"];
        let said = self.stage.agency_in(&self.stage.at(""), &words);
        serde_json::from_str(&said.out).unwrap_or_default()
    }

    /// The owner, as the messages say: puts the key right, then resumes what is held for it.
    fn answer(&self) {
        for told in self.told().iter().filter(|told| told["rule"] == "SU-10") {
            let summary = told["summary"].as_str().unwrap();
            let seat = SEATS.iter().find(|(seat, _)| summary.starts_with(&format!("{seat} ")));
            let cli = seat.map_or(summary.split(' ').next().unwrap(), |(_, cli)| cli);
            fs::write(self.stage.at("keys").join(cli), "good").unwrap();
        }
        for (root, now) in self.roots.iter().zip(self.conditions()) {
            if now.starts_with("held") && now.contains("cannot sign in") {
                self.stage.agency_in(root, &["resume"]);
            }
        }
    }

    fn runs(&self) -> Vec<Value> {
        let said = self.stage.agency_in(&self.stage.at(""), &["runs", "--all", "--json"]);
        serde_json::from_str(&said.out).unwrap()
    }

    fn wait(&self, limit: Duration, what: &str, mut look: impl FnMut() -> bool) {
        let mut last = Instant::now();
        let mut looked = || {
            if last.elapsed() < LOOK_EVERY {
                return None;
            }
            last = Instant::now();
            self.answer();
            look().then_some(())
        };
        let over = wait_until(limit, &mut looked);
        let log = self.stage.daemon_log();
        let log: Vec<_> = log.lines().rev().take(60).collect();
        assert!(over.is_some(), "waited for {what}: {:?}\n{}", self.conditions(), log.join("\n"));
    }
}

fn seconds(value: &Value) -> f64 {
    let at: chrono::DateTime<chrono::Utc> = value.as_str().unwrap().parse().unwrap();
    at.timestamp_micros() as f64 / 1e6
}

fn cli_of(run: &Value) -> Option<&'static str> {
    SEATS.iter().find(|(seat, _)| run["agent"] == *seat).map(|(_, cli)| *cli)
}

/// One line of the table: what became of the runs that met a trouble.
#[derive(Debug, Default)]
struct Met {
    outcomes: BTreeMap<String, usize>,
    /// In seconds from the trouble's beginning: the first run that ended by it, the message to the owner.
    ended_after: Option<f64>,
    told_after: Option<f64>,
}

impl Met {
    /// A park costs none; only what counts as a failure of the agent does.
    fn tries(&self) -> usize {
        let spent =
            |word: &&String| matches!(word.as_str(), "crash" | "timeout" | "no-artifact" | "lost");
        self.outcomes.keys().filter(spent).map(|word| self.outcomes[word]).sum()
    }
}

/// Runs are matched to the trouble during which they ended, messages to the trouble that began last before them.
fn table(night: &Night) -> BTreeMap<(String, String), Met> {
    let (events, runs, told) = (night.events(), night.runs(), night.told());
    let mut table = BTreeMap::new();
    for begin in events.iter().filter(|event| event["event"] == "begin") {
        let (cli, trouble) = (begin["cli"].as_str().unwrap(), begin["trouble"].as_str().unwrap());
        let from = begin["t"].as_f64().unwrap();
        let later = events.iter().filter(|event| event["event"] == "begin" && event["cli"] == cli);
        let next = later.map(|event| event["t"].as_f64().unwrap()).filter(|t| *t > from);
        let until = next.fold(f64::INFINITY, f64::min);
        let during = |at: f64| at >= from && at < until;
        let mut met = Met::default();
        let over = |run: &&Value| cli_of(run) == Some(cli) && run["ended_at"].is_string();
        for run in runs.iter().filter(over) {
            let word = run["outcome"].as_str().unwrap_or("alive");
            let ended = seconds(&run["ended_at"]);
            if word != "ok" && during(ended) {
                *met.outcomes.entry(word.to_owned()).or_default() += 1;
                let after = met.ended_after.unwrap_or(f64::INFINITY);
                met.ended_after = Some(after.min(ended - from));
            }
        }
        if trouble == "401" {
            let seats: Vec<_> = SEATS.iter().filter(|(_, one)| *one == cli).collect();
            let ours = told.iter().filter(|told| {
                let summary = told["summary"].as_str().unwrap_or_default();
                told["rule"] == "SU-10"
                    && seats.iter().any(|(seat, _)| summary.starts_with(&format!("{seat} ")))
            });
            let first = ours.map(|told| seconds(&told["first_seen"])).fold(f64::INFINITY, f64::min);
            met.told_after = first.is_finite().then_some(first - from);
        }
        table.insert((cli.to_owned(), trouble.to_owned()), met);
    }
    table
}

#[expect(clippy::print_stderr, reason = "what was measured is worth more than a verdict")]
fn show(table: &BTreeMap<(String, String), Met>) {
    eprintln!(
        "| cli | trouble | ends other than ok | first end after | told after | tries spent |"
    );
    let shown = |after: Option<f64>| after.map_or("-".to_owned(), |after| format!("{after:.1} s"));
    for ((cli, trouble), met) in table {
        let (ended, told) = (shown(met.ended_after), shown(met.told_after));
        let (outcomes, tries) = (&met.outcomes, met.tries());
        eprintln!("| {cli} | {trouble} | {outcomes:?} | {ended} | {told} | {tries} |");
    }
}

// covers: SU-02, SU-05, SU-09, SU-10, DM-06
pub(crate) fn play() {
    let night = Night::new();
    let words: Vec<&str> = night.roots.iter().map(|root| root.to_str().unwrap()).collect();
    for troubles in [5, 12] {
        let daemon = night.stage.start_with(&words);
        night.wait(LIMIT, "trouble", || night.begun().len() >= troubles);
        daemon.kill();
    }
    let daemon = night.stage.start_with(&words);
    let done = |now: &String| now.starts_with("done") || now.starts_with("idle");
    night.wait(LIMIT, "the end of all work", || night.conditions().iter().all(done));
    let table = table(&night);
    show(&table);
    let troubles: usize =
        weather().as_object().unwrap().values().map(|one| one.as_array().unwrap().len()).sum();
    assert_eq!(table.len(), troubles, "every trouble was met");
    for ((cli, trouble), met) in &table {
        let hangs = usize::from(trouble == "hang");
        assert_eq!(met.tries(), hangs, "{cli} in {trouble}: {met:?}");
        let told = met.told_after.unwrap_or_default();
        assert_eq!(met.told_after.is_some(), trouble == "401", "{cli} in {trouble}: {met:?}");
        assert!(told < 30.0, "a failed sign-in asks at once: {cli} after {told} s");
    }
    for told in night.told() {
        let rule = told["rule"].as_str().unwrap();
        assert!(EXPECTED.contains(&rule), "nobody expected {told}");
        let open = told["state"] == "open" && told["severity"] == "critical";
        assert!(!open, "it waits for nobody: {told}");
    }
    let [_, board, relay] = &night.roots;
    assert_eq!(night.stage.state()["phase"], "complete");
    for task in 1..=6 {
        let shown = format!("main:work/T{task:04}.txt");
        assert_eq!(night.stage.git_in(board, &["show", &shown]), format!("T{task:04}"));
    }
    assert!(relay.join("work.txt").is_file(), "the feature is there");
    assert_eq!(daemon.stop(), 0);
}
