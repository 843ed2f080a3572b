//! `status --watch` in a pseudo-terminal: calm, cut to the size, and the terminal is given back however we leave.

use super::stage::{HONEST, Stage, wait_until};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// What a whole new picture begins with.
const WIPE: &str = "\x1b[2J";

/// A watcher on a terminal of its own, and all that it has sent there.
struct Terminal {
    child: Child,
    inside: OwnedFd,
    sent: Arc<Mutex<String>>,
}

impl Terminal {
    fn open(stage: &Stage) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
        let mut command = stage.program();
        command.args(["status", "--watch"]).stdout(slave.try_clone().unwrap());
        let child = command.spawn().unwrap();
        let sent = Arc::new(Mutex::new(String::new()));
        let (mut master, all) = (File::from(master), Arc::clone(&sent));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = master.read(&mut buffer) {
                all.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { child, inside: slave, sent }
    }

    fn sent(&self) -> String {
        self.sent.lock().unwrap().clone()
    }

    fn wait(&self, what: &str, look: impl Fn(&str) -> bool) {
        let seen = wait_until(Duration::from_secs(30), || look(&self.sent()).then_some(()));
        assert!(seen.is_some(), "waited for {what} in {:?}", self.sent());
    }

    fn signal(&self, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// As a terminal that is resized does: the size first, then the signal.
    fn resize(&self, rows: &str, columns: &str) {
        let mut stty = Command::new("stty");
        stty.args(["rows", rows, "cols", columns]).stdin(self.inside.try_clone().unwrap());
        assert!(stty.status().unwrap().success());
        self.signal(Signal::SIGWINCH);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The lines of a picture, without the words that place them.
fn lines(picture: &str) -> Vec<&str> {
    let placed = picture.split("\x1b[").filter_map(|part| part.split_once(";1H"));
    placed.map(|(_, line)| line).filter(|line| !line.is_empty()).collect()
}

// covers: OP-04, SE-05, DM-20
#[test]
fn the_view_is_calm_fits_and_gives_the_terminal_back() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1,2"]);
    let mut terminal = Terminal::open(&stage);
    terminal.wait("the first picture", |sent| sent.contains("isolation: "));
    let first = terminal.sent();
    assert!(first.starts_with(&format!("{ENTER}{WIPE}")), "{first:?}");
    assert!(lines(&first).iter().all(|line| line.chars().count() <= 80), "{first:?}");
    assert!(lines(&first)[0].starts_with("daemon: NOT RUNNING"), "{first:?}");
    let headline = lines(&first)[1];
    assert!(headline.contains("1 repo · 0 runs · $0.00 today"), "{headline:?}");
    assert!(headline.trim_end_matches("\x1b[K").ends_with("^C leaves"), "{headline:?}");
    // Nothing happens, so the next pictures are a new time and no more.
    terminal.wait("the clock", |sent| sent[first.len()..].matches("\x1b[2;1H").count() >= 2);
    let more = terminal.sent()[first.len()..].to_owned();
    assert!(!more.contains("\x1b[4;1H") && !more.contains(WIPE), "{more:?}");

    terminal.resize("6", "30");
    terminal.wait("a new picture", |sent| {
        sent.split(WIPE).nth(2).is_some_and(|sent| sent.contains("more lines"))
    });
    let small = terminal.sent();
    let small = lines(small.split(WIPE).nth(2).unwrap());
    assert!(small.iter().all(|line| line.chars().count() <= 30), "{small:?}");

    terminal.signal(Signal::SIGTSTP);
    terminal.wait("the shell's own screen", |sent| sent.ends_with(LEAVE));
    terminal.signal(Signal::SIGCONT);
    terminal.wait("the view again", |sent| {
        sent.rsplit(LEAVE).next().is_some_and(|sent| sent.contains(WIPE) && sent.contains(ENTER))
    });

    terminal.signal(Signal::SIGINT);
    assert!(terminal.child.wait().unwrap().success(), "leaving is no failure");
    terminal.wait("the end", |sent| sent.ends_with(LEAVE));
}
