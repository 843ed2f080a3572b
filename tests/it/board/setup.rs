//! Making a board: what `init` and `install` write, what they leave alone, and that a second time changes nothing.

use super::board;
use crate::e2e::stage::Stage;
use crate::scenarios::files_below;
use agency::protocol::board::adapters::{CONTRACTS, Tool};
use std::collections::BTreeMap;

fn files(stage: &Stage) -> BTreeMap<String, Vec<u8>> {
    let mut files = files_below(&stage.repo());
    files.retain(|path, _| !path.starts_with(".git/"));
    files
}

/// §5, beside the defaults.
const FIELDS: [&str; 7] = [
    "protocol",
    "project",
    "created_at",
    "license_mode",
    "orchestrator",
    "builders",
    "task_id_strategy",
];

// covers: AG-01, AG-02, AG-24, AG-33
#[test]
fn init_makes_the_whole_layout_once() {
    let stage = Stage::new("exit 0");
    stage.write("package.json", r#"{"scripts":{"test":"node --test"}}"#);
    let words = [
        "init",
        "--orchestrator",
        "claude-code",
        "--builders",
        "claude-code,codex,gemini",
        "--license-mode",
        "dual",
        "--role-mode",
        "ai_first",
    ];
    stage.ok(&words);
    let made = files(&stage);
    for path in [
        "agency.json",
        "PROTOCOL.md",
        "STATE.md",
        "TASK_BOARD.md",
        "RISKS.md",
        "DECISIONS.md",
        "dod/profiles/node.yml",
        "dod/profiles/generic.yml",
        "agents/codex.md",
        "templates/task.md",
        "templates/report.md",
        "templates/audit.md",
    ] {
        let text = made.get(&format!(".kodingx/{path}")).unwrap_or_else(|| panic!("no {path}"));
        let text = String::from_utf8_lossy(text);
        assert!(
            text.contains("license_mode=dual") && text.contains(env!("CARGO_PKG_VERSION")),
            "{path}: {text}"
        );
    }
    for folder in ["inbox/claude-code", "inbox/codex", "outbox/gemini", "verify"] {
        assert!(stage.repo().join(".kodingx").join(folder).is_dir(), "no {folder}");
    }
    let manifest: serde_json::Value =
        serde_json::from_slice(&made[".kodingx/agency.json"]).unwrap();
    for field in FIELDS {
        assert!(!manifest[field].is_null(), "no {field}");
    }
    assert_eq!(
        (manifest["orchestrator"].as_str(), manifest["environment"].as_str()),
        (Some("claude_code"), Some("node"))
    );
    assert!(
        !manifest["defaults"]["timezone"].is_null()
            && manifest["defaults"]["dod_profile"] == "auto"
    );
    let checked = stage.agency(&["check"]);
    let fine = checked.err.matches('✓').count();
    assert_eq!((checked.code, fine), (0, 8), "{}{}", checked.out, checked.err);
    stage.ok(&words);
    stage.ok(&["init"]);
    assert_eq!(files(&stage), made, "a second time changes nothing");
    assert_eq!(
        stage.git(&["log", "--format=%s"]),
        "the owner's first commit",
        "and nothing is committed"
    );
}

// covers: AG-02
#[test]
fn wrong_inputs_are_named_and_nothing_is_made() {
    let stage = Stage::new("exit 0");
    for (flag, value) in [
        ("--orchestrator", "emacs"),
        ("--builders", "../x"),
        ("--license-mode", "gpl"),
        ("--role-mode", "boss"),
        ("--timezone", "Mars/Base"),
        ("--id-strategy", "random"),
    ] {
        let said = stage.agency(&["init", flag, value]);
        assert!(said.code == 2 && said.err.contains(value), "{flag}: {}", said.err);
        assert!(!stage.repo().join(".kodingx").exists());
    }
}

// covers: AG-03, AG-32
#[test]
fn every_tool_gets_its_rules_where_it_reads_them() {
    for tool in Tool::ALL {
        let stage = Stage::new("exit 0");
        let path = stage.repo().join(tool.file());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mine = tool == Tool::Other || tool == Tool::ClaudeCode;
        if mine {
            std::fs::write(&path, "# Mine\n\nmy own rules\n").unwrap();
        }
        stage.ok(&["init", "--orchestrator", tool.word(), "--builders", "codex"]);
        let text = std::fs::read_to_string(&path).unwrap();
        for (heading, words) in CONTRACTS {
            assert!(
                text.contains(&format!("## {heading}")) && text.contains(words),
                "{}: {heading}",
                tool.word()
            );
        }
        let head = match tool {
            Tool::Cursor => "---\ndescription: ",
            Tool::Continue => "---\nname: ",
            Tool::Windsurf | Tool::Antigravity => "---\ntrigger: always_on\n---\n",
            Tool::ClaudeCode | Tool::Other => "# Mine\n\nmy own rules\n",
            Tool::Aider => "<!-- agency:begin -->",
        };
        assert!(text.starts_with(head), "{}: {text}", tool.word());
        assert!(text.len() < 12_000, "Windsurf and Antigravity read no more");
        if tool == Tool::Cursor {
            assert!(
                text.contains("alwaysApply: true")
                    && text.contains("Mark DONE only when verify passes")
                    || text.contains("only when verify passes")
            );
        }
        if tool == Tool::Aider {
            assert!(stage.read(".aider.conf.yml").unwrap().contains("CONVENTIONS.md"));
        }
        std::fs::write(
            &path,
            format!("{}\nand below\n", text.replace("## Role\n", "## Role\nforged\n")),
        )
        .unwrap();
        stage.ok(&["init", "--orchestrator", tool.word(), "--builders", "codex"]);
        let again = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            again,
            format!("{text}\nand below\n"),
            "the region is made anew, the rest is kept"
        );
    }
}

// covers: AG-22, AG-21
#[test]
fn install_changes_only_what_the_table_allows() {
    let stage = Stage::new("exit 0");
    let old = [
        (".cursorrules", "my rules\n"),
        (".cursor/rules/style.mdc", "---\nalwaysApply: true\n---\nstyle\n"),
        ("CLAUDE.md", "# Claude\n"),
        (".github/workflows/ci.yml", "on: push\n"),
        ("Makefile", "test:\n\ttrue\n"),
        ("package.json", "{\"name\":\"x\"}\n"),
        (".gitignore", "*.log\n"),
    ];
    old.iter().for_each(|(path, text)| stage.write(path, text));
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a project"]);
    stage.ok(&["install", "--orchestrator", "cursor", "--builders", "codex"]);
    let changed = stage.git(&["diff", "--name-only"]);
    assert_eq!(changed, ".cursorrules\nCLAUDE.md", "appended to, and nothing else");
    for path in [".cursorrules", "CLAUDE.md"] {
        let removed = stage.git(&["diff", "--numstat", "--", path]);
        assert!(removed.split('\t').nth(1) == Some("0"), "only added lines: {removed}");
    }
    let new = stage.git(&["ls-files", "--others", "--exclude-standard"]);
    assert!(
        new.lines().all(|path| path.starts_with(".kodingx/") || path == ".cursor/rules/agency.mdc"),
        "{new}"
    );
    assert_eq!(stage.git(&["log", "--format=%s"]).lines().count(), 2, "no commit");
    let before = files(&stage);
    let second = stage.agency(&["install"]);
    assert!(second.code == 1 && second.err.contains("--force"), "{}", second.err);
    assert_eq!(files(&stage), before, "a second install changes nothing");
    stage.write(".kodingx/PROTOCOL.md", "somebody's\n");
    stage.write(".kodingx/RISKS.md", "# My risks\n");
    let forced = stage.ok(&[
        "install",
        "--force",
        "--orchestrator",
        "cursor",
        "--builders",
        "codex",
        "--ci",
    ]);
    assert!(forced.contains("changed  .kodingx/PROTOCOL.md"), "it says what it replaces: {forced}");
    assert!(forced.contains("new      .github/workflows/agency.yml"), "{forced}");
    assert_eq!(
        stage.read(".kodingx/RISKS.md").unwrap(),
        "# My risks\n",
        "what people write is kept"
    );
}

// covers: AG-22
#[test]
fn a_link_is_followed_inside_the_repository_and_never_out_of_it() {
    let stage = Stage::new("exit 0");
    stage.write("AGENTS.md", "# Ours\n");
    let link = |to: &str, at: &str| {
        std::os::unix::fs::symlink(to, stage.repo().join(at)).unwrap();
    };
    link("AGENTS.md", "CLAUDE.md");
    std::fs::write(stage.at("outside.md"), "theirs\n").unwrap();
    link("../outside.md", ".cursorrules");
    let said = stage.agency(&["install", "--orchestrator", "claude_code", "--builders", "codex"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let text = stage.read("AGENTS.md").unwrap();
    assert!(text.starts_with("# Ours\n") && text.matches("## Role\n").count() == 1, "{text}");
    assert!(stage.repo().join("CLAUDE.md").is_symlink());
    assert!(said.err.contains("`.cursorrules` is a link"), "{}", said.err);
    assert_eq!(std::fs::read_to_string(stage.at("outside.md")).unwrap(), "theirs\n");
}

// covers: AG-22
#[test]
fn what_cannot_be_written_whole_is_not_begun() {
    for (path, text, because) in [
        ("CLAUDE.md", &b"<!-- agency:begin -->\nhalf\n"[..], "agency:end"),
        ("CLAUDE.md", b"\xff\xfe", "UTF-8"),
        (".aider.conf.yml", b"read: &a [x]\n", ".aider.conf.yml"),
    ] {
        let stage = Stage::new("exit 0");
        stage.write(path, text);
        let before = files(&stage);
        let tool = if path == "CLAUDE.md" { "claude_code" } else { "aider" };
        let said = stage.agency(&["install", "--orchestrator", tool, "--builders", "codex"]);
        assert!(said.code == 1 && said.err.contains(because), "{}", said.err);
        assert_eq!(files(&stage), before, "{path}: nothing is left half done");
        assert!(!stage.repo().join(".kodingx").exists());
    }
    for link in [".kodingx", ".kodingx/verify"] {
        let stage = Stage::new("exit 0");
        let at = stage.repo().join(link);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(stage.at("home"), at).unwrap();
        let before = files(&stage);
        assert_eq!(stage.agency(&["init", "--builders", "codex"]).code, 1, "{link}");
        assert_eq!(std::fs::read_dir(stage.at("home")).unwrap().count(), 0, "{link}");
        assert_eq!(files(&stage), before, "{link}");
    }
}

// covers: AG-22
#[test]
fn force_replaces_what_is_generated_and_keeps_what_was_chosen() {
    let stage = Stage::new("exit 0");
    stage.ok(&[
        "install",
        "--orchestrator",
        "cursor",
        "--builders",
        "codex,alice",
        "--license-mode",
        "dual",
    ]);
    let before = files(&stage);
    assert!(stage.ok(&["install", "--force"]).contains("nothing to change"));
    assert_eq!(files(&stage), before);
    stage.write(".kodingx/agency.json", "{ torn");
    let said = stage.ok(&["install", "--force", "--orchestrator", "cursor", "--builders", "codex"]);
    assert!(said.contains("changed  .kodingx/agency.json"), "{said}");
    assert_eq!(stage.agency(&["check"]).code, 0);
}

// covers: AG-03
#[test]
fn antigravitys_older_folder_is_not_hidden_by_a_newer_one() {
    let stage = Stage::new("exit 0");
    stage.write(".agent/rules/mine.md", "my rules\n");
    stage.ok(&["init", "--builders", "codex"]);
    assert!(stage.read(".agent/rules/agency.md").unwrap().contains("trigger: always_on"));
    assert!(!stage.repo().join(".agents").exists());
    assert_eq!(stage.agency(&["check"]).code, 0, "{}", stage.agency(&["check"]).out);
}

// covers: AG-02, AG-16
#[test]
fn the_environment_is_found_or_told() {
    let stage = Stage::new("exit 0");
    stage.write("package.json", r#"{"scripts":{"test":"node --test"}}"#);
    stage.write("requirements.txt", "pytest\n");
    stage.ok(&["init", "--builders", "codex", "--environment", "python"]);
    let manifest: serde_json::Value =
        serde_json::from_str(&stage.read(".kodingx/agency.json").unwrap()).unwrap();
    assert_eq!(manifest["environment"], "python");
    assert_eq!(manifest["defaults"]["dod_profile"], "python", "`auto` would find another one");
    let before = files(&stage);
    assert!(before.contains_key(".kodingx/dod/profiles/python.yml"));
    stage.ok(&["init"]);
    assert_eq!(files(&stage), before, "and it is remembered");
    assert_eq!(stage.agency(&["init", "--environment", "../x"]).code, 2);
    let other = Stage::new("exit 0");
    other.write("shop.sln", "");
    other.ok(&["init", "--builders", "codex"]);
    let text = other.read(".kodingx/agency.json").unwrap();
    assert!(
        text.contains("\"dod_profile\": \"dotnet\""),
        "a commit cannot be asked for *.sln: {text}"
    );
}

// covers: AG-24
#[test]
fn a_fresh_clone_of_a_board_is_compliant() {
    let stage = board();
    stage.git_in(&stage.at(""), &["clone", "--quiet", "repo", "clone"]);
    let said = stage.agency_in(&stage.at("clone"), &["check"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

// covers: AG-21
#[test]
fn a_minimal_board_grows_part_by_part() {
    let stage = Stage::new("exit 0");
    stage.write("Cargo.toml", "");
    stage.ok(&["install", "--minimal", "--builders", "codex"]);
    let made: Vec<String> =
        files(&stage).into_keys().filter(|path| path.starts_with(".kodingx")).collect();
    let minimal = ["STATE.md", "agency.json", "inbox/.gitkeep", "outbox/.gitkeep"];
    assert_eq!(made, minimal.map(|path| format!(".kodingx/{path}")));
    assert!(
        stage.repo().join(".kodingx/inbox").is_dir()
            && stage.repo().join(".kodingx/outbox").is_dir()
    );
    stage.ok(&["upgrade", "--add", "dod-profiles"]);
    assert!(stage.read(".kodingx/dod/profiles/rust.yml").unwrap().contains("cargo test"));
    assert!(stage.ok(&["upgrade", "--add", "verify"]).contains("new      .kodingx/verify/"));
    assert_eq!(stage.agency(&["upgrade", "--add", "everything"]).code, 2);
    assert_eq!(stage.agency(&["upgrade"]).code, 2);
    stage.ok(&["upgrade", "--full"]);
    assert!(stage.read("AGENTS.md").is_some() && stage.read(".kodingx/RISKS.md").is_some());
    assert_eq!(stage.agency(&["check"]).code, 0);
    assert!(stage.ok(&["upgrade", "--full"]).contains("nothing to change"));
}

// covers: AG-21, AG-26
#[test]
fn other_versions_are_told_apart() {
    let stage = board();
    assert!(stage.ok(&["migrate", "--to", "agency/1.0"]).contains("already"));
    let unknown = stage.agency(&["migrate", "--to", "agency/9.0"]);
    assert!(unknown.code == 2 && unknown.err.contains("agency/9.0"), "{}", unknown.err);
    let manifest = stage.read(".kodingx/agency.json").unwrap();
    stage.write(".kodingx/agency.json", manifest.replace("agency/1.0", "agency/2.0"));
    let frozen = stage.agency(&["task", "new", "--title", "x", "--assignee", "codex"]);
    assert!(frozen.code == 1 && frozen.err.contains("agency migrate"), "{}", frozen.err);
    assert_eq!(stage.agency(&["check"]).code, 1);
    stage.write(".kodingx/agency.json", manifest.replacen("agency/1.0", "agency/1.4", 1));
    stage.ok(&["migrate", "--to", "agency/1.0"]);
    assert_eq!(stage.read(".kodingx/agency.json").unwrap(), manifest);
}

// covers: AG-24
#[test]
fn check_names_each_item_that_does_not_hold() {
    let stage = board();
    stage.write(".kodingx/inbox/codex/2026-01-31/notes.md", "hello");
    stage.write(".kodingx/inbox/codex/2026-01-31/T0001-1010-x.md", "---\nid: T0001\n---\n");
    stage.write(".kodingx/dod/profiles/bad.yml", "name: other\n");
    stage.write("AGENTS.md", "nothing of ours");
    let said = stage.agency(&["check"]);
    assert_eq!(said.code, 1);
    for words in [
        "notes.md: is not a name of §4",
        "T0001-1010-x.md:2",
        "no `scope`",
        "bad.yml:1",
        "AGENTS.md: has no region",
    ] {
        assert!(said.out.contains(words), "no {words} in {}", said.out);
    }
    let json = stage.agency(&["check", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert!(found.as_array().unwrap().len() > 8, "{found}");
}

/// The words of every set-up command and every reader that a board has.
const HARMLESS: [&[&str]; 13] = [
    &["install", "--orchestrator", "other", "--builders", "codex"],
    &["install", "--force"],
    &["init"],
    &["upgrade", "--full"],
    &["migrate", "--to", "agency/1.0"],
    &["task", "new", "--title", "Do it", "--assignee", "codex"],
    &["task", "list"],
    &["task", "show", "T0001"],
    &["check"],
    &["status"],
    &["journal"],
    &["runs"],
    &["escalations"],
];

// covers: AG-44
#[test]
fn set_up_commands_and_readers_leave_a_loop_alone_that_is_under_way() {
    let stage = Stage::new("echo began >> \"$HOME/began\"; sleep 1000");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let flag = r#"{"from": "another tool", "status": "DONE"}"#;
    stage.write(".agent-status.json", flag);
    let state = stage.read(".review-loop-state.json");
    for words in HARMLESS {
        let said = stage.agency(words);
        let known = said.code == 0 || (said.code == 1 && words[0] == "check");
        assert!(known, "{words:?}: {}{}", said.out, said.err);
        assert!(!stage.at("home/began").exists(), "{words:?} started an agent");
        assert_eq!(
            stage.read(".agent-status.json").as_deref(),
            Some(flag),
            "{words:?} took a flag"
        );
        assert_eq!(stage.read(".review-loop-state.json"), state, "{words:?}");
    }
    assert_eq!(stage.json(&["runs", "--all", "--json"]), serde_json::json!([]));
    // The loop goes on where a daemon runs.
    let daemon = stage.start();
    stage.wait("the loop's agent", || stage.at("home/began").exists().then_some(()));
    drop(daemon);
}

/// What people wrote into a generated file, in a form that the file allows.
fn with_words_of_people(path: &str, text: &str) -> String {
    if path.ends_with(".json") {
        text.replacen('{', "{\n  \"mine\": \"kept words\",", 1)
    } else if path.ends_with(".yml") {
        format!("{text}# kept words\n")
    } else {
        format!("{text}\nkept words\n")
    }
}

/// The names of every file that set-up makes for this tool, except empty ones.
fn generated(stage: &Stage, tool: Tool) -> Vec<String> {
    let own = [
        "agency.json",
        "PROTOCOL.md",
        "STATE.md",
        "TASK_BOARD.md",
        "RISKS.md",
        "DECISIONS.md",
        "dod/profiles/generic.yml",
        "dod/profiles/rust.yml",
        "agents/codex.md",
        "templates/task.md",
        "templates/report.md",
        "templates/audit.md",
    ];
    let own = own.map(|name| format!(".kodingx/{name}"));
    let mut wanted: Vec<String> = own.to_vec();
    let rules = [tool.file(), "CLAUDE.md", ".cursorrules", ".github/workflows/agency.yml"];
    wanted.extend(rules.map(str::to_owned));
    if tool == Tool::Aider {
        wanted.push(".aider.conf.yml".to_owned());
    }
    wanted.sort();
    wanted.dedup();
    let there = files(stage).into_iter().filter(|(_, text)| !text.is_empty());
    let mut there: Vec<String> = there.map(|(path, _)| path).collect();
    there.retain(|path| path != "README.md" && path != "Cargo.toml");
    assert_eq!(there, wanted, "a generated file that this list does not know");
    wanted
}

// covers: AG-39, AG-01
#[test]
fn text_that_people_added_to_any_generated_file_survives_every_set_up_command() {
    for tool in Tool::ALL {
        let stage = Stage::new("exit 0");
        stage.write("Cargo.toml", "[package]\n");
        stage.write("CLAUDE.md", "# Mine\n");
        stage.write(".cursorrules", "my rules\n");
        stage.ok(&["init", "--orchestrator", tool.word(), "--builders", "codex", "--ci"]);
        let generated = generated(&stage, tool);
        for path in &generated {
            let text = stage.read(path).unwrap();
            stage.write(path, with_words_of_people(path, &text));
        }
        for words in [
            &["init"][..],
            &["init", "--license-mode", "dual"],
            &["install", "--force"],
            &["upgrade", "--add", "docs"],
            &["upgrade", "--full"],
            &["migrate", "--to", "agency/1.0"],
        ] {
            stage.ok(words);
            for path in &generated {
                let text = stage.read(path).unwrap();
                assert_eq!(text.matches("kept words").count(), 1, "{words:?} {path}: {text}");
            }
        }
        for path in generated.iter().filter(|path| *path != ".aider.conf.yml") {
            let text = stage.read(path).unwrap();
            assert!(text.contains("license_mode=dual"), "the header follows the manifest: {path}");
            assert_eq!(text.matches("license_mode=").count(), 1, "{path}: {text}");
        }
        // Another version of the protocol, which `migrate` really changes.
        let manifest = stage.read(".kodingx/agency.json").unwrap();
        stage.write(".kodingx/agency.json", manifest.replacen("agency/1.0", "agency/1.4", 1));
        stage.ok(&["migrate", "--to", "agency/1.0"]);
        assert_eq!(stage.read(".kodingx/agency.json").unwrap(), manifest);
    }
}

// covers: AG-03, AG-22
#[test]
fn what_is_appended_to_a_crlf_file_is_crlf() {
    let stage = Stage::new("exit 0");
    stage.write("CLAUDE.md", "# Mine\r\n\r\nmy own rules\r\n");
    for _ in 0..2 {
        stage.ok(&["init", "--orchestrator", "claude_code", "--builders", "codex"]);
        let text = stage.read("CLAUDE.md").unwrap();
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{text:?}");
    }
    assert_eq!(stage.agency(&["check"]).code, 0);
}

// covers: AG-24, AG-22
#[test]
fn check_follows_a_link_to_the_rules_as_install_does() {
    let stage = Stage::new("exit 0");
    stage.write("AGENTS.md", "# Ours\n");
    std::os::unix::fs::symlink("AGENTS.md", stage.repo().join("CLAUDE.md")).unwrap();
    stage.ok(&["install", "--orchestrator", "claude_code", "--builders", "codex"]);
    let said = stage.agency(&["check"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

// covers: AG-33
#[test]
fn templates_prefill_no_claim_and_the_workflow_installs_what_it_calls() {
    let stage = Stage::new("exit 0");
    stage.ok(&["init", "--builders", "codex", "--ci"]);
    let report = stage.read(".kodingx/templates/report.md").unwrap();
    assert!(report.contains("dod_passed: #"), "{report}");
    let workflow = stage.read(".github/workflows/agency.yml").unwrap();
    let (install, check) = (workflow.find("cargo install"), workflow.find("run: agency check"));
    assert!(install.is_some() && install < check, "{workflow}");
    assert!(workflow.contains("${{ vars.AGENCY_SOURCE }}"), "{workflow}");
}
