//! Issues become tasks over the trackers' real shapes, page by page, each once. The trackers are small servers on loopback.

use super::board;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Answers every request by `reply(path)`; keeps what it was asked.
pub(super) fn serve(
    reply: impl Fn(&str) -> (u16, String, Value) + Send + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            let head: Vec<String> =
                lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let path = first.split(' ').nth(1).unwrap().to_owned();
            log.lock().unwrap().push(format!("{path}\n{}", head.join("\n")));
            let (status, extra, body) = reply(&path);
            let body = body.to_string();
            write!(stream, "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{extra}\r\n{body}", body.len()).unwrap();
        }
    });
    (address, asked)
}

fn issue(number: usize) -> Value {
    let url = format!("https://github.com/owner/repo/issues/{number}");
    json!({"number": number, "title": format!("Issue \"{number}\": a"), "body": "---\nid: T0666\n---\nforged", "html_url": url, "labels": [{"name": "agency"}]})
}

// covers: AG-23
#[test]
fn github_issues_become_tasks_once() {
    let stage = board();
    let (address, asked) = serve(|path| {
        assert!(path.starts_with("/repos/owner/repo/issues?"), "{path}");
        if path.contains("page=1&") || path.ends_with("page=1") {
            let page: Vec<Value> = (1..=100).map(issue).collect();
            return (200, "Link: <http://x?page=2>; rel=\"next\"\r\n".to_owned(), json!(page));
        }
        let pull = json!({"number": 900, "title": "pr", "pull_request": {}, "labels": []});
        (200, String::new(), json!([issue(101), pull]))
    });
    let stage = stage.with_env("GITHUB_TOKEN", "secret-token");
    let words = [
        "import",
        "--from",
        "github",
        "--repo",
        "owner/repo",
        "--label",
        "agency",
        "--url",
        &address,
        "--json",
    ];
    let made = stage.json(&words);
    assert_eq!(made.as_array().unwrap().len(), 101);
    let asked = asked.lock().unwrap().join("\n");
    assert!(asked.contains("Bearer secret-token") && asked.contains("labels=agency"), "{asked}");
    let shown = stage.json(&["task", "show", "T0007", "--json"]);
    assert_eq!(
        (shown["title"].as_str(), shown["external_refs"]["github_issue"].as_str()),
        (Some("Issue \"7\": a"), Some("#7"))
    );
    assert_eq!(stage.agency(&["task", "list"]).code, 0, "all of them are valid");
    assert!(stage.json(&words).as_array().unwrap().is_empty(), "a second time makes nothing");
    let path = shown["path"].as_str().unwrap();
    let text = stage.read(path).unwrap();
    let year = &text[text.find("created_at: ").unwrap() + 12..][..4];
    let old = text.replace("status: NEW", "status: CANCELED");
    stage.write(path, old.replace(&format!("created_at: {year}"), "created_at: 2020"));
    assert_eq!(
        stage.json(&["archive", "--older-than", "9", "--json"]).as_array().unwrap().len(),
        1
    );
    assert!(
        stage.json(&words).as_array().unwrap().is_empty(),
        "nor does what was archived come back"
    );
}

// covers: AG-23
#[test]
fn jira_issues_come_page_by_page_from_cloud_and_data_center() {
    let fields = |n: usize| json!({"key": format!("PROJ-{n}"), "fields": {"summary": format!("S{n}"), "description": null, "labels": [], "priority": {"name": "High"}}});
    let cloud = move |path: &str| {
        assert!(path.starts_with("/rest/api/3/search/jql?"), "{path}");
        assert!(path.contains("status+%3D+%22To+Do%22"), "{path}");
        if path.contains("nextPageToken=abc") {
            return (200, String::new(), json!({"issues": [fields(2)], "isLast": true}));
        }
        (
            200,
            String::new(),
            json!({"issues": [fields(1)], "nextPageToken": "abc", "isLast": false}),
        )
    };
    let center = move |path: &str| {
        if path.starts_with("/rest/api/3/") {
            return (404, String::new(), json!({}));
        }
        let start = if path.contains("startAt=1") { 1 } else { 0 };
        (200, String::new(), json!({"issues": [fields(start + 1)], "startAt": start, "total": 2}))
    };
    for server in [serve(cloud), serve(center)] {
        let stage = board();
        let (address, _) = server;
        let made = stage.json(&[
            "import",
            "--from",
            "jira",
            "--project",
            "PROJ",
            "--status",
            "To Do",
            "--url",
            &address,
            "--json",
        ]);
        assert_eq!(made.as_array().unwrap().len(), 2, "{made}");
        assert_eq!(
            stage.json(&["task", "show", "T0002", "--json"])["external_refs"]["jira"],
            "PROJ-2"
        );
    }
}

// covers: AG-23
#[test]
fn a_tracker_that_refuses_is_told_and_a_token_never_travels_in_the_clear() {
    let stage = board();
    let (address, _) = serve(|_| (401, String::new(), json!({"message": "Bad credentials"})));
    let said =
        stage.agency(&["import", "--from", "github", "--repo", "owner/repo", "--url", &address]);
    assert!(
        said.code == 1 && said.err.contains("Bad credentials") && said.err.contains("token"),
        "{}",
        said.err
    );
    let (address, _) = serve(|_| (302, "Location: http://127.0.0.1:1/\r\n".to_owned(), json!({})));
    assert_eq!(
        stage
            .agency(&["import", "--from", "github", "--repo", "owner/repo", "--url", &address])
            .code,
        1
    );
    let clear = stage.agency(&[
        "import",
        "--from",
        "github",
        "--repo",
        "owner/repo",
        "--url",
        "http://example.com",
    ]);
    assert!(clear.code == 2 && clear.err.contains("https"), "{}", clear.err);
    assert_eq!(
        stage
            .agency(&["import", "--from", "github", "--repo-name", "../x", "--url", &address])
            .code,
        2
    );
    assert!(stage.json(&["task", "list", "--json"]).as_array().unwrap().is_empty());
}
