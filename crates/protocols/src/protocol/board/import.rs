//! Issues of other trackers as tasks (spec 2 §22.7): their real JSON read, what is not wanted left out. It fetches nothing.

use super::task::Priority;
use crate::model::clip;
use serde_json::Value;

/// One issue, as a task will tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub title: String,
    pub body: String,
    pub labels: Vec<String>,
    pub priority: Priority,
    /// By which it is known again: the name and value of the reference, and its address.
    pub reference: (String, String),
    pub url: String,
}

const BODY_MAX: usize = 60_000;

/// A page of `GET /repos/{owner}/{repo}/issues`: pull requests are issues there too, and are left out.
pub fn github(page: &Value) -> Result<Vec<Issue>, String> {
    let issues = page.as_array().ok_or("the answer is not a list of issues")?;
    let issues = issues.iter().filter(|issue| issue.get("pull_request").is_none());
    issues.map(github_issue).collect()
}

fn github_issue(issue: &Value) -> Result<Issue, String> {
    let number = issue["number"].as_u64().ok_or("an issue has no number")?;
    let labels = issue["labels"].as_array().into_iter().flatten();
    // Labels are objects, or plain texts in old answers.
    let labels: Vec<String> = labels
        .filter_map(|label| label["name"].as_str().or_else(|| label.as_str()))
        .map(|name| clip(name, 80))
        .collect();
    Ok(Issue {
        title: title(issue["title"].as_str(), &format!("Issue {number}")),
        body: cut(issue["body"].as_str().unwrap_or_default()),
        priority: priority(labels.iter().map(String::as_str)),
        labels,
        reference: ("github_issue".to_owned(), format!("#{number}")),
        url: clip(issue["html_url"].as_str().unwrap_or_default(), 500),
    })
}

/// A page of Jira's search, of Cloud (`/rest/api/3/search/jql`) and Data Center (`/rest/api/2/search`).
pub fn jira(page: &Value, base: &str) -> Result<Vec<Issue>, String> {
    let issues = page["issues"].as_array().ok_or("the answer has no list of issues")?;
    issues.iter().map(|issue| jira_issue(issue, base)).collect()
}

fn jira_issue(issue: &Value, base: &str) -> Result<Issue, String> {
    let key = issue["key"].as_str().ok_or("an issue has no key")?;
    let fields = &issue["fields"];
    let labels = fields["labels"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let description = &fields["description"];
    let body = description.as_str().map_or_else(|| plain_text(description), str::to_owned);
    Ok(Issue {
        title: title(fields["summary"].as_str(), key),
        body: cut(&body),
        labels: labels.map(|label| clip(label, 80)).collect(),
        priority: priority(fields["priority"]["name"].as_str().into_iter()),
        reference: ("jira".to_owned(), clip(key, 80)),
        url: format!("{}/browse/{}", base.trim_end_matches('/'), clip(key, 80)),
    })
}

/// Where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Token(String),
    At(u64),
    End,
}

pub fn jira_next(page: &Value) -> Next {
    if let Some(token) = page["nextPageToken"].as_str().filter(|_| page["isLast"] != true) {
        return Next::Token(token.to_owned());
    }
    let number = |name: &str| page[name].as_u64();
    let got = page["issues"].as_array().map_or(0, Vec::len) as u64;
    match (number("startAt"), number("total")) {
        (Some(start), Some(total)) if got > 0 && start + got < total => Next::At(start + got),
        _ => Next::End,
    }
}

/// Atlassian's document format as plain text.
fn plain_text(node: &Value) -> String {
    let mut text = String::new();
    let mut open = vec![(node, 0_usize)];
    while let Some((node, depth)) = open.pop() {
        if let Some(words) = node["text"].as_str() {
            text.push_str(words);
        }
        if matches!(node["type"].as_str(), Some("paragraph" | "heading" | "listItem" | "codeBlock"))
            && !text.is_empty()
        {
            text.push('\n');
        }
        if depth < 64 && text.len() < BODY_MAX {
            let inner = node["content"].as_array().into_iter().flatten();
            open.extend(inner.rev().map(|inner| (inner, depth + 1)));
        }
    }
    text.trim().to_owned()
}

/// JQL for one project, and one status if that is wanted; quoted, so that no value is a clause.
pub fn jql(project: &str, status: Option<&str>) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let status =
        status.map(|status| format!(" AND status = {}", quoted(status))).unwrap_or_default();
    format!("project = {}{status} ORDER BY created ASC", quoted(project))
}

fn title(found: Option<&str>, otherwise: &str) -> String {
    let text = clip(found.unwrap_or_default().trim(), 200);
    if text.trim().is_empty() { otherwise.to_owned() } else { text.trim().to_owned() }
}

fn cut(text: &str) -> String {
    let mut end = BODY_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn priority<'a>(words: impl Iterator<Item = &'a str>) -> Priority {
    let known = |word: &str| match word.to_ascii_lowercase().as_str() {
        "p0" | "highest" | "blocker" | "critical" => Some(Priority::P0),
        "p1" | "high" => Some(Priority::P1),
        "p3" | "low" | "lowest" => Some(Priority::P3),
        _ => None,
    };
    words.filter_map(known).min().unwrap_or(Priority::P2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // covers: AG-23
    #[test]
    fn the_trackers_real_shapes_are_read() {
        let page = json!([
            {"number": 123, "title": "Login: \"fails\"\n", "body": "It\nfails", "html_url": "https://x/123", "labels": [{"name": "agency"}, {"name": "P1"}]},
            {"number": 124, "title": "a pull request", "pull_request": {}, "labels": []},
            {"number": 125, "title": null, "body": null, "labels": []},
        ]);
        let issues = github(&page).unwrap();
        assert_eq!(issues.len(), 2);
        assert_eq!(
            (issues[0].title.as_str(), issues[0].priority),
            ("Login: \"fails\"", Priority::P1)
        );
        assert_eq!(issues[0].reference, ("github_issue".to_owned(), "#123".to_owned()));
        assert_eq!(issues[1].title, "Issue 125");
        let document = json!({"type": "doc", "content": [
            {"type": "paragraph", "content": [{"type": "text", "text": "first"}]},
            {"type": "paragraph", "content": [{"type": "text", "text": "second"}]}]});
        let page = json!({"issues": [{"key": "PROJ-456", "fields": {"summary": "S", "description": document, "labels": ["x"], "priority": {"name": "Highest"}}}], "nextPageToken": "t", "isLast": false});
        let issues = jira(&page, "https://j/").unwrap();
        assert_eq!(
            (issues[0].url.as_str(), issues[0].priority),
            ("https://j/browse/PROJ-456", Priority::P0)
        );
        assert_eq!(issues[0].body, "first\nsecond");
        assert_eq!(jira_next(&page), Next::Token("t".to_owned()));
        assert_eq!(jira_next(&json!({"startAt": 0, "total": 3, "issues": [1, 2]})), Next::At(2));
        assert_eq!(jira_next(&json!({"isLast": true, "issues": []})), Next::End);
        assert_eq!(
            jql("P\" OR x", Some("To Do")),
            "project = \"P\\\" OR x\" AND status = \"To Do\" ORDER BY created ASC"
        );
    }
}
