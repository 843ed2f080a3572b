//! The README's five-minute starts, word for word: each block is run in a fresh repository with the demo's agents in the seats.

use super::stage::{HONEST, Stage};
use crate::scenarios::root;
use std::fs;
use std::process::Command;

/// Heading, agents' script, what must be seen in what the block printed.
const STARTS: &[(&str, &str, &[&str])] = &[
    ("The review loop", "agent.sh", &["complete"]),
    ("Handoffs", "handoff.sh", &["completed"]),
    ("The ledger", "ledger.sh", &["5", "PASS"]),
    ("Codifica", "agent.sh", &["FEAT-1"]),
    ("The Agency board", "agent.sh", &["Fix VAT rounding"]),
];

const SEATS: [&str; 6] = ["claude-code", "codex", "planner", "builder", "reviewer", "fixer"];

/// The first block of shell below a heading.
fn block(readme: &str, heading: &str) -> String {
    let after = readme.split(&format!("### {heading}\n")).nth(1);
    let after = after.unwrap_or_else(|| panic!("README.md has no `### {heading}`"));
    let block = after.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("`{heading}` has no block of shell")).to_owned()
}

fn stage(script: &str) -> Stage {
    let stage = Stage::new(HONEST);
    let script = root("src/cli/demo").join(script);
    let program = env!("CARGO_BIN_EXE_agency");
    let agent = format!("{{ command: [sh, {}, {program}], backoff: 100ms }}", script.display());
    let agents: String = SEATS.iter().map(|seat| format!("  {seat}: {agent}\n")).collect();
    let roles: String = SEATS[2..].iter().map(|seat| format!("  {seat}: {seat}\n")).collect();
    stage.set_config(&format!("agents:\n{agents}roles:\n{roles}"));
    stage.write("CODEBASE.md", "# Map\n\n## Files\n- README.md:1\n\n## API catalog\n\n## Steps\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "the map"]);
    stage.git(&["config", "user.name", "Owner"]);
    stage.git(&["config", "user.email", "owner@example.com"]);
    stage
}

fn play(stage: &Stage, block: &str) -> String {
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_agency")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let ours = stage.program();
    let mut shell = Command::new("sh");
    shell.args(["-euc", block]).env_clear();
    shell.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.env("PATH", path).current_dir(stage.repo()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let more = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{block}\n{said}\n{more}");
    said
}

// covers: OP-01, OP-05
#[test]
fn each_five_minute_start_works_word_for_word() {
    let readme = fs::read_to_string(root("README.md")).unwrap();
    let part = readme.split("\n## Five minutes").nth(1).unwrap().split("\n## ").next().unwrap();
    let headings: Vec<_> = part.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let played: Vec<_> = STARTS.iter().map(|(heading, ..)| *heading).collect();
    assert_eq!(headings, played, "every start is played");
    std::thread::scope(|scope| {
        for (heading, script, wanted) in STARTS {
            let readme = &readme;
            scope.spawn(move || {
                let stage = stage(script);
                let said = play(&stage, &block(readme, heading));
                for word in *wanted {
                    assert!(said.contains(word), "{heading}: no `{word}` in\n{said}");
                }
            });
        }
    });
}
