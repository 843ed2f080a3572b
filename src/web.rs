//! The owner's pages as this daemon fills them: the facts come from the readers that the command line has, the verbs go to the
//! repositories' own tasks. How a page looks, and who may see it, is the matter of `crates/dashboard`.

mod act;
mod diff;
mod history;
mod machine;
mod overview;
mod places;
mod repository;
mod run;
mod spent;
mod timeline;

use crate::cli::context::Context;
use crate::cli::metrics;
use crate::cli::status::Memory;
use crate::config::Config;
use crate::daemon::{CommandRouter, Home};
use crate::metrics::Exporter;

use agency_dashboard::view::{Finding, HistoryPage, HistoryQuery, Overview, RepoPage, RunPage};
use agency_dashboard::{
    Act, Caller, Dashboard, Options, Pending, ServeError, Source, Standing, serve_metrics,
};
use machine::Machine;
use spent::Spent;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::task::AbortOnDropHandle;

/// What the pages of one daemon need.
struct Facts {
    context: Context,
    /// The daemon's own folder, for messages that it keeps itself.
    home: PathBuf,
    router: CommandRouter,
    memory: Mutex<Memory>,
    spent: Mutex<Spent>,
    machine: Machine,
}

/// What is served, as long as it lives.
pub(crate) struct Served {
    pub(crate) dashboard: Option<Dashboard>,
    _metrics: Option<AbortOnDropHandle<()>>,
}

/// Trouble with the pages or the numbers never stops the work: it is logged, and without TCP the socket is still served.
pub(crate) async fn start(context: &Context, config: &Config, home: &Home) -> Served {
    let dashboard = pages(context, config, home).await;
    Served { dashboard, _metrics: numbers(context, config).await }
}

async fn numbers(context: &Context, config: &Config) -> Option<AbortOnDropHandle<()>> {
    let listen = config.metrics.listen?;
    let (context, exporter) = (context.of_all(), Mutex::new(Exporter::default()));
    let text = move || {
        let mut exporter = exporter.lock().unwrap_or_else(PoisonError::into_inner);
        match metrics::collect(&context) {
            Ok((daemon_runs, repos)) => exporter.look(daemon_runs, &repos),
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "the metrics are not current")
            }
        }
        exporter.text()
    };
    let served = serve_metrics(listen, Arc::new(text)).await;
    served.inspect_err(tell).ok().map(|(_, serving)| serving)
}

async fn pages(context: &Context, config: &Config, home: &Home) -> Option<Dashboard> {
    let facts: Arc<dyn Source> = Arc::new(Facts {
        context: context.of_all(),
        home: home.folder(),
        router: home.router().clone(),
        memory: Mutex::default(),
        spent: Mutex::default(),
        machine: Machine::default(),
    });
    let wanted = &config.dashboard;
    let options = |listen| Options {
        socket: socket(&home.folder()),
        listen,
        hosts: wanted.hosts.clone(),
        proxies: wanted.proxies.clone(),
        who: context.asker(),
        identify: Arc::new(identify),
    };
    match Dashboard::start(Arc::clone(&facts), options(wanted.listen)).await {
        Ok(dashboard) => Some(dashboard),
        Err(error) => {
            tell(&error);
            let without = Dashboard::start(facts, options(None)).await;
            without.inspect_err(tell).ok()
        }
    }
}

fn tell(error: &ServeError) {
    tracing::error!(error = %crate::apply::chain(error), "it is not served there");
}

/// Where the pages are always served.
pub(crate) fn socket(daemon_folder: &std::path::Path) -> PathBuf {
    daemon_folder.join("dashboard.sock")
}

fn identify(pid: u32) -> Standing {
    match crate::run::caller(i32::try_from(pid).unwrap_or(0)) {
        crate::run::Caller::Outside => Standing::Outside,
        crate::run::Caller::Run(run) => Standing::Inside(run),
        crate::run::Caller::Unclear(unclear) => Standing::Unclear(unclear.sentence()),
    }
}

impl Source for Facts {
    fn overview(&self) -> Overview {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        overview::read(&self.context, &mut memory)
    }

    fn repo(&self, key: &str) -> Option<RepoPage> {
        let card = self.overview().repos.into_iter().find(|repo| repo.key == key)?;
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        Some(repository::read(card, &self.context, &mut spent))
    }

    fn run(&self, key: &str, run: &str) -> Option<RunPage> {
        run::read(&self.context, key, run)
    }

    fn history(&self, query: &HistoryQuery) -> HistoryPage {
        history::read(&self.context, query)
    }

    fn machine(&self) -> Vec<Finding> {
        self.machine.look(&self.context)
    }

    fn stamp(&self) -> u64 {
        places::stamp(&self.context, &self.home)
    }

    fn act(&self, repo: &str, act: Act, caller: Caller) -> Pending {
        let (repo, context, router) = (repo.to_owned(), self.context.clone(), self.router.clone());
        let home = self.home.clone();
        Box::pin(async move { act::perform(context, router, home, repo, act, caller).await })
    }
}
