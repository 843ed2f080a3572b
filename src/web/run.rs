//! The page of one run: its folder, its output as `agency logs` shows it, the checks after it, what it changed.

use super::{diff, places};
use crate::cli::context::Context;
use crate::cli::logs::render;
use crate::read::open_plain;
use crate::run::history::{self, RunRecord};
use crate::run::{Folder, profile};
use crate::store;
use crate::verbs::repo_name;
use agency_dashboard::view::{Gate, RunLine, RunPage, Said, SaidKind};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The newest part of a log that is shown, and of a check's output.
const LOG_MAX: u64 = 256 * 1024;
const OUTPUT_MAX: u64 = 16 * 1024;
const PROMPT_MAX: u64 = 128 * 1024;
const ENTRIES: usize = 600;
const GATES: usize = 12;
const RECORDS: usize = 4_000;

pub(super) fn line(run: &RunRecord, key: &str) -> RunLine {
    RunLine {
        id: run.id.clone(),
        repo_key: key.to_owned(),
        repo: repo_name(Path::new(&run.repo)),
        protocol: run.protocol.clone(),
        agent: run.agent.clone(),
        role: run.role.clone(),
        task: run.task.clone(),
        phase: run.phase.clone(),
        running: run.ended_at.is_none(),
        outcome: run.outcome.map(str::to_owned),
        reason: run.reason.clone(),
        started: run.started_at,
        ended: run.ended_at,
        cost: run.cost_usd,
        cost_estimated: run.cost_estimated,
        input_tokens: run.input_tokens,
        output_tokens: run.output_tokens,
        model: run.model.clone(),
        command: run.command,
    }
}

pub(super) fn read(context: &Context, key: &str, id: &str) -> Option<RunPage> {
    let known = places::find(context, key)?;
    let is_name = !id.is_empty() && !id.starts_with('.') && !id.contains('/');
    let runs = known.folder.join("runs");
    let path = runs.join(id);
    let record = history::one(&path).filter(|_| is_name)?;
    let folder = Folder::new(path);
    let intent = folder.intent().ok()?;
    let (text, cut) = newest(&folder.stdout(), LOG_MAX).unwrap_or_default();
    let known_profile = intent.profile.as_deref().and_then(profile::by_word);
    let mut transcript =
        said(&text, |line| render::line(known_profile, line), known_profile.is_some());
    let left_out = transcript.len().saturating_sub(ENTRIES);
    drop(transcript.drain(..left_out));
    let records = store::tail(&known.folder.join("journal"), RECORDS);
    Some(RunPage {
        line: line(&record, key),
        why: intent.why,
        pid: record.pid,
        argv: intent.argv,
        dir: intent.dir.display().to_string(),
        prompt: prompt(&folder),
        transcript,
        transcript_cut: cut || left_out > 0,
        complaints: newest(&folder.stderr(), OUTPUT_MAX).unwrap_or_default().0,
        diff: diff::of(&known, &records, id),
        gates: gates(&runs, &record, key),
    })
}

fn prompt(folder: &Folder) -> Option<String> {
    let mut bytes = Vec::new();
    open_plain(&folder.prompt()).ok()?.take(PROMPT_MAX).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.is_empty()).then_some(text)
}

/// The end of a file, from the beginning of a line; and whether something came before.
fn newest(path: &Path, most: u64) -> io::Result<(String, bool)> {
    let mut file = open_plain(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let first = if start == 0 {
        0
    } else {
        bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    };
    let mut rotated = path.as_os_str().to_owned();
    rotated.push(".1");
    let older = Path::new(&rotated).exists();
    Ok((String::from_utf8_lossy(&bytes[first..]).into_owned(), start > 0 || older))
}

/// Lines for people. The first mark of a line says what it is; output of a program that we do not know is one text.
fn said(text: &str, show: impl Fn(&str) -> Option<String>, is_known: bool) -> Vec<Said> {
    if !is_known {
        let text = text.trim_end().to_owned();
        return if text.is_empty() {
            Vec::new()
        } else {
            vec![Said { text, kind: SaidKind::Message }]
        };
    }
    let shown = text.lines().filter_map(show);
    let lines = shown.flat_map(|text| {
        if is_step(&text) { text.lines().map(str::to_owned).collect() } else { vec![text] }
    });
    lines.map(|text| Said { kind: kind(&text), text }).collect()
}

fn is_step(text: &str) -> bool {
    text.starts_with(['→', '←', '✗', '·', '!', '='])
}

fn kind(text: &str) -> SaidKind {
    match text.chars().next() {
        Some('✗' | '!') => SaidKind::Failure,
        Some('=') if text.starts_with("= failed") => SaidKind::Failure,
        Some('→' | '←' | '·') => SaidKind::Tool,
        _ => SaidKind::Message,
    }
}

/// The owner's commands that ran on the same task after this run and before the next agent.
fn gates(runs: &Path, of: &RunRecord, key: &str) -> Vec<Gate> {
    if of.command {
        return Vec::new();
    }
    let same = |run: &RunRecord| {
        run.protocol == of.protocol && run.task == of.task && run.started_at >= of.started_at
    };
    let (mut later, _) = history::newest(runs, (0, 200), 600, |run| same(run) && run.id != of.id);
    later.reverse();
    let checks = later.into_iter().take_while(|run| run.command).take(GATES);
    checks.map(|run| gate(runs, &run, key)).collect()
}

fn gate(runs: &Path, run: &RunRecord, key: &str) -> Gate {
    let folder = Folder::new(runs.join(&run.id));
    let command = folder.intent().ok().and_then(|intent| intent.argv.last().cloned());
    let part = |path: &Path| newest(path, OUTPUT_MAX).unwrap_or_default().0;
    let output = part(&folder.stdout()) + &part(&folder.stderr());
    Gate { run: line(run, key), line: command.unwrap_or_default(), output }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WB-01
    #[test]
    fn failures_stand_out_in_a_transcript() {
        let show = |line: &str| Some(line.to_owned());
        let text = "I look\n→ Bash npm test\n✗ 1 failed\n! the provider refuses it (529)\n= failed (limit); turns: 2\n= done; turns: 2\n";
        let kinds: Vec<_> = said(text, show, true).into_iter().map(|one| one.kind).collect();
        use SaidKind::{Failure, Message, Tool};
        assert_eq!(kinds, [Message, Tool, Failure, Failure, Failure, Message]);
        let plain = said("a\n✗ b\n", show, false);
        assert_eq!(
            (plain.len(), plain[0].kind),
            (1, Message),
            "an unknown program's marks mean nothing"
        );
    }

    #[test]
    fn the_end_of_a_log_begins_with_a_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        std::fs::write(&path, "first line\nsecond line\n").unwrap();
        assert_eq!(newest(&path, 100).unwrap(), ("first line\nsecond line\n".to_owned(), false));
        assert_eq!(newest(&path, 15).unwrap(), ("second line\n".to_owned(), true));
        assert!(newest(&dir.path().join("none"), 15).is_err());
    }
}
