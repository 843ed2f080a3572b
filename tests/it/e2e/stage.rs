//! A stage for the real program: its own HOME, state directory, repository and agents, gone afterwards with all it started.

use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const HONEST: &str = include_str!("../agents/honest.sh");
pub(crate) const FLAG: &str = ".agent-status.json";
pub(crate) const STATE: &str = ".review-loop-state.json";
/// The key of the webhooks; no agent ever sees it.
const HOOK_SECRET: &str = "whsec_bm90LWEtc2VjcmV0LWJ1dC1sb25nLWVub3VnaA==";
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    dir: TempDir,
    /// What our program sees beside the usual.
    env: Vec<(String, String)>,
    /// Whose everything here is and who runs our program, if not us.
    user: Option<u32>,
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A daemon that this test started. It ends with the test; its runs are stopped too.
pub(crate) struct Daemon {
    child: Child,
}

impl Stage {
    /// A repository with one commit, and this script for both agents.
    pub(crate) fn new(agent: &str) -> Self {
        Self::within(tempfile::tempdir().unwrap(), agent)
    }

    /// The same for another user; only root can play one.
    pub(crate) fn as_user(user: Option<u32>, agent: &str) -> Self {
        Self::begin(tempfile::tempdir().unwrap(), user, agent)
    }

    /// The same in a folder of the test's own choice.
    pub(crate) fn within(dir: TempDir, agent: &str) -> Self {
        Self::begin(dir, None, agent)
    }

    fn begin(dir: TempDir, user: Option<u32>, agent: &str) -> Self {
        let stage = Self { dir, env: Vec::new(), user };
        for dir in ["home", "repo"] {
            fs::create_dir_all(stage.at(dir)).unwrap();
        }
        fs::write(stage.at("agent.sh"), agent).unwrap();
        stage.configure("");
        stage.write("README.md", "the project\n");
        stage.hand_over();
        stage.git(&["init", "--quiet", "--initial-branch=main"]);
        stage.git(&["add", "-A"]);
        stage.git(&["commit", "--quiet", "-m", "the owner's first commit"]);
        stage
    }

    /// Gives everything on the stage to its user, who need not be able to enter the folder that our program was built in.
    pub(crate) fn hand_over(&self) {
        let Some(user) = self.user else { return };
        let own = self.at("agency");
        if !own.exists() {
            fs::copy(env!("CARGO_BIN_EXE_agency"), own).unwrap();
        }
        let user = format!("{user}:{user}");
        let done = Command::new("chown").args(["-R", &user]).arg(self.at("")).status().unwrap();
        assert!(done.success());
    }

    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.at("repo")
    }

    /// The usual configuration with quick retries, and whatever else a test wants.
    pub(crate) fn configure(&self, more: &str) {
        self.configure_agents("retries: 2, backoff: 100ms", more);
    }

    /// The same, with these settings for both agents.
    pub(crate) fn configure_agents(&self, settings: &str, more: &str) {
        let script = self.at("agent.sh");
        let agent = format!("{{ command: [sh, {}], {settings} }}", script.display());
        self.set_config(&format!("agents:\n  claude-code: {agent}\n  codex: {agent}\n{more}"));
    }

    /// Writes a whole configuration. Scripted agents keep their notes in HOME, where a real one may not write; a test that says
    /// something of the sandbox itself gets exactly that.
    pub(crate) fn set_config(&self, text: &str) {
        let home = self.at("home");
        let sandbox = match text.contains("sandbox:") {
            true => String::new(),
            false => format!("sandbox: {{ write: [\"{}\"] }}\n", home.display()),
        };
        fs::write(self.at("agency.yaml"), format!("{}\n{sandbox}", text.trim_end())).unwrap();
    }

    /// Lets runs write one thing more of the stage: a remote that is a folder, say.
    pub(crate) fn let_runs_write(&self, name: &str) {
        let text = fs::read_to_string(self.at("agency.yaml")).unwrap();
        let more = format!("write: [\"{}\", ", self.at(name).display());
        fs::write(self.at("agency.yaml"), text.replacen("write: [", &more, 1)).unwrap();
    }

    /// For a test that finds out what the sandbox would prevent.
    pub(crate) fn without_sandbox(&self) {
        let text = fs::read_to_string(self.at("agency.yaml")).unwrap();
        let (before, _) = text.split_once("sandbox:").unwrap();
        self.set_config(&format!("{before}sandbox: {{ mode: off }}"));
    }

    /// What we keep of the stage's only repository.
    pub(crate) fn folder(&self) -> PathBuf {
        let mut folders = fs::read_dir(self.at("state")).unwrap().flatten().map(|one| one.path());
        folders.find(|folder| folder.join("journal").is_dir()).unwrap()
    }

    /// Our own program in this stage, with nothing asked of it yet.
    pub(crate) fn program(&self) -> Command {
        let mut command = match self.user {
            Some(_) => Command::new(self.at("agency")),
            None => Command::new(env!("CARGO_BIN_EXE_agency")),
        };
        self.hermetic(&mut command);
        command
            .env("AGENCY_STATE_DIR", self.at("state"))
            .env("AGENCY_CONFIG", self.at("agency.yaml"))
            .env("HOOK_SECRET", HOOK_SECRET)
            .envs(self.env.iter().cloned());
        command
    }

    fn hermetic(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", self.at("home"))
            .env("PATH", std::env::var("PATH").unwrap())
            .env("USER", "tester")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.repo())
            .stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
    }

    /// Runs one command of ours to its end, in the repository.
    pub(crate) fn agency(&self, words: &[&str]) -> Said {
        self.agency_in(&self.repo(), words)
    }

    pub(crate) fn agency_in(&self, dir: &Path, words: &[&str]) -> Said {
        let output = self.program().args(words).current_dir(dir).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Said { code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The same, and it must go well.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let said = self.agency(words);
        assert_eq!(said.code, 0, "agency {words:?}: {}{}", said.out, said.err);
        said.out
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ok(words)).unwrap()
    }

    pub(crate) fn start(&self) -> Daemon {
        self.start_with(&[])
    }

    /// Starts the daemon; its log goes to a file that a failing test shows.
    pub(crate) fn start_with(&self, words: &[&str]) -> Daemon {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.at("daemon.log")).unwrap();
        let mut command = self.program();
        command.arg("run").args(words).env("AGENCY_LOG", "debug").stdout(Stdio::null()).stderr(log);
        Daemon { child: command.spawn().unwrap() }
    }

    pub(crate) fn daemon_log(&self) -> String {
        fs::read_to_string(self.at("daemon.log")).unwrap_or_default()
    }

    /// Waits for a condition, and on time-out shows what the daemon said and did.
    pub(crate) fn wait<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        wait_until(LIMIT, look).unwrap_or_else(|| {
            let [status, journal] = [&["status"][..], &["journal"]].map(|words| self.agency(words));
            let (log, journal) = (tail(&self.daemon_log()), tail(&journal.out));
            panic!("waited for {what}\n{}{}\n{journal}\n{log}", status.out, status.err)
        })
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.repo().join(path)).ok()
    }

    /// The loop's state file, as far as it can be read right now.
    pub(crate) fn state(&self) -> Value {
        self.read(STATE).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    pub(crate) fn wait_for_phase(&self, phase: &str) {
        self.wait(&format!("the phase {phase}"), || (self.state()["phase"] == phase).then_some(()));
    }

    /// The owner's git.
    pub(crate) fn git(&self, words: &[&str]) -> String {
        self.git_in(&self.repo(), words)
    }

    pub(crate) fn git_in(&self, dir: &Path, words: &[&str]) -> String {
        let mut command = Command::new("git");
        self.hermetic(&mut command);
        let names = ["-c", "user.name=Owner", "-c", "user.email=owner@example.com"];
        let output = command.args(names).args(words).current_dir(dir).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {words:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Subjects of our commits, oldest first.
    pub(crate) fn transitions(&self) -> Vec<String> {
        let log = self.git(&["log", "--reverse", "--format=%s", "--author=agency", "main"]);
        log.lines().map(str::to_owned).collect()
    }

    /// One line for each agent that really began: run, seat, task and phase.
    pub(crate) fn started(&self) -> Vec<String> {
        let text = fs::read_to_string(self.at("home/started")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn escalation(&self, rule: &str) -> Option<Value> {
        let all = self.json(&["escalations", "--json"]);
        all.as_array().unwrap().iter().find(|one| one["rule"] == rule).cloned()
    }
}

impl Drop for Stage {
    /// No run outlives its test: those that are alive are ended by the pid that we ourselves recorded.
    fn drop(&mut self) {
        let runs = self.agency_in(&self.at(""), &["runs", "--all", "--json"]);
        let runs: Value = serde_json::from_str(&runs.out).unwrap_or_default();
        for run in runs.as_array().into_iter().flatten().filter(|run| run["state"] == "running") {
            if let Some(pid) = run["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()) {
                let pid = nix::unistd::Pid::from_raw(pid);
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
            }
        }
    }
}

impl Daemon {
    /// One that a test started in its own way.
    pub(crate) fn of(child: Child) -> Self {
        Self { child }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// As a power failure would: no chance to say anything.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop and returns its exit code.
    pub(crate) fn stop(mut self) -> i32 {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    pub(crate) fn wait(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn wait_until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        match look() {
            Some(found) => return Some(found),
            None if Instant::now() > end => return None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The last lines of a text.
fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
