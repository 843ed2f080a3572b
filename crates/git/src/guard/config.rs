//! Git's configuration language, read and written without a git process. It knows no key's meaning.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// `section.subsection.name`; git compares section and name without case, the subsection with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) section: String,
    pub(super) subsection: Option<String>,
    pub(super) name: String,
}

/// One setting. Without a value it means `true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) key: Key,
    pub(super) value: Option<String>,
}

impl Key {
    /// Section and name, the subsection left out.
    pub(super) fn kind(&self) -> (&str, &str) {
        (&self.section, &self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subsection {
            Some(subsection) => write!(out, "{}.{subsection}.{}", self.section, self.name),
            None => write!(out, "{}.{}", self.section, self.name),
        }
    }
}

impl Setting {
    pub(super) fn text(&self) -> &str {
        self.value.as_deref().unwrap_or("true")
    }
}

/// What git itself would refuse to read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine(pub(super) usize);

pub(super) fn parse(text: &str) -> Result<Vec<Setting>, BadLine> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut parser = Parser { rest: text.chars().peekable(), line: 1 };
    parser.entries().ok_or(BadLine(parser.line))
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Parser<'_> {
    /// `None`: it broke off in the current line.
    fn entries(&mut self) -> Option<Vec<Setting>> {
        let mut entries = Vec::new();
        let mut section = None;
        while let Some(next) = self.rest.peek().copied() {
            match next {
                '#' | ';' => while self.next().is_some_and(|c| c != '\n') {},
                '[' => section = Some(self.section()?),
                _ if next.is_ascii_whitespace() => drop(self.next()),
                _ if next.is_ascii_alphabetic() => {
                    let (section, subsection) = section.clone()?;
                    let (name, value) = (self.word(), self.value_if_any()?);
                    entries.push(Setting { key: Key { section, subsection, name }, value });
                }
                _ => return None,
            }
        }
        Some(entries)
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.line += 1;
        }
        Some(next)
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
            word.push(c.to_ascii_lowercase());
        }
        word
    }

    /// `[section]`, `[section "Sub"]`, or the old `[section.sub]`.
    fn section(&mut self) -> Option<(String, Option<String>)> {
        self.next();
        let mut base = self.word();
        while self.rest.next_if_eq(&'.').is_some() {
            base = format!("{base}.{}", self.word());
        }
        if base.is_empty() {
            return None;
        }
        let (section, old) = match base.split_once('.') {
            Some((section, old)) => (section.to_owned(), Some(old.to_owned())),
            None => (base.clone(), None),
        };
        match self.next()? {
            ']' => Some((section, old)),
            ' ' | '\t' => {
                let quoted = self.subsection()?;
                let old = old.map(|old| format!("{old}.")).unwrap_or_default();
                Some((section, Some(format!("{old}{quoted}"))))
            }
            _ => None,
        }
    }

    fn subsection(&mut self) -> Option<String> {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        self.rest.next_if_eq(&'"')?;
        let mut name = String::new();
        loop {
            match self.rest.next_if(|c| *c != '\n')? {
                '"' => break,
                '\\' => name.push(self.rest.next_if(|c| *c != '\n')?),
                c => name.push(c),
            }
        }
        self.rest.next_if_eq(&']').map(|_| name)
    }

    fn value_if_any(&mut self) -> Option<Option<String>> {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        match self.next() {
            None | Some('\n') => Some(None),
            Some('=') => self.value().map(Some),
            Some(_) => None,
        }
    }

    fn value(&mut self) -> Option<String> {
        let (mut value, mut kept) = (String::new(), 0);
        let (mut quoted, mut comment) = (false, false);
        loop {
            let c = match self.next() {
                None | Some('\n') if quoted => return None,
                None | Some('\n') => break,
                Some(_) if comment => continue,
                Some(c) => c,
            };
            match c {
                ';' | '#' if !quoted => comment = true,
                '"' => quoted = !quoted,
                '\\' => match self.next().unwrap_or('\n') {
                    '\n' => continue,
                    't' => value.push('\t'),
                    'b' => value.push('\u{8}'),
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    _ => return None,
                },
                c if c.is_ascii_whitespace() && !quoted => {
                    if !value.is_empty() {
                        value.push(c);
                    }
                    continue;
                }
                c => value.push(c),
            }
            if !comment {
                kept = value.len();
            }
        }
        value.truncate(kept);
        Some(value)
    }
}

/// Text that git reads as exactly these settings.
pub(super) fn render(entries: &[Setting]) -> String {
    let mut text = String::new();
    for Setting { key, value } in entries {
        let subsection = key.subsection.as_ref().map_or_else(String::new, |name| {
            format!(" \"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
        });
        text.push_str(&format!("[{}{subsection}]\n\t{}", key.section, key.name));
        if let Some(value) = value {
            text.push_str(&format!(" = \"{}\"", escaped(value)));
        }
        text.push('\n');
    }
    text
}

fn escaped(value: &str) -> String {
    let pairs = [('\\', "\\\\"), ('"', "\\\""), ('\n', "\\n"), ('\t', "\\t"), ('\u{8}', "\\b")];
    let escape = |c: char| pairs.iter().find(|(from, _)| *from == c).map(|(_, to)| *to);
    value.chars().map(|c| escape(c).map_or_else(|| c.to_string(), str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let show = |entry: Setting| match &entry.value {
            Some(value) => format!("{}={value}", entry.key),
            None => entry.key.to_string(),
        };
        parse(text).unwrap().into_iter().map(show).collect()
    }

    #[test]
    fn it_is_read_as_git_reads_it() {
        let text = "\u{feff}# first\r\n[Core]\r\n\tBare\r\n  fsMonitor = a \"b  ; c\" d  ; no\n\
            [remote \"Or\\\"i g\"] url=x#y\n[old.Style]key = \\\n  long \\\"\\\\\\t.\nempty=\n[a]b=c";
        let wanted = [
            "core.bare",
            "core.fsmonitor=a b  ; c d",
            "remote.Or\"i g.url=x",
            "old.style.key=long \"\\\t.",
            "old.style.empty=",
            "a.b=c",
        ];
        assert_eq!(shown(text), wanted);
    }

    #[test]
    fn what_git_refuses_is_refused_with_its_line() {
        for (text, line) in [
            ("key = 1", 1),
            ("[a]\nb = \"open\n", 3),
            ("[a]\n\nb = \\x", 3),
            ("[a \"b\nc\"]", 1),
            ("[a]\nb c", 2),
            ("[a", 1),
            ("[a]\n=x", 2),
        ] {
            assert_eq!(parse(text), Err(BadLine(line)), "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = "[a \"q\\\\u\\\"o\"]\n\tb = \" x\\n\\t;\\\"\\\\ \"\n\tc\n";
        let entries = parse(text).unwrap();
        assert_eq!(parse(&render(&entries)).unwrap(), entries);
    }

    /// As git lists a file: `key NEWLINE value NUL`, or nothing if it refuses it.
    fn by_git(file: &std::path::Path, text: &str) -> Option<String> {
        std::fs::write(file, text).unwrap();
        let mut command = std::process::Command::new("git");
        command.args(["config", "--list", "-z", "--file"]).arg(file).env("GIT_DIR", "/nonexistent");
        let output = command.output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn by_us(text: &str) -> Option<String> {
        let show = |entry: Setting| match entry.value {
            Some(value) => format!("{}\n{value}\0", entry.key),
            None => format!("{}\0", entry.key),
        };
        parse(text).ok().map(|entries| entries.into_iter().map(show).collect())
    }

    // covers: SE-01
    #[test]
    fn we_read_what_git_reads() {
        const PARTS: &[&str] = &[
            "[a]\n",
            "[a \"B.c\"]\n",
            "[A.b]\n",
            "[a \"b\\\\\\\"\"]",
            "\n",
            " ",
            "\t",
            "k = ",
            "K1=",
            "k\n",
            "x",
            "y z",
            "\"",
            "\\",
            "\\n",
            "\\\"",
            "\\\n",
            "#",
            ";",
            "ü",
            "\r\n",
            "-",
            "[",
            "]",
            "=",
            "k = v\n",
            "k = \" v ;\" w\n",
        ];
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        let trials = std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok());
        let (mut dice, mut both) = (7_u64, 0);
        for _ in 0..trials.unwrap_or(100) {
            let mut text = "[a]\n".to_owned();
            for _ in 0..12 {
                dice = dice
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                text.push_str(PARTS[(dice >> 33) as usize % PARTS.len()]);
                if dice >> 61 == 0 {
                    break;
                }
            }
            let theirs = by_git(&file, &text);
            both += usize::from(theirs.as_ref().is_some_and(|list| !list.is_empty()));
            assert_eq!(by_us(&text), theirs, "{text:?}");
            let ours = parse(&text).map(|entries| render(&entries));
            if let Ok(rendered) = ours {
                assert_eq!(by_git(&file, &rendered), theirs, "written again: {text:?}");
            }
        }
        assert!(both > 5, "only {both} of them mean something");
    }
}
