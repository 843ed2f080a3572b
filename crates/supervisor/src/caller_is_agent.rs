//! Is a process part of a run? Agents may not use the owner's verbs (SE-04). It trusts no variable alone: a run's shim is
//! the ancestor of everything that the run started, whatever that did to its environment or session.

use crate::folder::Folder;
use crate::run_name;
use std::path::PathBuf;

/// Stands for the folder of a run that cannot be found out. There is none at this place.
const UNNAMED: &str = "/proc/unnamed-run";

/// The deepest tree of processes that is walked.
const DEPTH: usize = 256;

/// The run that `pid` belongs to, in words, or `None`.
pub fn run_around(pid: u32) -> Option<String> {
    let mut at = i32::try_from(pid).ok()?;
    for _ in 0..DEPTH {
        if let Some(run) = named_by_environment(at).or_else(|| named_by_shim(at)) {
            return Some(run);
        }
        at = crate::tree::parent(at).filter(|&parent| parent > 1)?;
    }
    None
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
