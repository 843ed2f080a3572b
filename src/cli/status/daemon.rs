//! Whether a daemon runs: the first thing that every view says (DM-20).

use crate::daemon::{Frozen, Life, SeenDaemon, daemons};
use crate::escalate::{Outbox, Record};
use crate::model::Timestamp;
use crate::repository::StateDir;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
pub(crate) struct DaemonView {
    pub(super) running: bool,
    pid: Option<u32>,
    /// Since when it runs; of one that does not, since when it does not.
    since: Option<Timestamp>,
    #[serde(skip)]
    others: Vec<(Option<u32>, Option<Timestamp>)>,
    /// Folders of the daemons whose word counts: those that run; without one, the last that ran.
    #[serde(skip)]
    folders: Vec<PathBuf>,
}

impl DaemonView {
    pub(super) fn look(state_dir: &StateDir) -> Self {
        Self::of(daemons(state_dir))
    }

    fn of(seen: Vec<SeenDaemon>) -> Self {
        let mut running = Vec::new();
        let mut stopped: Option<(Timestamp, PathBuf)> = None;
        for SeenDaemon { folder, life } in seen {
            match life {
                Life::Running { pid, since } => running.push((pid, since, folder)),
                Life::Stopped { at } if stopped.as_ref().is_none_or(|(last, _)| *last < at) => {
                    stopped = Some((at, folder));
                }
                Life::Stopped { .. } => {}
            }
        }
        let mut view = Self {
            running: false,
            pid: None,
            since: None,
            others: Vec::new(),
            folders: Vec::new(),
        };
        if running.is_empty() {
            view.since = stopped.as_ref().map(|(at, _)| *at);
            view.folders.extend(stopped.map(|(_, folder)| folder));
            return view;
        }
        view.running = true;
        let mut pids = Vec::new();
        for (pid, since, folder) in running {
            pids.push((pid, since));
            view.folders.push(folder);
        }
        (view.pid, view.since) = pids.remove(0);
        view.others = pids;
        view
    }

    /// Does this process run as a daemon? One that has not written its number yet may be it.
    pub(super) fn has(&self, pid: u32) -> bool {
        let all = self.others.iter().map(|(pid, _)| *pid).chain([self.pid]);
        self.running && all.into_iter().any(|one| one.is_none_or(|one| one == pid))
    }

    pub(crate) fn line(&self) -> String {
        let time = |at: Timestamp| at.format("%Y-%m-%d %H:%M:%SZ").to_string();
        if !self.running {
            return match self.since {
                Some(at) => format!("daemon: NOT RUNNING since {}; start it: agency run", time(at)),
                None => "daemon: NOT RUNNING; start it: agency run".to_owned(),
            };
        }
        let one = |(pid, since): (Option<u32>, Option<Timestamp>)| match (pid, since) {
            (Some(pid), Some(since)) => format!("pid {pid}, since {}", time(since)),
            _ => "starting".to_owned(),
        };
        let all = [(self.pid, self.since)].into_iter().chain(self.others.iter().copied());
        format!("daemon: running ({})", all.map(one).collect::<Vec<_>>().join("; "))
    }

    pub(crate) fn frozen(&self) -> Vec<Frozen> {
        self.folders.iter().flat_map(|folder| Frozen::list(folder)).collect()
    }

    /// What the daemons themselves have to tell of a repository.
    pub(super) fn escalations(&self) -> Vec<Record> {
        let all = self.folders.iter().flat_map(|folder| Outbox::list(&folder.join("outbox")));
        all.filter(Record::is_for_owner).collect()
    }
}

/// The outboxes of all daemons that ever ran here.
pub(in crate::cli) fn outboxes(state_dir: &StateDir) -> Vec<PathBuf> {
    let outbox = |folder: &Path| folder.join("outbox");
    daemons(state_dir).iter().map(|seen| outbox(&seen.folder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, life: Life) -> SeenDaemon {
        SeenDaemon { folder: PathBuf::from(name), life }
    }

    // covers: DM-20
    #[test]
    fn every_view_begins_with_the_daemon() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let never = DaemonView::of(Vec::new());
        assert_eq!(never.line(), "daemon: NOT RUNNING; start it: agency run");
        let stopped = |name, text| seen(name, Life::Stopped { at: at(text) });
        let early = stopped("a", "2026-01-01T01:00:00Z");
        let late = stopped("b", "2026-01-01T02:00:00Z");
        let gone = DaemonView::of(vec![early.clone(), late]);
        assert_eq!(
            gone.line(),
            "daemon: NOT RUNNING since 2026-01-01 02:00:00Z; start it: agency run"
        );
        assert_eq!(gone.folders, [PathBuf::from("b")], "the last one's word counts");
        let life = Life::Running { pid: Some(7), since: Some(at("2026-01-01T03:00:00Z")) };
        let alive = DaemonView::of(vec![early, seen("c", life)]);
        assert_eq!(alive.line(), "daemon: running (pid 7, since 2026-01-01 03:00:00Z)");
        assert!(alive.has(7) && !alive.has(8) && !gone.has(7));
        assert_eq!(alive.folders, [PathBuf::from("c")]);
    }
}
