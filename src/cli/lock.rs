//! `agency lock`: locks in `.claude/state.json`, for agents and people. The folder's lock is the real one behind them.

mod holding;

use super::context::Context;
use super::exit::{Exit, Misused, Refused};
use super::show;
use crate::clock;
use crate::model::RelPath;
use crate::protocol::handoff::locks::{self, Claim, EXPIRY, Grant, LockRefusal};
use crate::protocol::handoff::state;
use crate::store::{self, EditError};
use serde_json::{Map, Value, json};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

/// How long other writers of the file are waited for; each holds it for a moment only.
const WAIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
const WRITE_MAX: u64 = 128 << 20;

#[derive(clap::Subcommand)]
pub(super) enum Verb {
    /// Take a lock; prints its token. Exit code 75: somebody else has it
    #[command(
        after_help = "Examples:\n  agency lock acquire src/auth.rs\n  agency lock acquire db --ttl 5m --wait 1m --json"
    )]
    Acquire {
        /// A path, or any other name
        resource: String,
        #[command(flatten)]
        terms: Terms,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a lock back
    #[command(
        after_help = "Examples:\n  agency lock release src/auth.rs --agent builder\n  agency lock release src/auth.rs --token 7"
    )]
    Release {
        resource: String,
        #[command(flatten)]
        proof: Proof,
    },
    /// Move the expiry of a lock that you hold
    #[command(after_help = "Example:\n  agency lock renew src/auth.rs --token 7 --ttl 30m")]
    Renew {
        resource: String,
        #[command(flatten)]
        proof: Proof,
        /// How long from now
        #[arg(long, value_parser = span, default_value = "30m")]
        ttl: Duration,
    },
    /// Is this token still good? Exit code 1: somebody took the lock over
    #[command(after_help = "Example:\n  agency lock check src/auth.rs --token 7 && deploy")]
    Check {
        resource: String,
        #[arg(long)]
        token: u64,
    },
    /// Write standard input to a file, but only while this token is good: nobody can take the lock over in between
    #[command(after_help = "Example:\n  render | agency lock write docs --token 7 docs/index.md")]
    Write {
        resource: String,
        #[arg(long)]
        token: u64,
        /// A path inside the repository
        file: String,
    },
    /// Who holds what
    #[command(after_help = "Example:\n  agency lock list --json")]
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command under a lock: taken before, renewed meanwhile, given back after
    #[command(
        after_help = "Example:\n  agency lock run src/auth.rs -- ./migrate.sh\n\nThe command sees AGENCY_LOCK_RESOURCE and AGENCY_LOCK_TOKEN. When the lock is lost it is ended."
    )]
    Run {
        resource: String,
        #[command(flatten)]
        terms: Terms,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

#[derive(clap::Args)]
pub(super) struct Terms {
    /// Who holds it (default: the agent that runs, else you)
    #[arg(long)]
    agent: Option<String>,
    /// It may be taken over after this
    #[arg(long, value_parser = span, default_value = "30m")]
    ttl: Duration,
    /// Wait so long for whoever has it
    #[arg(long, value_parser = span, default_value = "0s")]
    wait: Duration,
}

#[derive(clap::Args)]
pub(super) struct Proof {
    /// As `acquire` printed it; proves that nobody has taken the lock over since
    #[arg(long)]
    token: Option<u64>,
    /// The holder, where no token is given (default: the agent that runs, else you)
    #[arg(long)]
    agent: Option<String>,
}

pub(super) fn run(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    let root = context.root()?;
    match verb {
        Verb::Acquire { resource, terms, json } => {
            let Some(grant) = acquire(context, &root, &resource, &terms)? else {
                return Ok(Exit::Busy);
            };
            if json {
                let over = grant.taken_over.as_ref().map(|lock| lock.agent.as_str());
                show::json(
                    &json!({"resource": resource, "token": grant.token, "expires": grant.expires, "taken_over_from": over}),
                )?;
            } else {
                anstream::println!("{}", grant.token);
            }
            Ok(Exit::Fine)
        }
        Verb::Release { resource, proof } => {
            let claim = proof.claim(context)?;
            change(&root, |state| locks::release(state, &resource, &claim))?;
            Ok(Exit::Fine)
        }
        Verb::Renew { resource, proof, ttl } => {
            let claim = proof.claim(context)?;
            change(&root, |state| locks::renew(state, &resource, &claim, ttl, clock::now().wall))?;
            Ok(Exit::Fine)
        }
        Verb::Check { resource, token } => {
            let (state, claim) = (read(&root)?, Claim::Token(token));
            let held = locks::proven(&state, &resource, &claim).map_err(refused)?;
            anstream::println!("{resource}: {}", held.sentence());
            Ok(Exit::Fine)
        }
        Verb::Write { resource, token, file } => write(&root, &resource, token, &file),
        Verb::List { json } => list(&root, json),
        Verb::Run { resource, terms, command } => {
            holding::run(context, &root, &resource, &terms, &command)
        }
    }
}

impl Proof {
    /// A name is no secret, so inside a run it must be the run's own.
    fn claim(&self, context: &Context) -> Result<Claim, Refused> {
        let own = own_agent();
        match (self.token, &self.agent, own) {
            (Some(token), ..) => Ok(Claim::Token(token)),
            (None, Some(said), Some(own)) if *said != own => Err(Refused(format!(
                "inside a run an agent gives back its own locks only: this run is {own}'s; \
                 another agent's lock needs its `--token` (HO-05)"
            ))),
            (None, said, _) => Ok(Claim::Agent(holder(context, said.as_ref()))),
        }
    }
}

/// Who asks for a lock: as said, else the agent of the run around us, else the person.
fn holder(context: &Context, said: Option<&String>) -> String {
    said.cloned().or_else(own_agent).unwrap_or_else(|| context.asker())
}

/// The agent of the run around us.
fn own_agent() -> Option<String> {
    std::env::var("AGENCY_AGENT").ok().filter(|agent| !agent.is_empty())
}

/// `None`: somebody else has it, also after the wait; that was said.
fn acquire(
    context: &Context,
    root: &Path,
    resource: &str,
    terms: &Terms,
) -> anyhow::Result<Option<Grant>> {
    let agent = holder(context, terms.agent.as_ref());
    let begun = clock::now().ticks;
    loop {
        let tried = try_change(root, |state| {
            locks::acquire(state, resource, &agent, terms.ttl, clock::now().wall)
        });
        match tried {
            Err(EditError::Refused(Trouble::Lock(held @ LockRefusal::Held { .. }))) => {
                if clock::now().ticks.since(begun) >= terms.wait {
                    anstream::eprintln!("error: {held}");
                    return Ok(None);
                }
                std::thread::sleep(PAUSE);
            }
            other => return Ok(Some(other.map_err(explain)?)),
        }
    }
}

/// Why the state was not changed.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Lock(LockRefusal),
    #[error("{0}")]
    Shape(String),
}

fn refused(refusal: LockRefusal) -> Refused {
    Refused(format!("{refusal} (HO-05)"))
}

fn explain(error: EditError<Trouble>) -> anyhow::Error {
    match error {
        EditError::Refused(Trouble::Lock(refusal)) => refused(refusal).into(),
        EditError::Refused(shape @ Trouble::Shape(_)) => Refused(format!("{shape} (HO-04)")).into(),
        other => other.into(),
    }
}

fn change<T>(
    root: &Path,
    judge: impl FnOnce(&mut Map<String, Value>) -> Result<T, LockRefusal>,
) -> anyhow::Result<T> {
    try_change(root, judge).map_err(explain)
}

/// Reads, judges and writes under the folder's lock, so that nobody else does so in between.
fn try_change<T>(
    root: &Path,
    judge: impl FnOnce(&mut Map<String, Value>) -> Result<T, LockRefusal>,
) -> Result<T, EditError<Trouble>> {
    let mut granted = None;
    store::edit(root, &RelPath::fixed(state::PATH), state::LIMIT, WAIT, |old| {
        let mut document = document(old)?;
        granted = Some(judge(&mut document).map_err(Trouble::Lock)?);
        let mut bytes = serde_json::to_vec_pretty(&document).expect("BUG: JSON is plain data");
        bytes.push(b'\n');
        Ok(Some(bytes))
    })?;
    Ok(granted.expect("BUG: an edit that went well was judged"))
}

/// HO-04: a file of another shape is refused, never overwritten.
fn document(old: Option<&[u8]>) -> Result<Map<String, Value>, Trouble> {
    let Some(bytes) = old else {
        let mut document = Map::new();
        document.insert("schema_version".to_owned(), state::VERSION.into());
        return Ok(document);
    };
    state::parse(bytes)
        .map(|state| state.document)
        .map_err(|problems| Trouble::Shape(state::other_format(&problems)))
}

fn read(root: &Path) -> anyhow::Result<Map<String, Value>> {
    let mut found = Map::new();
    store::edit(root, &RelPath::fixed(state::PATH), state::LIMIT, WAIT, |old| {
        found = document(old)?;
        Ok(None)
    })
    .map_err(explain)?;
    Ok(found)
}

/// Fenced: the token is checked and the file published under the lock that every take-over needs.
fn write(root: &Path, resource: &str, token: u64, file: &str) -> anyhow::Result<Exit> {
    let path = RelPath::new(file).map_err(|error| Misused(error.to_string()))?;
    if file == ".claude" || file.starts_with(".claude/") {
        return Err(Misused("files in `.claude/` are not written this way".to_owned()).into());
    }
    let mut bytes = Vec::new();
    std::io::stdin().take(WRITE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > WRITE_MAX {
        return Err(Misused(format!("at most {WRITE_MAX} bytes are written")).into());
    }
    let mut written = Ok(());
    store::edit(root, &RelPath::fixed(state::PATH), state::LIMIT, WAIT, |old| {
        let document = document(old)?;
        locks::proven(&document, resource, &Claim::Token(token)).map_err(Trouble::Lock)?;
        let edited = store::edit(root, &path, WRITE_MAX, WAIT, |_| {
            Ok::<_, std::convert::Infallible>(Some(bytes))
        });
        written = edited.map(|_| ());
        Ok(None)
    })
    .map_err(explain)?;
    written?;
    Ok(Exit::Fine)
}

fn list(root: &Path, json: bool) -> anyhow::Result<Exit> {
    let now = clock::now().wall;
    let document = read(root)?;
    let locks: Vec<(String, locks::Lock)> = locks::all(&document).into_iter().collect();
    if json {
        let shown = |(resource, lock): &(String, locks::Lock)| {
            json!({"resource": resource, "agent": lock.agent, "acquired": lock.acquired,
                "expires": lock.expires, "token": lock.token, "expired": lock.is_expired(now)})
        };
        show::json(&locks.iter().map(shown).collect::<Vec<_>>())?;
        return Ok(Exit::Fine);
    }
    let mut table = show::table(&["resource", "agent", "held for", "expires", "token"]);
    for (resource, lock) in &locks {
        let expires = match lock.expires {
            None => "unknown; may be taken over".to_owned(),
            Some(_) if lock.is_expired(now) => "expired; may be taken over".to_owned(),
            Some(expires) => format!("in {}", show::between(now, expires)),
        };
        let token = lock.token.map_or("by hand".to_owned(), |token| token.to_string());
        table.add_row([
            crate::model::clip(resource, 80),
            crate::model::clip(&lock.agent, 40),
            lock.acquired.map_or("unknown".to_owned(), show::age),
            expires,
            token,
        ]);
    }
    anstream::println!("{table}");
    Ok(Exit::Fine)
}

/// A duration as the configuration writes it.
fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration; wanted: 250ms, 30s, 45m, 4h or 3d");
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..at].parse().map_err(|_| wrong())?;
    let millis = match &text[at..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let span = number.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)?;
    if span <= 365 * 48 * EXPIRY { Ok(span) } else { Err(wrong()) }
}
