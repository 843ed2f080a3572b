//! Questions at a terminal: what a flag did not say is asked for, with the usual answer shown. Nothing is asked where nobody can answer.

use super::super::exit::Misused;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// How often a wrong answer is asked for again.
const TRIES: usize = 3;

/// What is wanted, and how it is called on the command line.
pub(super) struct Question<'a> {
    pub(super) what: &'a str,
    /// Without its dashes.
    pub(super) flag: &'a str,
    /// What an answer looks like.
    pub(super) wanted: &'a str,
    pub(super) usual: Option<&'a str>,
}

/// Is there somebody to ask, who also sees the question?
pub(super) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

impl Question<'_> {
    /// From its flag; at a terminal from an answer; else the usual one.
    pub(super) fn ask<T>(
        &self,
        given: Option<String>,
        read: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let given = match (given, is_terminal()) {
            (Some(given), _) => given,
            (None, true) => return self.ask_person(read),
            (None, false) => match self.usual {
                Some(usual) => usual.to_owned(),
                None => {
                    return Err(Misused(format!(
                        "no {}: give --{}",
                        self.what.to_lowercase(),
                        self.flag
                    ))
                    .into());
                }
            },
        };
        read(&given).ok_or_else(|| Misused(self.wrong(&given)).into())
    }

    fn wrong(&self, found: &str) -> String {
        let found = crate::model::clip(found, 60);
        format!("`{found}` is no {}; wanted {}", self.what.to_lowercase(), self.wanted)
    }

    fn ask_person<T>(&self, read: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        let mut wrong = String::new();
        for _ in 0..TRIES {
            let hint = self.usual.map(|usual| format!(" [{usual}]")).unwrap_or_default();
            anstream::eprint!("{}{hint}: ", self.what);
            std::io::stderr().flush()?;
            let Some(line) = line()? else {
                anstream::eprintln!();
                let what = self.what.to_lowercase();
                return Err(Misused(format!("no answer for {what}; nothing was changed")).into());
            };
            let answer = match (line.as_str(), self.usual) {
                ("", Some(usual)) => usual,
                (line, _) => line,
            };
            match read(answer) {
                Some(value) => return Ok(value),
                None if answer.is_empty() => wrong = format!("wanted {}", self.wanted),
                None => wrong = self.wrong(answer),
            }
            anstream::eprintln!("{wrong}");
        }
        Err(Misused(wrong).into())
    }
}

/// One answer; `None`: the person pressed Ctrl-D.
fn line() -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if std::io::stdin().lock().read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    // What is no text comes out as signs that no answer has.
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()))
}
