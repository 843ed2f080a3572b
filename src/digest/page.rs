//! The report as one page that needs nothing else.

use super::{Digest, RepoDigest, Waiting};
use agency_dashboard::digest::{self, DigestPage};

pub(crate) fn html(digest: &Digest) -> String {
    digest::html(&page(digest))
}

fn page(digest: &Digest) -> DigestPage {
    let list = |heading: &str, of: fn(&RepoDigest) -> &Vec<String>| {
        let lines = digest
            .repos
            .iter()
            .flat_map(|repo| of(repo).iter().map(|line| [repo.name.clone(), line.clone()]));
        (heading.to_owned(), lines.collect::<Vec<_>>())
    };
    let time = |at: crate::model::Timestamp| at.format("%b %d, %H:%M").to_string();
    DigestPage {
        title: format!("agency: {}", digest.headline()),
        span: format!("{} to {} UTC", time(digest.since), time(digest.until)),
        headline: digest.headline(),
        calm: !digest.waiting.iter().any(|one| one.holds),
        cost: digest.cost_usd,
        estimated: digest.estimated_usd > 0.0,
        tokens: digest.tokens,
        runs: usize::try_from(digest.runs).unwrap_or(usize::MAX),
        waiting: digest.waiting.iter().filter(|one| one.holds).map(waiting).collect(),
        lists: vec![
            (
                "To read".to_owned(),
                digest.waiting.iter().filter(|one| !one.holds).map(to_read).collect(),
            ),
            list("Merged", |repo| &repo.merged),
            list("Committed", |repo| &repo.committed),
            list("Done", |repo| &repo.done),
            list("Held", |repo| &repo.held),
            list("Refused", |repo| &repo.refused),
            list("You did", |repo| &repo.asked),
        ],
        cost_by_hour: digest.cost_by_hour.iter().map(|(at, cost)| (time(*at), *cost)).collect(),
        time_per_agent: sorted(
            digest
                .time_per_agent
                .iter()
                .map(|(agent, seconds)| (agent.clone(), *seconds))
                .collect(),
        ),
        longest_waits: digest
            .longest_waits
            .iter()
            .map(|wait| {
                (format!("{}: {}", wait.repo, crate::model::clip(&wait.what, 34)), wait.seconds)
            })
            .collect(),
    }
}

fn waiting(one: &Waiting) -> [String; 3] {
    [one.repo.clone(), format!("{} ({})", one.summary, one.rule), one.resolve.clone()]
}

fn to_read(one: &Waiting) -> [String; 2] {
    [one.repo.clone(), format!("{} ({})", one.summary, one.rule)]
}

fn sorted(mut values: Vec<(String, f64)>) -> Vec<(String, f64)> {
    values.sort_by(|a, b| b.1.total_cmp(&a.1));
    values
}
