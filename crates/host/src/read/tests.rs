//! Safe reads against everything that is no plain file.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};
use tempfile::{TempDir, tempdir};

const LIMIT: u64 = 1024 * 1024;

fn look(root: &TempDir, path: &'static str) -> Reading {
    let started = Instant::now();
    let reading = read(root.path(), &RelPath::fixed(path), LIMIT, crate::clock::now()).unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "a read of `{path}` must not block");
    reading
}

fn found(root: &TempDir, path: &'static str) -> String {
    match look(root, path).state {
        FileState::Unreadable(odd) => {
            let Unreadable { found, wanted } = *odd;
            assert_eq!(wanted, "a plain file of at most 1048576 bytes");
            found
        }
        state @ (FileState::Absent | FileState::Whole(_)) => panic!("`{path}` gave {state:?}"),
    }
}

#[test]
fn a_plain_file_is_read_whole_with_its_own_date() {
    let root = tempdir().unwrap();
    fs::create_dir_all(root.path().join("a/b")).unwrap();
    let path = root.path().join("a/b/c.json");
    fs::write(&path, b"{\"x\": 1}").unwrap();
    let date = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    File::open(&path).unwrap().set_modified(date).unwrap();

    let reading = look(&root, "a/b/c.json");
    let FileState::Whole(file) = reading.state else { panic!("{:?}", reading.state) };
    assert_eq!(&*file.bytes, b"{\"x\": 1}");
    assert_eq!(file.digest, Digest::of(b"{\"x\": 1}"));
    assert_eq!(file.written.timestamp(), 1_700_000_000);
    assert_eq!(reading.stamp, stamp(root.path(), &RelPath::fixed("a/b/c.json")).unwrap());
    assert!(!reading.linked);
}

// covers: DM-04
#[test]
fn nothing_but_a_plain_file_is_read_and_nothing_blocks() {
    let root = tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::write(at("plain"), b"secret").unwrap();
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("dir/inside"), b"secret").unwrap();
    symlink("plain", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("/dev/zero", at("zero")).unwrap();
    symlink("dir", at("linked-dir")).unwrap();
    nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    File::create(at("sparse")).unwrap().set_len(10_737_418_240).unwrap();

    for link in ["link", "dangling", "zero", "linked-dir", "linked-dir/inside"] {
        assert_eq!(found(&root, link), "a symbolic link", "{link}");
    }
    assert_eq!(found(&root, "pipe"), "a named pipe");
    assert_eq!(found(&root, "socket"), "a socket");
    assert_eq!(found(&root, "dir"), "a directory");
    assert_eq!(found(&root, "sparse"), "10737418240 bytes");
}

// covers: DM-04
#[test]
fn a_device_is_not_opened() {
    let reading =
        read(Path::new("/dev"), &RelPath::fixed("null"), LIMIT, crate::clock::now()).unwrap();
    assert_eq!(reading.state, refused("a device", LIMIT));
}

#[test]
fn a_missing_file_is_absent_but_a_missing_root_is_an_error() {
    let root = tempdir().unwrap();
    fs::write(root.path().join("file"), b"").unwrap();
    for path in ["none", "none/deeper", "file/below"] {
        assert_eq!(look(&root, path).state, FileState::Absent, "{path}");
        assert_eq!(stamp(root.path(), &RelPath::fixed(path)).unwrap(), None, "{path}");
    }
    let gone = root.path().join("gone");
    let error = read(&gone, &RelPath::fixed("x"), LIMIT, crate::clock::now()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn the_limit_itself_is_allowed_and_one_byte_more_is_not() {
    let root = tempdir().unwrap();
    fs::write(root.path().join("x"), [b'x'; 10]).unwrap();
    let read =
        |limit| read(root.path(), &RelPath::fixed("x"), limit, crate::clock::now()).unwrap().state;
    assert!(matches!(read(10), FileState::Whole(file) if file.bytes.len() == 10));
    assert_eq!(read(9), refused("10 bytes", 9));
}

#[test]
fn a_second_name_is_told_and_only_changes_the_names() {
    let root = tempdir().unwrap();
    fs::write(root.path().join("x"), b"x").unwrap();
    let before = look(&root, "x");
    fs::hard_link(root.path().join("x"), root.path().join("y")).unwrap();
    let after = look(&root, "x");
    assert!(!before.linked && after.linked);
    assert!(before.stamp.unwrap().same_content(&after.stamp.unwrap()));
}

#[test]
fn a_file_without_rights_is_refused_in_words() {
    let root = tempdir().unwrap();
    let path = root.path().join("x");
    fs::write(&path, b"x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(&path).is_ok() {
        return assert!(nix::unistd::geteuid().is_root(), "only root may read everything");
    }
    assert_eq!(found(&root, "x"), "a file that we may not read");
}

#[test]
fn a_file_that_grows_is_never_read_in_part() {
    let root = tempdir().unwrap();
    let path = root.path().join("x");
    fs::write(&path, b"").unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        use std::io::Write as _;
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        while stopped.try_recv().is_err() {
            file.write_all(&[b'x'; 512]).unwrap();
            if file.metadata().unwrap().size() > LIMIT / 2 {
                file.set_len(0).unwrap();
            }
        }
    });
    for _ in 0..200 {
        match read(root.path(), &RelPath::fixed("x"), LIMIT, crate::clock::now()) {
            Ok(Reading { state: FileState::Whole(file), stamp: Some(stamp), .. }) => {
                assert_eq!(file.bytes.len() as u64, stamp.size);
                assert!(file.bytes.iter().all(|byte| *byte == b'x'));
            }
            Ok(reading) => panic!("{reading:?}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ResourceBusy),
        }
    }
    stop.send(()).unwrap();
    writer.join().unwrap();
}
