//! Ten thousand hostile titles, ids and frontmatters: nothing leaves `.kodingx/`, nothing written is invalid, nothing panics.

use super::{board, documents::new_task};
use crate::scenarios::files_below;
use agency::model::RelPath;
use agency::protocol::board::names::{self, TaskId, Zone, is_agent, task_path};
use agency::protocol::board::profile;
use agency::protocol::board::table::Status;
use agency::protocol::board::{artifact, manifest, report, risks, state, task};
use std::path::{Component, Path};

fn trials() -> u64 {
    std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// What has broken other people's tools.
const NASTY: &[&str] = &[
    "---",
    "\n---\n",
    "...",
    ": ",
    "#",
    " #",
    "- ",
    "? ",
    "| ",
    "> ",
    "'",
    "\"",
    "\\",
    "`",
    "{",
    "}",
    "[",
    "]",
    "&a",
    "*a",
    "!!python/object",
    "%YAML",
    "@",
    "~",
    "null",
    "true",
    "0x10",
    "1e3",
    "2026-01-31",
    "../",
    "..",
    "/",
    "/etc/passwd",
    "\\..\\",
    "\0",
    "\t",
    "\r",
    "\r\n",
    "\n",
    "\u{b}",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{1b}[2J",
    "\u{200b}",
    "\u{202e}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{ffff}",
    "\u{10ffff}",
    "é",
    "ß",
    "İ",
    "漢字",
    "🚀",
    "👨‍👩‍👧",
    "T0007",
    "R-001",
    "id",
    "status",
    "DONE",
    "scope",
    "a",
    "Z",
    "9",
    " ",
    "-",
    "_",
    "=",
    "<<",
    "$(id)",
    ";rm -rf /",
    "%00",
    "{{x}}",
];

/// A small generator of our own, so that a seed means the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }

    fn text(&mut self, most: usize) -> String {
        (0..self.roll(most) + 1).map(|_| NASTY[self.roll(NASTY.len())]).collect()
    }

    /// A document with some of its lines changed, doubled, cut or filled.
    fn spoil(&mut self, document: &str) -> String {
        let mut lines: Vec<String> = document.lines().map(str::to_owned).collect();
        for _ in 0..=self.roll(3) {
            let at = self.roll(lines.len());
            match self.roll(5) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, self.text(4)),
                2 => {
                    lines[at] =
                        lines[at].split(':').next().unwrap().to_owned() + ": " + &self.text(4)
                }
                3 => lines.insert(at, lines[at].clone()),
                _ => lines[at].insert_str(0, &" ".repeat(self.roll(4))),
            }
            if lines.is_empty() {
                break;
            }
        }
        lines.join("\n") + "\n"
    }
}

fn is_inside(path: &str) -> bool {
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    plain && path.starts_with(".kodingx/inbox/") && !path.contains(char::is_control)
}

// covers: AG-04, AG-06, SE-02
#[test]
fn any_title_and_name_makes_a_valid_file_inside_or_none() {
    let at = "2026-01-31T15:10:00Z".parse().unwrap();
    let id = TaskId::sequential(7);
    let mut written = 0;
    for seed in 1..=trials() {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (title, list) = (dice.text(6), vec![dice.text(3), dice.text(3)]);
        let path = task_path("codex", &id, &title, Zone::UTC, at);
        assert!(is_inside(path.as_str()), "seed {seed}: {path}");
        let text = new_task(title.trim(), list.clone()).render(&id, &Zone::UTC.stamp(at));
        if seed % 10 == 0 {
            another_parser_agrees(&text, title.trim(), &list);
        }
        if let Ok(task) = task::parse(text.as_bytes(), &path) {
            written += 1;
            assert_eq!(task.title, title.trim(), "seed {seed}");
            let trimmed: Vec<&str> = list.iter().map(|item| item.trim()).collect();
            assert_eq!(task.acceptance, trimmed, "seed {seed}");
        } else {
            let odd = |text: &str| text.trim().is_empty() || text.contains(char::is_control);
            assert!(odd(title.trim()) || list.iter().any(|item| odd(item)), "seed {seed}: {text}");
        }
        let name = dice.text(2);
        if is_agent(&name) {
            assert!(
                is_inside(task_path(&name, &id, "x", Zone::UTC, at).as_str()),
                "seed {seed}: {name}"
            );
        }
        if let Some(found) = TaskId::parse(&name) {
            assert!(
                is_inside(task_path("codex", &found, "x", Zone::UTC, at).as_str()),
                "seed {seed}"
            );
        }
        assert!(
            profile::path_of(&name).is_none_or(|path| path.as_str().starts_with(profile::FOLDER))
        );
    }
    assert!(written > trials() / 20, "only {written} were written: the test looks at nothing");
}

/// What we write is YAML to others too, and says the same.
fn another_parser_agrees(text: &str, title: &str, list: &[String]) {
    let yaml = text.strip_prefix("---\n").unwrap();
    let yaml = &yaml[..yaml.find("\n---\n").unwrap()];
    let found: serde_json::Value =
        serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(found["title"], title, "{text}");
    assert_eq!(found["labels"], serde_json::json!(list), "{text}");
}

// covers: AG-06, AG-07, AG-15, AG-16, AG-26, DM-04
#[test]
fn no_document_makes_a_parser_panic_and_an_edit_keeps_every_other_byte() {
    let task_at = RelPath::fixed(".kodingx/inbox/claude-code/2026-01-31/T0007-1610-fix-vat.md");
    let report_at =
        RelPath::fixed(".kodingx/outbox/claude-code/2026-01-31/T0007-1610-fix-vat-report.md");
    let audit_at = RelPath::fixed(".kodingx/outbox/gemini/2026-01-31/T0007-1610-fix-vat-audit.md");
    let profile_at = RelPath::fixed(".kodingx/dod/profiles/node_strict.yml");
    let documents = [
        include_str!("../../spec/board-task.md"),
        include_str!("../../spec/board-report.md"),
        include_str!("../../spec/board-state.md"),
        include_str!("../../spec/board-manifest.json"),
        include_str!("../../spec/board-verify.json"),
        include_str!("../../spec/board-profile.yml"),
        include_str!("spec/risks.md"),
        include_str!("spec/task_refs.md"),
    ];
    let mut valid = 0;
    for seed in 1..=trials() {
        let mut dice = Dice(seed.wrapping_mul(0xD1B5_4A32_D192_ED03));
        let which = usize::try_from(seed).unwrap() % documents.len();
        let text = dice.spoil(documents[which]);
        let bytes = text.as_bytes();
        // Its own parser always; all of them now and then.
        let all = seed % 17 == 0;
        if (all || matches!(which, 0 | 7))
            && let Ok(before) = task::parse(bytes, &task_at)
        {
            valid += 1;
            let edited = task::with_status(bytes, &task_at, Status::Canceled).unwrap();
            let after =
                task::parse(&edited, &task_at).unwrap_or_else(|_| panic!("seed {seed}: {text}"));
            assert_eq!(after.status, Status::Canceled, "seed {seed}");
            assert_eq!(task::Task { status: before.status, ..after }, before, "seed {seed}");
        }
        if all || which == 1 {
            drop((report::parse(bytes, &report_at), report::parse_audit(bytes, &audit_at)));
        }
        if (all || which == 2)
            && let Ok(found) = state::parse(bytes)
        {
            let again = found.render(Some(bytes), "header");
            assert_eq!(state::parse(&again).unwrap(), found, "seed {seed}");
        }
        if let Ok(found) = manifest::parse(bytes) {
            assert_eq!(manifest::parse(found.render().as_bytes()).unwrap(), found, "seed {seed}");
        }
        if (all || which == 5)
            && let Ok(found) = profile::parse(bytes, &profile_at)
        {
            let again = profile::parse(found.render("x").as_bytes(), &profile_at);
            assert_eq!(again.unwrap(), found, "seed {seed}");
        }
        drop(serde_json::from_str::<artifact::Artifact>(&text));
        risks::check(&TaskId::sequential(7), &["R-001".to_owned()], &risks::parse(&text));
        drop(names::DocumentPath::parse(&text));
    }
    assert!(valid > trials() / 100, "only {valid} were valid: the test looks at nothing");
}

// covers: AG-04, SE-02
#[test]
fn by_command_too_nothing_lands_outside() {
    let stage = board();
    // The inbox, what is derived from it (AG-38), and our own memory.
    let inside = [
        "repo/.kodingx/inbox/",
        "repo/.kodingx/STATE.md",
        "repo/.kodingx/TASK_BOARD.md",
        "repo/.git/agency/",
        "state/",
    ];
    let outside = |stage: &crate::e2e::stage::Stage| {
        let mut files = files_below(&stage.at(""));
        files.retain(|path, _| !inside.iter().any(|start| path.starts_with(start)));
        files
    };
    let before = outside(&stage);
    let mut dice = Dice(42);
    for round in 0..12 {
        // No argument of a command line can hold a NUL.
        let text = dice.text(5).replace('\0', "");
        let (title, assignee) =
            if round % 3 == 0 { ("x", text.as_str()) } else { (text.as_str(), "codex") };
        let title = format!("--title={title}");
        let assignee = format!("--assignee={assignee}");
        let label = format!("--label={}", dice.text(3).replace('\0', ""));
        let said = stage.agency(&["task", "new", &title, &assignee, &label]);
        assert!(matches!(said.code, 0..=2), "{title:?}: {}", said.err);
        assert!(!said.err.contains("panicked"), "{title:?}: {}", said.err);
    }
    assert_eq!(outside(&stage), before);
    assert_eq!(stage.agency(&["task", "list"]).code, 0, "and all that was written is valid");
}
