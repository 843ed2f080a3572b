//! `agency digest`: what happened while you were away, as text, JSON, or one page.

use super::context::Context;
use super::cost::since;
use super::exit::Exit;
use super::{show, status};
use crate::clock;
use crate::digest::{Digest, RepoDigest, html};
use std::fmt::Write as _;
use std::path::PathBuf;

/// What was done, refused and held since a time; what it cost; what waits for you
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency digest\n  agency digest --since 3d --html report.html\n  agency digest --json | jq .waiting\nSent daily: `escalation: { digest: \"08:00\" }` in agency.yaml"
)]
pub(super) struct Args {
    /// How far back, such as 30m, 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "12h")]
    since: String,
    /// Write one page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print as JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let outboxes = if context.names_a_repository() {
        Vec::new()
    } else {
        status::outboxes(&context.state_dir()?)
    };
    let (since, until) = (since(&args.since)?, clock::now().wall);
    let digest = Digest::of(&context.known()?, &outboxes, since, until);
    if args.json {
        show::json(&digest)?;
    } else if let Some(path) = &args.html {
        std::fs::write(path, html(&digest))?;
        anstream::println!("{}", path.display());
    } else {
        anstream::print!("{}", text(&digest));
    }
    Ok(Exit::Fine)
}

fn text(digest: &Digest) -> String {
    let mut text = String::new();
    write_text(&mut text, digest).expect("writing to a String cannot fail");
    text
}

fn write_text(text: &mut String, digest: &Digest) -> std::fmt::Result {
    let time = |at: crate::model::Timestamp| at.format("%b %d, %H:%M").to_string();
    writeln!(text, "{}", digest.headline())?;
    let estimated = if digest.estimated_usd > 0.0 { "~" } else { "" };
    let (runs, cost, tokens) = (digest.runs, digest.cost_usd, digest.tokens);
    let plural = if runs == 1 { "" } else { "s" };
    let (since, until) = (time(digest.since), time(digest.until));
    writeln!(
        text,
        "{since} to {until} UTC · {runs} run{plural} · {estimated}${cost:.2} · {tokens} tokens"
    )?;
    for one in &digest.waiting {
        let mark = if one.holds { "HELD  " } else { "notice" };
        let summary = show::plain(&one.summary);
        writeln!(
            text,
            "\n{mark}  {}: {summary} ({}, {} ago)",
            show::plain(&one.repo),
            one.rule,
            show::age(one.since)
        )?;
        if one.holds {
            writeln!(text, "        {}", show::plain(&one.resolve))?;
        }
    }
    for repo in &digest.repos {
        write_repo(text, repo)?;
    }
    if !digest.time_per_agent.is_empty() {
        writeln!(text, "\ntime")?;
    }
    for (agent, seconds) in &digest.time_per_agent {
        writeln!(text, "  {agent:<14} {}", agency_dashboard::digest::seconds(*seconds))?;
    }
    for wait in &digest.longest_waits {
        let until = if wait.over { "" } else { ", still" };
        let length = agency_dashboard::digest::seconds(wait.seconds);
        writeln!(
            text,
            "  waited {length}{until}: {}: {}",
            show::plain(&wait.repo),
            show::plain(&wait.what)
        )?;
    }
    Ok(())
}

/// Lines of one kind that a terminal shows; all of them are in the page and in JSON.
const MOST: usize = 8;

fn write_repo(text: &mut String, repo: &RepoDigest) -> std::fmt::Result {
    writeln!(text, "\n{}", show::plain(&repo.path))?;
    let all = [
        ("merged", &repo.merged),
        ("committed", &repo.committed),
        ("done", &repo.done),
        ("held", &repo.held),
        ("refused", &repo.refused),
        ("you", &repo.asked),
    ];
    for (word, lines) in all {
        for line in lines.iter().take(MOST) {
            writeln!(text, "  {word:<10} {}", show::plain(line))?;
        }
        if lines.len() > MOST {
            writeln!(text, "  {word:<10} and {} more", lines.len() - MOST)?;
        }
    }
    Ok(())
}
