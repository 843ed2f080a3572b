//! Processes and their descendants, each known by pid and start time, never by a bare number. It waits for none of them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: i32,
    /// In clock ticks since boot, as the kernel says it; 0 where it does not.
    pub start: u64,
}

impl ProcessId {
    /// Whoever has this number now.
    pub fn now(pid: i32) -> Self {
        Self { pid, start: stat(pid).map_or(0, |seen| seen.id.start) }
    }

    /// The same, where there is one.
    pub fn of(pid: i32) -> Option<Self> {
        stat(pid).filter(|seen| !seen.dead).map(|seen| seen.id)
    }

    /// Dead but unreaped processes do not count.
    pub fn is_there(self) -> bool {
        if cfg!(not(target_os = "linux")) {
            return kill(Pid::from_raw(self.pid), None).is_ok();
        }
        stat(self.pid).is_some_and(|seen| seen.id == self && !seen.dead)
    }

    /// Asking a process that is gone is a quiet no-op.
    pub fn signal(self, signal: Signal) {
        if self.is_there() {
            kill(Pid::from_raw(self.pid), signal).ok();
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    id: ProcessId,
    parent: i32,
    dead: bool,
}

/// Every living process below `roots` (the roots themselves are not in it), parents before their children, so that a
/// supervisor dies before it can replace what we end.
pub fn descendants(roots: &[i32]) -> Vec<ProcessId> {
    let table = table();
    // The table is read while pids come and go; each is visited once, so that a loop in it cannot hold us.
    let mut visited: HashSet<i32> = roots.iter().copied().collect();
    let mut parents = visited.clone();
    let mut found = Vec::new();
    while !parents.is_empty() {
        let children: Vec<&Seen> = table
            .iter()
            .filter(|seen| parents.contains(&seen.parent) && visited.insert(seen.id.pid))
            .collect();
        parents = children.iter().map(|seen| seen.id.pid).collect();
        found.extend(children.iter().filter(|seen| !seen.dead).map(|seen| seen.id));
    }
    found
}

/// The parent of whoever has this number now.
pub fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|seen| seen.parent)
}

/// Every living process whose environment has all of `entries` (`NAME=value`).
pub fn carriers(entries: &[String]) -> Vec<ProcessId> {
    let own = Pid::this().as_raw();
    let carries = |seen: &Seen| !seen.dead && seen.id.pid != own && has(seen.id.pid, entries);
    table().into_iter().filter(carries).map(|seen| seen.id).collect()
}

fn has(pid: i32, entries: &[String]) -> bool {
    // Unreadable means another user's, hence none of ours.
    let Ok(environ) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    entries
        .iter()
        .all(|entry| environ.split(|byte| *byte == 0).any(|text| text == entry.as_bytes()))
}

/// Where there is no `/proc` (macOS) the table is empty; process groups are all we have there.
fn table() -> Vec<Seen> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

fn stat(pid: i32) -> Option<Seen> {
    parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The command's name stands in brackets and may hold anything, brackets too: count from the last one.
fn parse(pid: i32, text: &str) -> Option<Seen> {
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    Some(Seen { id: ProcessId { pid, start }, parent, dead })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_hostile_command_name_does_not_shift_the_fields() {
        let text = "7 (a) Z 1 (b) S 42 7 7 0 -1 4 1 0 0 0 2 3 0 0 20 0 1 0 98765 5 6\n";
        let seen = parse(7, text).unwrap();
        assert_eq!((seen.parent, seen.id.start, seen.dead), (42, 98_765, false));
        assert!(parse(7, "7 (half").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn finds_its_own_child_by_parent_and_by_environment_and_signals_no_other() {
        let mark = format!("AGENCY_TEST_MARK={}", uuid::Uuid::new_v4());
        let (name, value) = mark.split_once('=').unwrap();
        let mut child =
            Command::new("sleep").arg("60").env(name, value).stdin(Stdio::null()).spawn().unwrap();
        let id = ProcessId::now(i32::try_from(child.id()).unwrap());
        assert!(descendants(&[Pid::this().as_raw()]).contains(&id));
        assert_eq!(carriers(std::slice::from_ref(&mark)), [id]);
        ProcessId { start: id.start + 1, ..id }.signal(Signal::SIGKILL);
        assert!(id.is_there(), "another start time is another process");
        id.signal(Signal::SIGKILL);
        child.wait().unwrap();
        assert!(!id.is_there());
    }
}
