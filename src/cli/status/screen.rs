//! A calm full-screen view: one picture a second, only what changed is sent, and the terminal is given back as it was, also when
//! we are stopped, suspended or panic.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use terminal_size::{Height, Width};

const PAUSE: Duration = Duration::from_millis(100);
/// Pauses between two pictures.
const PAUSES: u32 = 10;
/// The second screen, without a cursor; a line that is too wide after all is cut, not wrapped.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The other screen of the terminal, until it is dropped.
pub(super) struct Screen {
    leave: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
    suspend: Arc<AtomicBool>,
    /// The picture that is shown.
    shown: Vec<String>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let [leave, resized, suspend] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let heard = [
            (SIGINT, &leave),
            (SIGTERM, &leave),
            (SIGHUP, &leave),
            (SIGWINCH, &resized),
            (SIGTSTP, &suspend),
        ];
        for (signal, flag) in heard {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
        // What a panic says belongs on the first screen, where it stays.
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            drop(send(LEAVE));
            usual(info);
        }));
        send(ENTER)?;
        Ok(Self { leave, resized, suspend, shown: Vec::new() })
    }

    /// Sends the lines that changed: nothing flickers, and a slow line is not filled.
    pub(super) fn draw(&mut self, text: &str) -> io::Result<()> {
        let (width, height) = terminal_size::terminal_size()
            .map_or((80, 24), |(Width(width), Height(height))| (usize::from(width), height.into()));
        if self.resized.swap(false, Ordering::Relaxed) {
            self.shown.clear();
        }
        // The last column stays free: after a line that fills it, the end of the line would be wiped with it.
        let lines = fit(text, width.saturating_sub(1), height);
        send(&difference(&self.shown, &lines))?;
        self.shown = lines;
        Ok(())
    }

    /// True: it is time for the next picture. False: somebody wants to leave.
    pub(super) fn wait(&mut self) -> io::Result<bool> {
        for _ in 0..PAUSES {
            if self.leave.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if self.suspend.swap(false, Ordering::Relaxed) {
                self.suspend()?;
            }
            if self.resized.load(Ordering::Relaxed) {
                return Ok(true);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(!self.leave.load(Ordering::Relaxed))
    }

    /// The shell gets its own screen back; when we go on, everything is drawn anew.
    fn suspend(&mut self) -> io::Result<()> {
        send(LEAVE)?;
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.resized.store(true, Ordering::Relaxed);
        send(ENTER)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // After a panic the hook has done it.
        if !std::thread::panicking() {
            drop(send(LEAVE));
        }
    }
}

fn send(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What turns one picture into the next: each other line at its place, then the end of a longer old one goes.
fn difference(old: &[String], new: &[String]) -> String {
    let mut sent = if old.is_empty() { "\x1b[2J".to_owned() } else { String::new() };
    for (at, line) in new.iter().enumerate().filter(|(at, line)| old.get(*at) != Some(line)) {
        write!(sent, "\x1b[{};1H{line}\x1b[K", at + 1).expect("writing to a String cannot fail");
    }
    if old.len() > new.len() {
        write!(sent, "\x1b[{};1H\x1b[J", new.len() + 1).expect("writing to a String cannot fail");
    }
    sent
}

/// What does not fit is cut, and says so.
fn fit(text: &str, width: usize, height: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let room = height.saturating_sub(1).max(1);
    let mut shown: Vec<String> = lines.iter().take(room).map(|line| cut(line, width)).collect();
    if lines.len() > room {
        let more = lines.len() - room + 1;
        shown.truncate(room - 1);
        shown.push(cut(&format!("… {more} more lines; `agency status` shows all"), width));
    }
    shown
}

fn cut(line: &str, width: usize) -> String {
    // A control character of somebody's would move the cursor.
    let plain = line.chars().filter(|c| !c.is_control());
    let mut kept: String = plain.clone().take(width).collect();
    if plain.count() > width && width > 0 {
        kept.pop();
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: OP-04
    #[test]
    fn a_picture_fits_its_terminal() {
        let text = "one\nanother line\n\x1b[2Jthree\nfour\n";
        assert_eq!(fit(text, 80, 24), ["one", "another line", "[2Jthree", "four"]);
        assert_eq!(fit(text, 5, 4), ["one", "anot…", "… 2 …"]);
        assert_eq!(fit("", 5, 4), Vec::<String>::new());
    }

    // covers: OP-04
    #[test]
    fn only_what_changed_is_sent() {
        let picture = |words: &[&str]| words.iter().map(|&word| word.into()).collect::<Vec<_>>();
        let first = picture(&["12:00", "a", "b"]);
        assert_eq!(
            difference(&[], &first),
            "\x1b[2J\x1b[1;1H12:00\x1b[K\x1b[2;1Ha\x1b[K\x1b[3;1Hb\x1b[K"
        );
        assert_eq!(difference(&first, &first), "");
        assert_eq!(
            difference(&first, &picture(&["12:01", "a"])),
            "\x1b[1;1H12:01\x1b[K\x1b[3;1H\x1b[J"
        );
    }
}
