//! What is asked of a run, and how an agent's argv template becomes its argv. It starts nothing.

use super::profile::word;
use crate::config::{Price, Profile};
use crate::model::{RunId, Spawn, Timestamp, Usage};
use agency_supervisor::run_file::{Limits, RunFile, Stdin, VERSION};
use agency_supervisor::sandbox::Plan;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One argv string ends at 128 KiB; a longer prompt than this goes by way of its file.
const PROMPT_MAX: usize = 96 * 1024;

/// Everything the executor needs. The values of `env` reach the child, but no file.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    pub spawn: Spawn,
    pub repo: PathBuf,
    pub protocol: String,
    /// Already expanded.
    pub argv: Vec<String>,
    pub dir: PathBuf,
    pub stdin: Stdin,
    pub env: Vec<(String, String)>,
    pub limits: Limits,
    /// Whose output it will be; `None`: nobody's that we understand.
    pub profile: Option<Profile>,
    /// The agent's name in the configuration; `None`: a command line of the owner's.
    pub agent: Option<String>,
    pub model: Option<String>,
    pub price: Option<Price>,
    /// The owner's prices, where only the CLI can say which model works.
    pub prices: BTreeMap<String, Price>,
    /// What keeps the run in; `None`: nothing does.
    pub sandbox: Option<Plan>,
}

impl RunSpec {
    /// The intent of this run as its folder keeps it.
    pub(super) fn run_file(
        &self,
        prompt_file: &Path,
        beat_ms: u64,
        before: Option<Usage>,
        now: Timestamp,
    ) -> RunFile {
        let spawn = self.spawn.clone();
        RunFile {
            version: VERSION,
            run: spawn.run,
            argv: self.argv.clone(),
            dir: self.dir.clone(),
            env: self.env.iter().map(|(name, _)| name.clone()).collect(),
            limits: self.limits.clone(),
            beat_ms,
            repo: self.repo.clone(),
            protocol: self.protocol.clone(),
            seat: spawn.seat,
            role: spawn.role,
            task: spawn.task,
            phase: spawn.phase,
            why: spawn.why,
            prompt_file: (!spawn.prompt.is_empty()).then(|| prompt_file.to_owned()),
            stdin: self.stdin,
            intended_at: now,
            command: spawn.command.is_some(),
            profile: self.profile.map(|profile| word(profile).to_owned()),
            resume: spawn.resume,
            cgroup: None,
            before,
            access: spawn.access,
            agent: self.agent.clone(),
            model: self.model.clone(),
            price: self.price.map(|price| (price.input, price.output)),
            prices: self
                .prices
                .iter()
                .map(|(model, price)| (model.clone(), (price.input, price.output)))
                .collect(),
            sandbox: self.sandbox.clone(),
        }
    }
}

/// What a template's placeholders stand for.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    pub prompt: &'a str,
    pub prompt_file: &'a Path,
    pub repo: &'a Path,
    pub run: &'a RunId,
    pub task: &'a str,
}

impl Values<'_> {
    fn of(&self, name: &str) -> Option<String> {
        match name {
            "prompt" => Some(self.prompt_or_pointer()),
            "prompt_file" => Some(self.prompt_file.display().to_string()),
            "repo" => Some(self.repo.display().to_string()),
            "run" => Some(self.run.to_string()),
            "task" => Some(self.task.to_owned()),
            _ => None,
        }
    }

    fn prompt_or_pointer(&self) -> String {
        if self.prompt.len() <= PROMPT_MAX {
            return self.prompt.to_owned();
        }
        format!("Read and follow the instructions in {}", self.prompt_file.display())
    }
}

/// Fills in `{prompt}`, `{prompt_file}`, `{repo}`, `{run}` and `{task}`. One element stays one element, and what was
/// filled in is not looked at again. `{{` and unknown placeholders stay as they are.
pub fn expand(template: &[String], values: &Values<'_>) -> Vec<String> {
    template.iter().map(|element| expand_one(element, values)).collect()
}

fn expand_one(element: &str, values: &Values<'_>) -> String {
    let mut filled = String::with_capacity(element.len());
    let mut rest = element;
    while let Some(brace) = rest.find('{') {
        filled.push_str(&rest[..brace]);
        let (text, after) = placeholder(&rest[brace..], values);
        filled.push_str(&text);
        rest = after;
    }
    filled + rest
}

/// `text` begins with a brace: what stands for its beginning, and what follows that.
fn placeholder<'a>(text: &'a str, values: &Values<'_>) -> (String, &'a str) {
    if let Some(after) = text.strip_prefix("{{") {
        return ("{{".to_owned(), after);
    }
    let known = text[1..]
        .split_once('}')
        .and_then(|(name, after)| values.of(name).map(|value| (value, after)));
    known.unwrap_or_else(|| ("{".to_owned(), &text[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &[&str], prompt: &str) -> Vec<String> {
        let template: Vec<String> = template.iter().map(|&text| text.to_owned()).collect();
        let values = Values {
            prompt,
            prompt_file: Path::new("/s/prompt.md"),
            repo: Path::new("/r"),
            run: &RunId::new("run-1"),
            task: "6.5",
        };
        expand(&template, &values)
    }

    #[test]
    fn placeholders_are_filled_in_inside_an_element() {
        let argv = fill(&["a", "-C{repo}", "{run}/{task}", "{prompt_file}", "{prompt}"], "do it");
        assert_eq!(argv, ["a", "-C/r", "run-1/6.5", "/s/prompt.md", "do it"]);
    }

    // covers: SU-01
    #[test]
    fn a_prompt_is_never_split_and_never_expanded_again() {
        let prompt = "a b; rm -rf {repo} {task} $(x)\n--flag";
        assert_eq!(fill(&["x", "{prompt}", "{task}"], prompt), ["x", prompt, "6.5"]);
    }

    #[test]
    fn unknown_and_doubled_braces_stay() {
        for text in ["{nobody}", "{{prompt}}", "{", "}", "{}", "a{", "{ prompt }"] {
            assert_eq!(fill(&[text], "p"), [text]);
        }
        assert_eq!(fill(&["{x{prompt}"], "p"), ["{xp"]);
    }

    #[test]
    fn a_prompt_too_long_for_argv_points_to_its_file() {
        let most = "é".repeat(PROMPT_MAX / 2);
        assert_eq!(fill(&["{prompt}"], &most), std::slice::from_ref(&most));
        let pointer = "Read and follow the instructions in /s/prompt.md";
        assert_eq!(fill(&["{prompt}"], &format!("{most}x")), [pointer]);
    }
}
