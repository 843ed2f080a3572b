//! The files by which a machine starts us: units, property list, container. Each is judged by its own reader where there is one,
//! and by a strict one of ours where there is none.

use super::stage::{HONEST, Stage};
use crate::scenarios::root;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// What the hardening that agents allow comes to; less is better, systemd calls 5 the middle.
const EXPOSURE_MAX: f64 = 3.8;

/// Where the tool is missing there is nothing to judge with, and the test says so.
const NONE: &str = "skipped: there is no systemd-analyze here (Debian: apt-get install systemd)";

fn systemd(words: &[&str], file: &Path) -> Option<Output> {
    let mut command = Command::new("systemd-analyze");
    command.args(words).arg(file).env("XDG_RUNTIME_DIR", file.parent()?).output().ok()
}

fn unit(stage: &Stage, words: &[&str]) -> (String, std::path::PathBuf) {
    let text = stage.ok(&[&["service", "install", "--print"], words].concat());
    let file = stage.at("agency.service");
    fs::write(&file, &text).unwrap();
    (text, file)
}

// covers: OP-03
#[test]
fn the_units_are_what_systemd_takes() {
    let stage = Stage::new(HONEST);
    let places: [(&[&str], &str); 2] =
        [(&["--system", "--user", "root"], "--system"), (&[], "--user")];
    for (words, manager) in places {
        let (text, file) = unit(&stage, words);
        for line in ["Type=notify", "KillMode=process", "Delegate=yes", "WatchdogSec=120"] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let Some(output) = systemd(&[manager, "verify", "--man=no"], &file) else {
            return eprintln!("{NONE}");
        };
        let said = String::from_utf8_lossy(&output.stderr);
        let about_us: Vec<_> = said.lines().filter(|line| line.contains("agency")).collect();
        assert!(about_us.is_empty(), "{about_us:?}");
    }
}

/// `SystemCallFilter=~@mount` is two words, and one comment must have both.
fn is_explained(reasons: &[String], name: &str) -> bool {
    let mut words = name.split_inclusive('=').flat_map(|word| word.split('/'));
    words.all(|word| reasons.iter().any(|reason| reason.contains(word)))
        && reasons.iter().any(|reason| {
            let (directive, value) = name.split_once("=~").unwrap_or((name, ""));
            reason.contains(directive.split('/').next().unwrap()) && reason.contains(value)
        })
}

// covers: OP-03
#[test]
fn what_the_security_report_still_marks_has_its_reason_in_the_unit() {
    let stage = Stage::new(HONEST);
    let (text, file) = unit(&stage, &["--system"]);
    let words = ["security", "--offline=true", "--no-pager", "--json=short"];
    let Some(output) = systemd(&words, &file) else { return eprintln!("{NONE}") };
    let Ok(Value::Array(lines)) = serde_json::from_slice(&output.stdout) else {
        return eprintln!("skipped: this systemd-analyze does not judge a file (250 does)");
    };
    // A reason begins at a dash and may go on for some lines.
    let comments = text.lines().filter_map(|line| line.strip_prefix('#'));
    let joined = comments.collect::<Vec<_>>().join("\n");
    let reasons: Vec<String> = joined.split("\n - ").skip(1).map(str::to_owned).collect();
    let marked = |line: &&Value| line["exposure"].is_string();
    let mut open = lines.iter().filter(marked).map(|line| line["name"].as_str().unwrap());
    let missing: Vec<_> = open.by_ref().filter(|name| !is_explained(&reasons, name)).collect();
    assert!(missing.is_empty(), "no reason in systemd/agency.service for {missing:?}");
    let said = systemd(&words[..3], &file).unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let verdict = said.lines().find(|line| line.contains("exposure level")).unwrap();
    let exposure = verdict.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    eprintln!("{verdict}");
    assert!(exposure <= EXPOSURE_MAX, "{said}");
}

/// One value of a property list; the reader stands behind its opening tag.
fn plist_value(tag: &str, rest: &mut &str) -> Value {
    match tag {
        "true/" => Value::Bool(true),
        "false/" => Value::Bool(false),
        "string" | "integer" | "key" => {
            let (text, after) = rest.split_once(&format!("</{tag}>")).expect("a closing tag");
            *rest = after;
            assert!(!text.contains('<'), "{text}");
            if tag == "integer" { text.parse::<i64>().unwrap().into() } else { text.into() }
        }
        "array" => {
            let mut items = Vec::new();
            loop {
                match plist_tag(rest) {
                    "/array" => return items.into(),
                    tag => items.push(plist_value(tag, rest)),
                }
            }
        }
        "dict" => {
            let mut entries = Map::new();
            loop {
                match plist_tag(rest) {
                    "/dict" => return entries.into(),
                    "key" => {
                        let name = plist_value("key", rest).as_str().unwrap().to_owned();
                        let tag = plist_tag(rest);
                        let value = plist_value(tag, rest);
                        assert!(entries.insert(name, value).is_none(), "a key twice");
                    }
                    other => panic!("<{other}> where a key belongs"),
                }
            }
        }
        other => panic!("<{other}> is no value"),
    }
}

/// The next tag; comments and space are passed over.
fn plist_tag<'a>(rest: &mut &'a str) -> &'a str {
    loop {
        *rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("<!--") {
            *rest = comment.split_once("-->").expect("the end of a comment").1;
            continue;
        }
        let (tag, after) = rest.strip_prefix('<').and_then(|at| at.split_once('>')).expect("a tag");
        *rest = after;
        return tag;
    }
}

// covers: OP-03
#[test]
fn the_property_list_says_what_launchd_needs() {
    let text = fs::read_to_string(root("systemd/dev.agency.daemon.plist")).unwrap();
    let mut rest = text.split_once("-//Apple//DTD PLIST 1.0//EN").unwrap().1;
    rest = rest.split_once('>').unwrap().1;
    assert_eq!(plist_tag(&mut rest), "plist version=\"1.0\"");
    let tag = plist_tag(&mut rest);
    let list = plist_value(tag, &mut rest);
    assert_eq!((plist_tag(&mut rest), rest.trim()), ("/plist", ""));
    assert_eq!(list["ProgramArguments"], serde_json::json!(["/usr/bin/agency", "run"]));
    assert_eq!(list["Label"], "dev.agency.daemon");
    assert_eq!(list["AbandonProcessGroup"], true, "runs outlive a restart there too");
    assert_eq!(list["KeepAlive"]["SuccessfulExit"], false, "a stop is a stop");
    assert_eq!(list["Umask"], 0o077);
}

/// A line of a container file, continued lines joined: its word and the rest.
fn instructions(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let split = |line: &str| line.split_once(' ').map(|(word, rest)| (word.into(), rest.into()));
    lines.map(|line| split(line).unwrap_or_else(|| panic!("`{line}` is no instruction"))).collect()
}

// covers: OP-03
#[test]
fn the_container_is_built_from_what_is_there_and_runs_as_nobody_special() {
    let text = fs::read_to_string(root("examples/container/Containerfile")).unwrap();
    let lines = instructions(&text);
    let of = |word: &str| {
        lines.iter().filter(|(found, _)| found == word).map(|(_, rest)| rest.as_str()).collect()
    };
    let (images, commands, users): (Vec<&str>, Vec<&str>, Vec<&str>) =
        (of("FROM"), of("RUN"), of("USER"));
    assert!(images.iter().all(|image| image.contains(':') && !image.contains("latest")));
    assert_eq!(users, ["agency"], "not as root");
    for command in commands.iter().filter(|command| command.contains("apt-get install")) {
        assert!(command.contains("rm -rf /var/lib/apt/lists/*"), "{command}");
    }
    for rest in [of("ENTRYPOINT"), of("CMD")].concat() {
        assert!(serde_json::from_str::<Vec<String>>(rest).is_ok(), "`{rest}` goes to a shell");
    }
    let mut copied: Vec<&str> = Vec::new();
    for line in of("COPY").iter().filter(|line| !line.starts_with("--from")) {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.pop();
        copied.extend(words);
    }
    assert!(copied.iter().all(|word| root(word).exists()), "{copied:?}");
    // What the build reads: every target of the manifest, and every file that the program has inside.
    let manifest = fs::read_to_string(root("Cargo.toml")).unwrap();
    assert!(manifest.contains("[[bench]]") == copied.contains(&"benches"));
    assert!(root("build.rs").exists() == copied.contains(&"build.rs"));
    for inside in super::super::tidy::included() {
        let path = inside.strip_prefix(root("")).unwrap();
        assert!(copied.iter().any(|dir| path.starts_with(dir)), "{} is missing", path.display());
    }
    let compose = fs::read_to_string(root("examples/container/compose.yaml")).unwrap();
    let compose: Value = serde_saphyr::from_str(&compose).unwrap();
    assert_eq!(compose["services"]["agency"]["init"], true);
    assert_eq!(compose["services"]["agency"]["cap_drop"], serde_json::json!(["ALL"]));
}

/// Where `AGENCY_TEST_ENGINE` names one (`podman`, `docker`): it takes images from the network, so nothing else asks for it.
// covers: OP-03
#[test]
fn the_container_builds_and_knows_its_version() {
    let Ok(engine) = std::env::var("AGENCY_TEST_ENGINE") else {
        return eprintln!("skipped: AGENCY_TEST_ENGINE names no engine; the file is only linted");
    };
    let run = |words: &[&str]| {
        let output = Command::new(&engine).args(words).current_dir(root("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["build", "-t", "agency-test", "-f", "examples/container/Containerfile", "."]);
    let said = run(&["run", "--rm", "agency-test", "--version"]);
    assert!(said.starts_with(concat!("agency ", env!("CARGO_PKG_VERSION"))), "{said}");
}
