//! The machine: git, file events, file systems, room, control groups and the clock.

use super::super::context::Context;
use super::Check;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Merges in memory came with this version.
const GIT_WANTED: (u32, u32) = (2, 38);
/// Fewer watches than this are used up by a few large repositories.
const WATCHES: u64 = 65_536;
/// Editors and build tools of the same user need theirs too.
const WATCHERS: u64 = 64;
/// Below this, logs and snapshots soon have no room.
const ROOM: u64 = 1 << 30;

pub(super) fn checks(context: &Context) -> anyhow::Result<Vec<Check>> {
    let state = context.state_dir()?;
    let repo = context.root()?;
    Ok(vec![
        git(context),
        watches(),
        files("repository", &repo),
        files("state", state.path()),
        room(state.path()),
        groups(),
        clock(),
    ])
}

fn git(context: &Context) -> Check {
    let fix = "install git 2.38 or newer; without it nothing is committed";
    let Some(program) = on_path(context, "git") else {
        return Check::wrong("git", "not found", fix);
    };
    let output = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    let found = format!("{} ({})", said.trim(), program.display());
    if version(&said).is_some_and(|version| version >= GIT_WANTED) {
        Check::fine("git", found)
    } else {
        Check::wrong("git", found, fix)
    }
}

/// Of `git version 2.47.3` the first two numbers.
fn version(said: &str) -> Option<(u32, u32)> {
    let number =
        said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn watches() -> Check {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok();
    let limit = |name: &str| read(name).and_then(|text| text.trim().parse::<u64>().ok());
    let (Some(watches), Some(instances)) = (limit("max_user_watches"), limit("max_user_instances"))
    else {
        return Check::fine("watches", "no file events here: we look by the clock");
    };
    let found = format!("{watches} file watches and {instances} watchers allowed");
    if watches >= WATCHES && instances >= WATCHERS {
        return Check::fine("watches", found);
    }
    let fix = "sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512; beyond the limits we look by the clock";
    Check::wrong("watches", found, fix)
}

/// Where events do not arrive we look by the clock; a probe file finds that out at run time.
fn files(name: &str, dir: &Path) -> Check {
    let kind = kind_of(dir);
    let found =
        format!("{} on {}", dir.display(), kind.as_deref().unwrap_or("an unknown file system"));
    let distant = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "virtiofs", "fakeowner"];
    let is_distant = kind
        .is_some_and(|kind| distant.iter().any(|word| kind == *word || kind.starts_with("fuse.")));
    if !is_distant {
        return Check::fine(name, found);
    }
    let advice =
        "events may not arrive from there: `agency run --poll` looks by the clock from the start";
    Check::fine(name, found).hint(advice)
}

/// By the longest mount point that holds the folder.
fn kind_of(dir: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        Some((PathBuf::from(words.next()?.replace("\\040", " ")), words.next()?.to_owned()))
    };
    let holds = mounts.lines().filter_map(mount).filter(|(point, _)| dir.starts_with(point));
    holds.max_by_key(|(point, _)| point.as_os_str().len()).map(|(_, kind)| kind)
}

fn room(state: &Path) -> Check {
    let space = nix::sys::statvfs::statvfs(state);
    let free = space.map(|space| space.blocks_available() * space.fragment_size());
    let found = |free: u64| format!("{} MiB free for our state", free >> 20);
    match free {
        Ok(free) if free >= ROOM => Check::fine("room", found(free)),
        Ok(free) => Check::wrong(
            "room",
            found(free),
            "make room, or set AGENCY_STATE_DIR to a larger file system",
        ),
        Err(error) => Check::wrong("room", error.to_string(), "check AGENCY_STATE_DIR"),
    }
}

/// A run that has a group of its own ends with all its processes, whatever they do.
fn groups() -> Check {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    let dir = path.map(|path| Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/')));
    let writable = dir.as_ref().is_some_and(|dir| {
        nix::unistd::access(&dir.join("cgroup.procs"), nix::unistd::AccessFlags::W_OK).is_ok()
    });
    let found = if writable {
        "control groups are ours to make: a run ends with all its processes"
    } else {
        "no control group of our own: a run's processes are found by walking them"
    };
    let check = Check::fine("groups", found);
    if writable {
        check
    } else {
        check.hint("`agency service install` asks for one (Delegate=yes)")
    }
}

/// Flags carry times; a clock that nobody sets drifts out of their limits.
fn clock() -> Check {
    let now = crate::clock::now().wall.format("%Y-%m-%d %H:%M:%SZ");
    let synced = ["/run/systemd/timesync/synchronized", "/run/chrony", "/var/lib/ntp"];
    let found = synced.iter().any(|path| Path::new(path).exists());
    let check = Check::fine("clock", now.to_string());
    if found {
        check
    } else {
        check.hint("nothing that sets the clock was found (`timedatectl set-ntp true`); a flag is refused when its time is off by more than the limits")
    }
}

pub(super) fn on_path(context: &Context, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let dirs = std::env::split_paths(context.env.get("PATH")?).collect::<Vec<_>>();
    dirs.into_iter().map(|dir| dir.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: OP-02
    #[test]
    fn a_version_is_read_from_what_git_says() {
        assert_eq!(version("git version 2.47.3\n"), Some((2, 47)));
        assert_eq!(version("git version 2.39.2 (Apple Git-143)"), Some((2, 39)));
        assert!(version("git version 2.9.5") < Some(GIT_WANTED));
        assert_eq!(version("no git"), None);
    }
}
