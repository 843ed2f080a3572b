//! One root: takes what it was told, lists what it must, reads what is due, and says what is news.
//! It blocks on the disk and never waits for time: the task in `watch.rs` does that.

use super::barrier::Barrier;
use super::extra::{Extra, folder_id};
use super::folders::Folders;
use super::glance::glance;
use super::hub::Hub;
use super::inbox::{Dirty, Inbox};
use super::known::{Known, age};
use super::pace::{first_pause, on_the_beat, pause};
use super::pending::{Hint, Looks, Pending, Step, Verdict};
use super::plan::{Plan, is_within};
use super::proof::Proof;
use super::queue::Queue;
use super::scan::{Names, Scan, Trust};
use super::{Mode, Sighting, WatchOptions};
use crate::clock;
use crate::model::{FileState, Now, RelPath, Ticks};
use crate::read::{self, Reading, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What one step reads at most, so that little is held while the receiver is slow.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

pub(super) struct Look {
    root: PathBuf,
    plan: Arc<Plan>,
    options: WatchOptions,
    inbox: Arc<Inbox>,
    folders: Folders,
    extra: Extra,
    proof: Proof,
    names: Names,
    known: Known,
    queue: Queue,
    barrier: Barrier,
    polling: bool,
    gone: bool,
    said: BTreeSet<&'static str>,
    next_scan: Ticks,
    first: bool,
}

impl Look {
    pub(super) fn new(
        root: PathBuf,
        extra: Vec<PathBuf>,
        options: WatchOptions,
        hub: Option<Arc<Hub>>,
        plan: Arc<Plan>,
        inbox: Arc<Inbox>,
    ) -> Self {
        Self {
            root,
            plan,
            polling: options.mode == Mode::Polling,
            options,
            folders: Folders::new(hub, Arc::clone(&inbox)),
            inbox,
            extra: Extra::new(extra),
            proof: Proof::default(),
            names: Names::default(),
            known: Known::default(),
            queue: Queue::default(),
            barrier: Barrier::default(),
            gone: false,
            said: BTreeSet::new(),
            next_scan: Ticks(0),
            first: true,
        }
    }

    /// When to step although nothing was told.
    pub(super) fn next_due(&self) -> Ticks {
        [self.queue.next_due(), self.barrier.until(), self.extra.due(), self.proof.until()]
            .into_iter()
            .flatten()
            .fold(self.next_scan, Ticks::min)
    }

    /// Is this the moment of a rescan that nobody waits for?
    pub(super) fn is_rescan(&self, due: Ticks) -> bool {
        !self.polling && !self.gone && due == self.next_scan
    }

    pub(super) fn step(&mut self) -> Vec<Sighting> {
        let now = clock::now();
        let mut dirty = self.inbox.take();
        let mut out = Vec::new();
        self.hear(&mut dirty, now.ticks, &mut out);
        if dirty.rescan || self.next_scan <= now.ticks {
            let trust = if dirty.rescan { Trust::Nothing } else { self.trust() };
            self.rescan(dirty.rewatch, trust, now, &mut out);
        }
        if !self.gone {
            self.look_in(&dirty.folders, now);
            self.take_hints(dirty.files, now.ticks);
        }
        self.read_due(now, &mut out);
        if self.extra.take_due(now.ticks) {
            out.push(Sighting::Checkout);
        }
        if self.barrier.take_done(now.ticks) {
            out.push(Sighting::Rescanned);
        }
        out
    }

    fn hear(&mut self, dirty: &mut Dirty, now: Ticks, out: &mut Vec<Sighting>) {
        for path in &dirty.forgotten {
            self.known.forget(path);
        }
        if dirty.checkout {
            self.extra.heard(now, self.options.settle);
        }
        if dirty.canary {
            self.proof.heard();
        }
        if self.proof.is_overdue(now) {
            self.poll("events", "file events do not arrive here", now, out);
        }
        if let Some(reason) = dirty.lost.take() {
            self.say("lost", format!("{reason}; everything was looked at again"), out);
        }
        if let Some(reason) = dirty.ended.take() {
            self.poll("ended", &reason, now, out);
        }
    }

    /// A root that went away tells nothing about its files: they are not absent, they are out of sight.
    fn rescan(&mut self, rewatch: bool, trust: Trust, now: Now, out: &mut Vec<Sighting>) {
        if !self.root.is_dir() {
            self.gone = true;
            self.next_scan = now.ticks.after(self.options.poll);
            let text = format!("the folder `{}` is gone; waiting for it", self.root.display());
            return self.say("gone", text, out);
        }
        let rewatch = rewatch || self.first || self.gone;
        if self.gone {
            self.gone = false;
            self.said.remove("gone");
        }
        if self.first {
            self.resolve();
        }
        let started = Instant::now();
        self.watch_extra(rewatch);
        self.extra.compare(now.ticks, self.options.settle);
        if self.look_below("", rewatch, trust, now) {
            self.say("cut", "there are too many files; the rest is not looked at".to_owned(), out);
        }
        self.barrier.raise(self.queue.paths(), now.ticks, &self.options.times());
        self.say_trouble(now.ticks, out);
        let pause = pause(&self.options, self.polling, started.elapsed());
        let pause = if self.first { first_pause(pause, &self.root) } else { pause };
        self.next_scan = on_the_beat(now.ticks, pause);
        self.first = false;
    }

    fn trust(&self) -> Trust {
        if self.polling { Trust::Nothing } else { Trust::Stamps }
    }

    /// Events name folders by their real path, and one folder must not be watched under two.
    fn resolve(&mut self) {
        for path in std::iter::once(&mut self.root).chain(&mut self.extra.folders) {
            if let Ok(real) = path.canonicalize() {
                *path = real;
            }
        }
    }

    fn watch_extra(&mut self, rewatch: bool) {
        for (number, path) in self.extra.folders.iter().enumerate() {
            if let Some(id) = folder_id(path) {
                self.folders.enter_extra(number, path, id, rewatch);
            }
        }
        if self.first && !self.polling && self.folders.is_watching() {
            let until = clock::now().ticks.after(self.options.unfinished);
            self.proof = Proof::begin(self.extra.folders.first(), until);
        }
    }

    fn look_in(&mut self, folders: &BTreeSet<String>, now: Now) {
        let mut done: Vec<&str> = Vec::new();
        for folder in folders {
            if folder.is_empty() {
                self.next_scan = now.ticks;
            }
            if !done.iter().any(|top| is_within(folder, top)) {
                self.look_below(folder, true, Trust::Nothing, now);
                done.push(folder);
            }
        }
    }

    /// Says whether there was more than we look at.
    fn look_below(&mut self, from: &str, rewatch: bool, trust: Trust, now: Now) -> bool {
        let (folders, root) = (&mut self.folders, &self.root);
        let scan = Scan { root, plan: &self.plan, trust, now: now.wall };
        let listing = scan.list(from, &mut self.names, &mut |folder, id| {
            folders.enter(root, folder, id, rewatch);
        });
        if from.is_empty() && listing.folders.is_empty() {
            self.next_scan = now.ticks; // The root went away; a rescan says so.
            return false;
        }
        self.folders.keep_only(from, &listing.folders);
        if from.is_empty() {
            self.names.keep_only(&listing.folders);
        }
        let named = self.plan.named_files().filter(|path| is_within(path.as_str(), from)).cloned();
        let mut missing: Vec<RelPath> = named.chain(self.known.below(from)).collect();
        missing.retain(|path| !listing.files.contains_key(path));
        for path in missing {
            self.consider(path, None, now);
        }
        for (path, stamp) in listing.files {
            self.consider(path, Some(stamp), now);
        }
        listing.cut
    }

    /// What never was there needs no time to settle; what went away may be on its way back.
    fn consider(&mut self, path: RelPath, stamp: Option<Stamp>, now: Now) {
        if self.queue.contains(&path) || !self.known.is_news(&path, stamp) {
            return;
        }
        let age = match stamp {
            Some(stamp) => age(stamp, now.wall).to_std().unwrap_or_default(),
            None if self.known.has(&path) => Duration::ZERO,
            None => self.options.unfinished,
        };
        let pending = Pending::found(stamp, age, now.ticks, &self.options.times());
        self.queue.put(path, pending);
    }

    fn take_hints(&mut self, files: BTreeMap<RelPath, Hint>, now: Ticks) {
        let times = self.options.times();
        for (path, hint) in files {
            let stamp = read::stamp(&self.root, &path).unwrap_or(None);
            let pending = match self.queue.take(&path) {
                Some(mut pending) => {
                    pending.hear(hint, stamp, now, &times);
                    pending
                }
                None => Pending::hinted(hint, stamp, now, &times),
            };
            self.queue.put(path, pending);
        }
    }

    fn read_due(&mut self, now: Now, out: &mut Vec<Sighting>) {
        let (mut files, mut bytes) = (0, 0);
        while files < BATCH_FILES && bytes < BATCH_BYTES {
            let Some((path, pending)) = self.queue.take_due(now.ticks) else { return };
            files += 1;
            let Some(reading) = self.look_at(&path, pending, now) else { continue };
            if let FileState::Whole(file) = &reading.state {
                bytes += file.bytes.len();
            }
            self.barrier.pass(&path);
            let named = self.plan.is_named(&path);
            out.extend(self.known.deliver(path, reading, named, now.wall).map(Sighting::File));
        }
    }

    /// `None` when it must wait.
    fn look_at(&mut self, path: &RelPath, mut pending: Pending, now: Now) -> Option<Reading> {
        let wanted = self.plan.wanted(path)?;
        let times = self.options.times();
        let stamp = read::stamp(&self.root, path).unwrap_or(None);
        if pending.tick(stamp, now.ticks, &times) == Step::Wait {
            self.queue.put(path.clone(), pending);
            return None;
        }
        let Some((looks, reading)) = glance(&self.root, path, wanted, now) else {
            self.next_scan = now.ticks; // A rescan says that the root went away.
            self.barrier.pass(path);
            return None;
        };
        let stamp = reading.stamp.or(stamp);
        match pending.judge(looks, stamp, now.ticks, &times) {
            Verdict::Deliver if looks == Looks::Linked => {
                let state = read::second_name(wanted.limit);
                Some(Reading { state, ..reading })
            }
            Verdict::Deliver => Some(reading),
            Verdict::Wait => {
                self.queue.put(path.clone(), pending);
                None
            }
        }
    }

    fn say_trouble(&mut self, now: Ticks, out: &mut Vec<Sighting>) {
        if let Some(error) = self.folders.trouble() {
            let text = match std::error::Error::source(error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            };
            self.poll("watch", &text, now, out);
        }
    }

    /// From now on the root is looked at by the clock.
    fn poll(&mut self, cause: &'static str, reason: &str, now: Ticks, out: &mut Vec<Sighting>) {
        self.polling = true;
        self.next_scan = self.next_scan.min(now.after(self.options.poll));
        self.say(cause, format!("{reason}; looking every {:?} instead", self.options.poll), out);
    }

    fn say(&mut self, cause: &'static str, text: String, out: &mut Vec<Sighting>) {
        if self.said.insert(cause) {
            tracing::warn!(root = %self.root.display(), reason = text, "watching is degraded");
            out.push(Sighting::Degraded(text));
        }
    }
}
