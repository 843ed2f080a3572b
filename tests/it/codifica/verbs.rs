//! Every verb by the real program.

use super::{CONFIG, is_untouched, shared, stage, state_file, task};
use crate::e2e::stage::Stage;
use serde_json::Value;

fn show(stage: &Stage, id: &str) -> Value {
    stage.json(&["work", "show", id, "--json"])
}

// covers: CD-05, CD-08, CD-13, CD-14, CD-24
#[test]
#[expect(clippy::too_many_lines, reason = "one story from its beginning to its end")]
fn a_task_from_new_to_the_archive_without_a_remote() {
    let stage = stage(&[task("FEAT-1", "")]);
    stage.ok(&[
        "work",
        "new",
        "FEAT-2",
        "--title",
        "Search: words",
        "--accept",
        "finds",
        "--depends-on",
        "FEAT-1",
        "--as-human",
    ]);
    assert_eq!(stage.json(&["work", "next", "--agent", "builder", "--json"])["id"], "FEAT-1");
    assert_eq!(
        stage.json(&["work", "next", "--agent", "builder", "--json"])["branch"],
        "build/FEAT-1-task-feat-1"
    );
    let before = stage.git(&["rev-parse", "HEAD"]);
    assert_eq!(
        stage.json(&["work", "claim", "--agent", "agent:builder", "--json"])["id"],
        "FEAT-1"
    );
    let claimed = show(&stage, "FEAT-1");
    assert_eq!(
        (&claimed["state"], &claimed["owner"]),
        (&"in_progress".into(), &"agent:builder".into())
    );
    assert_eq!(
        claimed["state_transitions"][0]["provenance"]["commit_sha"],
        before.as_str(),
        "HEAD before the entry"
    );
    let who = ["--agent", "builder", "--session", "s-9"];
    let run = |words: &[&str]| stage.ok(&[words, &who].concat());
    run(&["work", "note", "FEAT-1", "--text", "half\nway: \"there\""]);
    run(&["work", "artifact", "FEAT-1", "--path", "src/a.rs", "--type", "code"]);
    run(&["work", "request-block", "FEAT-1", "--reason", "no key"]);
    stage.ok(&["work", "block", "FEAT-1", "--as-human", "--reason", "no key yet"]);
    assert_eq!(show(&stage, "FEAT-1")["blocked_reason"], "no key yet");
    stage.ok(&["work", "unblock", "FEAT-1", "--as-human", "--to", "in_progress"]);
    run(&["work", "submit", "FEAT-1", "--summary", "ready"]);
    stage.ok(&["work", "review", "FEAT-1", "--as-human", "--status", "pass", "--note", "nice"]);
    run(&["work", "done", "FEAT-1", "--summary", "search finds words"]);
    let done = show(&stage, "FEAT-1");
    assert_eq!((&done["state"], &done["human_review"]["status"]), (&"done".into(), &"pass".into()));
    assert_eq!(done["execution_notes"].as_array().unwrap().len(), 4);
    assert_eq!(done["execution_notes"][0]["note"], "half\nway: \"there\"");
    assert_eq!(done["execution_notes"][3]["provenance"]["session_id"], "s-9");
    assert!(done["completed_at"].is_string() && done["blocked_reason"].is_null());
    assert_eq!(
        stage.json(&["work", "next", "--agent", "builder", "--json"])["id"],
        "FEAT-2",
        "its dependency is done"
    );
    stage.ok(&["work", "reopen", "FEAT-1", "--as-human", "--reason", "not yet"]);
    stage.ok(&["work", "reject", "FEAT-1", "--as-human", "--reason", "no need"]);
    stage.ok(&["work", "archive", "--to", "work/done.md", "--as-human"]);
    assert!(show(&stage, "FEAT-1")["at"].as_str().unwrap().starts_with("work/done.md:"));
    assert!(stage.ok(&["work", "validate"]).contains("nothing is wrong"));
    assert!(stage.ok(&["work", "audit"]).contains("no violation"));
    assert!(stage.ok(&["work", "list"]).contains("FEAT-2"));
    assert!(stage.ok(&["work", "contract"]).contains("human_review"));
    assert!(is_untouched(&stage, &stage.repo()), "{}", stage.git(&["status", "--porcelain"]));
    let authors = stage.git(&["log", "--format=%an", "main"]);
    assert!(
        authors.contains("agent:builder")
            && authors.contains("Owner")
            && !authors.contains("agency"),
        "{authors}"
    );
    let subjects = stage.git(&["log", "--format=%s", "--stat", "main"]);
    assert!(subjects.contains("codifica: FEAT-1 in_progress → blocked by human"), "{subjects}");
}

// covers: CD-11, CD-07, CD-29
#[test]
fn a_refusal_names_its_rule_and_changes_nothing() {
    let stage = stage(&[task("FEAT-1", "")]);
    let head = stage.git(&["rev-parse", "HEAD"]);
    for (words, rule) in [
        (&["work", "done", "FEAT-1", "--agent", "a", "--summary", "x"][..], "CD-07"),
        (&["work", "reclaim", "FEAT-1", "--agent", "a", "--reason", "x"], "CD-07"),
        (&["work", "claim", "NO-1", "--agent", "a"], "no task `NO-1`"),
        (&["work", "claim", "--agent", "../x"], "no agent's name"),
        (&["work", "claim", "FEAT-1"], "say who"),
    ] {
        let said = stage.agency(words);
        assert!(said.code == 1 || said.code == 2, "{words:?}: {}", said.code);
        assert!(said.err.contains(rule), "{words:?}: {}", said.err);
    }
    assert_eq!(stage.git(&["rev-parse", "HEAD"]), head);
    stage.ok(&["work", "claim", "--agent", "a"]);
    assert!(
        stage
            .agency(&["work", "reclaim", "FEAT-1", "--agent", "b", "--reason", "x"])
            .err
            .contains("CD-07a")
    );
    let fresh = stage.agency(&["work", "reclaim", "FEAT-1", "--as-human", "--reason", "no answer"]);
    assert!(
        fresh.code == 1 && fresh.err.contains("is not stale: agent:a was active"),
        "{}",
        fresh.err
    );
    assert!(fresh.err.contains("--force"), "{}", fresh.err);
    stage.ok(&["work", "reclaim", "FEAT-1", "--as-human", "--reason", "no answer", "--force"]);
    assert_eq!(show(&stage, "FEAT-1")["owner"], "unassigned");
}

// covers: SE-04, CD-10
#[test]
fn inside_a_run_nobody_is_human_and_nobody_is_somebody_else() {
    let stage = stage(&[task("FEAT-1", "")]);
    let inside = |words: &[&str]| {
        let output = stage
            .program()
            .args(words)
            .env("AGENCY_RUN", "r1")
            .env("AGENCY_AGENT", "builder")
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = inside(&["work", "block", "FEAT-1", "--as-human", "--reason", "x"]);
    assert!(code == 1 && said.contains("SE-04"), "{said}");
    let (code, said) = inside(&["work", "claim", "--agent", "other"]);
    assert!(code == 1 && said.contains("CD-10"), "{said}");
    assert_eq!(inside(&["work", "claim"]).0, 0, "its own name is known");
    assert_eq!(show(&stage, "FEAT-1")["state_transitions"][0]["provenance"]["session_id"], "r1");
}

// covers: CD-23
#[test]
fn an_unfinished_edit_of_the_owner_is_never_swept_in_or_lost() {
    let stage = stage(&[task("FEAT-1", "")]);
    let dirty = stage.read("work/active.md").unwrap().replace("Prose", "Unfinished prose");
    stage.write("work/active.md", &dirty);
    let said = stage.agency(&["work", "claim", "--agent", "a"]);
    assert!(
        said.code == 1
            && said.err.contains("work/active.md has uncommitted changes. Commit or stash"),
        "{}",
        said.err
    );
    assert_eq!(stage.read("work/active.md").unwrap(), dirty);
    assert_eq!(stage.git(&["log", "--oneline", "main"]).lines().count(), 2);
}

// covers: CD-08, CD-23
#[test]
fn a_checkout_that_cannot_follow_is_left_as_it_is_and_said() {
    let (stage, clones) = shared(&[task("FEAT-1", ""), task("FEAT-2", "")], 2);
    let file = clones[0].join("work/active.md");
    let dirty = std::fs::read_to_string(&file).unwrap().replace("Prose", "Unfinished");
    std::fs::write(&file, &dirty).unwrap();
    let said = stage.agency_in(&clones[0], &["work", "claim", "FEAT-1", "--agent", "a"]);
    assert!(said.code == 0 && said.out.contains("your main was not moved: work/active.md has uncommitted changes. Commit them, then: git pull --rebase"), "{}{}", said.out, said.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), dirty);
    // The other clone knows nothing of it, and is told before anything happens.
    let late = stage.agency_in(&clones[1], &["work", "claim", "FEAT-1", "--agent", "b"]);
    assert!(late.code == 1 && late.err.contains("CD-"), "{}", late.err);
    let other = stage.agency_in(&clones[1], &["work", "claim", "--agent", "b"]);
    assert!(other.code == 0 && other.out.contains("FEAT-2"), "{}{}", other.out, other.err);
    assert!(is_untouched(&stage, &clones[1]));
    let text = std::fs::read_to_string(clones[1].join("work/active.md")).unwrap();
    assert!(text.contains("agent:a") && text.contains("agent:b"), "pulled before written");
}

// covers: CD-08
#[test]
fn a_remote_that_cannot_be_reached_changes_nothing() {
    let (stage, clones) = shared(&[task("FEAT-1", "")], 1);
    std::fs::rename(stage.at("hub.git"), stage.at("gone.git")).unwrap();
    let said = stage.agency_in(&clones[0], &["work", "claim", "--agent", "a"]);
    assert!(said.code == 1 && said.err.contains("nothing was changed"), "{}", said.err);
    assert!(is_untouched(&stage, &clones[0]));
}

// covers: CD-01, CD-04, CD-26
#[test]
fn what_is_missing_or_wrong_stops_with_its_reason() {
    let stage = stage(&[task("FEAT-1", "")]);
    let refused = |wanted: &str| {
        let said = stage.agency(&["work", "validate"]);
        assert!(
            said.code == 1 && (said.err.contains(wanted) || said.out.contains(wanted)),
            "{wanted}: {}{}",
            said.out,
            said.err
        );
    };
    stage.write("work/twice.md", state_file(&[task("FEAT-1", "")]));
    refused("CD-04");
    std::fs::remove_file(stage.repo().join("work/twice.md")).unwrap();
    std::fs::rename(stage.repo().join("spec.md"), stage.repo().join("s.md")).unwrap();
    refused("CD-26");
    stage.write("spec.md", "x");
    stage.write("codifica.json", CONFIG.replace("work/*.md", "gone.md"));
    refused("CD-26");
    stage.write("codifica.json", CONFIG.replace("work/*.md", "gone/*.md"));
    refused("CD-26");
    stage.write("codifica.json", CONFIG.replace("0.2", "9.9"));
    refused("CD-26");
    std::fs::remove_file(stage.repo().join("codifica.json")).unwrap();
    refused("CD-01");
}

// covers: CD-02, CD-09
#[test]
fn without_git_the_files_are_changed_in_place() {
    let stage = stage(&[task("FEAT-1", "")]);
    let dir = stage.at("plain");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("codifica.json"), CONFIG.replace("work/*.md", "work.yaml")).unwrap();
    std::fs::write(dir.join("spec.md"), "x").unwrap();
    let text = format!("# head\r\n{}", task("A", "").replace('\n', "\r\n"));
    std::fs::write(dir.join("work.yaml"), &text).unwrap();
    let said = stage.agency_in(&dir, &["work", "claim", "A", "--agent", "a"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let now = std::fs::read_to_string(dir.join("work.yaml")).unwrap();
    assert!(
        now.starts_with(
            "# head\r\n- id: A\r\n  type: build\r\n  state: in_progress\r\n  owner: agent:a\r\n"
        ),
        "{now}"
    );
    assert_eq!(now.matches('\n').count(), now.matches("\r\n").count());
}

// covers: CD-19, CD-10, CD-20
#[test]
fn the_audit_finds_every_violation_that_was_ever_committed() {
    let stage = stage(&[task("FEAT-1", ""), task("FEAT-2", "")]);
    assert_eq!(stage.json(&["work", "audit", "--json"]).as_array().unwrap().len(), 0);
    let edit = |from: &str, to: &str, author: &str| {
        let text = stage.read("work/active.md").unwrap();
        assert!(text.contains(from), "{from}");
        stage.write("work/active.md", text.replacen(from, to, 1));
        stage.git(&["commit", "--quiet", "-a", "-m", to, "--author", author]);
    };
    edit("state: todo", "state: done", "Owner <owner@example.com>");
    edit("title: Task FEAT-2", "title: mine", "agent:sly <sly@agent.localhost>");
    edit(
        "  title: mine\n",
        "  title: mine\n  human_review: {status: pass}\n",
        "agent:sly <sly@agent.localhost>",
    );
    edit("Prose", "Poetry", "Owner <owner@example.com>");
    stage.ok(&["work", "claim", "FEAT-2", "--agent", "honest"]);
    let found = stage.agency(&["work", "audit", "--json"]);
    assert_eq!(found.code, 1);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    let rules: Vec<_> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["author"].as_str().unwrap(), one["rule"].as_str().unwrap()))
        .collect();
    assert!(
        rules.contains(&("Owner", "CD-07")) && rules.contains(&("Owner", "CD-20")),
        "{rules:?}"
    );
    assert!(rules.contains(&("agent:sly", "CD-10")), "{rules:?}");
    assert!(!rules.iter().any(|(author, _)| *author == "agent:honest"), "{rules:?}");
}
