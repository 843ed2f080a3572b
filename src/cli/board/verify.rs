//! `agency verify`: runs the DoD profile of a task, writes the artifact, says pass or fail (spec 2 §11, §20, §21).

mod look;

use super::super::ask::answer;
use super::super::context::{Context, runtime};
use super::super::exit::{Exit, Refused};
use super::super::show;
use super::prompt::{Question, is_terminal};
use super::runner::Runner;
use super::{Place, bytes, task_id};
use crate::model::{CommitId, Verb};
use crate::protocol::board::NAME;
use crate::protocol::board::artifact::{Artifact, Passed};
use crate::protocol::board::names::TaskId;
use crate::protocol::board::state;
use crate::{store, workspace};
use look::Look;
use std::time::Duration;

/// Run a task's Definition of Done yourself, and write what came of it
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency verify --task T0007\n  agency verify --task T0007 --check-risks\n  agency verify --task T0007 --json | jq .result\n  agency verify --task T0007 --override --reason 'Hotfix INC-1234' --followup T0008"
)]
pub(crate) struct Args {
    #[arg(long, value_name = "ID", value_parser = task_id)]
    task: TaskId,
    /// Show each linked risk; they are checked in any case
    #[arg(long)]
    check_risks: bool,
    /// Let it be DONE although it does not pass; recorded in DECISIONS.md and RISKS.md
    #[arg(long = "override")]
    overrule: bool,
    /// Why it is overridden (asked for, at a terminal)
    #[arg(long, allow_hyphen_values = true, requires = "overrule")]
    reason: Option<String>,
    /// The task that will put it right (asked for, at a terminal)
    #[arg(long, value_name = "ID", value_parser = task_id, requires = "overrule")]
    followup: Option<TaskId>,
    /// Who approves (default: your git e-mail)
    #[arg(long, value_name = "WHO", requires = "overrule")]
    approver: Option<String>,
    /// How long each command may take, such as 90s, 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration)]
    timeout: Duration,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    let wanted = || "wanted a time such as 90s, 30m or 2h".to_owned();
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wanted()),
    };
    let number: u64 = number.parse().map_err(|_| wanted())?;
    Ok(Duration::from_secs(number.saturating_mul(factor).clamp(1, 7 * 24 * 3600)))
}

pub(crate) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    super::setup::refuse_agents()?;
    let place = Place::of(context)?;
    let (_, task) = place.task(&args.task)?;
    // Asked and looked at first: nobody wants to hear after an hour of tests that a word was missing.
    let overrule = if args.overrule { Some(Overrule::ask(&place, args)?) } else { None };
    let runs =
        context.state_dir()?.path().join(format!("verify-{}", uuid::Uuid::new_v4().simple()));
    let base = began_at(context, &args.task)?;
    let (artifact, approver) = runtime()?.block_on(async {
        let look = Look::at(&place, &task, base.clone()).await?;
        let approver = match &overrule {
            Some(_) => {
                look.refuse_blocking(&task).await?;
                approver(args, look.owner().await?)?
            }
            None => None,
        };
        let runner = Runner::new(context, &place.root, runs, args.timeout)?;
        anyhow::Ok((look.verify(args, &task, runner).await?, approver))
    })?;
    if !args.json {
        say(args, &artifact);
    }
    let json = serde_json::to_string(&artifact)?;
    let by = overrule.as_ref();
    let words = [
        ("do", Some("verified")),
        ("task", Some(args.task.as_str())),
        ("artifact", Some(json.as_str())),
        ("override", by.map(|_| "yes")),
        ("reason", by.map(|by| by.reason.as_str())),
        ("followup", by.map(|by| by.followup.as_str())),
        ("approver", approver.as_deref()),
    ];
    let answer = answer(context, Verb::Do, Some(NAME), &words)?;
    if args.json {
        show::json(&as_written(&place, &artifact)?)?;
    } else {
        anstream::println!("{answer}");
    }
    Ok(if artifact.result == Passed::Pass || args.overrule { Exit::Fine } else { Exit::Finding })
}

/// The commit at which a person began this task, as our journal has it.
fn began_at(context: &Context, id: &TaskId) -> anyhow::Result<Option<CommitId>> {
    let Some(places) = context.places()? else { return Ok(None) };
    let records = store::tail(&places.journal(), usize::MAX);
    let remembered = workspace::remembered(&records, NAME);
    let task = remembered.get(&format!("task/{id}"));
    let base = task.and_then(|task| task["hand"]["base"].as_str());
    Ok(base.map(CommitId::new))
}

/// What an override must say (§20.2).
struct Overrule {
    reason: String,
    followup: TaskId,
}

impl Overrule {
    fn ask(place: &Place, args: &Args) -> anyhow::Result<Self> {
        let reason = Question {
            what: "Reason",
            flag: "reason",
            wanted: "one line that says why",
            usual: None,
        };
        let line = |text: &str| {
            let fits = !text.trim().is_empty() && !text.contains(char::is_control);
            fits.then(|| text.trim().to_owned())
        };
        let reason = reason.ask(args.reason.clone(), line)?;
        let followup = Question {
            what: "Follow-up task",
            flag: "followup",
            wanted: "the id of a task that is there, such as T0008",
            usual: None,
        };
        let given = args.followup.as_ref().map(ToString::to_string);
        let followup = followup.ask(given, TaskId::parse)?;
        if followup == args.task {
            return Err(Refused(format!(
                "{followup} cannot put itself right; the follow-up is another task (AG-19)"
            ))
            .into());
        }
        place.find(&followup)?;
        Ok(Self { reason, followup })
    }
}

/// Whoever is named; else the owner, who may say otherwise at a terminal.
fn approver(args: &Args, owner: Option<String>) -> anyhow::Result<Option<String>> {
    if args.approver.is_some() || !is_terminal() {
        return Ok(args.approver.clone().or(owner));
    }
    let question = Question {
        what: "Approver",
        flag: "approver",
        wanted: "a name or an address",
        usual: owner.as_deref(),
    };
    let read = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    question.ask(None, read).map(Some)
}

/// The artifact as it lies there now, an override with it; where it lies; and why DONE may not follow.
fn as_written(place: &Place, ours: &Artifact) -> anyhow::Result<serde_json::Value> {
    let state = bytes(&place.root, state::PATH)?.and_then(|text| state::parse(&text).ok());
    let last = state.and_then(|state| state.last_verify);
    let last =
        last.filter(|last| (&last.task_id, &last.timestamp) == (&ours.task_id, &ours.timestamp));
    let text = match &last {
        Some(last) => bytes(&place.root, &last.artifact_path)?,
        None => None,
    };
    let written = text.and_then(|text| serde_json::from_slice(&text).ok());
    // Somebody's later verify may have taken its place already.
    let written = written.filter(|found: &Artifact| found.timestamp == ours.timestamp);
    let path = last.filter(|_| written.is_some()).map(|last| last.artifact_path);
    let artifact = written.as_ref().unwrap_or(ours);
    let mut shown = serde_json::to_value(artifact)?;
    shown["objection"] = artifact.objection().into();
    shown["path"] = path.into();
    Ok(shown)
}

/// §21.6, and the result.
fn say(args: &Args, artifact: &Artifact) {
    let check = artifact.risk_check.as_ref();
    let shown = check.filter(|check| {
        args.check_risks || !check.blocking_risks.is_empty() || !check.override_required.is_empty()
    });
    for line in shown.into_iter().flat_map(|check| &check.lines) {
        anstream::println!("{line}");
    }
    for note in artifact.notes.iter().chain(&artifact.weakened) {
        anstream::println!("note: {note}");
    }
    let blocking = check.is_some_and(|check| !check.blocking_risks.is_empty());
    let failed = artifact.commands.iter().any(|ran| ran.exit_code != 0);
    let warned = check.is_some_and(|check| !check.override_required.is_empty());
    let word = match (artifact.result, blocking && !failed) {
        (Passed::Pass, _) if warned => "WARN (an open P1 risk: DONE needs --override)",
        (Passed::Pass, _) => "PASS",
        (Passed::Fail, true) => "FAIL (blocking risk)",
        (Passed::Fail, false) => "FAIL",
    };
    anstream::println!("Result: {word}");
}
