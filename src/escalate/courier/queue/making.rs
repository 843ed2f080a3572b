//! Makes parcels of what is due in one outbox, alone or as a digest. When each is due is decided in `plan`.

use super::{OutboxQueue, ParcelPlace};
use crate::config::Quiet;
use crate::escalate::channels::Channels;
use crate::escalate::message::{DigestHead, EVIDENCE_MAX, Kind, message_id};
use crate::escalate::outbox::State;
use crate::escalate::plan::{Due, Rules, next, told};
use crate::escalate::track::{Digest, Lane, Parcel, Told};
use crate::model::{Digest as Hash, Severity, Timestamp};
use std::collections::BTreeMap;

impl OutboxQueue {
    /// Makes parcels of what is due. Gives the time at which more will be.
    pub(in crate::escalate::courier) fn plan(
        &mut self,
        channels: &Channels,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut wakes = Vec::new();
        for channel in &channels.list {
            let (due, wake) = self.due(&channel.name, channel.quiet, channels, now);
            wakes.extend(wake);
            if due.is_empty() && !self.flows.contains_key(&channel.name) {
                continue;
            }
            let flow = self.flows.entry(channel.name.clone()).or_default();
            let split = flow.split(due, channels.flood, now);
            wakes.extend(split.wake);
            for due in split.alone {
                self.make(&channel.name, &due, now);
            }
            if !split.digest.is_empty() {
                self.make_digest(&channel.name, &split.digest, now);
            }
        }
        wakes.into_iter().min()
    }

    fn due(
        &self,
        channel: &str,
        quiet: Option<Quiet>,
        channels: &Channels,
        now: Timestamp,
    ) -> (Vec<Due>, Option<Timestamp>) {
        let since = self.told.since.get(channel).copied().unwrap_or(now);
        let (mut all, mut wake, fresh) = (Vec::new(), None::<Timestamp>, Lane::default());
        for (cause, record) in self.records.iter().map(|(cause, known)| (cause, &known.1)) {
            let routed = record.everywhere || channels.is_routed(record.severity, channel);
            let rules = Rules { repeat: channels.repeat, quiet, since, routed };
            let lane = self.lane(cause, channel).unwrap_or(&fresh);
            match next(record, lane, &rules, now) {
                Some((kind, at)) if at <= now && !self.in_open_digest(lane) => {
                    let (cause, first_seen) = (cause.clone(), record.first_seen);
                    let holds = record.holds && record.state != State::Resolved;
                    all.push(Due { cause, kind, holds, severity: record.severity, first_seen });
                }
                Some((_, at)) if at > now => wake = Some(wake.map_or(at, |wake| wake.min(at))),
                Some(_) | None => {}
            }
        }
        (all, wake)
    }

    /// What a digest opens is not ended before the digest has arrived.
    fn in_open_digest(&self, lane: &Lane) -> bool {
        let digest = lane.digest.as_ref().and_then(|id| self.told.digests.get(id));
        digest.is_some_and(|digest| !digest.parcel.stage.is_settled())
    }

    fn make(&mut self, channel: &str, due: &Due, now: Timestamp) {
        let Some(record) = self.records.get(&due.cause).map(|known| &known.1) else { return };
        let lane = self.told.tracks.entry(due.cause.clone()).or_default();
        let lane = lane.entry(channel.to_owned()).or_default();
        let told = told(record, lane, due.kind, now);
        lane.tell(&told);
        let id = message_id(&due.cause, told.seq, told.kind);
        lane.parcel = Some(Parcel::new(id, &told));
        self.save(&ParcelPlace::Alone { cause: due.cause.clone(), channel: channel.to_owned() });
    }

    /// Its members count as told from now on, also while the disk refuses its file.
    fn make_digest(&mut self, channel: &str, due: &[Due], now: Timestamp) {
        let (mut members, mut lines, fresh) = (BTreeMap::new(), Vec::new(), Lane::default());
        let mut repo = String::new();
        for due in due {
            let Some(record) = self.records.get(&due.cause).map(|known| &known.1) else { continue };
            let lane = self.lane(&due.cause, channel).unwrap_or(&fresh);
            members.insert(due.cause.clone(), told(record, lane, due.kind, now));
            if lines.len() < EVIDENCE_MAX {
                lines.push(record.digest_line(due.kind));
            }
            repo = record.repo.to_string_lossy().into_owned();
        }
        let id = digest_id(channel, &members);
        let severity = due.iter().map(|due| due.severity).max().unwrap_or(Severity::Notice);
        let first_seen = due.iter().map(|due| due.first_seen).min().unwrap_or(now);
        let head =
            DigestHead { id: id.clone(), repo, severity, total: members.len(), first_seen, lines };
        let told = Told { seq: 1, kind: Kind::Digest, at: now, opening: 1, holds: false, severity };
        let parcel = Parcel::new(id.clone(), &told);
        let urgent = due.iter().any(is_urgent);
        let digest = Digest { channel: channel.to_owned(), urgent, head, parcel, members };
        let members = digest.members.clone();
        self.told.digests.insert(id.clone(), digest);
        self.save(&ParcelPlace::Digest { id: id.clone() });
        for (cause, told) in members {
            let lane = self.told.tracks.entry(cause).or_default();
            let lane = lane.entry(channel.to_owned()).or_default();
            lane.tell(&told);
            lane.digest = Some(id.clone());
        }
    }
}

/// One such cause is enough for the whole digest to break quiet hours.
fn is_urgent(due: &Due) -> bool {
    due.holds || (due.severity == Severity::Critical && due.kind != Kind::Resolved)
}

/// The same causes at the same point of their lives give the same digest.
fn digest_id(channel: &str, members: &BTreeMap<String, Told>) -> String {
    let mut text = channel.to_owned();
    for (cause, told) in members {
        text.push_str(&format!("\n{cause} {}", told.seq));
    }
    format!("msg_{}_digest", Hash::of(text.as_bytes()).short())
}
