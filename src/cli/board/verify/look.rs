//! What a verify rests on: the owner's last commit where there is git, the tree as it is, the profile and the risks. It writes nothing.

use super::super::super::audit::Vault;
use super::super::super::exit::{Misused, Refused};
use super::super::runner::{Runner, Step};
use super::super::{Place, bytes, refused, signals, unchecked};
use super::Args;
use crate::clock;
use crate::git::Repo;
use crate::model::{Change, CommitId, RelPath, Sides, Snapshot, TreeId, to_compare, weakened};
use crate::protocol::board::artifact::{Artifact, Passed, Ran};
use crate::protocol::board::names::same_agent;
use crate::protocol::board::profile::{self, Profile};
use crate::protocol::board::task::Task;
use crate::protocol::board::{FILE_MAX, PROTOCOL, risks, scope};

/// One repository at one moment.
pub(super) struct Look<'a> {
    place: &'a Place,
    git: Option<Repo>,
    snapshot: Option<Snapshot>,
    base: Option<CommitId>,
    /// What git may obey while we look.
    _vault: Vault,
}

impl<'a> Look<'a> {
    /// `base`: the commit at which a person began the task, where our journal knows it.
    pub(super) async fn at(
        place: &'a Place,
        task: &Task,
        base: Option<CommitId>,
    ) -> anyhow::Result<Self> {
        let git = Repo::open(&place.root).await?;
        let vault = Vault::new();
        if let Some(git) = &git {
            git.guard(vault.0.clone(), None)?;
        }
        let snapshot = match &git {
            Some(git) => {
                let since = base.as_ref().map(|base| TreeId::new(base.as_str()));
                Some(git.snapshot(&format!("verify/{}", task.id), since.as_ref()).await?)
            }
            None => None,
        };
        Ok(Self { place, git, snapshot, base, _vault: vault })
    }

    fn head(&self) -> Option<(&Repo, &CommitId)> {
        Some((self.git.as_ref()?, self.snapshot.as_ref()?.checkout.head.as_ref()?))
    }

    /// The owner's git e-mail.
    pub(super) async fn owner(&self) -> anyhow::Result<Option<String>> {
        match &self.git {
            Some(git) => Ok(git.owner_email().await?),
            None => Ok(None),
        }
    }

    /// A file as the last commit has it; as it lies there where no commit has it.
    async fn trusted(&self, path: &RelPath) -> anyhow::Result<(Option<Vec<u8>>, Option<String>)> {
        let here = bytes(&self.place.root, path.as_str())?;
        let Some((git, head)) = self.head() else { return Ok((here, None)) };
        let committed = git.file_at(head, path, FILE_MAX).await?;
        let note = (committed.is_some() && committed != here).then(|| {
            format!("`{path}` differs from the last commit; the committed one counts (AG-18)")
        });
        Ok((committed.or(here), note))
    }

    pub(super) async fn verify(
        &self,
        args: &Args,
        task: &Task,
        mut runner: Runner,
    ) -> anyhow::Result<Artifact> {
        let mut notes = Vec::new();
        let profile = self.profile(task, &mut notes).await?;
        let (register, note) = self.trusted(&RelPath::fixed(risks::PATH)).await?;
        notes.extend(note);
        let register = String::from_utf8_lossy(&register.unwrap_or_default()).into_owned();
        let risk_check = risks::check(&task.id, &task.risks, &risks::parse(&register));
        let gates = profile.as_ref().map(|profile| profile.commands.clone()).unwrap_or_default();
        let weakened = self.weakened(&gates).await?;
        notes.extend(self.delegation(task).await?);
        if let Some(profile) = &profile {
            let missing = unchecked(&self.place.root, profile);
            notes.extend(missing.iter().map(profile::Unchecked::note));
        }
        let commands = match &profile {
            Some(profile) => self.commands(task, profile, &mut runner, &mut notes).await?,
            None => Vec::new(),
        };
        let passed = !commands.is_empty()
            && commands.iter().all(|ran| ran.exit_code == 0)
            && risk_check.blocking_risks.is_empty();
        let linked = !risk_check.linked_risks.is_empty();
        Ok(Artifact {
            protocol: PROTOCOL.to_owned(),
            task_id: task.id.clone(),
            timestamp: self.place.manifest.zone.stamp(clock::now().wall),
            dod_profile: profile.map_or_else(|| task.dod_profile.clone(), |profile| profile.name),
            result: if passed { Passed::Pass } else { Passed::Fail },
            overridden: None,
            risk_check: (linked || args.check_risks).then_some(risk_check),
            weakened,
            commands,
            notes,
            tree: self.snapshot.as_ref().map(|snapshot| snapshot.tree.as_str().to_owned()),
        })
    }

    /// AG-20: said before any command runs, since no override changes it.
    pub(super) async fn refuse_blocking(&self, task: &Task) -> anyhow::Result<()> {
        let (register, _) = self.trusted(&RelPath::fixed(risks::PATH)).await?;
        let register = String::from_utf8_lossy(&register.unwrap_or_default()).into_owned();
        let check = risks::check(&task.id, &task.risks, &risks::parse(&register));
        match check.blocking_reason {
            Some(reason) => {
                Err(Refused(format!("{}: {reason}. It cannot be overridden (AG-20)", task.id))
                    .into())
            }
            None => Ok(()),
        }
    }

    async fn commands(
        &self,
        task: &Task,
        profile: &Profile,
        runner: &mut Runner,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Vec<Ran>> {
        if !profile.platform.fits(std::env::consts::OS) {
            notes.push(format!(
                "the profile `{}` is for {}, this is {}: nothing was run (AG-31)",
                profile.name,
                profile.platform.word(),
                std::env::consts::OS
            ));
            return Ok(Vec::new());
        }
        let mut commands = Vec::new();
        let count = profile.commands.len();
        for (at, command) in profile.commands.iter().enumerate() {
            let step = Step { number: at + 1, count, command };
            anstream::eprintln!("{step}");
            let ran = runner.run(task.id.as_str(), &step).await?;
            let mark = if ran.exit_code == 0 { "✓" } else { "✗" };
            anstream::eprintln!(
                "{mark} exit {} after {:.1}s",
                ran.exit_code,
                ran.duration_ms as f64 / 1000.0
            );
            commands.push(ran);
        }
        Ok(commands)
    }

    /// The task's profile, or what `auto` finds. `None`: nothing is known, and nothing never passes (AG-31).
    async fn profile(
        &self,
        task: &Task,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Option<Profile>> {
        let named = |name: &str| (name != profile::AUTO).then(|| name.to_owned());
        let wanted = named(&task.dod_profile).or_else(|| named(&self.place.manifest.dod_profile));
        let detected = signals(&self.place.root, profile::detect);
        let names = match (&wanted, &detected) {
            (Some(name), _) => vec![name.clone()],
            (None, Some(found)) => profile::auto_names(found),
            (None, None) => {
                notes.push("`auto` found nothing that it knows here; name a profile in the task or in agency.json".to_owned());
                return Ok(None);
            }
        };
        for name in &names {
            let path = profile::path_of(name)
                .ok_or_else(|| Misused(format!("`{name}` is not the name of a profile")))?;
            let (text, note) = self.trusted(&path).await?;
            notes.extend(note);
            if let Some(text) = text {
                let found = profile::parse(&text, &path).map_err(|problems| refused(&problems))?;
                return Ok(Some(found));
            }
        }
        match (wanted, profile::path_of(&names[0])) {
            (Some(name), Some(path)) => {
                Err(Refused(format!("there is no profile `{name}`: `{path}` is missing (AG-16)"))
                    .into())
            }
            _ => Ok(detected),
        }
    }

    /// §11.3, AG-25: a change of the orchestrator's own above the local limit is said.
    async fn delegation(&self, task: &Task) -> anyhow::Result<Option<String>> {
        let manifest = &self.place.manifest;
        let (Some((git, head)), Some(snapshot)) = (self.head(), &self.snapshot) else {
            return Ok(None);
        };
        if !same_agent(&task.assignee, &manifest.orchestrator) {
            return Ok(None);
        }
        // Commits since the task began count as well as what is not committed.
        let (from, changed): (&CommitId, Vec<&RelPath>) = match &self.base {
            Some(base) => (base, snapshot.changed.iter().map(|change| &change.path).collect()),
            None => (head, snapshot.dirty.iter().collect()),
        };
        let changed = changed.into_iter().filter(|path| !path.as_str().starts_with(scope::OURS));
        let changed: Vec<RelPath> = changed.cloned().collect();
        let sides = git.sides(Some(from), &snapshot.tree, &changed).await?;
        let lines: u64 = sides.iter().map(lines_changed).sum();
        let files = changed.len() as u64;
        let over = files > manifest.max_files || lines > manifest.max_lines;
        Ok(over.then(|| {
            let (most_files, most_lines) = (manifest.max_files, manifest.max_lines);
            format!("the orchestrator changed {files} files and about {lines} lines itself; above {most_files} files or {most_lines} lines it should delegate (AG-25)")
        }))
    }

    /// AG-18: gates that differ from the last commit, tests that are gone or skipped.
    async fn weakened(&self, commands: &[String]) -> anyhow::Result<Vec<String>> {
        let (Some((git, head)), Some(snapshot)) = (self.head(), &self.snapshot) else {
            return Ok(Vec::new());
        };
        let changed = snapshot.dirty.iter().filter(|path| !path.as_str().starts_with(scope::OURS));
        let changes: Vec<Change> =
            changed.map(|path| Change { path: path.clone(), to: None, new: false }).collect();
        let mut paths = to_compare(&changes, commands);
        let profiles =
            snapshot.dirty.iter().filter(|path| path.as_str().starts_with(profile::FOLDER));
        let profiles: Vec<RelPath> = profiles.cloned().collect();
        paths.extend(profiles.iter().cloned());
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let sides = git.sides(Some(head), &snapshot.tree, &paths).await?;
        let mut found = weakened(&sides, commands);
        // A profile that nobody had before loosens nothing.
        let loosened = |side: &&Sides| profiles.contains(&side.path) && side.before.is_some();
        found.extend(sides.iter().filter(loosened).map(|side| format!("`{}` changed", side.path)));
        Ok(found)
    }
}

/// Lines that only one side has.
fn lines_changed(side: &Sides) -> u64 {
    let text = |bytes: &Option<crate::model::Bytes>| {
        bytes
            .as_ref()
            .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
            .unwrap_or_default()
    };
    let (before, after) = (text(&side.before), text(&side.after));
    let mut counts: std::collections::HashMap<&str, i64> = std::collections::HashMap::new();
    before.lines().for_each(|line| *counts.entry(line).or_default() -= 1);
    after.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    counts.values().map(|count| count.unsigned_abs()).sum()
}
