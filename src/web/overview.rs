//! What `agency status` says, as the pages take it. Nothing is read here that the command line does not read.

use super::places;
use crate::cli::context::Context;
use crate::cli::status::{self, Memory, Repo};
use crate::escalate::{DeliveryState, Record, State, in_repo};
use crate::model;
use crate::verbs::{is_question, repo_name};
use crate::workspace::{self, Pause, ProtocolStatus};
use agency_dashboard::view::{Cause, Kind, Overview, ProtocolCard, RepoCard, Severity};

pub(super) fn read(context: &Context, memory: &mut Memory) -> Overview {
    let status = match status::gather(context, memory) {
        Ok(status) => status,
        Err(error) => {
            return Overview { problem: Some(format!("{error:#}")), ..Overview::default() };
        }
    };
    let known = places::known(context);
    let overview = Overview {
        daemon: status.daemon.line(),
        isolation: status.kept_in.sentence(),
        problem: status.problem.clone(),
        unreachable: status.channels.is_empty(),
        repos: status
            .repos
            .iter()
            .map(|repo| card(places::key(&known, &repo.path), repo))
            .collect(),
    };
    status.keep();
    overview
}

fn card(key: String, repo: &Repo) -> RepoCard {
    RepoCard {
        key,
        name: repo_name(&repo.path),
        path: repo.path.display().to_string(),
        attended: repo.attended,
        closed: repo.closed.clone(),
        frozen: repo.frozen,
        held: repo.held,
        paused: repo.paused.as_ref().map(Pause::words),
        notes: repo.notes.clone(),
        protocols: repo.protocols.iter().map(protocol).collect(),
        causes: repo.escalations.iter().map(cause).collect(),
        cost_today: repo.cost_today_usd,
    }
}

fn protocol(status: &ProtocolStatus) -> ProtocolCard {
    let condition = &status.condition;
    ProtocolCard {
        name: status.name.clone(),
        kind: kind(condition.kind),
        reason: condition.reason.clone(),
        until: condition.until,
        run: condition.run.clone(),
        agent: condition.agent.clone(),
        task: condition.task.clone(),
        since: condition.since,
        last_output: condition.last_output,
        trouble: condition.trouble.clone(),
        resolve: condition.resolve.clone(),
        summary: status.summary.clone(),
    }
}

fn kind(kind: workspace::Kind) -> Kind {
    match kind {
        workspace::Kind::Working => Kind::Working,
        workspace::Kind::Waiting => Kind::Waiting,
        workspace::Kind::Held => Kind::Held,
        workspace::Kind::Frozen => Kind::Frozen,
        workspace::Kind::Idle => Kind::Idle,
        workspace::Kind::Done => Kind::Done,
    }
}

pub(super) fn severity(severity: model::Severity) -> Severity {
    match severity {
        model::Severity::Notice => Severity::Notice,
        model::Severity::Warning => Severity::Warning,
        model::Severity::Critical => Severity::Critical,
    }
}

fn cause(record: &Record) -> Cause {
    let dead = record.deliveries.iter().filter(|one| one.state == DeliveryState::Dead);
    Cause {
        id: record.id.clone(),
        rule: record.rule.clone(),
        severity: severity(record.severity),
        protocol: record.protocol.clone(),
        summary: record.summary.clone(),
        holds: record.holds,
        acked: record.state == State::Acked,
        count: record.count,
        first_seen: record.first_seen,
        what: record.what.clone(),
        did: record.did.clone(),
        wont: record.wont.clone(),
        resolve: in_repo(&record.resolve, &record.repo),
        options: record.options.clone(),
        question: is_question(record),
        evidence: record.evidence.clone(),
        undelivered: dead.map(|one| one.channel.clone()).collect(),
    }
}
