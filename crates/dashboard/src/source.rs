//! What the daemon brings: the facts that pages show, and the owner's verbs.

use crate::act::Act;
use crate::view::{Finding, HistoryPage, HistoryQuery, Overview, RepoPage, RunPage};
use std::future::Future;
use std::pin::Pin;

/// Who acts, as the journal will say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub who: String,
    /// Such as `dashboard (127.0.0.1)`.
    pub from: String,
    /// The number of this request; it works once.
    pub request: String,
}

/// What became of an act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Accepted(String),
    /// The protocol's table, or the daemon, does not allow it; with the way on.
    Refused(String),
    /// There is no such repository, message or run.
    Unknown(String),
}

pub type Pending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The readers may block: they are called away from the tasks that serve.
pub trait Source: Send + Sync + 'static {
    fn overview(&self) -> Overview;
    /// By the repository's key, as `Overview` names it.
    fn repo(&self, key: &str) -> Option<RepoPage>;
    fn run(&self, key: &str, run: &str) -> Option<RunPage>;
    fn history(&self, query: &HistoryQuery) -> HistoryPage;
    fn machine(&self) -> Vec<Finding>;
    /// Another value whenever something that a page shows may have changed. Cheap: it is asked several times a second.
    fn stamp(&self) -> u64;
    fn act(&self, repo: &str, act: Act, caller: Caller) -> Pending;
}
