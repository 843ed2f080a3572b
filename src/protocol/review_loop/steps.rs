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
    let ids = plan.lines().filter_map(|line| line.strip_prefix("## Step "));
    let id = |rest: &str| {
        let word = rest.split_whitespace().next().unwrap_or_default();
        word.trim_end_matches([':', '.', ',']).to_owned()
    };
    let steps: Vec<String> = ids.map(id).collect();
    if steps.is_empty() {
        return Err("the plan has no `## Step <id>` heading".to_owned());
    }
    checked(steps)
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
    }
}
