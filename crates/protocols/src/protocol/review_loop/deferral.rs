//! Does an answer defer, skip or re-scope its step (LP-13)? It reads text and judges nobody.

use crate::model::clip;

const SECTIONS: &[&str] = &["deferred", "out of scope"];
/// What such a section holds when nothing is deferred.
const NOTHING: &[&str] = &["", "none", "nothing", "n/a", "na", "no", "-", "–", "—", "nil"];
const SUBJECTS: &[&str] =
    &["i", "we", "i'll", "we'll", "i'm", "we're", "i've", "we've", "i'd", "we'd"];
const VERBS: &[&str] = &[
    "defer",
    "deferred",
    "deferring",
    "skip",
    "skipped",
    "skipping",
    "postpone",
    "postponed",
    "postponing",
    "descope",
    "descoped",
    "descoping",
    "rescope",
    "rescoped",
    "re-scope",
    "re-scoped",
    "redefine",
    "redefined",
];
const NEGATIONS: &[&str] =
    &["not", "never", "don't", "won't", "didn't", "cannot", "can't", "without", "neither"];
/// Between the subject and its verb stand at most so many words, as in "we have now decided to defer".
const REACH: usize = 5;

/// The line that says so, clipped.
pub(super) fn declared(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let at = (0..lines.len()).find(|&at| is_section(&lines, at) || is_answer(lines[at]));
    let line = at.map(|at| lines[at].trim().to_owned());
    line.or_else(|| sentences(text).find(|sentence| is_said(sentence))).map(|line| clip(&line, 120))
}

/// A `Deferred:` or `Out of scope:` section with content, on its line or below it.
fn is_section(lines: &[&str], at: usize) -> bool {
    let plain = plain(lines[at]);
    let is_heading = lines[at].starts_with('#');
    let rest = SECTIONS.iter().find_map(|name| {
        let rest = plain.strip_prefix(name)?;
        match rest.strip_prefix(':') {
            Some(rest) => Some(rest.trim().trim_start_matches('*').to_owned()),
            None if is_heading && rest.trim().is_empty() => Some(String::new()),
            None => None,
        }
    });
    match rest {
        None => false,
        Some(rest) if is_nothing(&rest) && !rest.trim().is_empty() => false,
        Some(rest) if !rest.trim().is_empty() => true,
        Some(_) => {
            lines[at + 1..].iter().find(|line| !line.trim().is_empty()).is_some_and(|line| {
                let is_next_section = line.starts_with('#') || line.trim_end().ends_with(':');
                !is_next_section && !is_nothing(&self::plain(line))
            })
        }
    }
}

/// A change request that is answered `deferred`: its `Status` field, or `CR-001: deferred`.
fn is_answer(line: &str) -> bool {
    let plain = plain(line).replace("**", "");
    let status = plain.strip_prefix("status:").map(str::trim);
    let answer = plain.strip_prefix("cr-").map(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_start_matches([':', '-', '–', '—', ' '])
    });
    let is_it =
        |words: &str| words.split(|c: char| !c.is_alphanumeric()).next() == Some("deferred");
    status.is_some_and(is_it) || answer.is_some_and(is_it)
}

/// "We defer this step to step 9.": somebody speaks of their own work, and of the step or its scope.
fn is_said(sentence: &str) -> bool {
    let lower = sentence.to_lowercase().replace('’', "'");
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_alphanumeric() || c == '\'' || c == '-'))
        .filter(|word| !word.is_empty())
        .collect();
    let verb_after = |subject: usize| {
        let end = words.len().min(subject + 2 + REACH);
        let said = &words[subject + 1..end];
        let verb = said.iter().position(|word| VERBS.contains(word))?;
        (!said[..verb].iter().any(|word| NEGATIONS.contains(word))).then_some(subject + 1 + verb)
    };
    let verb = (0..words.len()).filter(|&at| SUBJECTS.contains(&words[at])).find_map(verb_after);
    let Some(verb) = verb else { return false };
    let about = words.get(verb + 1).is_some_and(|word| ["it", "this"].contains(word));
    about || words[verb..].iter().any(|word| ["step", "scope"].contains(word))
}

/// Without the marks of Markdown, in lower case.
fn plain(line: &str) -> String {
    line.trim_start_matches(['#', '-', '*', '>', ' ', '\t'])
        .trim_end()
        .replace("**", "")
        .to_lowercase()
}

fn is_nothing(text: &str) -> bool {
    NOTHING.contains(
        &text.trim().trim_end_matches(['.', '!', '*', '_']).trim_start_matches(['*', '_', '(']),
    )
}

/// A line break ends a sentence only where a blank line, a list or a heading follows; here every mark of an end does.
fn sentences(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut blocks: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines().map(str::trim) {
        let begins = line.starts_with(['#', '-', '*', '>', '|']);
        if open && !begins && !line.is_empty() {
            let block = blocks.last_mut().expect("a block is open");
            block.push(' ');
            block.push_str(line);
        } else if !line.is_empty() {
            blocks.push(line.to_owned());
        }
        open = !line.is_empty();
    }
    blocks.into_iter().flat_map(|block| {
        let ends: Vec<String> =
            block.split_inclusive(['.', '!', '?', ';']).map(|one| one.trim().to_owned()).collect();
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::declared;

    // covers: LP-13
    #[test]
    fn a_deferral_is_found_however_it_is_said() {
        for text in [
            "We defer this step to step 9.",
            "# Proposal\n\nThe model is hard. I will therefore skip this step for now.\n",
            "We've decided to postpone\nit until the API is there.",
            "We'll re-scope the step to the parser.",
            "Deferred: the cache\n",
            "## Deferred\n\n- the cache\n",
            "**Out of scope:** error handling",
            "### CR-001: cache\n- **Status**: deferred\n",
            "- CR-002: deferred, it needs the new parser",
        ] {
            assert!(declared(text).is_some(), "{text}");
        }
    }

    // covers: LP-13
    #[test]
    fn what_defers_nothing_is_not_one() {
        for text in [
            "Deferred: none",
            "Deferred: none.\n",
            "**Deferred:** nothing",
            "## Deferred\n\nNone.\n",
            "## Out of scope\n\n## Tests\n- all\n",
            "We do not defer this step.",
            "The parser defers evaluation; we skip blank lines.",
            "The step is carried out in full.",
            "CR-001: resolved, the deferred call is awaited",
            "",
        ] {
            assert_eq!(declared(text), None, "{text}");
        }
    }
}
