//! The branch of a task, from `branch_pattern`. Whatever a title says, the result is a name that git takes.

use super::task::Task;

/// Used where the owner named none, since our agents never work on somebody else's branch.
const DEFAULT: &str = "{type}/{id}-{slug}";
const SLUG_MAX: usize = 40;

/// Only our three variables, and otherwise only letters that every branch may hold.
pub(super) fn is_pattern(pattern: &str) -> bool {
    let rest = ["{type}", "{id}", "{slug}"]
        .iter()
        .fold(pattern.to_owned(), |rest, name| rest.replace(name, "x"));
    pattern.contains("{id}") && rest.len() <= 120 && rest.split('/').all(super::words::is_name)
}

pub fn branch(pattern: Option<&str>, task: &Task) -> String {
    let pattern = pattern.unwrap_or(DEFAULT);
    let named = pattern.replace("{type}", task.kind.word()).replace("{id}", &task.id);
    named.replace("{slug}", &slug(&task.title))
}

/// Lower case, digits and dashes; never empty.
pub fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= SLUG_MAX {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "task".to_owned() } else { slug.to_owned() }
}
