//! `agency shim FOLDER` (or `-`, for a spare one): the small process that keeps one run and outlives the daemon. It knows no protocol and no agent.
//!
//! It holds the run's lock for its whole life, starts the child with exactly its own environment and inside its sandbox, and
//! leaves `exit.json`.

use super::supervise::{End, Supervisor};
use crate::beat::Beat;
use crate::cgroup::Cgroup;
use crate::exit::{ExitRecord, How};
use crate::folder::{Alive, EXIT, Folder, Lock};
use crate::order;
use crate::run_file::{RunFile, Stdin, VERSION};
use crate::run_name;
use crate::sandbox::{self, Temp};
use crate::signals::Signals;
use crate::tree::ProcessId;
use agency_host::clock::{boot_id, boottime, wall};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{Pid, dup2_stdout, setsid};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// A daemon that only looks whether we live holds the lock for an instant; another shim holds it for good.
const LOCK_TRIES: u32 = 400;
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// A full disk may be emptied; until then nobody knows how the run ended.
const RECORD_TRIES: u32 = 300;
const RECORD_PAUSE: Duration = Duration::from_secs(1);

/// The child begins on our core. What it says meanwhile waits in its pipes, and its end for us to ask.
const CHILD_FIRST: Duration = Duration::from_millis(2);
/// The end of a process keeps a core busy. Whoever hears of the end of a run has a better use for it just then.
const LINGER: Duration = Duration::from_millis(50);

/// macOS counts bytes, everybody else kilobytes.
const RSS_UNITS_PER_KB: u64 = if cfg!(target_os = "macos") { 1024 } else { 1 };

/// What a process is for that was started as a shim.
#[derive(Debug)]
pub enum Duty {
    /// `agency shim FOLDER`: keep this run. Its environment is the run's.
    Keep(PathBuf),
    /// `agency shim -`: wait until a run is named.
    Wait,
}

/// `None`: this process is no shim.
pub fn duty() -> Option<Duty> {
    let mut args = std::env::args_os().skip(1);
    let verb = args.next()?;
    let folder = args.next()?;
    let duty = if folder == order::WAIT { Duty::Wait } else { Duty::Keep(folder.into()) };
    (verb == "shim" && args.next().is_none()).then_some(duty)
}

/// What a shim has ready before it knows its run.
struct Ready {
    signals: Signals,
    alive: Alive,
}

impl Ready {
    fn new() -> io::Result<Self> {
        let signals = Signals::new()?;
        let shim = ProcessId::now(Pid::this().as_raw());
        Ok(Self { signals, alive: Alive { shim, child: None, at: wall(), boot: boot_id() } })
    }
}

/// Runs until no process of the run is left.
pub fn main(duty: Duty) -> ExitCode {
    leave_the_daemon();
    let kept = Ready::new().and_then(|ready| match duty {
        Duty::Keep(folder) => keep(&Folder::new(folder), None, ready),
        Duty::Wait => wait(ready),
    });
    match kept {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(3),
    }
}

fn wait(ready: Ready) -> io::Result<()> {
    order::rehearse(&ready.alive);
    let Some(order) = order::wait(&ready.signals) else { return Ok(()) };
    run_name::carry(&order.folder);
    let kept = enter(&order.folder)
        .and_then(|()| keep(&Folder::new(order.folder), Some(&order.env), ready));
    let_go();
    kept
}

/// The run's lock is free: whoever waits for that hears it now, and the kernel takes this process down once they have gone on.
/// Not for one whose own environment names the run: until it has ended, a process of the run is there.
fn let_go() {
    File::options().write(true).open("/dev/null").and_then(|null| Ok(dup2_stdout(null)?)).ok();
    std::thread::sleep(LINGER);
}

/// As the daemon starts a shim in its folder: there, with its complaints kept. Hardly any has one, so no file waits for it.
fn enter(folder: &Path) -> io::Result<()> {
    std::env::set_current_dir(folder)?;
    let folder = Folder::new(folder);
    std::panic::set_hook(Box::new(move |panic| {
        folder.complaints().and_then(|mut log| writeln!(log, "{panic}")).ok();
    }));
    Ok(())
}

/// `env`: the child's environment, where it is not our own.
fn keep(folder: &Folder, env: Option<&Environment>, ready: Ready) -> io::Result<()> {
    let Some(lock) = take_lock(folder)? else { return Ok(()) };
    if folder.has(EXIT) {
        return Ok(());
    }
    let Ready { signals, mut alive } = ready;
    alive.at = wall();
    lock.write(&alive)?;
    let mut temp = None;
    let record = match readable(folder) {
        Ok(run) => {
            let mut beat = Beat::new(lock.beat()?, Duration::from_millis(run.beat_ms));
            let group = run.cgroup.clone().map(Cgroup::at);
            let child = || match &group {
                Some(group) => group.around(|| start(&run, env, &mut temp)),
                None => start(&run, env, &mut temp),
            };
            let record =
                run_to_its_end(folder, &run, child, signals, &mut beat, &mut alive, &lock)?;
            let left = leave(folder, &record, || beat.if_due());
            // The end of the run is known before its temporary files are removed, which may take a while.
            drop(lock);
            drop(temp);
            return left;
        }
        Err(why) => ExitRecord::new(How::FailedToStart(why), wall()),
    };
    leave(folder, &record, || {})
}

/// Our own session, so that no terminal and no group signal of the daemon's reaches us; and heir to every orphan below.
fn leave_the_daemon() {
    // It fails only for the leader of a group, who has what we want from it already.
    setsid().ok();
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true).ok();
}

fn take_lock(folder: &Folder) -> io::Result<Option<Lock>> {
    for _ in 0..LOCK_TRIES {
        if let Some(lock) = folder.try_lock()? {
            return Ok(Some(lock));
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Ok(None)
}

fn readable(folder: &Folder) -> Result<RunFile, String> {
    let run = folder.intent().map_err(|cause| format!("`run.json` cannot be read: {cause}"))?;
    if run.version > VERSION {
        return Err(format!("`run.json` has version {}, at most {VERSION}", run.version));
    }
    Ok(run)
}

fn run_to_its_end(
    folder: &Folder,
    run: &RunFile,
    start: impl FnOnce() -> Result<Child, How>,
    signals: Signals,
    beat: &mut Beat,
    alive: &mut Alive,
    lock: &Lock,
) -> io::Result<ExitRecord> {
    if let Some(Ok(stop)) = folder.stop() {
        return Ok(ExitRecord::new(How::Stopped(stop.why), wall()));
    }
    let started = boottime();
    let child = match start() {
        Ok(child) => child,
        Err(how) => return Ok(ExitRecord::new(how, wall())),
    };
    std::thread::sleep(CHILD_FIRST);
    alive.child = i32::try_from(child.id()).ok().map(ProcessId::now);
    alive.at = wall();
    // The text is for people and for signals; the run goes on without it.
    lock.write(alive).ok();
    let group = run.cgroup.clone().map(Cgroup::at);
    let end = Supervisor::new(folder, &run.limits, signals, beat, child)?.in_group(group).run();
    let mut record = record_of(end);
    record.wall_ms = u64::try_from(boottime().since(started).as_millis()).unwrap_or(u64::MAX);
    Ok(record)
}

type Environment = [(String, String)];

/// `temp` keeps the run's folder for temporary files, if it gets one.
fn start(run: &RunFile, env: Option<&Environment>, temp: &mut Option<Temp>) -> Result<Child, How> {
    let empty = || How::FailedToStart("the command is empty".to_owned());
    let (program, args) = run.argv.split_first().ok_or_else(empty)?;
    let input = input_of(run).map_err(How::FailedToStart)?;
    let mut command = Command::new(program);
    if let Some(env) = env {
        command.env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    }
    command
        .args(args)
        .current_dir(&run.dir)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    spawn(run, &mut command, temp)?.map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound if run.dir.is_dir() => How::NotFound(program.clone()),
        _ => How::FailedToStart(format!("`{program}` in `{}`: {cause}", run.dir.display())),
    })
}

/// Inside the run's sandbox, if it has one. Without its sandbox such a run is never started.
fn spawn(
    run: &RunFile,
    command: &mut Command,
    temp: &mut Option<Temp>,
) -> Result<io::Result<Child>, How> {
    let Some(plan) = &run.sandbox else { return Ok(command.spawn()) };
    let spawned =
        Temp::make(plan).and_then(|made| sandbox::spawn(plan, temp.insert(made), command));
    spawned.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        How::FailedToStart(format!("no sandbox: {error}{}", cause.unwrap_or_default()))
    })
}

fn input_of(run: &RunFile) -> Result<Stdio, String> {
    match (run.stdin, &run.prompt_file) {
        (Stdin::Prompt, Some(path)) => File::open(path)
            .map(Stdio::from)
            .map_err(|cause| format!("`{}` cannot be read: {cause}", path.display())),
        (Stdin::Prompt, None) | (Stdin::Nothing, _) => Ok(Stdio::null()),
    }
}

fn record_of(end: End) -> ExitRecord {
    let mut record = ExitRecord::new(end.how, wall());
    match end.status {
        Some(How::Exited(code)) => record.code = Some(code),
        Some(How::Signal(signal)) => record.signal = Some(signal),
        _ => {}
    }
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) {
        let cpu = (usage.user_time() + usage.system_time()).num_milliseconds();
        record.cpu_ms = u64::try_from(cpu).unwrap_or(0);
        record.peak_rss_kb = u64::try_from(usage.max_rss()).unwrap_or(0) / RSS_UNITS_PER_KB;
    }
    record.survivors = end.survivors;
    record.notes = end.notes;
    record
}

/// An unwritten record makes the run lost, so it is worth waiting for.
fn leave(folder: &Folder, record: &ExitRecord, mut meanwhile: impl FnMut()) -> io::Result<()> {
    for _ in 1..RECORD_TRIES {
        if published(folder, record).is_ok() {
            return Ok(());
        }
        meanwhile();
        std::thread::sleep(RECORD_PAUSE);
    }
    published(folder, record)
}

/// SE-09: the daemon hears from us which record is ours. The pipe is ours alone; the folder may be another process's to write.
fn published(folder: &Folder, record: &ExitRecord) -> io::Result<()> {
    let digest = folder.publish_record(record)?;
    // After the daemon has gone nobody reads it, and the record counts once our lock is free.
    writeln!(io::stdout(), "{digest}").ok();
    Ok(())
}
