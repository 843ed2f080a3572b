//! A folder is a test: `before/` and `wake.yaml` in, `decision.txt` and `after/` out. `tests/scenarios/README.md` shows how to
//! add one.

mod board;
mod codifica;
mod handoff;
mod ledger;
mod review_loop;

pub(crate) use handoff::uuid;
pub(crate) use ledger::make as ledger_loop;
pub(crate) use review_loop::with_git as quiet_loop;

use agency::model::{Access, Decision, Effect, Query, RelPath};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub(crate) fn blessing() -> bool {
    std::env::var_os("AGENCY_BLESS").is_some()
}

/// Compares text with a file of the repository, or writes it when blessing.
pub(crate) fn golden(path: &str, text: &str) {
    let path = root(path);
    if blessing() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        return;
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == text,
        "{} differs (AGENCY_BLESS=1 rewrites it)\n--- wanted\n{wanted}\n--- got\n{text}",
        path.display()
    );
}

/// The scenario folders of a protocol, in order.
pub(crate) fn folders(protocol: &str) -> Vec<PathBuf> {
    let dir = root("tests/scenarios").join(protocol);
    let mut folders: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

/// Checks each scenario folder of a protocol whose name contains `AGENCY_SCENARIO`, and names all that fail.
fn check_each(protocol: &str, check: fn(&Path)) {
    let wanted = std::env::var("AGENCY_SCENARIO").unwrap_or_default();
    let chosen = folders(protocol).into_iter().filter(|dir| name_of(dir).contains(&wanted));
    let fails = |dir: &PathBuf| std::panic::catch_unwind(|| check(dir)).is_err();
    let failed: Vec<_> = chosen.filter(fails).map(|dir| name_of(&dir).to_owned()).collect();
    let list = failed.join("\n  ");
    assert!(failed.is_empty(), "{} scenarios of {protocol} fail:\n  {list}", failed.len());
}

fn name_of(folder: &Path) -> &str {
    folder.file_name().unwrap().to_str().unwrap()
}

/// The protocols that have scenario folders.
pub(crate) fn protocols() -> Vec<String> {
    let entries = fs::read_dir(root("tests/scenarios")).unwrap().map(Result::unwrap);
    let dirs = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    dirs.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

pub(crate) fn files_below(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// A decision as a reviewer reads it.
pub(crate) fn show(decision: &Decision) -> String {
    let mut text = String::new();
    if let Some(row) = &decision.row {
        writeln!(text, "row       {row}").unwrap();
    }
    for rejection in &decision.rejections {
        writeln!(text, "reject    {rejection}").unwrap();
    }
    for keyed in &decision.effects {
        writeln!(text, "{}", show_effect(&keyed.effect)).unwrap();
    }
    for memo in &decision.memo {
        let verb = if memo.value.is_some() { "remember" } else { "forget" };
        let value = match memo.name.as_str() {
            "refusals" => format!("  {}", memo.value.as_ref().unwrap()["in_a_row"]),
            _ => String::new(),
        };
        writeln!(text, "{verb:<9} {}{value}", memo.name.split('/').next().unwrap()).unwrap();
    }
    text
}

fn show_effect(effect: &Effect) -> String {
    match effect {
        Effect::Replace { path, .. } => format!("replace   {path}"),
        Effect::Create { path, .. } => format!("create    {path}"),
        Effect::Take { path, why, .. } => format!("take      {path}  {why}"),
        Effect::Move { from, to, .. } => format!("move      {from} -> {to}"),
        Effect::Amend { path, fields } => {
            let field = |field: &agency::model::Field| match &field.value {
                Some(value) => format!("{}={value}", field.at.join(".")),
                None => format!("-{}", field.at.join(".")),
            };
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("amend     {path}  {}", fields.join(" "))
        }
        Effect::Copy { from, to, .. } => format!("copy      {from} -> {to}"),
        Effect::Ask { query } => format!("ask       {}", show_query(query)),
        Effect::Lease { tree, seat, .. } => format!("lease     {tree:?} for {seat}"),
        Effect::Release { tree } => format!("release   {tree:?}"),
        Effect::Spawn(spawn) => {
            let reads = if spawn.access == Access::ReadOnly { ", read-only" } else { "" };
            format!(
                "spawn     {} as {} for {}/{}: {}{reads}",
                spawn.seat, spawn.role, spawn.task, spawn.phase, spawn.why
            )
        }
        Effect::Stop { run, why } => format!("stop      {run}  {why}"),
        Effect::Commit(planned) => {
            let paths: Vec<_> = planned.changes.iter().map(|change| change.path.as_str()).collect();
            format!("commit    {}  [{}]", planned.message.lines().next().unwrap(), paths.join(", "))
        }
        Effect::Merge(planned) => {
            let paths: Vec<_> = planned.changes.iter().map(|change| change.path.as_str()).collect();
            format!("merge     into {}  [{}]", planned.branch, paths.join(", "))
        }
        Effect::Worktree(wanted) => format!("worktree  {} on {}", wanted.name, wanted.branch),
        Effect::DropWorktree { name, branch: None } => format!("drop      {name}"),
        Effect::DropWorktree { name, branch: Some((branch, _)) } => {
            format!("drop      {name} and `{branch}`")
        }
        Effect::Ref { name, to, .. } => {
            format!("ref       {name} {}", if to.is_some() { "moved" } else { "deleted" })
        }
        Effect::Push { branch, .. } => format!("push      {branch}"),
        Effect::Escalate(escalation) => {
            let holds = if escalation.holds { " holds" } else { "" };
            let severity = format!("{:?}", escalation.severity).to_lowercase();
            format!("escalate  {} {severity}{holds}: {}", escalation.cause.rule, escalation.summary)
        }
        Effect::Resolve { cause, how } => format!("resolve   {}: {how}", cause.rule),
        Effect::Reply { answer, .. } => {
            format!("reply     {}: {}", if answer.accepted { "ok" } else { "no" }, answer.text)
        }
        Effect::Log(event) => format!("log       {}", event.event),
    }
}

fn show_query(query: &Query) -> String {
    match query {
        Query::Snapshot { label, since, .. } => {
            format!("snapshot {label}{}", if since.is_some() { " since" } else { "" })
        }
        Query::Plan { message, .. } => format!("plan {}", message.lines().next().unwrap()),
        Query::Merge { target, .. } => format!("merge into {target}"),
        Query::Sides { paths, .. } => {
            let paths: Vec<_> = paths.iter().map(RelPath::as_str).collect();
            format!("sides of {}", paths.join(", "))
        }
        Query::Tip { name } => format!("tip {name}"),
        Query::Branches { name } => format!("branches {name}"),
        Query::Touched { .. } => "touched".to_owned(),
        Query::Range { .. } => "range".to_owned(),
        Query::Read { tree, path } => format!("read {path} of {tree:?}"),
        Query::Contains { branch, .. } => format!("contains {branch}"),
        Query::FileAt { path, .. } => format!("{path} of a commit"),
        other => format!("{other:?}"),
    }
}
