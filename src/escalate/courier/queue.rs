//! One outbox as the courier sees it: its records, what was told about them, what is on its way. It sends nothing.

mod leaving;
mod making;

use crate::escalate::channels::Channels;
use crate::escalate::damaged::{self, Loss};
use crate::escalate::outbox::{self, Outbox, Record};
use crate::escalate::plan::Flow;
use crate::escalate::track::{Digest, Lane, Parcel, Stage, Tracks, sent};
use crate::escalate::unwritten::{Unwritten, rebuild};
use crate::model::Timestamp;
use crate::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

pub(super) struct OutboxQueue {
    dir: PathBuf,
    /// Boxed: a tree has room for eleven in each node, and most outboxes hold one or two.
    records: BTreeMap<String, Box<(Stamp, Record)>>,
    told: Tracks,
    flows: BTreeMap<String, Flow>,
    /// Written in memory only: a disk that failed gets another chance.
    unsaved: BTreeSet<ParcelPlace>,
    /// Records that are not on disk either.
    unwritten: Unwritten,
}

/// Each write of a record makes a new file, so these tell two versions apart.
type Stamp = (u64, i64, i64, u64);

/// Where a parcel lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ParcelPlace {
    Alone { cause: String, channel: String },
    Digest { id: String },
}

impl OutboxQueue {
    pub(super) fn open(
        dir: PathBuf,
        unwritten: Unwritten,
        channels: &Channels,
        now: Timestamp,
    ) -> Self {
        if let Err(error) = crate::store::private_dir(&sent(&dir)) {
            tracing::error!(outbox = %dir.display(), error = %error, "cannot make room for deliveries");
        }
        let told = Tracks::load(&dir);
        let (records, flows, unsaved) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut queue = Self { dir, records, told, flows, unsaved, unwritten };
        queue.recall();
        queue.refresh();
        queue.meet(channels, now);
        queue
    }

    /// What was said shortly before we came counts against a flood, too.
    fn recall(&mut self) {
        for track in self.told.tracks.values() {
            for (channel, lane) in track {
                if let (Some(_), Some(told)) = (&lane.parcel, &lane.told) {
                    self.flows.entry(channel.clone()).or_default().said_alone(told.at, told.holds);
                }
            }
        }
        let mut digests: Vec<&Digest> = self.told.digests.values().collect();
        digests.sort_by_key(|digest| digest.parcel.made);
        for Digest { channel, parcel, .. } in digests {
            self.flows.entry(channel.clone()).or_default().said_digest(parcel.made);
        }
    }

    /// Its repository was opened again.
    pub(super) fn share(&mut self, unwritten: Unwritten) {
        unwritten.take_over(&self.unwritten);
        self.unwritten = unwritten;
    }

    /// All that is known here is on disk.
    pub(super) fn is_saved(&self) -> bool {
        self.unsaved.is_empty()
    }

    /// Notes since when each channel is there; what was on its way to one that is gone will not arrive.
    pub(super) fn meet(&mut self, channels: &Channels, now: Timestamp) {
        let names: BTreeSet<&str> = channels.names().into_iter().collect();
        let known = self.told.since.len();
        for name in &names {
            self.told.since.entry((*name).to_owned()).or_insert(now);
        }
        if self.told.since.len() != known {
            self.saved(self.told.save_since(&self.dir));
        }
        let lost: Vec<ParcelPlace> = self
            .places()
            .filter(|(channel, _)| !names.contains(channel))
            .map(|(_, place)| place)
            .collect();
        for place in lost {
            self.settle(&place, |parcel| {
                parcel.stage = Stage::Dead;
                parcel.error = Some("the channel is no longer configured".to_owned());
            });
        }
    }

    /// All that is on its way: the channel, and where it lies.
    fn places(&self) -> impl Iterator<Item = (&str, ParcelPlace)> {
        let open = |parcel: &Parcel| !parcel.stage.is_settled();
        let alone = self.told.tracks.iter().flat_map(|(cause, track)| {
            track.iter().map(move |(channel, lane)| (cause, channel, lane))
        });
        let alone = alone.filter(move |(_, _, lane)| lane.parcel.as_ref().is_some_and(open));
        let alone = alone.map(|(cause, channel, _)| {
            let place = ParcelPlace::Alone { cause: cause.clone(), channel: channel.clone() };
            (channel.as_str(), place)
        });
        let digests = self.told.digests.iter().filter(move |(_, digest)| open(&digest.parcel));
        alone.chain(
            digests.map(|(id, digest)| {
                (digest.channel.as_str(), ParcelPlace::Digest { id: id.clone() })
            }),
        )
    }

    /// Reads what has changed since the last time.
    pub(super) fn refresh(&mut self) {
        let losses = self.take_in();
        let repo =
            self.records.values().next().map_or(self.dir.clone(), |known| known.1.repo.clone());
        let outbox = Outbox::of_courier(&self.dir, &repo, self.unwritten.clone());
        let at = crate::clock::wall();
        for (file, loss) in &losses {
            match loss {
                Loss::Unreadable => outbox.mend_file(file, at),
                Loss::PutBack => outbox.tell_loss(file, *loss, at),
            }
        }
        if !losses.is_empty() {
            self.take_in();
        }
    }

    /// Gives the files that are lost or cannot be read.
    fn take_in(&mut self) -> Vec<(PathBuf, Loss)> {
        let mut losses = Vec::new();
        self.unwritten.flush(&self.dir);
        if !self.unsaved.is_empty() {
            rebuild(&self.dir);
        }
        for place in std::mem::take(&mut self.unsaved) {
            self.save(&place);
        }
        let unwritten = self.unwritten.all();
        for record in unwritten.iter().cloned() {
            self.records.insert(record.id.clone(), Box::new((Stamp::default(), record)));
        }
        let Ok(entries) = fs::read_dir(&self.dir) else { return losses };
        let mut gone: BTreeSet<String> = self.records.keys().cloned().collect();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else {
                continue;
            };
            gone.remove(id);
            let Some(stamp) = entry.metadata().ok().map(stamp) else { continue };
            if self.records.get(id).is_some_and(|known| known.0 == stamp) {
                continue;
            }
            match outbox::read(&entry.path()) {
                Some(record) => {
                    self.records.insert(id.to_owned(), Box::new((stamp, record)));
                }
                // What it said is known here: with the file gone, the next look puts it back.
                None if damaged::is_damaged(&entry.path()) => {
                    losses.push((entry.path(), Loss::Unreadable));
                }
                None => {}
            }
        }
        for id in gone {
            if unwritten.iter().any(|record| record.id == id) {
                continue;
            }
            if let Some(lost) = self.records.get(&id).filter(|known| known.1.is_open()) {
                // Only what is over is ever cleared away: somebody else removed this one.
                tracing::error!(outbox = %self.dir.display(), id, "a message was lost from the outbox; it is put back");
                self.unwritten.keep(&lost.1.put_back());
                losses.push((self.dir.join(format!("{id}.json")), Loss::PutBack));
                continue;
            }
            self.records.remove(&id);
            self.told.tracks.remove(&id);
        }
        losses
    }

    fn lane(&self, cause: &str, channel: &str) -> Option<&Lane> {
        self.told.tracks.get(cause)?.get(channel)
    }

    fn settle(&mut self, place: &ParcelPlace, change: impl FnOnce(&mut Parcel)) {
        if let Some(parcel) = self.parcel(place) {
            change(parcel);
            self.save(place);
        }
    }

    fn parcel(&mut self, place: &ParcelPlace) -> Option<&mut Parcel> {
        match place {
            ParcelPlace::Alone { cause, channel } => {
                self.told.tracks.get_mut(cause)?.get_mut(channel)?.parcel.as_mut()
            }
            ParcelPlace::Digest { id } => Some(&mut self.told.digests.get_mut(id)?.parcel),
        }
    }

    fn save(&mut self, place: &ParcelPlace) {
        if self.write(place).inspect_err(|error| self.failed(error)).is_err() {
            self.unsaved.insert(place.clone());
        }
    }

    fn write(&self, place: &ParcelPlace) -> Result<(), StoreError> {
        match place {
            ParcelPlace::Alone { cause, .. } => self.told.save_track(&self.dir, cause),
            ParcelPlace::Digest { id } => self.told.save_digest(&self.dir, id),
        }
    }

    fn saved(&self, result: Result<(), StoreError>) {
        drop(result.inspect_err(|error| self.failed(error)));
    }

    fn failed(&self, error: &StoreError) {
        tracing::error!(outbox = %self.dir.display(), error = %error, "cannot write down a delivery");
    }
}

fn stamp(meta: fs::Metadata) -> Stamp {
    (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len())
}
