//! Repositories of several languages: all of them are checked, or those that are not are named (AG-42).

use super::running::{self, artifact, board_with};
use super::{board, status};
use crate::e2e::stage::Stage;
use serde_json::Value;

/// Tools that note that they were called, in a `PATH` of this stage's own.
fn with_tools(stage: Stage, names: &[&str]) -> Stage {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = stage.at("bin");
    std::fs::create_dir(&bin).unwrap();
    for name in names {
        let script = format!("#!/bin/sh\necho \"{name} $*\" >> \"$HOME/called\"\n");
        std::fs::write(bin.join(name), script).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    stage.with_env("PATH", &path)
}

const PACKAGE: &str = r#"{"scripts":{"test":"vitest"}}"#;

// covers: AG-42, AG-16
#[test]
fn auto_checks_every_language_of_the_repository() {
    let stage = with_tools(Stage::new("exit 0"), &["npm", "go", "gofmt"]);
    stage.write("package.json", PACKAGE);
    stage.write("go.mod", "module x\n");
    stage.ok(&["init", "--orchestrator", "other", "--builders", "alice"]);
    let profile = stage.read(".kodingx/dod/profiles/go-node.yml").unwrap();
    assert!(profile.contains("environment: go-node"), "{profile}");
    let manifest: Value =
        serde_json::from_str(&stage.read(".kodingx/agency.json").unwrap()).unwrap();
    assert_eq!(
        (&manifest["environment"], &manifest["defaults"]["dod_profile"]),
        (&"go-node".into(), &"auto".into())
    );
    stage.ok(&["task", "new", "--title", "x", "--assignee", "alice"]);
    let found = stage.json(&["verify", "--task", "T0001", "--json"]);
    assert_eq!((&found["result"], &found["dod_profile"]), (&"pass".into(), &"go-node".into()));
    assert_eq!(found["notes"], serde_json::json!([]));
    let called = std::fs::read_to_string(stage.at("home/called")).unwrap();
    assert!(called.contains("go test ./...") && called.contains("npm run test"), "{called}");
    stage.ok(&["init"]);
    assert_eq!(stage.read(".kodingx/dod/profiles/go-node.yml").unwrap(), profile);
}

// covers: AG-42, AG-24
#[test]
fn a_language_that_is_not_checked_is_named_at_set_up_by_verify_and_by_check() {
    let stage = with_tools(Stage::new("exit 0"), &["npm"]);
    stage.write("package.json", PACKAGE);
    stage.write("api/pyproject.toml", "[project]\n");
    stage.write("node_modules/x/go.mod", "");
    let said = stage.agency(&["init", "--orchestrator", "other", "--builders", "alice"]);
    let words =
        "`api/pyproject.toml`: python is here, and no command of the profile `node` checks it";
    assert!(said.err.contains(words), "{}", said.err);
    stage.ok(&["task", "new", "--title", "x", "--assignee", "alice"]);
    let found = stage.json(&["verify", "--task", "T0001", "--json"]);
    assert_eq!(found["result"], "pass");
    assert!(found["notes"][0].as_str().unwrap().starts_with(words), "{found}");
    assert_eq!(found["notes"].as_array().unwrap().len(), 1, "{found}");
    let check = stage.agency(&["check"]);
    assert!(
        check.code == 0 && check.out.contains("warning: api/pyproject.toml: python"),
        "{}",
        check.out
    );
    // Once the owner's profile calls a checker of it, nothing is said.
    let profile = stage.read(".kodingx/dod/profiles/node.yml").unwrap();
    stage.write(".kodingx/dod/profiles/node.yml", format!("{profile}  - \"cd api && pytest\"\n"));
    let check = stage.agency(&["check"]);
    assert!(check.code == 0 && !check.out.contains("python"), "{}", check.out);
}

// covers: AG-42
#[test]
fn a_board_of_before_keeps_its_profile_and_names_the_new_language() {
    let stage = with_tools(Stage::new("exit 0"), &["npm", "go", "gofmt"]);
    stage.write("package.json", PACKAGE);
    stage.ok(&["init", "--orchestrator", "other", "--builders", "alice"]);
    stage.write("go.mod", "module x\n");
    stage.ok(&["task", "new", "--title", "x", "--assignee", "alice"]);
    let found = stage.json(&["verify", "--task", "T0001", "--json"]);
    assert_eq!(found["dod_profile"], "node", "the file that the owner sees: {found}");
    assert!(found["notes"][0].as_str().unwrap().contains("`go.mod`: go"), "{found}");
}

// covers: AG-42, AG-16
#[test]
fn a_package_without_scripts_is_node_and_does_not_pass() {
    let stage = Stage::new("exit 0");
    stage.write("package.json", "{\"name\": \"x\"}\n");
    stage.ok(&["init", "--orchestrator", "other", "--builders", "alice"]);
    let manifest: Value =
        serde_json::from_str(&stage.read(".kodingx/agency.json").unwrap()).unwrap();
    assert_eq!(manifest["environment"], "node");
    assert!(stage.read(".kodingx/dod/profiles/node.yml").unwrap().contains("npm run test"));
    stage.ok(&["task", "new", "--title", "x", "--assignee", "alice"]);
    assert_eq!(stage.agency(&["verify", "--task", "T0001"]).code, 1);
}

// covers: AG-42
#[test]
fn the_daemon_names_them_in_its_artifact() {
    let stage = with_tools(board_with(running::CONFIG), &["cargo"]);
    stage.write("Cargo.toml", "");
    stage.write("web/package.json", PACKAGE);
    let profile = "name: tiny\ndescription: x\nenvironment: rust\ncommands: [\"cargo test\"]\n";
    stage.write(".kodingx/dod/profiles/tiny.yml", profile);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "two languages"]);
    let (_, file) = running::task(&stage, "plain", &[]);
    running::work(&stage);
    assert_eq!(status(&stage, &file), "DONE", "{}", running::log(&stage));
    let notes = artifact(&stage, &file)["notes"].to_string();
    assert!(notes.contains("`web/package.json`: node"), "{notes}");
}

// covers: AG-42
#[test]
fn nothing_is_said_where_a_command_may_check_anything() {
    let stage = board();
    stage.write("Cargo.toml", "");
    stage.write("go.mod", "");
    stage.ok(&["task", "new", "--title", "x", "--assignee", "alice", "--dod-profile", "tiny"]);
    assert_eq!(
        stage.json(&["verify", "--task", "T0001", "--json"])["notes"],
        serde_json::json!([])
    );
}
