//! What may be read when some of it is to stay hidden: the largest folders without anything hidden in them, and the single files
//! beside. It only lists names and never follows a symbolic link.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Everything below `top` but `hidden`. A path of `hidden` that is a link hides the link's target as well.
pub(super) fn beside(top: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(top, &both_names(hidden), &mut found);
    found
}

fn both_names(hidden: &[PathBuf]) -> BTreeSet<PathBuf> {
    let real = hidden.iter().filter_map(|path| real(path));
    hidden.iter().cloned().chain(real).collect()
}

/// A path with all links resolved. Of one that does not exist yet, as much as exists.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| Some(real(path.parent()?)?.join(path.file_name()?)))
}

fn collect(dir: &Path, hidden: &BTreeSet<PathBuf>, found: &mut Vec<PathBuf>) {
    if hidden.contains(dir) {
        return;
    }
    if !hidden.iter().any(|path| path.starts_with(dir)) {
        found.push(dir.to_owned());
        return;
    }
    // A folder that cannot be listed grants nothing.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            collect(&entry.path(), hidden, found);
        } else if !kind.is_symlink() && !hidden.contains(&entry.path()) {
            found.push(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path, hidden: &[&str]) -> Vec<String> {
        let hidden: Vec<PathBuf> = hidden.iter().map(|name| dir.join(name)).collect();
        let found = beside(dir, &hidden).into_iter();
        let name = |path: PathBuf| path.strip_prefix(dir).unwrap().display().to_string();
        let mut names: Vec<String> = found.map(name).collect();
        names.sort();
        names
    }

    // covers: SE-06
    #[test]
    fn only_what_is_hidden_and_the_folders_around_it_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for path in [".ssh", ".config/gh", ".config/app", "src/shop"] {
            fs::create_dir_all(dir.join(path)).unwrap();
        }
        fs::write(dir.join(".netrc"), "").unwrap();
        fs::write(dir.join(".bashrc"), "").unwrap();
        let all = [".ssh", ".config/gh", ".netrc", ".aws"];
        assert_eq!(names(&dir, &all), [".bashrc", ".config/app", "src"]);
        assert_eq!(names(&dir, &[]), [""], "nothing hidden: the whole folder at once");
    }

    // covers: SE-06
    #[test]
    fn no_link_leads_to_what_is_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("vault/keys")).unwrap();
        fs::create_dir_all(dir.join("src")).unwrap();
        std::os::unix::fs::symlink("vault/keys", dir.join(".ssh")).unwrap();
        std::os::unix::fs::symlink(".ssh", dir.join("more")).unwrap();
        assert_eq!(names(&dir, &[".ssh"]), ["src"], "the link, its target, and a link to the link");
    }
}
