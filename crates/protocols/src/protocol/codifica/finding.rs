//! Something that a rule does not allow, or that somebody should know. It says where, what, and what would be right.

use crate::model::{Rejection, RelPath};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Valid, but worth a look.
    Warning,
    /// A rule is broken.
    Violation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub task: Option<String>,
    pub rejection: Rejection,
}

impl Finding {
    pub fn violation(rule: &str, file: &RelPath, found: impl Into<String>, wanted: &str) -> Self {
        let rejection = Rejection::new(rule, file, found, wanted);
        Self { level: Level::Violation, task: None, rejection }
    }

    pub(super) fn warning(
        rule: &str,
        file: &RelPath,
        found: impl Into<String>,
        wanted: &str,
    ) -> Self {
        Self { level: Level::Warning, ..Self::violation(rule, file, found, wanted) }
    }

    pub(super) fn at(mut self, line: u64) -> Self {
        self.rejection.line = Some(line);
        self
    }

    pub(super) fn of(mut self, task: &str) -> Self {
        self.task = Some(task.to_owned());
        self
    }

    pub fn is_violation(&self) -> bool {
        self.level == Level::Violation
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let task = self.task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
        let line = self.rejection.line.map(|line| format!(":{line}")).unwrap_or_default();
        let Rejection { rule, file, found, wanted, .. } = &self.rejection;
        write!(f, "{rule}  {file}{line}  {task}found {found}; wanted {wanted}")
    }
}
