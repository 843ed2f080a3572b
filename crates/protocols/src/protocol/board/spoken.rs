//! The one document in what an agent says last, whatever it says around it. It does not know whether that document is any good.

use std::ops::Range;

/// Fields that only the head of an audit has. A line between two others is no head.
const MARKS: [&str; 2] = ["task_id", "verdict"];

/// From the document's first line to its end. A message without any is given back as it is, for its reader to refuse.
///
/// `Err`: there are so many. An agent that looks at files quotes them, and one of those may be somebody else's verdict: which
/// of several is meant is not for us to guess.
pub(super) fn document(said: &str) -> Result<&str, usize> {
    let lines = lines(said);
    let heads = heads(said, &lines);
    match heads.as_slice() {
        [] => Ok(said.trim_start()),
        [head] => Ok(&said[lines[head.start].start..end(said, &lines, head)]),
        several => Err(several.len()),
    }
}

fn lines(text: &str) -> Vec<Range<usize>> {
    let mut at = 0;
    let line = |line: &str| {
        at += line.len();
        at - line.len()..at
    };
    text.split_inclusive('\n').map(line).collect()
}

/// The heads of documents, by the lines of their two fences.
fn heads(text: &str, lines: &[Range<usize>]) -> Vec<Range<usize>> {
    let of = |at: usize| text[lines[at].clone()].trim_end();
    let fences: Vec<usize> = (0..lines.len()).filter(|at| of(*at) == "---").collect();
    let between = fences.windows(2).map(|pair| pair[0]..pair[1]);
    between.filter(|head| (head.start + 1..head.end).any(|at| is_mark(of(at)))).collect()
}

/// However YAML lets a key be written.
fn is_mark(line: &str) -> bool {
    let Some((key, _)) = line.split_once(':') else { return false };
    let key = key.trim_matches(|c: char| c.is_whitespace() || "\"'{?".contains(c));
    MARKS.contains(&key)
}

/// In a code fence the document ends with it: at the last line that closes one, since its body may have others.
fn end(text: &str, lines: &[Range<usize>], head: &Range<usize>) -> usize {
    let of = |at: usize| text[lines[at].clone()].trim();
    let above = (0..head.start).rev().map(of).find(|line| !line.is_empty());
    let fence = above.and_then(|line| ["```", "~~~"].into_iter().find(|it| line.starts_with(it)));
    let closes = |line: &str, fence: &str| {
        let mark = fence.chars().next();
        line.len() >= fence.len() && line.chars().all(|c| Some(c) == mark)
    };
    let last =
        fence.and_then(|fence| (head.end + 1..lines.len()).rev().find(|at| closes(of(*at), fence)));
    last.map_or(text.len(), |at| lines[at].start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUDIT: &str = "---\ntask_id: T0001\nverdict: PASS\nfindings: []\n---\n\nGood.\n";

    // covers: AG-10
    #[test]
    fn the_document_is_found_in_what_is_said_around_it() {
        let fenced = |fence: &str| format!("{fence}markdown\n{AUDIT}{fence}\n");
        for said in [
            AUDIT.to_owned(),
            format!("I looked at all of it. Here it is:\n\n{AUDIT}"),
            fenced("```"),
            fenced("~~~"),
            format!("Here it is.\n\n{}\nThat is all.\n", fenced("````")),
            format!("Aider v1\n---\nsome rule\n\n{}", fenced("```")),
        ] {
            assert_eq!(document(&said), Ok(AUDIT), "{said}");
        }
        let windows = AUDIT.replace('\n', "\r\n");
        assert_eq!(document(&windows), Ok(windows.as_str()));
        let rules = format!("{AUDIT}\n---\n\nMy verdict stands.\n\n---\n");
        assert_eq!(document(&rules), Ok(rules.as_str()), "a rule in its body is no other one");
        let code = format!("```\n{AUDIT}```rust\nfn x() {{}}\n```\nMore.\n```\n");
        assert!(document(&code).unwrap().ends_with("```\nMore.\n"), "{:?}", document(&code));
    }

    // covers: AG-10
    #[test]
    fn what_is_no_document_is_left_to_its_reader() {
        for said in
            ["", "It is fine.", "PASS", "---\ntask_id: T0001\nverdict: PASS\n", "---", "```"]
        {
            assert_eq!(document(said), Ok(said));
        }
    }

    // covers: AG-10, AG-34
    #[test]
    fn one_of_several_is_not_chosen() {
        let quoted = format!("The builder left this:\n\n{AUDIT}\nMine is:\n\n{AUDIT}");
        assert_eq!(document(&quoted), Err(2));
        let keys = "---\n{\"verdict\" : FAIL}\n---\n";
        assert_eq!(document(&format!("{keys}\n{AUDIT}")), Err(2));
    }
}
