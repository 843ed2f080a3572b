//! The spec's own examples, word for word (`spec/`), and what the owner and the agents see of a workflow. Kills are in `relay.rs`.

use super::{begin, message, new_world, path};
use crate::scenarios::uuid;
use crate::world::World;
use agency::model::*;
use agency::protocol::handoff::table::Folder;
use agency::protocol::handoff::{locks, state};
use serde_json::{Value, json};
use std::time::Duration;

const MESSAGE: &str = include_str!("spec/message.json");
const TYPES: &str = include_str!("spec/types.md");
const STATE: &str = include_str!("spec/state.json");
const ESCALATION: &str = include_str!("spec/escalation.json");
const FLOW: &str = include_str!("spec/flow.txt");
const EVENT: &str = include_str!("spec/event.json");
const EVENTS: &str = include_str!("spec/events.md");
const LOCK: &str = include_str!("spec/lock.js");
const STORAGE: &str = include_str!("spec/storage.txt");
const RETRY: &str = include_str!("spec/retry.txt");

fn shared(world: &World) -> Value {
    serde_json::from_slice(world.bytes(state::PATH).unwrap()).unwrap()
}

/// The `status` of planner, builder, reviewer and fixer in the shared state.
fn statuses(world: &World) -> [String; 4] {
    let shared = shared(world);
    ["planner", "builder", "reviewer", "fixer"]
        .map(|who| shared["agents"][who]["status"].as_str().unwrap().to_owned())
}

fn send(world: &mut World, n: u32, kind: &str, iteration: u64, edit: impl FnOnce(&mut Value)) {
    let mut text = message(world, n, kind, iteration);
    edit(&mut text);
    world.write(&path("pending", n), serde_json::to_vec(&text).unwrap());
    world.settle().unwrap();
}

fn end(world: &mut World) {
    let run = world.alive().expect("a run is alive").spawn.run.clone();
    world.end_run(&run, Outcome::Ok);
    world.settle().unwrap();
}

fn agent(world: &World) -> String {
    world.alive().map(|run| run.spawn.seat.to_string()).unwrap_or_default()
}

/// The planner has handed on; the builder is at work.
fn with_builder() -> World {
    let mut world = new_world();
    begin(&mut world);
    world.settle().unwrap();
    world.write("specs/a.md", "# A");
    send(&mut world, 1, "task_handoff", 1, |_| ());
    end(&mut world);
    assert_eq!(agent(&world), "builder");
    world
}

fn told(world: &World, rule: &str) -> bool {
    world.escalations.iter().any(|told| told.cause.rule.as_str() == rule)
}

// covers: HO-03, HO-08, HO-12, HO-13, HO-01
#[test]
fn the_specs_example_flow_runs_with_the_results_that_it_shows() {
    // `Returns: {status: completed, commit: "abc123"}` is the payload of a completion.
    let results: Vec<Value> = FLOW
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- Returns: "))
        .map(|result| serde_saphyr::from_str(result).unwrap())
        .collect();
    assert_eq!(results.len(), 5);
    let request = FLOW.lines().next().unwrap().split('"').nth(1).unwrap();
    let mut world = new_world();
    world.look();
    world.command(Verb::Init, &[("type", "feature"), ("text", request)]);
    world.settle().unwrap();
    let flow = [
        ("planner", Some(("task_handoff", 1)), 1),
        ("builder", Some(("review_request", 1)), 1),
        ("reviewer", Some(("fix_request", 1)), 1),
        ("fixer", Some(("rereview_request", 2)), 2),
        ("reviewer", None, 2),
    ];
    for (number, ((who, handoff, iteration), result)) in flow.into_iter().zip(&results).enumerate()
    {
        assert_eq!(agent(&world), who, "step {number}: {:?}", world.escalations.last());
        match who {
            "planner" => world.write("specs/a.md", "# A"),
            "builder" | "fixer" => {
                world.write("src/a.rs", format!("// {number}"));
                world.commit_all("an agent's commit");
            }
            _ => {}
        }
        let n = 10 * u32::try_from(number).unwrap();
        if let Some((kind, iteration)) = handoff {
            // The spec says nothing about the payload of these: it may be empty.
            send(&mut world, n + 1, kind, iteration, |text| text["payload"] = json!({}));
        }
        send(&mut world, n + 2, "completion", iteration, |text| {
            text["from"] = who.into();
            text["payload"] = result.clone();
        });
        end(&mut world);
    }
    let shared = shared(&world);
    assert_eq!(shared["current_workflow"]["status"], "completed", "{:?}", world.escalations);
    assert_eq!(shared["iteration"], 2);
    assert_eq!(statuses(&world), ["completed"; 4]);
    assert!(world.quarantine.is_empty(), "no message was refused: {:?}", world.quarantine);
}

// covers: HO-01
#[test]
fn the_specs_type_table_is_ours_and_every_payload_may_be_empty() {
    let world = new_world();
    let everyone = ["planner", "builder", "reviewer", "fixer", "orchestrator"];
    let rows: Vec<Vec<&str>> = TYPES
        .lines()
        .skip(2)
        .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    assert_eq!(rows.len(), 6);
    let file = RelPath::new(path("pending", 1)).unwrap();
    for row in rows {
        let (kind, from, to) = (row[1], row[2], row[3]);
        for sender in everyone {
            for recipient in everyone {
                let mut text = message(&world, 1, kind, 1);
                text["from"] = sender.into();
                text["to"] = recipient.into();
                text["payload"] = json!({});
                let bytes = serde_json::to_vec(&text).unwrap();
                let read = message::parse(&file, &bytes, world.now.wall);
                // SPEC GAP: the orchestrator is not among "any"; it signals and asks nothing.
                let right = (from == "any" && sender != "orchestrator" || from == sender)
                    && to == recipient;
                assert_eq!(read.is_ok(), right, "{kind} from {sender} to {recipient}: {read:?}");
            }
        }
    }
}

// covers: HO-01
#[test]
fn the_specs_message_form_is_refused_for_each_placeholder_and_nothing_else() {
    let file = RelPath::new(path("pending", 1)).unwrap();
    let problems = message::parse(&file, MESSAGE.as_bytes(), new_world().now.wall).unwrap_err();
    let words: Vec<String> = problems.iter().map(|problem| problem.found.clone()).collect();
    for field in
        ["message_id", "timestamp", "from", "to", "type", "priority", "context.workflow", "status"]
    {
        let named = words.iter().filter(|words| words.contains(&format!("`{field}`"))).count();
        assert!(named >= 1, "`{field}` is not named in {words:#?}");
    }
    for field in ["schema_version", "payload", "context.iteration", "context.spec"] {
        assert!(!words.iter().any(|words| words.contains(&format!("`{field}`"))), "{words:#?}");
    }
}

// covers: HO-04, DM-13
#[test]
fn the_specs_state_file_waits_for_adopt_and_then_goes_on() {
    let mut world = new_world();
    world.write(state::PATH, STATE);
    world.write("specs/20240101-feature.md", "# A");
    send(&mut world, 1, "review_request", 1, |_| ());
    assert!(told(&world, "DM-13") && world.runs.is_empty(), "{:?}", world.escalations);
    assert_eq!(world.bytes(state::PATH), Some(STATE.as_bytes()));
    world.command(Verb::Adopt, &[]);
    world.settle().unwrap();
    assert_eq!(agent(&world), "reviewer", "{:?}", world.escalations);
    let shared = shared(&world);
    assert_eq!(shared["current_workflow"]["spec"], "specs/20240101-feature.md");
    assert_eq!(shared["current_workflow"]["id"], "workflow-uuid");
    assert_eq!((&shared["current_agent"], &shared["iteration"]), (&"reviewer".into(), &1.into()));
    assert_eq!(statuses(&world)[2], "active");
}

// covers: HO-07, HO-14
#[test]
fn the_specs_escalation_as_the_first_message_is_asked_and_its_answer_starts_the_agent() {
    let mut world = new_world();
    world.write(&path("pending", 1), ESCALATION);
    world.settle().unwrap();
    assert!(world.runs.is_empty());
    let asked = world.escalations.iter().find(|told| told.cause.rule.as_str() == "HO-07").unwrap();
    assert_eq!(asked.options, ["JWT", "Session", "OAuth"]);
    let id = asked.cause.id("a1b2c3d4");
    world.command(Verb::Do, &[("do", "answer"), ("id", &id), ("text", "Session")]);
    world.settle().unwrap();
    assert_eq!(agent(&world), "builder", "{:?}", world.escalations);
    assert!(world.alive().unwrap().spawn.prompt.contains("\"answer\": \"Session\""));
}

// covers: HO-14, DM-13
#[test]
fn only_a_first_message_starts_without_adopt() {
    let ended = r#"{"schema_version": "1.0.0", "current_workflow": {"id": "w", "type": "feature", "status": "completed"}}"#;
    let handed = r#"{"schema_version": "1.0.0", "locks": {}, "last_handoff": "handoff-uuid"}"#;
    let locked = r#"{"schema_version": "1.0.0", "locks": {}, "lock_counter": 3, "agents": {}}"#;
    let cases: [(&str, Option<&str>, Option<&str>, bool); 8] = [
        ("no state file", None, None, true),
        ("a state file with locks only", Some(locked), None, true),
        ("the state of another machine", Some(STATE), None, false),
        ("a workflow that ended elsewhere", Some(ended), None, false),
        ("a handoff of another machine", Some(handed), None, false),
        ("a message that somebody accepted", None, Some("accepted"), false),
        ("a message that was completed before", None, Some("completed"), false),
        ("a message that was rejected before", None, Some("rejected"), false),
    ];
    for (what, state, other, starts) in cases {
        let mut world = new_world();
        world.write("specs/a.md", "# A");
        if let Some(state) = state {
            world.write(state::PATH, state);
        }
        if let Some(folder) = other {
            let mut text = message(&world, 2, "task_handoff", 1);
            text["status"] = folder.into();
            world.write(&path(folder, 2), serde_json::to_vec(&text).unwrap());
        }
        send(&mut world, 1, "task_handoff", 1, |_| ());
        assert_eq!(agent(&world) == "builder", starts, "{what}: {:?}", world.escalations);
        assert_eq!(told(&world, "DM-13"), !starts, "{what}");
        if starts {
            assert_eq!(shared(&world)["current_workflow"]["id"], uuid(1), "{what}");
        } else {
            assert_eq!(world.bytes(state::PATH), state.map(str::as_bytes), "{what}: untouched");
        }
    }
}

// covers: HO-15
#[test]
fn a_refused_message_is_told_in_status_in_the_next_prompt_and_after_three_tries_to_the_owner() {
    let mut world = new_world();
    begin(&mut world);
    world.settle().unwrap();
    let problem = "`priority` = \"urgent\"; write `priority` as one of critical|high|medium|low";
    for attempt in 1..=3_u32 {
        let prompt = world.alive().expect("a try").spawn.prompt.clone();
        assert_eq!(prompt.contains("A message that was refused is gone"), attempt > 1);
        assert_eq!(prompt.contains("refused message: HO-01"), attempt > 1);
        assert_eq!(prompt.contains("`priority` = \"urgent\""), attempt > 1);
        send(&mut world, attempt, "task_handoff", 1, |text| text["priority"] = "urgent".into());
        let said = match attempt {
            1 => format!("planner's message was refused: {problem}"),
            count => format!("planner's {count} messages were refused. The last: {problem}"),
        };
        let at_work = world.protocol.condition(world.now).reason();
        assert!(at_work.contains(&said), "{at_work}");
        end(&mut world);
        let (status, reason) =
            (world.protocol.status(world.now), world.protocol.condition(world.now).reason());
        for words in [&status.summary, &reason] {
            assert_eq!(words.matches(&said).count(), 1, "try {attempt}: {words}");
        }
        world.pass(Duration::from_secs(200));
        world.settle().unwrap();
    }
    assert!(world.alive().is_none());
    let asked = world.escalations.iter().find(|told| told.cause.rule.as_str() == "HO-06").unwrap();
    let said = format!("planner's 3 messages were refused. The last: {problem}");
    assert!(asked.holds && asked.summary == said, "{}", asked.summary);
    // The next tries are counted anew.
    world.command(Verb::Resume, &[]);
    world.settle().unwrap();
    let summary = world.protocol.status(world.now).summary;
    assert!(!summary.contains("refused"), "{summary}");
}

// covers: HO-04
#[test]
fn agents_are_shown_idle_active_waiting_or_completed_as_they_are() {
    let mut world = with_builder();
    assert_eq!(statuses(&world), ["completed", "active", "idle", "idle"]);
    let run = world.alive().unwrap().spawn.run.clone();
    world.end_run(&run, Outcome::Crash { how: "exit 1".to_owned() });
    world.settle().unwrap();
    assert_eq!(statuses(&world)[1], "waiting", "for its next try");
    world.pass(Duration::from_secs(200));
    world.settle().unwrap();
    assert_eq!(statuses(&world)[1], "active");
    send(&mut world, 2, "escalation", 1, |text| text["payload"]["blocking"] = true.into());
    end(&mut world);
    assert_eq!(statuses(&world)[1], "waiting", "for the owner's answer");
    let asked = world.escalations.iter().find(|told| told.cause.rule.as_str() == "HO-07").unwrap();
    let id = asked.cause.id("a1b2c3d4");
    world.command(Verb::Do, &[("do", "answer"), ("id", &id), ("text", "go on")]);
    world.settle().unwrap();
    assert_eq!(statuses(&world)[1], "active");
    world.write("src/a.rs", "// work");
    world.commit_all("an agent's commit");
    send(&mut world, 3, "review_request", 1, |_| ());
    end(&mut world);
    assert_eq!(statuses(&world), ["completed", "completed", "active", "idle"]);
    let run = world.alive().unwrap().spawn.run.clone();
    world.end_run(&run, Outcome::Auth { said: "not signed in".to_owned(), ask: String::new() });
    world.settle().unwrap();
    assert_eq!(statuses(&world)[2], "waiting", "for the owner");
    world.command(Verb::Do, &[("do", "cancel")]);
    world.settle().unwrap();
    assert_eq!(statuses(&world), ["completed", "completed", "idle", "idle"]);
}

// covers: HO-02, HO-04
#[test]
fn what_people_accept_and_complete_by_hand_is_counted_and_shown() {
    let mut world = with_builder();
    let run = world.alive().unwrap().spawn.run.clone();
    world.end_run(&run, Outcome::Auth { said: "not signed in".to_owned(), ask: String::new() });
    world.settle().unwrap();
    // The workflow is held, so nobody of ours takes the second message.
    send(&mut world, 2, "fix_request", 1, |_| ());
    let counts = |world: &World| {
        let detail = world.protocol.status(world.now).detail;
        (detail["pending"].as_u64().unwrap(), detail["accepted"].as_u64().unwrap())
    };
    assert_eq!(counts(&world), (1, 1));
    let carry = |world: &mut World, from: &str, to: &str| {
        let text = world.bytes(&path(from, 2)).unwrap().to_vec();
        world.remove(&path(from, 2));
        world.write(&path(to, 2), text);
        world.settle().unwrap();
    };
    carry(&mut world, "pending", "accepted");
    assert_eq!(counts(&world), (0, 2));
    assert_eq!(statuses(&world)[3], "active", "a person works in its place");
    carry(&mut world, "accepted", "completed");
    assert_eq!(counts(&world), (0, 1));
    assert_eq!(statuses(&world)[3], "completed");
}

// covers: DM-08, HO-15
#[test]
fn a_journal_of_before_shown_and_refusals_still_loads() {
    let mut world = with_builder();
    for memo in world.decisions.iter_mut().flat_map(|decision| &mut decision.memo) {
        if let (true, Some(Value::Object(turn))) = (memo.name == "turn", &mut memo.value) {
            assert!(turn.remove("shown").is_some() && turn.remove("refusals").is_some());
        }
    }
    let before = world.decisions.len();
    world.restart().unwrap();
    world.settle().unwrap();
    assert_eq!(world.decisions.len(), before, "nothing new to do");
    assert_eq!(agent(&world), "builder");
    world.write("src/a.rs", "// work");
    world.commit_all("an agent's commit");
    send(&mut world, 2, "review_request", 1, |_| ());
    end(&mut world);
    assert_eq!(agent(&world), "reviewer");
}

fn crash(world: &mut World) {
    let run = world.alive().expect("a run is alive").spawn.run.clone();
    world.end_run(&run, Outcome::Crash { how: "exit 1".to_owned() });
    world.settle().unwrap();
}

// covers: HO-09
#[test]
fn the_six_events_are_logged_with_the_fields_of_the_example() {
    let mut world = with_builder();
    send(&mut world, 2, "escalation", 1, |text| text["payload"]["blocking"] = false.into());
    crash(&mut world);
    let effects = world.decisions.iter().flat_map(|decision| &decision.effects);
    let logged: Vec<&Event> = effects
        .filter_map(|keyed| match &keyed.effect {
            Effect::Log(event) => Some(event),
            _ => None,
        })
        .collect();
    let names: Vec<&str> =
        EVENTS.lines().map(|line| line.trim_start_matches("- ").trim_matches('`')).collect();
    assert_eq!(names.len(), 6);
    for name in names {
        let event = logged.iter().find(|event| event.event == name);
        let event = event.unwrap_or_else(|| panic!("`{name}` was not logged"));
        assert!(event.agent.is_some(), "{event:?}");
    }
    let example: Value = serde_json::from_str(EVENT).unwrap();
    let started = logged.iter().find(|event| event.event == example["event"]).unwrap();
    for (name, _) in example["context"].as_object().unwrap() {
        assert!(started.context.contains_key(name), "{name} is not in {started:?}");
    }
    assert_eq!(started.context["workflow"], example["context"]["workflow"].as_str().unwrap());
}

// covers: HO-05
#[test]
fn a_lock_that_the_specs_script_writes_is_honoured_and_ours_has_its_fields() {
    let entry = LOCK.split("= {").nth(1).unwrap().split("};").next().unwrap();
    let fields: Vec<&str> =
        entry.lines().filter_map(|line| Some(line.trim().split_once(':')?.0)).collect();
    assert_eq!(fields, ["agent", "acquired", "expires"]);
    let product = LOCK.split("Date.now() + ").nth(1).unwrap().split(')').next().unwrap();
    let expiry: u64 = product.split('*').map(|factor| factor.parse::<u64>().unwrap()).product();
    assert_eq!(Duration::from_millis(expiry), locks::EXPIRY);
    // As `toISOString` writes times.
    let written = json!({"locks": {"src/a.rs": {"agent": "fixer",
        "acquired": "2026-01-01T00:00:00.000Z", "expires": "2026-01-01T00:30:00.000Z"}}});
    let mut document = written.as_object().unwrap().clone();
    let mut take = |at: &str| {
        let at = at.parse().unwrap();
        locks::acquire(&mut document, "src/a.rs", "builder", locks::EXPIRY, at)
    };
    let held = take("2026-01-01T00:29:59Z").unwrap_err().to_string();
    assert!(held.contains("held by `fixer` until 2026-01-01T00:30:00Z"), "{held}");
    let grant = take("2026-01-01T00:30:00Z").unwrap();
    assert_eq!(grant.taken_over.unwrap().agent, "fixer");
    let ours = &document["locks"]["src/a.rs"];
    assert!(fields.iter().all(|field| ours[*field].is_string()), "{ours}");
}

// covers: HO-01, HO-02
#[test]
fn messages_lie_in_the_folders_of_the_spec_under_its_names() {
    let folders: Vec<&str> = STORAGE
        .lines()
        .filter_map(|line| line.trim_start_matches(['├', '└', '─', ' ']).strip_suffix('/'))
        .collect();
    assert_eq!(folders, [".claude/handoffs", "pending", "accepted", "completed"]);
    for (folder, ours) in
        folders[1..].iter().zip([Folder::Pending, Folder::Accepted, Folder::Completed])
    {
        assert_eq!(*folder, ours.word());
    }
    assert_eq!(STORAGE.matches("handoff-uuid.json").count(), 3);
    let mut world = new_world();
    begin(&mut world);
    world.settle().unwrap();
    world.write("specs/a.md", "# A");
    let name = STORAGE.split("── ").find(|part| part.starts_with("handoff-")).unwrap();
    let name = name.lines().next().unwrap().replace("uuid", &uuid(1));
    let text = message(&world, 1, "task_handoff", 1);
    let file = format!("{}/{}/{name}", folders[0], folders[1]);
    world.write(&file, serde_json::to_vec(&text).unwrap());
    world.settle().unwrap();
    end(&mut world);
    assert_eq!(agent(&world), "builder", "{:?}", world.escalations);
    let accepted = format!("{}/{}/{name}", folders[0], folders[2]);
    assert!(world.bytes(&accepted).is_some() || world.bytes(&path("accepted", 1)).is_some());
}

// covers: HO-06
#[test]
fn a_task_is_retried_as_often_as_the_retry_protocol_says_with_growing_pauses() {
    let most: usize = RETRY.lines().next().unwrap().split("= ").nth(1).unwrap().parse().unwrap();
    assert!(RETRY.contains("exponential_backoff(attempt)"));
    let mut world = with_builder();
    let before = world.runs.len() - 1;
    let mut pauses = Vec::new();
    for _ in 1..most {
        crash(&mut world);
        let mut pause = Duration::ZERO;
        while world.alive().is_none() {
            assert!(pause < Duration::from_secs(600) && !told(&world, "HO-06"));
            pause += Duration::from_secs(5);
            world.pass(Duration::from_secs(5));
            world.settle().unwrap();
        }
        pauses.push(pause);
    }
    crash(&mut world);
    assert!(told(&world, "HO-06") && world.alive().is_none());
    assert_eq!(world.runs.len() - before, most);
    assert!(pauses.windows(2).all(|pair| pair[1] > pair[0]), "{pauses:?}");
    // `except FatalError: escalate_to_human()`
    let mut world = with_builder();
    let runs = world.runs.len();
    let run = world.alive().unwrap().spawn.run.clone();
    world.end_run(&run, Outcome::Auth { said: "401".to_owned(), ask: String::new() });
    world.settle().unwrap();
    assert!(world.runs.len() == runs && world.escalations.iter().any(|told| told.holds));
}

// covers: HO-01, HO-04
#[test]
fn a_byte_order_mark_is_read_in_messages_and_in_the_state_and_utf_16_is_named() {
    let marked = |text: &Value| [BOM, &serde_json::to_vec(text).unwrap()].concat();
    let mut world = new_world();
    begin(&mut world);
    world.settle().unwrap();
    world.write("specs/a.md", "# A");
    let text = message(&world, 1, "task_handoff", 1);
    world.write(&path("pending", 1), marked(&text));
    world.settle().unwrap();
    let mut theirs = shared(&world);
    theirs["notes"] = json!(["kept"]);
    world.write(state::PATH, marked(&theirs));
    world.settle().unwrap();
    end(&mut world);
    assert_eq!(agent(&world), "builder", "{:?}", world.escalations);
    let bytes = without_bom(world.bytes(state::PATH).unwrap()).to_vec();
    let state: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&state["notes"][0], &state["current_agent"]), (&"kept".into(), &"builder".into()));
    let wide: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let file = RelPath::new(path("pending", 2)).unwrap();
    let problems = message::parse(&file, &wide, world.now.wall).unwrap_err();
    assert!(problems[0].found.contains("UTF-16"), "{problems:?}");
}
