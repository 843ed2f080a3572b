//! What an owner can do, once: the command line and the dashboard build their commands here, so both mean the same by the same
//! word. Nothing is sent, judged or printed here.

mod answer;
mod hints;
mod task;

pub use answer::{NoSuchOption, answer, is_question};
pub use hints::next_step;
pub use task::TaskVerb;

use crate::model::{Command, Verb};
use std::collections::BTreeMap;
use std::path::Path;

/// Who gives a command, and from where, for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub who: String,
    pub from: String,
}

/// The number of one request. The journal takes each number once (WB-02).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(String);

impl RequestId {
    pub fn fresh() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    /// One that a page carried. `None`: it is not a number that [`RequestId::fresh`] makes.
    pub fn parse(text: &str) -> Option<Self> {
        let id = uuid::Uuid::try_parse(text).ok()?;
        (id.to_string() == text).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A verb with its words, for one protocol or for the whole repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerVerb {
    verb: Verb,
    protocol: Option<String>,
    args: BTreeMap<String, String>,
}

impl OwnerVerb {
    /// Words without a value are left out.
    pub fn new(verb: Verb, protocol: Option<&str>, args: &[(&str, Option<&str>)]) -> Self {
        let given = args.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        let args = given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { verb, protocol: protocol.map(str::to_owned), args }
    }

    pub fn resume(reason: Option<&str>, accept_gates: &[String]) -> Self {
        let gates = accept_gates.join("\n");
        let gates = Some(gates.as_str()).filter(|gates| !gates.is_empty());
        Self::new(Verb::Resume, None, &[("reason", reason), ("accept-gate", gates)])
    }

    pub fn stop(run: &str) -> Self {
        Self::new(Verb::Stop, None, &[("run", Some(run))])
    }

    pub fn ack(escalation: &str) -> Self {
        Self::new(Verb::Ack, None, &[("id", Some(escalation))])
    }

    pub fn pause(reason: Option<&str>) -> Self {
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        Self::new(Verb::Pause, None, &[("reason", reason)])
    }

    pub fn unpause() -> Self {
        Self::new(Verb::Unpause, None, &[])
    }

    /// As the workspace takes it.
    pub fn command(self, id: RequestId, caller: Caller) -> Command {
        let Self { verb, protocol, args } = self;
        Command { id: id.0, protocol, verb, args, by: caller.who, from: caller.from }
    }
}

/// How people call a repository: the last part of its path.
pub fn repo_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WB-02
    #[test]
    fn a_command_carries_who_from_where_and_its_number() {
        let (id, from) = (RequestId::fresh(), "dashboard (127.0.0.1)".to_owned());
        let caller = Caller { who: "owner".to_owned(), from: from.clone() };
        let command = OwnerVerb::pause(Some("  ")).command(id.clone(), caller);
        assert_eq!((command.by.as_str(), command.from.as_str()), ("owner", from.as_str()));
        assert_eq!((command.id.as_str(), command.args.len()), (id.as_str(), 0));
        assert_eq!(RequestId::parse(id.as_str()), Some(id));
        for forged in ["", "1", "../x", "00000000000000000000000000000000"] {
            assert_eq!(RequestId::parse(forged), None, "{forged}");
        }
    }
}
