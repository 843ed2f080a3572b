//! Which parcel of an outbox leaves next, and what is written down before and after. It sends nothing.

use super::{OutboxQueue, ParcelPlace};
use crate::config::Quiet;
use crate::escalate::channels::Channels;
use crate::escalate::message::Message;
use crate::escalate::outbox;
use crate::escalate::pace::Outcome;
use crate::escalate::send::Outgoing;
use crate::escalate::track::{Digest, Parcel, Stage};
use crate::model::{Severity, Timestamp};
use std::time::Duration;

/// A parcel that may leave at some time; the most urgent one sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::escalate::courier) struct Ready {
    later: bool,
    pub(in crate::escalate::courier) at: Timestamp,
    not_holding: bool,
    severity: std::cmp::Reverse<Severity>,
    made: Timestamp,
    pub(in crate::escalate::courier) place: ParcelPlace,
}

impl OutboxQueue {
    /// The parcel of a channel that should leave first.
    pub(in crate::escalate::courier) fn next(
        &self,
        channel: &str,
        quiet: Option<Quiet>,
        backoff: Duration,
        now: Timestamp,
    ) -> Option<Ready> {
        let mine = self.places().filter(|(of, _)| *of == channel);
        mine.filter_map(|(_, place)| self.ready(place, quiet, backoff, now)).min()
    }

    fn ready(
        &self,
        place: ParcelPlace,
        quiet: Option<Quiet>,
        backoff: Duration,
        now: Timestamp,
    ) -> Option<Ready> {
        let (parcel, urgent, holds, severity) = match &place {
            ParcelPlace::Alone { cause, channel } => {
                let parcel = self.lane(cause, channel)?.parcel.as_ref()?;
                let record = &self.records.get(cause)?.1;
                (parcel, record.is_urgent(parcel.kind), record.holds, record.severity)
            }
            ParcelPlace::Digest { id } => {
                let Digest { parcel, head, urgent, .. } = self.told.digests.get(id)?;
                (parcel, *urgent, false, head.severity)
            }
        };
        let at = if parcel.is_due(backoff, now) { now } else { parcel.due };
        let at = quiet.filter(|_| !urgent).and_then(|quiet| quiet.until(at)).unwrap_or(at);
        let (severity, made) = (std::cmp::Reverse(severity), parcel.made);
        Some(Ready { later: at > now, at, not_holding: !holds, severity, made, place })
    }

    /// Writes down that an attempt begins. A disk that refuses this keeps no message back: the worst that can follow is that a
    /// restart sends it again under the same id.
    pub(in crate::escalate::courier) fn start(
        &mut self,
        place: &ParcelPlace,
        channels: &Channels,
        now: Timestamp,
    ) -> Outgoing {
        self.look_again(place);
        self.settle(place, |parcel| parcel.start(now));
        self.outgoing(place, channels, now).expect("BUG: only what is ready is started")
    }

    /// What is said is what holds now, and not at the last look around.
    fn look_again(&mut self, place: &ParcelPlace) {
        if let ParcelPlace::Alone { cause, .. } = place
            && let Some(known) = self.records.get_mut(cause).map(|known| &mut known.1)
            && let Some(record) = outbox::read(&self.dir.join(format!("{cause}.json")))
        {
            *known = record;
        }
    }

    fn outgoing(
        &self,
        place: &ParcelPlace,
        channels: &Channels,
        now: Timestamp,
    ) -> Option<Outgoing> {
        let (message, parcel) = match place {
            ParcelPlace::Alone { cause, channel } => {
                let record = &self.records.get(cause)?.1;
                let parcel = self.lane(cause, channel)?.parcel.as_ref()?;
                (Message::of(record, parcel.kind, parcel.seq, &channels.redactor), parcel)
            }
            ParcelPlace::Digest { id } => {
                let digest = self.told.digests.get(id)?;
                (Message::digest(&digest.head, &channels.redactor), &digest.parcel)
            }
        };
        Some(Outgoing { message, made: parcel.made, now, reached: parcel.reached.clone() })
    }

    pub(in crate::escalate::courier) fn finish(
        &mut self,
        place: &ParcelPlace,
        outcome: Outcome,
        channels: &Channels,
        now: Timestamp,
    ) {
        let clean = |parcel: &mut Parcel| {
            parcel.finish(outcome, channels.pace, now);
            parcel.error = parcel.error.take().map(|error| channels.redactor.clean(&error));
            if parcel.stage == Stage::Dead {
                tracing::warn!(
                    message = parcel.id,
                    error = parcel.error,
                    "a message cannot be delivered"
                );
            }
        };
        self.settle(place, clean);
    }
}
