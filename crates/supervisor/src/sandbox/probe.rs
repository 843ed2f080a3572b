//! Proves that the sandbox denies: a program of ours inside a plan tries what an agent must not do. It changes only folders that
//! it made for this.

use super::{Kernel, Plan, SandboxError, Temp, spawn};
use nix::unistd::{Pid, setsid};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The word by which our program is started for it.
const VERB: &str = "sandbox-probe";
/// Since this version of Landlock signals stay inside.
const SIGNALS_SINCE: u32 = 6;

/// One thing that was tried, in words that follow "could".
type Attempt = (&'static str, fn(&Place) -> bool);

const ATTEMPTS: &[Attempt] = &[
    ("write a file outside its tree", |place| fs::write(place.outside.join("file"), "x").is_ok()),
    ("make a file outside its tree", |place| fs::write(place.outside.join("new"), "x").is_ok()),
    ("rename a file out of its tree", |place| {
        fs::rename(place.tree.join("mine"), place.outside.join("out")).is_ok()
    }),
    ("link a file into its tree", |place| {
        fs::hard_link(place.outside.join("file"), place.tree.join("in")).is_ok()
    }),
    ("cut a file outside its tree", |place| {
        nix::unistd::truncate(&place.outside.join("file"), 0).is_ok()
    }),
    ("remove a file outside its tree", |place| fs::remove_file(place.outside.join("gone")).is_ok()),
    ("read a hidden file", |place| fs::read(place.hidden.join("key")).is_ok()),
    ("write from another session", |place| {
        let own = std::env::current_exe().unwrap_or_default();
        let child = place.command(&own, "session").status();
        child.is_ok_and(|status| status.code() == Some(1))
    }),
];

/// What every attempt needs: a tree of the run's, a folder that is not, one that is hidden, and a process outside.
struct Place {
    tree: PathBuf,
    outside: PathBuf,
    hidden: PathBuf,
    pid: Pid,
}

impl Place {
    fn at(dir: &Path, pid: Pid) -> Self {
        let [tree, outside, hidden] = ["tree", "outside", "hidden"].map(|name| dir.join(name));
        Self { tree, outside, hidden, pid }
    }

    fn make(&self) -> io::Result<()> {
        for dir in [&self.tree, &self.outside, &self.hidden] {
            fs::create_dir_all(dir)?;
        }
        fs::write(self.tree.join("mine"), "")?;
        fs::write(self.outside.join("file"), "")?;
        fs::write(self.outside.join("gone"), "")?;
        fs::write(self.hidden.join("key"), "")
    }

    fn command(&self, program: &Path, what: &str) -> Command {
        let dir = self.tree.parent().unwrap_or(&self.tree);
        let mut command = Command::new(program);
        command.args([VERB, what]).arg(dir).arg(self.pid.to_string()).env_clear();
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the probe could not be made or run")]
    Io(#[from] io::Error),
    #[error("the probe could not write in its own tree")]
    Crippled,
}

/// What a run inside a sandbox could do although it must not; empty is what is wanted. `program` is our own.
pub fn probe(program: &Path) -> Result<Vec<String>, ProbeError> {
    let base = std::env::temp_dir();
    let dir = Temp::make(&Plan { temp: base, ..Plan::default() })?;
    let place = Place::at(dir.path(), Pid::this());
    place.make()?;
    let plan = Plan {
        write_exact: vec![place.tree.clone()],
        hide: vec![place.hidden.clone()],
        temp: place.outside.clone(),
        ..Plan::default()
    };
    let temp = Temp::make(&plan)?;
    let mut command = place.command(program, "all");
    command.stdout(Stdio::piped());
    let output = spawn(&plan, &temp, &mut command)??.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !said.lines().any(|line| line == "done") {
        return Err(ProbeError::Crippled);
    }
    Ok(said.lines().filter_map(|line| line.strip_prefix("open ")).map(str::to_owned).collect())
}

/// Whether this kernel can keep signals inside.
pub fn scopes_signals(kernel: Kernel) -> bool {
    kernel.abi().is_some_and(|abi| abi >= SIGNALS_SINCE)
}

/// `None`: this process was not started as a probe. Else it has tried everything and printed what worked.
pub fn run_if_asked() -> Option<ExitCode> {
    if std::env::args_os().nth(1)? != VERB {
        return None;
    }
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [what, dir, pid] = args.as_slice() else { return None };
    let place = Place::at(Path::new(dir), Pid::from_raw(pid.parse().unwrap_or(0)));
    if what == "session" {
        let written = setsid().is_ok() && fs::write(place.outside.join("file"), "x").is_ok();
        return Some(ExitCode::from(u8::from(written)));
    }
    Some(tell(&place).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

fn tell(place: &Place) -> io::Result<()> {
    use io::Write as _;
    fs::write(place.tree.join("works"), "x")?;
    let mut out = io::stdout().lock();
    for (what, attempt) in ATTEMPTS {
        if attempt(place) {
            writeln!(out, "open {what}")?;
        }
    }
    if scopes_signals(Kernel::here()) && nix::sys::signal::kill(place.pid, None).is_ok() {
        writeln!(out, "open signal a process outside")?;
    }
    writeln!(out, "done")
}
