//! `agency dashboard`: where the owner's pages are, and a link that lets a browser in.

use super::context::Context;
use super::escalations::refuse_agents;
use super::exit::{Exit, Refused};
use crate::daemon::{Life, daemons};
use crate::web;
use agency_dashboard::{Link, Right, ask_link};
use std::path::{Path, PathBuf};

/// Where the owner's pages are, and the link that lets you in
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency dashboard --link                prints a link that works once, within five minutes\n  agency dashboard --link --read-only    for a screen on the wall\nFrom another machine:\n  ssh -L 7777:$HOME/.local/state/agency/daemon/dashboard.sock BOX     then open the link with localhost:7777"
)]
pub(super) struct Args {
    /// Print a link that works once, within five minutes
    #[arg(long)]
    link: bool,
    /// The link may look and not act
    #[arg(long, requires = "link")]
    read_only: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    refuse_agents()?;
    let sockets = sockets(context)?;
    let Some(socket) = sockets.first() else {
        return Err(Refused(
            "no daemon serves the dashboard now; start one: agency run".to_owned(),
        )
        .into());
    };
    if !args.link {
        anstream::println!("socket  {}", socket.display());
        if let Some(listen) = context.config()?.dashboard.listen {
            anstream::println!("tcp     http://{listen}");
        }
        anstream::println!("to get in: agency dashboard --link");
        return Ok(Exit::Fine);
    }
    let right = if args.read_only { Right::Read } else { Right::Act };
    let link = ask_link(socket, right).map_err(|error| Refused(error.to_string()))?;
    print(&link, socket);
    Ok(Exit::Fine)
}

/// Of the daemons that run, in the order of their folders.
fn sockets(context: &Context) -> anyhow::Result<Vec<PathBuf>> {
    let running = daemons(&context.state_dir()?).into_iter();
    let running = running.filter(|seen| matches!(seen.life, Life::Running { .. }));
    Ok(running.map(|seen| web::socket(&seen.folder)).filter(|socket| socket.exists()).collect())
}

/// The link alone on stdout, so that a script can open it.
fn print(link: &Link, socket: &Path) {
    let address = link.address.as_deref().unwrap_or("localhost:7777");
    anstream::println!("http://{address}{}", link.path);
    if link.address.is_none() {
        let socket = socket.display();
        anstream::eprintln!(
            "note: `dashboard.listen` is off, so a browser needs a way to the socket, for example:\n  ssh -N -L 7777:{socket} localhost"
        );
    }
}
