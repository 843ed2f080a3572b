//! A UTF-8 byte-order mark at the start of a file, which some editors write: the review loop and the board read past it in all of
//! their files. Handoffs are in `relay/spec.rs`, Codifica in `codifica/whole.rs`, the ledger in `ledger/lists.rs`.

use crate::board::{board, report, task};
use crate::e2e::stage::Stage;
use crate::loop_examples::{begun, end, flag, gates_of, seat};
use crate::world::World;

fn marked(text: &str) -> String {
    format!("\u{feff}{text}")
}

fn told(world: &World, rule: &str) -> bool {
    world.escalations.iter().any(|told| told.cause.rule.as_str() == rule)
}

const REQUEST: &str = "### CR-001: cache\n- **ID**: CR-001\n- **Round**: 1\n- **Severity**: low\n\
    - **Category**: quality\n- **File(s)**: src/a.rs:3\n- **Status**: open\n\nname it\n";

// covers: LP-04, LP-12, LP-13, LP-14, LP-18
#[test]
fn the_review_loop_reads_every_file_with_a_byte_order_mark() {
    let mandates = marked(r#"{"mandatedSteps": ["5"], "mandatedDecisions": ["no new tables"]}"#);
    let mut world =
        begun(&[("CODEBASE.md", &marked("the map\n")), ("owner-mandates.json", &mandates)]);
    let prompt = world.alive().unwrap().spawn.prompt.clone();
    assert!(prompt.contains("no new tables"), "{prompt}");
    world.write("ENG_REVIEW_RESPONSE.md", marked("Deferred: the cache\n"));
    let said = flag(&world, "proposed").to_string();
    world.write(".agent-status.json", marked(&said));
    end(&mut world);
    assert!(told(&world, "LP-13"), "the first line of the response was read");
    assert_eq!(seat(&world), "codex", "{:?}", world.escalations);
    world.write("ENG_REVIEW_COMMENTS.md", marked(REQUEST));
    let said = flag(&world, "reviewed").to_string();
    world.write(".agent-status.json", marked(&said));
    end(&mut world);
    assert_eq!(seat(&world), "claude-code", "{:?}", world.escalations);
    let package = marked(r#"{"scripts": {"test": "node --test"}}"#);
    assert_eq!(gates_of(&[("package.json", &package)]), ["npm test"]);
}

// covers: LP-14, LP-18, LP-29, LP-35
#[test]
fn check_and_adopt_read_a_loops_files_with_a_byte_order_mark() {
    let stage = Stage::new("sleep 1000");
    let theirs = r#"{"currentStep": "1", "currentRound": 1, "phase": "review", "status": "proposed",
        "activeAgent": "codex", "stepsComplete": [], "history": [], "escalations": [],
        "lastUpdated": "2026-01-01T00:00:00Z"}"#;
    stage.write(".review-loop-state.json", marked(theirs));
    stage.write("PLAN.md", marked("## Step 1\nBuild the door.\n"));
    stage.write("ENG_REVIEW_COMMENTS.md", marked(&REQUEST.replace("CR-001: cache", "CR-7: cache")));
    stage.write("CODEBASE.md", marked("# File map\n## API catalog\n## Step index\n"));
    stage.write("owner-mandates.json", marked("{\"mandatedSteps\": [\"1\"]}"));
    stage.ok(&["adopt", "--steps", "1", "--plan", "PLAN.md"]);
    assert_eq!(stage.state()["phase"], "review");
    let said = stage.agency(&["check"]);
    let wanted = "ENG_REVIEW_COMMENTS.md:2: found ID `CR-001`; wanted the heading's CR-7";
    assert!(said.out.contains(wanted), "the first line was read: {}{}", said.out, said.err);
    for file in ["CODEBASE.md", "owner-mandates.json", ".review-loop-state.json"] {
        assert!(!said.out.contains(file), "{}", said.out);
    }
}

// covers: AG-06, AG-07, AG-16, AG-20
#[test]
fn the_board_reads_every_file_with_a_byte_order_mark() {
    let stage = board();
    let file = task(&stage, &["--risk", "R-001"]);
    let register =
        "### R-001: Migration\n**Priority:** P2\n**Status:** MITIGATED\n**Linked Tasks:** T0001\n";
    stage.write(".kodingx/RISKS.md", marked(register));
    stage.ok(&["task", "start", "T0001"]);
    let report = report(&stage, &file, "READY_FOR_REVIEW", "");
    let file = file.to_str().unwrap().to_owned();
    let others = [".kodingx/agency.json", ".kodingx/dod/profiles/tiny.yml", &file, &report];
    for path in others {
        stage.write(path, marked(&stage.read(path).unwrap()));
    }
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "by an editor that writes marks"]);
    assert!(stage.ok(&["task", "list"]).contains("T0001"));
    let verified = stage.agency(&["verify", "--task", "T0001", "--check-risks"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    assert!(verified.out.contains("R-001 (P2 MITIGATED)"), "{}", verified.out);
    stage.ok(&["task", "done", "T0001"]);
    let said = stage.agency(&["check"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let wide: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    stage.write(".kodingx/agency.json", wide);
    let said = stage.agency(&["check"]);
    assert!(said.out.contains("UTF-16"), "{}{}", said.out, said.err);
}
