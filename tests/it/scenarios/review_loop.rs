//! Runs the folders of `tests/scenarios/review_loop/`: sets the loop up as `wake.yaml` says, then lets it run until quiet.

use super::{blessing, check_each, files_below, folders, golden, root, show};
use crate::world::{Entry, World};
use agency::model::*;
use agency::protocol::review_loop::{Limits, RepoFacts, ReviewLoop, table};
use serde::Deserialize;
use std::{collections::BTreeSet, fs, path::Path, time::Duration};

/// `wake.yaml`. What is not said is the ordinary case: a loop under way, its run ended a moment ago.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Scene {
    covers: Vec<String>,
    now: Timestamp,
    /// `null`: no loop was ever begun here.
    state: Option<SceneState>,
    turn_opened: Timestamp,
    run: Run,
    run_ended: Option<Timestamp>,
    outcome: Option<Outcome>,
    failures: u32,
    refusals: u32,
    /// Flags that an earlier version noted as judged.
    judged: Vec<String>,
    /// Review files that were absent when the loop began.
    absent: Vec<String>,
    /// Files that the owner had changed before the run began.
    owner_dirty: Vec<String>,
    /// Files that the run changed. They get new bytes.
    run_changes: Vec<String>,
    /// Files that an earlier try of this turn left. The owner has since changed and committed them.
    put_right: Vec<String>,
    /// The owner commits between our plan and our commit.
    owner_is_faster: bool,
    git: bool,
    push: bool,
    branch: String,
    busy: Option<Busy>,
    head_moved: bool,
    /// The run detached HEAD.
    detached: bool,
    /// A branch, or a tag, that appeared while the run was alive.
    ref_made: Option<String>,
    branch_rewritten: bool,
    /// The run planted this: git answers `planted_after` more times, then it is held with these words.
    planted: Option<String>,
    planted_after: u32,
    /// What the owner says once everything is quiet: `trust` also takes away what was planted.
    then: Option<Verb>,
    then_args: std::collections::BTreeMap<String, String>,
    /// How each gate ends after that.
    then_gates_end: Vec<Outcome>,
    odd_flag: Option<OddFlag>,
    flag_written: Option<Timestamp>,
    command: Option<SceneCommand>,
    /// The owner was not told yet that there is no map.
    map_untold: bool,
    /// The owner's mandates were others when the run began.
    mandates_changed: bool,
    /// What each review file held when we last looked.
    authored: std::collections::BTreeMap<String, String>,
    /// The owner has configured the gates `make check` and `make test`.
    gates: bool,
    /// The owner was not told yet that there is no gate.
    gates_untold: bool,
    /// How each gate ends, in order.
    gates_end: Vec<Outcome>,
    /// A file that a gate writes.
    gate_writes: Option<String>,
    /// Files as the last commit has them, where the run changed them.
    committed: std::collections::BTreeMap<String, String>,
    /// Further moments at which to look again.
    later: Vec<String>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Run {
    Alive,
    /// It was alive when we last decided, and its end is news.
    Ends,
    #[default]
    Ended,
    None,
    /// Nobody was started in this turn; its changes were made by hand.
    #[serde(rename = "by-hand")]
    ByHand,
}

#[derive(Deserialize)]
struct SceneState {
    steps: Vec<String>,
    step: String,
    phase: String,
    holder: String,
    #[serde(default = "one")]
    round: u32,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
struct OddFlag {
    found: String,
    wanted: String,
}

#[derive(Deserialize)]
struct SceneCommand {
    verb: Verb,
    #[serde(default)]
    args: std::collections::BTreeMap<String, String>,
}

impl Default for Scene {
    fn default() -> Self {
        let at = |text: &str| text.parse().unwrap();
        Self {
            covers: Vec::new(),
            now: at("2026-01-01T00:10:00Z"),
            state: None,
            turn_opened: at("2026-01-01T00:00:00Z"),
            run: Run::Ended,
            run_ended: None,
            outcome: None,
            failures: 0,
            refusals: 0,
            judged: Vec::new(),
            absent: Vec::new(),
            owner_dirty: Vec::new(),
            run_changes: Vec::new(),
            put_right: Vec::new(),
            owner_is_faster: false,
            git: true,
            push: false,
            branch: "main".to_owned(),
            busy: None,
            head_moved: false,
            detached: false,
            ref_made: None,
            planted: None,
            planted_after: 0,
            then: None,
            then_args: Default::default(),
            then_gates_end: Vec::new(),
            branch_rewritten: false,
            odd_flag: None,
            flag_written: None,
            command: None,
            map_untold: false,
            mandates_changed: false,
            authored: Default::default(),
            gates: false,
            gates_untold: false,
            gates_end: Vec::new(),
            gate_writes: None,
            committed: Default::default(),
            later: Vec::new(),
        }
    }
}

pub(crate) fn with_git() -> Box<dyn agency::protocol::Protocol> {
    make(true, false)
}

fn with_push() -> Box<dyn agency::protocol::Protocol> {
    make(true, true)
}

fn without_git() -> Box<dyn agency::protocol::Protocol> {
    make(false, false)
}

fn with_gates() -> Box<dyn agency::protocol::Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git: true };
    let gates = ["make check", "make test"].map(str::to_owned).to_vec();
    Box::new(ReviewLoop::new(place, Limits { gates, ..Limits::default() }))
}

fn make(git: bool, push: bool) -> Box<dyn agency::protocol::Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git };
    Box::new(ReviewLoop::new(place, Limits { push, ..Limits::default() }))
}

#[test]
fn every_folder_decides_as_written() {
    check_each("review_loop", check);
}

// Each row and each refusal needs at least one folder.
#[test]
fn every_row_and_every_refusal_has_a_folder() {
    let texts: String = folders("review_loop")
        .iter()
        .map(|folder| fs::read_to_string(folder.join("decision.txt")).unwrap())
        .collect();
    let words: BTreeSet<&str> = texts.split_whitespace().collect();
    let refusals = [
        "LP-03", "LP-04", "LP-05", "LP-06", "LP-07", "LP-08", "LP-10", "LP-11", "LP-19", "LP-20",
        "LP-12", "LP-13", "LP-14", "LP-15", "LP-17", "LP-18", "LP-25", "LP-28", "LP-29", "LP-31",
        "LP-33", "LP-35", "DM-04", "DM-13", "SU-03", "SU-10", "SU-06", "LP-22", "LP-30", "SE-01",
    ];
    let rows = table::TABLE.iter().map(|row| row.id);
    let missing: Vec<_> = rows.chain(refusals).filter(|id| !words.contains(id)).collect();
    assert!(missing.is_empty(), "no scenario shows {missing:?}");
}

// covers: LP-07, LP-32
#[test]
fn the_plans_text_of_the_step_is_in_every_prompt_of_it() {
    const PLAN: &str =
        "# Plan\n## Step 1: parse\nBuild the parser.\n## Step 2\nBuild the printer.\n";
    let mut world = World::new(with_git, "2026-01-01T00:00:00Z".parse().unwrap());
    world.write("README.md", "the project\n");
    world.commit_all("the owner's first commit");
    world.look();
    world.command(Verb::Init, &[("plan", PLAN)]);
    world.settle().unwrap();
    let turns = [
        ("claude-code", "proposed", "codex"),
        ("codex", "approved", "claude-code"),
        ("claude-code", "executed", "codex"),
        ("codex", "verified-clean", "claude-code"),
    ];
    for (agent, status, next) in turns {
        let spawn = world.alive().expect("an agent is at work").spawn.clone();
        let prompt = &spawn.prompt;
        assert!(prompt.contains("Build the parser.") && !prompt.contains("printer"), "{prompt}");
        assert!(!prompt.contains("advance"), "{prompt}");
        let stamp = world.now.wall.to_rfc3339();
        let flag = serde_json::json!({"agent": agent, "step": "1", "status": status, "nextAgent": next, "timestamp": stamp});
        world.write(".agent-status.json", flag.to_string());
        world.end_run(&spawn.run, Outcome::Ok);
        world.settle().unwrap();
    }
    let prompt = &world.alive().expect("the next step begins").spawn.prompt;
    assert!(prompt.contains("Build the printer.") && !prompt.contains("parser"), "{prompt}");
}

fn check(folder: &Path) {
    let text = fs::read_to_string(folder.join("wake.yaml")).unwrap();
    let scene: Scene = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    assert!(!scene.covers.is_empty(), "{folder:?} covers nothing");
    let mut world = stage(&scene, folder);
    let before = world.files.clone();
    world.settle().unwrap();
    for outcome in &scene.gates_end {
        end_gate(&mut world, &scene, outcome);
    }
    if let Some(verb) = scene.then {
        world.planted.take_if(|_| verb == Verb::Trust);
        let args = scene.then_args.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        world.command(verb, &args.collect::<Vec<_>>());
        world.settle().unwrap();
    }
    for outcome in &scene.then_gates_end {
        end_gate(&mut world, &scene, outcome);
    }
    for wait in &scene.later {
        world.pass(Duration::from_secs(wait.trim_end_matches('s').parse().unwrap()));
        world.settle().unwrap();
    }
    let mut shown: Vec<String> = world.decisions.iter().map(show).collect();
    if let Some(deadline) =
        world.protocol.decide(world.now).next_deadline.filter(|deadline| !deadline.is_patrol())
    {
        let wait = deadline.at.since(world.now.ticks);
        shown.push(format!("next look in {} s: {}\n", wait.as_secs(), deadline.why));
    }
    let name = folder.strip_prefix(root("")).unwrap().to_str().unwrap();
    golden(&format!("{name}/decision.txt"), &shown.join("\n"));
    check_after(folder, &before, &world);
}

fn end_gate(world: &mut World, scene: &Scene, outcome: &Outcome) {
    let gate = world.alive().filter(|run| run.spawn.command.is_some());
    let run = gate.expect("a gate is running").spawn.run.clone();
    if let Some(path) = &scene.gate_writes {
        world.write(path, "written by a gate\n");
    }
    world.end_run(&run, outcome.clone());
    world.settle().unwrap();
}

/// `after/` holds exactly the files that changed; a file that is gone is listed in `after/GONE`.
pub(super) fn check_after(
    folder: &Path,
    before: &std::collections::BTreeMap<RelPath, Entry>,
    world: &World,
) {
    let mut after = std::collections::BTreeMap::new();
    for (path, entry) in &world.files {
        if let (Entry::File { bytes, .. }, true) = (entry, before.get(path) != Some(entry)) {
            after.insert(path.to_string(), bytes.clone());
        }
    }
    let gone: Vec<_> = before.keys().filter(|path| !world.files.contains_key(path)).collect();
    if !gone.is_empty() {
        let lines: String = gone.iter().map(|path| format!("{path}\n")).collect();
        after.insert("GONE".to_owned(), lines.into_bytes());
    }
    let dir = folder.join("after");
    if blessing() {
        drop(fs::remove_dir_all(&dir));
        for (name, bytes) in &after {
            fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            fs::write(dir.join(name), bytes).unwrap();
        }
    }
    let wanted = files_below(&dir);
    let text = |files: &std::collections::BTreeMap<String, Vec<u8>>| {
        files
            .iter()
            .map(|(name, bytes)| format!("{name}:\n{}", String::from_utf8_lossy(bytes)))
            .collect::<String>()
    };
    assert_eq!(text(&wanted), text(&after), "{}: after/ differs", folder.display());
}

fn stage(scene: &Scene, folder: &Path) -> World {
    let make = if !scene.git {
        without_git
    } else if scene.gates {
        with_gates
    } else if scene.push {
        with_push
    } else {
        with_git
    };
    let mut world = World::new(make, scene.turn_opened);
    world.git = scene.git;
    world.owner_is_faster = scene.owner_is_faster;
    world.write("README.md", "the project\n");
    for (path, text) in &scene.committed {
        world.write(path, text.as_str());
    }
    if scene.git {
        world.commit_all("the owner's first commit");
    }
    if let Some(state) = &scene.state {
        let before = files_below(&folder.join("before"));
        let mandates = before.get("owner-mandates.json").map(|bytes| Digest::of(bytes));
        begin(&mut world, scene, state, mandates.filter(|_| !scene.mandates_changed));
    }
    for (name, bytes) in files_below(&folder.join("before")) {
        world.write(&name, bytes);
    }
    let flag = RelPath::fixed(".agent-status.json");
    if let Some(odd) = &scene.odd_flag {
        let (found, wanted) = (odd.found.clone(), odd.wanted.clone());
        world.files.insert(flag.clone(), Entry::Odd(Unreadable { found, wanted }));
    }
    disturb(&mut world, scene);
    world.planted = scene.planted.clone().map(|said| (scene.planted_after, said));
    let passed = (scene.now - scene.turn_opened).to_std().unwrap();
    world.pass(passed);
    if let (Some(stamp), Some(Entry::File { written, .. })) =
        (scene.flag_written, world.files.get_mut(&flag))
    {
        *written = stamp;
    }
    if let Some(command) = &scene.command {
        let args: Vec<_> = command.args.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        world.look();
        world.command(command.verb, &args);
    }
    world
}

/// The owner or an agent does something beside the files.
fn disturb(world: &mut World, scene: &Scene) {
    world.busy = scene.busy;
    if scene.head_moved {
        world.commit_all("an agent's own commit");
    }
    if let Some(name) = &scene.ref_made {
        let head = world.heads["main"].clone();
        world.heads.insert(name.clone(), head);
    }
    if scene.branch_rewritten {
        let tree = world.tree();
        world.heads.remove("main");
        world.commit_tree(tree, "a rewritten history");
    }
    if scene.detached {
        world.branch = None;
    }
    if scene.branch != "main" {
        let head = world.heads["main"].clone();
        world.heads.insert(scene.branch.clone(), head);
        world.branch = Some(scene.branch.clone());
    }
}

/// A loop that is under way: its state, its turn and, if wanted, its run.
fn begin(world: &mut World, scene: &Scene, state: &SceneState, mandates: Option<Digest>) {
    for path in &scene.owner_dirty {
        world.write(path, "the owner's unfinished work\n");
    }
    let run = RunId::new("a1b2c3d4-loop-0");
    let start = world_snapshot(world);
    for path in &scene.run_changes {
        world.write(path, format!("what the run wrote into {path}\n"));
    }
    for path in &scene.put_right {
        world.write(path, format!("what a failed try left in {path}\n"));
    }
    let left = (!scene.put_right.is_empty()).then(|| left(world, &scene.put_right));
    for path in &scene.put_right {
        world.write(path, "put right by the owner\n");
        world.commit_all("the owner commits");
    }
    let ended_at = scene.run_ended.unwrap_or(scene.now);
    let ended = (scene.run == Run::Ended).then(|| {
        serde_json::json!({"run": run, "outcome": scene.outcome.clone().unwrap_or(Outcome::Ok), "at": ended_at,
            "tail": "the end of its output", "looked": false})
    });
    let running = matches!(scene.run, Run::Alive | Run::Ends).then(
        || serde_json::json!({"run": run, "since": scene.turn_opened, "ticks": world.now.ticks}),
    );
    let loop_state = serde_json::json!({
        "currentStep": state.step, "currentRound": state.round, "phase": state.phase, "status": "starting",
        "activeAgent": state.holder, "steps": state.steps, "stepsComplete": [], "history": [], "escalations": [],
        "lastUpdated": scene.turn_opened,
    });
    let start = (scene.git && scene.run != Run::None).then_some(start);
    let turn = serde_json::json!({"opened": scene.turn_opened, "failures": scene.failures, "not_before": null,
        "round_limit": 8, "start": start, "run": running, "mandates": mandates, "checks": null, "refused": false, "ended": ended, "left": left, "look_again": false});
    let mut memos = vec![
        ("state", loop_state.clone()),
        ("turn", turn),
        ("refusals", serde_json::json!({"in_a_row": scene.refusals, "last": null})),
    ];
    if scene.git {
        memos
            .push(("anchor", serde_json::json!({"branch": "main", "commit": world.heads["main"]})));
    }
    if !scene.gates_untold {
        memos.push(("told-of-gates", serde_json::json!(true)));
    }
    if !scene.map_untold {
        memos.push(("told-of-map", serde_json::json!(true)));
    }
    let authored: Vec<_> = scene
        .authored
        .iter()
        .map(|(name, text)| {
            (format!("authored/{name}"), serde_json::json!(Digest::of(text.as_bytes())))
        })
        .collect();
    memos.extend(authored.iter().map(|(name, digest)| (name.as_str(), digest.clone())));
    let judged: Vec<_> =
        scene.judged.iter().map(|text| format!("judged/{}", Digest::of(text.as_bytes()))).collect();
    memos.extend(judged.iter().map(|name| (name.as_str(), serde_json::json!(true))));
    let absent: Vec<_> = scene.absent.iter().map(|name| format!("authored/{name}")).collect();
    memos.extend(absent.iter().map(|name| (name.as_str(), serde_json::json!("absent"))));
    let memo =
        memos.into_iter().map(|(name, value)| Memo { name: name.to_owned(), value: Some(value) });
    let decision = Decision { memo: memo.collect(), ..Decision::default() };
    world.protocol.absorb(&Wake::Decided(decision));
    if scene.run == Run::Ends {
        tell_the_end(world, scene, state, &run);
    }
    world.write(".review-loop-state.json", canonical(&loop_state));
}

/// The run ends now: its end will be the next news.
fn tell_the_end(world: &mut World, scene: &Scene, state: &SceneState, run: &RunId) {
    let spawn = Spawn {
        run: run.clone(),
        seat: Seat::new(&state.holder),
        role: String::new(),
        tree: TreeRef::Main,
        task: state.step.clone(),
        phase: state.phase.clone(),
        prompt: String::new(),
        why: String::new(),
        resume: None,
        command: None,
        access: Access::Write,
    };
    let known = crate::world::Run { spawn, end: None, told: false, stop: None };
    world.runs.insert(run.clone(), known);
    world.end_run(run, scene.outcome.clone().unwrap_or(Outcome::Ok));
}

/// The state file as the daemon writes it: the pinned order of keys.
fn canonical(state: &serde_json::Value) -> String {
    let keys = [
        "currentStep",
        "currentRound",
        "phase",
        "status",
        "activeAgent",
        "steps",
        "stepsComplete",
        "history",
        "escalations",
        "lastUpdated",
    ];
    let field = |key: &&str| {
        let value = serde_json::to_string_pretty(&state[*key]).unwrap();
        format!("  \"{key}\": {}", value.replace('\n', "\n  "))
    };
    format!("{{\n{}\n}}\n", keys.iter().map(field).collect::<Vec<_>>().join(",\n"))
}

/// The tree as the run found it, in the form that the loop remembers.
fn world_snapshot(world: &mut World) -> serde_json::Value {
    let Fact::Snapshot(snapshot) = world.snapshot() else { unreachable!() };
    serde_json::json!({"head": snapshot.checkout.head, "refs": snapshot.refs,
        "dirty": snapshot.dirty, "last": snapshot.tree})
}

/// What a try left, in the form that the loop remembers.
fn left(world: &mut World, paths: &[String]) -> serde_json::Value {
    let Fact::Snapshot(snapshot) = world.snapshot() else { unreachable!() };
    let change = |path: &String| {
        let object = Digest::of(world.bytes(path).unwrap()).to_string();
        Change {
            path: RelPath::new(path).unwrap(),
            to: Some(("100644".to_owned(), object)),
            new: true,
        }
    };
    let changed: Vec<_> = paths.iter().map(change).collect();
    serde_json::json!({"tree": snapshot.tree, "head": snapshot.checkout.head, "changed": changed,
        "dirty": snapshot.dirty})
}
