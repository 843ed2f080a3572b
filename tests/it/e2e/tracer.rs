//! Kills a process at the Nth of its system calls that change a file or start a process, or lets that call fail. It knows nothing of
//! the program.
//!
//! Threads are followed, children are not: a thread is a clone whose end sends no SIGCHLD, and only those are asked for.

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What became of a traced program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Killed just before the call of this name.
    Killed(&'static str),
    /// It came to its end with this code, after so many such calls.
    Exited { code: i32, calls: usize },
}

#[derive(Debug)]
struct Tracer {
    leader: Pid,
    /// The calls that are still to be let through.
    left: usize,
    calls: usize,
    /// Threads that are inside a call, and whether it opens a file for writing.
    inside: BTreeMap<Pid, bool>,
    /// Descriptors of files, so that pipes and wake-ups between threads do not count.
    files: BTreeSet<u64>,
    killed: Option<&'static str>,
    what: Injected,
    /// The threads whose call is to fail, until the kernel has refused it.
    failing: BTreeSet<Pid>,
}

/// What happens at the chosen call.
#[derive(Clone, Copy, Debug)]
enum Injected {
    Kill,
    /// The call is not done and returns this error.
    Fail {
        errno: Errno,
    },
    /// So do all syncs of files whose path has this part, until then.
    FailSyncs {
        errno: Errno,
        part: &'static str,
        until: Instant,
    },
    /// So does the first call that makes a folder whose path has this part.
    FailFolder {
        errno: Errno,
        part: &'static str,
    },
}

/// Runs a command whose `nth` such call fails, counted from one; its messages are added to `log`. Its end comes with the name of
/// the call, if it came to that.
pub(crate) fn fail_at(
    command: &Command,
    nth: usize,
    errno: Errno,
    log: &Path,
) -> Result<(End, Option<&'static str>), Errno> {
    let log = File::options().create(true).append(true).open(log).unwrap();
    trace(command, nth, Injected::Fail { errno }, log.into())
}

/// Runs a command in which every sync of a file whose path has `part` fails at first.
pub(crate) fn fail_syncs(
    command: &Command,
    part: &'static str,
    errno: Errno,
    during: Duration,
    log: &Path,
) -> Result<End, Errno> {
    let log = File::options().create(true).append(true).open(log).unwrap();
    let what = Injected::FailSyncs { errno, part, until: Instant::now() + during };
    trace(command, usize::MAX, what, log.into()).map(|(end, _)| end)
}

/// Runs a command whose first call that makes a folder with `part` in its path fails. Its end comes with the name of the call, if
/// it came to that.
pub(crate) fn fail_folder(
    command: &Command,
    part: &'static str,
    errno: Errno,
    log: &Path,
) -> Result<(End, Option<&'static str>), Errno> {
    let log = File::options().create(true).append(true).open(log).unwrap();
    trace(command, usize::MAX, Injected::FailFolder { errno, part }, log.into())
}

/// Runs a command and kills it before its `nth` such call, counted from one.
pub(crate) fn kill_at(command: &Command, nth: usize) -> Result<End, Errno> {
    trace(command, nth, Injected::Kill, Stdio::null()).map(|(end, _)| end)
}

fn trace(
    command: &Command,
    nth: usize,
    what: Injected,
    messages: Stdio,
) -> Result<(End, Option<&'static str>), Errno> {
    let leader = start_stopped(command, messages);
    let flags = WaitPidFlag::WUNTRACED | WaitPidFlag::__WNOTHREAD;
    waitpid(leader, Some(flags))?;
    let options =
        Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
    if let Err(cause) = ptrace::seize(leader, options) {
        kill(leader, Signal::SIGKILL)?;
        waitpid(leader, None)?;
        return Err(cause);
    }
    kill(leader, Signal::SIGCONT)?;
    let tracer = Tracer {
        leader,
        left: nth - 1,
        calls: 0,
        inside: BTreeMap::new(),
        files: BTreeSet::new(),
        killed: None,
        what,
        failing: BTreeSet::new(),
    };
    tracer.follow()
}

/// The shell stops itself, and becomes the program when it is woken.
#[expect(clippy::zombie_processes, reason = "the tracer waits for it, by its number")]
fn start_stopped(command: &Command, messages: Stdio) -> Pid {
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        shell.current_dir(dir);
    }
    let null = Stdio::null;
    let child = shell.stdin(null()).stdout(null()).stderr(messages).spawn().unwrap();
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

impl Tracer {
    fn follow(mut self) -> Result<(End, Option<&'static str>), Errno> {
        // Only our own: other tests of this process wait for children of theirs.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            let (thread, signal) = match waitpid(None, Some(flags))? {
                WaitStatus::PtraceSyscall(thread) => {
                    self.at_call(thread);
                    (thread, None)
                }
                WaitStatus::PtraceEvent(thread, ..) => (thread, None),
                WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
                WaitStatus::Exited(pid, code) if pid == self.leader => {
                    return Ok((End::Exited { code, calls: self.calls }, self.killed));
                }
                WaitStatus::Signaled(pid, signal, _) if pid == self.leader => {
                    return Ok((End::Killed(self.killed.unwrap_or(signal.as_str())), self.killed));
                }
                _ => continue,
            };
            // A thread that was killed meanwhile is told of by the next wait.
            ptrace::syscall(thread, signal).or_else(|cause| match cause {
                Errno::ESRCH => Ok(()),
                other => Err(other),
            })?;
        }
    }

    /// The kernel stops a thread before and after each call.
    fn at_call(&mut self, thread: Pid) {
        let Ok(registers) = ptrace::getregs(thread) else { return };
        if let Some(opens) = self.inside.remove(&thread) {
            if self.failing.remove(&thread) {
                self.refuse(thread, registers);
            } else if opens {
                self.files.insert(registers.rax);
            }
            return;
        }
        let number = i64::try_from(registers.orig_rax).unwrap_or(-1);
        let flags = i32::try_from(registers.rdx & 0xffff_ffff).unwrap_or(0);
        let writes = flags & (libc::O_WRONLY | libc::O_RDWR) != 0;
        self.inside.insert(thread, number == libc::SYS_openat && writes);
        if self.is_failing_sync(thread, number, registers.rdi) {
            return self.prevent(thread);
        }
        if self.is_failing_folder(thread, number, registers) {
            self.killed = Some("mkdir");
            return self.prevent(thread);
        }
        if number == libc::SYS_close {
            self.files.remove(&registers.rdi);
        }
        let name = match number {
            libc::SYS_openat if flags & libc::O_CREAT != 0 => "open to create",
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_ftruncate
                if self.files.contains(&registers.rdi) =>
            {
                "write"
            }
            // A thread is no process: the kernel refuses it for other reasons than these.
            libc::SYS_clone | libc::SYS_clone3 if self.starts_thread(thread, number, registers) => {
                ""
            }
            number => name(number).unwrap_or_default(),
        };
        if !name.is_empty() {
            self.count(name, thread);
        }
    }

    /// As a kill at a thread's start is as good as any other, only failing calls ask.
    fn starts_thread(&self, thread: Pid, number: i64, registers: libc::user_regs_struct) -> bool {
        let flags = if number == libc::SYS_clone {
            i64::try_from(registers.rdi).unwrap_or(0)
        } else {
            let at = registers.rdi as usize as ptrace::AddressType;
            ptrace::read(thread, at).unwrap_or(0)
        };
        matches!(self.what, Injected::Fail { .. }) && flags & i64::from(libc::CLONE_THREAD) != 0
    }

    /// The kernel did not know the call's number any more; the caller sees our error instead of its.
    fn refuse(&self, thread: Pid, mut registers: libc::user_regs_struct) {
        if let Injected::Fail { errno }
        | Injected::FailSyncs { errno, .. }
        | Injected::FailFolder { errno, .. } = self.what
        {
            registers.rax = (-i64::from(errno as i32)).cast_unsigned();
            ptrace::setregs(thread, registers).unwrap();
        }
    }

    /// The kernel is asked for a call that it does not have.
    fn prevent(&mut self, thread: Pid) {
        let Ok(mut registers) = ptrace::getregs(thread) else { return };
        registers.orig_rax = u64::MAX;
        ptrace::setregs(thread, registers).unwrap();
        self.failing.insert(thread);
        self.inside.insert(thread, false);
    }

    fn is_failing_sync(&self, thread: Pid, number: i64, file: u64) -> bool {
        let Injected::FailSyncs { part, until, .. } = self.what else { return false };
        let syncs = matches!(number, libc::SYS_fsync | libc::SYS_fdatasync);
        let link = || std::fs::read_link(format!("/proc/{thread}/fd/{file}"));
        syncs
            && Instant::now() < until
            && link().is_ok_and(|path| path.to_string_lossy().contains(part))
    }

    fn is_failing_folder(
        &self,
        thread: Pid,
        number: i64,
        registers: libc::user_regs_struct,
    ) -> bool {
        let Injected::FailFolder { part, .. } = self.what else { return false };
        let at = match number {
            libc::SYS_mkdir => registers.rdi,
            libc::SYS_mkdirat => registers.rsi,
            _ => return false,
        };
        self.killed.is_none() && text_at(thread, at).contains(part)
    }

    fn count(&mut self, name: &'static str, thread: Pid) {
        if self.killed.is_some() {
            return;
        }
        if let (0, Injected::Fail { .. }) = (self.left, self.what) {
            self.killed = Some(name);
            self.prevent(thread);
            return;
        }
        if self.left == 0 {
            self.killed = Some(name);
            // A call that is killed at its door is not done.
            kill(self.leader, Signal::SIGKILL).unwrap();
            return;
        }
        self.left -= 1;
        self.calls += 1;
    }
}

/// A path in the memory of a thread that is stopped.
fn text_at(thread: Pid, at: u64) -> String {
    let words = (0..512).map_while(|n| {
        ptrace::read(thread, (at + n * 8) as usize as ptrace::AddressType)
            .ok()
            .map(i64::to_ne_bytes)
    });
    let bytes: Vec<u8> = words.flatten().take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Calls that always change something which another process can see.
#[rustfmt::skip]
fn name(number: i64) -> Option<&'static str> {
    Some(match number {
        libc::SYS_fsync | libc::SYS_fdatasync => "sync",
        libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => "rename",
        libc::SYS_link | libc::SYS_linkat => "link",
        libc::SYS_symlink | libc::SYS_symlinkat => "symlink",
        libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => "unlink",
        libc::SYS_mkdir | libc::SYS_mkdirat => "mkdir",
        libc::SYS_chmod | libc::SYS_fchmod | libc::SYS_fchmodat => "chmod",
        libc::SYS_flock => "flock",
        libc::SYS_bind => "bind",
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_vfork | libc::SYS_fork => "start",
        libc::SYS_kill => "kill",
        _ => return None,
    })
}
