//! How a git process is started: program, environment, guards, limits. It knows no git verb and parses nothing.

use super::GitError;
use super::child::{self, Bounds, Failure};
use super::error::clipped;
use super::guard::Shelter;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::process::Command;

const OUTPUT_MAX: u64 = 64 * 1024 * 1024;

/// What every call may see of our own environment: who the owner is and where their git configuration lies.
const OWNER_ENV: &[&str] = &[
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "XDG_CONFIG_HOME",
    "TMPDIR",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
];

/// What only a push may see: how the owner reaches and proves themselves to a remote.
const NETWORK_ENV: &[&str] = &[
    "SSH_AUTH_SOCK",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

const FIXED_ENV: &[(&str, &str)] = &[
    // Messages in English, since a few of them are told apart.
    ("LANG", "C"),
    ("LC_ALL", "C"),
    // Nobody is there to answer. An empty GIT_ASKPASS also outranks core.askPass and SSH_ASKPASS.
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", ""),
    ("GIT_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    // Reading must neither take the owner's index.lock nor reach for the network.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // A planted replace ref or graft would show another history than the one that is there.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
    ("GIT_AUTHOR_NAME", IDENTITY.0),
    ("GIT_AUTHOR_EMAIL", IDENTITY.1),
    ("GIT_COMMITTER_NAME", IDENTITY.0),
    ("GIT_COMMITTER_EMAIL", IDENTITY.1),
];

/// Settings that outrank what the repository's own configuration says. Filters are left alone: they are how the
/// owner's LFS works.
const GUARDS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "diff.external=",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "protocol.ext.allow=never",
    // A git that a killed daemon left behind may hold a ref for a moment longer.
    "core.filesRefLockTimeout=10000",
    "core.packedRefsTimeout=10000",
    // No repacking at a moment of git's choosing, under locks that outlive the call.
    "gc.auto=0",
    "maintenance.auto=false",
    // A planted commit-graph may lie about parents; the commits themselves cannot.
    "core.commitGraph=false",
    // Set by us through GIT_GRAFT_FILE, so the advice is about nothing of the owner's.
    "advice.graftFileDeprecated=false",
    // A changed file whose size and mtime were set back is still found by its ctime.
    "core.trustctime=true",
    "core.checkStat=default",
];

/// Who our commits are by. The owner's name never stands on what they did not write.
pub(super) const IDENTITY: (&str, &str) = ("agency", "agency@localhost");

/// How git is run for one repository.
#[derive(Clone, Debug)]
pub struct Options {
    /// The part of an environment that git may see; names outside the allow-lists above are dropped.
    pub env: Vec<(OsString, OsString)>,
    /// For every call that stays on this machine.
    pub deadline: Duration,
    pub push_deadline: Duration,
    /// How long a commit waits for the owner's `index.lock`.
    pub index_wait: Duration,
}

impl Options {
    /// The owner's environment, as this process was given it.
    pub fn from_env() -> Self {
        Self {
            env: std::env::vars_os().collect(),
            deadline: Duration::from_secs(120),
            push_deadline: Duration::from_secs(600),
            index_wait: Duration::from_secs(2),
        }
    }
}

/// Whether a call may leave this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Local,
    Network,
}

/// One git command, not started yet.
pub(super) struct Call {
    verb: &'static str,
    reach: Reach,
    guards: Vec<&'static str>,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    stdin: Vec<u8>,
    stdout_max: u64,
    fine: &'static [i32],
}

impl Call {
    pub(super) fn local(verb: &'static str) -> Self {
        // Not even a partial clone's missing object is fetched behind our back.
        Self::new(verb, Reach::Local).guard("protocol.allow=never")
    }

    pub(super) fn network(verb: &'static str) -> Self {
        Self::new(verb, Reach::Network)
    }

    fn new(verb: &'static str, reach: Reach) -> Self {
        let (args, env, stdin) = (Vec::new(), Vec::new(), Vec::new());
        let guards = GUARDS.to_vec();
        Self { verb, reach, guards, args, env, stdin, stdout_max: OUTPUT_MAX, fine: &[0] }
    }

    pub(super) fn guard(mut self, setting: &'static str) -> Self {
        self.guards.push(setting);
        self
    }

    pub(super) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(super) fn args<const N: usize>(self, args: [&str; N]) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    pub(super) fn env(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name, value.as_ref().to_owned()));
        self
    }

    pub(super) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = bytes;
        self
    }

    pub(super) fn stdout_max(mut self, bytes: u64) -> Self {
        self.stdout_max = bytes;
        self
    }

    /// Git sees only what was checked (see `guard`).
    ///
    /// `worktree` writes the path of the common directory into files, so it needs the real one; the settings were checked a
    /// moment ago, and the guards stand.
    pub(super) fn sheltered(self, shelter: &Shelter) -> Self {
        let call = self.env("PATH", &shelter.path);
        if call.verb == "worktree" {
            return call;
        }
        let call = call
            .env("GIT_COMMON_DIR", &shelter.common_dir)
            .env("GIT_OBJECT_DIRECTORY", &shelter.objects);
        match call.reach {
            Reach::Local => call.env("GIT_EXEC_PATH", &shelter.exec),
            // Transports are programs of git's own.
            Reach::Network => call,
        }
    }

    /// Exit codes that are answers, not failures.
    pub(super) fn fine(mut self, codes: &'static [i32]) -> Self {
        self.fine = codes;
        self
    }
}

pub(super) struct Output {
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Output {
    /// Output that is one line of text.
    pub(super) fn line(&self, verb: &'static str) -> Result<&str, GitError> {
        let line = self.stdout.strip_suffix(b"\n").unwrap_or(&self.stdout);
        std::str::from_utf8(line).map_err(|_| GitError::odd_output(verb, &self.stdout))
    }
}

/// The git program with the environment that it runs in.
#[derive(Clone)]
pub(super) struct Git(Arc<Own>);

struct Own {
    program: PathBuf,
    options: Options,
}

/// The one that runs in this process's own environment: every repository has the same.
static OURS: Mutex<Option<Git>> = Mutex::new(None);

impl Git {
    pub(super) fn new(mut options: Options) -> Result<Self, GitError> {
        options.env.retain(|(name, _)| listed(OWNER_ENV, name) || listed(NETWORK_ENV, name));
        let path =
            options.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        // A relative folder in PATH would be looked up inside the repository.
        let dirs =
            std::env::split_paths(path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin")));
        let dirs: Vec<PathBuf> = dirs.filter(|dir| dir.is_absolute()).collect();
        let program = dirs.iter().map(|dir| dir.join("git")).find(|file| is_program(file));
        let path = std::env::join_paths(&dirs).map_err(|_| GitError::Missing)?;
        options.env.retain(|(name, _)| name != "PATH");
        options.env.push(("PATH".into(), path));
        let own = Own { program: program.ok_or(GitError::Missing)?, options };
        Ok(Self(Arc::new(own)))
    }

    /// As the owner's environment has it. Looked for again when it went away.
    pub(super) fn ours() -> Result<Self, GitError> {
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(git) = ours.as_ref().filter(|git| is_program(git.program())) {
            return Ok(git.clone());
        }
        let git = Self::new(Options::from_env())?;
        *ours = Some(git.clone());
        Ok(git)
    }

    pub(super) fn program(&self) -> &Path {
        &self.0.program
    }

    /// What git sees of the owner's environment.
    pub(super) fn env(&self) -> &[(OsString, OsString)] {
        &self.0.options.env
    }

    pub(super) fn index_wait(&self) -> Duration {
        self.0.options.index_wait
    }

    pub(super) async fn run(&self, dir: &Path, call: Call) -> Result<Output, GitError> {
        let (verb, fine) = (call.verb, call.fine);
        let deadline = match call.reach {
            Reach::Local => self.0.options.deadline,
            Reach::Network => self.0.options.push_deadline,
        };
        let bounds = Bounds { deadline, stdout_max: call.stdout_max };
        let command = self.command(dir, &call);
        let ended =
            child::finish(command, call.stdin, bounds).await.map_err(|failure| match failure {
                Failure::Start(source) => GitError::io("start", &self.0.program, source),
                Failure::Pipe(source) => GitError::Pipe { verb, source },
                Failure::TimedOut => GitError::TimedOut { verb, after: deadline },
                Failure::TooMuch => GitError::TooMuch { verb, limit: call.stdout_max },
            })?;
        let (stdout, stderr) = (ended.stdout, ended.stderr);
        match ended.status.code() {
            Some(code) if fine.contains(&code) => Ok(Output { code, stdout, stderr }),
            code => Err(GitError::Refused { verb, code, said: clipped(&stderr) }),
        }
    }

    fn command(&self, dir: &Path, call: &Call) -> Command {
        let mut command = Command::new(&self.0.program);
        command.current_dir(dir).env_clear();
        let seen = self.0.options.env.iter();
        let seen =
            seen.filter(|(name, _)| call.reach == Reach::Network || !listed(NETWORK_ENV, name));
        command.envs(seen.map(|(name, value)| (name, value)));
        command.envs(FIXED_ENV.iter().copied());
        command.envs(call.env.iter().map(|(name, value)| (name, value)));
        command.arg("--no-pager");
        for guard in &call.guards {
            command.args(["-c", guard]);
        }
        command.arg(call.verb).args(&call.args);
        command
    }
}

fn listed(names: &[&str], name: &OsStr) -> bool {
    names.iter().any(|listed| name == *listed)
}

pub(super) fn is_program(file: &Path) -> bool {
    std::fs::metadata(file)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
