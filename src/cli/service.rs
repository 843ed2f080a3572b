//! `agency service`: the daemon under the machine's service manager. It writes one file and tells the manager about it.

mod manager;
mod unit;

use super::exit::{Exit, Refused};
use manager::Manager;
use std::path::{Path, PathBuf};
use unit::Kind;

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

pub(super) fn run(verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Install(args) => install(&args),
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

fn install(args: &InstallArgs) -> anyhow::Result<Exit> {
    let kind = kind(&args.place);
    let text = unit::text(kind, &std::env::current_exe()?, args.user.as_deref())?;
    if args.print {
        anstream::print!("{text}");
        return Ok(Exit::Fine);
    }
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
    Manager::of(kind).start(&path)?;
    anstream::println!("the daemon is started now and at every boot; `agency status` shows it");
    if kind == Kind::User {
        anstream::eprintln!("hint: `loginctl enable-linger` keeps it alive after you log out");
    }
    Ok(Exit::Fine)
}

fn uninstall(args: &PlaceArgs) -> anyhow::Result<Exit> {
    let kind = kind(args);
    let path = path(kind)?;
    if !path.exists() {
        anstream::println!("there is no {}", path.display());
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
    Refused(format!("cannot {doing} `{}`: {error}", path.display()))
}
