//! Is a process part of a run? Agents may not use the owner's verbs (SE-04). It trusts no variable alone: a run's shim is
//! the ancestor of everything that the run started, whatever that did to its environment or session. It fails closed: a
//! process whose ancestry cannot be seen whole is not the owner (SE-07).

use crate::folder::Folder;
use crate::run_name;
use crate::tree::ProcessId;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Stands for the folder of a run that cannot be found out. There is none at this place.
const UNNAMED: &str = "/proc/unnamed-run";

/// The deepest tree of processes that is walked. A run that nests deeper is not outside because of that.
const DEPTH: usize = 256;
/// An ancestor may end during the walk, which says nothing about the caller.
const WALKS: usize = 3;

/// Who asks, as far as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Its ancestry was seen whole, and no run is in it.
    Outside,
    /// The run that it belongs to.
    Run(String),
    Unclear(Unclear),
}

/// Why it cannot be known who asks. Then it counts as inside a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// It ended before it was looked at.
    Gone,
    /// This process of its ancestry cannot be read.
    Unreadable {
        pid: i32,
    },
    TooDeep,
}

impl Unclear {
    /// What is unclear, and what the owner does about it.
    pub fn sentence(self) -> String {
        match self {
            Self::Gone => "the calling process ended before it could be checked; it counts as part of a run (SE-07). \
                           Run the `agency` command again and wait for its answer"
                .to_owned(),
            Self::Unreadable { pid } => format!(
                "process {pid} above the caller cannot be read, so the caller counts as part of a run (SE-07). \
                 If /proc is mounted with hidepid, mount it without, then run the `agency` command again"
            ),
            Self::TooDeep => format!(
                "the caller is more than {DEPTH} processes deep, so it counts as part of a run (SE-07). \
                 Run the `agency` command in a new terminal"
            ),
        }
    }
}

impl Caller {
    /// Why the owner's verbs are refused to this caller.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Outside => None,
            Self::Run(run) => {
                Some(format!("agents may not do this: the caller belongs to the run `{run}`"))
            }
            Self::Unclear(unclear) => Some(unclear.sentence()),
        }
    }
}

/// The process at the other end of a socket, which no later process can be mistaken for.
#[derive(Debug)]
pub struct Peer {
    id: ProcessId,
    /// `None`: the kernel has none (before Linux 6.5). Then only the start time tells processes apart.
    handle: Option<OwnedFd>,
}

impl Peer {
    pub fn of(socket: &impl AsFd, pid: Option<i32>) -> Result<Self, Unclear> {
        let handle = handle_of(socket)?;
        let pid = pid.filter(|pid| *pid > 0).ok_or(Unclear::Gone)?;
        Ok(Self { id: ProcessId::now(pid), handle })
    }

    pub fn caller(&self) -> Caller {
        let caller = caller(self.id.pid);
        // Alive after the walk means that the walk was about this process, not about a later one with its number.
        match caller {
            Caller::Outside if !self.is_alive() => Caller::Unclear(Unclear::Gone),
            caller => caller,
        }
    }

    fn is_alive(&self) -> bool {
        let Some(handle) = &self.handle else { return self.id.is_there() };
        let mut fds = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0)) && self.id.is_there()
    }
}

#[cfg(target_os = "linux")]
fn handle_of(socket: &impl AsFd) -> Result<Option<OwnedFd>, Unclear> {
    match getsockopt(socket, sockopt::PeerPidfd) {
        Ok(handle) => Ok(Some(handle)),
        Err(Errno::ENOPROTOOPT | Errno::EINVAL | Errno::ENOSYS) => Ok(None),
        Err(_) => Err(Unclear::Gone),
    }
}

#[cfg(not(target_os = "linux"))]
fn handle_of(_: &impl AsFd) -> Result<Option<OwnedFd>, Unclear> {
    Ok(None)
}

/// Who the process with this number is.
pub fn caller(pid: i32) -> Caller {
    let mut seen = Caller::Unclear(Unclear::Gone);
    for _ in 0..WALKS {
        seen = walk(pid);
        if !matches!(seen, Caller::Unclear(Unclear::Unreadable { .. })) {
            break;
        }
    }
    seen
}

/// Who this process itself is.
pub fn own_caller() -> Caller {
    caller(nix::unistd::Pid::this().as_raw())
}

fn walk(pid: i32) -> Caller {
    if let Some(run) = named_by_cgroup(pid) {
        return Caller::Run(run);
    }
    let mut chain = Vec::new();
    let mut at = pid;
    for _ in 0..DEPTH {
        let (Some(id), Some(parent)) = (ProcessId::of(at), crate::tree::parent(at)) else {
            let gone = Unclear::Gone;
            let unclear = if at == pid { gone } else { Unclear::Unreadable { pid: at } };
            return Caller::Unclear(unclear);
        };
        if let Some(run) = named_by_environment(at).or_else(|| named_by_shim(at)) {
            return Caller::Run(run);
        }
        if std::fs::read(format!("/proc/{at}/cmdline")).is_err() {
            return Caller::Unclear(Unclear::Unreadable { pid: at });
        }
        chain.push(id);
        if parent <= 1 {
            // One that ended meanwhile has passed its children on: what was above it was not seen.
            let ended = chain.iter().find(|id| !id.is_there());
            return match ended {
                None => Caller::Outside,
                Some(id) if id.pid == pid => Caller::Unclear(Unclear::Gone),
                Some(id) => Caller::Unclear(Unclear::Unreadable { pid: id.pid }),
            };
        }
        at = parent;
    }
    Caller::Unclear(Unclear::TooDeep)
}

/// A run's own control group, which it may not leave where the service was given a part of the tree.
fn named_by_cgroup(pid: i32) -> Option<String> {
    run_in_cgroup(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

fn run_in_cgroup(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let is_unit =
        |name: &str| [".service", ".scope", ".slice"].iter().any(|end| name.ends_with(end));
    let names = path.split('/').filter(|name| !is_unit(name));
    names.filter_map(|name| name.strip_prefix("agency-")).next().map(str::to_owned)
}

/// The run that `pid` belongs to, in words, or `None`. One whose ancestry is unclear counts as inside of one.
pub fn run_around(pid: u32) -> Option<String> {
    let pid = i32::try_from(pid).unwrap_or(0);
    match caller(pid) {
        Caller::Outside => None,
        Caller::Run(run) => Some(run),
        Caller::Unclear(_) => Some("unknown".to_owned()),
    }
}

fn named_by_environment(pid: i32) -> Option<String> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let entry =
        environ.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(b"AGENCY_RUN="))?;
    Some(String::from_utf8_lossy(entry).into_owned())
}

fn named_by_shim(pid: i32) -> Option<String> {
    let folder = shim_folder(pid)?;
    Some(folder.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// The folder of the run whose shim this process is.
fn shim_folder(pid: i32) -> Option<PathBuf> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let (program, verb, folder) = (words.next()?, words.next()?, words.next()?);
    let ours = program.rsplit('/').next() == Some("agency") && verb == "shim";
    if ours && folder == crate::order::WAIT {
        // It was told its run later, and works in that folder.
        let there = std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
        return there.or_else(|| run_name::folder_kept_by(pid)).or_else(|| Some(UNNAMED.into()));
    }
    ours.then(|| PathBuf::from(folder.into_owned()))
}

/// The folder of the run that `pid` belongs to, as far as a shim shows it. The outermost one counts: what a run puts between
/// its shim and us may look like anything.
pub fn folder_around(pid: u32) -> Option<Folder> {
    let mut at = i32::try_from(pid).ok()?;
    let mut found = None;
    for _ in 0..DEPTH {
        found = shim_folder(at).or(found);
        match crate::tree::parent(at).filter(|&parent| parent > 1) {
            Some(parent) => at = parent,
            None => break,
        }
    }
    found.map(Folder::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    // covers: SE-07
    #[test]
    fn a_process_that_is_gone_is_not_the_owner() {
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        let pid = child.id() as i32;
        child.wait().unwrap();
        assert_eq!(caller(pid), Caller::Unclear(Unclear::Gone));
        assert_eq!(own_caller().refusal(), None, "a test is started by its owner");
    }

    // covers: SE-07
    #[test]
    fn a_run_that_nests_too_deep_is_not_outside() {
        let script = r#"if [ "$1" = 0 ]; then echo ready; read line; else sh -c "$0" "$0" "$(($1-1))"; true; fi"#;
        let mut outer = Command::new("sh")
            .args(["-c", script, script, "300"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(outer.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let nested = crate::tree::descendants(&[outer.id() as i32]);
        let deepest = nested.last().unwrap().pid;
        assert_eq!(caller(deepest), Caller::Unclear(Unclear::TooDeep));
        assert!(caller(deepest).refusal().unwrap().contains("new terminal"));
        drop(outer.stdin.take());
        outer.wait().unwrap();
    }

    // covers: SE-07
    #[test]
    fn a_peer_that_ended_is_gone_although_its_number_may_be_anothers() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = nix::unistd::Pid::this().as_raw();
        assert_eq!(Peer::of(&ours, Some(own)).unwrap().caller(), Caller::Outside);
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        let gone = ProcessId::now(child.id() as i32);
        child.wait().unwrap();
        let later = Peer { id: ProcessId { start: gone.start + 1, pid: own }, handle: None };
        assert_eq!(later.caller(), Caller::Unclear(Unclear::Gone));
        drop(theirs);
    }

    // covers: SE-07
    #[test]
    fn a_runs_own_control_group_names_it() {
        let of = |path: &str| run_in_cgroup(&format!("0::{path}\n"));
        assert_eq!(of("/user.slice/agency.service/agency-r7/x").as_deref(), Some("r7"));
        assert_eq!(of("/system.slice/agency-dev.service"), None);
        assert_eq!(of("/"), None);
    }

    // covers: SE-04
    #[test]
    fn a_child_of_a_run_is_found_although_it_forgets_the_name() {
        // The outer shell carries the name, the inner one has cleared its environment.
        let script = "env -i sh -c 'echo ready; read line' ; true";
        let mut outer = Command::new("sh")
            .args(["-c", script])
            .env("AGENCY_RUN", "r7")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(outer.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let inner = crate::tree::descendants(&[outer.id() as i32]);
        assert!(!inner.is_empty());
        for child in inner {
            assert_eq!(run_around(child.pid as u32).as_deref(), Some("r7"));
        }
        drop(outer.stdin.take());
        outer.wait().unwrap();
        assert_eq!(run_around(1), None);
    }
}
