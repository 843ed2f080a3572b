//! A calm full-screen view: one picture a second, only on a terminal, and the terminal is given back as it was.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use terminal_size::{Height, Width};

const PAUSE: Duration = Duration::from_millis(100);
/// Pauses between two pictures.
const PAUSES: u32 = 10;

/// The other screen of the terminal, until it is dropped.
pub(super) struct Screen {
    leave: Arc<AtomicBool>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let leave = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&leave))?;
        }
        // The second screen, without a cursor.
        anstream::print!("\x1b[?1049h\x1b[?25l");
        io::stdout().flush()?;
        Ok(Self { leave })
    }

    /// Draws over the last picture, so that nothing flickers.
    pub(super) fn draw(&self, text: &str) -> io::Result<()> {
        let (width, height) = terminal_size::terminal_size()
            .map_or((80, 24), |(Width(width), Height(height))| (width.into(), height.into()));
        let lines: Vec<String> = fit(text, width, height);
        // Home, each line to its end, then whatever is left of the old picture goes.
        anstream::print!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"));
        io::stdout().flush()
    }

    /// True: it is time for the next picture. False: somebody wants to leave.
    pub(super) fn wait(&self) -> bool {
        for _ in 0..PAUSES {
            if self.leave.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        !self.leave.load(Ordering::Relaxed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        anstream::print!("\x1b[?25h\x1b[?1049l");
        drop(io::stdout().flush());
    }
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
}
