//! What git would run, include or obey in a repository, in a form that can be kept and compared. It reads nothing.

use agency_protocols::model::{Digest, clip};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// As the owner last trusted it. The journal keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    pub(super) view: View,
    /// `branch.<name>.remote` and `.pushremote`: they hold nothing but a push that would go elsewhere.
    #[serde(default)]
    pub(super) branches: BTreeMap<String, String>,
    /// Where the programs lay that git looks for in PATH.
    #[serde(default)]
    pub(super) programs: BTreeMap<String, PathBuf>,
}

/// By file, then by setting; a file that counts as a whole has one setting without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct View(BTreeMap<String, BTreeMap<String, Vec<Value>>>);

/// What a setting holds. Values may be secrets, so only as much is kept as a message may show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Value {
    digest: Digest,
    shown: String,
}

impl Value {
    pub(super) fn of(setting: &str, text: &str) -> Self {
        Self { digest: Digest::of(text.as_bytes()), shown: shown(setting, text) }
    }

    /// A program or a file that is too long for a message.
    pub(super) fn of_file(bytes: &[u8]) -> Self {
        let digest = Digest::of(bytes);
        let shown = format!("a file of {} bytes, sha256 {}", bytes.len(), digest.short());
        Self { digest, shown }
    }
}

impl View {
    pub(super) fn add(&mut self, file: &str, setting: &str, value: Value) {
        let settings = self.0.entry(file.to_owned()).or_default();
        settings.entry(setting.to_owned()).or_default().push(value);
    }

    /// How many settings count.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// The same settings, in whichever files.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.0.values().eq(other.0.values())
    }

    /// What differs, one sentence each: file, setting, what was there, what is there.
    pub(super) fn changes(&self, now: &Self) -> Vec<String> {
        let none = BTreeMap::new();
        let mut files: Vec<&String> = self.0.keys().chain(now.0.keys()).collect();
        files.sort();
        files.dedup();
        let changed = |file: &&String| {
            let (before, after) =
                (self.0.get(*file).unwrap_or(&none), now.0.get(*file).unwrap_or(&none));
            let mut settings: Vec<&String> = before.keys().chain(after.keys()).collect();
            settings.sort();
            settings.dedup();
            let differ = settings.into_iter().filter(|name| before.get(*name) != after.get(*name));
            let line = |name: &String| {
                sentence(file, name, before.get(name).map(Vec::as_slice), after.get(name))
            };
            differ.map(line).collect::<Vec<_>>()
        };
        files.iter().flat_map(changed).collect()
    }
}

fn sentence(file: &str, setting: &str, was: Option<&[Value]>, is: Option<&Vec<Value>>) -> String {
    let list = |values: &[Value]| {
        values.iter().map(|value| format!("`{}`", value.shown)).collect::<Vec<_>>().join(", ")
    };
    let was = was.map_or("was not there".to_owned(), |values| format!("was {}", list(values)));
    let is = is.map_or("is gone".to_owned(), |values| format!("is {}", list(values)));
    match setting {
        "" => format!("`{file}` {was}, {is}"),
        setting => format!("`{file}`: `{}` {was}, {is}", clip(setting, 120)),
    }
}

/// Settings whose values are secrets more often than not.
const SECRET: &[&str] =
    &["http.", "credential.", "header", "token", "password", "secret", "cookie"];

fn shown(setting: &str, text: &str) -> String {
    let setting = setting.to_lowercase();
    if SECRET.iter().any(|word| setting.contains(word)) {
        return "(not shown)".to_owned();
    }
    clip(&without_password(text), 160)
}

/// `https://name:password@host` without what stands before the `@`.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let host = rest.split('/').next().unwrap_or(rest);
    match host.rsplit_once('@') {
        Some((secret, _)) => format!("{scheme}://…{}", &rest[secret.len()..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SE-01
    #[test]
    fn a_change_names_file_setting_before_and_after() {
        let mut before = View::default();
        before.add(".git/config", "core.editor", Value::of("core.editor", "vi"));
        before.add(".git/hooks/old", "", Value::of_file(b"x"));
        let mut now = View::default();
        now.add(".git/config", "core.editor", Value::of("core.editor", "evil"));
        now.add(".git/config", "alias.x", Value::of("alias.x", "!y"));
        let changes = before.changes(&now);
        assert_eq!(changes.len(), 3);
        assert_eq!(changes[0], "`.git/config`: `alias.x` was not there, is `!y`");
        assert_eq!(changes[1], "`.git/config`: `core.editor` was `vi`, is `evil`");
        assert!(changes[2].starts_with("`.git/hooks/old` was `a file of 1 bytes"), "{changes:?}");
        assert!(changes[2].ends_with("is gone"), "{changes:?}");
        assert!(now.changes(&now).is_empty());
    }

    // covers: SE-01, SE-03
    #[test]
    fn no_secret_is_kept() {
        let url = Value::of("remote.o.url", "https://me:hunter2@host/x@y");
        assert_eq!(url.shown, "https://…@host/x@y");
        let header = Value::of("http.https://x/.extraheader", "AUTHORIZATION: basic abc");
        assert_eq!(header.shown, "(not shown)");
        assert_ne!(url, Value::of("remote.o.url", "https://me:hunter3@host/x@y"));
    }
}
