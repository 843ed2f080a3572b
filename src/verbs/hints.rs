//! The command that shows why a verb was refused, or what it may be given (OP-10).

use crate::model::{Command, Verb};
use crate::protocol::{board, review_loop};

pub fn next_step(command: &Command) -> String {
    let task = command.arg("task").or_else(|| command.arg("id"));
    match (command.verb, command.protocol.as_deref(), task) {
        (Verb::Stop, _, _) => "the runs that are alive: agency runs".to_owned(),
        (Verb::Do, Some(board::NAME), Some(task)) => {
            format!("where it stands and why: agency task show {task}")
        }
        (Verb::Do, Some(board::NAME), None) => "the tasks: agency task list".to_owned(),
        (Verb::Init, Some(review_loop::NAME), _) => {
            "what it takes: agency loop init --help; a loop that is under way: agency status"
                .to_owned()
        }
        (Verb::Inject | Verb::Restore, _, _) => {
            "where the loop stands: agency status; the words: agency loop inject --help".to_owned()
        }
        _ => "where things stand and what is waited for: agency status".to_owned(),
    }
}
