//! LG-02 and LG-15 with the real program: a file that was refused is never written, by a command, by the loop, by its agents or by
//! their merges, whatever git thinks of it.

use crate::e2e::stage::Stage;
use std::fs;

/// Other people's files of these names.
const FOREIGN: [(&str, &str); 3] = [
    ("progress.json", "{\"percent\": 40,\r\n \"eta\": \"tomorrow\"}"),
    ("reviews.json", "[{\"product\": \"Kettle\", \"stars\": 5}]\n"),
    ("feature_list.json", "{\"features\": [\"dark mode\", \"offline\"]}\n"),
];

/// How git sees the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Tracked,
    Untracked,
    Ignored,
}

const ALL: [Known; 3] = [Known::Tracked, Known::Untracked, Known::Ignored];

/// Plays INITIALIZER, says that it was started, and first puts `$HOME/plant` where `$HOME/target` says.
const AGENT: &str = r#"
echo "$AGENCY_PHASE" >> "$HOME/started"
if [ -f "$HOME/plant" ]; then cp "$HOME/plant" "$(cat "$HOME/target")"; fi
[ "$AGENCY_PHASE" = INITIALIZER ] || exit 0
echo '{"project_name": "Shop", "features": [{"id": "F001", "name": "Health", "passes": false}]}' > feature_list.json
git add -A
git -c user.name=a -c user.email=a@example.com commit --quiet -m "Set up"
"#;

fn stage() -> Stage {
    stage_with("")
}

fn stage_with(more: &str) -> Stage {
    let stage = Stage::new(AGENT);
    let agent = format!("{{ command: [sh, {}], retries: 0 }}", stage.at("agent.sh").display());
    let seats = ["builder", "reviewer", "fixer"].map(|seat| format!("  {seat}: {agent}\n"));
    stage.configure(&(seats.concat() + more));
    stage
}

fn put(stage: &Stage, name: &str, text: &str, known: Known) {
    if known == Known::Ignored {
        stage.write(".gitignore", format!("{name}\n"));
        stage.git(&["add", ".gitignore"]);
        stage.git(&["commit", "--quiet", "-m", "ignore it"]);
    }
    stage.write(name, text);
    if known == Known::Tracked {
        stage.git(&["add", name]);
        stage.git(&["commit", "--quiet", "-m", "the owner's file"]);
    }
}

fn started(stage: &Stage) -> String {
    fs::read_to_string(stage.at("home/started")).unwrap_or_default()
}

/// Tree, index and branch, as they must stay.
fn seen(stage: &Stage, name: &str) -> (Vec<u8>, String, String) {
    let bytes = fs::read(stage.repo().join(name)).unwrap();
    let status = stage.git(&["status", "--porcelain", "--ignored"]);
    (bytes, status, stage.git(&["rev-parse", "HEAD"]))
}

// covers: LG-02, LG-15
#[test]
fn the_loop_does_not_begin_beside_a_refused_file() {
    for (name, text) in FOREIGN {
        for known in ALL {
            let stage = stage();
            put(&stage, name, text, known);
            let before = seen(&stage, name);
            let said = stage.agency(&["ledger", "init"]);
            assert_eq!(said.code, 1, "{known:?} {name}: {}{}", said.out, said.err);
            let wanted =
                [format!("`{name}` is not a ledger file"), "agency ledger init".to_owned()];
            for words in wanted {
                assert!(said.err.contains(&words), "{known:?} {name}: {}", said.err);
            }
            stage.agency(&["run", "--once"]);
            assert_eq!(started(&stage), "", "{known:?} {name}: an agent was started");
            assert_eq!(seen(&stage, name), before, "{known:?} {name}");
        }
    }
}

/// What a file looks like whose writer has not finished, or never will.
const UNFINISHED: [&str; 3] = ["", " \n", "{\"percent\": 40, \"eta\": "];

// covers: LG-02, LG-15
#[test]
fn nothing_starts_beside_a_file_that_is_empty_or_cut_off() {
    for (name, _) in FOREIGN {
        for text in UNFINISHED {
            for known in [Known::Untracked, Known::Ignored] {
                let stage = stage();
                put(&stage, name, text, known);
                let before = seen(&stage, name);
                let said = stage.agency(&["ledger", "init"]);
                assert_eq!(said.code, 1, "{known:?} {name} {text:?}: {}{}", said.out, said.err);
                assert!(said.err.contains(&format!("`{name}`")), "{}", said.err);
                stage.agency(&["run", "--once"]);
                assert_eq!(started(&stage), "", "{known:?} {name} {text:?}");
                assert_eq!(seen(&stage, name), before, "{known:?} {name} {text:?}");
            }
        }
    }
}

// covers: LG-02
#[test]
fn a_loop_under_way_starts_nothing_beside_a_file_that_is_cut_off() {
    for (name, _) in FOREIGN {
        let stage = stage();
        stage.ok(&["ledger", "init"]);
        put(&stage, name, UNFINISHED[2], Known::Untracked);
        let before = seen(&stage, name);
        stage.agency(&["run", "--once"]);
        assert_eq!(started(&stage), "", "{name}: an agent was started");
        assert_eq!(seen(&stage, name), before, "{name}");
    }
}

// covers: LG-02
#[test]
fn a_loop_under_way_is_held_beside_a_refused_file_and_goes_on_when_it_is_gone() {
    for (name, text) in FOREIGN {
        for known in ALL {
            let stage = stage();
            stage.ok(&["ledger", "init"]);
            put(&stage, name, text, known);
            let before = seen(&stage, name);
            stage.agency(&["run", "--once"]);
            assert_eq!(started(&stage), "", "{known:?} {name}: an agent was started");
            let status = stage.agency(&["status"]).out;
            assert!(status.contains(&format!("`{name}` is not a ledger file")), "{status}");
            let still = stage.agency(&["resume"]);
            assert_eq!(still.code, 1, "{}", still.out);
            assert!(still.err.contains("agency resume"), "{}", still.err);
            assert_eq!(seen(&stage, name), before, "{known:?} {name}");
        }
    }
    let stage = stage();
    stage.ok(&["ledger", "init"]);
    put(&stage, "progress.json", "{}", Known::Untracked);
    stage.agency(&["run", "--once"]);
    fs::rename(stage.repo().join("progress.json"), stage.repo().join("other.json")).unwrap();
    stage.ok(&["resume"]);
    stage.agency(&["run", "--once"]);
    assert!(started(&stage).starts_with("INITIALIZER\nIMPLEMENT\n"), "{}", started(&stage));
    assert_eq!(fs::read_to_string(stage.repo().join("other.json")).unwrap(), "{}");
}

// covers: LG-02
#[test]
fn a_file_that_appears_while_an_agent_works_is_not_merged_over() {
    for (name, text) in FOREIGN {
        for known in [Known::Untracked, Known::Ignored] {
            // It appears in the owner's tree, where an agent in a sandbox could not write.
            let stage = stage_with("sandbox: { mode: off }\n");
            if known == Known::Ignored {
                stage.write(".gitignore", format!("{name}\n"));
                stage.git(&["add", ".gitignore"]);
                stage.git(&["commit", "--quiet", "-m", "ignore it"]);
            }
            stage.ok(&["ledger", "init"]);
            fs::write(stage.at("home/plant"), text).unwrap();
            let target = stage.repo().join(name);
            fs::write(stage.at("home/target"), target.to_str().unwrap()).unwrap();
            stage.agency(&["run", "--once"]);
            assert_eq!(started(&stage), "INITIALIZER\n", "{known:?} {name}");
            assert_eq!(fs::read_to_string(&target).unwrap(), text, "{known:?} {name}");
            assert_eq!(
                stage.git(&["log", "--format=%s", "-1"]),
                if known == Known::Ignored { "ignore it" } else { "the owner's first commit" }
            );
        }
    }
}

// covers: LG-02
#[test]
fn a_list_that_git_does_not_follow_is_a_list_too() {
    let list = "[{\"id\": \"F001\", \"name\": \"Health\", \"passes\": true}]\n";
    for known in ALL {
        let stage = stage();
        put(&stage, "feature_list.json", list, known);
        stage.ok(&["ledger", "init"]);
        stage.agency(&["run", "--once"]);
        assert_eq!(started(&stage), "", "{known:?}: all of its features pass");
        assert_eq!(stage.git(&["show", "HEAD:feature_list.json"]), list.trim_end(), "{known:?}");
        let status = stage.agency(&["status"]).out;
        assert!(status.contains("complete"), "{known:?}: {status}");
    }
}

// covers: LG-02
#[test]
fn a_list_that_was_taken_out_of_git_is_not_written_anew() {
    let list = "[{\"id\": \"F001\", \"name\": \"Health\", \"passes\": true}]\n";
    let stage = stage();
    put(&stage, "feature_list.json", list, Known::Tracked);
    stage.ok(&["ledger", "init"]);
    stage.agency(&["run", "--once"]);
    stage.git(&["rm", "--cached", "--quiet", "feature_list.json"]);
    stage.write(".gitignore", "feature_list.json\n");
    stage.git(&["add", ".gitignore"]);
    stage.git(&["commit", "--quiet", "-m", "keep it to myself"]);
    stage.agency(&["run", "--once"]);
    assert_eq!(started(&stage), "");
    assert_eq!(fs::read_to_string(stage.repo().join("feature_list.json")).unwrap(), list);
    let status = stage.agency(&["status"]).out;
    assert!(status.contains("is in your tree, but not on `main`"), "{status}");
}

// covers: LG-17
#[test]
fn the_loop_begins_on_a_list_without_ids_only_after_adopt() {
    let stage = stage();
    put(
        &stage,
        "feature_list.json",
        "[{\"title\": \"Health\", \"status\": \"done\"}]\n",
        Known::Tracked,
    );
    let said = stage.agency(&["ledger", "init"]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(
        said.err.contains("without an id") && said.err.contains("agency ledger adopt"),
        "{}",
        said.err
    );
    stage.ok(&["ledger", "adopt"]);
    stage.ok(&["ledger", "init"]);
    stage.agency(&["run", "--once"]);
    assert_eq!(started(&stage), "", "all of its features are done");
    let status = stage.agency(&["status"]).out;
    assert!(status.contains("complete"), "{status}");
    let list = fs::read_to_string(stage.repo().join("feature_list.json")).unwrap();
    assert_eq!(list, "[{\"id\": \"FEAT-001\", \"title\": \"Health\", \"status\": \"done\"}]\n");
}

// covers: LG-02
#[test]
fn what_force_replaces_is_kept() {
    let desk = super::Desk::new();
    desk.ok(&["progress", "init", "-n", "Shop", "-c", "3"]);
    let first = desk.read("progress.json");
    desk.ok(&["progress", "init", "-n", "Inn", "-c", "1", "--force"]);
    assert_eq!(desk.read("progress.json.old-1"), first);
    desk.ok(&["progress", "init", "-n", "Bar", "-c", "1", "--force"]);
    assert_eq!(
        (
            desk.read("progress.json.old-1"),
            desk.json("progress.json.old-2")["project"]["name"].as_str()
        ),
        (first, Some("Inn"))
    );
}
