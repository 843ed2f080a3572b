//! The specification's own examples, tables and command lines, word for word (`tests/spec/board-*`), as inputs of the real program.

use super::importing::serve;
use super::{board, report, task};
use crate::e2e::stage::{Said, Stage};
use agency::model::RelPath;
use agency::protocol::board::adapters::Tool;
use agency::protocol::board::artifact::{self, Artifact, Bypassed, Override};
use agency::protocol::board::names::TaskId;
use agency::protocol::board::risks::{self, RiskCheck};
use agency::protocol::board::table::{self, Actor, From, Status};
use agency::protocol::board::task::parse as parse_task;
use serde_json::json;

macro_rules! spec {
    ($name:literal) => {
        include_str!(concat!("../../spec/board-", $name))
    };
}

/// Runs a command line of the spec as it stands, in a shell that finds our program.
fn shell(stage: &Stage, line: &str) -> Said {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_agency"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let mut command = std::process::Command::new("sh");
    let known = stage.program();
    command.env_clear();
    command.envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output =
        command.env("PATH", path).args(["-c", line]).current_dir(stage.repo()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Said { code, out: text(&output.stdout), err: text(&output.stderr) }
}

/// The cells of a Markdown table, without its head.
fn rows(table: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let inner = line.trim().trim_matches('|');
        inner.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    table.lines().skip(2).map(cells).collect()
}

/// The names in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// §4: each line of the drawing as a path.
fn layout() -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    let mut paths = Vec::new();
    for line in spec!("layout.txt").lines() {
        let name = line.split('#').next().unwrap().trim_end();
        let depth = (name.len() - name.trim_start().len()) / 2;
        folders.truncate(depth);
        let path = format!("{}{}", folders.concat(), name.trim_start());
        if path.ends_with('/') {
            folders.push(name.trim_start().to_owned());
        }
        paths.push(path);
    }
    paths
}

// covers: AG-01, AG-04, AG-17
#[test]
fn every_path_of_the_layout_is_made() {
    let stage = board();
    stage.git(&["config", "user.email", "me@example.com"]);
    let file = task(&stage, &[]);
    stage.ok(&["task", "start", "T0001"]);
    report(&stage, &file, "READY_FOR_REVIEW", "");
    stage.ok(&["verify", "--task", "T0001"]);
    let day = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let paths = layout();
    assert_eq!(paths.len(), 23, "{paths:#?}");
    for path in paths {
        let real = path
            .replace("{agent}", "alice")
            .replace("YYYY-MM-DD", day)
            .replace("T{ID}-{HHMM}-{slug}", stem);
        let at = stage.repo().join(&real);
        let is_there = if path.ends_with('/') { at.is_dir() } else { at.is_file() };
        assert!(is_there, "{path}: {real}");
    }
}

// covers: AG-08
#[test]
fn the_list_of_transitions_is_the_table() {
    let mut listed = 0;
    for line in spec!("transitions.md").lines().filter(|line| line.starts_with("* ")) {
        listed += 1;
        let (moves, rest) = line[2..].split_once(" (").unwrap();
        let names = moves.replace('`', "");
        let (from, to) = names.split_once(" → ").unwrap();
        let to = Status::parse(to).unwrap();
        let row = |actor| match Status::parse(from) {
            Some(from) => table::find(from, to, actor),
            None => table::TABLE
                .iter()
                .find(|row| row.from == From::Any && row.to == to && row.who.allows(actor)),
        };
        assert_eq!(row(Actor::Builder).is_some(), rest.contains("Builder"), "{line}");
        assert_eq!(row(Actor::Orchestrator).is_some(), rest.contains("Orchestrator"), "{line}");
    }
    // BLOCKED is a dead end in the list; the owner takes a task out of it.
    assert_eq!(listed + 1, table::TABLE.len());
    let done = table::between(Status::ReadyForReview, Status::Done).unwrap();
    assert_eq!(done.guard, table::Guard::Verified, "{}", spec!("transitions.md"));
}

// covers: AG-20
#[test]
fn each_row_of_the_risk_table_holds() {
    for row in rows(spec!("risk-table.md")) {
        let first = |cell: &str| cell.split(' ').next().unwrap().to_owned();
        let priorities = match first(&row[1]).as_str() {
            "Any" => "P0/P1/P2/P3".to_owned(),
            one => one.to_owned(),
        };
        for status in row[0].split('/') {
            for priority in priorities.split('/') {
                let text =
                    format!("### R-001: x\n**Priority:** {priority}\n**Status:** {status}\n");
                let named = ["R-001".to_owned()];
                let check = risks::check(&TaskId::sequential(7), &named, &risks::parse(&text));
                let found = if !check.blocking_risks.is_empty() {
                    "**FAIL** — Task cannot be DONE"
                } else if !check.override_required.is_empty() {
                    "**WARN** — Requires override"
                } else {
                    "**PASS**"
                };
                assert!(row[2].starts_with(found), "{status} {priority}: {row:?}, found {found}");
            }
        }
    }
}

// covers: AG-03, AG-32
#[test]
fn the_cursor_file_holds_what_the_example_holds() {
    let stage = Stage::new("exit 0");
    stage.ok(&["init", "--orchestrator", "cursor", "--builders", "codex"]);
    let text = stage.read(Tool::Cursor.file()).unwrap();
    for line in spec!("cursor.md").lines().filter(|line| !line.is_empty()) {
        let step = line.split_once(") ").filter(|(number, _)| number.parse::<u8>().is_ok());
        match step {
            // The words of a step may be others; every name in it is there.
            Some((number, step)) => {
                let ours = text.lines().find(|ours| ours.starts_with(&format!("{number}. ")));
                let names = quoted(step);
                let is_in = |name: &&str| {
                    let near = name.trim_end_matches("{agent}/YYYY-MM-DD/");
                    ours.is_some_and(|ours| ours.contains(near)) || text.contains(*name)
                };
                assert!(names.iter().all(is_in), "{line}: {ours:?}");
            }
            None => {
                let sentences = line.split_inclusive(". ").map(str::trim_end);
                for sentence in sentences {
                    let known = sentence.replace("Coordinate work via", "You coordinate work via");
                    assert!(text.contains(&known), "{sentence}");
                }
            }
        }
    }
}

// covers: AG-01
#[test]
fn the_header_is_the_examples_with_the_generators_version() {
    let stage = board();
    let wanted = spec!("header.txt").trim().trim_start_matches("> ");
    let text = stage.read(".kodingx/PROTOCOL.md").unwrap();
    let ours = text.lines().find(|line| line.contains("Generated by")).unwrap();
    let version = format!(" {}", env!("CARGO_PKG_VERSION"));
    assert!(ours.replace(&version, "").contains(wanted), "{ours}");
}

/// The spec leaves the commands out of two artifacts.
fn artifact_of(text: &str) -> Artifact {
    assert!(serde_json::from_str::<Artifact>(text).is_err(), "`[...]` is not JSON");
    serde_json::from_str(&text.replace("[...]", "[]")).unwrap()
}

// covers: AG-19, AG-20
#[test]
fn the_two_shortened_artifacts_are_read() {
    let overridden = artifact_of(spec!("override.json"));
    let by = overridden.overridden.as_ref().unwrap();
    let known = (by.approver.as_str(), by.decision_ref.as_str(), by.followup_task.as_str());
    assert_eq!(known, ("john.doe@company.com", "ADR-015", "T0008"));
    assert!(overridden.allows_done(), "an override of a failed verify");
    let risky = artifact_of(spec!("risk-check.json"));
    let wanted = RiskCheck {
        linked_risks: vec!["R-001".to_owned(), "R-004".to_owned()],
        blocking_risks: vec!["R-001".to_owned()],
        blocking_reason: Some("R-001 is P0 OPEN — resolve before DONE".to_owned()),
        ..RiskCheck::default()
    };
    assert_eq!(risky.risk_check, Some(wanted));
    assert!(!risky.allows_done());
}

// covers: AG-19
#[test]
fn our_decision_record_has_every_field_of_the_example() {
    assert_eq!(artifact::next_decision(spec!("decision.md")), "ADR-016");
    let by = Override {
        approved: true,
        approver: "John Doe (Tech Lead)".to_owned(),
        reason: "Production incident INC-1234 required immediate deployment.".to_owned(),
        decision_ref: "ADR-015".to_owned(),
        followup_task: TaskId::sequential(8),
    };
    let record = artifact::Decision {
        task: &TaskId::sequential(7),
        by: &by,
        bypassed: &Bypassed::Dod,
        date: "2026-01-31",
        failed: "`pnpm test` ended with exit code 1",
        risk: "R-012",
    };
    let ours = record.append_to("");
    for line in spec!("decision.md").lines().filter(|line| line.contains("**")) {
        let text = if line.ends_with(":**") { line } else { line.trim() };
        assert!(ours.contains(text), "{text} is not in {ours}");
    }
    for words in ["T0008", "Technical debt added to RISKS.md (R-012)", "INC-1234"] {
        assert!(spec!("decision.md").contains(words) && ours.contains(words), "{words}");
    }
}

/// Tasks T0001 to T0008, which the spec's command lines speak of.
fn eight() -> Stage {
    let stage = board();
    stage.git(&["config", "user.email", "john.doe@company.com"]);
    (0..8).for_each(|_| drop(task(&stage, &[])));
    stage
}

// covers: AG-19
#[test]
fn the_override_command_line_runs_as_it_stands() {
    let stage = eight();
    stage.write("broken", "");
    let said = shell(&stage, spec!("override.sh"));
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let decisions = stage.read(".kodingx/DECISIONS.md").unwrap();
    assert!(decisions.contains("Hotfix INC-1234") && decisions.contains("T0008"), "{decisions}");
}

// covers: AG-20
#[test]
fn the_risk_check_prints_what_the_example_prints() {
    let stage = board();
    (0..6).for_each(|_| drop(task(&stage, &[])));
    task(&stage, &["--risk", "R-001", "--risk", "R-004"]);
    let register = spec!("risk.md").replace("OPEN | MITIGATED | CLOSED", "OPEN");
    let other = "### R-004: Rounding\n**Priority:** P2\n**Status:** MITIGATED\n**Linked Tasks:**\n";
    stage.write(".kodingx/RISKS.md", format!("{register}\n{other}"));
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "risks"]);
    let (line, output) = spec!("check-risks.sh").split_once("\n\n# Output:\n").unwrap();
    let said = shell(&stage, line);
    let wanted: Vec<&str> = output.lines().map(|line| line.trim_start_matches("# ")).collect();
    let printed: Vec<&str> = said.out.lines().take(wanted.len()).collect();
    assert_eq!((said.code, printed), (1, wanted), "{}{}", said.out, said.err);
}

// covers: AG-20
#[test]
fn the_example_of_a_risk_says_no_status_yet() {
    let found = risks::parse(spec!("risk.md"));
    assert_eq!(found.len(), 1);
    let linked: Vec<&str> = found[0].linked.iter().map(TaskId::as_str).collect();
    assert_eq!((found[0].id.as_str(), linked), ("R-001", vec!["T0007", "T0012"]));
    assert_eq!(found[0].priority.map(agency::protocol::board::task::Priority::word), Some("P0"));
    assert_eq!(found[0].lacks(), "has no **Status:** line (OPEN, MITIGATED or CLOSED)");
}

// covers: AG-20, AG-23, AG-06
#[test]
fn the_two_shortened_tasks_lack_only_what_they_leave_out() {
    let path = RelPath::fixed(".kodingx/inbox/claude-code/2026-01-31/T0007-1610-fix.md");
    let rest = "priority: P1\nstatus: NEW\nassignee: claude-code\ncreated_at: 2026-01-31T16:10:00+01:00\n\
        dod_profile: auto\nscope:\n  may_touch: [\"src/**\"]\n---\n";
    let left_out = ["priority", "status", "assignee", "created_at", "dod_profile", "scope"];
    for text in [spec!("task-risks.md"), spec!("task-refs.md")] {
        let problems = parse_task(text.as_bytes(), &path).unwrap_err();
        assert_eq!(problems.len(), left_out.len(), "{problems:#?}");
        for name in left_out {
            let named = format!("no `{name}`");
            assert!(problems.iter().any(|problem| problem.found == named), "{name}: {problems:#?}");
        }
    }
    let whole = |text: &str| {
        let open = text.trim_end().strip_suffix("---").unwrap();
        parse_task(format!("{open}{rest}").as_bytes(), &path).unwrap()
    };
    assert_eq!(whole(spec!("task-risks.md")).risks, ["R-001", "R-004"]);
    let refs = whole(spec!("task-refs.md")).refs;
    let refs: Vec<_> = refs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(refs, ["github_issue=#123", "jira=PROJ-456", "linear=ENG-789", "pr=#125"]);
}

// covers: AG-22
#[test]
fn each_row_of_the_table_of_existing_files_holds() {
    let stage = Stage::new("exit 0");
    let rows = rows(spec!("legacy-table.md"));
    let path = |row: &[String]| {
        let name = quoted(&row[0])[0].replace('*', "mine");
        if name.ends_with('/') { format!("{name}CODEOWNERS") } else { name }
    };
    for row in &rows {
        stage.write(&path(row), "# mine\n");
    }
    stage.ok(&["install", "--orchestrator", "cursor", "--builders", "codex", "--ci"]);
    assert_eq!(rows.len(), 7);
    for row in &rows {
        let text = stage.read(&path(row)).unwrap();
        if row[1].starts_with("Append") {
            assert!(
                text.starts_with("# mine\n") && text.contains("agency:begin"),
                "{row:?} {text}"
            );
        } else {
            assert_eq!(text, "# mine\n", "{row:?}");
        }
    }
    assert!(stage.read(".cursor/rules/agency.mdc").is_some(), "a new file beside theirs");
    assert!(stage.read(".github/workflows/agency.yml").is_some(), "where it is asked for");
}

// covers: AG-21, AG-22
#[test]
fn the_modes_and_the_adoption_path_run_as_they_stand() {
    for row in rows(spec!("modes-table.md")) {
        let stage = Stage::new("exit 0");
        let said = shell(&stage, quoted(&row[1])[0]);
        assert_eq!(said.code, 0, "{row:?}: {}", said.err);
        let full = stage.read(".kodingx/PROTOCOL.md").is_some();
        assert_eq!(full, !row[2].starts_with("Just"), "{row:?}");
        assert!(stage.read(".kodingx/STATE.md").is_some(), "{row:?}");
    }
    let stage = Stage::new("exit 0");
    let mut ran = Vec::new();
    for line in spec!("adoption.txt").lines().filter(|line| line.contains(':')) {
        let (_, what) = line.split_once(':').unwrap();
        if let Some(command) = what.trim().strip_prefix("agency") {
            let said = shell(&stage, &format!("agency{command}"));
            assert_eq!(said.code, 0, "{line}: {}{}", said.out, said.err);
            ran.push(command.trim().to_owned());
        } else {
            assert_eq!(what.trim(), "Add RISKS.md manually");
            stage.write(".kodingx/RISKS.md", "# Risks\n\nby hand\n");
        }
    }
    assert_eq!(ran.len(), 4, "{ran:?}");
    assert_eq!(stage.read(".kodingx/RISKS.md").unwrap(), "# Risks\n\nby hand\n");
    let checked = stage.agency(&["check"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
}

// covers: AG-23
#[test]
fn the_import_command_lines_run_as_they_stand() {
    let stage = board();
    let (address, asked) = serve(|path| {
        let none = if path.starts_with("/repos") { json!([]) } else { json!({"issues": []}) };
        (200, String::new(), none)
    });
    let stage = stage
        .with_env("GITHUB_TOKEN", "x")
        .with_env("JIRA_TOKEN", "x")
        .with_env("JIRA_EMAIL", "me@example.com");
    for line in spec!("import.sh").lines().filter(|line| line.starts_with("agency")) {
        let said = shell(&stage, &format!("{line} --url {address}"));
        assert_eq!(said.code, 0, "{line}: {}{}", said.out, said.err);
    }
    let asked = asked.lock().unwrap().join("\n");
    for words in ["/repos/owner/repo/issues?", "labels=agency", "PROJ", "To+Do"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
}

// covers: AG-29
#[test]
fn every_agent_of_the_spawn_table_is_known_without_configuration() {
    let agents = agency::config::Config::default().agents;
    let mut known = 0;
    for row in rows(spec!("spawn-table.md")) {
        let name = row[0].to_lowercase().replace(' ', "-");
        let program = quoted(&row[1])[0].split(' ').next().unwrap();
        if program == "npx" {
            assert_eq!(name, agency::protocol::board::names::PLAYWRIGHT);
        } else {
            assert!(agents.contains_key(&name), "{name}: {:?}", agents.keys());
        }
        known += 1;
    }
    assert_eq!(known, 5);
}
