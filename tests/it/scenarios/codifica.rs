//! The folders of `scenarios/codifica/`: one edit of the state files, by a verb of ours or by somebody's own hand, and what the
//! rules say of it. `before/` is the last accepted version, `edited/` (if there) what somebody made of it.

use super::{blessing, check_each, files_below, folders, golden, root};
use agency::model::{RelPath, Timestamp};
use agency::protocol::codifica::{
    Action, Actor, Board, Config, Refusal, Stamp, State, Verdict, act, claim_next, judge, table,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// `wake.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    covers: Vec<String>,
    /// `human` or `agent:<name>`.
    by: String,
    /// A verb; none: `edited/` is judged.
    #[serde(rename = "do")]
    verb: Option<String>,
    id: Option<String>,
    reason: Option<String>,
    summary: Option<String>,
    text: Option<String>,
    to: Option<String>,
    status: Option<String>,
    path: Option<String>,
}

impl Scene {
    fn action(&self) -> Action {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (note, summary, reason) = (self.text.clone(), self.summary.clone(), text(&self.reason));
        match self.verb.as_deref().unwrap() {
            "claim" => Action::Claim,
            "note" => Action::Note { text: text(&self.text), summary },
            "submit" => Action::Submit { note, summary },
            "done" => Action::Done { note, summary },
            "return" => Action::Return { reason: self.reason.clone() },
            "block" => Action::Block { reason, by: None },
            "unblock" => {
                Action::Unblock { to: State::read(&text(&self.to)).unwrap(), reason: None }
            }
            "reject" => Action::Reject { reason },
            "reopen" => Action::Reopen { reason },
            "reclaim" => Action::Reclaim { reason },
            "request-block" => Action::RequestBlock { reason },
            "review" => Action::Review {
                status: Verdict::read(&text(&self.status)).unwrap(),
                reviewer: "someone".to_owned(),
                notes: vec![text(&self.text)],
            },
            "artifact" => Action::Artifact {
                path: RelPath::new(text(&self.path)).unwrap(),
                kind: "code".to_owned(),
            },
            other => panic!("no verb {other}"),
        }
    }
}

#[test]
fn every_folder_of_codifica_is_judged_as_written() {
    check_each("codifica", check);
}

// Each row and each refusal needs at least one folder.
#[test]
fn every_row_and_every_refusal_of_codifica_has_a_folder() {
    let texts: String = folders("codifica")
        .iter()
        .map(|folder| fs::read_to_string(folder.join("decision.txt")).unwrap())
        .collect();
    let words: BTreeSet<&str> =
        texts.split(|c: char| c.is_whitespace() || "()".contains(c)).collect();
    let refusals = [
        "CD-03", "CD-04", "CD-05", "CD-06", "CD-07", "CD-07a", "CD-07b", "CD-07c", "CD-07d",
        "CD-08", "CD-10", "CD-12", "CD-13", "CD-14", "CD-20", "CD-21", "CD-22", "CD-24",
    ];
    let rows = table::TABLE.iter().map(|row| row.id);
    let missing: Vec<_> = rows.chain(refusals).filter(|id| !words.contains(id)).collect();
    assert!(missing.is_empty(), "no scenario shows {missing:?}");
}

#[test]
fn codificas_folders_are_numbered_in_order() {
    for (at, folder) in folders("codifica").iter().enumerate() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("{:03}-", at + 1)), "{name} is out of order");
    }
}

fn check(folder: &Path) {
    let text = fs::read_to_string(folder.join("wake.yaml")).unwrap();
    let scene: Scene = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    assert!(!scene.covers.is_empty(), "{folder:?} covers nothing");
    let before = files_below(&folder.join("before"));
    let config = Arc::new(Config::read(&before["codifica.json"]).unwrap());
    let old = board(&config, &before);
    let actor = Actor::read(&scene.by).unwrap();
    let (shown, after) = match &scene.verb {
        Some(_) => by_verb(&scene, &old, &actor),
        None => {
            let mut edited = before.clone();
            edited.extend(files_below(&folder.join("edited")));
            (by_hand(&old, &board(&config, &edited), &actor), BTreeMap::new())
        }
    };
    let name = folder.strip_prefix(root("")).unwrap().to_str().unwrap();
    golden(&format!("{name}/decision.txt"), &shown);
    let dir = folder.join("after");
    if blessing() {
        drop(fs::remove_dir_all(&dir));
        for (name, bytes) in &after {
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(name), bytes).unwrap();
        }
    }
    assert_eq!(files_below(&dir), after, "{}: after/ differs", folder.display());
}

fn board(config: &Arc<Config>, files: &BTreeMap<String, Vec<u8>>) -> Board {
    let mut paths: Vec<RelPath> = files.keys().map(|name| RelPath::new(name).unwrap()).collect();
    paths.retain(|path| config.is_state(path));
    config.order(&mut paths);
    Board::read(
        config,
        paths.iter().map(|path| (path.clone(), files[path.as_str()].clone())).collect(),
    )
}

fn by_verb(scene: &Scene, old: &Board, actor: &Actor) -> (String, BTreeMap<String, Vec<u8>>) {
    let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let stamp = Stamp { at, session: Some("s-1".to_owned()), commit: Some("c0ffee".to_owned()) };
    let acted = match (&scene.id, actor) {
        (Some(id), _) => {
            act(old, id, actor, &scene.action(), &stamp).map(|acted| (id.clone(), acted))
        }
        (None, Actor::Agent(name)) => match claim_next(old, name, &stamp) {
            Ok(claimed) => Ok(claimed),
            Err(nothing) => return (format!("refuse  {nothing}\n"), BTreeMap::new()),
        },
        (None, _) => panic!("which task?"),
    };
    match acted {
        Ok((id, acted)) => {
            let state = |board: &Board| board.glance(&id).unwrap().state;
            let (from, to) = (state(old), state(&acted.board));
            let row = table::find(from, to).filter(|_| from != to).map_or("none", |row| row.id);
            let mut shown = format!("row     {row}  {id} {from} → {to} by {actor}\n");
            for warning in &acted.warnings {
                writeln!(shown, "warn    {warning}").unwrap();
            }
            (shown, BTreeMap::from([(acted.path.to_string(), acted.bytes)]))
        }
        Err(Refusal::Rules(findings)) => {
            let lines = findings.iter().map(|finding| format!("refuse  {finding}\n"));
            (lines.collect(), BTreeMap::new())
        }
        Err(other) => (format!("refuse  {other}\n"), BTreeMap::new()),
    }
}

fn by_hand(old: &Board, new: &Board, actor: &Actor) -> String {
    let findings = judge(old, new, actor);
    if findings.is_empty() {
        return format!("accept  by {actor}\n");
    }
    let word = |violation: bool| if violation { "find" } else { "warn" };
    findings
        .iter()
        .map(|finding| format!("{:<7} {finding}\n", word(finding.is_violation())))
        .collect()
}
