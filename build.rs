//! Which commit a release was built from, for `agency --version`. The same sources give the same words: no time, no host, no
//! path; and without git, or inside somebody else's repository, the version stands alone.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program is made of; a change in it that no commit has is said.
const SOURCES: &[&str] = &["Cargo.lock", "Cargo.toml", "build.rs", "crates", "src", "systemd"];

fn main() {
    println!("cargo::rerun-if-env-changed=AGENCY_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // A packager without the repository at hand says it; an everyday build is not made again for each commit.
    let is_told = std::env::var_os("AGENCY_COMMIT").is_some();
    let is_release = std::env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    if is_told || !is_release {
        return;
    }
    if let Some(commit) = std::env::var("CARGO_MANIFEST_DIR").ok().and_then(|dir| commit(&dir)) {
        println!("cargo::rustc-env=AGENCY_COMMIT={commit}");
    }
}

fn commit(dir: &str) -> Option<String> {
    let top = PathBuf::from(git(dir, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    if top != Path::new(dir).canonicalize().ok()? {
        return None;
    }
    watch(dir);
    let id = git(dir, &["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(dir, &[&["status", "--porcelain", "--"], SOURCES].concat())?;
    Some(if changed.is_empty() { id } else { format!("{id}, changed") })
}

/// A new commit, a switch of branches, or a change of the sources: the answer may be another one.
fn watch(dir: &str) {
    let named = git(dir, &["symbolic-ref", "--quiet", "HEAD"]);
    let ours = ["HEAD", "packed-refs"].map(str::to_owned).into_iter().chain(named);
    let ours = ours.filter_map(|name| git(dir, &["rev-parse", "--git-path", &name]));
    let sources = SOURCES.iter().map(|name| (*name).to_owned());
    for path in ours.chain(sources).map(|name| Path::new(dir).join(name)) {
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

fn git(dir: &str, words: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("--no-optional-locks")
        .args(words)
        .current_dir(dir)
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
