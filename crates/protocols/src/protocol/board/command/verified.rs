//! `agency verify` and its override (spec 2 §11, §20): what the command line ran is kept, and who overruled it is written down.

use super::super::artifact::{self, Artifact, Override};
use super::super::memory::{AcceptedReport, Stage, Verified};
use super::super::moves::Moves;
use super::super::names::TaskId;
use super::super::risks;
use super::super::state::LastVerify;
use super::{Ask, Outcome};
use crate::model::{Builder, Bytes, Digest, Effect, RelPath, TreeId, clip};

impl Ask<'_> {
    /// A verify that the command line ran: the artifact, STATE.md, and where the owner overrides it, the record of that.
    pub(super) fn verified(&self) -> Outcome {
        let artifact = self.command.arg("artifact").unwrap_or_default();
        let mut artifact: Artifact = match serde_json::from_str(artifact) {
            Ok(artifact) => artifact,
            Err(error) => return Outcome::No(format!("the artifact cannot be read: {error}")),
        };
        if artifact.task_id != *self.id {
            return Outcome::No("the artifact is another task's".to_owned());
        }
        let mut decision = self.board.builder();
        let mut moves = Moves::new(self.board, self.now);
        let mut more = String::new();
        if self.command.arg("override").is_some() {
            match self.overrule(&mut decision, &mut moves, &mut artifact) {
                Ok(text) => more = text,
                Err(why) => return Outcome::No(why),
            }
        }
        self.keep(&mut decision, moves, &artifact);
        let mut text = format!("{}: {}", self.id, artifact.result.word());
        if let Some(objection) = artifact.objection() {
            text = format!("{text} ({objection})");
        }
        Outcome::Done(decision, text + &more)
    }

    /// Writes the artifact; an earlier one of the same day stays under a name of its own (AG-31).
    fn keep(&self, decision: &mut Builder, mut moves: Moves<'_>, artifact: &Artifact) {
        let stem = self
            .board
            .index
            .find(self.id)
            .map(|(path, _)| path.file_name().trim_end_matches(".md").to_owned());
        let path = artifact::path(
            &stem.unwrap_or_else(|| self.id.to_string()),
            self.board.zone(),
            self.now.wall,
        );
        let path = RelPath::new(path)
            .expect("BUG: a task's file name is checked before a path is made of it");
        let bytes = artifact.render();
        let digest = Digest::of(&bytes);
        let earlier = self
            .board
            .index
            .known(self.id, self.now.wall)
            .verified
            .filter(|old| old.artifact.path == path);
        let mut seen = None;
        if let Some(old) = earlier {
            let to = artifact::earlier(path.as_str(), &old.timestamp);
            if let Ok(to) = RelPath::new(to) {
                moves.also(to.clone(), old.artifact.digest.clone());
                moves.of(self.id).papers.insert(to.clone(), old.artifact.digest.clone());
                decision.effect(Effect::Copy {
                    from: path.clone(),
                    to,
                    seen: old.artifact.digest.clone(),
                });
            }
            seen = Some(old.artifact.digest);
        }
        decision.effect(Effect::Replace { path: path.clone(), bytes: Bytes(bytes), seen });
        moves.of(self.id).papers.insert(path.clone(), digest.clone());
        moves.of(self.id).verified = Some(Verified {
            artifact: AcceptedReport { path: path.clone(), digest },
            timestamp: artifact.timestamp.clone(),
            objection: artifact.objection(),
            tree: artifact.tree.clone().map(TreeId::new),
            overridden: artifact.overridden.is_some(),
        });
        moves.verified(LastVerify {
            task_id: self.id.clone(),
            timestamp: artifact.timestamp.clone(),
            result: artifact.result.word().to_owned(),
            artifact_path: path.to_string(),
        });
        moves.into(decision, None);
    }

    /// §20: a reason, a follow-up task that exists, an approver; recorded in DECISIONS.md and RISKS.md, announced.
    fn overrule(
        &self,
        decision: &mut Builder,
        moves: &mut Moves<'_>,
        artifact: &mut Artifact,
    ) -> Result<String, String> {
        if let Some(risk) = artifact.blocking_risk() {
            return Err(format!("{}: {risk}. It cannot be overridden (AG-20)", self.id));
        }
        let reason = self.reason().ok_or("an override needs --reason TEXT (AG-19)")?;
        let followup = self.command.arg("followup").and_then(TaskId::parse);
        let followup = followup.ok_or("an override needs --followup with a task id (AG-19)")?;
        if followup == *self.id || self.board.index.task(&followup).is_none() {
            return Err(format!(
                "the follow-up task {followup} does not exist; `agency task new` makes one (AG-19)"
            ));
        }
        let approver = self.command.arg("approver").filter(|who| !who.trim().is_empty());
        let approver =
            approver.ok_or("an override needs an approver: --approver, or a git e-mail (AG-19)")?;
        let decisions = self
            .board
            .index
            .text(artifact::DECISIONS)
            .unwrap_or_else(|| "# Decisions\n".to_owned());
        let failed =
            artifact.objection().or_else(|| self.asked()).unwrap_or_else(|| "pass".to_owned());
        let bypassed = artifact.bypassed();
        let by = Override {
            approved: true,
            approver: clip(approver, 200),
            reason: clip(reason, 1000),
            decision_ref: artifact::next_decision(&decisions),
            followup_task: followup.clone(),
        };
        let register = self.board.index.text(risks::PATH).unwrap_or_else(|| "# Risks\n".to_owned());
        let title = format!("{} was accepted by override {}", self.id, by.decision_ref);
        let (risk, register) = risks::append(&register, &title, &followup);
        let record = artifact::Decision {
            task: self.id,
            by: &by,
            bypassed: &bypassed,
            date: &self.board.zone().date(self.now.wall),
            failed: &failed,
            risk: &risk,
        };
        self.rewrite(decision, moves, artifact::DECISIONS, record.append_to(&decisions));
        self.rewrite(decision, moves, risks::PATH, register);
        let text = format!(
            "; overridden by {} ({}, {risk}, follow-up {followup})",
            by.approver, by.decision_ref
        );
        decision.announce("verify --override", &format!("{}{text}: {reason}", self.id));
        artifact.overridden = Some(by);
        Ok(text)
    }

    /// What the board asked the owner about this task, and what an override answers.
    fn asked(&self) -> Option<String> {
        let known = self.board.index.memory.tasks.get(self.id)?;
        let waits = known.work.as_ref().is_some_and(|work| work.stage == Stage::Owner);
        (waits && !known.reason.is_empty()).then(|| known.reason.clone())
    }

    fn rewrite(
        &self,
        decision: &mut Builder,
        moves: &mut Moves<'_>,
        path: &'static str,
        text: String,
    ) {
        let seen = self.board.index.whole(path).map(|(_, digest)| digest.clone());
        let (path, bytes) = (RelPath::fixed(path), Bytes(text.into_bytes()));
        moves.also(path.clone(), Digest::of(&bytes.0));
        decision.effect(Effect::Replace { path, bytes, seen });
    }
}
