//! The examples of spec 1, word for word (`tests/spec/loop-*`). The table is in `tables.rs`, the mandates are in `e2e/looping.rs`.

use crate::scenarios::root;
use crate::world::World;
use agency::model::*;
use agency::protocol::review_loop::{Limits, RepoFacts, ReviewLoop};
use serde_json::{Value, json};
use std::fs;

const FLAG: &str = include_str!("../spec/loop-flag.json");
const REQUEST: &str = include_str!("../spec/loop-change-request.md");
const REVIEW_FILES: &str = include_str!("../spec/loop-review-files.md");
const ESCALATIONS: &str = include_str!("../spec/loop-escalations.md");
const GATES: &str = include_str!("../spec/loop-gates.md");
const MAP: &str = include_str!("../spec/loop-codebase.md");
const COMMIT: &str = include_str!("../spec/loop-commit.txt");

fn make() -> Box<dyn agency::protocol::Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git: true };
    Box::new(ReviewLoop::new(place, Limits::default()))
}

/// A repository with these files and a loop of the steps 5 and 6.
pub(crate) fn begun(files: &[(&str, &str)]) -> World {
    // The example's flag is from this minute.
    let mut world = World::new(make, "2026-01-01T00:00:00Z".parse().unwrap());
    world.write("README.md", "the project\n");
    for (path, text) in files {
        world.write(path, *text);
    }
    world.commit_all("the owner's first commit");
    world.look();
    world.command(Verb::Init, &[("steps", "5,6")]);
    world.settle().unwrap();
    world
}

pub(crate) fn seat(world: &World) -> String {
    world.alive().map(|run| run.spawn.seat.to_string()).unwrap_or_default()
}

pub(crate) fn end(world: &mut World) {
    let run = world.alive().expect("a run is alive").spawn.run.clone();
    world.end_run(&run, Outcome::Ok);
    world.settle().unwrap();
}

/// The example's flag, with what the turn needs.
pub(crate) fn flag(world: &World, status: &str) -> Value {
    let mut flag: Value = serde_json::from_str(FLAG).unwrap();
    let (agent, next) = match seat(world).as_str() {
        "codex" => ("codex", "claude-code"),
        _ => ("claude-code", "codex"),
    };
    let next = if status == "approved" { "claude-code" } else { next };
    flag["agent"] = agent.into();
    flag["status"] = status.into();
    flag["nextAgent"] = next.into();
    flag["timestamp"] = json!(world.now.wall);
    flag
}

fn turn(world: &mut World, status: &str) {
    let flag = flag(world, status);
    world.write(".agent-status.json", flag.to_string());
    end(world);
}

/// A loop in `review`, with codex at work.
fn in_review() -> World {
    let mut world = begun(&[("CODEBASE.md", "the map\n")]);
    world.write("ENG_REVIEW_RESPONSE.md", "a proposal\n");
    turn(&mut world, "proposed");
    assert_eq!(seat(&world), "codex", "{:?}", world.escalations);
    world
}

// covers: LP-04, LP-06, LP-19
#[test]
fn the_flag_of_the_spec_moves_the_loop_and_the_commit_says_what_the_spec_says() {
    let mut world = begun(&[("CODEBASE.md", "the map\n")]);
    world.write("ENG_REVIEW_RESPONSE.md", "a proposal\n");
    world.write(".agent-status.json", FLAG);
    end(&mut world);
    assert_eq!(seat(&world), "codex", "{:?}", world.escalations);
    let message = COMMIT.trim_end().replace("<N>", "5").replace("<action>", "proposed");
    let subject = world.head().unwrap().message.lines().next().unwrap().to_owned();
    assert_eq!(subject, message);
    let folder = root("tests/scenarios/review_loop/141-the-specs-own-flag-is-accepted");
    assert_eq!(fs::read_to_string(folder.join("before/.agent-status.json")).unwrap(), FLAG);
}

// covers: LP-14
#[test]
fn the_form_of_a_change_request_is_accepted_with_each_of_its_words() {
    let name = "142-the-specs-own-change-request-is-malformed-until-it-is-filled-in";
    let folder = root("tests/scenarios/review_loop").join(name);
    let before = fs::read_to_string(folder.join("before/ENG_REVIEW_COMMENTS.md")).unwrap();
    assert_eq!(before, REQUEST);
    let words = |field: &str| -> Vec<&str> {
        let line = REQUEST.lines().find(|line| line.contains(field)).unwrap();
        line.split(": ").nth(1).unwrap().split(" | ").collect()
    };
    let (severities, categories) = (words("**Severity**"), words("**Category**"));
    assert_eq!((severities.len(), categories.len()), (4, 5));
    for severity in &severities {
        for category in &categories {
            let filled = REQUEST
                .replace("CR-NNN", "CR-001")
                .replace("Round**: N", "Round**: 1")
                .replace(&severities.join(" | "), severity)
                .replace(&categories.join(" | "), category)
                .replace("path:line", "src/a.rs:3");
            let mut world = in_review();
            world.write("ENG_REVIEW_COMMENTS.md", filled);
            turn(&mut world, "reviewed");
            assert_eq!(seat(&world), "claude-code", "{severity} {category}");
            assert!(world.escalations.is_empty(), "{:?}", world.escalations);
        }
    }
}

// covers: LP-17
#[test]
fn the_authors_of_the_review_files_are_those_of_the_table() {
    let rows: Vec<Vec<&str>> = REVIEW_FILES
        .lines()
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim()).collect())
        .collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let (file, author) = (row[0].trim_matches('`'), row[1].to_lowercase().replace(' ', "-"));
        for (mut world, who) in
            [(begun(&[("CODEBASE.md", "the map\n")]), "claude-code"), (in_review(), "codex")]
        {
            assert_eq!(seat(&world), who);
            world.write(file, "written now\n");
            world.settle().unwrap();
            let told = world.escalations.iter().any(|told| told.cause.rule.as_str() == "LP-17");
            assert_eq!(told, who != author, "{file} by {who}");
        }
    }
}

// covers: LP-23
#[test]
fn each_cause_of_an_escalation_has_its_rule() {
    // `causes.rs` has one test for each of them.
    let rules = [
        ("State is in an unknown/invalid transition", "LP-03"),
        ("Agent flag is rejected 3+ times in a row", "LP-10"),
        ("Lock is stale > 45 min with no active process", "LP-21"),
        ("Any agent directly modifies `.review-loop-state.json`", "LP-11"),
        ("`ENG_REVIEW_COMMENTS.md` is written by a non-Codex author", "LP-17"),
    ];
    let lines: Vec<&str> = ESCALATIONS.lines().map(|line| line.trim_start_matches("- ")).collect();
    assert_eq!(lines, rules.map(|(line, _)| line));
    let tests = fs::read_to_string(root("tests/it/causes.rs")).unwrap();
    for (line, rule) in rules {
        assert!(agency::rules::find(rule).is_some(), "{line}");
        let covered = tests.lines().any(|text| {
            text.starts_with("// covers:") && text.contains("LP-23") && text.contains(rule)
        });
        assert!(covered, "{rule}: {line}");
    }
}

/// The command lines that the daemon runs before the first agent.
pub(crate) fn gates_of(files: &[(&str, &str)]) -> Vec<String> {
    let mut world = begun(files);
    let mut gates = Vec::new();
    while let Some(run) = world.alive().filter(|run| run.spawn.command.is_some()) {
        gates.push(run.spawn.command.as_ref().unwrap().line.clone());
        end(&mut world);
    }
    gates
}

// covers: LP-22
#[test]
fn the_gates_of_the_spec_are_found_in_their_order() {
    let package = r#"{"scripts": {"lint": "eslint .", "test": "node --test"}}"#;
    let found = gates_of(&[("package.json", package), ("tsconfig.json", "{}")]);
    let wanted: Vec<&str> = GATES.lines().map(|line| line.split('`').nth(1).unwrap()).collect();
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    for (gate, wanted) in found.iter().zip(wanted) {
        assert!(gate.contains(wanted), "{gate} is not {wanted}");
    }
}

// covers: LP-18
#[test]
fn a_map_made_of_the_specs_own_lines_is_complete() {
    use agency::protocol::review_loop::check::{Files, problems};
    // Each part as a heading, and the example of a location as it stands.
    let text: String = MAP.lines().map(|line| line.replacen("- ", "## ", 1) + "\n").collect();
    let example = MAP.split('"').nth(1).unwrap().replace('X', "5");
    let text = format!("{text}\n{example}\n");
    let check = |lines: u64| {
        let files = Files { map: Some(text.as_bytes()), ..Files::default() };
        let said = problems(&files, &mut |_| Ok(lines));
        said.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(check(150), [""; 0]);
    assert!(check(149)[0].contains("`file.ts:100-150`: it has 149 lines"), "{:?}", check(149));
    for part in 0..3 {
        let less: String = text
            .lines()
            .enumerate()
            .filter(|(at, _)| *at != part)
            .map(|(_, line)| format!("{line}\n"))
            .collect();
        let files = Files { map: Some(less.as_bytes()), ..Files::default() };
        assert_eq!(problems(&files, &mut |_| Ok(200)).len(), 1, "without line {part}: {less}");
    }
}
