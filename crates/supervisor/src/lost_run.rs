//! The end of a run whose shim died or hangs: its tree is ended, then `lost` is written under the run's lock. It judges no beat.

use crate::cgroup::Cgroup;
use crate::exit::{ExitRecord, How};
use crate::folder::{EXIT, Folder};
use crate::tree::{ProcessId, carriers, descendants};
use agency_host::clock::{boot_id, boottime, wall};
use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::time::Duration;

const KILL_FOR: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(50);

/// What is wrong with the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody holds the lock, and there is no record.
    Dead,
    /// The lock is held, but nobody beats.
    Stuck,
    /// The lock is held, and a record was there that its holder did not write.
    Forged,
}

impl Trouble {
    fn words(self) -> &'static str {
        match self {
            Self::Dead => "its supervisor died, or the machine did",
            Self::Stuck => "its supervisor hung and was ended",
            Self::Forged => "its record was forged, so it was ended",
        }
    }
}

#[derive(Debug)]
pub enum Attempt {
    Ended(ExitRecord),
    /// Another shim has the run now.
    Alive,
    /// Something of the run is still there, or the record could not be written.
    Again,
}

/// Blocks for at most the run's grace and ten seconds more.
pub fn attempt(folder: &Folder, trouble: Trouble) -> Attempt {
    let mut members = Members::of(folder);
    let lock = match (folder.try_lock(), trouble) {
        (Ok(Some(lock)), _) => lock,
        (Ok(None), Trouble::Dead) => return Attempt::Alive,
        (Ok(None), Trouble::Stuck | Trouble::Forged) => {
            members.end();
            return Attempt::Again;
        }
        (Err(_), _) => return Attempt::Again,
    };
    if let Some(record) = recorded(folder) {
        return Attempt::Ended(record);
    }
    if !members.end() {
        return Attempt::Again;
    }
    let record = ExitRecord::new(How::Lost(trouble.words().to_owned()), wall());
    let written = folder.publish_json(EXIT, &record);
    drop(lock);
    if written.is_ok() { Attempt::Ended(record) } else { Attempt::Again }
}

/// The record, if there is one. One that cannot be read proves nothing.
pub fn recorded(folder: &Folder) -> Option<ExitRecord> {
    let record = folder.exit()?;
    Some(record.unwrap_or_else(|cause| {
        ExitRecord::new(How::Lost(format!("`exit.json` cannot be read: {cause}")), wall())
    }))
}

/// Every process that is known to belong to a run, found from outside of it.
#[derive(Debug)]
pub struct Members {
    shim: Option<ProcessId>,
    /// What everything that the run started carries, unless it cleared its environment.
    marks: Option<[String; 2]>,
    /// Once a member, a member until it is gone, whoever its parent is by then.
    known: HashSet<ProcessId>,
    /// What is in there is the run's, whatever it cleared.
    group: Option<Cgroup>,
    grace: Duration,
}

impl Members {
    pub fn of(folder: &Folder) -> Self {
        let alive = folder.alive().filter(|alive| alive.boot == boot_id());
        let intent = folder.intent().ok();
        Self {
            shim: alive.as_ref().map(|alive| alive.shim),
            marks: intent.as_ref().map(|run| {
                [format!("AGENCY_RUN={}", run.run), format!("AGENCY_REPO={}", run.repo.display())]
            }),
            known: alive.and_then(|alive| alive.child).into_iter().collect(),
            group: intent.as_ref().and_then(|run| run.cgroup.clone()).map(Cgroup::at),
            grace: Duration::from_secs(intent.map_or(5, |run| run.limits.grace_s)),
        }
    }

    /// Asks, waits, kills; the shim last, since orphans of a dead one are harder to find. `true`: none is left.
    pub fn end(&mut self) -> bool {
        // A shim that woke up now would take the end that we bring for the child's own.
        self.signal_shim(Signal::SIGSTOP);
        for process in self.look() {
            process.signal(Signal::SIGTERM);
            process.signal(Signal::SIGCONT);
        }
        let gone =
            self.gone_within(self.grace, None) || self.gone_within(KILL_FOR, Some(Signal::SIGKILL));
        self.signal_shim(Signal::SIGKILL);
        self.group.iter().filter(|_| gone).for_each(Cgroup::remove);
        gone && self.gone_within(KILL_FOR, Some(Signal::SIGKILL)) && !self.shim_is_there()
    }

    fn gone_within(&mut self, limit: Duration, signal: Option<Signal>) -> bool {
        let until = boottime().after(limit);
        loop {
            let living = self.look();
            if living.is_empty() {
                return true;
            }
            if boottime() >= until {
                return false;
            }
            living.iter().for_each(|process| {
                signal.into_iter().for_each(|signal| process.signal(signal));
            });
            std::thread::sleep(ROUND);
        }
    }

    /// The living, without the shim.
    fn look(&mut self) -> Vec<ProcessId> {
        self.known.retain(|process| process.is_there());
        if let Some(marks) = &self.marks {
            self.known.extend(carriers(marks));
        }
        self.known.extend(self.group.iter().flat_map(Cgroup::members));
        let shim = self.shim.filter(|shim| shim.is_there());
        let roots: Vec<i32> = self.known.iter().copied().chain(shim).map(|id| id.pid).collect();
        self.known.extend(descendants(&roots));
        self.known.iter().copied().filter(|process| Some(*process) != self.shim).collect()
    }

    fn signal_shim(&self, signal: Signal) {
        if let Some(shim) = self.shim {
            shim.signal(signal);
        }
    }

    fn shim_is_there(&self) -> bool {
        self.shim.is_some_and(ProcessId::is_there)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::folder::Alive;
    use std::process::{Command, Stdio};

    // covers: SU-02
    #[test]
    fn pids_from_before_a_reboot_are_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let id = ProcessId::now(i32::try_from(child.id()).unwrap());
        let gone = ProcessId { start: id.start + 1, ..id };
        let mut alive =
            Alive { shim: gone, child: Some(id), at: wall(), boot: "another".to_owned() };
        folder.try_lock().unwrap().unwrap().write(&alive).unwrap();
        assert!(Members::of(&folder).end());
        assert!(id.is_there(), "it only has the number of a process from before the reboot");
        alive.boot = boot_id();
        folder.try_lock().unwrap().unwrap().write(&alive).unwrap();
        assert!(Members::of(&folder).end());
        assert!(!id.is_there());
        child.wait().unwrap();
    }
}
