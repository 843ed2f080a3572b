//! Room for a run: its tree first, then a place among all runs. What is granted is kept until the run ends.

use super::leases::Claim;
use super::owner_tools::Seen;
use super::record::Entry;
use super::{BackgroundEvent, Workspace, WorkspaceError};
use crate::capacity::{Alive, Asker, Permit};
use crate::model::{Keyed, Seat, TreeRef, Wake};
use crate::store::Durability;

/// A run that is alive: who runs, and the place it takes.
pub(super) struct Running {
    /// `None`: a command line of the owner's, which no limit on agents counts.
    pub(super) agent: Option<String>,
    /// It works in a worktree of ours.
    pub(super) apart: bool,
    /// Held until the run ends; dropping it lets the next one in.
    pub(super) _permit: Option<Permit>,
    pub(super) _alive: Alive,
    /// What the owner's own tools would run, as it was before an agent started in this tree (SE-13). `None`: a command line, or
    /// a run that an earlier daemon started.
    pub(super) tools: Option<(TreeRef, Seen)>,
}

/// There is room for a run that was waited for.
pub(super) struct Grant {
    pub(super) claim: Claim,
    pub(super) tree: TreeRef,
    pub(super) permit: Permit,
}

impl Workspace {
    /// Tree first, then room among all runs.
    pub(super) fn lease(&mut self, claim: Claim, tree: &TreeRef) -> Result<(), WorkspaceError> {
        if self.leases.ask(tree, claim.clone()) { self.ask_for_room(claim, tree) } else { Ok(()) }
    }

    pub(super) fn ask_for_room(
        &mut self,
        claim: Claim,
        tree: &TreeRef,
    ) -> Result<(), WorkspaceError> {
        if self.pause.is_some() {
            self.paused_claims.push((claim, tree.clone()));
            return Ok(());
        }
        let asker = self.asker(&claim.agent);
        let mut room = self.settings.capacity.ask(asker);
        let tree = tree.clone();
        match room.try_recv() {
            Ok(permit) => self.granted(Grant { claim, tree, permit }),
            Err(_) => {
                let background = self.background.0.clone();
                tokio::spawn(async move {
                    if let Ok(permit) = room.await {
                        // A workspace that is gone drops the permit with the message.
                        drop(background.send(Box::new(BackgroundEvent::Granted(Grant {
                            claim,
                            tree,
                            permit,
                        }))));
                    }
                });
                Ok(())
            }
        }
    }

    pub(super) fn granted(&mut self, grant: Grant) -> Result<(), WorkspaceError> {
        if self.draining {
            return Ok(());
        }
        if self.pause.is_some() {
            self.paused_claims.push((grant.claim, grant.tree));
            return Ok(());
        }
        let Grant { claim: Claim { protocol, key, .. }, tree, permit } = grant;
        let entry =
            Entry::Leased { protocol: protocol.clone(), tree: tree.clone(), key: key.clone() };
        self.note(&entry, Durability::Lazy)?;
        self.permits.insert((protocol.clone(), tree.clone()), permit);
        self.absorb_in(&protocol, &Wake::Done { key });
        self.absorb_in(&protocol, &Wake::Leased { tree });
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        protocol: &str,
        keyed: &Keyed,
        tree: &TreeRef,
    ) -> Result<(), WorkspaceError> {
        self.permits.remove(&(protocol.to_owned(), tree.clone()));
        self.paused_claims.retain(|(claim, at)| claim.protocol != protocol || at != tree);
        let next = self.leases.release(tree, protocol);
        self.done(protocol, keyed, Wake::Done { key: keyed.key.clone() })?;
        next.map_or(Ok(()), |claim| self.ask_for_room(claim, tree))
    }

    /// The name of the agent in a seat; a seat that nobody has counts by its own name.
    pub(super) fn agent_of(&self, seat: &Seat, role: &str) -> String {
        let found = self.runner.launcher.config.agent_for(seat, role);
        found.map_or(seat.as_str(), |(name, _)| name).to_owned()
    }

    pub(super) fn asker(&self, agent: &str) -> Asker {
        Asker { agent: agent.to_owned(), repo: self.runner.places.id.hex() }
    }
}
