//! The steps of a loop: from a list, or from a plan's headings (LP-24).

use crate::model::clip;

/// A step is a short word such as `5`, `6.5`, `11b` (LP-05).
pub(super) fn is_step(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 40
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        && word.chars().any(|c| c.is_ascii_alphanumeric())
        && !word.starts_with(['-', '.'])
}

/// `1,2,6.5`
pub(super) fn from_list(list: &str) -> Result<Vec<String>, String> {
    checked(list.split(',').map(|step| step.trim().to_owned()).collect())
}

/// `## Step <id>` headings, in their order; what follows the id is prose.
pub(super) fn from_plan(plan: &str) -> Result<Vec<String>, String> {
    let steps: Vec<String> = sections(plan).into_iter().map(|(step, _)| step).collect();
    if steps.is_empty() {
        return Err("the plan has no `## Step <id>` heading".to_owned());
    }
    checked(steps)
}

/// Each step's heading and what follows it, up to the next heading of its level or above (LP-32). A `#` in a fenced block
/// is not a heading.
pub(super) fn sections(plan: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let (mut fenced, mut open) = (false, false);
    for line in plan.trim_start_matches('\u{feff}').lines() {
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        fenced ^= is_fence;
        if !fenced && !is_fence && (line.starts_with("# ") || line.starts_with("## ")) {
            let step = line.strip_prefix("## Step ").map(id);
            open = step.is_some();
            found.extend(step.map(|step| (step, String::new())));
        }
        if let Some((_, text)) = found.last_mut().filter(|_| open) {
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

fn id(rest: &str) -> String {
    let word = rest.split_whitespace().next().unwrap_or_default();
    word.trim_end_matches([':', '.', ',']).to_owned()
}

fn checked(steps: Vec<String>) -> Result<Vec<String>, String> {
    for (at, step) in steps.iter().enumerate() {
        if !is_step(step) {
            return Err(format!(
                "`{}` is not a step; wanted a word such as 5, 6.5 or 11b",
                clip(step, 40)
            ));
        }
        if steps[..at].contains(step) {
            return Err(format!("step `{step}` is there twice"));
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_from_a_list() {
        assert_eq!(from_list("1, 2,6.5,11b").unwrap(), ["1", "2", "6.5", "11b"]);
        for bad in ["", "1,,2", "1,1", "a b", "../x", "-1", "."] {
            assert!(from_list(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn steps_come_from_a_plans_headings() {
        let plan = "# Plan\n## Step 1: the model\ntext\n### Step 9 is no step\n## Step 6.5\n## Step 11b - later\n";
        assert_eq!(from_plan(plan).unwrap(), ["1", "6.5", "11b"]);
        assert!(from_plan("# nothing").unwrap_err().contains("no `## Step"));
        let fenced = "\u{feff}## Step 1\n```sh\n## Step 2\n# a comment\n```\nmore\n# Notes\nnot part of it\n";
        let text = "## Step 1\n```sh\n## Step 2\n# a comment\n```\nmore\n";
        assert_eq!(sections(fenced), [("1".to_owned(), text.to_owned())]);
    }
}
