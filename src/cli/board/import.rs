//! `agency import`: issues of GitHub or Jira become tasks, each once. The token comes from the environment and goes nowhere else.

use super::super::context::{Context, runtime};
use super::super::exit::{Exit, Misused, Refused};
use super::super::show;
use super::maker::Maker;
use super::{Place, archive, inspect};
use crate::protocol::board::import::{self, Issue, Next};
use crate::protocol::board::names::is_agent;
use crate::protocol::board::scope::Scope;
use crate::protocol::board::table::Status;
use crate::protocol::board::task::NewTask;
use reqwest::{Client, StatusCode, Url, redirect::Policy};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// The largest page that is read, in bytes.
const PAGE_MAX: usize = 32 << 20;
const PAGES_MAX: usize = 1000;

/// Make tasks of issues
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  GITHUB_TOKEN=… agency import --from github --repo-name owner/repo --label agency\n  JIRA_EMAIL=… JIRA_API_TOKEN=… agency import --from jira --url https://x.atlassian.net --project PROJ --status 'To Do'\n\nTokens: GITHUB_TOKEN or GH_TOKEN; JIRA_EMAIL with JIRA_API_TOKEN (Cloud), or JIRA_TOKEN (Data Center)."
)]
pub(crate) struct Args {
    #[arg(long, value_enum)]
    from: From,
    /// GitHub: owner/repo (`--repo owner/repo` is read so too)
    #[arg(long, value_name = "OWNER/REPO")]
    repo_name: Option<String>,
    /// GitHub: only issues with this label
    #[arg(long)]
    label: Option<String>,
    /// Jira: the project's key
    #[arg(long)]
    project: Option<String>,
    /// Jira: only issues in this status
    #[arg(long)]
    status: Option<String>,
    /// The tracker's address (default: $GITHUB_API_URL or api.github.com; $JIRA_BASE_URL)
    #[arg(long)]
    url: Option<String>,
    /// Whose tasks they become (default: the first builder)
    #[arg(long, value_name = "AGENT")]
    assignee: Option<String>,
    /// Show what would be made, make nothing
    #[arg(long)]
    dry_run: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum From {
    Github,
    Jira,
}

pub(crate) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    // `--repo` names the repository on this disk everywhere else; for an import from GitHub it may be the one over there.
    let (here, elsewhere) = context.split_repo();
    let place = Place::of(&here)?;
    let issues = runtime()?.block_on(fetch(args, elsewhere.as_deref()))?;
    let made = make(&here, &place, args, &issues)?;
    if args.json {
        show::json(&made)?;
    } else {
        for one in &made {
            let word = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            anstream::println!("{:<8} {}  {}", word("id"), word("ref"), word("title"));
        }
        anstream::eprintln!("{} of {} issues are new", made.len(), issues.len());
    }
    Ok(Exit::Fine)
}

/// Those that no task refers to yet.
fn make(
    context: &Context,
    place: &Place,
    args: &Args,
    issues: &[Issue],
) -> anyhow::Result<Vec<Value>> {
    let assignee = args.assignee.clone().or_else(|| place.manifest.builders.first().cloned());
    let assignee = assignee
        .filter(|name| is_agent(name))
        .ok_or_else(|| Misused("whose tasks? --assignee AGENT".to_owned()))?;
    // What is known is looked at under the lock: two imports at once make no task twice.
    let mut maker = Maker::open(context, place)?;
    let (tasks, _) = inspect::tasks(&place.root);
    let finished = archive::tasks(&place.root);
    let known: BTreeSet<(String, String)> = tasks
        .into_iter()
        .map(|(_, task)| task)
        .chain(finished)
        .flat_map(|task| task.refs)
        .collect();
    let mut made = Vec::new();
    for issue in issues {
        let seen = known.contains(&("url".to_owned(), issue.url.clone()))
            || (issue.url.is_empty() && known.contains(&issue.reference));
        if seen {
            continue;
        }
        let id = if args.dry_run {
            String::new()
        } else {
            maker.make(&task(place, issue, &assignee))?.0.to_string()
        };
        made.push(
            json!({ "id": id, "ref": issue.reference.1, "title": issue.title, "url": issue.url }),
        );
    }
    drop(maker);
    if !made.is_empty() && !args.dry_run {
        super::list_anew(context);
    }
    Ok(made)
}

fn task(place: &Place, issue: &Issue, assignee: &str) -> NewTask {
    let mut refs = vec![issue.reference.clone()];
    if !issue.url.is_empty() {
        refs.push(("url".to_owned(), issue.url.clone()));
    }
    NewTask {
        title: issue.title.clone(),
        priority: issue.priority,
        assignee: assignee.to_owned(),
        person: false,
        status: Status::New,
        dod_profile: place.manifest.dod_profile.clone(),
        scope: Scope { may_touch: vec!["**".to_owned()], ..Scope::default() },
        labels: issue.labels.iter().filter(|label| !label.trim().is_empty()).cloned().collect(),
        depends_on: Vec::new(),
        context_files: Vec::new(),
        acceptance: Vec::new(),
        constraints: Vec::new(),
        risks: Vec::new(),
        refs,
        parent: None,
        problem: issue.body.clone(),
        notes: format!("Imported from {}", issue.url),
    }
}

async fn fetch(args: &Args, elsewhere: Option<&str>) -> anyhow::Result<Vec<Issue>> {
    // Whoever was first has decided.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = Client::builder()
        .user_agent(concat!("agency/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .timeout(Duration::from_secs(60))
        .build()?;
    match args.from {
        From::Github => github(&client, args, elsewhere).await,
        From::Jira => jira(&client, args).await,
    }
}

async fn github(
    client: &Client,
    args: &Args,
    elsewhere: Option<&str>,
) -> anyhow::Result<Vec<Issue>> {
    let name = args
        .repo_name
        .as_deref()
        .or(elsewhere)
        .ok_or_else(|| Misused("which repository? --repo owner/repo".to_owned()))?;
    let plain = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let (owner, repo) = name
        .split_once('/')
        .filter(|(a, b)| plain(a) && plain(b))
        .ok_or_else(|| Misused(format!("`{name}` is not owner/repo")))?;
    let base = base(args.url.as_deref(), "GITHUB_API_URL", Some("https://api.github.com"))?;
    let token = env("GITHUB_TOKEN").or_else(|| env("GH_TOKEN"));
    let mut issues = Vec::new();
    for page in 1..=PAGES_MAX {
        let mut url = base.clone();
        url.path_segments_mut()
            .map_err(|()| Misused("the address cannot be used".to_owned()))?
            .pop_if_empty()
            .extend(["repos", owner, repo, "issues"]);
        url.query_pairs_mut()
            .append_pair("state", "open")
            .append_pair("per_page", "100")
            .append_pair("page", &page.to_string());
        if let Some(label) = &args.label {
            url.query_pairs_mut().append_pair("labels", label);
        }
        let mut request = client
            .get(url)
            .header("Accept", "application/vnd.github+json")
            .header("X-GitHub-Api-Version", "2022-11-28");
        if let Some(token) = &token {
            request = request.bearer_auth(token);
        }
        let (body, more) = answer(request).await?;
        let count = body.as_array().map_or(0, Vec::len);
        issues.extend(import::github(&body).map_err(Refused)?);
        if !more && count < 100 {
            break;
        }
    }
    Ok(issues)
}

async fn jira(client: &Client, args: &Args) -> anyhow::Result<Vec<Issue>> {
    let project = args
        .project
        .as_deref()
        .ok_or_else(|| Misused("which project? --project KEY".to_owned()))?;
    let base = base(args.url.as_deref(), "JIRA_BASE_URL", None)?;
    let jql = import::jql(project, args.status.as_deref());
    let mut issues = Vec::new();
    let (mut next, mut cloud) = (Next::At(0), true);
    for _ in 0..PAGES_MAX {
        let mut body = jira_page(client, &base, &jql, &next, cloud).await;
        // Data Center has no such address; its older search is the same in other words.
        if cloud
            && next == Next::At(0)
            && matches!(&body, Err(error) if error.downcast_ref::<NotFound>().is_some())
        {
            cloud = false;
            body = jira_page(client, &base, &jql, &next, cloud).await;
        }
        let body = body?;
        issues.extend(import::jira(&body, base.as_str()).map_err(Refused)?);
        next = import::jira_next(&body);
        if next == Next::End {
            break;
        }
    }
    Ok(issues)
}

async fn jira_page(
    client: &Client,
    base: &Url,
    jql: &str,
    next: &Next,
    cloud: bool,
) -> anyhow::Result<Value> {
    let mut url = base.clone();
    let path: &[&str] = if cloud {
        &["rest", "api", "3", "search", "jql"]
    } else {
        &["rest", "api", "2", "search"]
    };
    url.path_segments_mut()
        .map_err(|()| Misused("the address cannot be used".to_owned()))?
        .pop_if_empty()
        .extend(path);
    url.query_pairs_mut()
        .append_pair("jql", jql)
        .append_pair("maxResults", "100")
        .append_pair("fields", "summary,description,labels,priority");
    let (name, value) = match next {
        Next::Token(token) => ("nextPageToken", token.clone()),
        Next::At(start) => ("startAt", start.to_string()),
        Next::End => ("startAt", "0".to_owned()),
    };
    if value != "0" {
        url.query_pairs_mut().append_pair(name, &value);
    }
    let mut request = client.get(url).header("Accept", "application/json");
    if let (Some(email), Some(token)) = (env("JIRA_EMAIL"), env("JIRA_API_TOKEN")) {
        request = request.basic_auth(email, Some(token));
    } else if let Some(token) = env("JIRA_TOKEN") {
        request = request.bearer_auth(token);
    }
    Ok(answer(request).await?.0)
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the tracker answered 404: there is no such project or repository, or the token may not see it"
)]
struct NotFound;

/// The JSON of an answer, and whether its `Link` header names a next page.
async fn answer(request: reqwest::RequestBuilder) -> anyhow::Result<(Value, bool)> {
    let mut response = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = response.status();
    let more = response
        .headers()
        .get("link")
        .and_then(|link| link.to_str().ok())
        .is_some_and(|link| link.contains("rel=\"next\""));
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        body.extend_from_slice(&chunk);
        if body.len() > PAGE_MAX {
            return Err(
                Refused(format!("the tracker's answer has more than {PAGE_MAX} bytes")).into()
            );
        }
    }
    if status == StatusCode::NOT_FOUND {
        return Err(NotFound.into());
    }
    if !status.is_success() {
        let said = crate::model::clip(&String::from_utf8_lossy(&body), 200);
        let hint = if matches!(status.as_u16(), 401 | 403) {
            "; is the token in the environment and allowed to read issues?"
        } else {
            ""
        };
        return Err(Refused(format!("the tracker answered {status}: {said}{hint}")).into());
    }
    let value = serde_json::from_slice(&body)
        .map_err(|error| Refused(format!("the tracker's answer is not JSON: {error}")))?;
    Ok((value, more))
}

/// Tokens travel over TLS, or not beyond this machine.
fn base(flag: Option<&str>, name: &str, usual: Option<&str>) -> anyhow::Result<Url> {
    let text = flag.map(str::to_owned).or_else(|| env(name)).or_else(|| usual.map(str::to_owned));
    let text = text.ok_or_else(|| Misused(format!("where is it? --url, or ${name}")))?;
    let url = Url::parse(&text)
        .map_err(|error| Misused(format!("`{text}` is not an address: {error}")))?;
    let local = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    if url.scheme() == "https" || (url.scheme() == "http" && local) {
        Ok(url)
    } else {
        Err(Misused(format!("`{text}` is not https; a token would travel in the clear")).into())
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
