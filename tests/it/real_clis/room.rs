//! One CLI in a temporary place of its own: home, repositories, scripted providers, shim. What must come out is the tests' matter.

use super::provider::{Provider, WROTE};
use crate::run_stage::{Stage, carrying, wait_until};
use agency::config::{Config, Profile, SandboxMode};
use agency::model::RunEnd;
use agency::run::environment::{Names, of_run};
use agency::run::profile::{Access, Launch, Options, find, launch, word};
use agency::run::sandbox::{self, Kernel, Ours, Subject};
use agency::run::{Executor as _, Limits, RunSpec, Values, expand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

/// Nothing of it may be taken for a flag or by a shell.
const PROMPT: &str = "--write `hello.txt`; echo $HOME \"now\" && {repo}";
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Case {
    /// Of the provider: one of its `--fail` modes, `refused`, or empty for a provider that works.
    pub(crate) mode: &'static str,
    pub(crate) access: Access,
    /// The prompt is longer by this many words.
    pub(crate) more_words: usize,
    pub(crate) sandbox: SandboxMode,
    /// A limit of ours that ends it.
    pub(crate) wall_s: Option<u64>,
    /// What its stream must say while it runs; then we stop it.
    pub(crate) trouble: Option<&'static str>,
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) wanted: &'static str,
}

impl Case {
    fn name(&self) -> String {
        let env: String = self.env.iter().map(|(name, _)| format!("-{name}")).collect();
        let wall = self.wall_s.map(|wall| format!("-{wall}s")).unwrap_or_default();
        let (mode, access, words, sandbox) =
            (self.mode, self.access, self.more_words, self.sandbox);
        format!("case-{mode}-{access:?}-{words}-{sandbox:?}{wall}{env}")
    }

    fn prompt(&self) -> String {
        format!("{PROMPT}{}", " word".repeat(self.more_words))
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        config.sandbox.mode = self.sandbox;
        config
    }
}

pub(crate) struct Room {
    profile: Profile,
    program: PathBuf,
    path: OsString,
    session: Uuid,
    stage: Stage,
    dir: TempDir,
}

impl Room {
    pub(crate) fn open(profile: Profile) -> Self {
        let path = search_path();
        let program = find(profile, &path).expect("the CLI that this test needs is installed");
        let dir = place();
        let stage = Stage::new(dir.path());
        Self { profile, program, path, session: Uuid::new_v4(), stage, dir }
    }

    pub(crate) fn session(&self) -> Uuid {
        self.session
    }

    /// All at once; the ends are in the order of the cases.
    pub(crate) async fn play(&mut self, cases: &[Case]) -> Vec<RunEnd> {
        let mut providers: Vec<Provider> = cases.iter().map(|case| self.prepare(case)).collect();
        let mut specs = Vec::new();
        for (case, provider) in cases.iter().zip(&mut providers) {
            specs.push(self.spec(case, provider.port(), None));
        }
        specs.iter().for_each(|spec| self.stage.start(spec));
        for (case, spec) in cases.iter().zip(&specs) {
            self.stop_in_trouble(case, spec).await;
        }
        let mut ends = Vec::new();
        while ends.len() < cases.len() {
            ends.push(self.stage.end().await);
        }
        specs.iter().for_each(|spec| self.report(spec));
        let of = |spec: &RunSpec| ends.iter().find(|end| end.run == spec.spawn.run).cloned();
        let ends: Vec<RunEnd> = specs.iter().filter_map(of).collect();
        for (case, end) in cases.iter().zip(&ends) {
            self.check(case, end);
        }
        ends
    }

    async fn stop_in_trouble(&self, case: &Case, spec: &RunSpec) {
        let Some(wanted) = case.trouble else { return };
        let folder = self.stage.folder(spec);
        let trouble = || folder.usage().and_then(|file| file.trouble);
        let what = format!("`{wanted}` is known while {} runs", case.name());
        wait_until(&what, || trouble().as_deref() == Some(wanted)).await;
        let started = carrying(spec);
        assert!(!started.is_empty(), "{} runs", case.name());
        for pid in started {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            assert!(!line.contains(PROMPT), "the process list shows the prompt: {line}");
        }
        self.stage.executor.cancel(&spec.spawn.run, "seen", Duration::ZERO).unwrap();
    }

    /// The same case again, in the session of its first run.
    pub(crate) async fn resume(&mut self, case: &Case, first: &RunEnd) -> RunEnd {
        let mut provider = Provider::start(&self.dir.path().join(case.name()), case.mode);
        let spec = self.spec(case, provider.port(), first.usage.session.clone());
        let end = self.stage.play(&spec).await;
        self.report(&spec);
        assert_eq!(end.outcome.word(), case.wanted, "resumed: {:?}\n{}", end.outcome, end.tail);
        end
    }

    fn wrote(&self, case: &Case) -> PathBuf {
        self.repo(case).join("hello.txt")
    }

    pub(crate) fn has_commits(&self, case: &Case) -> bool {
        let head = git(&self.repo(case)).args(["rev-parse", "-q", "--verify", "HEAD"]).output();
        head.unwrap().status.success()
    }

    fn check(&self, case: &Case, end: &RunEnd) {
        let shown = format!("{case:?} ended as {:?}\n{}", end.outcome, end.tail);
        assert_eq!(end.outcome.word(), case.wanted, "{shown}");
        let wrote = std::fs::read_to_string(self.wrote(case)).unwrap_or_default();
        let works = case.mode.is_empty() && case.access == Access::Write;
        assert_eq!(wrote, if works { WROTE } else { "" }, "{shown}");
        if case.access == Access::ReadOnly {
            let mut git = git(&self.repo(case));
            let left = git.args(["status", "--porcelain"]).stdout(Stdio::piped()).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&left.stdout), "", "{shown}");
            let said = end.said.as_deref().unwrap_or_default();
            assert!(said.trim_end().ends_with("done"), "its last message is {said:?}: {shown}");
        }
        if works {
            let log = self.dir.path().join(case.name()).join("requests.jsonl");
            let prompt = serde_json::to_string(&case.prompt()).unwrap();
            let log = std::fs::read_to_string(log).unwrap();
            assert!(log.contains(prompt.trim_matches('"')), "the prompt did not arrive whole");
        }
    }

    /// For people who run this with `--nocapture`.
    #[expect(clippy::print_stderr, reason = "what was measured is worth more than a verdict")]
    fn report(&self, spec: &RunSpec) {
        let exit = &self.stage.json(spec, "exit.json");
        let usage = &self.stage.json(spec, "usage.json");
        let case = spec.dir.parent().unwrap().file_name().unwrap().display();
        let name = word(self.profile);
        let (how, wall, outcome) = (&exit["how"], &exit["wall_ms"], &usage["outcome"]);
        eprintln!("{name} {case}: {how} after {wall} ms: {outcome}, trouble {}", usage["trouble"]);
    }

    fn repo(&self, case: &Case) -> PathBuf {
        self.dir.path().join(case.name()).join("repo")
    }

    fn prepare(&self, case: &Case) -> Provider {
        let repo = self.repo(case);
        std::fs::create_dir_all(&repo).unwrap();
        assert!(git(&repo).args(["init", "-q"]).status().unwrap().success());
        let place = repo.parent().unwrap();
        let provider = Provider::start(place, case.mode);
        let gemini = r#"{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false}}"#;
        write(&place.join("home/.gemini/settings.json"), gemini);
        provider
    }

    fn spec(&self, case: &Case, port: u16, resume: Option<String>) -> RunSpec {
        let repo = self.repo(case);
        let home = repo.parent().unwrap().join("home");
        write(&home.join(".codex/config.toml"), &codex_config(port));
        let options = Options {
            program: Some(self.program.clone()),
            session: Some(self.session),
            resume: resume.clone(),
            access: case.access,
            budget_usd: None,
            sandboxed: sandbox::is_confined(&case.config(), None, Kernel::here()),
            ..Options::default()
        };
        let launch = launch(self.profile, &options);
        let mut spec = self.stage.spec("");
        spec.spawn.prompt = case.prompt();
        spec.spawn.resume = resume;
        spec.spawn.access = case.access;
        spec.repo = repo.clone();
        spec.dir = repo;
        spec.profile = Some(self.profile);
        spec.limits = Limits { wall_s: Some(case.wall_s.unwrap_or(35)), grace_s: 2, ..spec.limits };
        spec.stdin = launch.stdin;
        spec.argv = argv(&launch, &spec, &self.stage.folder(&spec).prompt());
        assert!(spec.argv.iter().all(|arg| !arg.contains(PROMPT)), "{:?}", spec.argv);
        spec.env = self.env(case, port, &home, &launch, &spec);
        spec.sandbox = self.plan(case, &spec);
        spec
    }

    /// As the daemon makes it.
    fn plan(&self, case: &Case, spec: &RunSpec) -> Option<sandbox::Plan> {
        let runs = self.dir.path().join("runs");
        let ours = Ours { state_dir: runs.clone(), folder: runs };
        let folder = self.stage.folder(spec);
        let subject = Subject {
            dir: &spec.dir,
            agent: None,
            profile: spec.profile,
            access: case.access,
            folder: folder.path(),
            env: &spec.env.iter().cloned().collect(),
        };
        sandbox::plan(&case.config(), &ours, &subject)
    }

    /// Through the same list that every run's environment goes through.
    fn env(
        &self,
        case: &Case,
        port: u16,
        home: &Path,
        launch: &Launch,
        spec: &RunSpec,
    ) -> Vec<(String, String)> {
        let mut from = environment(Ports::one(port), self.path.to_str().unwrap(), home);
        from.retain(|(name, _)| !case.env.iter().any(|(other, _)| other == name));
        from.extend(case.env.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let names = Names { extra: &launch.env_names, never: &[] };
        let mut env = of_run(from, names, &spec.spawn, &spec.repo, &spec.protocol);
        env.extend(launch.env_set.iter().cloned());
        env
    }
}

/// A folder for one test. codex takes no home below `/tmp`.
pub(crate) fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Our own place for the CLIs first, then what they need themselves.
pub(crate) fn search_path() -> OsString {
    let own = std::env::var_os("PATH").unwrap();
    std::env::join_paths(bin().into_iter().chain(std::env::split_paths(&own))).unwrap()
}

/// Where `tests/real-clis/install` put the CLIs.
fn bin() -> Option<PathBuf> {
    std::env::var_os("AGENCY_TEST_CLIS").map(|prefix| PathBuf::from(prefix).join("bin"))
}

/// Why tests with this CLI cannot run here.
pub(crate) fn missing(profile: Profile) -> Option<String> {
    let Some(bin) = bin() else { return Some("needs AGENCY_TEST_CLIS".to_owned()) };
    let python = Command::new("python3").arg("-V").stdout(Stdio::null()).status();
    match (find(profile, bin.as_os_str()), python) {
        (None, _) => Some(format!("needs {} in AGENCY_TEST_CLIS", word(profile))),
        (Some(_), Err(_)) => Some("needs python3".to_owned()),
        (Some(_), Ok(_)) => None,
    }
}

/// Where each CLI finds its provider.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub(crate) struct Ports {
    pub(crate) claude: u16,
    pub(crate) codex: u16,
    pub(crate) gemini: u16,
    pub(crate) aider: u16,
}

impl Ports {
    pub(crate) fn one(port: u16) -> Self {
        Self { claude: port, codex: port, gemini: port, aider: port }
    }
}

/// Everything that the four CLIs need to meet the scripted provider and nobody else.
pub(crate) fn environment(ports: Ports, path: &str, home: &Path) -> Vec<(String, String)> {
    let base = |port: u16| format!("http://127.0.0.1:{port}");
    // Whoever wants to leave the machine meets a closed door.
    let nowhere = "http://127.0.0.1:9";
    [
        ("PATH", path),
        ("HOME", home.to_str().unwrap()),
        ("HTTP_PROXY", nowhere),
        ("HTTPS_PROXY", nowhere),
        ("NO_PROXY", "127.0.0.1"),
        ("ANTHROPIC_BASE_URL", &base(ports.claude)),
        ("ANTHROPIC_API_KEY", "fake"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("OPENAI_API_KEY", "fake"),
        ("OPENAI_API_BASE", &format!("{}/v1", base(ports.aider))),
        ("GEMINI_API_KEY", "fake"),
        ("GEMINI_MODEL", "gemini-2.5-pro"),
        ("GOOGLE_GEMINI_BASE_URL", &base(ports.gemini)),
        ("AIDER_MODEL", "openai/gpt-4o"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn argv(launch: &Launch, spec: &RunSpec, prompt_file: &Path) -> Vec<String> {
    let values = Values {
        prompt: &spec.spawn.prompt,
        prompt_file,
        repo: &spec.repo,
        run: &spec.spawn.run,
        task: &spec.spawn.task,
    };
    expand(&launch.argv_template, &values)
}

/// One retry, so that a failure takes seconds.
pub(crate) fn codex_config(port: u16) -> String {
    format!(
        "model_provider = \"mock\"\n\
         [analytics]\nenabled = false\n\
         [model_providers.mock]\nname = \"mock\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n\
         env_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n\
         request_max_retries = 1\nstream_max_retries = 1\n"
    )
}

fn git(repo: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(repo)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    git.stdout(Stdio::null());
    git
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
