//! Follows a run's two logs as they grow, over rotations, line by line. What a line means is the reader's matter.

use super::folder::Folder;
use super::logs::{CHUNK, older};
use super::profile::{LINE_MAX, Reader, Stream};
use crate::read::open_plain;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Read from one log in one look, so that a flood cannot hold us.
const LOOK_MAX: usize = 16 * CHUNK;
/// More than any run's logs hold. Somebody who still writes into them cannot keep us.
const LOOKS_AT_END: usize = 1024;

#[derive(Debug)]
pub(super) struct Follow {
    logs: [Log; 2],
    buffer: Vec<u8>,
}

impl Follow {
    /// stderr comes first: when both have something new, the event on stdout is the word that counts.
    pub(super) fn new(folder: &Folder) -> Self {
        let log = |stream, path| Log {
            stream,
            path,
            file: None,
            leaving: false,
            line: Vec::new(),
            skipping: false,
        };
        let logs = [log(Stream::Stderr, folder.stderr()), log(Stream::Stdout, folder.stdout())];
        Self { logs, buffer: vec![0; CHUNK] }
    }

    /// Gives the reader what came since the last look; `true`: there is more.
    pub(super) fn read(&mut self, reader: &mut Reader) -> bool {
        let mut more = false;
        for log in &mut self.logs {
            more |= log.read(&mut self.buffer, reader);
        }
        more
    }

    /// Nothing more will come: a last line without an end is a line too.
    pub(super) fn finish(mut self, reader: &mut Reader) {
        for _ in 0..LOOKS_AT_END {
            if !self.read(reader) {
                break;
            }
        }
        for mut log in self.logs {
            log.end_of_line(reader);
        }
    }
}

#[derive(Debug)]
struct Log {
    stream: Stream,
    path: PathBuf,
    /// Kept open: a file that was moved away can still be read to its end.
    file: Option<File>,
    /// A newer file was seen: what is read now is the rest of this one.
    leaving: bool,
    line: Vec<u8>,
    skipping: bool,
}

impl Log {
    fn read(&mut self, buffer: &mut [u8], reader: &mut Reader) -> bool {
        let mut left = LOOK_MAX;
        while left > 0 {
            if self.file.is_none() {
                self.file = open_plain(&older(&self.path)).or_else(|_| open_plain(&self.path)).ok();
            }
            let Some(file) = &mut self.file else { return false };
            match file.read(buffer) {
                Ok(0) if self.rotated() => {}
                Ok(0) | Err(_) => return false,
                Ok(count) => {
                    self.take(&buffer[..count], reader);
                    left = left.saturating_sub(count);
                }
            }
        }
        true
    }

    /// At the end of a file: is there a newer one to go on with? A file is left only after a second look at its end,
    /// since it may have grown before it was moved away.
    fn rotated(&mut self) -> bool {
        let here = self.file.as_ref().and_then(|file| file.metadata().ok());
        let newest = self.path.symlink_metadata().ok();
        if newest.is_none() || same(here.as_ref(), newest.as_ref()) {
            return false;
        }
        if !self.leaving {
            self.leaving = true;
            return true;
        }
        self.leaving = false;
        let before = open_plain(&older(&self.path)).ok();
        let before_meta = before.as_ref().and_then(|file| file.metadata().ok());
        let next = if before.is_none() || same(here.as_ref(), before_meta.as_ref()) {
            open_plain(&self.path).ok()
        } else {
            // More than one file came since the last look: what stood between is gone.
            self.line.clear();
            self.skipping = true;
            before
        };
        // One that cannot be opened is tried again at the next look; starting over would count twice.
        let Some(next) = next else { return false };
        self.file = Some(next);
        true
    }

    fn take(&mut self, bytes: &[u8], reader: &mut Reader) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            self.lengthen(text, reader);
            if ends {
                self.end_of_line(reader);
            }
        }
    }

    fn lengthen(&mut self, text: &[u8], reader: &mut Reader) {
        if self.line.len() + text.len() > LINE_MAX && !self.skipping {
            self.skipping = true;
            self.line = Vec::new();
            reader.skip(self.stream);
        }
        if !self.skipping {
            self.line.extend_from_slice(text);
        }
    }

    fn end_of_line(&mut self, reader: &mut Reader) {
        if !self.skipping && !self.line.is_empty() {
            reader.feed(self.stream, &self.line);
        }
        self.line.clear();
        self.skipping = false;
    }
}

fn same(a: Option<&Metadata>, b: Option<&Metadata>) -> bool {
    a.zip(b).is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;
    use crate::run::logs::Log as Written;

    fn answer(tokens: u64) -> String {
        let usage = format!(r#"{{"input_tokens":{tokens},"output_tokens":1}}"#);
        let message = format!(r#"{{"id":"m{tokens}","usage":{usage}}}"#);
        format!("{{\"type\":\"assistant\",\"message\":{message}}}\n")
    }

    fn input(reader: &Reader) -> Option<u64> {
        reader.report().usage.input_tokens
    }

    struct Scene {
        written: Written,
        follow: Follow,
        reader: Reader,
        _dir: tempfile::TempDir,
    }

    fn scene() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        Scene {
            written: Written::new(folder.stdout(), 0),
            follow: Follow::new(&folder),
            reader: Reader::new(Profile::Claude),
            _dir: dir,
        }
    }

    #[test]
    fn every_line_is_read_once_over_rotations_and_in_pieces() {
        let Scene { mut written, mut follow, mut reader, _dir } = scene();
        let mut sum = 0;
        for tokens in 1..3_000 {
            let line = answer(tokens);
            let (head, rest) = line.split_at(line.len() / 2);
            written.keep(head.as_bytes());
            if tokens % 7 == 0 {
                follow.read(&mut reader);
                assert_eq!(input(&reader), Some(sum), "half a line is no line");
            }
            written.keep(rest.as_bytes());
            sum += tokens;
        }
        follow.finish(&mut reader);
        assert_eq!(input(&reader), Some(sum));
    }

    #[test]
    fn a_late_follower_reads_what_two_files_still_hold() {
        let Scene { mut written, follow, mut reader, _dir: dir } = scene();
        (1..=3_000).for_each(|tokens| written.keep(answer(tokens).as_bytes()));
        written.keep(answer(7).trim_end().as_bytes());
        follow.finish(&mut reader);
        let kept = ["stdout.log.1", "stdout.log"]
            .map(|name| std::fs::read_to_string(dir.path().join(name)).unwrap())
            .concat();
        let tokens = |line: &str| line.split("\"m").nth(2)?.split('"').next()?.parse::<u64>().ok();
        let wanted: u64 = kept.lines().filter_map(tokens).sum();
        assert!(wanted > 1_000_000 && wanted < 3_000 * 3_001 / 2, "{wanted}");
        assert_eq!(input(&reader), Some(wanted));
    }

    /// It looked once, then more was written than the two files hold.
    #[test]
    fn a_follower_that_falls_behind_goes_on_with_whole_lines() {
        let Scene { mut written, mut follow, mut reader, _dir } = scene();
        written.keep(answer(1).as_bytes());
        written.keep(b"{\"type\":\"assis");
        follow.read(&mut reader);
        (0..9_000).for_each(|_| written.keep(answer(2).as_bytes()));
        written.keep(answer(5).as_bytes());
        follow.finish(&mut reader);
        assert_eq!(input(&reader), Some(1 + 2 + 5), "equal messages count once");
    }

    #[test]
    fn an_endless_line_is_skipped_in_bounded_memory() {
        let Scene { mut follow, mut reader, _dir: dir, .. } = scene();
        let mut written = Written::new(dir.path().join("stdout.log"), 64 * LINE_MAX as u64);
        written.keep(b"{\"type\":\"system\",\"subtype\":\"init\"}\n");
        for _ in 0..40 {
            written.keep(&vec![b'x'; CHUNK]);
            follow.read(&mut reader);
            assert!(follow.logs[1].line.capacity() <= 2 * LINE_MAX);
        }
        written.keep(b"\n");
        written.keep(answer(3).as_bytes());
        follow.finish(&mut reader);
        assert_eq!(input(&reader), Some(3));
        let finish = reader.report().finish;
        assert_eq!(finish, crate::run::profile::Finish::Unknown, "its result may have been there");
    }

    #[test]
    fn a_pipe_in_place_of_a_log_is_not_waited_for() {
        let Scene { mut follow, mut reader, _dir: dir, .. } = scene();
        let path = dir.path().join("stdout.log");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(!follow.read(&mut reader));
    }
}
