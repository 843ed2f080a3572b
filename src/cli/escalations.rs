//! `agency escalations`: what the owner was or must be told.

use super::ask;
use super::context::{Context, runtime};
use super::exit::{Exit, Misused, Refused};
use super::show;
use super::status;
use crate::escalate::{self, Outbox, Record};
use crate::model::counted;
use crate::run::{Caller, own_caller};
use crate::verbs::{self, OwnerVerb};
use std::path::PathBuf;

/// What was broken, and the command that resolves it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency escalations\n  agency escalations --all --json")]
pub(super) struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Resolved and acknowledged ones too
    #[arg(long)]
    all: bool,
}

/// Say that you have seen one: a notice leaves the list until it comes again; what holds work is repeated once a day
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency ack 3216a9b35407")]
pub(super) struct AckArgs {
    /// As `agency escalations` shows it
    id: String,
}

/// Answer one with one of its options; journalled with who and why
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency answer 3216a9b35407 resume --reason 'the key is renewed'\n  agency answer 9f2c11aa00de adopt\n  agency answer 51c0ffee7d20 'JWT, as in the old service'"
)]
pub(super) struct AnswerArgs {
    /// As `agency escalations` shows it
    id: String,
    /// One of the options that it shows; a question without options takes any words
    #[arg(value_name = "TEXT")]
    option: String,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// Send a real message through every channel, and say what became of it
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency escalate --test")]
pub(super) struct TestArgs {
    /// Prove the channels
    #[arg(long, required = true)]
    test: bool,
}

pub(super) fn ack(context: &Context, args: &AckArgs) -> anyhow::Result<Exit> {
    refuse_agents()?;
    match find(context, &args.id)? {
        Found { record, keeper: Keeper::Repository } => {
            ask::give(&context.at(record.repo), OwnerVerb::ack(&record.id))
        }
        Found { record, keeper: Keeper::Daemon { outbox } } => {
            Outbox::open(outbox, "", &record.repo)?.acknowledge(&record.id)?;
            anstream::println!("`{}` is acknowledged", record.id);
            Ok(Exit::Fine)
        }
    }
}

pub(super) fn answer(context: &Context, args: &AnswerArgs) -> anyhow::Result<Exit> {
    let record = find(context, &args.id)?.record;
    let verb = verbs::answer(&record, &args.option, args.reason.as_deref());
    let verb = verb.map_err(|error| Misused(error.to_string()))?;
    ask::give(&context.at(record.repo), verb)
}

pub(super) fn test(context: &Context, _: &TestArgs) -> anyhow::Result<Exit> {
    refuse_agents()?;
    let channels = escalate::channels(&context.config()?, &context.env);
    if channels.names().is_empty() {
        return Err(Refused(
            "no channel is configured; see `escalation` in config/agency.yaml".to_owned(),
        )
        .into());
    }
    let host = nix::unistd::gethostname()
        .map_or_else(|_| "this machine".to_owned(), |name| name.to_string_lossy().into_owned());
    let results = runtime()?.block_on(channels.test(&host, crate::clock::now().wall));
    let mut exit = Exit::Fine;
    for (channel, result) in results {
        match result {
            Ok(()) => anstream::println!("{channel}: delivered"),
            Err(why) => {
                anstream::println!("{channel}: failed: {why}");
                exit = Exit::Finding;
            }
        }
    }
    Ok(exit)
}

/// SE-04, SE-07: what the owner alone may do.
pub(super) fn refuse_agents() -> Result<(), Refused> {
    match own_caller() {
        Caller::Outside => Ok(()),
        Caller::Run(run) => {
            Err(Refused(format!("agents may not do this: we are inside the run `{run}` (SE-04)")))
        }
        Caller::Unclear(unclear) => Err(Refused(unclear.sentence())),
    }
}

/// An escalation, and who keeps it.
struct Found {
    record: Record,
    keeper: Keeper,
}

enum Keeper {
    Repository,
    /// The daemon itself tells of a repository that it cannot open (DM-18).
    Daemon {
        outbox: PathBuf,
    },
}

fn all(context: &Context) -> anyhow::Result<Vec<Found>> {
    let wanted = context.named_root();
    let is_wanted = |record: &Record| wanted.as_ref().is_none_or(|wanted| *wanted == record.repo);
    let mut found = Vec::new();
    for outbox in status::outboxes(&context.state_dir()?) {
        let records = Outbox::list(&outbox).into_iter().filter(is_wanted);
        found.extend(records.map(|record| {
            let keeper = Keeper::Daemon { outbox: outbox.clone() };
            Found { record, keeper }
        }));
    }
    let known = match context.known() {
        Ok(known) => known,
        // A repository that is not there is told of by the daemon.
        Err(_) if !found.is_empty() => Vec::new(),
        Err(error) => return Err(error),
    };
    let records = known.iter().flat_map(|known| Outbox::list(&known.folder.join("outbox")));
    found.extend(records.map(|record| Found { record, keeper: Keeper::Repository }));
    Ok(found)
}

/// By its id or the beginning of it.
fn find(context: &Context, id: &str) -> anyhow::Result<Found> {
    let mut found = all(context)?;
    found.retain(|found| found.record.id.starts_with(id));
    match (found.pop(), found.len()) {
        (Some(found), 0) if !id.is_empty() => Ok(found),
        (Some(_), _) => {
            Err(Misused(format!("`{id}` fits several escalations; give more of the id")).into())
        }
        (None, _) => {
            Err(Misused(format!("there is no escalation `{id}`; `agency escalations` lists them"))
                .into())
        }
    }
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let mut records: Vec<Record> = all(context)?.into_iter().map(|found| found.record).collect();
    records.sort_by(|a, b| (a.first_seen, &a.id).cmp(&(b.first_seen, &b.id)));
    if args.json {
        show::json(&records)?;
        return Ok(Exit::Fine);
    }
    records.retain(|record| args.all || record.is_for_owner());
    if records.is_empty() {
        anstream::println!("nothing is open");
    }
    for record in &records {
        print(record);
    }
    Ok(Exit::Fine)
}

fn print(record: &Record) {
    let severity = format!("{:?}", record.severity).to_lowercase();
    let state = format!("{:?}", record.state).to_lowercase();
    let (id, rule, summary) = (&record.id, &record.rule, &record.summary);
    anstream::println!("{id}  {rule}  {severity}, {state}, seen {} times  {summary}", record.count);
    anstream::println!("  where    {} ({})", record.repo.display(), record.protocol);
    anstream::println!("  since    {} ago", show::age(record.first_seen));
    anstream::println!("  did      {}", record.did);
    anstream::println!("  note     {}", record.wont);
    anstream::println!("  resolve  {}", record.resolve);
    if !record.options.is_empty() {
        anstream::println!("  answer   {}", record.options.join(", "));
    }
    for delivery in &record.deliveries {
        let state = format!("{:?}", delivery.state).to_lowercase();
        anstream::println!(
            "  sent     {}: {state} after {}",
            delivery.channel,
            counted(delivery.tries, "try")
        );
    }
}
