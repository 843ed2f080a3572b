//! A control group of a run's own, where the machine has given us a part of the tree (cgroup v2, `Delegate=yes`). What is in
//! it is the run's, whatever it did to its session, parent or environment. Everything works without it.

use crate::tree::ProcessId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder of one run's group. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Where the group of this run belongs, if a part of the tree is ours.
    pub fn of_run(run: &str) -> Option<PathBuf> {
        static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();
        let own = OWN.get_or_init(|| {
            let own = fs::read_to_string("/proc/self/cgroup").ok()?;
            let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
            own_folder(&own, &mounts).filter(|own| is_delegated(own))
        });
        own.as_ref().map(|own| own.join(format!("agency-{run}")))
    }

    /// What `start` starts is in the group; we ourselves are in it only for that moment, so that it can be killed whole.
    pub fn around<T>(&self, start: impl FnOnce() -> T) -> T {
        let entered = self.enter();
        let started = start();
        if entered.is_ok() {
            // Should this fail, the kill of the group ends us too, and the run is found lost.
            self.leave().ok();
        }
        started
    }

    fn enter(&self) -> io::Result<()> {
        match fs::create_dir(&self.0) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(cause),
            Ok(()) | Err(_) => {}
        }
        fs::write(self.0.join("cgroup.procs"), "0")
    }

    fn leave(&self) -> io::Result<()> {
        let above = self.0.parent().ok_or(io::ErrorKind::NotFound)?;
        fs::write(above.join("cgroup.procs"), "0")
    }

    /// The living in it.
    pub fn members(&self) -> Vec<ProcessId> {
        let text = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        let own = nix::unistd::Pid::this().as_raw();
        let pids = text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != own);
        pids.map(ProcessId::now).filter(|process| process.is_there()).collect()
    }

    /// Nobody is in it or below it, or there is none.
    pub fn is_empty(&self) -> bool {
        match fs::read_to_string(self.0.join("cgroup.events")) {
            Ok(text) => !text.lines().any(|line| line == "populated 1"),
            Err(_) => true,
        }
    }

    /// Everybody in it and below it at once, those who are forking now too.
    pub fn kill(&self) {
        fs::write(self.0.join("cgroup.kill"), "1").ok();
    }

    pub fn remove(&self) {
        fs::remove_dir(&self.0).ok();
    }
}

/// `0::/path` below where the second version is mounted. The top belongs to the machine.
fn own_folder(own: &str, mounts: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then(|| place.split(' ').nth(4))?
    })?;
    (!path.is_empty()).then(|| Path::new(mount).join(path))
}

/// Others than root can write only where they were allowed to. Root may write anywhere, and should not: a service's own group
/// is the one that our unit asks for.
fn is_delegated(own: &Path) -> bool {
    let service = own.extension().is_some_and(|ending| ending == "service");
    let may = |path: &Path| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    (service || !nix::unistd::geteuid().is_root()) && may(own) && may(&own.join("cgroup.procs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "25 1 0:22 / /sys rw - sysfs sysfs rw\n\
        30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_own_folder_is_found_and_the_top_is_nobodys() {
        let own = "0::/system.slice/agency.service\n";
        let found = own_folder(own, MOUNTS).unwrap();
        assert_eq!(found, Path::new("/sys/fs/cgroup/system.slice/agency.service"));
        assert_eq!(own_folder("4:memory:/x\n0::/\n", MOUNTS), None);
        assert_eq!(own_folder("4:memory:/x\n", MOUNTS), None);
        assert_eq!(own_folder(own, "25 1 0:22 / /sys rw - sysfs sysfs rw\n"), None);
    }

    /// Plain files stand for the kernel's: what is written where.
    #[test]
    fn only_the_start_is_inside_and_emptiness_is_the_kernels_word() {
        let dir = tempfile::tempdir().unwrap();
        let group = Cgroup::at(dir.path().join("agency-r1"));
        assert!(group.is_empty(), "there is none");
        let inside = || fs::read_to_string(dir.path().join("agency-r1/cgroup.procs")).unwrap();
        assert_eq!(group.around(inside), "0");
        let above = fs::read_to_string(dir.path().join("cgroup.procs")).unwrap();
        assert_eq!(above, "0", "we are back");
        let events = dir.path().join("agency-r1/cgroup.events");
        fs::write(&events, "populated 1\nfrozen 0\n").unwrap();
        assert!(!group.is_empty());
        fs::write(&events, "populated 0\nfrozen 0\n").unwrap();
        assert!(group.is_empty());
        group.kill();
        assert_eq!(fs::read(dir.path().join("agency-r1/cgroup.kill")).unwrap(), b"1");
        let me = nix::unistd::Pid::this().as_raw();
        fs::write(dir.path().join("agency-r1/cgroup.procs"), format!("{me}\n1\n")).unwrap();
        assert_eq!(group.members(), [ProcessId::now(1)], "never ourselves");
    }

    #[test]
    fn a_group_that_cannot_be_made_is_done_without() {
        let group = Cgroup::at("/nowhere/at/all/agency-r1".into());
        assert_eq!(group.around(|| 7), 7);
        assert!(group.is_empty() && group.members().is_empty());
        group.kill();
        group.remove();
    }
}
