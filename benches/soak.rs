//! Ten minutes of work: the daemon on three of the demo's repositories with `status --watch` open in a pseudo-terminal, their
//! memory and descriptors sampled. It prints first, last and most, and says whether they stayed flat; growth is a failure.
//! `AGENCY_SOAK=60s cargo bench --bench soak` is a short one; the default is ten minutes.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod soak {
    pub(super) mod samples;
    pub(super) mod stage;
}

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use soak::samples::Samples;
use soak::stage::Stage;
use std::fs::File;
use std::io::Read as _;
use std::process::{Child, ExitCode};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Gives the terminal back: line wrap, cursor, first screen.
const LEAVE: &[u8] = b"\x1b[?7h\x1b[?25h\x1b[?1049l";

fn main() -> ExitCode {
    let length = length();
    let every = (length / 30).clamp(Duration::from_secs(1), Duration::from_secs(5));
    let stage = Stage::build();
    let mut daemon = stage.agency().arg("run").args(stage.repos()).spawn().expect("a daemon");
    let (mut watcher, screen) = watch(&stage);
    println!("{}", Samples::HEAD);
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    let (begun, mut workflows) = (Instant::now(), 0);
    while begun.elapsed() < length {
        std::thread::sleep(every);
        ours.take(daemon.id());
        theirs.take(watcher.id());
        workflows += stage.begin_again();
    }
    end(&mut watcher, Signal::SIGINT);
    end(&mut daemon, Signal::SIGTERM);
    let sent = screen.join().expect("the reader ends with the terminal");
    let flat = [ours.report("daemon"), theirs.report("watcher")];
    println!(
        "\n{} s, {} runs, {workflows} loops and workflows begun again, {:.1} KiB/s to the terminal",
        begun.elapsed().as_secs(),
        stage.runs(),
        sent.bytes as f64 / 1024.0 / begun.elapsed().as_secs_f64()
    );
    println!("terminal given back: {}", if sent.given_back { "yes" } else { "NO" });
    let fine = flat.iter().all(|flat| *flat) && sent.given_back;
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `90s`, `10m`, `1h`.
fn length() -> Duration {
    let text = std::env::var("AGENCY_SOAK").unwrap_or_else(|_| "10m".to_owned());
    let split = text.len().saturating_sub(1);
    let number = text.get(..split).and_then(|number| number.parse::<u64>().ok());
    let unit = match text.get(split..) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        _ => 0,
    };
    let seconds = number.map(|number| number * unit).filter(|seconds| *seconds > 0);
    Duration::from_secs(seconds.unwrap_or_else(|| panic!("AGENCY_SOAK={text}: wanted 60s or 10m")))
}

struct Sent {
    bytes: usize,
    given_back: bool,
}

/// The full-screen view at 80×24, and a reader of all that it sends.
fn watch(stage: &Stage) -> (Child, JoinHandle<Sent>) {
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(&size, None).expect("a pseudo-terminal");
    let mut command = stage.agency();
    let child = command.args(["status", "--watch"]).stdout(slave).spawn().expect("a watcher");
    // The last holder of the other end is the child: the reader ends with it.
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut master, mut buffer) = (File::from(master), [0; 4096]);
        let (mut bytes, mut tail) = (0, Vec::new());
        // A terminal whose other end is gone answers with an error.
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            bytes += count;
            tail.extend_from_slice(&buffer[..count]);
            tail.drain(..tail.len().saturating_sub(LEAVE.len()));
        }
        Sent { bytes, given_back: tail == LEAVE }
    });
    (child, reader)
}

fn end(child: &mut Child, signal: Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    kill(pid, signal).expect("our own child lives");
    let status = child.wait().expect("our own child ends");
    assert!(status.success(), "{status}");
}
