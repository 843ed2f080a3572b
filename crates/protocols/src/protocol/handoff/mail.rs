//! What the owner writes to agents: a message by `agency handoff send`, an answer by `agency answer` (HO-07).

use super::command::{Outcome, shape, stranger};
use super::memory::{Draft, Known, Memo, Turn};
use super::message::{self, Message};
use super::noting::{self, take_in};
use super::table::{self, Flow, Folder, Who};
use super::{Handoff, path_in};
use crate::model::{Bytes, Command, Digest, Effect, Now, RowId, clip};
use serde_json::{Map, Value, json};

/// Longer options are cut where they are shown.
pub(super) const OPTION_MAX: usize = 100;

/// A message of the owner's own hand: judged as any other, written by us.
pub(super) fn send(handoff: &Handoff, command: &Command, now: Now) -> Outcome {
    stranger(handoff)?;
    shape(handoff)?;
    let text = command.arg("message").ok_or("no message")?;
    let document: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("not a message: {error}"))?;
    let id = document.get("message_id").and_then(Value::as_str).unwrap_or("message");
    let name = format!("{}.json", if message::is_uuid_4(id) { id } else { "message" });
    let path = path_in(Folder::Pending, &name);
    let bytes = message::render(&document, Folder::Pending);
    let read = message::parse(&path, &bytes, now.wall);
    let problems = match &read {
        Ok(message) if message.from == Who::Orchestrator => {
            return Err("answers are sent with `agency answer`".to_owned());
        }
        Ok(message) => noting::judge_in_context(handoff, message, &path),
        Err(problems) => problems.clone(),
    };
    let memory = &handoff.index.memory;
    let (Ok(message), true) = (read, problems.is_empty()) else {
        let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return Err(words.join("\n"));
    };
    if memory.open.contains_key(&message.id) || memory.done.contains(&message.id) {
        return Err(format!("there is a message `{}` already", message.id));
    }
    let mut decision = handoff.builder();
    decision.remember(Memo::Known(Some(true)));
    let known = write(&mut decision, &message, name, bytes);
    noting::admit(handoff, &mut decision, &message, known, now);
    Ok((decision, message.id))
}

/// Puts a new message into `pending/`.
fn write(decision: &mut Draft, message: &Message, name: String, bytes: Vec<u8>) -> Known {
    let path = path_in(Folder::Pending, &name);
    let digest = Digest::of(&bytes);
    decision.effect(Effect::Replace { path, bytes: Bytes(bytes), seen: None });
    let document = message.document.clone();
    Known { folder: Folder::Pending, name, digest, document, by: None, by_hand: None }
}

/// HO-07: the owner's answer goes back as a handoff, and the question is closed.
pub(super) fn reply(handoff: &Handoff, command: &Command, now: Now) -> Outcome {
    let memory = &handoff.index.memory;
    let wanted = command.arg("id").unwrap_or_default();
    let found =
        memory.asked.iter().find(|(_, asked)| asked.cause.id(&handoff.place.repo) == wanted);
    let text = command
        .arg("text")
        .filter(|text| !text.trim().is_empty())
        .ok_or("an answer is required")?;
    let Some((asked_id, asked)) = found else {
        return correct(handoff, command, wanted, text, now);
    };
    let question = memory.open.get(asked_id).ok_or("the question is gone")?;
    let text = &choose(&options_of(&question.document), text)?;
    let message = answer_to(handoff, &question.message(), command, text, now);
    let mut decision = handoff.builder();
    decision.row(RowId::new(table::type_of(message.kind).id));
    take_in(&mut decision, asked_id, question, "answered");
    let name = format!("{}.json", message.id);
    let bytes = message::render(&message.document, Folder::Pending);
    if memory.under_way().is_some() {
        let known = write(&mut decision, &message, name, bytes);
        noting::admit(handoff, &mut decision, &message, known, now);
        let asker = memory.turn.as_ref().filter(|turn| is_asked_by(turn, asked_id, question));
        if let Some(turn) = asker {
            let mut answers = turn.answers.clone();
            answers.push(message.id.clone());
            // Not ready: the answer must be accepted before its agent goes on.
            let ready = turn.ready && turn.waits_for.is_none();
            let mut next = Turn { waits_for: None, ready, answers, ..turn.clone() };
            next.tries.renew();
            decision.remember(Memo::turn(next));
        }
    }
    decision.remember(Memo::Asked(asked_id.to_string(), None));
    let how = format!("answered by {}: {}", command.by, clip(text, 120));
    decision.effect(Effect::Resolve { cause: asked.cause.clone(), how });
    let mut holds = memory.holds.clone();
    holds.retain(|hold| hold.cause != asked.cause);
    decision.remember(Memo::Holds(Some(holds)));
    let said = match memory.under_way() {
        Some(_) => format!("{} gets the answer: {}", asked.from.word(), clip(text, 120)),
        None => "the answer is recorded; the workflow has ended, so no agent gets it".to_owned(),
    };
    Ok((decision, said))
}

/// What a question offers, or what an answer to it repeats.
fn options_of(document: &Map<String, Value>) -> Vec<String> {
    let options = document.get("payload").and_then(|payload| payload.get("options"));
    let options = options.and_then(Value::as_array).into_iter().flatten();
    options.filter_map(|option| option.as_str().map(str::to_owned)).collect()
}

/// The option that these words name; without options any words are an answer.
fn choose(options: &[String], text: &str) -> Result<String, String> {
    if options.is_empty() {
        return Ok(text.to_owned());
    }
    let said = text.trim();
    let named = |option: &&String| {
        option.trim().eq_ignore_ascii_case(said) || clip(option, OPTION_MAX) == said
    };
    options.iter().find(named).cloned().ok_or_else(|| {
        let options: Vec<String> =
            options.iter().map(|option| format!("`{}`", clip(option, OPTION_MAX))).collect();
        format!(
            "`{}` is not one of the options: {}. Answer with one of them; `--reason` adds your own words (HO-07)",
            clip(said, 60),
            options.join(", ")
        )
    })
}

/// HO-07: an answer that its agent has not read yet is changed in its place.
fn correct(handoff: &Handoff, command: &Command, wanted: &str, text: &str, now: Now) -> Outcome {
    let memory = &handoff.index.memory;
    let answers = |known: &Known| {
        let payload = known.document.get("payload");
        let to = payload.and_then(|payload| payload.get("escalation")).and_then(Value::as_str);
        to == Some(wanted)
    };
    let (id, known) = memory
        .open
        .iter()
        .find(|(_, known)| answers(known))
        .ok_or_else(|| format!("no agent waits for an answer to `{wanted}`"))?;
    let to = known.to().word();
    if known.folder != Folder::Pending {
        return Err(format!("{to} has read the answer; it can no longer be changed (HO-07)"));
    }
    let text = choose(&options_of(&known.document), text)?;
    let mut document = known.document.clone();
    document.insert("timestamp".to_owned(), json!(now.wall));
    if let Some(Value::Object(payload)) = document.get_mut("payload") {
        payload.insert("answer".to_owned(), text.as_str().into());
        payload.remove("reason");
        if let Some(reason) = command.arg("reason") {
            payload.insert("reason".to_owned(), reason.into());
        }
    }
    let next = Known { document, ..known.clone() }.in_folder(Folder::Pending);
    let mut decision = handoff.builder();
    let (path, bytes) = (next.path(), next.bytes_in(Folder::Pending));
    decision.effect(Effect::Replace { path, bytes, seen: Some(known.digest.clone()) });
    decision.remember(Memo::open(id, next));
    Ok((decision, format!("{to} gets the corrected answer: {}", clip(&text, 120))))
}

/// Does this turn wait for it, or will it when its run ends?
fn is_asked_by(turn: &Turn, id: &str, question: &Known) -> bool {
    let run = turn.run.as_ref().map(|running| &running.run);
    let run = run.or(turn.ended.as_ref().map(|ended| &ended.run));
    turn.waits_for.as_deref() == Some(id) || (run.is_some() && question.by.as_ref() == run)
}

/// The bits of a UUID v4 from what makes this answer this answer: the same command gives the same message.
fn answer_to(
    handoff: &Handoff,
    question: &Message,
    command: &Command,
    text: &str,
    now: Now,
) -> Message {
    let hex = Digest::of(format!("{}/{}", command.id, question.id).as_bytes());
    let hex = hex.as_str();
    let id = format!(
        "{}-{}-4{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..32]
    );
    let workflow = handoff.index.memory.under_way();
    let flow = workflow.map(|workflow| workflow.flow).or(question.workflow);
    let mut payload = json!({
        "answer": text,
        "in_reply_to": question.id,
        "escalation": command.arg("id"),
        "options": options_of(&question.document),
    });
    if let Some(reason) = command.arg("reason") {
        payload["reason"] = reason.into();
    }
    let document = json!({
        "schema_version": super::state::VERSION,
        "message_id": id,
        "timestamp": now.wall,
        "from": Who::Orchestrator.word(),
        "to": question.from.word(),
        "type": "answer",
        "priority": question.priority.word(),
        "payload": payload,
        "context": {
            "workflow": flow.unwrap_or(Flow::Feature).word(),
            "spec": workflow.map_or("", |workflow| workflow.spec.as_str()),
            "iteration": workflow.map_or(1, |workflow| workflow.iteration),
        },
        "status": "pending",
    });
    let bytes = serde_json::to_vec(&document).expect("BUG: JSON is plain data");
    let path = path_in(Folder::Pending, &format!("{id}.json"));
    message::parse(&path, &bytes, now.wall).expect("BUG: our own answer is well formed")
}
