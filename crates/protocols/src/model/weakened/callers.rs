//! Which files the gates call: they themselves, the manifests' scripts, and what those source or include in turn.

use super::{ALWAYS, RelPath, Sides, text};
use std::borrow::Cow;

/// A larger script is no script.
const TEXT_MAX: usize = 256 * 1024;
/// Files that are looked at in all.
const FILES_MAX: usize = 128;

/// A text that calls files, and the folder that its relative names may begin from.
pub(super) struct Caller<'a> {
    dir: &'a str,
    pub(super) text: Cow<'a, str>,
}

/// As they were before the change.
pub(super) fn callers<'a>(sides: &'a [Sides], gates: &'a [String]) -> Vec<Caller<'a>> {
    let mut found: Vec<Caller<'a>> =
        gates.iter().map(|gate| Caller { dir: "", text: gate.as_str().into() }).collect();
    let mut left: Vec<&Sides> = sides.iter().filter(|side| is_text(side)).collect();
    loop {
        let calls = |side: &&Sides| {
            ALWAYS.contains(&side.path.as_str()) || found.iter().any(|one| one.calls(&side.path))
        };
        let (called, rest): (Vec<&Sides>, Vec<&Sides>) = left.into_iter().partition(calls);
        if called.is_empty() {
            return found;
        }
        found.extend(called.into_iter().filter_map(|side| {
            let dir = side.path.as_str().rsplit_once('/').map_or("", |(dir, _)| dir);
            Some(Caller { dir, text: text(side.before.as_ref()?) })
        }));
        left = rest;
    }
}

fn is_text(side: &Sides) -> bool {
    side.before.as_ref().is_some_and(|bytes| bytes.0.len() <= TEXT_MAX)
}

/// Files that the gates call by way of others, and that were not looked at yet.
pub fn further(sides: &[Sides], gates: &[String], asked: &[RelPath]) -> Vec<RelPath> {
    let mut more: Vec<RelPath> = callers(sides, gates)
        .iter()
        .flat_map(|caller| caller.named().collect::<Vec<_>>())
        .filter(|path| !asked.contains(path))
        .collect();
    more.sort();
    more.dedup();
    more.truncate(FILES_MAX.saturating_sub(asked.len()));
    more
}

/// The files that gates name themselves.
pub(super) fn named_by(gates: &[String]) -> Vec<RelPath> {
    let lines = gates.iter().map(|gate| Caller { dir: "", text: gate.as_str().into() });
    lines.flat_map(|caller| caller.named().collect::<Vec<_>>()).collect()
}

impl Caller<'_> {
    pub(super) fn calls(&self, path: &RelPath) -> bool {
        self.candidates().any(|name| name == path.as_str())
    }

    /// Names that look like files: with a folder or an ending.
    fn named(&self) -> impl Iterator<Item = RelPath> {
        let names = self.candidates().filter(|name| name.contains(['/', '.']));
        names.filter_map(|name| RelPath::new(name).ok())
    }

    /// Each word as a path from the top and from the caller's own folder. What follows a variable (`$dir/lib.sh`) begins there.
    fn candidates(&self) -> impl Iterator<Item = String> {
        let part = |c: char| c.is_alphanumeric() || "._-/".contains(c);
        let words = self.text.split(move |c| !part(c)).filter(|word| !word.is_empty());
        words.flat_map(move |word| {
            let word = word.trim_start_matches("./").trim_start_matches('/');
            let beside = (!self.dir.is_empty()).then(|| format!("{}/{word}", self.dir));
            std::iter::once(word.to_owned()).chain(beside)
        })
    }
}
