//! Buttons that act: each carries a number of its own and a signature for exactly this act on exactly this thing.

use crate::token::Key;
use maud::{Markup, html};

/// Makes the forms of one page. Without a key the page only shows.
pub(crate) struct Forms {
    key: Option<Key>,
    back: String,
}

/// What a button does.
pub(crate) struct Order<'a> {
    pub(crate) repo: &'a str,
    pub(crate) verb: &'a str,
    pub(crate) target: &'a str,
    pub(crate) option: &'a str,
}

/// How it looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Main,
    Quiet,
    /// It ends something.
    Grave,
}

/// A field for words of the owner's.
#[derive(Clone, Copy)]
pub(crate) enum Words<'a> {
    None,
    /// The label.
    Optional(&'a str),
    Required(&'a str),
}

impl Forms {
    pub(crate) fn new(key: Option<Key>, back: String) -> Self {
        Self { key, back }
    }

    pub(crate) fn may_act(&self) -> bool {
        self.key.is_some()
    }

    pub(crate) fn button(
        &self,
        order: &Order<'_>,
        label: &str,
        look: Look,
        words: Words<'_>,
    ) -> Markup {
        let Some(key) = &self.key else { return html! {} };
        let request = uuid::Uuid::new_v4().to_string();
        let Order { repo, verb, target, option } = *order;
        let csrf = key.sign(&[&request, repo, verb, target, option]);
        let class = match look {
            Look::Main => "main",
            Look::Quiet => "quiet",
            Look::Grave => "grave",
        };
        let id = format!("w-{}", &request[..8]);
        html! {
            form method="post" action="/act" autocomplete="off" {
                @for (name, value) in [("repo", repo), ("do", verb), ("target", target), ("option", option), ("request", &request), ("csrf", &csrf), ("back", &self.back)] {
                    input type="hidden" name=(name) value=(value);
                }
                @match words {
                    Words::None => {},
                    Words::Optional(label) => { label .hidden for=(id) { (label) } input .words id=(id) name="text" type="text" maxlength="4000" placeholder=(label); },
                    Words::Required(label) => { label .hidden for=(id) { (label) } input .words id=(id) name="text" type="text" maxlength="4000" placeholder=(label) required; },
                }
                button .(class) type="submit" data-verb=(verb) { (label) }
            }
        }
    }
}
