//! What the kernel does with a plan, each test as whoever runs it. Without Landlock each says so and ends.

use super::*;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::symlink;

/// A folder with a tree that may be written, and things beside it that may not.
struct Room {
    dir: tempfile::TempDir,
}

impl Room {
    fn open() -> Option<Self> {
        if let Kernel::Nothing { why } = Kernel::here() {
            println!("skipped: this kernel has no Landlock ({why})");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["tree/src", "beside", "keys", "state/runs/r1"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        for name in ["tree/file", "beside/file", "keys/id", "state/pins", "state/runs/r1/prompt"] {
            fs::write(dir.path().join(name), "before").unwrap();
        }
        Some(Self { dir })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn plan(&self) -> Plan {
        Plan {
            write_exact: vec![self.at("tree")],
            hide: vec![self.at("keys"), self.at("state")],
            read: vec![self.at("state/runs/r1")],
            temp: self.at("beside"),
            ..Plan::default()
        }
    }

    fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        confined(&self.plan(), None, act).unwrap()
    }
}

fn denied<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// A rename between folders of which one is not the run's is refused as if they were on two disks.
fn stopped<T>(result: io::Result<T>) -> bool {
    let crosses = |error: &io::Error| error.kind() == io::ErrorKind::CrossesDevices;
    result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied || crosses(&error))
}

// covers: SE-06
#[test]
fn the_run_writes_in_its_tree_and_nowhere_else() {
    let Some(room) = Room::open() else { return };
    room.inside(|| {
        fs::write(room.at("tree/new"), "x").unwrap();
        fs::rename(room.at("tree/new"), room.at("tree/src/new")).unwrap();
        fs::create_dir_all(room.at("tree/a/b")).unwrap();
        fs::remove_dir_all(room.at("tree/a")).unwrap();
        let beside = room.at("beside/file");
        assert!(denied(fs::write(&beside, "x")), "write");
        assert!(denied(fs::OpenOptions::new().append(true).open(&beside)), "append");
        assert!(denied(fs::write(room.at("beside/new"), "x")), "create");
        assert!(denied(fs::create_dir(room.at("beside/dir"))), "make a folder");
        assert!(denied(fs::remove_file(&beside)), "remove");
        assert!(stopped(fs::rename(&beside, room.at("tree/taken"))), "rename in");
        assert!(stopped(fs::rename(room.at("tree/file"), room.at("beside/out"))), "rename out");
        assert!(stopped(fs::hard_link(room.at("tree/file"), room.at("beside/link"))), "link out");
        assert!(denied(symlink("x", room.at("beside/link"))), "symlink");
        symlink(&beside, room.at("tree/way-out")).unwrap();
        assert!(denied(fs::write(room.at("tree/way-out"), "x")), "through a link");
        let proc = format!("/proc/self/root{}", beside.display());
        assert!(denied(fs::write(proc, "x")), "through /proc");
        if Kernel::here().abi() >= Some(3) {
            let cut = nix::unistd::truncate(&beside, 0);
            assert_eq!(cut, Err(Errno::EACCES), "truncate");
        }
    });
    assert_eq!(fs::read_to_string(room.at("beside/file")).unwrap(), "before");
    fs::write(room.at("beside/after"), "x").expect("the thread that asked stays free");
}

// covers: SE-06
#[test]
fn what_is_hidden_cannot_be_read_under_any_name() {
    let Some(room) = Room::open() else { return };
    room.inside(|| {
        assert!(denied(fs::read(room.at("keys/id"))), "directly");
        assert!(denied(fs::read(room.at("state/pins"))));
        symlink(room.at("keys/id"), room.at("tree/id")).unwrap();
        assert!(denied(fs::read(room.at("tree/id"))), "by a symbolic link");
        assert!(stopped(fs::hard_link(room.at("keys/id"), room.at("tree/hard"))), "by a hard link");
        assert!(stopped(fs::rename(room.at("keys"), room.at("tree/keys"))), "by moving it");
        fs::read(room.at("beside/file")).expect("what is not hidden");
        fs::read(room.at("state/runs/r1/prompt")).expect("the run's own folder");
        assert!(denied(fs::write(room.at("state/runs/r1/prompt"), "x")));
        fs::read_dir(room.at("")).expect("folders can be listed");
    });
}

// covers: SE-06
#[test]
fn a_child_in_another_session_obeys_too() {
    let Some(room) = Room::open() else { return };
    let target = room.at("beside/new");
    let script = format!("setsid sh -c 'echo x > {0}'; (echo x > {0} &) ; wait", target.display());
    let plan = Plan { temp_env: vec!["TMPDIR".to_owned()], ..room.plan() };
    let temp = Temp::make(&plan).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script}; echo x > \"$TMPDIR/mine\"")]);
    let mut child =
        spawn(&plan, &temp, command.stderr(std::process::Stdio::null())).unwrap().unwrap();
    child.wait().unwrap();
    assert!(!target.exists());
    assert!(temp.path().join("mine").exists(), "its own folder for temporary files");
    let path = temp.path().to_owned();
    drop(temp);
    assert!(!path.exists());
}

// covers: SE-06
#[test]
fn processes_outside_get_no_signal() {
    let Some(room) = Room::open() else { return };
    if Kernel::here().abi() < Some(6) {
        println!("skipped: signals are scoped since Landlock ABI 6");
        return;
    }
    let parent = nix::unistd::getppid();
    room.inside(|| {
        assert_eq!(kill(parent, None), Err(Errno::EPERM));
        assert_eq!(kill(parent, Signal::SIGSTOP), Err(Errno::EPERM));
        let memory = fs::File::open(format!("/proc/{parent}/mem"));
        assert!(denied(memory), "nor is its memory read");
        assert!(denied(fs::read_link(format!("/proc/{parent}/cwd"))));
        kill(Pid::this(), None).ok();
    });
}

// covers: SE-06
#[test]
fn no_device_is_made() {
    let Some(room) = Room::open() else { return };
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root could make one");
        return;
    }
    use nix::sys::stat::{Mode, SFlag, mknod};
    let made = room.inside(|| mknod(&room.at("tree/disk"), SFlag::S_IFBLK, Mode::S_IRWXU, 0));
    assert_eq!(made, Err(Errno::EACCES));
}

// covers: SE-06
#[test]
fn a_tree_that_became_a_link_starts_nothing() {
    let Some(room) = Room::open() else { return };
    fs::rename(room.at("tree"), room.at("gone")).unwrap();
    symlink(room.at("keys"), room.at("tree")).unwrap();
    let error = confined(&room.plan(), None, || ()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("is not the folder that it was"), "{said}");
    let below = Plan { write_exact: vec![room.at("tree/src")], ..room.plan() };
    fs::create_dir(room.at("keys/src")).unwrap();
    assert!(confined(&below, None, || ()).is_err(), "nor one above it");
}

// covers: SE-06
#[test]
fn only_the_named_ports_are_reached() {
    let Some(room) = Room::open() else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let connect = |ports: Vec<u16>| {
        let plan = Plan { ports: Some(ports), ..room.plan() };
        confined(&plan, None, || std::net::TcpStream::connect(at).map(drop))
    };
    if Kernel::here().abi() < Some(4) {
        assert!(matches!(connect(vec![1]), Err(SandboxError::NoPorts { .. })), "never ignored");
        return;
    }
    assert!(denied(connect(vec![1]).unwrap()));
    connect(vec![at.port()]).unwrap().unwrap();
}
