//! The shim's loop over one child: output, limits, requests to stop, and the end of the whole tree. It writes no record.

use crate::beat::Beat;
use crate::cgroup::Cgroup;
use crate::deadlines::Deadlines;
use crate::exit::How;
use crate::folder::Folder;
use crate::logs::{CHUNK, Log};
use crate::run_file::Limits;
use crate::signals::Signals;
use crate::stream::Stream;
use crate::tree;
use agency_host::clock::boottime;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// After this much killing a process is stuck in the kernel, and we say so instead.
const KILL_FOR: Duration = Duration::from_secs(10);
/// Between two looks at a tree that is ending.
const ROUND: Duration = Duration::from_millis(50);
/// More than a pipe holds: what was written before the end is read, and a writer that goes on cannot keep us.
const DRAIN_CHUNKS: usize = 64;

/// How the child ended by itself, or what we were asked to end it for.
#[derive(Debug)]
enum Cause {
    ChildGone,
    Limit(&'static str),
    Stop { why: String, grace: Duration },
}

/// What is known once the tree is gone.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) how: How,
    pub(crate) status: Option<How>,
    pub(crate) survivors: usize,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Supervisor<'a> {
    folder: &'a Folder,
    signals: Signals,
    beat: &'a mut Beat,
    child: Pid,
    status: Option<How>,
    streams: [Stream; 2],
    deadlines: Deadlines,
    grace: Duration,
    group: Option<Cgroup>,
    buffer: Vec<u8>,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        folder: &'a Folder,
        limits: &Limits,
        signals: Signals,
        beat: &'a mut Beat,
        mut child: Child,
    ) -> io::Result<Self> {
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stderr = child.stderr.take().map(OwnedFd::from);
        let log = |path| Log::new(path, limits.log_bytes);
        Ok(Self {
            folder,
            signals,
            beat,
            child: Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?),
            status: None,
            streams: [
                Stream::new(stdout, log(folder.stdout()))?,
                Stream::new(stderr, log(folder.stderr()))?,
            ],
            deadlines: Deadlines::new(limits.clone(), boottime()),
            grace: Duration::from_secs(limits.grace_s),
            group: None,
            buffer: vec![0; CHUNK],
        })
    }

    /// What is in there is the run's too.
    pub(crate) fn in_group(mut self, group: Option<Cgroup>) -> Self {
        self.group = group;
        self
    }

    /// Returns when no process of the run is left, or none that can be killed.
    pub(crate) fn run(mut self) -> End {
        let cause = self.until_cause();
        let grace = match &cause {
            Cause::Stop { grace, .. } => *grace,
            Cause::ChildGone | Cause::Limit(_) => self.grace,
        };
        self.drain();
        let survivors = self.end_tree(grace);
        self.drain();
        self.group.iter().for_each(Cgroup::remove);
        let status = self.status.clone();
        let how = match cause {
            Cause::Limit(limit) => How::Timeout(limit.to_owned()),
            Cause::Stop { why, .. } => How::Stopped(why),
            Cause::ChildGone => status.clone().unwrap_or_else(|| unseen("its end")),
        };
        let notes = self.streams.iter().filter_map(|stream| stream.note()).collect();
        End { how, status, survivors, notes }
    }

    /// An end that came first wins: a child that was done before the request was not stopped by it.
    fn until_cause(&mut self) -> Cause {
        loop {
            let no_children = self.reap();
            if self.status.is_some() || no_children {
                return Cause::ChildGone;
            }
            if let Some(stop) = self.stop_request() {
                return stop;
            }
            if let Some(limit) = self.deadlines.passed(boottime()) {
                return Cause::Limit(limit);
            }
            let until = self.deadlines.next_at().map(|at| at.since(boottime()));
            self.wait(until.map_or(self.beat.every(), |until| until.min(self.beat.every())));
        }
    }

    fn stop_request(&self) -> Option<Cause> {
        match self.folder.stop() {
            Some(Ok(stop)) => {
                Some(Cause::Stop { why: stop.why, grace: Duration::from_secs(stop.grace_s) })
            }
            Some(Err(_)) => Some(self.stop_because("`stop.json` lies in the run's folder")),
            None if self.signals.told_to_end() => {
                Some(self.stop_because("a signal told its supervisor to end"))
            }
            None => None,
        }
    }

    fn stop_because(&self, why: &str) -> Cause {
        Cause::Stop { why: why.to_owned(), grace: self.grace }
    }

    /// Asks, waits, kills.
    fn end_tree(&mut self, grace: Duration) -> usize {
        if self.none_left() {
            return 0;
        }
        self.signal_all(Signal::SIGTERM);
        self.signal_all(Signal::SIGCONT);
        if self.gone_within(grace, |_| {}) {
            return 0;
        }
        if self.gone_within(KILL_FOR, Self::kill_all) {
            return 0;
        }
        tree::descendants(&[Pid::this().as_raw()]).len()
    }

    fn kill_all(&self) {
        self.group.iter().for_each(Cgroup::kill);
        self.signal_all(Signal::SIGKILL);
    }

    fn gone_within(&mut self, limit: Duration, each_round: impl Fn(&Self)) -> bool {
        let until = boottime().after(limit);
        while boottime() < until {
            each_round(self);
            self.wait(ROUND);
            if self.none_left() {
                return true;
            }
        }
        false
    }

    /// As subreaper every orphan comes to us: no children means no descendants. The group's word counts beside it.
    #[cfg(target_os = "linux")]
    fn none_left(&mut self) -> bool {
        self.reap() && self.group.as_ref().is_none_or(Cgroup::is_empty)
    }

    #[cfg(not(target_os = "linux"))]
    fn none_left(&mut self) -> bool {
        self.reap() && nix::sys::signal::killpg(self.child, None).is_err()
    }

    #[cfg(target_os = "linux")]
    fn signal_all(&self, signal: Signal) {
        let below = tree::descendants(&[Pid::this().as_raw()]);
        let grouped = self.group.iter().flat_map(Cgroup::members);
        for process in below.into_iter().chain(grouped) {
            process.signal(signal);
        }
    }

    /// Without a subreaper the process group is all that we can reach.
    #[cfg(not(target_os = "linux"))]
    fn signal_all(&self, signal: Signal) {
        nix::sys::signal::killpg(self.child, signal).ok();
    }

    /// Collects the dead; `true`: there are no children any more.
    fn reap(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => self.note_end(pid, How::Exited(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.note_end(pid, How::Signal(signal as i32));
                }
                Err(Errno::EINTR) => {}
                Err(_) => return true,
                Ok(_) => return false,
            }
        }
    }

    fn note_end(&mut self, pid: Pid, how: How) {
        if pid == self.child {
            self.status = Some(how);
        }
    }

    /// Sleeps until output, a signal or the timeout; takes in what came.
    fn wait(&mut self, timeout: Duration) {
        let ready = self.poll(timeout);
        if ready[2] {
            self.signals.clear();
        }
        for (stream, ready) in self.streams.iter_mut().zip(ready) {
            if ready && stream.pump(&mut self.buffer) {
                self.deadlines.output(boottime());
            }
        }
        self.beat.if_due();
    }

    /// Which of stdout, stderr and signals are ready.
    fn poll(&self, timeout: Duration) -> [bool; 3] {
        let mut slots: Vec<(usize, PollFd<'_>)> = Vec::with_capacity(3);
        for (slot, stream) in self.streams.iter().enumerate() {
            slots.extend(stream.fd().map(|fd| (slot, PollFd::new(fd, PollFlags::POLLIN))));
        }
        slots.push((2, PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)));
        let (numbers, mut fds): (Vec<usize>, Vec<PollFd<'_>>) = slots.into_iter().unzip();
        // One millisecond more than asked: a wait must not end just before its deadline.
        let timeout = PollTimeout::try_from(timeout + Duration::from_millis(1));
        let mut ready = [false; 3];
        if poll(&mut fds, timeout.unwrap_or(PollTimeout::MAX)).is_ok() {
            for (slot, fd) in numbers.into_iter().zip(&fds) {
                ready[slot] = fd.any().unwrap_or(true);
            }
        }
        ready
    }

    /// Reads what lies in the pipes. Grandchildren may hold them open, so it does not wait for their end.
    fn drain(&mut self) {
        for stream in &mut self.streams {
            for _ in 0..DRAIN_CHUNKS {
                if !stream.pump(&mut self.buffer) {
                    break;
                }
            }
        }
    }
}

fn unseen(what: &str) -> How {
    How::Lost(format!("the supervisor did not see {what}"))
}
