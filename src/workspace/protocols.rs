//! Which protocols are at work in this repository, and their making. The only place in the shell that names them.

use super::Workspace;
use super::slot::Slot;
use crate::capacity::micro_usd;
use crate::config::{Config, Isolation, Merge, Start};
use crate::model::{FileSeen, FileState, Interest, MergeStyle, Seat};
use crate::protocol::Protocol;
use crate::protocol::board::{self, Board};
use crate::protocol::codifica::{self, Codifica, KeeperSettings};
use crate::protocol::handoff::{self, Handoff};
use crate::protocol::ledger::{self, Ledger, words::AgentType};
use crate::protocol::review_loop::{self, Limits, RepoFacts, ReviewLoop, table::Holder};
use crate::route;
use crate::run::profile;
use std::path::Path;

/// A protocol of this name, if there is one.
pub(super) fn make(
    name: &str,
    place: &RepoFacts,
    config: &Config,
    program: &Path,
) -> Option<Box<dyn Protocol>> {
    match name {
        review_loop::NAME => Some(Box::new(ReviewLoop::new(place.clone(), loop_limits(config)))),
        handoff::NAME => {
            let place = handoff::RepoFacts { repo: place.repo.clone(), git: place.git };
            Some(Box::new(Handoff::new(place, handoff_limits(config))))
        }
        ledger::NAME => {
            let RepoFacts { repo, git } = place.clone();
            let place = ledger::RepoFacts { name: repo.clone(), repo, git };
            Some(Box::new(Ledger::new(place, ledger_limits(config))))
        }
        codifica::NAME => Some(Box::new(Codifica::new(desk(place, config, program)))),
        board::NAME => {
            let place = board::RepoFacts { repo: place.repo.clone(), git: place.git };
            Some(Box::new(Board::new(place, board_limits(config))))
        }
        _ => None,
    }
}

fn handoff_limits(config: &Config) -> handoff::Limits {
    let seats = handoff::table::Who::ALL.iter().filter_map(|who| {
        let seat = Seat::new(who.word());
        let (_, agent) = config.agent_for(&seat, who.word())?;
        Some((seat, (agent.retries, agent.backoff)))
    });
    handoff::Limits { max_iterations: config.handoff.max_iterations, tries: seats.collect() }
}

fn ledger_limits(config: &Config) -> ledger::Limits {
    let tries = AgentType::ALL.iter().filter_map(|agent| {
        let seat = Seat::new(agent.role());
        let (_, agent) = config.agent_for(&seat, agent.role())?;
        Some((seat, (agent.retries, agent.backoff)))
    });
    ledger::Limits { tries: tries.collect() }
}

fn desk(place: &RepoFacts, config: &Config, program: &Path) -> KeeperSettings {
    let names = config.agents.keys().chain(&config.codifica.agents);
    let tries = names.filter_map(|name| {
        let (_, agent) = config.agent_for(&Seat::new(name), "builder")?;
        Some((name.clone(), (agent.retries, agent.backoff)))
    });
    KeeperSettings {
        repo: place.repo.clone(),
        git: place.git,
        program: program.display().to_string(),
        tries: tries.collect(),
        agents: config.codifica.agents.clone(),
        disk_floor: config.board.disk_floor,
    }
}

fn board_limits(config: &Config) -> board::Limits {
    let agents = config.agents.keys().cloned();
    let seats = config.roles.keys().map(|seat| seat.as_str().to_owned());
    let roles = config.roles.iter().map(|(seat, agent)| (seat.as_str().to_owned(), agent.clone()));
    let tries =
        config.agents.iter().map(|(name, agent)| (name.clone(), (agent.retries, agent.backoff)));
    let makers = config.agents.iter().filter_map(|(name, agent)| {
        let profile = match &agent.start {
            Start::Profile(profile) => Some(*profile),
            Start::Command(command) => profile::by_program(command),
        };
        Some((name.clone(), profile::word(profile?).to_owned()))
    });
    let wanted = &config.board;
    let auditor = auditor(config);
    let seat = Seat::new(board::names::seat(&auditor));
    let answers = match config.agent_for(&seat, "auditor").map(|(_, agent)| &agent.start) {
        Some(Start::Profile(_)) => board::Answers::ByMessage,
        Some(Start::Command(_)) | None => board::Answers::ByFile,
    };
    board::Limits {
        agents: agents.chain(seats).collect(),
        roles: roles.collect(),
        auditor,
        audits_people: audits_people(config),
        answers,
        shared: wanted.isolation == Isolation::Shared,
        makers: makers.collect(),
        parallel: config.limits.per_repo.min(config.limits.parallel),
        setup: wanted.setup.clone(),
        copy: wanted.copy.clone(),
        disk_floor: wanted.disk_floor,
        merge: match wanted.merge {
            Merge::Squash => Some(MergeStyle::Squash),
            Merge::Merge => Some(MergeStyle::Merge),
            Merge::FastForward => Some(MergeStyle::FastForward),
            Merge::None => None,
        },
        tries: tries.collect(),
        os: std::env::consts::OS,
        ..board::Limits::default()
    }
}

/// As `board.auditor` says; else the agent of that name (AG-36); else as `roles` says.
fn auditor(config: &Config) -> String {
    let seat = Seat::new("auditor");
    let named = config.board.auditor.clone();
    let agent = || config.agent_for(&seat, "auditor").map(|(name, _)| name.to_owned());
    named.or_else(agent).unwrap_or_else(|| board::Limits::default().auditor)
}

/// AG-28: people's work is audited where the owner chose an auditor themselves.
fn audits_people(config: &Config) -> bool {
    let seat = Seat::new("auditor");
    let usual = Config::default();
    config.board.auditor.is_some()
        || config.agents.contains_key("auditor")
        || config.roles.get(&seat) != usual.roles.get(&seat)
}

fn loop_limits(config: &Config) -> Limits {
    let wanted = &config.review_loop;
    let tries = Holder::ALL.into_iter().filter_map(|holder| {
        let seat = Seat::new(holder.word());
        let (_, agent) = config.agent_for(&seat, holder.role())?;
        Some((seat, (agent.retries, agent.backoff)))
    });
    Limits {
        flag_max_age: wanted.flag_max_age,
        lock_stale: wanted.lock_stale,
        max_rejections: wanted.max_rejections,
        max_rounds: wanted.max_rounds,
        settle: wanted.settle,
        push: wanted.push,
        gates: wanted.gates.clone(),
        gate_timeout: wanted.gate_timeout,
        gate_tree: wanted.gate_tree,
        setup: wanted.setup.clone(),
        cost_per_step: wanted.cost_per_step_usd.map(micro_usd),
        tries: tries.collect(),
    }
}

impl Workspace {
    /// The files of every protocol at work, and those that would show another one.
    pub fn interest(&self) -> Interest {
        let idle = |name: &str| !self.slots.iter().any(|slot| slot.name() == name);
        let trees = route::marked_trees().into_iter().filter(|(name, _)| idle(name));
        let trees = trees.map(|(_, tree)| tree).collect();
        let mut interest = Interest { files: route::marks(), trees };
        for slot in &self.slots {
            let wanted = slot.protocol.interest();
            interest.files.retain(|file| !wanted.files.iter().any(|other| other.path == file.path));
            interest.files.extend(wanted.files);
            interest.trees.extend(wanted.trees);
        }
        interest
    }

    /// A file that shows a protocol brings it to work, from now on.
    pub(super) fn activate_for(&mut self, seen: &FileSeen) {
        let at_work = |name| self.slots.iter().any(|slot| slot.name() == name);
        if let FileState::Whole(file) = &seen.state
            && !route::marked(&seen.path).is_some_and(at_work)
            && let Some(name) = route::protocol_of(&seen.path, &file.bytes)
        {
            self.activate(name);
        }
    }

    /// What the owner names for this repository is at work whatever its files look like: one that cannot be read is told.
    pub(super) fn activate_configured(&mut self) {
        let root = &self.runner.places.root;
        let is_here = |path: &Path| path.canonicalize().is_ok_and(|path| path == *root);
        let entries = self.settings.config.repos.iter().filter(|entry| is_here(&entry.path));
        let names: Vec<_> = entries.flat_map(|entry| &entry.protocols).copied().collect();
        for name in names {
            self.activate(name.word());
        }
    }

    /// True if the protocol exists; it is at work afterwards.
    pub(super) fn activate(&mut self, name: &str) -> bool {
        if self.slots.iter().any(|slot| slot.name() == name) {
            return true;
        }
        let Some(protocol) =
            make(name, &self.place(), &self.runner.launcher.config, &self.settings.program)
        else {
            return false;
        };
        tracing::info!(protocol = name, "at work");
        // Mostly it is the only one.
        self.slots.reserve_exact(1);
        self.slots.push(Slot::new(protocol));
        self.newcomer = true;
        true
    }

    pub(super) fn place(&self) -> RepoFacts {
        RepoFacts { repo: self.repository.places().id.short(), git: self.runner.git.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Env;

    // covers: AG-10
    #[test]
    fn an_auditor_answers_as_whoever_is_started_for_it_can() {
        let answers = |more: &str| {
            let agents = "agents: { a: { profile: claude }, b: { command: [sh, x] } }\n";
            let yaml = format!("{agents}{more}");
            board_limits(&Config::parse(yaml.as_bytes(), &Env::default()).unwrap()).answers
        };
        assert_eq!(answers("board: { auditor: a }\n"), board::Answers::ByMessage);
        assert_eq!(answers("board: { auditor: b }\n"), board::Answers::ByFile);
        let role = "board: { auditor: a }\nroles: { a: b }\n";
        assert_eq!(answers(role), board::Answers::ByFile, "its seat means another");
        assert_eq!(answers(""), board::Answers::ByMessage, "gemini, where nothing is said");
    }

    // covers: AG-36, AG-28
    #[test]
    fn an_agent_with_the_name_of_a_role_is_the_one_for_it() {
        let config = |yaml: &str| Config::parse(yaml.as_bytes(), &Env::default()).unwrap();
        let own =
            config("agents: { builder: { command: [sh, b] }, auditor: { command: [sh, a] } }\n");
        let started = |config: &Config, seat: &str| {
            config.agent_for(&Seat::new(seat), seat).map(|(name, _)| name.to_owned())
        };
        assert_eq!(started(&own, "builder").as_deref(), Some("builder"));
        assert_eq!(board_limits(&own).auditor, "auditor");
        assert!(board_limits(&own).audits_people);
        let role = config("agents: { builder: { command: [sh, b] } }\nroles: { builder: codex }\n");
        assert_eq!(started(&role, "builder").as_deref(), Some("codex"), "the owner said so");
        let usual = config("");
        assert_eq!(started(&usual, "builder").as_deref(), Some("claude-code"));
        assert!(!board_limits(&usual).audits_people);
    }
}
