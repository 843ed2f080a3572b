//! `STATE.md` (spec 2 §8) and `TASK_BOARD.md`: read, checked, rendered. The frontmatter is ours, the text below it is everyone's.

use super::front::{self, Fields};
use super::names::{TaskId, Zone};
use super::table::Status;
use crate::model::yaml::{Kind, quote};
use crate::model::{Digest, Rejection, RelPath, clip};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

pub const PATH: &str = ".kodingx/STATE.md";
pub const BOARD: &str = ".kodingx/TASK_BOARD.md";
/// How many finished tasks are listed.
pub const RECENT: usize = 20;
/// How many tasks a column of the board shows.
const COLUMN: usize = 50;

/// The frontmatter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub protocol: String,
    pub updated_at: String,
    pub active_tasks: Vec<TaskId>,
    pub blocked_tasks: Vec<TaskId>,
    /// Newest first.
    pub done_tasks_recent: Vec<TaskId>,
    pub last_verify: Option<LastVerify>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastVerify {
    pub task_id: TaskId,
    pub timestamp: String,
    pub result: String,
    pub artifact_path: String,
}

const RULE: &str = "AG-26";

/// Reads and checks the frontmatter.
pub fn parse(bytes: &[u8]) -> Result<State, Vec<Rejection>> {
    let path = RelPath::fixed(PATH);
    let digest = Digest::of(bytes);
    let front = front::read(bytes, RULE, &path).map_err(|p| vec![p.with_digest(&digest)])?;
    let mut fields = Fields::new(RULE, &path, &front.root, 1);
    let protocol = fields.text("protocol");
    let updated_at = fields.time("updated_at", Zone::UTC).and_then(|_| fields.text("updated_at"));
    let mut ids = |key: &str| {
        fields.needed_list(key);
        fields.list_that(key, "ids such as T0001", TaskId::parse)
    };
    let (active_tasks, blocked_tasks, done_tasks_recent) =
        (ids("active_tasks"), ids("blocked_tasks"), ids("done_tasks_recent"));
    let last_verify = read_last_verify(&mut fields, &front.root);
    fields.finish(&digest)?;
    let (Some(protocol), Some(updated_at)) = (protocol, updated_at) else {
        unreachable!("BUG: a field that is missing is a problem")
    };
    Ok(State { protocol, updated_at, active_tasks, blocked_tasks, done_tasks_recent, last_verify })
}

fn read_last_verify(
    fields: &mut Fields<'_>,
    root: &crate::model::yaml::Node,
) -> Option<LastVerify> {
    let Some(node) = root.get("last_verify") else {
        fields.refuse(1, "no `last_verify`", "an object, or null before the first verify");
        return None;
    };
    // SPEC GAP: before the first verify there is nothing to say; null says it.
    if node.kind == Kind::Null {
        return None;
    }
    let task_id = fields.one_of("last_verify.task_id", "an id such as T0001", TaskId::parse);
    fields.time("last_verify.timestamp", Zone::UTC);
    let timestamp = fields.text("last_verify.timestamp");
    let result = fields.one_of("last_verify.result", "pass or fail", |word| {
        ["pass", "fail"].contains(&word).then(|| word.to_owned())
    });
    let artifact_path = fields.text("last_verify.artifact_path");
    Some(LastVerify {
        task_id: task_id?,
        timestamp: timestamp?,
        result: result?,
        artifact_path: artifact_path?,
    })
}

impl State {
    /// The frontmatter with its fences.
    pub fn front(&self) -> String {
        let ids = |ids: &[TaskId]| {
            let ids: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
            format!("[{}]", ids.join(", "))
        };
        let mut text = format!(
            "---\nprotocol: {}\nupdated_at: {}\nactive_tasks: {}\nblocked_tasks: {}\ndone_tasks_recent: {}\n",
            quote(&self.protocol),
            self.updated_at,
            ids(&self.active_tasks),
            ids(&self.blocked_tasks),
            ids(&self.done_tasks_recent),
        );
        match &self.last_verify {
            None => text.push_str("last_verify: null\n"),
            Some(last) => {
                let rows = [
                    ("task_id", last.task_id.as_str()),
                    ("timestamp", &last.timestamp),
                    ("result", &last.result),
                    ("artifact_path", &last.artifact_path),
                ];
                text.push_str("last_verify:\n");
                for (key, value) in rows {
                    writeln!(text, "  {key}: {}", quote(value))
                        .expect("writing to a String cannot fail");
                }
            }
        }
        text + "---\n"
    }

    /// The whole file: our frontmatter, and whatever text stands below it now.
    pub fn render(&self, now: Option<&[u8]>, header: &str) -> Vec<u8> {
        let body = now.and_then(body).unwrap_or_else(|| default_body(header));
        // An editor or a checkout may have given the file other line ends; they stay.
        let is_crlf = now.is_some_and(is_crlf);
        let front = self.front();
        let front = if is_crlf { front.replace('\n', "\r\n") } else { front };
        (front + &body).into_bytes()
    }

    /// Is the frontmatter in this file the one that we wrote? Its line ends may be others.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        let front = self.front();
        let front = if is_crlf(bytes) { front.replace('\n', "\r\n") } else { front };
        bytes.starts_with(front.as_bytes())
    }
}

/// By its first line.
fn is_crlf(bytes: &[u8]) -> bool {
    bytes.split_inclusive(|&byte| byte == b'\n').next().is_some_and(|line| line.ends_with(b"\r\n"))
}

fn body(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, at) = front::split(text)?;
    Some(text[at..].to_owned())
}

fn default_body(header: &str) -> String {
    format!("\n<!-- {header} -->\n\n## Current Focus\n(one paragraph)\n\n## Notes\n\n## Metrics\n")
}

/// One task on the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card<'a> {
    pub id: &'a TaskId,
    pub title: &'a str,
    pub assignee: &'a str,
    pub priority: &'a str,
    pub note: &'a str,
}

/// A column: how many tasks there are, and the first of them.
pub struct Column<'a> {
    pub status: Status,
    pub count: usize,
    pub cards: Vec<Card<'a>>,
}

/// Derived from the same memory as STATE.md; nobody reads it back.
pub fn board(columns: &[Column<'_>], header: &str, updated_at: &str) -> Vec<u8> {
    let mut text = format!(
        "# Task board\n\n<!-- {header} -->\n<!-- derived from STATE.md; edits are overwritten -->\n\nUpdated {updated_at}\n"
    );
    for column in columns {
        writeln!(text, "\n## {} ({})\n", column.status.word(), column.count)
            .expect("writing to a String cannot fail");
        for card in column.cards.iter().take(COLUMN) {
            let note = if card.note.is_empty() {
                String::new()
            } else {
                format!(" — {}", cell(card.note))
            };
            writeln!(
                text,
                "- **{}** {} · {} · {}{note}",
                card.id,
                card.priority,
                card.assignee,
                cell(card.title)
            )
            .expect("writing to a String cannot fail");
        }
        if column.count > COLUMN.min(column.cards.len()) {
            writeln!(text, "- … and {} more", column.count - COLUMN.min(column.cards.len()))
                .expect("writing to a String cannot fail");
        }
    }
    text.into_bytes()
}

/// A title is somebody's text: no markup of it counts.
fn cell(text: &str) -> String {
    clip(text, 120).replace(['<', '>', '`', '[', ']', '|'], " ")
}

pub const COLUMN_MAX: usize = COLUMN;
