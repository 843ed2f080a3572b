//! `agency logs`: what a run has said, and what it says.

use super::context::Context;
use super::exit::{Exit, Misused};
use crate::run::Folder;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Show the output of a run
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency logs 1a2b3c4d-loop-12\n  agency logs -f 1a2b3c4d-loop-12"
)]
pub(super) struct Args {
    /// The run's id, or the end of it
    run: String,
    /// Go on until the run has ended
    #[arg(short, long)]
    follow: bool,
    /// Standard error instead of standard output
    #[arg(long)]
    stderr: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let folder = find(context, &args.run)?;
    let log = if args.stderr { folder.stderr() } else { folder.stdout() };
    let mut out = io::stdout().lock();
    copy(&older(&log), 0, &mut out)?;
    let shown = copy(&log, 0, &mut out)?;
    if args.follow {
        follow(&folder, &log, shown, &mut out)?;
    }
    Ok(Exit::Fine)
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
