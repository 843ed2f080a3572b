//! A list of patterns of what is ignored, as far as it takes to tell which names none of them can match. What one matches, only
//! git says.

/// A longer list counts as one that may match anything.
pub(super) const LIST_MAX: usize = 1 << 20;

/// Of each pattern the longest piece of text that all its matches contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Patterns {
    pieces: Vec<Box<str>>,
    /// One of them has no such piece.
    any: bool,
}

impl Patterns {
    pub(super) fn anything() -> Self {
        Self { pieces: Vec::new(), any: true }
    }

    pub(super) fn parse(list: &[u8]) -> Self {
        let Some(text) = std::str::from_utf8(list).ok().filter(|text| text.len() <= LIST_MAX)
        else {
            return Self::anything();
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().map(str::trim_end);
        // What takes a name out of the list again takes nothing in.
        let asks = |line: &&str| !line.is_empty() && !line.starts_with(['#', '!']);
        let pieces = lines.filter(asks).map(piece);
        let mut patterns = Self::default();
        for piece in pieces {
            patterns.any |= piece.is_empty();
            patterns.pieces.push(piece.into());
        }
        patterns
    }

    /// `false`: neither the path nor a folder on the way to it is ignored by this list.
    pub(super) fn may_match(&self, path: &str) -> bool {
        self.any || self.pieces.iter().any(|piece| path.contains(&**piece))
    }
}

/// A bracket may hold anything, and so may what follows it; a slash may stand for no folder at all.
fn piece(pattern: &str) -> &str {
    let plain = pattern.split('[').next().unwrap_or_default();
    let pieces = plain.split(['*', '?', '\\']).map(|piece| piece.trim_matches('/').trim_end());
    pieces.max_by_key(|piece| piece.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_the_piece_is_not_matched() {
        let list = b"\xef\xbb\xbf# notes\n*.log\r\n/dist/\n**/cache/**\n!kept.log\n.env*\n";
        let patterns = Patterns::parse(list);
        for free in ["a.txt", "logs/x", "src/main.rs", ".gitignore"] {
            assert!(!patterns.may_match(free), "{free}");
        }
        for asked in ["a.log", "x/dist/y", "a/cache", ".env.local", "distant"] {
            assert!(patterns.may_match(asked), "{asked}");
        }
    }

    #[test]
    fn a_pattern_that_says_nothing_may_match_anything() {
        for list in [&b"*\n"[..], b"/**/\n", b"[ab]*\n", b"\xff\n", b"?\\*\n"] {
            assert!(Patterns::parse(list).may_match("x"), "{list:?}");
        }
        assert!(!Patterns::parse(b"\n# only words\n").may_match("x"));
    }
}
