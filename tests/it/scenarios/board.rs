//! Runs the folders of `tests/scenarios/board/`: a board with the files of `before/`, the steps of `given`, then what is decided in
//! the steps of `when` and what the board says in the end.

use super::review_loop::check_after;
use super::{check_each, files_below, folders, golden, root, show};
use crate::sheets::{Answer, MANIFEST, PROFILE, Task, asked_for};
use crate::world::{Entry, MakeProtocol, World};
use agency::model::*;
use agency::protocol::board::{Answers, Board, Limits, RepoFacts, table};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt::Write as _, fs, path::Path, time::Duration};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    covers: Vec<String>,
    #[serde(default)]
    house: House,
    /// How it came to this; not shown.
    #[serde(default)]
    given: Vec<Step>,
    when: Vec<Step>,
}

/// What the owner has configured.
#[derive(Deserialize, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum House {
    /// Builders `claude-code` and `codex`, the auditor `gemini`, everybody else is a person.
    #[default]
    Ordinary,
    /// The auditor is `claude-code` too.
    OneForBoth,
    /// Branches are left for a pull request.
    NoMerge,
    /// A set-up command runs in each new tree.
    SetUp,
    /// The steps say how the commands on the base commit end.
    Checked,
    /// The owner has not begun this board here.
    Unknown,
    /// There is no git, only files and people.
    NoGit,
    /// The auditor is started read-only, and its last message is its verdict.
    Speaking,
    /// The owner chose the auditor themselves: people's work is audited too.
    Audited,
    /// The auditor `gemini` is another of the same maker's as `claude-code`.
    SameMaker,
}

/// One thing that happens. The board settles after each.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Step {
    /// Somebody writes a task file into the owner's tree.
    Task(Box<Task>),
    /// A person writes a report into the owner's tree: `path` says where.
    Report(Box<Answer>),
    Write {
        path: String,
        text: String,
    },
    /// Somebody changes words of a file.
    Edit {
        path: String,
        from: String,
        to: String,
    },
    Remove(String),
    /// Something that no safe read accepts lies there.
    Odd {
        path: String,
        found: String,
    },
    /// The owner commits all that lies there.
    Commit(String),
    /// The builder of this task does its part and ends.
    Builder(Box<Part>),
    /// The auditor of this task does its part and ends.
    Auditor(Box<Part>),
    /// A command of the owner's that runs for this task ends with this exit code.
    Ran {
        task: String,
        code: i32,
    },
    /// The honest course of this task up to the role that works then, or to the end: `nobody`.
    Until {
        task: String,
        role: String,
    },
    /// A verb of the owner's about a task.
    Do(BTreeMap<String, String>),
    /// `agency verify` has run; what it found goes to the board.
    Verified(Box<Found>),
    Verb(Verb),
    /// `agency resume --accept-gate`.
    Accept(String),
    /// The owner checks out another branch.
    Checkout(String),
    /// Something is under way in the owner's checkout from now on, or nothing any more.
    Busy(Option<Busy>),
    /// Seconds.
    Pass(u64),
}

/// What an agent does in its tree.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Part {
    task: String,
    writes: BTreeMap<String, String>,
    removes: Vec<String>,
    /// It commits by itself.
    commits: Option<String>,
    /// `null`: it writes none.
    answer: Option<Answer>,
    /// What it says last, and writes nowhere. `DOCUMENT` stands for a well-formed one.
    says: Option<String>,
    outcome: Outcome,
}

impl Default for Part {
    fn default() -> Self {
        Self {
            task: "T0001".to_owned(),
            writes: BTreeMap::new(),
            removes: Vec::new(),
            commits: None,
            answer: Some(Answer::default()),
            says: None,
            outcome: Outcome::Ok,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Found {
    task: String,
    codes: Vec<i32>,
    weakened: Vec<String>,
    risks: Value,
    /// More words of the command: `override`, `reason`, `followup`, `approver`.
    words: BTreeMap<String, String>,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            task: "T0001".to_owned(),
            codes: vec![0],
            weakened: Vec::new(),
            risks: Value::Null,
            words: BTreeMap::new(),
        }
    }
}

fn limits() -> Limits {
    let agents = ["claude-code", "codex", "gemini"].map(str::to_owned);
    Limits { agents: agents.into(), ..Limits::default() }
}

fn board(limits: Limits) -> Box<dyn agency::protocol::Protocol> {
    Box::new(Board::new(RepoFacts { repo: "a1b2c3d4".to_owned(), git: true }, limits))
}

impl House {
    fn make(self) -> MakeProtocol {
        match self {
            Self::Ordinary | Self::Unknown | Self::Checked => || board(limits()),
            Self::OneForBoth => || board(Limits { auditor: "claude-code".to_owned(), ..limits() }),
            Self::NoMerge => || board(Limits { merge: None, ..limits() }),
            Self::Speaking => || board(Limits { answers: Answers::ByMessage, ..limits() }),
            Self::Audited => || board(Limits { audits_people: true, ..limits() }),
            Self::SameMaker => || {
                let makers =
                    ["claude-code", "gemini"].map(|who| (who.to_owned(), "claude".to_owned()));
                board(Limits { makers: makers.into(), ..limits() })
            },
            Self::SetUp => || board(Limits { setup: vec!["npm ci".to_owned()], ..limits() }),
            Self::NoGit => || {
                let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git: false };
                Box::new(Board::new(place, limits()))
            },
        }
    }
}

#[test]
fn every_board_folder_decides_as_written() {
    check_each("board", check);
}

// Each row, each way to it, and each refusal needs at least one folder.
#[test]
fn every_board_row_and_refusal_has_a_folder() {
    let texts: String = folders("board")
        .iter()
        .map(|folder| fs::read_to_string(folder.join("decision.txt")).unwrap())
        .collect();
    let words: BTreeSet<&str> = texts
        .split(|c: char| c.is_whitespace() || "():;,.".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let rows = table::TABLE.iter().map(|row| row.id);
    let refusals = [
        "AG-05", "AG-06", "AG-07", "AG-08", "AG-10", "AG-11", "AG-12", "AG-13", "AG-14", "AG-15",
        "AG-16", "AG-17", "AG-18", "AG-19", "AG-20", "AG-26", "AG-27", "AG-28", "AG-30", "AG-31",
        "AG-34", "AG-37", "AG-40", "AG-41", "DM-13", "SU-06",
    ];
    let missing: Vec<_> = rows.chain(refusals).filter(|id| !words.contains(id)).collect();
    assert!(missing.is_empty(), "no scenario shows {missing:?}");
}

fn check(folder: &Path) {
    let text = fs::read_to_string(folder.join("wake.yaml")).unwrap();
    let scene: Scene = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    assert!(!scene.covers.is_empty(), "{folder:?} covers nothing");
    let mut world = stage(&scene, folder);
    scene.given.iter().for_each(|step| play(&mut world, scene.house, step));
    let (decided, before) = (world.decisions.len(), world.files.clone());
    scene.when.iter().for_each(|step| play(&mut world, scene.house, step));
    let speaks = |decision: &&Decision| !decision.only_asks();
    let mut shown: Vec<String> =
        world.decisions[decided..].iter().filter(speaks).map(show).collect();
    if let Some(deadline) =
        world.protocol.decide(world.now).next_deadline.filter(|deadline| !deadline.is_patrol())
    {
        let wait = deadline.at.since(world.now.ticks);
        shown.push(format!("next look in {} s: {}\n", wait.as_secs(), deadline.why));
    }
    shown.push(summary(&world));
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
    let more = &world.decisions[decisions..];
    // A place to start in is not given again after a restart, so it may be asked for once more.
    let quiet = more.iter().all(Decision::only_asks);
    let more: Vec<String> = more.iter().map(show).collect();
    assert!(quiet, "{name}: after a restart\n{}", more.join("\n"));
}

/// The repository as its owner committed it, and the board begun.
fn stage(scene: &Scene, folder: &Path) -> World {
    let mut world = World::new(scene.house.make(), "2026-01-01T09:00:00Z".parse().unwrap());
    world.git = !matches!(scene.house, House::NoGit);
    world.write("README.md", "a shop\n");
    world.write(".kodingx/agency.json", MANIFEST);
    world.write(".kodingx/dod/profiles/tiny.yml", PROFILE);
    for (path, bytes) in files_below(&folder.join("before")) {
        world.write(&path, bytes);
    }
    if world.git {
        world.commit_all("the owner's first commit");
    }
    if !matches!(scene.house, House::Unknown) {
        world.look();
        world.command(Verb::Init, &[]);
        settle(&mut world, scene.house);
    }
    world
}

/// Until nothing moves. The commands on the base pass, unless the steps say how they end.
fn settle(world: &mut World, house: House) {
    world.settle().unwrap();
    let on_base = |world: &World| alive_in(world, "base").filter(|_| house != House::Checked);
    while let Some(run) = on_base(world) {
        world.end_run(&run.run, Outcome::Ok);
        world.settle().unwrap();
    }
}

fn alive_in(world: &World, role: &str) -> Option<Spawn> {
    let mut spawns = world.runs.values().filter(|run| run.end.is_none()).map(|run| &run.spawn);
    spawns.find(|spawn| spawn.role == role).cloned()
}

fn play(world: &mut World, house: House, step: &Step) {
    match step {
        Step::Task(task) => world.write(&task.path(), task.text()),
        Step::Report(answer) => {
            let path = answer.path.clone().unwrap();
            world.write(&path, answer.report(&path));
        }
        Step::Write { path, text } => world.write(path, text.as_str()),
        Step::Edit { path, from, to } => {
            let text = String::from_utf8(world.bytes(path).unwrap().to_vec()).unwrap();
            assert!(text.contains(from), "`{from}` is not in {path}:\n{text}");
            world.write(path, text.replace(from, to));
        }
        Step::Remove(path) => world.remove(path),
        Step::Odd { path, found } => {
            let wanted = "a plain file of at most 1048576 bytes".to_owned();
            let odd = Unreadable { found: found.clone(), wanted };
            world.files.insert(RelPath::new(path).unwrap(), Entry::Odd(odd));
        }
        Step::Commit(subject) => world.commit_all(subject),
        Step::Builder(part) => act(world, "builder", part),
        Step::Auditor(part) => act(world, "auditor", part),
        Step::Ran { task, code } => ran(world, task, *code),
        Step::Until { task, role } => return until(world, task, role),
        Step::Do(words) => {
            let words: Vec<_> = words.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            world.look();
            world.command(Verb::Do, &words);
        }
        Step::Verified(found) => verified(world, found),
        Step::Verb(verb) => {
            world.look();
            world.command(*verb, &[]);
        }
        Step::Accept(command) => {
            world.look();
            world.command(Verb::Resume, &[("accept-gate", command)]);
        }
        Step::Checkout(branch) => {
            let head = world.heads["main"].clone();
            world.heads.entry(branch.clone()).or_insert(head);
            world.branch = Some(branch.clone());
        }
        Step::Busy(busy) => {
            world.busy = *busy;
            world.busy_since = busy.map(|_| world.now.wall);
        }
        Step::Pass(seconds) => world.pass(Duration::from_secs(*seconds)),
    }
    settle(world, house);
}

/// The run of a task that is alive. A remediation works in its parent's tree.
fn alive(world: &World, task: &str, role: Option<&str>) -> Option<Spawn> {
    let mut spawns = world.runs.values().filter(|run| run.end.is_none()).map(|run| &run.spawn);
    spawns
        .find(|spawn| {
            let in_its_tree = matches!(&spawn.tree, TreeRef::Worktree(name) if name == task);
            (spawn.task == task || in_its_tree) && role.is_none_or(|role| spawn.role == role)
        })
        .cloned()
}

fn act(world: &mut World, role: &str, part: &Part) {
    let run = alive(world, &part.task, Some(role))
        .unwrap_or_else(|| panic!("no {role} works on {}:\n{}", part.task, summary(world)));
    let TreeRef::Worktree(tree) = &run.tree else { return act_in_main(world, role, part, &run) };
    for (path, text) in &part.writes {
        world.write_in(tree, path, text.as_str());
    }
    for path in &part.removes {
        let tree = world.worktrees.get_mut(tree).unwrap();
        tree.files.remove(&RelPath::new(path).unwrap());
    }
    if let Some(answer) = &part.answer {
        let ending = if role == "auditor" { "-audit.md" } else { "-report.md" };
        let asked = asked_for(&run.prompt, ending).expect("the prompt says where");
        let path = answer.path.clone().unwrap_or(asked);
        let answer = numbered(answer, &run);
        let text = if role == "auditor" { answer.audit(&path) } else { answer.report(&path) };
        world.write_in(tree, &path, text);
    }
    if let Some(message) = &part.commits {
        world.commit_in(tree, message);
    }
    world.pass(Duration::from_secs(60));
    let said = part.says.as_ref().map(|says| says.replace("DOCUMENT", &spoken(&run)));
    world.end_run_saying(&run.run, part.outcome.clone(), said);
}

/// An auditor looks at a person's work where it lies.
fn act_in_main(world: &mut World, role: &str, part: &Part, run: &Spawn) {
    assert_eq!(role, "auditor", "a {role} in the owner's tree");
    for (path, text) in &part.writes {
        world.write(path, text.as_str());
    }
    if let Some(answer) = &part.answer {
        let path = asked_for(&run.prompt, "-audit.md").expect("the prompt says where");
        world.write(&path, numbered(answer, run).audit(&path));
    }
    world.pass(Duration::from_secs(60));
    world.end_run_saying(&run.run, part.outcome.clone(), None);
}

/// `audit: ASKED` stands for the number of the audit that the prompt asks for.
fn numbered(answer: &Answer, run: &Spawn) -> Answer {
    let mut answer = answer.clone();
    if let Some(number) = answer.set.get_mut("audit") {
        *number =
            run.prompt.lines().find_map(|line| line.strip_prefix("audit: ")).map(str::to_owned);
    }
    answer
}

// covers: AG-35
#[test]
fn a_builder_is_told_its_scope_its_checks_and_whose_rules_are_not_its_own() {
    let mut world = World::new(House::Ordinary.make(), "2026-01-01T09:00:00Z".parse().unwrap());
    world.git = true;
    world.write(".kodingx/agency.json", MANIFEST);
    world.write(".kodingx/dod/profiles/tiny.yml", PROFILE);
    world.commit_all("the owner's first commit");
    world.look();
    world.command(Verb::Init, &[]);
    world.settle().unwrap();
    let any = "{ must_touch: [], may_touch: [\"**\"], must_not_touch: [] }".to_owned();
    for (id, scope) in [("T0001", None), ("T0002", Some(any))] {
        let set = scope.map(|scope| ("scope".to_owned(), Some(scope))).into_iter().collect();
        let task = Task { id: id.to_owned(), set, ..Task::default() };
        world.write(&task.path(), task.text());
    }
    settle(&mut world, House::Ordinary);
    let prompt = |id: &str| alive(&world, id, Some("builder")).unwrap().prompt;
    for words in [
        "You are the builder of T0001",
        "the orchestrator's rules in this repository's files do not apply to you",
        "You may change only files that match `work/**`, `broken`, but none that matches `work/secret/**`. ",
        "the profile `tiny`",
        "test ! -e broken",
        "Acceptance:\n- it works",
        "dod_passed: <true or false",
    ] {
        assert!(prompt("T0001").contains(words), "{words}\n{}", prompt("T0001"));
    }
    assert!(prompt("T0002").contains("You may change any file. "), "{}", prompt("T0002"));
}

/// The document that a prompt asks for.
fn spoken(run: &Spawn) -> String {
    let path = asked_for(&run.prompt, "-audit.md").expect("the prompt says where");
    let tree = run.prompt.lines().find_map(|line| line.strip_prefix("tree: ")).map(str::to_owned);
    Answer { set: [("tree".to_owned(), tree)].into(), ..Answer::default() }.audit(&path)
}

fn ran(world: &mut World, task: &str, code: i32) {
    let run = alive(world, task, None).filter(|run| run.command.is_some());
    let run = run.unwrap_or_else(|| panic!("no command runs for {task}:\n{}", summary(world))).run;
    let outcome =
        if code == 0 { Outcome::Ok } else { Outcome::Crash { how: format!("exit {code}") } };
    world.end_run(&run, outcome);
    world.runs.get_mut(&run).unwrap().end.as_mut().unwrap().exit_code = Some(code);
}

/// Everybody does their part well until it is this one's turn.
fn until(world: &mut World, task: &str, role: &str) {
    for turn in 0..20 {
        let Some(run) = alive(world, task, None) else {
            assert_eq!(role, "nobody", "nobody works on {task}:\n{}", summary(world));
            return;
        };
        if run.role == role {
            return;
        }
        let mut part = Part { task: task.to_owned(), ..Part::default() };
        part.answer = Some(Answer { body: format!("Turn {turn}.\n"), ..Answer::default() });
        match run.role.as_str() {
            "builder" => {
                part.writes.insert(format!("work/{task}.txt"), format!("{task}, turn {turn}\n"));
                act(world, "builder", &part);
            }
            "auditor" => act(world, "auditor", &part),
            _ => ran(world, task, 0),
        }
        world.settle().unwrap();
    }
    panic!("{task} comes to no end:\n{}", summary(world));
}

/// What the command line sends after it has run the checks itself.
fn verified(world: &mut World, found: &Found) {
    let tree = match world.git.then(|| world.snapshot()) {
        Some(Fact::Snapshot(snapshot)) => json!(snapshot.tree.as_str()),
        _ => Value::Null,
    };
    let passed = !found.codes.is_empty() && found.codes.iter().all(|code| *code == 0);
    let commands: Vec<Value> = (found.codes.iter())
        .map(|code| json!({"cmd": "test ! -e broken", "exit_code": code, "duration_ms": 1}))
        .collect();
    let mut artifact = json!({
        "protocol": "agency/1.0", "task_id": found.task, "timestamp": "2026-01-01T09:00:00+00:00",
        "dod_profile": "tiny", "result": if passed { "pass" } else { "fail" },
        "weakened": found.weakened, "commands": commands, "notes": [], "tree": tree,
    });
    if !found.risks.is_null() {
        artifact["risk_check"] = found.risks.clone();
    }
    let text = artifact.to_string();
    let mut words = vec![("do", "verified"), ("task", &found.task), ("artifact", &text)];
    words.extend(found.words.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    world.look();
    world.command(Verb::Do, &words);
}

/// Where everything stands in the end, in the words of the files.
fn summary(world: &World) -> String {
    let mut text = String::from("in the end\n");
    for (path, entry) in &world.files {
        if path.as_str().starts_with(".kodingx/inbox/")
            && let Entry::File { bytes, .. } = entry
        {
            let sheet = String::from_utf8_lossy(bytes);
            let status = sheet.lines().find_map(|line| line.strip_prefix("status: "));
            writeln!(text, "  {:<30} {}", path.file_name(), status.unwrap_or("no status")).unwrap();
        }
    }
    let status = world.protocol.status(world.now);
    writeln!(text, "  board     {}", status.summary).unwrap();
    for warning in status.detail["warnings"].as_array().into_iter().flatten() {
        writeln!(text, "  warns     {}", warning.as_str().unwrap()).unwrap();
    }
    for commit in world.log("main").iter().rev() {
        writeln!(text, "  main has  {}", commit.message.lines().next().unwrap()).unwrap();
    }
    let refs: Vec<_> = world.heads.keys().map(String::as_str).filter(|r| *r != "main").collect();
    writeln!(text, "  branches  {}", refs.join(" ")).unwrap();
    writeln!(text, "  trees     {}", joined(world.worktrees.keys().map(String::as_str))).unwrap();
    for run in world.runs.values().filter(|run| run.end.is_none()) {
        let spawn = &run.spawn;
        let stop = if run.stop.is_some() { ", to be stopped" } else { "" };
        writeln!(text, "  running   {} for {}{stop}", spawn.role, spawn.task).unwrap();
    }
    for (path, _, why) in &world.quarantine {
        writeln!(text, "  kept      {path}: {why}").unwrap();
    }
    text
}

fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}
