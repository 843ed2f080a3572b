//! Takes in an agent's output line by line, and keeps a report of it and its last message. It opens no file.

use super::report::{Finish, Report, Seen};
use super::{Profile, aider, claude, codex, gemini};

/// A longer line is not read: it is some file's content, not an event about the run.
pub const LINE_MAX: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

#[derive(Clone, Debug)]
pub struct Reader {
    profile: Profile,
    seen: Seen,
    /// Something was not seen: then a missing end proves nothing.
    gap: bool,
}

impl Reader {
    pub fn new(profile: Profile) -> Self {
        Self { profile, seen: Seen::default(), gap: false }
    }

    /// One line, with or without its end. What is not understood is passed over.
    pub fn feed(&mut self, stream: Stream, line: &[u8]) {
        if line.len() > LINE_MAX {
            self.skip(stream);
            return;
        }
        let read = match self.profile {
            Profile::Claude => claude::read,
            Profile::Codex => codex::read,
            Profile::Gemini => gemini::read,
            Profile::Aider => aider::read,
        };
        read(&mut self.seen, stream, line);
    }

    /// Some output is missing.
    pub fn skip(&mut self, stream: Stream) {
        if stream == Stream::Stdout {
            self.gap = true;
            self.seen.hush();
        }
    }

    /// The model's last message, of an agent that came to its end. Its words, without what only a terminal understands.
    pub fn said(&self) -> Option<String> {
        let text = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
        self.seen.said().map(|said| said.chars().filter(text).collect())
    }

    pub fn report(&self) -> Report {
        let finish = match self.seen.finish {
            Finish::Open if self.gap => Finish::Unknown,
            finish => finish,
        };
        Report {
            profile: Some(self.profile),
            usage: self.seen.usage.clone(),
            counting: self.seen.counting,
            class: self.seen.class(),
            refusals: self.seen.refusals(),
            model: self.seen.model(),
            finish,
        }
    }
}
