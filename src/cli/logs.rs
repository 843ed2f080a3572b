//! `agency logs`: what a run has said, and what it says. On a terminal an agent's events are shown as lines for people.

pub(crate) mod render;

use super::context::Context;
use super::cost::since;
use super::exit::{Exit, Misused};
use crate::config::Profile;
use crate::run::{Folder, profile};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A longer line is shown in pieces.
const LINE_MAX: usize = 1024 * 1024;

/// Show the output of a run
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency logs 1a2b3c4d-loop-12\n  agency logs -f 1a2b3c4d-loop-12\n  agency logs --since 2h\n  agency logs --raw 1a2b3c4d-loop-12 > run.jsonl"
)]
pub(super) struct Args {
    /// The run's id, or the end of it
    #[arg(required_unless_present = "since")]
    run: Option<String>,
    /// Go on until the run has ended
    #[arg(short, long)]
    follow: bool,
    /// Standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    /// The bytes as they are, also on a terminal
    #[arg(long)]
    raw: bool,
    /// All runs that started within this time, such as 30m or 24h (with --repo: of that repository)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["run", "follow"])]
    since: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    let Some(wanted) = &args.run else {
        for (id, folder) in lately(context, args.since.as_deref().unwrap_or_default())? {
            writeln!(out, "== {id}")?;
            show(&folder, args, &mut out)?;
        }
        return Ok(Exit::Fine);
    };
    show(&find(context, wanted)?, args, &mut out)?;
    Ok(Exit::Fine)
}

fn show(folder: &Folder, args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let log = if args.stderr { folder.stderr() } else { folder.stdout() };
    let mut out = Screen::new(folder, args.raw, out);
    copy(&older(&log), 0, &mut out)?;
    let shown = copy(&log, 0, &mut out)?;
    if args.follow {
        follow(folder, &log, shown, &mut out)?;
    }
    out.end()?;
    Ok(())
}

/// Runs of all repositories, or of the one that `--repo` names, oldest first.
fn lately(context: &Context, text: &str) -> anyhow::Result<Vec<(String, Folder)>> {
    let after = since(text)?;
    let wanted = context.named_repo().and_then(|repo| repo.canonicalize().ok());
    let runs = super::runs::all(context)?.into_iter().filter(|run| {
        let here = wanted.as_ref().is_none_or(|wanted| Path::new(&run.repo) == wanted);
        here && run.started_at >= after
    });
    runs.map(|run| Ok((run.id.clone(), find(context, &run.id)?))).collect()
}

/// Where the bytes go: as they are, or line by line for people.
struct Screen<'a, W> {
    out: &'a mut W,
    rendering: Rendering,
    line: Vec<u8>,
}

enum Rendering {
    Raw,
    Lines(Option<Profile>),
}

impl<'a, W: Write> Screen<'a, W> {
    /// What goes to a file or another program is not changed: scripts read it.
    fn new(folder: &Folder, raw: bool, out: &'a mut W) -> Self {
        let rendering = if raw || !io::stdout().is_terminal() {
            Rendering::Raw
        } else {
            let run = folder.intent().ok();
            Rendering::Lines(run.and_then(|run| profile::by_word(run.profile.as_deref()?)))
        };
        Self { out, rendering, line: Vec::new() }
    }

    fn end_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let Rendering::Lines(profile) = self.rendering else { return Ok(()) };
        match render::line(profile, &String::from_utf8_lossy(&line)) {
            Some(text) => writeln!(self.out, "{text}"),
            None => Ok(()),
        }
    }

    fn end(mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.out.flush()
    }
}

impl<W: Write> Write for Screen<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if matches!(self.rendering, Rendering::Raw) {
            return self.out.write(bytes);
        }
        for byte in bytes {
            if *byte == b'\n' || self.line.len() >= LINE_MAX {
                self.end_line()?;
            }
            if *byte != b'\n' {
                self.line.push(*byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Shows what comes after the first `shown` bytes until the run has ended.
fn follow(folder: &Folder, log: &Path, mut shown: u64, out: &mut impl io::Write) -> io::Result<()> {
    loop {
        // In this order: what was written before the end is shown before we leave.
        let ended = folder.exit().is_some();
        if log.metadata().map_or(0, |meta| meta.len()) < shown {
            copy(&older(log), shown, out)?;
            shown = 0;
        }
        shown += copy(log, shown, out)?;
        out.flush()?;
        if ended {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// By its id or the end of it, which is shorter to type.
fn find(context: &Context, wanted: &str) -> anyhow::Result<Folder> {
    let mut found: Vec<PathBuf> = Vec::new();
    for known in context.known()? {
        for entry in std::fs::read_dir(known.folder.join("runs")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == wanted {
                return Ok(Folder::new(entry.path()));
            }
            if name.ends_with(wanted) {
                found.push(entry.path());
            }
        }
    }
    match found.as_slice() {
        [one] => Ok(Folder::new(one.clone())),
        [] => Err(Misused(format!("there is no run `{wanted}`; `agency runs` lists them")).into()),
        many => {
            Err(Misused(format!("`{wanted}` fits {} runs; give more of the id", many.len())).into())
        }
    }
}

fn older(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// From `start` to the end; a log that is not there yet is empty.
fn copy(log: &Path, start: u64, out: &mut impl io::Write) -> io::Result<u64> {
    let mut file = match File::open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(start))?;
    let mut buffer = vec![0; 64 * 1024];
    let mut copied = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(copied);
        }
        out.write_all(&buffer[..count])?;
        copied += count as u64;
    }
}
