//! Problems found all at once, the newest state, what a killed command leaves, and the archive of the minimal form.

use super::{CONFIG, is_untouched, shared, stage, stage_with, state_file, task};
use crate::e2e::stage::Stage;
use std::os::unix::fs::PermissionsExt as _;

fn done(id: &str, more: &str) -> String {
    task(id, &format!("  completed_at: 2026-01-01T00:00:00Z\n{more}"))
        .replace("todo", "done")
        .replace("unassigned", "human")
}

// covers: CD-27, CD-29, CD-04
#[test]
fn check_and_validate_name_every_problem_at_once_with_the_same_exit_code() {
    let blocked =
        task("B-1", "  blocked_reason: x\n  blocked_by: NOPE\n").replace("todo", "blocked");
    let odd = task("B-2", "").replace("type: build", "type: deploi").replace("todo", "doing");
    let lost = done("B-3", "  artifacts:\n    - path: src/gone.rs\n");
    let stage = stage(&[blocked, odd.clone(), lost]);
    stage.write("work/more.md", state_file(&[odd, task("B-1", "")]));
    stage.write("work/mapping.yaml", "tasks:\n  - id: B-9\n");
    stage.write("codifica.json", CONFIG.replace("work/*.md", "work/*"));
    std::fs::remove_file(stage.repo().join("spec.md")).unwrap();
    let (validate, check) = (stage.agency(&["work", "validate"]), stage.agency(&["check"]));
    assert_eq!((validate.code, check.code), (1, 1), "{}{}", check.out, check.err);
    for (out, err) in [(&validate.out, &validate.err), (&check.out, &check.err)] {
        for words in [
            "`blocked_by` names `NOPE`",
            "the type `deploi`",
            "`state` is `doing`",
            "`src/gone.rs`, which is neither in the tree nor on the task's branch",
            "a mapping with the key `tasks:`",
            "spec.md",
            "CD-26",
        ] {
            assert!(out.contains(words), "no {words} in {out}{err}");
        }
        assert_eq!(out.matches("the id a second time").count(), 2, "{out}");
    }
    let taken = stage_with(
        "exit 1\n",
        CONFIG,
        &[task("B-2", ""), task("B-2", "").replace("todo", "doing")],
    );
    let said = taken.agency(&["work", "claim", "B-2", "--agent", "a"]);
    assert!(said.code == 1 && said.err.contains("the id in 2 places"), "{}", said.err);
    assert_eq!(taken.agency(&["work", "claim", "--agent", "a"]).code, 1);
}

// covers: CD-27, CD-29
#[test]
fn every_fault_of_the_contract_is_named_and_warnings_alone_are_fine() {
    let stage = stage(&[task("A-1", "")]);
    assert_eq!(stage.agency(&["check"]).code, 0);
    stage.write("work/active.md", state_file(&[task("A-1", "  derived_from: GONE\n")]));
    let (validate, check) = (stage.agency(&["work", "validate"]), stage.agency(&["check"]));
    assert_eq!((validate.code, check.code), (0, 0), "{}", check.out);
    assert!(validate.out.contains("warning: ") && check.out.contains("warning: work/active.md"));
    let rules = r#""rules":{"mode":"lax","allowed_agent":["a"],"allowed_agents":"b","file_scope":{"includes":[]},"stale_claim_hours":"x","#;
    stage.write("codifica.json", CONFIG.replace("\"rules\":{", rules));
    let (validate, check) = (stage.agency(&["work", "validate"]), stage.agency(&["check"]));
    assert_eq!((validate.code, check.code), (1, 1));
    for words in
        ["rules.mode", "`allowed_agent`", "rules.allowed_agents", "`includes`", "stale_claim_hours"]
    {
        assert!(
            validate.out.contains(words) && check.out.contains(words),
            "{words}: {}",
            validate.out
        );
    }
}

// covers: CD-28
#[test]
fn next_and_list_show_what_the_remote_has_or_say_that_they_may_be_old() {
    let (stage, clones) = shared(&[task("A-1", ""), task("A-2", "")], 2);
    let claimed = stage.agency_in(&clones[0], &["work", "claim", "A-1", "--agent", "one"]);
    assert_eq!(claimed.code, 0, "{}", claimed.err);
    let next = stage.agency_in(&clones[1], &["work", "next", "--agent", "two"]);
    assert!(next.code == 0 && next.out.starts_with("A-2"), "{}{}", next.out, next.err);
    let list = stage.agency_in(&clones[1], &["work", "list"]);
    assert!(list.out.contains("agent:one"), "{}", list.out);
    assert!(is_untouched(&stage, &clones[1]));
    let lost = stage.agency_in(&clones[1], &["work", "claim", "A-1", "--agent", "two"]);
    let wanted = "A-1 was claimed by agent:one first. Take another: agency work claim --agent two";
    assert!(lost.code == 1 && lost.err.contains(wanted), "{}", lost.err);
    std::fs::rename(stage.at("hub.git"), stage.at("gone.git")).unwrap();
    for words in [&["work", "next", "--agent", "two"][..], &["work", "list"]] {
        let said = stage.agency_in(&clones[1], words);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.err.contains("these tasks may be old (CD-28)"), "{}", said.err);
        assert!(!said.err.contains("hint:"), "{}", said.err);
    }
}

/// A git that kills its caller at the call with the number in `kill-at`, or at a later one where several run at once.
fn killing_git(stage: &Stage) -> String {
    let real = std::process::Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let dir = stage.at("killing");
    std::fs::create_dir_all(&dir).unwrap();
    let script = format!(
        "#!/bin/sh\necho >> {0}/calls\n[ $(wc -l < {0}/calls) -ge $(cat {0}/kill-at) ] && {{ kill -9 $PPID; exit 1; }}\nexec {1} \"$@\"\n",
        dir.display(),
        real.trim()
    );
    std::fs::write(dir.join("git"), script).unwrap();
    std::fs::set_permissions(dir.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", dir.display(), std::env::var("PATH").unwrap())
}

// covers: CD-08, CD-23
#[test]
fn a_claim_that_is_killed_at_any_call_of_git_is_mended_by_the_next_verb() {
    let tasks: Vec<String> =
        (0..80).map(|n| task(&format!("{}-{n}", if n % 2 == 0 { "A" } else { "B" }), "")).collect();
    let stage = stage(&tasks);
    let path = killing_git(&stage);
    let (mut kills, mut between) = (0, 0);
    for n in 0..40 {
        std::fs::write(stage.at("killing/calls"), "").unwrap();
        std::fs::write(stage.at("killing/kill-at"), (n + 1).to_string()).unwrap();
        let mine = format!("A-{}", 2 * n);
        let words = ["work", "claim", &mine, "--agent", "a"];
        let ended = stage.program().args(words).env("PATH", &path).output().unwrap();
        if ended.status.code() == Some(0) {
            break;
        }
        kills += 1;
        between += i32::from(!stage.git(&["status", "--porcelain"]).is_empty());
        let next = format!("B-{}", 2 * n + 1);
        let said = stage.agency(&["work", "claim", &next, "--agent", "b"]);
        assert_eq!(said.code, 0, "after call {}: {}", n + 1, said.err);
        assert!(is_untouched(&stage, &stage.repo()), "call {}", n + 1);
        let shown = stage.json(&["work", "show", &mine, "--json"]);
        let whole = match shown["state"].as_str().unwrap() {
            "todo" => shown["owner"] == "unassigned" && shown["claimed_at"].is_null(),
            "in_progress" => shown["owner"] == "agent:a" && shown["claimed_at"].is_string(),
            other => panic!("{other}"),
        };
        assert!(whole, "call {}: {shown}", n + 1);
        assert_eq!(stage.json(&["work", "show", &next, "--json"])["owner"], "agent:b");
    }
    assert!(kills >= 3, "{kills} calls were hit");
    assert!(between >= 1, "none was hit between the branch and the index");
}

// covers: CD-06
#[test]
fn reopening_a_dependency_warns_its_dependents_without_a_daemon() {
    let next = task("A-2", "  depends_on: [A-1]\n  claimed_at: 2026-01-01T00:00:00Z\n")
        .replace("todo", "in_progress")
        .replace("unassigned", "agent:else");
    let stage = stage(&[done("A-1", "")]);
    stage.write("work/done.md", state_file(&[next]));
    stage.git(&["commit", "--quiet", "-a", "-m", "in another file"]);
    stage.ok(&["work", "reopen", "A-1", "--as-human", "--reason", "it was not done"]);
    let noted = stage.json(&["work", "show", "A-2", "--json"]);
    assert_eq!(noted["execution_notes"][0]["by"], "agent:agency", "{noted}");
    assert!(noted["execution_notes"][0]["note"].as_str().unwrap().contains("A-1"), "{noted}");
    assert_eq!(noted["state"], "in_progress");
    assert!(stage.ok(&["work", "audit"]).contains("no violation"));
}

fn minimal(tasks: &[String]) -> Stage {
    let stage = stage(tasks);
    stage.git(&["mv", "work/active.md", "work.md"]);
    stage.git(&["rm", "--quiet", "work/done.md"]);
    stage.write("codifica.json", include_str!("../../spec/codifica-minimal.json"));
    stage.write("codifica-spec.md", "the protocol\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "the minimal form"]);
    stage
}

// covers: CD-29, CD-17
#[test]
fn the_minimal_form_gets_an_archive() {
    let stage = minimal(&[done("A-1", ""), task("A-2", "  depends_on: [A-1]\n")]);
    let refused = stage.agency(&["work", "archive", "--agent", "a"]);
    assert!(refused.code == 1 && refused.err.contains("--as-human"), "{}", refused.err);
    let said = stage.ok(&["work", "archive", "--as-human"]);
    assert!(said.contains("archived A-1 in work-archive.md"), "{said}");
    let config = stage.read("codifica.json").unwrap();
    assert!(config.contains(r#""state": ["work.md", "work-archive.md"],"#), "{config}");
    assert!(stage.read("work-archive.md").unwrap().contains("id: A-1"));
    assert!(!stage.read("work.md").unwrap().contains("id: A-1"));
    assert!(stage.ok(&["work", "validate"]).contains("nothing is wrong"));
    assert!(stage.ok(&["work", "next", "--agent", "a"]).contains("A-2"), "its dependency resolves");
    assert!(stage.ok(&["work", "audit"]).contains("no violation"));
    assert!(is_untouched(&stage, &stage.repo()));
}

// covers: CD-02, CD-09, CD-29
#[test]
fn a_byte_order_mark_is_read_and_kept_and_other_encodings_are_named() {
    let stage = minimal(&[]);
    let with_mark = |text: &str| format!("\u{feff}{text}");
    stage.write("codifica.json", with_mark(include_str!("../../spec/codifica-minimal.json")));
    stage.write("codifica-spec.md", with_mark("the protocol\n"));
    stage.write("work.md", with_mark(&task("A-1", "")));
    stage.git(&["commit", "--quiet", "-a", "-m", "with marks"]);
    assert!(stage.ok(&["work", "validate"]).contains("1 task in 1 file"));
    assert!(stage.ok(&["work", "claim", "--agent", "a"]).contains("claimed A-1"));
    assert!(stage.read("work.md").unwrap().starts_with("\u{feff}- id: A-1\n"));
    let said = stage.ok(&["work", "artifact", "A-1", "--agent", "a", "--path", "src/x"]);
    assert_eq!(said.trim(), "recorded artifact src/x for A-1");
    stage.write("work.md", [&[0xff, 0xfe][..], b"-\0 \0"].concat());
    assert!(stage.agency(&["work", "validate"]).out.contains("UTF-16"));
    stage.write(
        "work.md",
        format!("```yaml\n{}```\n", task("A-1", "").replace("  owner", "\towner")),
    );
    let said = stage.agency(&["work", "validate"]);
    assert!(
        said.out.contains("work.md:5  found a line that is indented with a tab"),
        "{}",
        said.out
    );
    stage.write("work.md", format!("```yaml\n{}```\n", task("A-1", "  labels: [ui\n  x: y\n")));
    let said = stage.agency(&["work", "validate"]);
    assert!(said.out.contains("work.md:9  found `[`, which is never closed"), "{}", said.out);
}
