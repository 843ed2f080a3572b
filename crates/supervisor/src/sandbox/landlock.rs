//! A plan as rules of Landlock. Everything here happens in the thread that starts the program.

use super::{Kernel, Plan, SandboxError, reach};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    NetPort, PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, Scope, make_bitflags,
};
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The newest version whose rights are used. Version 9 can restrict connecting to sockets in the file system, which would
/// cut off databases and the container engine; nothing asks for that yet.
const NEWEST: ABI = ABI::V8;
/// Devices that programs expect to read, write and control. Others (disks among them, for root) stay closed.
const DEVICES: &[&str] =
    &["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];
const PORTS_SINCE: u32 = 4;

pub(super) fn kernel() -> Kernel {
    // Only applying a ruleset tells the version; this one restricts a thread that ends at once.
    let asked = std::thread::spawn(|| {
        let ruleset = Ruleset::default().handle_access(AccessFs::MakeBlock)?.create()?;
        Ok::<_, RulesetError>(ruleset.restrict_self()?.landlock)
    });
    match asked.join() {
        Ok(Ok(LandlockStatus::Available { effective_abi, .. })) => {
            Kernel::Landlock { abi: number(effective_abi) }
        }
        Ok(Ok(LandlockStatus::NotEnabled)) => Kernel::Nothing {
            why: "it is built in but not enabled (add landlock to the kernel's lsm= list)",
        },
        Ok(Ok(LandlockStatus::NotImplemented)) => {
            Kernel::Nothing { why: "it is older than Linux 5.13, or was built without Landlock" }
        }
        Ok(Err(_)) | Err(_) => Kernel::Nothing { why: "it refuses even an empty ruleset" },
    }
}

fn number(abi: ABI) -> u32 {
    abi.to_string().parse().unwrap_or(0)
}

/// From here on this thread and what it starts obey the plan.
pub(super) fn restrict(plan: &Plan, temp: Option<&Path>) -> Result<(), SandboxError> {
    let abi = match Kernel::here() {
        Kernel::Landlock { abi } => abi,
        Kernel::Nothing { why } => return Err(SandboxError::NoLandlock { why }),
    };
    if plan.ports.is_some() && abi < PORTS_SINCE {
        return Err(SandboxError::NoPorts { abi });
    }
    for dir in &plan.make {
        // One that cannot be made is not granted.
        std::fs::create_dir_all(dir).ok();
    }
    let rights = Rights::of(ABI::from(i32::try_from(abi).unwrap_or(0)).min(NEWEST));
    let mut rules = Rules { rights, ruleset: ruleset(rights, plan)?, problem: None };
    rules.read(plan);
    rules.write(plan, temp)?;
    rules.devices();
    rules.ports(plan);
    rules.apply()
}

/// Without compromise: the version is known, so each right that is asked for is one that the kernel has.
fn ruleset(rights: Rights, plan: &Plan) -> Result<RulesetCreated, SandboxError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(rights.all)
        .map_err(refused)?;
    if !rights.scopes.is_empty() {
        ruleset = ruleset.scope(rights.scopes).map_err(refused)?;
    }
    if plan.ports.is_some() {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp).map_err(refused)?;
    }
    ruleset.create().map_err(refused)
}

fn refused(error: RulesetError) -> SandboxError {
    let mut said = error.to_string();
    let mut below = std::error::Error::source(&error);
    while let Some(cause) = below {
        said = format!("{said}: {cause}");
        below = cause.source();
    }
    SandboxError::Refused(said)
}

/// The rights of one version of Landlock.
#[derive(Clone, Copy)]
struct Rights {
    all: BitFlags<AccessFs>,
    read: BitFlags<AccessFs>,
    /// In a folder of the run's own: all but making devices, with which root would reach any disk.
    own: BitFlags<AccessFs>,
    /// Those that a rule about a single file may have.
    file: BitFlags<AccessFs>,
    scopes: BitFlags<Scope>,
}

impl Rights {
    fn of(abi: ABI) -> Self {
        let all = AccessFs::from_all(abi);
        Self {
            all,
            read: make_bitflags!(AccessFs::{ReadFile | Execute}),
            own: all & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev}),
            file: AccessFs::from_file(abi),
            scopes: Scope::from_all(abi),
        }
    }
}

struct Rules {
    rights: Rights,
    ruleset: RulesetCreated,
    problem: Option<SandboxError>,
}

impl Rules {
    /// Every folder may be listed, since programs list the folders above their own; contents only where nothing is hidden.
    fn read(&mut self, plan: &Plan) {
        self.grant(Path::new("/"), AccessFs::ReadDir.into());
        let mut hidden = plan.hide.clone();
        hidden.push(PathBuf::from("/dev"));
        for path in reach::beside(Path::new("/"), &hidden).iter().chain(&plan.read) {
            self.grant(path, self.rights.read);
        }
    }

    fn write(&mut self, plan: &Plan, temp: Option<&Path>) -> Result<(), SandboxError> {
        let control = self.rights.own | (self.rights.all & AccessFs::IoctlDev);
        for path in &plan.write {
            // The owner's paths may be links.
            if let Ok(path) = path.canonicalize() {
                self.grant(&path, control);
            }
        }
        for path in &plan.write_exact {
            if let Some(file) = open_itself(path)? {
                self.add(&file, self.rights.own);
            }
        }
        if let Some(temp) = temp {
            self.grant(temp, self.rights.own);
        }
        Ok(())
    }

    fn devices(&mut self) {
        let rights = self.rights.own | (self.rights.all & AccessFs::IoctlDev);
        for name in DEVICES {
            self.grant(&Path::new("/dev").join(name), rights);
        }
    }

    fn ports(&mut self, plan: &Plan) {
        for port in plan.ports.iter().flatten() {
            self.change(|ruleset| ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)));
        }
    }

    /// A path that vanished since it was listed, or is a link, is not granted.
    fn grant(&mut self, path: &Path, rights: BitFlags<AccessFs>) {
        if let Ok(file) = open_path(path) {
            self.add(&file, rights);
        }
    }

    fn add(&mut self, file: &File, rights: BitFlags<AccessFs>) {
        let Ok(meta) = file.metadata() else { return };
        let rights = if meta.is_dir() { rights } else { rights & self.rights.file };
        if !meta.is_symlink() && !rights.is_empty() {
            self.change(|ruleset| ruleset.add_rule(PathBeneath::new(file, rights)));
        }
    }

    /// The builder consumes itself; after the first problem nothing more is added.
    fn change(
        &mut self,
        add: impl FnOnce(&mut RulesetCreated) -> Result<&mut RulesetCreated, RulesetError>,
    ) {
        if self.problem.is_none()
            && let Err(error) = add(&mut self.ruleset)
        {
            self.problem = Some(refused(error));
        }
    }

    fn apply(self) -> Result<(), SandboxError> {
        match self.problem {
            Some(problem) => Err(problem),
            None => self.ruleset.restrict_self().map(drop).map_err(refused),
        }
    }
}

fn open_path(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

/// The folder or file at this very path, not what a link on the way leads to. `None`: there is nothing.
fn open_itself(path: &Path) -> Result<Option<File>, SandboxError> {
    let look = |source| SandboxError::Look { path: path.to_owned(), source };
    let file = match open_path(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(look(error)),
    };
    let found = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(look)?;
    if found != path || file.metadata().map_err(look)?.is_symlink() {
        let found = path.canonicalize().unwrap_or(found);
        return Err(SandboxError::Moved { path: path.to_owned(), found });
    }
    Ok(Some(file))
}
