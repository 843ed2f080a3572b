//! Runs the folders of `tests/scenarios/handoff/`: plays the steps of `given`, then shows what is decided in the steps of `when`.

use super::review_loop::check_after;
use super::{check_each, folders, golden, root, show};
use crate::world::World;
use agency::model::*;
use agency::protocol::handoff::{Handoff, Limits, RepoFacts, table};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, collections::BTreeSet, fs, path::Path, time::Duration};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    covers: Vec<String>,
    #[serde(default = "yes")]
    git: bool,
    /// How it came to this; not shown.
    #[serde(default)]
    given: Vec<Step>,
    when: Vec<Step>,
}

fn yes() -> bool {
    true
}

/// One thing that happens. The relay settles after each.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    /// The owner begins a workflow.
    Start(String),
    /// The run that is alive, or somebody, writes a message.
    Message(Box<Draft>),
    /// Somebody writes a file.
    Write {
        path: String,
        text: String,
    },
    /// Somebody renames a message.
    Move {
        n: u32,
        from: String,
        to: String,
    },
    Copy {
        n: u32,
        from: String,
        to: String,
    },
    Remove {
        path: String,
    },
    /// Something that no safe read accepts lies there.
    Odd {
        path: String,
        found: String,
        wanted: String,
    },
    /// Somebody sets fields of the shared state.
    State(BTreeMap<String, Value>),
    /// Whoever runs commits everything.
    Commit(String),
    /// The run that is alive ends.
    End(Outcome),
    Command {
        verb: Verb,
        args: BTreeMap<String, String>,
    },
    Answer {
        n: u32,
        text: String,
    },
    /// Something was planted that git would run; `null`: it is gone.
    Planted(Option<String>),
    /// An operation of git's is under way in the tree; `null`: it is over.
    Busy(Option<Busy>),
    /// Seconds.
    Pass(u64),
    /// The planner hands on, and so on: the honest course up to the turn of this agent.
    Until(String),
}

/// A message that is well formed but for what is said here.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Draft {
    n: u32,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    folder: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    payload: Option<Value>,
    #[serde(default)]
    iteration: Option<u32>,
    /// Fields by their path; `null` removes.
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

pub(crate) fn uuid(n: u32) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

fn with_git() -> Box<dyn agency::protocol::Protocol> {
    make(true)
}

fn without_git() -> Box<dyn agency::protocol::Protocol> {
    make(false)
}

fn make(git: bool) -> Box<dyn agency::protocol::Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git };
    Box::new(Handoff::new(place, Limits { max_iterations: 2, ..Limits::default() }))
}

#[test]
fn every_handoff_folder_decides_as_written() {
    check_each("handoff", check);
}

// Each row and each refusal needs at least one folder.
#[test]
fn every_handoff_row_and_refusal_has_a_folder() {
    let texts: String = folders("handoff")
        .iter()
        .map(|folder| fs::read_to_string(folder.join("decision.txt")).unwrap())
        .collect();
    let words: BTreeSet<&str> = texts.split_whitespace().collect();
    let rows = table::TYPES.iter().map(|row| row.id);
    let rows =
        rows.chain(table::MOVES.iter().map(|row| row.id).filter(|id| !["HM1", "HM6"].contains(id)));
    let rows = rows.chain(table::RESULTS.iter().map(|row| row.id));
    let refusals = [
        "HO-01", "HO-02", "HO-04", "HO-05", "HO-06", "HO-07", "HO-08", "HO-11", "HO-13", "DM-04",
        "DM-13",
    ];
    let missing: Vec<_> = rows.chain(refusals).filter(|id| !words.contains(id)).collect();
    assert!(missing.is_empty(), "no scenario shows {missing:?}");
}

fn check(folder: &Path) {
    let text = fs::read_to_string(folder.join("wake.yaml")).unwrap();
    let scene: Scene = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    assert!(!scene.covers.is_empty(), "{folder:?} covers nothing");
    let mut world = World::new(
        if scene.git { with_git } else { without_git },
        "2026-01-01T00:00:00Z".parse().unwrap(),
    );
    world.git = scene.git;
    world.write("README.md", "the project\n");
    if scene.git {
        world.commit_all("the owner's first commit");
    }
    world.settle().unwrap();
    scene.given.iter().for_each(|step| play(&mut world, step));
    let (shown, before) = (world.decisions.len(), world.files.clone());
    scene.when.iter().for_each(|step| play(&mut world, step));
    let mut shown: Vec<String> = world.decisions[shown..].iter().map(show).collect();
    if let Some(deadline) =
        world.protocol.decide(world.now).next_deadline.filter(|deadline| !deadline.is_patrol())
    {
        let wait = deadline.at.since(world.now.ticks);
        shown.push(format!("next look in {} s: {}\n", wait.as_secs(), deadline.why));
    }
    let name = folder.strip_prefix(root("")).unwrap().to_str().unwrap();
    golden(&format!("{name}/decision.txt"), &shown.join("\n"));
    check_after(folder, &before, &world);
    restarted(&mut world, name);
}

/// A new daemon on the same disk and journal finds nothing new to do.
fn restarted(world: &mut World, name: &str) {
    let decisions = world.decisions.len();
    world.restart().unwrap();
    world.settle().unwrap();
    let more: Vec<String> = world.decisions[decisions..].iter().map(show).collect();
    // A place to start in is not given again after a restart, so it may be asked for once more.
    let only_asks = world.decisions[decisions..].iter().all(|decision| decision.only_asks());
    assert!(only_asks, "{name}: after a restart\n{}", more.join("\n"));
}

fn play(world: &mut World, step: &Step) {
    match step {
        Step::Start(text) => {
            world.look();
            world.command(Verb::Init, &[("type", "feature"), ("text", text)]);
        }
        Step::Message(draft) => put(world, draft),
        Step::Write { path, text } => world.write(path, text.as_str()),
        Step::Move { n, from, to } => {
            let text = take(world, *n, from);
            world.remove(&path(*n, from));
            world.write(&path(*n, to), text);
        }
        Step::Copy { n, from, to } => {
            let text = take(world, *n, from);
            world.write(&path(*n, to), text);
        }
        Step::Remove { path } => world.remove(path),
        Step::Odd { path, found, wanted } => {
            let odd = Unreadable { found: found.clone(), wanted: wanted.clone() };
            world.files.insert(RelPath::new(path).unwrap(), crate::world::Entry::Odd(odd));
        }
        Step::State(fields) => edit_state(world, fields),
        Step::Commit(subject) => world.commit_all(subject),
        Step::End(outcome) => {
            let run = world.alive().expect("a run is alive").spawn.run.clone();
            world.end_run(&run, outcome.clone());
        }
        Step::Command { verb, args } => {
            let args: Vec<_> = args.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            world.look();
            world.command(*verb, &args);
        }
        Step::Answer { n, text } => {
            let cause = world.escalations.iter().find(|it| it.cause.subject == uuid(*n)).unwrap();
            let id = cause.cause.id("a1b2c3d4");
            world.command(Verb::Do, &[("do", "answer"), ("id", &id), ("text", text)]);
        }
        Step::Busy(busy) => {
            world.busy = *busy;
            world.busy_since = busy.map(|_| world.now.wall);
        }
        Step::Planted(said) => world.planted = said.clone().map(|said| (0, said)),
        Step::Pass(seconds) => world.pass(Duration::from_secs(*seconds)),
        Step::Until(agent) => return until(world, agent),
    }
    world.settle().unwrap();
}

fn path(n: u32, folder: &str) -> String {
    format!(".claude/handoffs/{folder}/{}.json", uuid(n))
}

fn take(world: &World, n: u32, folder: &str) -> Vec<u8> {
    world.bytes(&path(n, folder)).unwrap_or_else(|| panic!("{n} is not in {folder}")).to_vec()
}

/// The honest course: each agent leaves what the next one needs. Messages 101, 102 …
fn until(world: &mut World, agent: &str) {
    for n in 101.. {
        let alive = world.alive().map(|run| run.spawn.seat.to_string()).unwrap_or_default();
        if alive == agent {
            return;
        }
        let kind = match alive.as_str() {
            "planner" => "task_handoff",
            "builder" => "review_request",
            "reviewer" => "fix_request",
            "fixer" => "rereview_request",
            other => panic!("nobody is alive but `{other}`"),
        };
        if alive == "planner" {
            world.write("specs/login.md", "# Login\n");
        } else {
            world.write("src/login.rs", format!("// by {alive} {n}\n"));
            world.commit_all(&format!("by {alive}"));
        }
        let state: Value =
            serde_json::from_slice(world.bytes(".claude/state.json").unwrap()).unwrap();
        let iteration = state["iteration"].as_u64().unwrap() as u32 + u32::from(alive == "fixer");
        let draft = Draft {
            n,
            kind: kind.to_owned(),
            folder: None,
            name: None,
            payload: None,
            iteration: Some(iteration),
            set: BTreeMap::new(),
        };
        put(world, &draft);
        world.settle().unwrap();
        let run = world.alive().unwrap().spawn.run.clone();
        world.end_run(&run, Outcome::Ok);
        world.settle().unwrap();
    }
}

fn put(world: &mut World, draft: &Draft) {
    let folder = draft.folder.as_deref().unwrap_or("pending");
    let mut message = message(world, draft, folder);
    for (at, value) in &draft.set {
        let (within, name) = at.rsplit_once('.').unwrap_or(("", at));
        let within = if within.is_empty() {
            String::new()
        } else {
            format!("/{}", within.replace('.', "/"))
        };
        let object = message.pointer_mut(&within).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => drop(object.remove(name)),
            value => drop(object.insert(name.to_owned(), value.clone())),
        }
    }
    let name = draft.name.clone().unwrap_or_else(|| format!("{}.json", uuid(draft.n)));
    let bytes = serde_json::to_vec_pretty(&message).unwrap();
    world.write(&format!(".claude/handoffs/{folder}/{name}"), bytes);
}

fn message(world: &World, draft: &Draft, folder: &str) -> Value {
    let head = world.head().map(|commit| commit.id.to_string()).unwrap_or_default();
    let (from, to, payload) = match draft.kind.as_str() {
        "task_handoff" => ("planner", "builder", json!({"spec": "specs/login.md"})),
        "review_request" => (
            "builder",
            "reviewer",
            json!({"spec": "specs/login.md", "commit": head, "files_changed": 1, "tests_added": 0}),
        ),
        "fix_request" => ("reviewer", "fixer", json!({"issues": ["src/login.rs:1 is wrong"]})),
        "rereview_request" => ("fixer", "reviewer", json!({"issues_fixed": 1, "commits": [head]})),
        "completion" => ("reviewer", "orchestrator", json!({"status": "approved"})),
        "escalation" => (
            "builder",
            "orchestrator",
            json!({"reason": "spec_ambiguity", "details": "Cannot determine auth method",
                "options": ["JWT", "Session", "OAuth"], "context": "spec line 45", "blocking": true}),
        ),
        _ => ("orchestrator", "builder", json!({"answer": "JWT", "in_reply_to": uuid(1)})),
    };
    json!({
        "schema_version": "1.0.0", "message_id": uuid(draft.n), "timestamp": world.now.wall, "from": from, "to": to,
        "type": draft.kind, "priority": "medium", "payload": draft.payload.clone().unwrap_or(payload),
        "context": {"workflow": "feature", "spec": "specs/login.md", "iteration": draft.iteration.unwrap_or(1)},
        "status": folder,
    })
}

fn edit_state(world: &mut World, fields: &BTreeMap<String, Value>) {
    let bytes = world.bytes(".claude/state.json").unwrap_or(b"{}").to_vec();
    let mut state: Value = serde_json::from_slice(&bytes).unwrap();
    for (at, value) in fields {
        let (within, name) = at.rsplit_once('.').unwrap_or(("", at));
        let within = if within.is_empty() {
            String::new()
        } else {
            format!("/{}", within.replace('.', "/"))
        };
        state.pointer_mut(&within).unwrap()[name] = value.clone();
    }
    world.write(".claude/state.json", serde_json::to_vec_pretty(&state).unwrap());
}
