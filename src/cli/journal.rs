//! `agency journal`: the record of every decision, and the proof that nobody changed it.

use super::context::Context;
use super::exit::{Exit, Misused, Refused};
use super::show;
use crate::model::counted;
use crate::repository::Places;
use crate::store::{self, Record, StoreError};

/// The record of every decision and effect
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency journal --lines 50\n  agency journal verify     (finds any flip, cut or reorder)"
)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// How many of the last lines
    #[arg(short = 'n', long, default_value_t = 20)]
    lines: usize,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Read all of it and check every link of the chain
    #[command(after_help = "Example:\n  agency journal verify --repo ~/src/shop")]
    Verify {},
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let places = context.places()?;
    let places =
        places.ok_or_else(|| Misused("no journal is known for this repository".to_owned()))?;
    if let Some(Verb::Verify {}) = args.verb {
        return verify(|| verify_journal(&places));
    }
    let records = store::tail(&places.journal(), args.lines);
    if args.json {
        let lines = records.iter().map(|r| {
            serde_json::json!({"n": r.n, "at": r.at, "kind": r.kind, "body": r.body, "hash": r.hash})
        });
        show::json(&lines.collect::<Vec<_>>())?;
        return Ok(Exit::Fine);
    }
    records.iter().for_each(print);
    Ok(Exit::Fine)
}

/// A journal that was begun and has no line left was deleted.
pub(super) fn verify_journal(places: &Places) -> Result<store::Verified, StoreError> {
    let verified = store::verify(&places.journal(), &places.pins())?;
    if verified.head.n == 0 && places.has_journal() {
        return Err(StoreError::JournalGone { dir: places.journal() });
    }
    Ok(verified)
}

/// A daemon may be in the middle of a line: damage must show twice to count.
fn verify(look: impl Fn() -> Result<store::Verified, StoreError>) -> anyhow::Result<Exit> {
    let verified = match look() {
        Err(error) if error.is_damage() => {
            std::thread::sleep(std::time::Duration::from_millis(200));
            look()
        }
        other => other,
    };
    match verified {
        Ok(verified) => {
            let (lines, segments) = (verified.head.n, verified.segments);
            anstream::println!(
                "the journal is whole: {} in {}, head {}",
                counted(lines, "line"),
                counted(segments, "segment"),
                verified.head.hash
            );
            Ok(Exit::Fine)
        }
        Err(error) if error.is_damage() => Err(Refused(format!(
            "{}\nhint: agency adopt keeps the damaged journal aside and starts from the files as they are",
            crate::apply::chain(&error)
        ))
        .into()),
        Err(error) => Err(error.into()),
    }
}

fn print(record: &Record) {
    let body = &record.body;
    let words = match record.kind.as_str() {
        "decided" => decided(body),
        "done" | "failed" => body["key"].as_str().unwrap_or_default().to_owned(),
        _ => crate::model::clip(&body.to_string(), 120),
    };
    let at = record.at.format("%Y-%m-%d %H:%M:%S");
    anstream::println!("{:>6}  {at}  {:<8}  {words}", record.n, record.kind);
}

/// Row, refusals, kinds of effects and what is remembered: what a person looks for.
fn decided(body: &serde_json::Value) -> String {
    let decision = &body["decision"];
    let mut words = vec![body["protocol"].as_str().unwrap_or_default().to_owned()];
    words.extend(decision["row"].as_str().map(str::to_owned));
    for rejection in decision["rejections"].as_array().into_iter().flatten() {
        words.push(format!("refused {}", rejection["rule"].as_str().unwrap_or_default()));
    }
    for keyed in decision["effects"].as_array().into_iter().flatten() {
        let effect = &keyed["effect"];
        let kind = effect.as_object().and_then(|fields| fields.keys().next().cloned());
        words.extend(kind.or_else(|| effect.as_str().map(str::to_owned)));
    }
    for memo in decision["memo"].as_array().into_iter().flatten() {
        let name = memo["name"].as_str().unwrap_or_default();
        words.push(format!("+{}", name.split('/').next().unwrap_or_default()));
    }
    words.join(" ")
}
