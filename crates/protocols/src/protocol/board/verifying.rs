//! Verify and merge (spec 2 §11, AG-14, AG-18): the merge is planned in memory, that very tree is checked in a worktree of its own
//! by the profile of the target's commit, then the branch moves by compare-and-swap.

use super::artifact::{self, Artifact, NOT_RUN, Passed, Ran, TIMED_OUT};
use super::memory::{AcceptedReport, Check, Stage, Verified, Work};
use super::moves::Moves;
use super::names::TaskId;
use super::profile::{self, Profile, Signals};
use super::scope::OURS;
use super::state::LastVerify;
use super::work::{Job, Step};
use super::{Board, PROTOCOL, building, hand, risks};
use crate::model::{
    Bytes, CommandLine, CommitId, Decision, Digest, Effect, Fact, MergeStyle, Outcome,
    PlannedCommit, Query, RelPath, RunEnd, Seat, TreeRef, WrittenBy, clip, to_compare, weakened,
};

/// What of a failed command's output its builder sees.
const TAIL_MAX: usize = 4000;

/// The next set-up command of the owner's in the task's tree; after the last one the DoD runs on the base.
pub(super) fn setup(step: &Step<'_>) -> Decision {
    let Some(line) = step.board.limits.setup.get(step.work.setup) else {
        return step.to(Stage::Base);
    };
    if step.work.tries > 2 {
        return step.give_up(
            "AG-14",
            &format!("the set-up `{}` fails: {}", clip(line, 80), step.work.last),
        );
    }
    let mut decision = step.board.builder();
    let who = (Seat::new("setup"), "setup", step.id.as_str());
    let run = step.spawn(&mut decision, step.tree(), who, Job::Command(command(step, line)));
    step.keep(&mut decision, Work { run: Some(run), ..step.work.clone() });
    decision.finish()
}

pub(super) fn command(step: &Step<'_>, line: &str) -> CommandLine {
    CommandLine {
        line: line.to_owned(),
        by: WrittenBy::Owner,
        timeout_s: step.board.limits.verify_timeout.as_secs().max(1),
        clean: None,
    }
}

/// The merge as it would be now, what it is checked by, and a worktree with exactly that.
pub(super) fn plan(step: &Step<'_>) -> Option<Decision> {
    match planned(step) {
        Ok(decision) => Some(decision),
        Err(ask) => Some(*ask),
    }
}

/// Every question comes back as `Err`: it must be asked first.
fn planned(step: &Step<'_>) -> Result<Decision, Box<Decision>> {
    let ours = step.board.index.memory.ours.as_ref();
    let Some(target) = ours.and_then(|ours| ours.branch.clone()) else {
        return Ok(step.ask_owner(
            "AG-14",
            "there is no branch to merge into",
            "check out the branch that tasks belong to, then agency init".to_owned(),
        ));
    };
    let (Some(head), Fact::Tip(Some(tip))) =
        (&step.work.head, step.ask(Query::Tip { name: format!("refs/heads/{target}") })?)
    else {
        return Ok(step.again(Stage::Plan, "the target branch is gone"));
    };
    // Where nobody merges, what the merge would be is what the change is judged by.
    let style = step.board.limits.merge.unwrap_or(MergeStyle::Squash);
    let merge = match merging(step, &target, tip, head, style)? {
        Ok(planned) => planned,
        Err(decision) => return Ok(*decision),
    };
    let scope = building::scope_of(step, &building::outside_ours(&merge.changes));
    if let Some(back) = building::out_of_scope(step, &scope) {
        return Ok(back);
    }
    let profile = match profile(step, Some(tip))? {
        Ok(profile) => profile,
        // No builder can put that right.
        Err(why) => {
            let way = format!(
                "put the commands that must pass into a profile in `.kodingx/dod/profiles/`, name it in the task's `dod_profile`, \
                 commit `.kodingx`, then agency task request-changes {} --reason TEXT",
                step.id
            );
            return Ok(step.ask_owner("AG-16", &why, way));
        }
    };
    let risk_check = risk_check(step, Some(tip))?;
    let loosened = loosened(step, &merge, tip, &profile)?;
    let merge = step.board.limits.merge.map(|_| merge);
    let untouched = scope.untouched.iter().map(|glob| {
        format!("no file of `{glob}` was changed, though the scope's must_touch has it (AG-13)")
    });
    let notes = untouched.chain(unchecked(step, Some(tip), &profile)?).collect();
    Ok(prepare(step, (merge, head), profile, Findings { risks: risk_check, loosened, notes }))
}

fn merging(
    step: &Step<'_>,
    target: &str,
    tip: &CommitId,
    head: &CommitId,
    style: MergeStyle,
) -> Result<Result<PlannedCommit, Box<Decision>>, Box<Decision>> {
    let title = step.board.index.task(step.id).map(|task| task.title.clone()).unwrap_or_default();
    // The date of the move, not of the asking: the same question must stay the same.
    let query = Query::Merge {
        target: target.to_owned(),
        onto: tip.clone(),
        theirs: head.clone(),
        style,
        message: format!("{}: {title}\n\nAgency-Task: {}\n", step.id, step.id),
        date: step.known.since,
        // Our own folder is no part of any task's change (AG-14).
        keep: Some(RelPath::fixed(OURS.trim_end_matches('/'))),
    };
    let mut fact = step.ask(query.clone())?;
    // A target that moved is merged, as `git merge --ff` does it.
    if let (Fact::No, Query::Merge { target, onto, theirs, message, date, keep, .. }) =
        (fact, query)
    {
        let style = MergeStyle::Merge;
        fact = step.ask(Query::Merge { target, onto, theirs, style, message, date, keep })?;
    }
    if let Fact::Planned(planned) = fact {
        return Ok(Ok(planned.clone()));
    }
    let Fact::Conflict(paths) = fact else {
        let why = format!("the merge cannot be planned: {fact:?}");
        return Ok(Err(Box::new(step.again(Stage::Plan, &why))));
    };
    let names: Vec<String> = paths.iter().take(20).map(|path| format!("`{path}`")).collect();
    let why = format!("it conflicts with `{target}` in {}", names.join(", "));
    let reason = format!("{why}: merge `{target}` into your branch and resolve it");
    Ok(Err(Box::new(building::send_back(step, "AG-14", &why, vec![reason]))))
}

/// A file as the commit has it; without git, as it lies there.
fn file_at(tip: Option<&CommitId>, path: RelPath) -> Query {
    match tip {
        Some(commit) => Query::FileAt { commit: commit.clone(), path },
        None => Query::Read { tree: TreeRef::Main, path },
    }
}

pub(super) fn risk_check(
    step: &Step<'_>,
    tip: Option<&CommitId>,
) -> Result<risks::RiskCheck, Box<Decision>> {
    let register = text_of(step.ask(file_at(tip, RelPath::fixed(risks::PATH)))?);
    let named = step.board.index.task(step.id).map(|task| task.risks.clone()).unwrap_or_default();
    Ok(risks::check(step.id, &named, &risks::parse(&register)))
}

/// The text of a file, empty where there is none.
fn text_of(fact: &Fact) -> String {
    let bytes = if let Fact::File(Some(bytes)) = fact { &bytes.0[..] } else { &[] };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The profile as the target's commit has it; `auto` by the files there.
pub(super) fn profile(
    step: &Step<'_>,
    tip: Option<&CommitId>,
) -> Result<Result<Profile, String>, Box<Decision>> {
    profile_at(step.board, step.id, tip)
}

/// The profile of a task, in a commit or, without one, as it lies in the owner's tree.
fn profile_at(
    board: &Board,
    id: &TaskId,
    tip: Option<&CommitId>,
) -> Result<Result<Profile, String>, Box<Decision>> {
    let at = |path: &RelPath| {
        let fact = board.ask(file_at(tip, path.clone()))?;
        let found = if let Fact::File(Some(bytes)) = fact { Some(bytes.0.clone()) } else { None };
        Ok::<_, Box<Decision>>(found)
    };
    let task = board.index.task(id);
    let wanted = task.map_or(profile::AUTO.to_owned(), |task| task.dod_profile.clone());
    let board_default = match &board.index.manifest {
        Some(Ok(manifest)) => manifest.dod_profile.clone(),
        Some(Err(_)) | None => profile::AUTO.to_owned(),
    };
    let named = [wanted, board_default].into_iter().find(|name| name != profile::AUTO);
    let mut found = std::collections::BTreeMap::new();
    if named.is_none() {
        let signals = profile::SIGNALS.iter().map(|name| file_at(tip, RelPath::fixed(name)));
        board.ask_all(signals.collect())?;
        for name in profile::SIGNALS {
            if let Some(bytes) = at(&RelPath::fixed(name))? {
                found.insert((*name).to_owned(), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }
    let names: Vec<String> = found.keys().cloned().collect();
    let detected =
        profile::detect(&Signals { names: &names, read: &|name| found.get(name).cloned() });
    let names = match (&named, &detected) {
        (Some(name), _) => vec![name.clone()],
        (None, Some(detected)) => profile::auto_names(detected),
        (None, None) => Vec::new(),
    };
    let paths: Vec<RelPath> = names.iter().filter_map(|name| profile::path_of(name)).collect();
    let Some(first) = paths.first() else {
        return Ok(Err(
            "`auto` found nothing to check by; the owner must name a profile (AG-31)".to_owned()
        ));
    };
    for path in &paths {
        if let Some(bytes) = at(path)? {
            return Ok(profile::parse(&bytes, path).map_err(|problems| {
                problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
            }));
        }
    }
    Ok(match (named, detected) {
        (None, Some(detected)) => Ok(detected),
        _ => Err(format!(
            "`{first}` is in no commit of the target branch; the owner must commit it (AG-16)"
        )),
    })
}

/// AG-42: languages of a commit that no command of the profile checks, for the artifact.
pub(super) fn unchecked(
    step: &Step<'_>,
    tip: Option<&CommitId>,
    profile: &Profile,
) -> Result<Vec<String>, Box<Decision>> {
    let Some(commit) = tip.filter(|_| profile::can_be_told(profile)) else {
        return Ok(Vec::new());
    };
    let query = Query::Named { commit: commit.clone(), names: profile::markers() };
    let Fact::Paths(paths) = step.ask(query)? else { return Ok(Vec::new()) };
    let files: Vec<String> = paths.iter().map(ToString::to_string).collect();
    Ok(profile::unchecked(profile, &files).iter().map(profile::Unchecked::note).collect())
}

/// AG-40: the profile that a task's work will be checked by is the one that the owner sees. `Err`: what is not committed.
pub(super) fn seen(
    board: &Board,
    id: &TaskId,
    tip: &CommitId,
) -> Result<Result<(), String>, Box<Decision>> {
    let (here, committed) = (profile_at(board, id, None)?, profile_at(board, id, Some(tip))?);
    Ok(match (here, committed) {
        (Ok(here), Ok(committed)) if here == committed => Ok(()),
        // A profile that cannot be read in either place is told when it is needed (AG-16).
        (Err(_), Err(_)) => Ok(()),
        (Ok(seen), _) | (Err(_), Ok(seen)) => Err(seen.name),
    })
}

/// AG-18: what of the change loosens its own checks.
pub(super) fn loosened(
    step: &Step<'_>,
    merge: &PlannedCommit,
    tip: &CommitId,
    profile: &Profile,
) -> Result<Vec<String>, Box<Decision>> {
    let changes = building::outside_ours(&merge.changes);
    let paths = to_compare(&changes, &profile.commands);
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let fact = step.ask(Query::Sides { from: Some(tip.clone()), to: merge.tree.clone(), paths })?;
    Ok(if let Fact::Sides(sides) = fact {
        weakened(sides, &profile.commands)
    } else {
        vec![format!("the change could not be compared: {}", clip(&format!("{fact:?}"), 160))]
    })
}

/// What is known of a change before any command has run.
pub(super) struct Findings {
    pub(super) risks: risks::RiskCheck,
    pub(super) loosened: Vec<String>,
    pub(super) notes: Vec<String>,
}

fn prepare(
    step: &Step<'_>,
    merge: (Option<PlannedCommit>, &CommitId),
    profile: Profile,
    findings: Findings,
) -> Decision {
    let mut decision = step.board.builder();
    let (merge, head) = merge;
    if let Some(old) = &step.work.check {
        decision.effect(old.drop_tree());
    }
    let tree = format!("{}-verify-{}", step.work.tree, step.board.index.memory.decisions);
    let base = merge.as_ref().map_or(head, |planned| &planned.id);
    let wanted = step.worktree(&tree, &Check::branch(&tree), base, None);
    decision.effect(Effect::Worktree(Box::new(wanted)));
    let setups = step.board.limits.setup.len();
    let base = Some(base.clone());
    let check = Check { base, ..check_of(step, (tree, setups), merge, profile, findings) };
    step.keep(
        &mut decision,
        Work { stage: Stage::Verify, check: Some(check), ..step.work.clone() },
    );
    decision.finish()
}

/// What is to be run, and what is known before.
pub(super) fn check_of(
    step: &Step<'_>,
    place: (String, usize),
    merge: Option<PlannedCommit>,
    profile: Profile,
    findings: Findings,
) -> Check {
    let (tree, setups) = place;
    let fits = profile.platform.fits(step.board.limits.os);
    let notes = (!fits).then(|| {
        format!("the profile `{}` is for {} (AG-31)", profile.name, profile.platform.word())
    });
    Check {
        tree,
        base: None,
        merge,
        profile: profile.name,
        commands: if fits { profile.commands } else { Vec::new() },
        setups,
        setup: 0,
        ran: Vec::new(),
        output: String::new(),
        weakened: findings.loosened,
        risks: findings.risks,
        notes: notes.into_iter().chain(findings.notes).collect(),
    }
}

/// The next command in the merged tree, or the end of them.
pub(super) fn run(step: &Step<'_>) -> Option<Decision> {
    let check = step.work.check.as_ref()?;
    let setup = &step.board.limits.setup;
    let line = match setup.get(check.setup).filter(|_| check.setup < check.setups) {
        Some(line) => line,
        None => match check.commands.get(check.ran.len()) {
            Some(line) => line,
            None => return Some(step.to(Stage::Verified)),
        },
    };
    let mut decision = step.board.builder();
    let tree = if step.work.shared { TreeRef::Main } else { TreeRef::Worktree(check.tree.clone()) };
    let run = step.spawn(
        &mut decision,
        tree,
        (Seat::new("verify"), "verify", step.id.as_str()),
        Job::Command(command(step, line)),
    );
    step.keep(&mut decision, Work { run: Some(run), ..step.work.clone() });
    Some(decision.finish())
}

/// A command has ended.
pub(super) fn note(work: &mut Work, end: &RunEnd) {
    let Some(check) = work.check.as_mut() else { return };
    // Nobody saw how it ended: it is run again.
    if end.outcome == Outcome::Lost {
        return;
    }
    let code = if end.outcome == Outcome::Ok {
        0
    } else if matches!(end.outcome, Outcome::Timeout { .. }) {
        TIMED_OUT
    } else {
        end.exit_code.filter(|code| *code != 0).unwrap_or(NOT_RUN)
    };
    if code != 0 {
        check.output = tail(&end.tail);
    }
    if check.setup < check.setups {
        check.setup += 1;
        if code != 0 {
            check.notes.push(format!("a set-up command ended with {code}"));
        }
        return;
    }
    let cmd = check.commands.get(check.ran.len()).cloned().unwrap_or_default();
    check.ran.push(Ran { cmd, exit_code: code, duration_ms: 0 });
}

/// The end of a command's output.
pub(super) fn tail(text: &str) -> String {
    let from = text.len().saturating_sub(TAIL_MAX);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[from..].to_owned()
}

/// All commands have run: the artifact, then the merge, or back to the builder with the reasons.
pub(super) fn finish(step: &Step<'_>) -> Option<Decision> {
    let check = step.work.check.as_ref()?;
    let overridden = step.known.verified.as_ref().is_some_and(|verified| verified.overridden);
    let artifact = artifact_of(step, check);
    let blocked = artifact.blocking_risk().is_some();
    if let Some(objection) = artifact.objection().filter(|_| !overridden || blocked) {
        return Some(refused(step, check, &artifact, &objection));
    }
    let mut decision = step.board.builder();
    // A change that changes nothing is merged already.
    if let Some(merge) = check.merge.as_ref().filter(|merge| !merge.changes.is_empty()) {
        decision.effect(Effect::Merge(merge.clone()));
    }
    let work = Work { stage: Stage::Merged, not_before: None, ..step.work.clone() };
    record(step, &mut decision, &artifact, work, overridden);
    Some(decision.finish())
}

pub(super) fn artifact_of(step: &Step<'_>, check: &Check) -> Artifact {
    let base = &step.board.index.memory.base;
    let accepted = check.ran.iter().filter(|ran| ran.exit_code != 0 && base.allows(ran));
    let accepted = accepted.map(|ran| {
        format!("{}, as the owner accepted before the first builder (AG-40)", ran.words())
    });
    let notes = check.notes.iter().cloned().chain(accepted).collect();
    let passed = !check.ran.is_empty()
        && check.ran.iter().all(|ran| base.allows(ran))
        && check.risks.blocking_risks.is_empty();
    let linked = !check.risks.linked_risks.is_empty();
    Artifact {
        protocol: PROTOCOL.to_owned(),
        task_id: step.id.clone(),
        timestamp: step.board.zone().stamp(step.now.wall),
        dod_profile: check.profile.clone(),
        result: if passed { Passed::Pass } else { Passed::Fail },
        overridden: None,
        risk_check: linked.then(|| check.risks.clone()),
        weakened: check.weakened.clone(),
        commands: check.ran.clone(),
        notes,
        tree: check.merge.as_ref().map(|merge| merge.tree.as_str().to_owned()),
    }
}

pub(super) fn refused(
    step: &Step<'_>,
    check: &Check,
    artifact: &Artifact,
    objection: &str,
) -> Decision {
    let base = &step.board.index.memory.base;
    let failed = check.ran.iter().find(|ran| !base.allows(ran));
    match failed {
        Some(ran) => {
            let reason = format!("{}:\n{}", ran.words(), check.output);
            building::send_back(step, "AG-17", objection, vec![reason])
        }
        // What no builder can put right: risks, loosened gates, nothing to check.
        None => {
            let (rule, way) = match (artifact.blocking_risk(), artifact.weakened.is_empty()) {
                (Some(_), _) => ("AG-20", resolve_risk(step.id)),
                (None, true) => ("AG-20", override_it(step.id)),
                (None, false) => ("AG-18", override_it(step.id)),
            };
            step.ask_owner(rule, objection, way)
        }
    }
}

fn override_it(id: &TaskId) -> String {
    format!(
        "agency verify --task {id} --override --reason … --followup …, or agency task request-changes {id} --reason …"
    )
}

/// AG-20: only the register itself lets it go on.
fn resolve_risk(id: &TaskId) -> String {
    format!("put the risk right in `{}` and commit it, then agency task audit {id}", risks::PATH)
}

pub(super) fn record(
    step: &Step<'_>,
    decision: &mut crate::model::Builder,
    artifact: &Artifact,
    work: Work,
    overridden: bool,
) {
    let stem = step
        .board
        .index
        .find(step.id)
        .map(|(path, _)| path.file_name().trim_end_matches(".md").to_owned());
    let path = artifact::path(
        &stem.unwrap_or_else(|| step.id.to_string()),
        step.board.zone(),
        step.now.wall,
    );
    let path =
        RelPath::new(path).expect("BUG: a task's file name is checked before a path is made of it");
    let mut moves = Moves::new(step.board, step.now);
    if !overridden {
        let bytes = artifact.render();
        let digest = Digest::of(&bytes);
        decision.effect(Effect::Replace { path: path.clone(), bytes: Bytes(bytes), seen: None });
        moves.of(step.id).papers.insert(path.clone(), digest.clone());
        moves.of(step.id).verified = Some(Verified {
            artifact: AcceptedReport { path: path.clone(), digest },
            timestamp: artifact.timestamp.clone(),
            objection: None,
            tree: None,
            overridden: false,
        });
        moves.verified(LastVerify {
            task_id: step.id.clone(),
            timestamp: artifact.timestamp.clone(),
            result: artifact.result.word().to_owned(),
            artifact_path: path.to_string(),
        });
    }
    let merged = work.check.as_ref().and_then(|check| check.merge.clone());
    let merged = merged.map(|merge| merge.changes).unwrap_or_default();
    moves.of(step.id).work = Some(work);
    hand::credit(step.board, &mut moves, step.id, merged.iter().map(|change| &change.path));
    moves.into(decision, None);
}
