//! Text of ours inside a file of somebody else's: between two markers, replaced in place, everything around it kept.

/// How a file writes comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    Markdown,
    Hash,
}

impl Comments {
    fn markers(self) -> (&'static str, &'static str) {
        match self {
            Self::Markdown => ("<!-- agency:begin -->", "<!-- agency:end -->"),
            Self::Hash => ("# agency:begin", "# agency:end"),
        }
    }
}

/// One marker without the other: we cannot tell what is ours.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "one of the markers `agency:begin` and `agency:end` is missing, or they are in the wrong order; put it back or remove both"
)]
pub struct Torn;

/// `old` with our block in it: in its place if it has one, else at the end. `head` comes first in a new file.
pub fn place(
    old: Option<&str>,
    head: &str,
    block: &str,
    comments: Comments,
) -> Result<String, Torn> {
    let (begin, end) = comments.markers();
    let region = format!("{begin}\n{}\n{end}", block.trim_end());
    let Some(old) = old.filter(|old| !old.is_empty()) else {
        return Ok(format!("{head}{region}\n"));
    };
    let newline = newline_of(old);
    let region = region.replace('\n', newline);
    match span(old, begin, end)? {
        Some((start, stop)) => Ok(format!("{}{region}{}", &old[..start], &old[stop..])),
        None => Ok(format!("{old}{}{region}{newline}", gap(old))),
    }
}

/// How this text ends its lines.
pub fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The line ends between this text and a paragraph that is appended to it.
pub fn gap(text: &str) -> String {
    let lines = text.replace("\r\n", "\n");
    let missing = if lines.is_empty() || lines.ends_with("\n\n") {
        0
    } else if lines.ends_with('\n') {
        1
    } else {
        2
    };
    newline_of(text).repeat(missing)
}

/// The block that lies in the file now.
pub fn find(text: &str, comments: Comments) -> Option<&str> {
    let (begin, end) = comments.markers();
    let (start, stop) = span(text, begin, end).ok().flatten()?;
    Some(&text[start + begin.len()..stop - end.len()])
}

fn span(text: &str, begin: &str, end: &str) -> Result<Option<(usize, usize)>, Torn> {
    let at = |marker: &str| {
        let mut lines = text.match_indices(marker).filter(|(at, _)| {
            let begins = text[..*at].is_empty() || text[..*at].ends_with('\n');
            let after = text[at + marker.len()..].lines().next().unwrap_or_default();
            begins && after.trim().is_empty()
        });
        let first = lines.next().map(|(at, _)| at);
        (first, lines.next().is_some())
    };
    match (at(begin), at(end)) {
        ((None, _), (None, _)) => Ok(None),
        ((Some(start), false), (Some(stop), false)) if start < stop => {
            Ok(Some((start, stop + end.len())))
        }
        _ => Err(Torn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AG-03
    #[test]
    fn our_block_is_replaced_and_everything_around_it_stays() {
        let first = place(Some("# Mine\r\ntext"), "", "one", Comments::Markdown).unwrap();
        assert!(
            first.starts_with("# Mine\r\ntext\r\n\r\n<!-- agency:begin -->\r\none\r\n"),
            "{first}"
        );
        let after = format!("{first}\nmore of mine\n");
        let second = place(Some(&after), "", "two\nlines", Comments::Markdown).unwrap();
        assert_eq!(second, after.replace("one", "two\r\nlines"), "a CRLF file stays CRLF");
        assert_eq!(place(Some(&second), "", "two\nlines", Comments::Markdown).unwrap(), second);
        assert_eq!(find(&second, Comments::Markdown), Some("\r\ntwo\r\nlines\r\n"));
    }

    #[test]
    fn torn_markers_are_told_and_nothing_is_guessed() {
        for text in ["<!-- agency:begin -->\nx\n", "<!-- agency:end -->\n<!-- agency:begin -->\n"] {
            assert_eq!(place(Some(text), "", "x", Comments::Markdown), Err(Torn));
        }
        let said = "say `<!-- agency:begin -->` in a sentence\n";
        assert!(place(Some(said), "", "x", Comments::Markdown).is_ok());
    }
}
