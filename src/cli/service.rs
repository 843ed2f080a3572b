//! `agency service`: the daemon under the machine's service manager. It writes one file and tells the manager about it.

mod manager;
mod unit;

use super::context::Context;
use super::exit::{Exit, Refused};
use crate::config::Config;
use manager::Manager;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use unit::{Installed, Kind};

#[derive(clap::Subcommand)]
pub(super) enum Verb {
    /// Write the unit and start the daemon with it
    #[command(
        after_help = "Examples:\n  agency service install              for you alone\n  sudo agency service install --system --user builder\n  agency service install --print      only show the unit"
    )]
    Install(InstallArgs),
    /// Stop the daemon and remove the unit; runs that are alive go on
    #[command(after_help = "Example:\n  agency service uninstall")]
    Uninstall(PlaceArgs),
    /// What the service manager knows of the daemon
    #[command(after_help = "Example:\n  agency service status")]
    Status(PlaceArgs),
}

#[derive(clap::Args)]
pub(super) struct PlaceArgs {
    /// For the whole machine instead of for you alone (systemd)
    #[arg(long)]
    system: bool,
}

#[derive(clap::Args)]
pub(super) struct InstallArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// With --system: the user that owns the repositories
    #[arg(long, value_name = "NAME", requires = "system")]
    user: Option<String>,
    /// Show the unit and change nothing
    #[arg(long)]
    print: bool,
    /// Write the unit, but do not start it
    #[arg(long)]
    no_start: bool,
}

/// The file of keys as it is made: nothing in it counts until the owner says so.
const KEYS: &str = "\
# Variables of the agency daemon, one NAME=VALUE per line. Keep this file readable by its owner alone.
# After a change: agency service install
#ANTHROPIC_API_KEY=
#OPENAI_API_KEY=
#CODEX_API_KEY=
#GEMINI_API_KEY=
# The secret that `secret_env` of a webhook names, or the password that `password_env` of email names:
#AGENCY_WEBHOOK_SECRET=
";

pub(super) fn run(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Install(args) => install(context, &args),
        Verb::Uninstall(args) => uninstall(&args),
        Verb::Status(args) => status(&args),
    }
}

fn kind(place: &PlaceArgs) -> Kind {
    match (cfg!(target_os = "macos"), place.system) {
        (true, _) => Kind::Launchd,
        (false, true) => Kind::System,
        (false, false) => Kind::User,
    }
}

fn install(context: &Context, args: &InstallArgs) -> anyhow::Result<Exit> {
    let kind = kind(&args.place);
    let (program, keys) = (std::env::current_exe()?, keys_path(kind)?);
    let search = context.env.get("PATH").and_then(|path| path.to_str());
    let installed = Installed {
        program: &program,
        user: args.user.as_deref(),
        path: search.unwrap_or("/usr/bin:/bin"),
        variables: variables(context, kind)?,
        keys: &keys,
    };
    let text = unit::text(kind, &installed)?;
    if args.print {
        anstream::print!("{text}");
        return Ok(Exit::Fine);
    }
    refuse_without_repos(context, kind)?;
    make_keys(&keys)?;
    let path = path(kind)?;
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|error| failed("make", dir, &error))?;
    }
    let changed = std::fs::read_to_string(&path).ok().as_deref() != Some(&text);
    if changed {
        std::fs::write(&path, &text).map_err(|error| failed("write", &path, &error))?;
    }
    anstream::println!("{} {}", if changed { "wrote" } else { "unchanged" }, path.display());
    if args.no_start {
        return Ok(Exit::Fine);
    }
    anstream::println!("keys of the agents belong into {}", keys.display());
    Manager::of(kind).start(&path)?;
    anstream::println!("the daemon is started now and at every boot; `agency status` shows it");
    if kind == Kind::User {
        anstream::eprintln!("hint: `loginctl enable-linger` keeps it alive after you log out");
    }
    Ok(Exit::Fine)
}

/// A daemon without a repository ends at once, and the service manager would start it again and again.
fn refuse_without_repos(context: &Context, kind: Kind) -> anyhow::Result<()> {
    let machine = Path::new(SYSTEM_CONFIG);
    let config = match kind {
        Kind::System if machine.exists() => Config::load(machine, &context.env)?,
        Kind::System => Config::default(),
        Kind::User | Kind::Launchd => context.config()?,
    };
    if !config.repos.is_empty() {
        return Ok(());
    }
    let file = match kind {
        Kind::System => machine.to_owned(),
        Kind::User | Kind::Launchd => {
            context.config_path()?.unwrap_or(own_folder()?.join("agency.yaml"))
        }
    };
    let root = context.root().ok().filter(|root| root.join(".git").exists());
    let repo = root.unwrap_or_else(|| PathBuf::from("/path/to/your/repository"));
    Err(Refused(format!(
        "the service would have nothing to do, because `repos` in `{}` is empty; add `repos: [ {{ path: {} }} ]`, then: agency service install",
        file.display(),
        repo.display()
    ))
    .into())
}

/// The unit for the machine has its own.
fn variables(context: &Context, kind: Kind) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    if kind == Kind::System {
        return Ok(Vec::new());
    }
    let config = context.config_path()?.map(std::path::absolute).transpose()?;
    let mut variables = vec![("AGENCY_STATE_DIR", context.state_dir()?.path().to_owned())];
    variables.extend(config.map(|path| ("AGENCY_CONFIG", path)));
    Ok(variables)
}

const SYSTEM_CONFIG: &str = "/etc/agency/agency.yaml";

fn keys_path(kind: Kind) -> anyhow::Result<PathBuf> {
    match kind {
        Kind::System => Ok(PathBuf::from("/etc/agency/agency.env")),
        Kind::User | Kind::Launchd => Ok(own_folder()?.join("agency.env")),
    }
}

/// Where the owner's own configuration lies.
fn own_folder() -> anyhow::Result<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let found = config.or_else(home).map(|dir| dir.join("agency"));
    found.ok_or_else(|| Refused("HOME is not set; set it and try again".to_owned()).into())
}

/// Made empty, for the owner to fill. One that is there stays as it is.
fn make_keys(path: &Path) -> anyhow::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|error| failed("make", dir, &error))?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            file.write_all(KEYS.as_bytes()).map_err(|error| failed("write", path, &error))?;
            anstream::println!("wrote {} (no key is in it yet)", path.display());
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed("write", path, &error).into()),
    }
}

fn uninstall(args: &PlaceArgs) -> anyhow::Result<Exit> {
    let kind = kind(args);
    let path = path(kind)?;
    if !path.exists() {
        anstream::println!("not installed: there is no {}", path.display());
        return Ok(Exit::Fine);
    }
    Manager::of(kind).stop(&path)?;
    std::fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
    anstream::println!("removed {}; what the daemon remembers is kept", path.display());
    Ok(Exit::Fine)
}

fn status(args: &PlaceArgs) -> anyhow::Result<Exit> {
    let kind = kind(args);
    let path = path(kind)?;
    if !path.exists() {
        anstream::println!("not installed; `agency service install` does it");
        return Ok(Exit::Finding);
    }
    anstream::println!("{}", path.display());
    let active = Manager::of(kind).show()?;
    Ok(if active { Exit::Fine } else { Exit::Finding })
}

fn path(kind: Kind) -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let config = || std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let found = match kind {
        Kind::System => Some(PathBuf::from("/etc/systemd/system/agency.service")),
        Kind::User => config()
            .or_else(|| Some(home()?.join(".config")))
            .map(|dir| dir.join("systemd/user/agency.service")),
        Kind::Launchd => {
            home().map(|home| home.join("Library/LaunchAgents/dev.agency.daemon.plist"))
        }
    };
    found.ok_or_else(|| {
        Refused("HOME is not set, so there is no place for the unit".to_owned()).into()
    })
}

fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Refused {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; with --system, run it as root: sudo agency service …"
        }
        _ => "",
    };
    Refused(format!("cannot {doing} `{}`: {error}{hint}", path.display()))
}
