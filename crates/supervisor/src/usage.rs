//! `usage.json`: what a run's output said of it, as the daemon has read it so far. It can be made again from the logs.

use crate::folder::Folder;
use agency_protocols::model::{Outcome, Usage};
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageFile {
    pub version: u32,
    /// Of this run alone.
    pub usage: Usage,
    /// Of its session from the beginning, where the agent counts like that: the next run that resumes it starts there.
    #[serde(default)]
    pub total: Option<Usage>,
    /// The model as the CLI names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The word of what stands in its way.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Why we ended it before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Outcome>,
    /// Once it has ended.
    #[serde(default)]
    pub outcome: Option<Outcome>,
}

impl UsageFile {
    /// Logs rotate: what an earlier look saw may be in them no more.
    pub fn or(mut self, earlier: &Self) -> Self {
        let usage = earlier.usage.clone();
        self.usage.session = self.usage.session.or(usage.session);
        self.usage.input_tokens = self.usage.input_tokens.or(usage.input_tokens);
        self.usage.output_tokens = self.usage.output_tokens.or(usage.output_tokens);
        self.usage.cost_microusd = self.usage.cost_microusd.or(usage.cost_microusd);
        self.model = self.model.or_else(|| earlier.model.clone());
        self.refused = self.refused.or_else(|| earlier.refused.clone());
        self.total = self.total.or_else(|| earlier.total.clone());
        self
    }
}

/// What a session has used up to now, over all runs that resumed it.
pub fn of_session(runs: &Path, session: &str) -> Option<Usage> {
    let entries = std::fs::read_dir(runs).ok()?;
    entries
        .flatten()
        .filter_map(|entry| Folder::new(entry.path()).usage()?.total)
        .filter(|total| total.session.as_deref() == Some(session))
        // The count only grows, so the greatest is the latest.
        .reduce(|a, b| Usage {
            session: a.session,
            input_tokens: a.input_tokens.max(b.input_tokens),
            output_tokens: a.output_tokens.max(b.output_tokens),
            cost_microusd: a.cost_microusd.max(b.cost_microusd),
            estimated: false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SU-07
    #[test]
    fn the_latest_count_of_a_session_is_found_among_other_runs() {
        let dir = tempfile::tempdir().unwrap();
        let counted = |session: &str, cost| Usage {
            session: Some(session.to_owned()),
            cost_microusd: Some(cost),
            ..Usage::default()
        };
        for (name, total) in
            [("a", counted("s", 20)), ("b", counted("s", 10)), ("c", counted("t", 90))]
        {
            let folder = Folder::new(dir.path().join(name));
            std::fs::create_dir(folder.path()).unwrap();
            let file = UsageFile { version: 1, total: Some(total), ..UsageFile::default() };
            folder.publish_json("usage.json", &file).unwrap();
        }
        std::fs::create_dir(dir.path().join("d")).unwrap();
        assert_eq!(of_session(dir.path(), "s"), Some(counted("s", 20)));
        assert_eq!(of_session(dir.path(), "u"), None);
    }
}
