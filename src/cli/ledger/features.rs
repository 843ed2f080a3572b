//! `agency features`: what is to be built, and what passes.

use super::file::Place;
use super::{Trouble, comma_list, finish, json_argument, only, say_json, warn};
use crate::cli::exit::Exit;
use crate::clock;
use crate::protocol::ledger::Features;
use crate::protocol::ledger::features::{Feature, Kind};
use crate::protocol::ledger::json::raw;
use crate::protocol::ledger::words::AgentType;
use serde_json::{Value, json};

const DONE: &str = "NO_MORE_FEATURES: All features are passing!";
const INSTRUCTION: &str = "Pick up to 5 of these that belong together (one component, one category, or one needing another) and \
                           implement them in one session.";

/// The ledger's feature_list.json: what is to be built, and what passes
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency features next\n  agency features stats\n  agency features pass F001        (REVIEW only)\n  agency features fail F001 --reason 'login breaks'"
)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// The next one to build: bugs first, then the order of the file
    #[command(after_help = "Example:\n  agency features next --type BUG")]
    Next {
        /// FEAT, BUG or DEBT only
        #[arg(long, short = 't', value_name = "TYPE")]
        r#type: Option<String>,
    },
    /// Several to choose from
    #[command(after_help = "Example:\n  agency features next-candidates -c 5")]
    NextCandidates {
        #[arg(long, short = 'c', default_value_t = 15)]
        count: usize,
    },
    /// One feature
    #[command(after_help = "Example:\n  agency features get F001")]
    Get { id: String },
    /// Mark as passing (REVIEW only)
    #[command(after_help = "Example:\n  agency features pass F001")]
    Pass { id: String },
    /// Mark several as passing, all or none (REVIEW only)
    #[command(after_help = "Example:\n  agency features pass-batch \"F001,F002\"")]
    PassBatch { ids: String },
    /// Mark as failing: a regression
    #[command(after_help = "Example:\n  agency features fail F001 --reason 'login breaks'")]
    Fail {
        id: String,
        #[arg(long, short = 'r')]
        reason: String,
    },
    /// Add entries; those without an id get the next one of their kind
    #[command(
        after_help = "Example:\n  agency features append --entries '[{\"name\": \"Crash on start\", \"type\": \"bug\"}]'"
    )]
    Append {
        /// A JSON list, or a file with it
        #[arg(long, short = 'e')]
        entries: String,
        /// Where they come from
        #[arg(long, short = 's')]
        source_appspec: Option<String>,
    },
    /// Everything, by kind
    #[command(after_help = "Example:\n  agency features list --json")]
    List {},
    /// How many pass
    #[command(after_help = "Example:\n  agency features stats")]
    Stats {},
    /// The next free id of a kind
    #[command(after_help = "Example:\n  agency features next-id -t BUG")]
    NextId {
        /// FEAT, BUG or DEBT
        #[arg(long, short = 't', value_name = "TYPE")]
        r#type: String,
    },
    /// How much technical debt is open
    #[command(after_help = "Example:\n  agency features debt-count")]
    DebtCount {},
}

pub(in crate::cli) fn run(args: &Args) -> Exit {
    finish(act(args))
}

fn act(args: &Args) -> Result<(), Trouble> {
    let place = &args.place;
    match &args.verb {
        Verb::Next { r#type } => next(place, r#type.as_deref()),
        Verb::NextCandidates { count } => next_candidates(place, *count),
        Verb::Get { id } => {
            let features = place.read::<Features>()?;
            say_json(features.get(id).ok_or_else(|| not_found(id))?.value());
            Ok(())
        }
        Verb::Pass { id } => pass(place, id),
        Verb::PassBatch { ids } => pass_batch(place, &comma_list(Some(ids))),
        Verb::Fail { id, reason } => fail(place, id, reason),
        Verb::Append { entries, source_appspec } => {
            append(place, entries, source_appspec.as_deref())
        }
        Verb::List {} => list(place),
        Verb::Stats {} => stats(place),
        Verb::NextId { r#type } => {
            let kind = kind_named(r#type)?;
            anstream::println!("{}", place.read::<Features>()?.next_id(kind));
            Ok(())
        }
        Verb::DebtCount {} => {
            let features = place.read::<Features>()?;
            let debt = features.pending().filter(|feature| feature.kind() == Kind::Debt).count();
            anstream::println!("{debt}");
            Ok(())
        }
    }
}

fn not_found(id: &str) -> Trouble {
    Trouble::new(format!("Feature {id} not found"))
}

/// `#3` names an entry by its place, for reading only.
fn not_markable(features: &Features, id: &str) -> Trouble {
    match features.get(id) {
        Some(_) => Trouble::new(format!(
            "entry {id} of feature_list.json has no id; \"agency ledger adopt\" writes ids (LG-17)"
        )),
        None => not_found(id),
    }
}

fn kind_named(word: &str) -> Result<Kind, Trouble> {
    let said = || Trouble::new(format!("Type must be FEAT, BUG, or DEBT, got: {word}"));
    Kind::parse(word).ok_or_else(said)
}

fn next(place: &Place, kind: Option<&str>) -> Result<(), Trouble> {
    let kind = kind.map(kind_named).transpose()?;
    let features = place.read::<Features>()?;
    let wanted = |feature: &Feature<'_>| kind.is_none_or(|kind| feature.kind() == kind);
    match (features.pending().find(wanted), kind) {
        (Some(feature), _) => say_json(feature.value()),
        (None, None) => anstream::eprintln!("{DONE}"),
        (None, Some(kind)) => {
            anstream::eprintln!("NO_MORE_{0}: All {0}s are passing!", kind.word());
        }
    }
    Ok(())
}

fn next_candidates(place: &Place, count: usize) -> Result<(), Trouble> {
    let features = place.read::<Features>()?;
    let pending: Vec<&Value> = features.pending().map(Feature::value).collect();
    if pending.is_empty() {
        anstream::eprintln!("{DONE}");
        return Ok(());
    }
    let shown = &pending[..count.min(pending.len())];
    say_json(&json!({
        "total_pending": pending.len(),
        "candidates_shown": shown.len(),
        "features": shown,
        "instruction": INSTRUCTION,
    }));
    Ok(())
}

fn pass(place: &Place, id: &str) -> Result<(), Trouble> {
    only(&[AgentType::Review], "mark a feature as passing")?;
    let fresh = place.change(|features: &mut Features| {
        let passed = features.pass(id, clock::now().wall);
        passed.ok_or_else(|| not_markable(features, id))
    })?;
    if !fresh {
        warn(&format!("Feature {id} is already passing"));
    }
    if fresh {
        place.recount()?;
    }
    anstream::println!("SUCCESS: Feature {id} marked as PASSING");
    Ok(())
}

fn pass_batch(place: &Place, ids: &[String]) -> Result<(), Trouble> {
    only(&[AgentType::Review], "mark features as passing")?;
    let (passed, already) = place.change(|features: &mut Features| {
        let missing: Vec<_> = ids.iter().filter(|id| features.get(id).is_none()).cloned().collect();
        if !missing.is_empty() {
            return Err(Trouble::new(format!("Features not found: {}", missing.join(", "))));
        }
        if let Some(id) = ids.iter().find(|id| features.get(id).is_some_and(|f| !f.has_id())) {
            return Err(not_markable(features, id));
        }
        let now = clock::now().wall;
        let fresh = |id: &&String| features.pass(id, now) == Some(true);
        Ok::<(Vec<&String>, Vec<&String>), _>(ids.iter().partition(fresh))
    })?;
    let joined = |ids: &[&String]| ids.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ");
    if !already.is_empty() {
        warn(&format!("Already passing: {}", joined(&already)));
    }
    if !passed.is_empty() {
        place.recount()?;
    }
    anstream::println!("SUCCESS: Marked {} features as PASSING: {}", passed.len(), joined(&passed));
    Ok(())
}

fn fail(place: &Place, id: &str, reason: &str) -> Result<(), Trouble> {
    only(&[AgentType::Implement], "mark a feature as failing")?;
    place.change(|features: &mut Features| {
        let failed = features.fail(id, reason, clock::now().wall);
        failed.then_some(()).ok_or_else(|| not_markable(features, id))
    })?;
    place.recount()?;
    anstream::println!("SUCCESS: Feature {id} marked as FAILING - {reason}");
    Ok(())
}

fn append(place: &Place, entries: &str, source: Option<&str>) -> Result<(), Trouble> {
    let entries = json_argument("--entries", Some(entries))?;
    let ids = place.change(|features: &mut Features| Ok(features.append(&entries, source)?))?;
    place.recount()?;
    anstream::println!("SUCCESS: Appended {} entries: {}", ids.len(), ids.join(", "));
    Ok(())
}

/// What is open of each kind, and what passes, in the order of the file.
struct Sorted<'a> {
    bugs: Vec<Feature<'a>>,
    debt: Vec<Feature<'a>>,
    features: Vec<Feature<'a>>,
    passing: Vec<Feature<'a>>,
}

fn sorted(features: &Features) -> Sorted<'_> {
    let mut sorted = Sorted { bugs: vec![], debt: vec![], features: vec![], passing: vec![] };
    for feature in features.all() {
        let group = match feature.kind() {
            _ if feature.passes() => &mut sorted.passing,
            Kind::Bug => &mut sorted.bugs,
            Kind::Debt => &mut sorted.debt,
            Kind::Feature => &mut sorted.features,
        };
        group.push(feature);
    }
    sorted
}

fn list(place: &Place) -> Result<(), Trouble> {
    let features = place.read::<Features>()?;
    if place.json {
        say_json(&features.all().map(|feature| feature.value().clone()).collect());
        return Ok(());
    }
    let Sorted { bugs, debt, features, passing } = sorted(&features);
    let debt_heading = format!("=== TECH DEBT ({} items) ===", debt.len());
    let sections = [
        ("=== BUGS (priority) ===", &bugs, "pending"),
        (debt_heading.as_str(), &debt, "pending"),
        ("=== FEATURES ===", &features, "pending"),
        ("=== PASSING ===", &passing, "pass"),
    ];
    for (heading, group, state) in sections.iter().filter(|(_, group, _)| !group.is_empty()) {
        anstream::println!("{heading}");
        for feature in group.iter() {
            let source = feature
                .value()
                .get("source_review")
                .map(|review| format!(" (from {})", raw(review)));
            let source = source.unwrap_or_default();
            anstream::println!("{}: {} [{state}]{source}", feature.id(), feature.label());
        }
        anstream::println!();
    }
    let (bugs, debt, open, passing) = (bugs.len(), debt.len(), features.len(), passing.len());
    anstream::println!(
        "Summary: {bugs} bugs, {debt} tech debt, {open} features pending, {passing} passing"
    );
    Ok(())
}

fn stats(place: &Place) -> Result<(), Trouble> {
    let features = place.read::<Features>()?;
    let count = |kind: Kind| {
        let of_kind = features.all().filter(|feature| feature.kind() == kind);
        let (passing, open): (Vec<_>, Vec<_>) = of_kind.partition(|feature| feature.passes());
        (passing.len(), passing.len() + open.len())
    };
    let [feature, bug, debt] = Kind::ALL.map(count);
    let (passing, total) = (feature.0 + bug.0 + debt.0, features.len());
    let next = features.pending().next();
    if place.json {
        let pair = |(passing, total): (usize, usize)| json!({"passing": passing, "total": total});
        say_json(&json!({"features": pair(feature), "bugs": pair(bug), "tech_debt": pair(debt),
            "total": pair((passing, total)), "next": next.map(Feature::id)}));
        return Ok(());
    }
    anstream::println!("Features: {}/{} passing", feature.0, feature.1);
    anstream::println!("Bugs: {}/{} resolved", bug.0, bug.1);
    anstream::println!("Tech Debt: {}/{} resolved", debt.0, debt.1);
    anstream::println!(
        "Total: {passing}/{total} ({}%)",
        (100 * passing).checked_div(total).unwrap_or(0)
    );
    let note = next.map(|feature| match feature.kind() {
        Kind::Bug => format!("{} (bug - priority)", feature.id()),
        Kind::Debt => format!("{} (tech debt)", feature.id()),
        Kind::Feature => feature.id(),
    });
    anstream::println!("Next: {}", note.as_deref().unwrap_or("All done!"));
    Ok(())
}
