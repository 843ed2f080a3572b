//! Tasks move by the table only, with a daemon and without one.

use super::{board, report, status, task};
use crate::e2e::stage::Stage;

fn refused(stage: &Stage, words: &[&str], because: &str) {
    let said = stage.agency(words);
    assert!(
        said.code == 1 && said.err.contains(because),
        "agency {words:?}: {}{}",
        said.out,
        said.err
    );
}

/// A task of a person's from NEW to DONE, by whoever answers commands.
fn whole_life(stage: &Stage) {
    let file = task(stage, &["--must-touch", "a.txt"]);
    let id = file.file_name().unwrap().to_str().unwrap()[..5].to_owned();
    refused(stage, &["task", "done", &id], "AG-08");
    refused(stage, &["task", "request-changes", &id, "--reason", "x"], "AG-08");
    stage.ok(&["task", "start", &id]);
    assert_eq!(status(stage, &file), "IN_PROGRESS");
    stage.write("a.txt", "work\n");
    report(stage, &file, "READY_FOR_REVIEW", "");
    refused(stage, &["task", "done", &id], "not verified by us");
    assert_eq!(status(stage, &file), "READY_FOR_REVIEW", "its report moved it");
    stage.ok(&["task", "request-changes", &id, "--reason", "not good enough"]);
    assert_eq!(status(stage, &file), "IN_PROGRESS");
    let again = report(stage, &file, "READY_FOR_REVIEW", "follow_ups: [\"Do more\"]\n");
    stage.ok(&["verify", "--task", &id]);
    stage.write("a.txt", "work after the verify\n");
    refused(stage, &["task", "done", &id], "`a.txt` changed after the verify");
    stage.ok(&["verify", "--task", &id]);
    stage.ok(&["task", "done", &id]);
    assert_eq!(status(stage, &file), "DONE");
    let state = stage.read(".kodingx/STATE.md").unwrap();
    assert!(state.contains(&format!("done_tasks_recent: [\"{id}\"")), "{state}");
    assert!(stage.read(".kodingx/TASK_BOARD.md").unwrap().contains(&id));
    assert!(stage.ok(&["report", &id]).contains(&again));
    assert_eq!(stage.json(&["report", &id, "--json"])["follow_ups"][0], "Do more");
    refused(stage, &["task", "start", &id], "AG-08");
}

// covers: AG-08, AG-11, AG-28, AG-33, DM-15
#[test]
fn a_persons_task_lives_its_whole_life_without_a_daemon() {
    let stage = board();
    whole_life(&stage);
    assert!(stage.escalation("AG-15").is_none(), "our own writes are no tampering");
    assert_eq!(stage.agency(&["check"]).code, 0, "{}", stage.agency(&["check"]).out);
}

// covers: AG-28, DM-15
#[test]
fn and_with_one() {
    let stage = board();
    let daemon = stage.start();
    stage.wait("the daemon", || {
        stage.json(&["status", "--json"])["repos"][0]["protocols"][0]["name"]
            .as_str()
            .map(str::to_owned)
    });
    whole_life(&stage);
    assert!(stage.escalation("AG-15").is_none());
    assert_eq!(daemon.stop(), 0);
}

// covers: AG-08
#[test]
fn a_status_written_by_hand_moves_nothing() {
    let stage = board();
    let file = task(&stage, &[]);
    let path = file.to_str().unwrap();
    stage.ok(&["task", "start", "T0001"]);
    let text = stage.read(path).unwrap();
    stage.write(path, text.replace("IN_PROGRESS", "DONE"));
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    let told = stage.escalation("AG-11").expect("the owner is told");
    assert!(told["summary"].as_str().unwrap().contains("IN_PROGRESS again"), "{told}");
    assert_eq!(stage.read(path).unwrap(), text, "the status is put back");
    refused(&stage, &["task", "done", "T0001"], "T0001 is IN_PROGRESS");
}

// covers: AG-07, AG-12, AG-30
#[test]
fn reports_are_judged_and_a_blocked_task_comes_back() {
    let stage = board();
    let file = task(&stage, &[]);
    report(&stage, &file, "READY_FOR_REVIEW", "");
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    let told = stage.escalation("AG-07").expect("a report before the start is refused");
    assert!(
        told["summary"].as_str().unwrap().contains("IN_PROGRESS")
            || told["what"].as_str().is_some(),
        "{told}"
    );
    assert_eq!(status(&stage, &file), "ASSIGNED");
    stage.ok(&["task", "start", "T0001"]);
    report(&stage, &file, "BLOCKED", "reason: \"no access: to the database\"\n");
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    assert_eq!(status(&stage, &file), "BLOCKED");
    assert!(stage.read(".kodingx/STATE.md").unwrap().contains("blocked_tasks: [\"T0001\"]"));
    assert!(
        stage.escalation("AG-12").unwrap()["summary"]
            .as_str()
            .unwrap()
            .contains("no access: to the database")
    );
    stage.ok(&["task", "unblock", "T0001", "--reason", "granted"]);
    assert_eq!(status(&stage, &file), "ASSIGNED");
    stage.ok(&["task", "cancel", "T0001"]);
    assert_eq!(status(&stage, &file), "CANCELED");
    refused(&stage, &["task", "cancel", "T0001"], "AG-08");
}

// covers: AG-15
#[test]
fn a_foreign_frontmatter_is_repaired_and_text_below_it_is_kept() {
    let stage = board();
    task(&stage, &[]);
    stage.ok(&["task", "start", "T0001"]);
    let state = stage.read(".kodingx/STATE.md").unwrap();
    let with_focus = state.replace("(one paragraph)", "Ship the release.");
    stage.write(".kodingx/STATE.md", &with_focus);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    assert_eq!(stage.read(".kodingx/STATE.md").unwrap(), with_focus, "the text is everyone's");
    assert!(stage.escalation("AG-15").is_none());
    let forged = with_focus
        .replace("active_tasks: [\"T0001\"]", "active_tasks: []")
        .replace("Ship", "Forge");
    stage.write(".kodingx/STATE.md", &forged);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    assert_eq!(stage.read(".kodingx/STATE.md").unwrap(), with_focus.replace("Ship", "Forge"));
    assert!(stage.escalation("AG-15").is_some());
    stage.ok(&["task", "cancel", "T0001"]);
    assert!(
        stage.read(".kodingx/STATE.md").unwrap().contains("Forge the release."),
        "and it stays after our next write"
    );
}

// covers: AG-27
#[test]
fn dependencies_come_first() {
    let stage = board();
    task(&stage, &[]);
    let second = task(&stage, &["--depends-on", "T0001"]);
    let said = stage.agency(&[
        "task",
        "new",
        "--title",
        "x",
        "--assignee",
        "codex",
        "--depends-on",
        "T0099",
    ]);
    assert!(said.code == 1 && said.err.contains("T0099"), "{}", said.err);
    refused(&stage, &["task", "start", "T0002"], "T0001 is NEW");
    stage.ok(&["task", "cancel", "T0001"]);
    refused(&stage, &["task", "start", "T0002"], "T0001 is CANCELED");
    let third = task(&stage, &["--depends-on", "T0002"]);
    let text = stage.read(second.to_str().unwrap()).unwrap();
    stage.write(second.to_str().unwrap(), text.replace("- \"T0001\"", "- \"T0003\""));
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    let told = stage.json(&["escalations", "--json"]).to_string();
    assert!(told.contains("leads back to"), "a circle is refused: {told}");
    assert_eq!(status(&stage, &third), "NEW");
}

// covers: AG-04, AG-33
#[test]
fn every_field_has_a_flag_and_every_task_its_sections() {
    let stage = board();
    stage.write(
        ".kodingx/RISKS.md",
        "### R-001: x\n**Priority:** P2\n**Status:** OPEN\n**Linked Tasks:**\n",
    );
    task(&stage, &[]);
    let title =
        "Fix: \"quotes\", 'colons': #hash & emoji 🚀 --- {braces} [x] *a* &b !c | > % @ `d`";
    let words = [
        "task",
        "new",
        "--title",
        title,
        "--assignee",
        "claude_code",
        "--priority",
        "P0",
        "--dod-profile",
        "tiny",
        "--must-touch",
        "src/**",
        "--may-touch",
        "tests/**",
        "--must-not-touch",
        "db/**",
        "--acceptance",
        "It: works",
        "--acceptance",
        "- \"always\"",
        "--constraint",
        "no schema",
        "--context-file",
        "src/a.ts",
        "--label",
        "bug",
        "--depends-on",
        "T0001",
        "--risk",
        "R-001",
        "--ref",
        "github_issue=#123",
        "--ref",
        "jira=PROJ-456",
        "--problem",
        "It is broken.",
        "--notes",
        "Take care.",
    ];
    let out = stage.ok(&words);
    assert!(out.starts_with("T0002  .kodingx/inbox/claude_code/20"), "{out}");
    let shown = stage.json(&["task", "show", "T0002", "--json"]);
    assert_eq!(shown["title"], title);
    assert_eq!(shown["acceptance"], serde_json::json!(["It: works", "- \"always\""]));
    assert_eq!(
        shown["external_refs"],
        serde_json::json!({"github_issue": "#123", "jira": "PROJ-456"})
    );
    assert_eq!(
        (shown["risks"][0].as_str(), shown["depends_on"][0].as_str()),
        (Some("R-001"), Some("T0001"))
    );
    let body = shown["body"].as_str().unwrap();
    for part in
        ["## Problem\nIt is broken.", "## Expected Outcome\n- It: works", "## Notes\nTake care."]
    {
        assert!(body.contains(part), "{body}");
    }
    for (bad, code) in [("two\nlines", 2), ("  ", 2)] {
        assert_eq!(
            stage.agency(&["task", "new", "--title", bad, "--assignee", "codex"]).code,
            code,
            "{bad:?}"
        );
    }
    for bad in ["../x", "UPPER", "a/b", ""] {
        assert_eq!(
            stage.agency(&["task", "new", "--title", "x", "--assignee", bad]).code,
            2,
            "{bad:?}"
        );
    }
    assert_eq!(
        stage
            .agency(&["task", "new", "--title", "x", "--assignee", "codex", "--may-touch", "../x"])
            .code,
        2
    );
    assert_eq!(stage.agency(&["task", "list"]).code, 0);
    stage.ok(&["assign", "codex", "--title", "Another"]);
    assert_eq!(
        stage.json(&["task", "list", "--status", "ASSIGNED", "--json"]).as_array().unwrap().len(),
        1
    );
}

// covers: AG-21
#[test]
fn finished_tasks_are_archived_and_come_back() {
    let stage = board();
    let old = task(&stage, &[]);
    let active = task(&stage, &[]);
    stage.ok(&["task", "cancel", "T0001"]);
    stage.ok(&["task", "start", "T0002"]);
    for file in [&old, &active] {
        let text = stage.read(file.to_str().unwrap()).unwrap();
        let year = &text[text.find("created_at: ").unwrap() + 12..][..4];
        stage.write(
            file.to_str().unwrap(),
            text.replace(&format!("created_at: {year}"), "created_at: 2020"),
        );
    }
    let moved = stage.json(&["archive", "--older-than", "30", "--json"]);
    assert_eq!(moved.as_array().unwrap().len(), 1, "nothing active is archived: {moved}");
    assert!(stage.read(old.to_str().unwrap()).is_none());
    assert!(
        stage.json(&["archive", "--older-than", "30", "--json"]).as_array().unwrap().is_empty()
    );
    let summary = |stage: &Stage| {
        stage.json(&["status", "--json"])["repos"][0]["protocols"][0]["summary"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(summary(&stage), "1 IN_PROGRESS");
    stage.ok(&["archive", "--restore", "T0001"]);
    assert_eq!(summary(&stage), "1 IN_PROGRESS · 1 CANCELED");
    stage.ok(&["archive", "--older-than", "30"]);
    assert!(
        stage.ok(&["task", "new", "--title", "x", "--assignee", "codex"]).starts_with("T0003"),
        "an archived id is not given again"
    );
}

// covers: AG-21, SE-02
#[test]
fn the_archive_loses_nothing_and_leads_nowhere_else() {
    let stage = board();
    let file = task(&stage, &[]);
    let path = file.to_str().unwrap();
    report(&stage, &file, "READY_FOR_REVIEW", "");
    stage.ok(&["task", "cancel", "T0001"]);
    let text = stage.read(path).unwrap();
    let year = &text[text.find("created_at: ").unwrap() + 12..][..4];
    stage.write(path, text.replace(&format!("created_at: {year}"), "created_at: 2020"));
    let archive = stage.repo().join(".kodingx/archive");
    std::fs::create_dir(&archive).unwrap();
    std::os::unix::fs::symlink(stage.at("home"), archive.join("outbox")).unwrap();
    refused(&stage, &["archive", "--older-than", "30"], "is not a folder");
    assert_eq!(std::fs::read_dir(stage.at("home")).unwrap().count(), 0, "nothing went outside");
    assert!(stage.read(path).is_some(), "the task goes last, so that the next time finds the rest");
    std::fs::remove_file(archive.join("outbox")).unwrap();
    assert_eq!(
        stage.json(&["archive", "--older-than", "30", "--json"]).as_array().unwrap().len(),
        2
    );
    refused(&stage, &["task", "show", "T0001"], "agency archive --restore T0001");
    // Whoever loses the notes of the last id still gives none twice.
    std::fs::remove_file(archive.join("last-id")).unwrap();
    std::fs::remove_file(super::ids::last_given(&stage)).unwrap();
    assert!(stage.ok(&["task", "new", "--title", "x", "--assignee", "codex"]).starts_with("T0002"));
    stage.write(&path.replace("do-it", "twin"), &text);
    refused(&stage, &["archive", "--restore", "T0001"], "AG-05");
}

// covers: AG-05, DM-13, AG-21
#[test]
fn a_clone_is_nobodys_until_it_is_adopted() {
    let stage = board();
    let file = task(&stage, &[]);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "tasks"]);
    stage.git_in(&stage.at(""), &["clone", "--quiet", "repo", "clone"]);
    let clone = stage.at("clone");
    let said = stage.agency_in(&clone, &["task", "start", "T0001"]);
    assert!(said.code == 1 && said.err.contains("agency adopt"), "{}", said.err);
    let status = stage.agency_in(&clone, &["status"]);
    assert!(status.out.contains("1 NEW"), "{}", status.out);
    assert_eq!(stage.agency_in(&clone, &["adopt"]).code, 0);
    assert_eq!(stage.agency_in(&clone, &["task", "start", "T0001"]).code, 0);
    let copy =
        std::fs::copy(clone.join(&file), clone.join(&file).with_file_name("T0001-1111-twin.md"));
    copy.unwrap();
    let twin = stage.agency_in(&clone, &["task", "cancel", "T0001"]);
    assert!(twin.code == 1 && twin.err.contains("AG-05"), "{}", twin.err);
}

// covers: AG-11, AG-15, AG-20
#[test]
fn a_done_that_is_not_ours_is_shown_nowhere_and_check_finds_every_forgery() {
    let stage = board();
    let file = task(&stage, &[]);
    let path = file.to_str().unwrap();
    stage.ok(&["task", "start", "T0001"]);
    assert_eq!(stage.agency(&["check"]).code, 0, "{}", stage.agency(&["check"]).out);
    let text = stage.read(path).unwrap();
    stage.write(path, text.replace("IN_PROGRESS", "DONE"));
    assert_eq!(stage.json(&["task", "list", "--json"])[0]["status"], "IN_PROGRESS");
    assert_eq!(stage.json(&["task", "list", "--status", "DONE", "--json"]), serde_json::json!([]));
    let shown = stage.agency(&["task", "show", "T0001"]);
    assert!(shown.err.contains("says DONE; the task is IN_PROGRESS"), "{}", shown.err);
    let status = stage.ok(&["status"]);
    assert!(status.contains("1 whose file says DONE") && !status.contains("1 DONE"), "{status}");
    let finds = |words: &str| {
        let said = stage.agency(&["check"]);
        assert!(said.code == 1 && said.out.contains(words), "{words}: {}", said.out);
    };
    finds("says DONE without our verify; T0001 is IN_PROGRESS");
    stage.write(path, &text);
    let state = stage.read(".kodingx/STATE.md").unwrap();
    stage
        .write(".kodingx/STATE.md", state.replace("active_tasks: [\"T0001\"]", "active_tasks: []"));
    finds("`active_tasks` is not as `agency` wrote it");
    stage.write(".kodingx/STATE.md", &state);
    stage.ok(&["verify", "--task", "T0001"]);
    assert_eq!(stage.agency(&["check"]).code, 0, "{}", stage.agency(&["check"]).out);
    let verify = stage.json(&["verify", "--task", "T0001", "--json"]);
    let artifact = verify["path"].as_str().unwrap();
    let written = stage.read(artifact).unwrap();
    stage.write(artifact, written.replace("test ! -e broken", "true"));
    finds("the artifact of T0001 is not as `agency` wrote it");
    stage.write(artifact, written);
    stage.write(".kodingx/RISKS.md", "# Risks\n\n### R-005: x\n**Linked Tasks:** none\n");
    finds("R-005 has no **Priority:**");
}

// covers: AG-37, AG-27
#[test]
fn a_mistyped_assignee_is_refused_and_an_archived_dependency_is_there() {
    let stage = board();
    let new = |more: &[&str]| {
        stage
            .agency(&[&["task", "new", "--title", "x", "--assignee", "cluade-code"], more].concat())
    };
    let said = new(&[]);
    assert!(said.code == 1 && said.err.contains("claude-code, codex"), "{}", said.err);
    assert!(said.err.contains("--force-assignee"), "{}", said.err);
    assert_eq!(new(&["--force-assignee"]).code, 0, "a person");
    assert_eq!(new(&[]).code, 0, "who is known from then on");
    stage.ok(&["task", "cancel", "T0001"]);
    stage.ok(&["task", "cancel", "T0002"]);
    stage.ok(&["archive", "--older-than", "0"]);
    assert_eq!(new(&["--depends-on", "T0001"]).code, 0, "what was put away is there");
}

// covers: AG-38
#[test]
fn every_verb_leaves_state_and_board_current() {
    let stage = board();
    let picture = || stage.read(".kodingx/TASK_BOARD.md").unwrap();
    let made = task(&stage, &[]);
    let id = made.file_stem().unwrap().to_str().unwrap().split('-').next().unwrap().to_owned();
    assert!(picture().contains("## NEW (1)") && picture().contains(&id), "{}", picture());
    stage.ok(&["assign", "alice", "--title", "Another one"]);
    assert!(picture().contains("## ASSIGNED (1)"), "{}", picture());
    for (verb, column, active) in
        [("start", "## IN_PROGRESS (1)", true), ("cancel", "## CANCELED (1)", false)]
    {
        stage.ok(&["task", verb, &id]);
        assert!(picture().contains(column), "{verb}: {}", picture());
        let state = stage.read(".kodingx/STATE.md").unwrap();
        assert_eq!(state.contains(&format!("active_tasks: [\"{id}\"]")), active, "{state}");
    }
    stage.ok(&["archive", "--older-than", "0"]);
    assert!(picture().contains("## CANCELED (0)"), "archive: {}", picture());
    stage.ok(&["archive", "--restore", &id]);
    assert!(picture().contains("## CANCELED (1)"), "restore: {}", picture());
    assert_eq!(stage.agency(&["check"]).code, 0);
    let _daemon = stage.start();
    stage.ok(&["task", "new", "--title", "A third", "--assignee", "alice"]);
    assert!(picture().contains("A third"), "with a daemon too: {}", picture());
}

// covers: AG-26
#[test]
fn times_without_a_zone_are_read_in_the_boards() {
    let stage = board();
    let file = task(&stage, &[]);
    let text = stage.read(file.to_str().unwrap()).unwrap();
    let line = text.lines().find(|line| line.starts_with("created_at: ")).unwrap();
    stage.write(file.to_str().unwrap(), text.replace(line, "created_at: 2026-01-31T16:10:00"));
    let listed = stage.json(&["task", "list", "--json"]);
    assert_eq!(listed[0]["created_at"], "2026-01-31T16:10:00+01:00", "{listed}");
}

// covers: AG-11, AG-24
#[test]
fn check_finds_an_artifact_of_a_task_that_was_never_verified() {
    let stage = board();
    let file = task(&stage, &[]);
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let id = stem.split('-').next().unwrap();
    let forged = format!(
        r#"{{"protocol":"agency/1.0","task_id":"{id}","timestamp":"2026-01-31T16:58:00+01:00","dod_profile":"tiny","result":"pass","commands":[{{"cmd":"true","exit_code":0,"duration_ms":1}}],"notes":[]}}"#
    );
    stage.write(&format!(".kodingx/verify/2026-01-31/{stem}.verify.json"), forged);
    let said = stage.agency(&["check"]);
    assert!(said.code == 1 && said.out.contains("AG-11"), "{}{}", said.out, said.err);
}
