//! Files by which the owner's own tools run commands: git's settings, `.envrc`, editor tasks, husky, npm scripts. A run that
//! changed one is named, and told where the owner's next ordinary command would run it (SE-13). It reads and judges nothing else.

use super::Workspace;
use super::foreign_acts::foreign;
use crate::model::{Digest, Escalation, RunId, Severity, TreeRef};
use crate::read::open_plain;
use crate::run::CHANGED;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

const READ_MAX: u64 = 1 << 20;
const FILES_MAX: usize = 64;

/// When a changed file takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// With the next ordinary command: `git status`, `cd`, opening the folder, a commit, `npm install`.
    Next,
    /// Only when the owner asks for it by name.
    Asked,
}

const IN_HOME: [&str; 2] = [".gitconfig", ".config/git/config"];
/// What of git's settings executes something holds git and is told by SE-01; here they are only named.
const IN_GIT: [(&str, Effect); 4] = [
    ("config", Effect::Asked),
    ("config.worktree", Effect::Asked),
    ("info/attributes", Effect::Next),
    ("info/exclude", Effect::Asked),
];
const IN_TREE: [&str; 3] = [".envrc", ".vscode/tasks.json", ".vscode/settings.json"];
/// npm runs these by itself.
const LIFECYCLE: [&str; 8] = [
    "preinstall",
    "install",
    "postinstall",
    "prepare",
    "prepublish",
    "preprepare",
    "postprepare",
    "dependencies",
];

/// What each file was, by the name that the owner sees.
pub(super) type Seen = BTreeMap<String, Digest>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Changed {
    next: Vec<String>,
    asked: Vec<String>,
}

impl Workspace {
    /// Before a run: what these files are.
    pub(super) fn owner_tools(&self, tree: &TreeRef) -> Seen {
        let dir = match tree {
            TreeRef::Main => self.runner.places.root.clone(),
            TreeRef::Worktree(name) => self.runner.places.worktrees().join(name),
        };
        let home = self.settings.env.iter().find(|(name, _)| name == "HOME");
        let git = self.runner.git.as_ref().map(|git| git.common_dir().to_owned());
        look(home.map(|(_, home)| Path::new(home)), git.as_deref(), &dir)
    }

    /// After it: which of them it changed, for the run's summary and as words for the journal. The owner is told of those that
    /// take effect by themselves.
    pub(super) fn changed_tools(&self, run: &RunId) -> String {
        let running = self.running.get(run).and_then(|running| running.tools.as_ref());
        let Some((tree, before)) = running else { return String::new() };
        let Changed { next, asked } = compare(before, &self.owner_tools(tree));
        if !next.is_empty() {
            self.tell(changed(run, &next));
        }
        let all = [next, asked].concat();
        if all.is_empty() {
            return String::new();
        }
        let folder = self.runner.executor.folder(run).map_err(|error| error.to_string());
        let kept = folder.and_then(|folder| {
            folder.publish_json_lazily(CHANGED, &all).map_err(|error| error.to_string())
        });
        if let Err(error) = kept {
            tracing::warn!(%run, error, "the changed files are not in the run's summary");
        }
        format!("; it changed {}", all.join(", "))
    }
}

fn look(home: Option<&Path>, git: Option<&Path>, dir: &Path) -> Seen {
    let mut seen = Seen::new();
    for name in home.iter().flat_map(|_| IN_HOME) {
        note(&mut seen, format!("~/{name}"), home.map(|home| home.join(name)));
    }
    for (name, _) in IN_GIT {
        note(&mut seen, format!(".git/{name}"), git.map(|git| git.join(name)));
    }
    for name in IN_TREE {
        note(&mut seen, name.to_owned(), Some(dir.join(name)));
    }
    let husky = std::fs::read_dir(dir.join(".husky")).into_iter().flatten().flatten();
    for entry in husky.take(FILES_MAX) {
        let name = format!(".husky/{}", entry.file_name().to_string_lossy());
        note(&mut seen, name, Some(entry.path()));
    }
    let manifest = read(&dir.join("package.json")).unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
    for (name, line) in manifest["scripts"].as_object().into_iter().flatten().take(FILES_MAX) {
        let digest = Digest::of(line.to_string().as_bytes());
        seen.insert(format!("script `{name}` of package.json"), digest);
    }
    seen
}

fn note(seen: &mut Seen, name: String, path: Option<PathBuf>) {
    let bytes = path.and_then(|path| read(&path));
    seen.extend(bytes.map(|bytes| (name, Digest::of(&bytes))));
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path).ok()?.take(READ_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// One that was deleted runs nothing.
fn compare(before: &Seen, after: &Seen) -> Changed {
    let mut changed = Changed::default();
    for (name, digest) in after.iter().filter(|(name, digest)| before.get(*name) != Some(digest)) {
        let _: &Digest = digest;
        match effect_of(name) {
            Effect::Next => changed.next.push(name.clone()),
            Effect::Asked => changed.asked.push(name.clone()),
        }
    }
    changed
}

fn effect_of(name: &str) -> Effect {
    let in_git = IN_GIT.iter().find(|(file, _)| name.strip_prefix(".git/") == Some(file));
    let script = name.strip_prefix("script `").and_then(|rest| rest.split('`').next());
    match (in_git, script) {
        (Some((_, effect)), _) => *effect,
        (None, Some(script)) if !LIFECYCLE.contains(&script) => Effect::Asked,
        (None, _) => Effect::Next,
    }
}

fn changed(run: &RunId, names: &[String]) -> Escalation {
    let list = names.join(", ");
    Escalation {
        severity: Severity::Warning,
        summary: format!("the run {run} changed what your own tools run: {list}"),
        what: format!(
            "{list}: the next ordinary command of yours (git, a shell, an editor, npm) would run or obey it."
        ),
        did: "Nothing of it was run.".to_owned(),
        wont: "agency changes none of your files back.".to_owned(),
        resolve: "look at the named files before you work there; \"agency ack ID\" closes it"
            .to_owned(),
        evidence: names.to_vec(),
        everywhere: false,
        ..foreign("SE-13", format!("{run} {list}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    // covers: SE-13, LP-30
    #[test]
    fn a_changed_file_is_told_by_when_it_takes_effect() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["home", "git/info", "tree/.husky"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        let look = || look(Some(&at("home")), Some(&at("git")), &at("tree"));
        fs::write(at("tree/package.json"), r#"{"scripts":{"test":"a"},"name":"x"}"#).unwrap();
        fs::write(at("tree/.envrc"), "export A=1").unwrap();
        let before = look();
        assert_eq!(compare(&before, &look()), Changed::default());
        fs::write(at("home/.gitconfig"), "[alias]").unwrap();
        fs::write(at("git/info/exclude"), "GNUmakefile").unwrap();
        fs::write(at("git/info/attributes"), "* filter=x").unwrap();
        fs::write(at("tree/.husky/pre-commit"), "x").unwrap();
        fs::write(at("tree/.envrc"), "export A=2").unwrap();
        let scripts = r#"{"scripts":{"test":"b","prepare":"c"},"name":"y"}"#;
        fs::write(at("tree/package.json"), scripts).unwrap();
        let Changed { next, asked } = compare(&before, &look());
        let wanted = [
            ".envrc",
            ".git/info/attributes",
            ".husky/pre-commit",
            "script `prepare` of package.json",
            "~/.gitconfig",
        ];
        assert_eq!(next, wanted);
        assert_eq!(asked, [".git/info/exclude", "script `test` of package.json"]);
        fs::remove_file(at("home/.gitconfig")).unwrap();
        assert!(!compare(&before, &look()).next.contains(&"~/.gitconfig".to_owned()));
    }
}
