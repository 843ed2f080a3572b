//! Old runs leave the disk. One whose end is not known for good stays, whatever its age.

use super::folder::{AHEAD, Folder, INTENT};
use crate::model::Timestamp;
use std::fs::{DirEntry, remove_dir_all, remove_file};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// So many stay in any case: a clock that runs ahead makes everything look old.
const NEWEST: usize = 200;

/// Clears away what nothing has happened to since `before`; how many that were.
pub fn clear(runs: &Path, before: Timestamp) -> usize {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let mut folders: Vec<(SystemTime, Folder)> = entries.filter_map(folder).collect();
    folders.sort_unstable_by_key(|(changed, _)| std::cmp::Reverse(*changed));
    let beyond = folders.iter().map(|(_, folder)| folder).skip(NEWEST);
    beyond.filter(|folder| is_over(folder, before) && is_removed(folder)).count()
}

fn folder(entry: DirEntry) -> Option<(SystemTime, Folder)> {
    let meta = entry.metadata().ok().filter(|meta| meta.is_dir() && entry.file_name() != AHEAD)?;
    Some((meta.modified().ok()?, Folder::new(entry.path())))
}

/// Without an intent it never was a run, or is what a clearing before this one left.
fn is_over(folder: &Folder, before: Timestamp) -> bool {
    folder.was_done_with_before(before) || (folder.stood_before(before) && !folder.has(INTENT))
}

fn is_removed(folder: &Folder) -> bool {
    let removed = remove(folder.path());
    if let Err(cause) = &removed {
        tracing::warn!(folder = %folder.path().display(), %cause, "an old run stays");
    }
    removed.is_ok()
}

/// The intent first: what is left without it is no run, also when we are ended in the middle.
fn remove(folder: &Path) -> io::Result<()> {
    match remove_file(folder.join(INTENT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::super::folder::SEEN;
    use super::*;
    use std::fs::{self, File};
    use std::time::Duration;

    /// A run with these files, untouched since this many days after the epoch.
    fn run(runs: &Path, name: &str, files: &[&str], day: u64) {
        let folder = runs.join(name);
        fs::create_dir(&folder).unwrap();
        for file in files {
            fs::write(folder.join(file), "{}").unwrap();
        }
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400);
        File::open(&folder).unwrap().set_modified(at).unwrap();
    }

    fn day(day: u32) -> Timestamp {
        Timestamp::UNIX_EPOCH + chrono::TimeDelta::days(i64::from(day))
    }

    fn names(runs: &Path) -> Vec<String> {
        let entries = fs::read_dir(runs).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with("new-")).collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_is_old_and_known_for_good_goes() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path();
        run(runs, "old", &[INTENT, "exit.json", SEEN], 10);
        run(runs, "half-cleared", &["stdout.log"], 10);
        run(runs, "alive", &[INTENT, "alive"], 10);
        run(runs, "not-told", &[INTENT, "exit.json"], 10);
        run(runs, "young", &[INTENT, "exit.json", SEEN], 30);
        std::os::unix::fs::symlink("/", runs.join("link")).unwrap();
        assert_eq!(clear(runs, day(20)), 0, "these are the newest");
        for number in 0..NEWEST {
            run(runs, &format!("new-{number}"), &[INTENT], 40);
        }
        assert_eq!(clear(runs, day(20)), 2);
        assert_eq!(names(runs), ["alive", "link", "not-told", "young"]);
        assert_eq!(clear(runs, day(20)), 0);
        assert_eq!(clear(&runs.join("none"), day(20)), 0);
    }

    #[test]
    fn a_run_that_was_done_with_is_told_from_the_rest_without_reading_it() {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), "old", &[INTENT, SEEN], 10);
        run(dir.path(), "alive", &[INTENT], 10);
        run(dir.path(), "young", &[INTENT, SEEN], 30);
        let wanted = |name: &str| !Folder::new(dir.path().join(name)).was_done_with_before(day(20));
        assert_eq!([wanted("old"), wanted("alive"), wanted("young")], [false, true, true]);
    }
}
