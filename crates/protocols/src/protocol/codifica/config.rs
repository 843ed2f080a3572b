//! `codifica.json` (spec 3 §3.1): both forms, each field checked, all problems at once. It reads no file.

use super::finding::Finding;
use super::words::{Kind, agent_name, is_name};
use crate::model::{RelPath, clip, other_encoding, without_bom};
use globset::{GlobBuilder, GlobMatcher};
use serde_json::{Map, Value};
use std::ops::Range;
use std::time::Duration;

pub const FILE: &str = "codifica.json";
const VERSIONS: [&str; 2] = ["0.1", "0.2"];
const HOURS_MAX: u64 = 24 * 365;
/// The keys of `rules` (spec 3 §3.1).
const RULES: [&str; 7] = [
    "mode",
    "allowed_agents",
    "file_scope",
    "custom_types",
    "branch_pattern",
    "max_concurrent_tasks_per_agent",
    "stale_claim_hours",
];

/// The runtime contract of a repository.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file as it was read.
    source: String,
    pub version: String,
    pub spec: RelPath,
    pub state: Vec<Pattern>,
    /// Without a slash at its end.
    pub assets: RelPath,
    pub rules: Rules,
}

#[derive(Clone, Debug)]
pub struct Rules {
    pub mode: Mode,
    /// Without the `agent:` prefix; empty: all.
    pub allowed_agents: Vec<String>,
    pub include: Vec<Pattern>,
    pub exclude: Vec<Pattern>,
    pub custom_types: Vec<String>,
    pub branch_pattern: Option<String>,
    pub max_concurrent: Option<u64>,
    pub stale_claim: Duration,
}

/// `permissive` is for the future; today both mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Strict,
    Permissive,
}

/// A path or a glob, as it is written.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub text: String,
    matcher: GlobMatcher,
}

impl Pattern {
    pub fn new(text: &str) -> Option<Self> {
        let inside = !text.starts_with('/') && !text.split('/').any(|part| part == "..");
        if text.is_empty() || text.len() > 1000 || !inside {
            return None;
        }
        let plain = text.strip_prefix("./").unwrap_or(text);
        let glob = GlobBuilder::new(plain).literal_separator(true).build().ok()?;
        Some(Self { text: plain.to_owned(), matcher: glob.compile_matcher() })
    }

    pub fn matches(&self, path: &RelPath) -> bool {
        self.matcher.is_match(path.as_str())
    }

    /// The path itself, where nothing in it is a wildcard.
    pub fn plain(&self) -> Option<RelPath> {
        let wild = self.text.contains(['*', '?', '[', '{', '\\']);
        RelPath::new(self.text.clone()).ok().filter(|_| !wild)
    }

    /// The folder below which everything that matches lies; `None`: anywhere.
    pub fn folder(&self) -> Option<RelPath> {
        let fixed = self
            .text
            .find(['*', '?', '[', '{', '\\'])
            .map_or(&self.text[..], |at| &self.text[..at]);
        RelPath::new(fixed.rsplit_once('/')?.0).ok()
    }
}

impl Config {
    /// Everything that is wrong comes back at once.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Finding>> {
        let mut reader = Reader { findings: Vec::new() };
        let config = reader.config(bytes);
        match config {
            Some(config) if reader.findings.is_empty() => Ok(config),
            _ => Err(reader.findings),
        }
    }

    pub fn is_state(&self, path: &RelPath) -> bool {
        path.as_str() != FILE && self.state.iter().any(|pattern| pattern.matches(path))
    }

    pub fn is_asset(&self, path: &RelPath) -> bool {
        path.as_str().strip_prefix(self.assets.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }

    /// State files in the order in which they are scanned: as `state` lists them, those of a glob by name.
    pub fn order(&self, paths: &mut [RelPath]) {
        let rank = |path: &RelPath| self.state.iter().position(|pattern| pattern.matches(path));
        paths.sort_by(|a, b| (rank(a), a).cmp(&(rank(b), b)));
    }

    /// `codifica.json` with one path more in `state`; every other byte stays. `None`: its form does not allow it.
    pub fn with_state(&self, path: &RelPath) -> Option<String> {
        let span = top_level_value(&self.source, "state")?;
        let (before, value, after) =
            (&self.source[..span.start], &self.source[span.clone()], &self.source[span.end..]);
        let new = match value.strip_suffix(']') {
            Some(list) => format!("{}, \"{path}\"]", list.trim_end()),
            None => format!("[{value}, \"{path}\"]"),
        };
        let text = format!("{before}{new}{after}");
        Self::read(text.as_bytes()).is_ok_and(|config| config.is_state(path)).then_some(text)
    }

    pub fn allows(&self, agent: &str) -> bool {
        let allowed = &self.rules.allowed_agents;
        allowed.is_empty()
            || agent == super::words::OURSELVES
            || allowed.iter().any(|name| name == agent)
    }
}

struct Reader {
    findings: Vec<Finding>,
}

impl Reader {
    fn problem(&mut self, rule: &str, found: String, wanted: &str) {
        self.findings.push(Finding::violation(rule, &RelPath::fixed(FILE), found, wanted));
    }

    fn config(&mut self, bytes: &[u8]) -> Option<Config> {
        let fields = match serde_json::from_slice(without_bom(bytes)) {
            Ok(Value::Object(fields)) => fields,
            Ok(other) => {
                self.problem("CD-01", words(&other), "a JSON object");
                return None;
            }
            Err(error) => {
                let file = RelPath::fixed(FILE);
                let (line, column) = (error.line() as u64, error.column());
                let found = match other_encoding(bytes) {
                    Some(encoding) => encoding.to_owned(),
                    None => format!("text that is not JSON from column {column} on: {error}"),
                };
                let finding = Finding::violation("CD-01", &file, clip(&found, 200), "UTF-8 JSON");
                self.findings.push(finding.at(line.max(1)));
                return None;
            }
        };
        self.text(&fields, "protocol", "`codifica`", |text| (text == "codifica").then_some(()));
        let version = self.version(&fields);
        let spec = self.text(&fields, "spec", "the path of the spec file", path);
        let state = self.state(fields.get("state"));
        let assets = match fields.get("assets") {
            None => Some(RelPath::fixed("assets")),
            Some(_) => self.text(&fields, "assets", "a folder inside the repository", folder),
        };
        let rules = self.rules(fields.get("rules"));
        Some(Config {
            source: String::from_utf8_lossy(bytes).into_owned(),
            version: version?,
            spec: spec?,
            state: state?,
            assets: assets?,
            rules: rules?,
        })
    }

    fn version(&mut self, fields: &Map<String, Value>) -> Option<String> {
        let version = self
            .text(fields, "version", "a version such as \"0.2\"", |text| Some(text.to_owned()))?;
        if VERSIONS.contains(&version.as_str()) {
            return Some(version);
        }
        self.problem(
            "CD-26",
            format!("version `{}`", clip(&version, 40)),
            "0.1 or 0.2, which this program knows",
        );
        None
    }

    fn text<T>(
        &mut self,
        fields: &Map<String, Value>,
        name: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = match fields.get(name) {
            None => {
                self.problem("CD-01", format!("no `{name}`"), wanted);
                return None;
            }
            Some(value) => value.as_str().and_then(read),
        };
        if value.is_none() {
            let found = format!("`{name}` is {}", words(&fields[name]));
            self.problem("CD-01", found, wanted);
        }
        value
    }

    fn state(&mut self, value: Option<&Value>) -> Option<Vec<Pattern>> {
        const WANTED: &str = "a path, a glob or a list of paths";
        let texts: Vec<&Value> = match value {
            None => {
                self.problem("CD-01", "no `state`".to_owned(), WANTED);
                return None;
            }
            Some(Value::Array(items)) => items.iter().collect(),
            Some(value) => vec![value],
        };
        if texts.is_empty() {
            self.problem("CD-01", "`state` is empty".to_owned(), WANTED);
        }
        self.patterns("state", &texts)
    }

    fn patterns(&mut self, name: &str, values: &[&Value]) -> Option<Vec<Pattern>> {
        let mut patterns = Some(Vec::new());
        for value in values {
            match value.as_str().and_then(Pattern::new) {
                Some(pattern) => patterns.iter_mut().for_each(|all| all.push(pattern.clone())),
                None => {
                    let found = format!("`{name}` has {}", words(value));
                    self.problem("CD-01", found, "a path or glob inside the repository");
                    patterns = None;
                }
            }
        }
        patterns
    }

    fn rules(&mut self, value: Option<&Value>) -> Option<Rules> {
        let none = Map::new();
        let fields = match value {
            None | Some(Value::String(_)) => &none,
            Some(Value::Object(fields)) => fields,
            Some(other) => {
                self.problem(
                    "CD-01",
                    format!("`rules` is {}", words(other)),
                    "a word or an object",
                );
                return None;
            }
        };
        let mode = value.filter(|value| value.is_string()).or_else(|| fields.get("mode"));
        let scope = fields.get("file_scope");
        self.unknown_keys("rules", fields, &RULES);
        if let Some(Value::Object(scope)) = scope {
            self.unknown_keys("rules.file_scope", scope, &["include", "exclude"]);
        }
        // Each field is read before any of them ends the reading, so that all problems are named at once.
        let mode = self.mode(mode);
        let allowed = self.names("rules.allowed_agents", fields.get("allowed_agents"), agent);
        let include = self.scope(scope, "include", &["**"]);
        let exclude = match scope {
            Some(Value::Object(_)) | None => self.scope(scope, "exclude", &[]),
            // Named once, with `include`.
            Some(_) => None,
        };
        let types = self.names("rules.custom_types", fields.get("custom_types"), custom_type);
        let branch_pattern = self.branch(fields.get("branch_pattern"));
        let max_concurrent = self.number(
            "rules.max_concurrent_tasks_per_agent",
            fields.get("max_concurrent_tasks_per_agent"),
            10_000,
        );
        let hours =
            self.number("rules.stale_claim_hours", fields.get("stale_claim_hours"), HOURS_MAX);
        Some(Rules {
            mode: mode?,
            allowed_agents: allowed?,
            include: include?,
            exclude: exclude?,
            custom_types: types?,
            branch_pattern: branch_pattern?,
            max_concurrent: max_concurrent?,
            stale_claim: Duration::from_secs(hours?.unwrap_or(24) * 3600),
        })
    }

    /// A mistyped limit would otherwise be no limit at all, in silence (CD-29).
    fn unknown_keys(&mut self, name: &str, fields: &Map<String, Value>, known: &[&str]) {
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            let found = format!("`{name}` has the unknown key `{}`", clip(key, 60));
            self.problem("CD-29", found, &format!("only {}", known.join(", ")));
        }
    }

    fn mode(&mut self, value: Option<&Value>) -> Option<Mode> {
        match value.map(|value| value.as_str().unwrap_or_default()) {
            None | Some("strict") => Some(Mode::Strict),
            Some("permissive") => Some(Mode::Permissive),
            Some(_) => {
                let found = format!("`rules.mode` is {}", value.map(words).unwrap_or_default());
                self.problem("CD-01", found, "strict or permissive");
                None
            }
        }
    }

    fn names(
        &mut self,
        name: &str,
        value: Option<&Value>,
        read: fn(&str) -> Option<String>,
    ) -> Option<Vec<String>> {
        let items = self.list(name, value)?;
        let mut names = Some(Vec::new());
        for item in items {
            match item.as_str().and_then(read) {
                Some(text) => names.iter_mut().for_each(|all| all.push(text.clone())),
                None => {
                    self.problem(
                        "CD-01",
                        format!("`{name}` has {}", words(item)),
                        "names of letters, digits, `-`, `_`, `.`",
                    );
                    names = None;
                }
            }
        }
        names
    }

    fn list<'a>(&mut self, name: &str, value: Option<&'a Value>) -> Option<&'a [Value]> {
        match value {
            None => Some(&[]),
            Some(Value::Array(items)) => Some(items),
            Some(other) => {
                self.problem("CD-01", format!("`{name}` is {}", words(other)), "a list");
                None
            }
        }
    }

    fn scope(
        &mut self,
        scope: Option<&Value>,
        name: &str,
        default: &[&str],
    ) -> Option<Vec<Pattern>> {
        let value = match scope {
            None => None,
            Some(Value::Object(fields)) => fields.get(name),
            Some(other) => {
                self.problem(
                    "CD-01",
                    format!("`rules.file_scope` is {}", words(other)),
                    "an object",
                );
                return None;
            }
        };
        if value.is_none() {
            return Some(default.iter().filter_map(|text| Pattern::new(text)).collect());
        }
        let full = format!("rules.file_scope.{name}");
        let items: Vec<&Value> = self.list(&full, value)?.iter().collect();
        self.patterns(&full, &items)
    }

    fn branch(&mut self, value: Option<&Value>) -> Option<Option<String>> {
        const WANTED: &str = "a branch name with `{type}`, `{id}` and `{slug}`";
        let Some(value) = value.filter(|value| !value.is_null()) else { return Some(None) };
        let pattern = value.as_str().filter(|pattern| super::branch::is_pattern(pattern));
        if pattern.is_none() {
            self.problem("CD-01", format!("`rules.branch_pattern` is {}", words(value)), WANTED);
        }
        pattern.map(|pattern| Some(pattern.to_owned()))
    }

    fn number(&mut self, name: &str, value: Option<&Value>, max: u64) -> Option<Option<u64>> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Some(None) };
        let number = value.as_u64().filter(|number| (1..=max).contains(number));
        if number.is_none() {
            let wanted = format!("a whole number from 1 to {max}");
            self.problem("CD-01", format!("`{name}` is {}", words(value)), &wanted);
        }
        number.map(Some)
    }
}

/// The bytes of the value of one key of a JSON object, which is known to be valid.
fn top_level_value(text: &str, key: &str) -> Option<Range<usize>> {
    let wanted = format!("\"{key}\"");
    let (mut depth, mut string, mut escaped) = (0_u32, None, false);
    let (mut last, mut start) = (0..0, None);
    for (at, c) in text.char_indices() {
        match (string, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(from), '"') => {
                string = None;
                last = from..at + 1;
            }
            (Some(_), _) => {}
            (None, '"') => string = Some(at),
            (None, ':') if depth == 1 && text[last.clone()] == wanted => start = Some(at + 1),
            (None, ',' | '}') if depth == 1 && start.is_some() => {
                let from = start?;
                let value = &text[from..at];
                let lead = value.len() - value.trim_start().len();
                return Some(from + lead..from + value.trim_end().len());
            }
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    None
}

/// `agent:builder` and `builder` are the same agent (GAP of CD-01).
fn agent(text: &str) -> Option<String> {
    agent_name(text).or_else(|| is_name(text).then(|| text.to_owned()))
}

fn custom_type(text: &str) -> Option<String> {
    let own = matches!(Kind::read(text), Kind::Custom(_));
    (own && is_name(text)).then(|| text.to_owned())
}

fn path(text: &str) -> Option<RelPath> {
    RelPath::new(text.strip_prefix("./").unwrap_or(text)).ok()
}

fn folder(text: &str) -> Option<RelPath> {
    path(text.trim_end_matches('/'))
}

fn words(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a yes/no".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("`{}`", clip(text, 60)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
