//! Is a repository compliant (spec 2 §19, §23)? Item by item, over files that somebody else has read.

use super::adapters::{CONTRACTS, Tool};
use super::manifest::{self, Manifest};
use super::names::{DocumentKind, DocumentPath, TaskId, Zone};
use super::region::{self, Comments};
use super::table::Status;
use super::{adapters, artifact, profile, report, risks, state, task};
use crate::model::{Digest, RelPath, without_bom};
use std::collections::{BTreeMap, BTreeSet};

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What §19 or §23 asks.
    pub what: &'static str,
    /// Every reason why it does not hold: file, and words.
    pub problems: Vec<(String, String)>,
}

/// The files of a repository that matter: all below `.kodingx/`, and the adapters'.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What our journal says of this board, where there is one.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Where each task stands.
    pub stands: BTreeMap<TaskId, Status>,
    /// Artifacts that we wrote for tasks that we know, each as we wrote it.
    pub artifacts: BTreeMap<String, Digest>,
    /// STATE.md's frontmatter as we wrote it last.
    pub state: Option<state::State>,
}

/// `archived`: tasks that were put away, and are there all the same. `journal`: `None` where this machine knows nothing of it.
pub fn check(
    files: &Files,
    folders: &BTreeSet<String>,
    archived: &BTreeSet<TaskId>,
    journal: Option<&Journal>,
) -> Vec<Item> {
    let tasks = BTreeMap::new();
    let mut checker = Checker { files, folders, archived, journal, manifest: None, tasks };
    checker.run()
}

struct Checker<'a> {
    files: &'a Files,
    folders: &'a BTreeSet<String>,
    archived: &'a BTreeSet<TaskId>,
    journal: Option<&'a Journal>,
    manifest: Option<Manifest>,
    tasks: BTreeMap<TaskId, (String, task::Task)>,
}

type Problems = Vec<(String, String)>;

impl Checker<'_> {
    fn run(&mut self) -> Vec<Item> {
        let structure = self.structure();
        let documents = self.documents();
        vec![
            Item { what: "`.kodingx/` matches §4", problems: structure },
            Item { what: "tasks and reports match §6 and §7", problems: documents },
            Item { what: "DoD profiles match §10", problems: self.profiles() },
            Item { what: "STATE.md is present and valid (§8)", problems: self.state() },
            Item {
                what: "verify artifacts exist for DONE tasks (§11)",
                problems: self.artifacts(),
            },
            Item { what: "overrides are recorded (§20)", problems: self.overrides() },
            Item { what: "risk links are honoured (§21)", problems: self.risks() },
            Item { what: "an adapter holds the contracts of §13", problems: self.adapter() },
        ]
    }

    fn has(&self, id: &TaskId) -> bool {
        self.tasks.contains_key(id) || self.archived.contains(id)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.files.get(path).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn structure(&mut self) -> Problems {
        let mut problems = Problems::new();
        match self.files.get(manifest::PATH).map(|bytes| manifest::parse(bytes)) {
            None => problems
                .push((manifest::PATH.to_owned(), "is missing; `agency init` makes it".to_owned())),
            Some(Err(found)) => problems.extend(told(&found)),
            Some(Ok(manifest)) => self.manifest = Some(manifest),
        }
        for folder in ["inbox", "outbox"] {
            let path = format!(".kodingx/{folder}");
            if !self.folders.contains(&path) {
                problems.push((path, "the folder is missing".to_owned()));
            }
        }
        let strange = |path: &&String| {
            let boxed = path.starts_with(".kodingx/inbox/") || path.starts_with(".kodingx/outbox/");
            boxed && !path.ends_with("/.gitkeep") && DocumentPath::parse(path).is_none()
        };
        for path in self.files.keys().filter(strange) {
            problems.push((path.clone(), "is not a name of §4".to_owned()));
        }
        let upper = |folder: &&String| folder.bytes().any(|byte| byte.is_ascii_uppercase());
        for folder in self.folders.iter().filter(upper) {
            problems.push((folder.clone(), "folder names are lower case".to_owned()));
        }
        problems
    }

    fn documents(&mut self) -> Problems {
        let mut problems = Problems::new();
        let zone = self.manifest.as_ref().map_or(Zone::UTC, |manifest| manifest.zone);
        for (path, bytes) in self.files {
            let Some(place) = DocumentPath::parse(path) else { continue };
            let Ok(rel) = RelPath::new(path.clone()) else { continue };
            match place.kind {
                DocumentKind::Task => match task::parse_in(bytes, &rel, zone) {
                    Err(found) => problems.extend(told(&found)),
                    Ok(task) => {
                        if let Some((other, _)) = self.tasks.get(&task.id) {
                            problems.push((path.clone(), format!("AG-05 has the id of `{other}`")));
                        }
                        self.tasks.insert(task.id.clone(), (path.clone(), task));
                    }
                },
                DocumentKind::Report => problems
                    .extend(report::parse_in(bytes, &rel, zone).err().iter().flat_map(|f| told(f))),
                DocumentKind::Audit => problems
                    .extend(report::parse_audit(bytes, &rel).err().iter().flat_map(|f| told(f))),
            }
        }
        for (path, task) in self.tasks.values() {
            for dep in task.depends_on.iter().filter(|dep| !self.has(dep)) {
                problems.push((path.clone(), format!("AG-27 depends on {dep}, which is not here")));
            }
        }
        problems
    }

    fn profiles(&self) -> Problems {
        let mut problems = Problems::new();
        let mut names: BTreeSet<String> = [profile::AUTO.to_owned()].into();
        for (path, bytes) in self.files.iter().filter(|(path, _)| path.starts_with(profile::FOLDER))
        {
            let Ok(rel) = RelPath::new(path.clone()) else { continue };
            match profile::parse(bytes, &rel) {
                Err(found) => problems.extend(told(&found)),
                Ok(profile) => drop(names.insert(profile.name)),
            }
        }
        for (path, task) in self.tasks.values() {
            if !names.contains(&task.dod_profile) {
                problems
                    .push((path.clone(), format!("there is no profile `{}`", task.dod_profile)));
            }
        }
        problems
    }

    fn state(&self) -> Problems {
        match self.files.get(state::PATH).map(|bytes| state::parse(bytes)) {
            None => vec![(state::PATH.to_owned(), "is missing; `agency init` makes it".to_owned())],
            Some(Err(found)) => told(&found).collect(),
            Some(Ok(state)) => {
                let mut problems = Problems::new();
                if !manifest::is_supported(&state.protocol) {
                    problems.push((
                        state::PATH.to_owned(),
                        format!("protocol {} is not agency/1.x", state.protocol),
                    ));
                }
                if self
                    .manifest
                    .as_ref()
                    .is_some_and(|manifest| manifest.protocol != state.protocol)
                {
                    problems.push((
                        state::PATH.to_owned(),
                        "names another protocol version than agency.json".to_owned(),
                    ));
                }
                problems.extend(self.edited_lists(&state));
                let last = state.last_verify.map(|last| last.artifact_path);
                if let Some(path) = last.filter(|path| !self.files.contains_key(path)) {
                    let problem = format!("`last_verify` names `{path}`, which is not here");
                    problems.push((state::PATH.to_owned(), problem));
                }
                problems
            }
        }
    }

    /// AG-15: lists that somebody else changed.
    fn edited_lists(&self, found: &state::State) -> Problems {
        let Some(ours) = self.journal.and_then(|journal| journal.state.as_ref()) else {
            return Problems::new();
        };
        let lists = [
            ("active_tasks", found.active_tasks == ours.active_tasks),
            ("blocked_tasks", found.blocked_tasks == ours.blocked_tasks),
            ("done_tasks_recent", found.done_tasks_recent == ours.done_tasks_recent),
            ("last_verify", found.last_verify == ours.last_verify),
        ];
        let edited = lists.iter().filter(|(_, same)| !same);
        let problem = |name: &str| format!("AG-15 `{name}` is not as `agency` wrote it");
        edited.map(|(name, _)| (state::PATH.to_owned(), problem(name))).collect()
    }

    /// AG-11: an artifact that would allow DONE, and that we did not write.
    fn forged(&self, task: &TaskId, file: &str, found: &artifact::Artifact) -> Option<String> {
        let journal = self.journal?;
        let adopted = !journal.artifacts.keys().any(|path| path.contains(task.as_str()))
            && journal.stands.get(task) == Some(&Status::Done);
        let bytes = self.files.get(file)?;
        let ours = journal.artifacts.get(file) == Some(&Digest::of(bytes));
        let forged = found.allows_done() && !ours && !adopted;
        forged.then(|| format!("AG-11 the artifact of {task} is not as `agency` wrote it"))
    }

    /// The newest artifact of each task.
    fn newest(&self) -> BTreeMap<TaskId, (&str, artifact::Artifact)> {
        let mut newest: BTreeMap<TaskId, (&str, artifact::Artifact)> = BTreeMap::new();
        for (path, bytes) in self.files.iter().filter(|(path, _)| path.ends_with(".verify.json")) {
            let Ok(found) = serde_json::from_slice::<artifact::Artifact>(without_bom(bytes)) else {
                continue;
            };
            let later = newest
                .get(&found.task_id)
                .is_none_or(|(_, known)| known.timestamp <= found.timestamp);
            if later {
                newest.insert(found.task_id.clone(), (path, found));
            }
        }
        newest
    }

    fn artifacts(&self) -> Problems {
        let newest = self.newest();
        let mut problems = Problems::new();
        for (id, (file, found)) in &newest {
            let problem = self.forged(id, file, found);
            problems.extend(problem.map(|problem| ((*file).to_owned(), problem)));
        }
        for (path, task) in self.tasks.values().filter(|(_, task)| task.status == Status::Done) {
            let stands = self.journal.map(|journal| journal.stands.get(&task.id));
            if let Some(stands) = stands.filter(|stands| *stands != Some(&Status::Done)) {
                let word = stands.map_or("NEW", |status| status.word());
                let problem = format!("AG-11 says DONE without our verify; {} is {word}", task.id);
                problems.push((path.clone(), problem));
            }
        }
        // What a subtask did was verified with its parent.
        let wanted = |task: &task::Task| task.status == Status::Done && task.parent.is_none();
        for (path, task) in self.tasks.values().filter(|(_, task)| wanted(task)) {
            match newest.get(&task.id) {
                None => {
                    problems.push((path.clone(), "is DONE without a verify artifact".to_owned()))
                }
                Some((file, found)) if !found.allows_done() => {
                    problems.push((
                        (*file).to_owned(),
                        format!("{} is DONE although its verify did not pass", task.id),
                    ));
                }
                Some(_) => {}
            }
        }
        problems
    }

    fn overrides(&self) -> Problems {
        let decisions = self.text(artifact::DECISIONS).unwrap_or_default();
        let mut problems = Problems::new();
        for (path, found) in self.newest().values() {
            let Some(by) = &found.overridden else { continue };
            if !decisions.contains(&format!("### {}:", by.decision_ref)) {
                problems.push((
                    (*path).to_owned(),
                    format!("{} is not in DECISIONS.md", by.decision_ref),
                ));
            }
            if !self.has(&by.followup_task) {
                problems.push((
                    (*path).to_owned(),
                    format!("the follow-up {} does not exist", by.followup_task),
                ));
            }
        }
        problems
    }

    fn risks(&self) -> Problems {
        let register = risks::parse(&self.text(risks::PATH).unwrap_or_default());
        let newest = self.newest();
        let mut problems = Problems::new();
        for risk in register.iter().filter(|r| r.priority.is_none() || r.status.is_none()) {
            let file = format!("{}:{}", risks::PATH, risk.line);
            problems.push((file, format!("AG-20 {} {}", risk.id, risk.lacks())));
        }
        for (path, task) in self.tasks.values() {
            for id in task.risks.iter().filter(|id| register.iter().all(|risk| risk.id != **id)) {
                problems.push((
                    path.clone(),
                    format!("AG-20 names the risk {id}, which is not in RISKS.md"),
                ));
            }
            let check = risks::check(&task.id, &task.risks, &register);
            let overridden =
                newest.get(&task.id).is_some_and(|(_, found)| found.overridden.is_some());
            if task.status == Status::Done
                && !overridden
                && let Some(reason) = check.blocking_reason
            {
                problems.push((path.clone(), format!("AG-20 is DONE although {reason}")));
            }
        }
        problems
    }

    fn adapter(&self) -> Problems {
        let tool = self.manifest.as_ref().and_then(|manifest| Tool::parse(&manifest.orchestrator));
        let Some(tool) = tool else {
            return vec![(manifest::PATH.to_owned(), "names no orchestrator".to_owned())];
        };
        let other = tool.other_file().filter(|path| self.files.contains_key(*path));
        let path = match other {
            Some(other) if !self.files.contains_key(tool.file()) => other.to_owned(),
            Some(_) | None => tool.file().to_owned(),
        };
        let Some(text) = self.text(&path) else {
            return vec![(
                path,
                format!(
                    "is missing: {} reads its rules there; `agency init` makes it",
                    tool.word()
                ),
            )];
        };
        let Some(block) = region::find(&text, Comments::Markdown) else {
            return vec![(path, "has no region of ours; `agency init` puts it in".to_owned())];
        };
        let lacks = CONTRACTS.iter().filter(|(heading, words)| {
            !block.contains(&format!("## {heading}")) || !block.contains(words)
        });
        let mut problems: Problems = lacks
            .map(|(heading, _)| (path.clone(), format!("lacks the contract `{heading}` of §13")))
            .collect();
        if tool == Tool::Aider {
            let config = self.text(adapters::AIDER_CONFIG);
            if !matches!(adapters::aider_config(config.as_deref()), Ok(None)) {
                problems
                    .push((adapters::AIDER_CONFIG.to_owned(), format!("does not read `{path}`")));
            }
        }
        problems
    }
}

fn told(found: &[crate::model::Rejection]) -> impl Iterator<Item = (String, String)> + '_ {
    found.iter().map(|problem| {
        let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
        let file = format!("{}{line}", problem.file);
        (file, format!("{} found {}; wanted {}", problem.rule, problem.found, problem.wanted))
    })
}
