//! `agency reviews`: reviews and the fixes that answer them.

use super::file::{Over, Place};
use super::progress::agent_named;
use super::{Trouble, comma_list, finish, json_argument, only, say_json, warn};
use crate::cli::exit::Exit;
use crate::clock;
use crate::protocol::ledger::counts::Counts;
use crate::protocol::ledger::cycles::{FIX_MAX, Subject, attempts};
use crate::protocol::ledger::json::{self, raw};
use crate::protocol::ledger::progress::short;
use crate::protocol::ledger::reviews::{FixDraft, ReviewDraft};
use crate::protocol::ledger::words::{AgentType, Health, Severity, Verdict};
use crate::protocol::ledger::{Features, Reviews, issues};
use serde_json::{Value, json};

/// The ledger's reviews.json: reviews, their issues, and the fixes
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency reviews get-last --field verdict\n  agency reviews show-issues\n  agency reviews get-fix-count F001\n  agency reviews add-review -a REVIEW --feature-id F001 -b feature/login -v PASS -s 'Works as described'"
)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Begin a new reviews.json
    #[command(after_help = "Example:\n  agency reviews init")]
    Init {
        /// Also over a reviews.json that is there; never over another file of that name
        #[arg(long)]
        force: bool,
    },
    /// Record a review; its number is the next one, its issues get their ids
    #[command(
        after_help = "Example:\n  agency reviews add-review -a REVIEW --feature-id F001 -b feature/login -v REQUEST_CHANGES -s 'Errors are lost' \\\n    --issues '{\"major\": [{\"description\": \"No handling of a lost connection\", \"location\": \"app/db.py:15\"}]}'"
    )]
    AddReview(Box<AddReview>),
    /// Record the fixes that answer a review
    #[command(
        after_help = "Example:\n  agency reviews add-fix -r 1 -b feature/login \\\n    --issues-fixed '[{\"issue_id\": \"R1-M1\", \"fix_description\": \"Answers 503\", \"commit\": \"a1b2c3d\"}]'"
    )]
    AddFix {
        #[arg(long, short = 'r')]
        review_id: u64,
        /// Default: the review's own
        #[arg(long)]
        feature_id: Option<String>,
        #[arg(long, short = 'b')]
        branch: String,
        /// JSON, or a file with it
        #[arg(long)]
        issues_fixed: Option<String>,
        /// JSON, or a file with it
        #[arg(long)]
        issues_deferred: Option<String>,
        /// Names of tests, by comma
        #[arg(long)]
        tests_added: Option<String>,
    },
    /// The last review, or one field of it
    #[command(after_help = "Example:\n  agency reviews get-last --field review_id")]
    GetLast {
        #[arg(long)]
        field: Option<String>,
    },
    /// A review by its number
    #[command(after_help = "Example:\n  agency reviews get-review 3")]
    GetReview {
        review_id: u64,
        #[arg(long)]
        field: Option<String>,
    },
    /// The number of the next review
    #[command(after_help = "Example:\n  agency reviews next-review-id")]
    NextReviewId {},
    /// The last review's issues, for the one who fixes them
    #[command(after_help = "Example:\n  agency reviews show-issues")]
    ShowIssues {},
    /// How often a feature (or, as `A2`, an architecture review) was fixed since its last REJECT
    #[command(after_help = "Example:\n  agency reviews get-fix-count F001")]
    GetFixCount { id: String },
    /// A fix is merged and needs no review any more
    #[command(after_help = "Example:\n  agency reviews mark-merged 3 --merge-commit a1b2c3d")]
    MarkMerged {
        fix_id: u64,
        /// Default: the current commit
        #[arg(long)]
        merge_commit: Option<String>,
    },
    /// Every review and fix on a line
    #[command(after_help = "Example:\n  agency reviews list --json")]
    List {},
}

#[derive(clap::Args)]
struct AddReview {
    /// REVIEW or ARCHITECTURE
    #[arg(long, short = 'a')]
    agent_type: String,
    #[arg(long)]
    feature_id: Option<String>,
    /// Default: the name in feature_list.json
    #[arg(long)]
    feature_name: Option<String>,
    /// The branch under review; an ARCHITECTURE review has none
    #[arg(long, short = 'b')]
    branch: Option<String>,
    /// PASS, PASS_WITH_COMMENTS, REQUEST_CHANGES or REJECT
    #[arg(long, short = 'v')]
    verdict: String,
    #[arg(long, short = 's')]
    summary: String,
    /// JSON or a file with it: lists by severity, or one list in which each issue names its severity
    #[arg(long)]
    issues: Option<String>,
    /// JSON object: each point PASS, FAIL or N/A
    #[arg(long)]
    checklist: Option<String>,
    /// GOOD, FAIR or NEEDS_ATTENTION; default: by issues and coverage
    #[arg(long)]
    health_status: Option<String>,
    /// JSON object; `test_coverage_percent` counts for the health status
    #[arg(long)]
    metrics: Option<String>,
    /// Why an ARCHITECTURE review was due
    #[arg(long)]
    trigger: Option<String>,
    #[arg(long)]
    commit_from: Option<String>,
    #[arg(long)]
    commit_to: Option<String>,
    /// What the range of commits is
    #[arg(long, alias = "commit-description")]
    range_description: Option<String>,
}

pub(in crate::cli) fn run(args: &Args) -> Exit {
    finish(act(args))
}

fn act(args: &Args) -> Result<(), Trouble> {
    let place = &args.place;
    match &args.verb {
        Verb::Init { force } => {
            let over = if *force { Over::Anything } else { Over::Nothing };
            let file = place.create(&Reviews::empty(), over)?;
            anstream::println!("SUCCESS: Initialized {file}");
            Ok(())
        }
        Verb::AddReview(review) => add_review(place, review),
        Verb::AddFix {
            review_id,
            feature_id,
            branch,
            issues_fixed,
            issues_deferred,
            tests_added,
        } => {
            only(&[AgentType::Fix], "record fixes")?;
            let draft = FixDraft {
                review_id: *review_id,
                feature_id: feature_id.clone().filter(|id| !matches!(id.as_str(), "" | "null")),
                branch: branch.clone(),
                issues_fixed: json_argument("--issues-fixed", issues_fixed.as_deref())?,
                issues_deferred: json_argument("--issues-deferred", issues_deferred.as_deref())?,
                tests_added: comma_list(tests_added.as_deref()),
            };
            add_fix(place, draft)
        }
        Verb::GetLast { field } => {
            let reviews = place.read::<Reviews>()?;
            show(reviews.last().ok_or_else(no_reviews)?, field.as_deref())
        }
        Verb::GetReview { review_id, field } => {
            let reviews = place.read::<Reviews>()?;
            let none = || Trouble::new(format!("Review R{review_id} not found"));
            show(reviews.review(*review_id).ok_or_else(none)?, field.as_deref())
        }
        Verb::NextReviewId {} => {
            anstream::println!("{}", place.read::<Reviews>()?.next_review_id());
            Ok(())
        }
        Verb::ShowIssues {} => show_issues(place),
        Verb::GetFixCount { id } => get_fix_count(place, id),
        Verb::MarkMerged { fix_id, merge_commit } => {
            mark_merged(place, *fix_id, merge_commit.as_deref())
        }
        Verb::List {} => list(place),
    }
}

fn no_reviews() -> Trouble {
    Trouble::new("No reviews found")
}

fn show(review: &Value, field: Option<&str>) -> Result<(), Trouble> {
    match field {
        None => say_json(review),
        Some(path) => {
            anstream::println!("{}", raw(json::field(review, path).unwrap_or(&Value::Null)));
        }
    }
    Ok(())
}

fn add_review(place: &Place, given: &AddReview) -> Result<(), Trouble> {
    let agent = agent_named(&given.agent_type)?;
    only(&[AgentType::Review, AgentType::Architecture], "record reviews")?;
    if let Some(here) = super::agent_here().filter(|here| *here != agent) {
        let said = format!("{} may not record a review as {} (LG-06)", here.word(), agent.word());
        return Err(Trouble::new(said));
    }
    let (features, feature_id) = (place.beside::<Features>(), given.feature_id.clone());
    let feature = feature_id.as_ref().zip(features.as_ref()).and_then(|(id, list)| list.get(id));
    let name = feature.map(|feature| feature.label().to_owned()).filter(|name| !name.is_empty());
    let draft = ReviewDraft {
        agent,
        feature_id: feature_id.filter(|id| !matches!(id.as_str(), "" | "null")),
        feature_name: given.feature_name.clone().or(name),
        branch: given.branch.clone(),
        verdict: named(&given.verdict, "verdict", Verdict::parse, &Verdict::list())?,
        summary: given.summary.clone(),
        issues: json_argument("--issues", given.issues.as_deref())?,
        checklist: optional(json_argument("--checklist", given.checklist.as_deref())?),
        health: given
            .health_status
            .as_deref()
            .map(|word| named(word, "health status", Health::parse, &Health::list()))
            .transpose()?,
        metrics: optional(json_argument("--metrics", given.metrics.as_deref())?),
        trigger: given.trigger.clone(),
        features_completed: features
            .map(|list| Counts::of(&list, place.beside::<Reviews>().as_ref()).completed),
        commit_from: given.commit_from.clone(),
        commit_to: given.commit_to.clone(),
        range_description: given.range_description.clone(),
    };
    let review =
        place.change(|reviews: &mut Reviews| Ok(reviews.add_review(draft, clock::now().wall)?))?;
    place.recount()?;
    anstream::println!("SUCCESS: Added review R{}", review["review_id"]);
    say_json(&review);
    Ok(())
}

fn add_fix(place: &Place, draft: FixDraft) -> Result<(), Trouble> {
    check_commits(place, &draft.issues_fixed)?;
    let fix =
        place.change(|reviews: &mut Reviews| Ok(reviews.add_fix(draft, clock::now().wall)?))?;
    place.recount()?;
    anstream::println!("SUCCESS: Added fix F{}", fix["fix_id"]);
    say_json(&fix);
    Ok(())
}

/// LG-12, as far as it can be known here: a commit that fixed something exists. The daemon looks at the session's range.
fn check_commits(place: &Place, fixed: &Value) -> Result<(), Trouble> {
    let items = fixed.as_array().map_or(&[][..], Vec::as_slice);
    let commits: Vec<_> = items.iter().filter_map(|item| item.get("commit")?.as_str()).collect();
    if commits.len() < items.len() {
        warn("not every fixed issue names its `commit` (LG-12)");
    }
    let Some(git) = place.git().filter(|_| !commits.is_empty()) else { return Ok(()) };
    let missing = |commit: &&str| git.has_object(commit) == Some(false);
    let unknown: Vec<&str> = commits.into_iter().filter(missing).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let said = format!(
        "no commit {} in this repository; wanted the commit of each fix (LG-12)",
        unknown.join(", ")
    );
    Err(Trouble::new(said))
}

fn show_issues(place: &Place) -> Result<(), Trouble> {
    let reviews = place.read::<Reviews>()?;
    let review = reviews.last().ok_or_else(no_reviews)?;
    let issues = issues::of(review);
    if place.json {
        let listed: Vec<_> = issues
            .iter()
            .map(|(severity, issue)| json!({"severity": severity.word(), "issue": issue}))
            .collect();
        say_json(&json!(listed));
        return Ok(());
    }
    if issues.is_empty() {
        anstream::println!("NO_ISSUES: Review has no issues to fix");
        return Ok(());
    }
    anstream::println!("=== ISSUES TO FIX ===");
    anstream::println!("Review: R{}", review["review_id"]);
    anstream::println!("Feature: {}", feature_of(review));
    anstream::println!("Verdict: {}\n", raw(&review["verdict"]));
    for severity in Severity::ALL {
        let of_it: Vec<_> = issues.iter().filter(|(found, _)| found == severity).collect();
        if of_it.is_empty() {
            continue;
        }
        anstream::println!("--- {} ({}) ---", severity.heading(), of_it.len());
        for (_, issue) in of_it {
            anstream::println!("  [{}] {}", raw(&issue["id"]), raw(&issue["description"]));
            for (label, field) in [("Location", "location"), ("Fix", "suggestion")] {
                if !raw(&issue[field]).is_empty() {
                    anstream::println!("    {label}: {}", raw(&issue[field]));
                }
            }
            anstream::println!();
        }
    }
    Ok(())
}

fn get_fix_count(place: &Place, id: &str) -> Result<(), Trouble> {
    let count = attempts(&place.read::<Reviews>()?, &Subject::parse(id));
    let remaining = FIX_MAX.saturating_sub(count);
    if place.json {
        say_json(&json!({"id": id, "fix_count": count, "remaining": remaining}));
        return Ok(());
    }
    anstream::println!("FIX_COUNT: {count}");
    anstream::println!("REMAINING: {remaining}");
    match remaining {
        0 => {
            anstream::println!("ERROR: Maximum fix attempts reached - Tiebreaker required");
            anstream::println!("only minor issues left → PASS_WITH_COMMENTS, else REJECT");
        }
        1 => anstream::println!(
            "WARNING: FINAL FIX ATTEMPT - Next failure triggers mandatory decision"
        ),
        _ => {}
    }
    Ok(())
}

fn mark_merged(place: &Place, id: u64, commit: Option<&str>) -> Result<(), Trouble> {
    only(&[AgentType::Review], "mark a fix as merged")?;
    let head = place.git().and_then(|git| git.head).map(|head| short(head.as_str()).to_owned());
    let commit = commit.map(str::to_owned).or(head);
    place.change(|reviews: &mut Reviews| {
        if reviews.mark_merged(id, commit.as_deref(), clock::now().wall) {
            Ok(())
        } else {
            Err(Trouble::new(format!("Fix F{id} not found")))
        }
    })?;
    place.recount()?;
    anstream::println!("SUCCESS: Fix F{id} marked as merged");
    Ok(())
}

fn list(place: &Place) -> Result<(), Trouble> {
    let reviews = place.read::<Reviews>()?;
    if place.json {
        say_json(reviews.value());
        return Ok(());
    }
    anstream::println!("=== REVIEWS ===");
    for review in reviews.reviews() {
        let (agent, verdict) = (raw(&review["agent_type"]), raw(&review["verdict"]));
        let (id, feature, issues) =
            (&review["review_id"], feature_of(review), issues::of(review).len());
        anstream::println!("  R{id}: [{agent}] {feature} - {verdict} ({issues} issues)");
    }
    anstream::println!("\n=== FIXES ===");
    for fix in reviews.fixes() {
        let count = |name: &str| fix[name].as_array().map_or(0, Vec::len);
        let state = if fix["pending_review"] == json!(true) { "PENDING" } else { "VERIFIED" };
        anstream::println!(
            "  F{}: addresses R{} for {} - {} fixed, {} deferred [{state}]",
            fix["fix_id"],
            fix["review_id"],
            feature_of(fix),
            count("issues_fixed"),
            count("issues_deferred"),
        );
    }
    Ok(())
}

/// Its feature, or the word for what concerns none.
fn feature_of(entry: &Value) -> String {
    entry["feature_id"].as_str().unwrap_or("ARCHITECTURE").to_owned()
}

fn optional(value: Value) -> Option<Value> {
    Some(value).filter(|value| !value.is_null())
}

fn named<T>(word: &str, what: &str, parse: fn(&str) -> Option<T>, all: &str) -> Result<T, Trouble> {
    parse(word)
        .ok_or_else(|| Trouble::new(format!("Unknown {what} '{word}'; wanted {all} (LG-05)")))
}
