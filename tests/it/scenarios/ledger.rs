//! Scenarios of the ledger, `tests/scenarios/ledger/`: a project under way, one session of one agent that does what `wake.yaml` says,
//! and everything that follows until it is quiet or the next agent runs.

use super::{check_each, folders, golden, root, show};
use crate::world::World;
use agency::model::*;
use agency::protocol::ledger::{Ledger, Limits, RepoFacts, table};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// `wake.yaml`. What is not said is the ordinary case: IMPLEMENT of the first feature.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Scene {
    covers: Vec<String>,
    /// `current_phase`; the branch exists for all phases after IMPLEMENT.
    phase: String,
    /// No feature list yet.
    empty: bool,
    /// So many of the features pass already.
    passing: usize,
    /// A REVIEW let those pass.
    reviewed: bool,
    /// So often was the current feature rejected.
    rejected: usize,
    /// So many fixes of the current feature were tried.
    fixes: usize,
    refactor: bool,
    /// What the agent does in its worktree, in order.
    did: Vec<Did>,
    outcome: Outcome,
    /// Whether a command of the owner's follows.
    then: Option<Verb>,
    /// The owner never told us of this ledger.
    unknown: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Did {
    Write(BTreeMap<String, String>),
    Commit(String),
    /// `file#/json/pointer`: a value; a pointer that ends in `/-` appends.
    Set(BTreeMap<String, Value>),
    /// The same in the owner's own tree.
    SetMain(BTreeMap<String, Value>),
    /// The owner commits a file on the main branch.
    OwnerCommits(BTreeMap<String, String>),
    MergeToMain,
    DeleteBranch,
    /// The daemon looks while it runs.
    Look,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            covers: Vec::new(),
            phase: "IMPLEMENT".to_owned(),
            empty: false,
            passing: 0,
            reviewed: false,
            rejected: 0,
            fixes: 0,
            refactor: false,
            did: Vec::new(),
            outcome: Outcome::Ok,
            then: None,
            unknown: false,
        }
    }
}

pub(crate) fn make() -> Box<dyn agency::protocol::Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), name: "shop".to_owned(), git: true };
    Box::new(Ledger::new(place, Limits::default()))
}

#[test]
fn every_folder_decides_as_written() {
    check_each("ledger", check);
}

#[test]
fn every_row_and_every_forbidden_action_has_a_folder() {
    let texts: String = folders("ledger")
        .iter()
        .map(|folder| std::fs::read_to_string(folder.join("decision.txt")).unwrap())
        .collect();
    let words: BTreeSet<&str> = texts.split_whitespace().collect();
    let missing: Vec<_> =
        table::TABLE.iter().map(|row| row.id).filter(|id| !words.contains(id)).collect();
    assert!(missing.is_empty(), "no scenario shows {missing:?}");
    for agent in agency::protocol::ledger::words::AgentType::ALL {
        for action in table::Action::ALL.into_iter().filter(|action| !table::may(*agent, *action)) {
            use agency::protocol::ledger::words::AgentType;
            // Seen in refs, not in the documents: told in words of their own. The list is not there before its author.
            let by_refs = matches!(action, table::Action::Merge | table::Action::DeleteBranch);
            if by_refs || *agent == AgentType::Initializer {
                continue;
            }
            let said = format!("{} did {}", agent.word(), action.words());
            assert!(texts.contains(&said), "no scenario shows that {said}");
        }
    }
}

// covers: LG-16
#[test]
fn a_reviewer_is_asked_for_the_checklist_and_the_range() {
    let asked = |phase: &str| {
        let world = stage(&Scene { phase: phase.to_owned(), ..Scene::default() });
        world.alive().unwrap().spawn.prompt.clone()
    };
    let review = asked("REVIEW");
    for wanted in ["--checklist JSON", "--range-description TEXT", "maintainability"] {
        assert!(review.contains(wanted), "{wanted}: {review}");
    }
    let architecture = asked("ARCHITECTURE");
    for wanted in ["--checklist JSON", "structure, dependencies"] {
        assert!(architecture.contains(wanted), "{wanted}: {architecture}");
    }
}

fn check(folder: &Path) {
    let text = std::fs::read_to_string(folder.join("wake.yaml")).unwrap();
    let scene: Scene = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    assert!(!scene.covers.is_empty(), "{folder:?} covers nothing");
    let mut world = stage(&scene);
    let before = if scene.unknown { 0 } else { world.decisions.len() };
    play(&mut world, &scene);
    let mut shown: Vec<String> = world.decisions[before..].iter().map(show).collect();
    shown.push(summary(&world));
    let name = folder.strip_prefix(root("")).unwrap().to_str().unwrap();
    golden(&format!("{name}/decision.txt"), &shown.join("\n"));
}

/// The project on its main branch, the loop begun, the first agent running.
fn stage(scene: &Scene) -> World {
    let mut world = World::new(make, "2026-01-01T00:00:00Z".parse().unwrap());
    world.write("README.md", "a shop\n");
    for (name, document) in documents(scene) {
        world.write(name, format!("{}\n", serde_json::to_string_pretty(&document).unwrap()));
    }
    world.commit_all("the owner's first commit");
    if scene.phase != "IMPLEMENT" && scene.phase != "ARCHITECTURE" && !scene.empty {
        let branch = branch(scene).to_owned();
        world.heads.insert(branch.clone(), world.heads["main"].clone());
        let main = world.branch.replace(branch);
        world.write("src/health.py", "def health(): ...\n");
        world.commit_all("F001 as it was built");
        world.remove("src/health.py");
        world.branch = main;
    }
    if !scene.unknown {
        world.look();
        world.command(Verb::Init, &[]);
    }
    world.settle().unwrap();
    world
}

fn branch(scene: &Scene) -> &'static str {
    if scene.refactor { "refactor/arch-review-1" } else { "feature/f001-health" }
}

fn documents(scene: &Scene) -> Vec<(&'static str, Value)> {
    if scene.empty {
        return Vec::new();
    }
    let names = ["Health", "Login", "Search", "Cart", "Pay", "Ship"];
    let features: Vec<Value> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            // The last ones pass, so that the first is always the one at work.
            let mut feature = json!({"id": format!("F{:03}", at + 1), "name": name, "passes": at >= names.len() - scene.passing});
            if feature["passes"] == json!(true) {
                feature["passed_at"] = json!("2025-12-31T00:00:00Z");
            }
            feature
        })
        .collect();
    let feature = (!scene.refactor).then_some("F001");
    let reviewed = scene.phase != "IMPLEMENT" && scene.phase != "ARCHITECTURE";
    let current = |value: &str| if reviewed { json!(value) } else { Value::Null };
    let progress = json!({
        "project": {"name": "Shop", "created_at": "2025-12-31T00:00:00Z", "total_features": names.len()},
        "status": {"updated_at": "2025-12-31T00:00:00Z", "features_completed": scene.passing, "features_passing": scene.passing,
            "current_phase": scene.phase, "current_feature": feature.map_or(Value::Null, current),
            "current_branch": current(branch(scene)), "head_commit": "0000000"},
        "sessions": [{"session_id": 1, "agent_type": "INITIALIZER", "started_at": "2025-12-31T00:00:00Z",
            "completed_at": "2025-12-31T00:00:00Z", "summary": "The list", "features_touched": [], "outcome": "SUCCESS", "commits": []}],
    });
    let (agent, letter) = if scene.refactor { ("ARCHITECTURE", "A") } else { ("REVIEW", "R") };
    let earlier = earlier_reviews(scene);
    let id = earlier.len() + 1;
    let review = json!({"review_id": id, "feature_id": feature, "branch": feature.map(|_| branch(scene)), "agent_type": agent,
        "timestamp": "2025-12-31T00:00:00Z", "features_completed": scene.passing, "verdict": "REQUEST_CHANGES", "summary": "Not yet",
        "issues": {"critical": [], "major": [{"id": format!("{letter}{id}-M1"), "description": "errors are lost"}],
            "minor": [{"id": format!("{letter}{id}-m1"), "description": "a typo"}], "suggestions": []}});
    let fixes: Vec<Value> = (1..=scene.fixes)
        .map(|fix| json!({"fix_id": fix, "review_id": id, "feature_id": feature, "branch": branch(scene), "agent_type": "FIX",
            "timestamp": "2025-12-31T00:00:00Z", "issues_fixed": [], "issues_deferred": [], "tests_added": [],
            "merged_to_main": false, "pending_review": true}))
        .collect();
    let last = (scene.phase == "FIX" || scene.fixes > 0).then_some(review);
    let reviews: Vec<Value> = earlier.into_iter().chain(last).collect();
    vec![
        ("feature_list.json", json!({"project_name": "Shop", "features": features})),
        ("progress.json", progress),
        ("reviews.json", json!({"schema_version": "1.0", "reviews": reviews, "fixes": fixes})),
    ]
}

fn earlier_reviews(scene: &Scene) -> Vec<Value> {
    let passed = (0..if scene.reviewed { scene.passing } else { 0 })
        .map(|at| (format!("F{:03}", 6 - at), "PASS"));
    let rejected = (0..scene.rejected).map(|_| ("F001".to_owned(), "REJECT"));
    let review = |(at, (feature, verdict)): (usize, (String, &str))| {
        json!({"review_id": at + 1, "feature_id": feature, "branch": "feature/x", "agent_type": "REVIEW",
            "timestamp": "2025-12-31T00:00:00Z", "verdict": verdict, "issues": {}, "summary": "Looked at it"})
    };
    passed.chain(rejected).enumerate().map(review).collect()
}

fn play(world: &mut World, scene: &Scene) {
    if let Some(run) = world.alive().map(|run| run.spawn.clone()) {
        let TreeRef::Worktree(tree) = run.tree else { panic!("an agent in the owner's tree") };
        for did in &scene.did {
            act(world, &tree, did);
        }
        world.pass(std::time::Duration::from_secs(60));
        world.end_run(&run.run, scene.outcome.clone());
    }
    world.settle().unwrap();
    if let Some(verb) = scene.then {
        world.look();
        world.command(verb, &[]);
        world.settle().unwrap();
    }
}

fn act(world: &mut World, tree: &str, did: &Did) {
    let branch = world.worktrees[tree].branch.clone();
    match did {
        Did::Write(files) => {
            files.iter().for_each(|(path, text)| world.write_in(tree, path, text.as_str()))
        }
        Did::Commit(message) => world.commit_in(tree, message),
        Did::Set(values) => {
            for (place, value) in values {
                let (file, pointer) = place.split_once('#').unwrap();
                let path = RelPath::new(file).unwrap();
                let bytes = world.worktrees[tree].files.get(&path).cloned();
                world.write_in(tree, file, set(bytes.as_deref(), pointer, value));
            }
        }
        Did::SetMain(values) => {
            for (place, value) in values {
                let (file, pointer) = place.split_once('#').unwrap();
                let bytes = set(world.bytes(file), pointer, value);
                world.write(file, bytes);
            }
        }
        Did::OwnerCommits(files) => {
            files.iter().for_each(|(path, text)| world.write(path, text.as_str()));
            world.commit_all("the owner works too");
        }
        Did::MergeToMain => {
            let tip = world.heads[&branch].clone();
            world.heads.insert("main".to_owned(), tip);
        }
        Did::DeleteBranch => drop(world.heads.remove(&branch)),
        Did::Look => world.settle().unwrap(),
    }
}

fn set(bytes: Option<&[u8]>, pointer: &str, value: &Value) -> String {
    let mut document: Value =
        bytes.map_or(json!({}), |bytes| serde_json::from_slice(bytes).unwrap());
    if pointer.is_empty() {
        document = value.clone();
    } else if let Some(list) = pointer.strip_suffix("/-") {
        document.pointer_mut(list).unwrap().as_array_mut().unwrap().push(value.clone());
    } else {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = document.pointer_mut(parent).unwrap();
        match parent {
            Value::Object(object) => drop(object.insert(key.to_owned(), value.clone())),
            other => other[key.parse::<usize>().unwrap()] = value.clone(),
        }
    }
    format!("{}\n", serde_json::to_string_pretty(&document).unwrap())
}

/// What the main branch says in the end, and which refs there are.
fn summary(world: &World) -> String {
    let mut text = String::from("in the end\n");
    let main = &world.commits[&world.heads["main"]];
    let document = |name: &'static str| -> Value {
        let digest = main.tree.get(&RelPath::fixed(name));
        digest.map_or(Value::Null, |digest| serde_json::from_slice(&world.blobs[digest]).unwrap())
    };
    let (progress, reviews, features) =
        (document("progress.json"), document("reviews.json"), document("feature_list.json"));
    let status = &progress["status"];
    writeln!(
        text,
        "  next      {} {} {}",
        status["current_phase"], status["current_feature"], status["current_branch"]
    )
    .unwrap();
    let all = listed(&features, "features");
    let passing: Vec<_> = all
        .iter()
        .filter(|feature| feature["passes"] == json!(true))
        .map(|f| f["id"].as_str().unwrap())
        .collect();
    writeln!(
        text,
        "  passing   {}/{} [{}]",
        status["features_passing"],
        all.len(),
        passing.join(", ")
    )
    .unwrap();
    for review in listed(&reviews, "reviews") {
        writeln!(
            text,
            "  review    {} {} {} {}{}",
            review["review_id"],
            review["agent_type"],
            review["feature_id"],
            review["verdict"],
            review["trigger"].as_str().map(|why| format!(", {why}")).unwrap_or_default()
        )
        .unwrap();
        if let Some(checklist) = review.get("checklist") {
            let described = &review["commit_range"]["description"];
            writeln!(text, "            checklist {checklist}, range {described}").unwrap();
        }
    }
    for fix in listed(&reviews, "fixes") {
        let deferred: Vec<_> =
            listed(&fix, "issues_deferred").iter().map(|item| item["issue_id"].clone()).collect();
        let commits: Vec<_> =
            listed(&fix, "issues_fixed").iter().map(|item| item["commit"].is_string()).collect();
        writeln!(
            text,
            "  fix       {} of {}, merged {}, commits {commits:?}, deferred {}",
            fix["fix_id"],
            fix["review_id"],
            fix["merged_to_main"],
            json!(deferred)
        )
        .unwrap();
    }
    sessions(&progress, &mut text);
    places(world, main, &mut text);
    text
}

fn listed(whole: &Value, name: &str) -> Vec<Value> {
    whole[name].as_array().cloned().unwrap_or_default()
}

fn sessions(progress: &Value, text: &mut String) {
    for session in listed(progress, "sessions") {
        let subjects: Vec<_> =
            listed(&session, "commits").iter().map(|commit| commit["message"].clone()).collect();
        let range = if session["commit_range"].is_null() { "" } else { ", with a range" };
        writeln!(
            text,
            "  session   {} {} {} {}, commits {}{range}",
            session["session_id"],
            session["agent_type"],
            session["outcome"],
            session["summary"],
            json!(subjects)
        )
        .unwrap();
    }
}

/// Files and refs, who runs, and what was kept aside.
fn places(world: &World, main: &crate::world::Commit, text: &mut String) {
    let code: Vec<_> = main.tree.keys().map(RelPath::as_str).collect();
    writeln!(text, "  main has  {}", code.join(" ")).unwrap();
    let refs: Vec<_> = world.heads.keys().map(String::as_str).collect();
    writeln!(text, "  refs      {}", refs.join(" ")).unwrap();
    let running = world.alive().map(|run| format!("{} for {}", run.spawn.phase, run.spawn.task));
    writeln!(text, "  running   {}", running.as_deref().unwrap_or("nobody")).unwrap();
    for (path, _, why) in &world.quarantine {
        writeln!(text, "  kept      {path}: {why}").unwrap();
    }
}
