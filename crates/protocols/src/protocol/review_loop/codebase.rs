//! `CODEBASE.md`, the map that agents read before any source (spec 1 §5): its three parts, and whether what it points at
//! is there. It opens no file: the caller knows how many lines each one has.

use super::CODEBASE;
use crate::model::{Rejection, RelPath, clip};

/// What the map must have, and words of a heading that show it.
const PARTS: &[(&str, &[&str])] = &[
    ("a file map", &["file map", "files"]),
    ("an event or API catalog", &["event", "api"]),
    ("an index of locations per step", &["step"]),
];

/// A place that the map names: `path:line` or `path:from-to`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    line: u64,
    path: String,
    from: u64,
    to: u64,
}

/// Says how many lines a file has, or why it cannot be counted.
pub(super) type Lines<'a> = dyn FnMut(&RelPath) -> Result<u64, String> + 'a;

/// LP-18: everything that is wrong with the map.
pub(super) fn problems(text: &str, lines: &mut Lines<'_>) -> Vec<Rejection> {
    let missing = PARTS.iter().filter(|(_, words)| !has_heading(text, words));
    let file = RelPath::fixed(CODEBASE);
    let missing = missing.map(|(part, words)| {
        let wanted = format!("a heading with `{}`", words.join("` or `"));
        Rejection::new("LP-18", &file, format!("no heading for {part}"), &wanted)
    });
    let mut problems: Vec<_> = missing.collect();
    problems.extend(references(text).iter().filter_map(|place| wrong_place(place, lines)));
    problems
}

fn has_heading(text: &str, words: &[&str]) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(str::to_lowercase);
    headings.into_iter().any(|heading| words.iter().any(|word| heading.contains(word)))
}

fn wrong_place(place: &Reference, lines: &mut Lines<'_>) -> Option<Rejection> {
    let Reference { line, path, from, to } = place;
    let named = if from == to { format!("{path}:{from}") } else { format!("{path}:{from}-{to}") };
    let wrong = |why: String, wanted: &str| {
        let found = format!("`{}`: {why}", clip(&named, 120));
        Some(Rejection::new("LP-18", &RelPath::fixed(CODEBASE), found, wanted).at_line(*line))
    };
    let Ok(file) = RelPath::new(path.as_str()) else {
        return wrong("not a path inside the repository".to_owned(), "a relative path");
    };
    if *from == 0 || from > to {
        return wrong("no such lines".to_owned(), "lines from 1, the smaller first");
    }
    match lines(&file) {
        Err(why) => wrong(why, "a file of the repository"),
        Ok(count) if *to > count => wrong(format!("it has {count} lines"), "lines that exist"),
        Ok(_) => None,
    }
}

fn references(text: &str) -> Vec<Reference> {
    let apart = |c: char| c.is_whitespace() || "`()[]<>{},;|\"'*".contains(c);
    let lines = text.lines().zip(1..);
    lines
        .flat_map(|(text, line)| text.split(apart).filter_map(move |word| reference(word, line)))
        .collect()
}

/// A word that ends in `:12` or `:12-34` after something that looks like a file: a folder or an ending with a letter.
fn reference(word: &str, line: u64) -> Option<Reference> {
    let (path, lines) = word.trim_end_matches(['.', ':', '!', '?']).rsplit_once(':')?;
    let (from, to) = lines.split_once(['-', '–']).unwrap_or((lines, lines));
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    let (from, to) = (number(from)?, number(to)?);
    let path = path.strip_prefix("./").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_file = path.contains('/') || ending.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_file && !path.contains("//")).then(|| Reference { line, path: path.to_owned(), from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "# The code\n## File map\n- `src/a.rs:1-10` the model\n## Event and API catalog\nsee (src/a.rs:3).\n\
        ## Per-step index\nStep 1 touches file.ts:100-150, ./src/a.rs:2; http://localhost:80/x at 12:30 on 10.0.0.1:22\n";

    fn found(text: &str) -> Vec<(Option<u64>, String)> {
        let mut lines = |path: &RelPath| match path.as_str() {
            "src/a.rs" => Ok(10),
            "file.ts" => Ok(150),
            _ => Err("it is not there".to_owned()),
        };
        let all = problems(text, &mut lines).into_iter();
        all.map(|one| (one.line, one.found)).collect()
    }

    // covers: LP-18
    #[test]
    fn a_map_that_is_right_says_nothing() {
        assert_eq!(found(MAP), []);
        assert_eq!(references(MAP).len(), 4, "times, addresses and links are no places");
    }

    // covers: LP-18
    #[test]
    fn everything_that_is_wrong_is_said_with_its_line() {
        let lines: Vec<_> =
            found("# x\nsrc/a.rs:11\n../b.rs:1 src/c.rs:5\nsrc/a.rs:4-2 src/a.rs:0\n")
                .into_iter()
                .map(|(line, _)| line)
                .collect();
        assert_eq!(lines, [None, None, None, Some(2), Some(3), Some(3), Some(4), Some(4)]);
    }
}
