//! What an agent is told: the contract, its task, and what the tasks before it left (CD-15, CD-18). Text from the repository
//! is quoted as data, capped and fenced (SE-03).

use super::board::Board;
use super::contract::contract;
use super::keeper::Codifica;
use super::memory::{Inherited, Job};
use crate::model::{Digest, RunId, fence};

const TASK_MAX: usize = 24 * 1024;
const BEFORE_MAX: usize = 16 * 1024;

pub(super) fn prompt(codifica: &Codifica, board: &Board, job: &Job, run: &RunId) -> String {
    let block = board.text(&job.task).unwrap_or_default();
    let nonce = Digest::of(format!("{run}\n{block}").as_bytes()).as_str()[..16].to_owned();
    let Job { task, agent, branch, .. } = job;
    let mut text = format!(
        "You are `agent:{agent}`. The task `{task}` is claimed for you; do this task and no other.\n\n{}\n",
        contract(Some(&board.config))
    );
    text.push_str(&ways(&codifica.desk.program, job));
    text.push_str(&format!("\nYou are in a worktree of your own, on the branch `{branch}`. Commit your work there; what you leave uncommitted is \
         committed for you. Do not edit the state files on this branch: `agency work` writes them where everybody sees them.\n\n{}\n",
        fence(&format!("task {task}"), block, &nonce, TASK_MAX)));
    let home = codifica.index.memory.accepted.as_ref().map_or("HEAD", |accepted| &accepted.branch);
    for id in board.glance(task).map(|task| task.depends_on.clone()).unwrap_or_default() {
        text.push_str(&format!(
            "\n{}\n{}\n",
            place_of(job, &id, home),
            fence(
                &format!("what {id} left: notes and artifacts"),
                &left_by(board, &id),
                &nonce,
                BEFORE_MAX
            )
        ));
    }
    text
}

/// Where the work of a task before this one is (CD-15).
fn place_of(job: &Job, id: &str, home: &str) -> String {
    let works = job.inherited.iter().filter(|work| work.task == id);
    let places: Vec<String> = works
        .map(|Inherited { branch, merged, .. }| match merged {
            true => format!("its branch `{branch}` is merged into `{home}`"),
            false => format!("your branch starts from its branch `{branch}`, which is not merged into `{home}` yet"),
        })
        .collect();
    match places.as_slice() {
        [] => format!("{id} has no branch in this repository; your tree is `{home}`."),
        places => format!("The work of {id} is in your tree: {}.", places.join("; ")),
    }
}

/// The verbs of this task, spelled out.
fn ways(program: &str, Job { task, agent, .. }: &Job) -> String {
    let verbs = [
        ("say how it goes", format!("note {task} --agent {agent} --text '…'")),
        (
            "record a file that you made",
            format!("artifact {task} --agent {agent} --path … --type …"),
        ),
        ("recommend a block", format!("request-block {task} --agent {agent} --reason '…'")),
        ("hand it to testing", format!("submit {task} --agent {agent} --summary '…'")),
        ("close it, when it is tested", format!("done {task} --agent {agent} --summary '…'")),
    ];
    verbs.iter().fold("Your commands:\n".to_owned(), |text, (what, verb)| {
        format!("{text}- {what}: {program} work {verb}\n")
    })
}

/// spec 3 §8.2: the notes, the artifacts, and where to look.
fn left_by(board: &Board, id: &str) -> String {
    let Some(Ok(task)) = board.task(id) else { return format!("{id} cannot be read") };
    let mut text = format!("{} ({}): {}\n", task.id, task.state, task.title);
    for note in &task.execution_notes {
        let summary =
            note.summary.as_ref().map(|summary| format!(" [{summary}]")).unwrap_or_default();
        text.push_str(&format!("- note by {}{summary}: {}\n", note.by, note.note));
    }
    for artifact in &task.artifacts {
        text.push_str(&format!(
            "- artifact: {} ({})\n",
            artifact.path,
            artifact.kind.as_deref().unwrap_or("file")
        ));
    }
    if let Some(review) = &task.human_review {
        text.push_str(&format!("- human review: {}\n", review.notes.join("; ")));
    }
    text
}
