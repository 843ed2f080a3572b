//! What each channel has been told about each cause, on disk before it counts. Only the courier writes here.
//!
//! `sent/<cause>.json` holds a [`Lane`] for each channel; `sent/digest-….json` a message about many causes at once,
//! whose members count as told from the moment that its one file is there.

use super::message::{DigestHead, Kind};
use crate::model::{Severity, Timestamp};
use crate::store::{StoreError, write_atomic};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stage {
    /// Not tried yet.
    New,
    /// An attempt is under way, or was when we died.
    Active,
    /// Tried; another attempt follows.
    Deferred,
    Delivered,
    Dead,
}

impl Stage {
    pub(super) fn is_settled(self) -> bool {
        matches!(self, Self::Delivered | Self::Dead)
    }
}

/// One message on its way to one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parcel {
    pub id: String,
    pub seq: u32,
    pub kind: Kind,
    pub stage: Stage,
    pub tries: u32,
    /// Tries that we saw fail; the others were cut short by our own end.
    pub failures: u32,
    pub made: Timestamp,
    /// No attempt before this.
    pub due: Timestamp,
    pub first_try: Option<Timestamp>,
    pub error: Option<String>,
    /// Of several recipients, those who have it.
    pub reached: Vec<String>,
}

impl Parcel {
    pub(super) fn new(id: String, told: &Told) -> Self {
        let (seq, kind, made, due) = (told.seq, told.kind, told.at, told.at);
        let (stage, tries, failures) = (Stage::New, 0, 0);
        let (first_try, error, reached) = (None, None, Vec::new());
        Self { id, seq, kind, stage, tries, failures, made, due, first_try, error, reached }
    }
}

/// That a channel was told something about a cause, alone or in a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub seq: u32,
    pub kind: Kind,
    pub at: Timestamp,
    /// Which opening of the cause this was about.
    pub opening: u32,
    pub holds: bool,
    pub severity: Severity,
}

/// One cause on one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lane {
    /// The last thing told.
    pub told: Option<Told>,
    /// The last opening whose end was told.
    pub ended: u32,
    /// Since the last opening.
    pub repeats: u32,
    /// The last message that went alone.
    pub parcel: Option<Parcel>,
    /// The digest that told it last.
    pub digest: Option<String>,
}

impl Lane {
    pub(super) fn seq(&self) -> u32 {
        self.told.as_ref().map_or(0, |told| told.seq)
    }

    pub(super) fn opening(&self) -> u32 {
        self.told.as_ref().map_or(0, |told| told.opening)
    }

    /// Takes note of what was told. What is known already changes nothing.
    pub(super) fn tell(&mut self, told: &Told) {
        if told.seq <= self.seq() {
            return;
        }
        match told.kind {
            Kind::Opened => self.repeats = 0,
            Kind::Repeated => self.repeats = self.repeats.saturating_add(1),
            Kind::Resolved => self.ended = told.opening,
            Kind::Digest => {}
        }
        self.told = Some(told.clone());
        (self.parcel, self.digest) = (None, None);
    }
}

pub(super) type Track = BTreeMap<String, Lane>;

/// One message about many causes, on its way to one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Digest {
    pub channel: String,
    pub urgent: bool,
    pub head: DigestHead,
    pub parcel: Parcel,
    /// By cause.
    pub members: BTreeMap<String, Told>,
}

/// What `agency escalations --json` says of one channel (DESIGN §10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub channel: String,
    pub state: DeliveryState,
    pub tries: u32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    Waiting,
    Delivered,
    Dead,
}

impl Delivery {
    pub fn is_waiting(&self) -> bool {
        self.state == DeliveryState::Waiting
    }

    fn of(channel: &str, parcel: &Parcel) -> Self {
        let state = match parcel.stage {
            Stage::New | Stage::Active | Stage::Deferred => DeliveryState::Waiting,
            Stage::Delivered => DeliveryState::Delivered,
            Stage::Dead => DeliveryState::Dead,
        };
        let (tries, message, error) = (parcel.tries, parcel.id.clone(), parcel.error.clone());
        Self { channel: channel.to_owned(), state, tries, message, error }
    }
}

/// Everything in one outbox's `sent/`.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracks {
    pub tracks: BTreeMap<String, Track>,
    pub digests: BTreeMap<String, Digest>,
    /// Since when each channel is there: what ended before is not its business.
    pub since: BTreeMap<String, Timestamp>,
}

const SINCE: &str = "channels.json";

impl Tracks {
    pub(super) fn load(outbox: &Path) -> Self {
        let mut all = Self::default();
        let entries = fs::read_dir(sent(outbox)).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let Some(stem) = name.strip_suffix(".json") else { continue };
            if name == SINCE {
                all.since = read(&path).unwrap_or_default();
            } else if let Some(id) = stem.strip_prefix("digest-") {
                all.digests.extend(read(&path).map(|digest| (id.to_owned(), digest)));
            } else {
                all.tracks.extend(read(&path).map(|track| (stem.to_owned(), track)));
            }
        }
        all.apply_digests();
        all
    }

    /// In the order in which they were made, so that the last word counts.
    fn apply_digests(&mut self) {
        let mut digests: Vec<(&String, &Digest)> = self.digests.iter().collect();
        digests.sort_by_key(|(id, digest)| (digest.parcel.made, id.as_str()));
        for (id, digest) in digests {
            for (cause, told) in &digest.members {
                let lane = self.tracks.entry(cause.clone()).or_default();
                let lane = lane.entry(digest.channel.clone()).or_default();
                if told.seq > lane.seq() {
                    lane.tell(told);
                    lane.digest = Some(id.clone());
                }
            }
        }
    }

    pub(super) fn save_track(&self, outbox: &Path, cause: &str) -> Result<(), StoreError> {
        let Some(track) = self.tracks.get(cause) else { return Ok(()) };
        write(&sent(outbox).join(format!("{cause}.json")), track)
    }

    pub(super) fn save_digest(&self, outbox: &Path, id: &str) -> Result<(), StoreError> {
        let Some(digest) = self.digests.get(id) else { return Ok(()) };
        write(&sent(outbox).join(format!("digest-{id}.json")), digest)
    }

    pub(super) fn save_since(&self, outbox: &Path) -> Result<(), StoreError> {
        write(&sent(outbox).join(SINCE), &self.since)
    }

    fn deliveries(&self, track: &Track) -> Vec<Delivery> {
        let digest = |lane: &Lane| Some(&self.digests.get(lane.digest.as_ref()?)?.parcel);
        let shown = |(channel, lane): (&String, &Lane)| {
            let parcel = lane.parcel.as_ref().or_else(|| digest(lane))?;
            Some(Delivery::of(channel, parcel))
        };
        track.iter().filter_map(shown).collect()
    }
}

pub(super) fn deliveries_in(outbox: &Path) -> BTreeMap<String, Vec<Delivery>> {
    let all = Tracks::load(outbox);
    all.tracks.iter().map(|(cause, track)| (cause.clone(), all.deliveries(track))).collect()
}

/// Removes what was told about causes that are no more, and digests of which nothing is left.
pub(super) fn forget(outbox: &Path, causes: &[String]) {
    for cause in causes {
        // What cannot be removed is a few bytes too many, and harmless.
        drop(fs::remove_file(sent(outbox).join(format!("{cause}.json"))));
    }
    let gone = |cause: &String| !outbox.join(format!("{cause}.json")).exists();
    for (id, digest) in Tracks::load(outbox).digests {
        if digest.parcel.stage.is_settled() && digest.members.keys().all(gone) {
            drop(fs::remove_file(sent(outbox).join(format!("digest-{id}.json"))));
        }
    }
}

pub(super) fn sent(outbox: &Path) -> PathBuf {
    outbox.join("sent")
}

fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

fn write(file: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    write_atomic(file, &serde_json::to_vec(value).expect("BUG: this is plain data"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escalate::outbox::tests::record;

    fn told(seq: u32, kind: Kind) -> Told {
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        Told { seq, kind, at, opening: 1, holds: false, severity: Severity::Warning }
    }

    // covers: ES-02
    #[test]
    fn members_of_a_digest_count_as_told_by_its_one_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(sent(dir.path())).unwrap();
        let head = DigestHead {
            id: "d1".to_owned(),
            repo: String::new(),
            severity: Severity::Warning,
            total: 2,
            first_seen: told(1, Kind::Opened).at,
            lines: vec![record("a").digest_line(Kind::Opened)],
        };
        let mut all = Tracks::default();
        let members = ["a", "b"].map(|cause| (cause.to_owned(), told(1, Kind::Opened)));
        let parcel = Parcel::new("d1".to_owned(), &told(1, Kind::Digest));
        let digest = Digest {
            channel: "x".to_owned(),
            urgent: false,
            head,
            parcel,
            members: members.into(),
        };
        all.digests.insert("d1".to_owned(), digest);
        all.save_digest(dir.path(), "d1").unwrap();

        let mut all = Tracks::load(dir.path());
        assert_eq!(all.tracks["a"]["x"].opening(), 1);
        assert_eq!(deliveries_in(dir.path())["b"][0].state, DeliveryState::Waiting);
        // What one of them is told later stays, however often the digest is read again.
        all.tracks.get_mut("a").unwrap().get_mut("x").unwrap().tell(&told(2, Kind::Resolved));
        all.save_track(dir.path(), "a").unwrap();
        let lane = &Tracks::load(dir.path()).tracks["a"]["x"];
        assert_eq!((lane.ended, &lane.digest), (1, &None));
        forget(dir.path(), &["a".to_owned()]);
        assert_eq!(Tracks::load(dir.path()).digests.len(), 1, "it is still on its way");
    }
}
