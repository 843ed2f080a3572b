//! `agency progress`: the project's state and its sessions.

use super::file::{Over, Place};
use super::{Trouble, comma_list, commits, finish, say_json, warn};
use crate::cli::exit::Exit;
use crate::clock;
use crate::git::Peeked;
use crate::protocol::ledger::json::{self, raw};
use crate::protocol::ledger::progress::{ReviewType, SessionDraft, Set};
use crate::protocol::ledger::words::{AgentType, Outcome};
use crate::protocol::ledger::{Features, Progress, Reviews};
use serde_json::{Value, json};

/// The ledger's progress.json: where the project stands, and every session
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency progress get-status --field current_branch\n  agency progress get-session -1 --field commit_range.from\n  agency progress -d state add-session -a IMPLEMENT -s 'Implemented F001' -o READY_FOR_REVIEW --features F001"
)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Begin a new progress.json
    #[command(
        after_help = "Example:\n  agency progress init --project-name Shop --feature-count 50"
    )]
    Init {
        /// Default: the name in feature_list.json
        #[arg(long, short = 'n')]
        project_name: Option<String>,
        /// Default: the number of entries in feature_list.json
        #[arg(long, short = 'c')]
        feature_count: Option<u64>,
        /// Also over a progress.json that is there; never over another file of that name
        #[arg(long)]
        force: bool,
    },
    /// The status, or one field of it
    #[command(after_help = "Example:\n  agency progress get-status --field current_feature")]
    GetStatus {
        #[arg(long)]
        field: Option<String>,
    },
    /// A session by its number; -1 is the last
    #[command(after_help = "Example:\n  agency progress get-session -1 --field agent_type")]
    GetSession {
        #[arg(allow_negative_numbers = true)]
        session_id: i64,
        /// `a.b` for a field inside another
        #[arg(long)]
        field: Option<String>,
    },
    /// Record a session; its number is the next one
    #[command(
        after_help = "Example:\n  agency progress add-session -a FIX -s 'Fixed R1-M1' -o READY_FOR_REVIEW --features F001 \\\n    --commits 'a1b2c3d:Handle a lost connection' --commit-from d4e5f60 --commit-to a1b2c3d"
    )]
    AddSession(Box<AddSession>),
    /// Change phase, feature or branch; `null` clears
    #[command(
        after_help = "Example:\n  agency progress update-status --phase REVIEW --branch feature/login"
    )]
    UpdateStatus {
        #[arg(long)]
        phase: Option<String>,
        #[arg(long)]
        feature: Option<String>,
        #[arg(long)]
        branch: Option<String>,
        /// Computed from the feature list where there is one
        #[arg(long)]
        features_completed: Option<u64>,
        /// Computed from the feature list where there is one
        #[arg(long)]
        features_passing: Option<u64>,
    },
    /// What kind of review comes next, by the current branch
    #[command(after_help = "Example:\n  agency progress get-review-type")]
    GetReviewType {},
    /// The number of the next session
    #[command(after_help = "Example:\n  agency progress next-session-id")]
    NextSessionId {},
    /// Every session on a line
    #[command(after_help = "Example:\n  agency progress list --json")]
    List {},
}

#[derive(clap::Args)]
struct AddSession {
    /// INITIALIZER, IMPLEMENT, REVIEW, FIX or ARCHITECTURE
    #[arg(long, short = 'a')]
    agent_type: String,
    #[arg(long, short = 's')]
    summary: String,
    /// SUCCESS, READY_FOR_REVIEW, NEEDS_FIX, REJECTED or ERROR
    #[arg(long, short = 'o')]
    outcome: String,
    /// Features that were touched, by comma
    #[arg(long)]
    features: Option<String>,
    /// `hash:message`, any number of them; default: what git has from --commit-from on
    #[arg(long, num_args = 0..)]
    commits: Vec<String>,
    #[arg(long)]
    commit_from: Option<String>,
    #[arg(long)]
    commit_to: Option<String>,
    /// Any RFC 3339 time; kept in UTC
    #[arg(long)]
    started_at: Option<String>,
    /// Default: what follows from agent and outcome
    #[arg(long)]
    next_phase: Option<String>,
    #[arg(long)]
    current_feature: Option<String>,
    #[arg(long)]
    current_branch: Option<String>,
}

pub(in crate::cli) fn run(args: &Args) -> Exit {
    finish(act(args))
}

fn act(args: &Args) -> Result<(), Trouble> {
    let place = &args.place;
    match &args.verb {
        Verb::Init { project_name, feature_count, force } => {
            let over = if *force { Over::Anything } else { Over::Nothing };
            init(place, project_name.as_deref(), *feature_count, over)
        }
        Verb::GetStatus { field } => get_status(place, field.as_deref()),
        Verb::GetSession { session_id, field } => get_session(place, *session_id, field.as_deref()),
        Verb::AddSession(session) => add_session(place, session),
        Verb::UpdateStatus { phase, feature, branch, features_completed, features_passing } => {
            let phase = phase.as_deref().map(phase_named).transpose()?;
            let counts = (*features_completed, *features_passing);
            update_status(place, phase, feature.as_deref(), branch.as_deref(), counts)
        }
        Verb::GetReviewType {} => get_review_type(place),
        Verb::NextSessionId {} => {
            anstream::println!("{}", place.read::<Progress>()?.next_session_id());
            Ok(())
        }
        Verb::List {} => list(place),
    }
}

fn init(
    place: &Place,
    name: Option<&str>,
    features: Option<u64>,
    over: Over,
) -> Result<(), Trouble> {
    let list = place.beside::<Features>();
    let listed = list.as_ref().and_then(Features::project_name);
    let name = name.or(listed).ok_or_else(|| not_given("--project-name", "gives no name"))?;
    let features = features.or_else(|| list.as_ref().map(|list| list.len() as u64));
    let features = features.ok_or_else(|| not_given("--feature-count", "is not there"))?;
    let head = place.git().and_then(|git| git.head);
    let head = head.as_ref().map(|commit| commit.as_str());
    let mut progress = Progress::new(name, features, head, clock::now().wall);
    if list.is_some() {
        count(place, &mut progress);
    }
    let file = place.create(&progress, over)?;
    anstream::println!("SUCCESS: Initialized {file}");
    say_json(progress.value());
    Ok(())
}

fn not_given(option: &str, why: &str) -> Trouble {
    Trouble {
        exit: Exit::Usage,
        lines: vec![format!("{option} is needed: feature_list.json {why}")],
    }
}

fn get_status(place: &Place, field: Option<&str>) -> Result<(), Trouble> {
    let progress = place.read::<Progress>()?;
    let status = progress.status();
    let Some(name) = field else {
        say_json(status);
        return Ok(());
    };
    match status.get(name) {
        Some(value) => anstream::println!("{}", raw(value)),
        None => {
            let known: Vec<_> =
                status.as_object().into_iter().flat_map(|s| s.keys()).cloned().collect();
            let trouble = Trouble::new(format!("Unknown field '{name}'"));
            // Two lines, of which only the first is an error.
            let exit = finish(Err(trouble));
            anstream::eprintln!("Available fields: {}", known.join(", "));
            return Err(Trouble { exit, lines: Vec::new() });
        }
    }
    Ok(())
}

fn get_session(place: &Place, id: i64, field: Option<&str>) -> Result<(), Trouble> {
    let progress = place.read::<Progress>()?;
    let session = progress.session(id);
    let session = session.ok_or_else(|| Trouble::new(format!("Session {id} not found")))?;
    match field {
        None => say_json(session),
        Some(path) => {
            let value = json::field(session, path).unwrap_or(&Value::Null);
            anstream::println!("{}", raw(value));
        }
    }
    Ok(())
}

fn add_session(place: &Place, given: &AddSession) -> Result<(), Trouble> {
    let (agent, outcome) = (agent_named(&given.agent_type)?, outcome_named(&given.outcome)?);
    let next = given.next_phase.as_deref().map(phase_named).transpose()?.or(agent.next(outcome));
    let git = place.git();
    let (commits, commit_to) = commits_of(given, git.as_ref());
    let draft = SessionDraft {
        agent,
        outcome,
        summary: given.summary.clone(),
        features: comma_list(given.features.as_deref()),
        commits,
        commit_from: given.commit_from.clone(),
        commit_to,
        started_at: given.started_at.clone(),
    };
    let session = place.change(|progress: &mut Progress| {
        let now = clock::now().wall;
        let session = progress.add_session(draft, now)?;
        if let Some(next) = next {
            progress.set_phase(next);
        }
        let current = Current::after(agent, outcome, given, git.as_ref());
        progress.set_feature(&current.feature);
        progress.set_branch(&current.branch);
        progress.set_head(git.as_ref().and_then(|git| git.head.as_ref()).map(|head| head.as_str()));
        count(place, progress);
        progress.touch(now);
        Ok(session)
    })?;
    anstream::println!("SUCCESS: Added session {}", session["session_id"]);
    say_json(&session);
    Ok(())
}

/// What was typed; else, with `--commit-from`, what git has from there on.
fn commits_of(given: &AddSession, git: Option<&Peeked>) -> (Vec<(String, String)>, Option<String>) {
    let typed = given.commits.iter().map(|commit| hash_and_message(commit)).collect::<Vec<_>>();
    let Some((from, git)) = given.commit_from.as_deref().zip(git).filter(|_| typed.is_empty())
    else {
        return (typed, given.commit_to.clone());
    };
    let commits = commits::between(git, from, given.commit_to.as_deref()).unwrap_or_else(|error| {
        warn(&format!("the commits are not recorded: {error:#}"));
        Vec::new()
    });
    let last = commits.last().map(|(hash, _)| hash.clone());
    (commits, given.commit_to.clone().or(last))
}

/// What the status says after a session by hand: what was typed, else what follows from the session and from git (LG-16).
struct Current {
    feature: Set,
    branch: Set,
}

impl Current {
    fn after(agent: AgentType, outcome: Outcome, given: &AddSession, git: Option<&Peeked>) -> Self {
        let typed = Self {
            feature: Set::typed(given.current_feature.as_deref()),
            branch: Set::branch(given.current_branch.as_deref()),
        };
        let follows = match (agent, outcome) {
            (_, Outcome::Error) => Self { feature: Set::Keep, branch: Set::Keep },
            // The feature is merged or goes back to the queue.
            (AgentType::Review, Outcome::Success | Outcome::Rejected)
            | (AgentType::Initializer | AgentType::Architecture, _) => {
                Self { feature: Set::Null, branch: Set::Null }
            }
            (AgentType::Implement | AgentType::Fix | AgentType::Review, _) => {
                let features = comma_list(given.features.as_deref());
                let branch = git.and_then(|git| git.branch.as_deref());
                Self {
                    feature: Set::typed(features.first().map(String::as_str)),
                    branch: Set::branch(branch),
                }
            }
        };
        let or = |typed: Set, follows: Set| if typed == Set::Keep { follows } else { typed };
        Self {
            feature: or(typed.feature, follows.feature),
            branch: or(typed.branch, follows.branch),
        }
    }
}

fn update_status(
    place: &Place,
    phase: Option<AgentType>,
    feature: Option<&str>,
    branch: Option<&str>,
    (completed, passing): (Option<u64>, Option<u64>),
) -> Result<(), Trouble> {
    let git = place.git();
    let status = place.change(|progress: &mut Progress| {
        if let Some(phase) = phase {
            progress.set_phase(phase);
        }
        progress.set_feature(&Set::typed(feature));
        progress.set_branch(&Set::branch(branch));
        progress.set_head(git.as_ref().and_then(|git| git.head.as_ref()).map(|head| head.as_str()));
        progress.set_counts(completed, passing);
        count(place, progress);
        progress.touch(clock::now().wall);
        Ok(progress.status().clone())
    })?;
    let claims = [("features_completed", completed), ("features_passing", passing)];
    for (name, claimed) in claims {
        if claimed.is_some_and(|claimed| status[name] != json!(claimed)) {
            warn(&format!("{name} is {}, as feature_list.json says (LG-13)", status[name]));
        }
    }
    anstream::println!("SUCCESS: Status updated");
    say_json(&status);
    Ok(())
}

/// LG-13. The folder is locked, so what lies beside is what will be there when we are done.
fn count(place: &Place, progress: &mut Progress) {
    if let Some(features) = place.beside::<Features>() {
        progress.count(&features, place.beside::<Reviews>().as_ref());
    }
}

fn get_review_type(place: &Place) -> Result<(), Trouble> {
    let kind = place.read::<Progress>()?.review_type();
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "None".to_owned());
    match (&kind, place.json) {
        (ReviewType::Feature { feature, branch }, true) => {
            say_json(&json!({"review_type": "FEATURE", "feature_id": feature, "branch": branch}));
        }
        (ReviewType::ArchitectureRefactor { branch }, true) => {
            say_json(&json!({"review_type": "ARCHITECTURE_REFACTOR", "branch": branch}));
        }
        (ReviewType::Feature { feature, branch }, false) => {
            anstream::println!("REVIEW_TYPE: FEATURE");
            anstream::println!("FEATURE_ID: {}", or_none(feature));
            anstream::println!("BRANCH: {}", or_none(branch));
        }
        (ReviewType::ArchitectureRefactor { branch }, false) => {
            anstream::println!("REVIEW_TYPE: ARCHITECTURE_REFACTOR");
            anstream::println!("BRANCH: {branch}");
        }
    }
    Ok(())
}

fn list(place: &Place) -> Result<(), Trouble> {
    let progress = place.read::<Progress>()?;
    if place.json {
        say_json(&json!(progress.sessions()));
        return Ok(());
    }
    for session in progress.sessions() {
        let summary: String = raw(&session["summary"]).chars().take(50).collect();
        let (agent, outcome) = (raw(&session["agent_type"]), raw(&session["outcome"]));
        anstream::println!("[{}] {agent}: {outcome} - {summary}...", session["session_id"]);
    }
    Ok(())
}

fn hash_and_message(given: &str) -> (String, String) {
    let (hash, message) = given.split_once(':').unwrap_or((given, ""));
    (hash.trim().to_owned(), message.trim().to_owned())
}

pub(super) fn agent_named(word: &str) -> Result<AgentType, Trouble> {
    let wanted = || {
        Trouble::new(format!("Unknown agent type '{word}'; wanted {} (LG-05)", AgentType::list()))
    };
    AgentType::parse(word).ok_or_else(wanted)
}

fn phase_named(word: &str) -> Result<AgentType, Trouble> {
    let wanted =
        || Trouble::new(format!("Unknown phase '{word}'; wanted {} (LG-05)", AgentType::list()));
    AgentType::parse(word).ok_or_else(wanted)
}

fn outcome_named(word: &str) -> Result<Outcome, Trouble> {
    let wanted =
        || Trouble::new(format!("Unknown outcome '{word}'; wanted {} (LG-05)", Outcome::list()));
    Outcome::parse(word).ok_or_else(wanted)
}
