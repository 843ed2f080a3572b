//! Typed memory. A protocol lists what it remembers in one enum with `memos!`, and its decisions are [`Draft`]s that remember
//! nothing else, so a misspelt name does not compile. In the journal a memo is still a name and a JSON value.

use crate::model::{Builder, Decision, Effect, Fact, Key, Memo, Rejection, RowId};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::marker::PhantomData;

/// An enum of memos, as `memos!` makes it.
pub trait Remember: Sized {
    fn into_memo(self) -> Memo;

    /// # Panics
    /// An unknown or unreadable memo means that this version cannot know the truth: freezing is right, guessing is not.
    fn from_memo(memo: &Memo) -> Self;
}

/// A decision that is being made.
#[derive(Debug)]
pub struct Draft<M> {
    builder: Builder,
    memos: PhantomData<M>,
}

impl<M: Remember> Draft<M> {
    /// `number` counts the decisions of this protocol in this repository, so that keys are unique and repeatable.
    pub fn new(protocol: &str, number: u64) -> Self {
        Self { builder: Builder::new(protocol, number), memos: PhantomData }
    }

    /// The key of the decision as a whole.
    pub fn key(&self) -> &str {
        self.builder.key()
    }

    pub fn row(&mut self, row: RowId) -> &mut Self {
        self.builder.row(row);
        self
    }

    pub fn reject(&mut self, rejection: Rejection) -> &mut Self {
        self.builder.reject(rejection);
        self
    }

    pub fn effect(&mut self, effect: Effect) -> &mut Self {
        self.builder.effect(effect);
        self
    }

    pub fn effects(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.builder.effects(effects);
    }

    /// SE-04: every verb that loosens something is told to the owner, on every channel.
    pub fn announce(&mut self, verb: &str, text: &str) -> &mut Self {
        self.builder.announce(verb, text);
        self
    }

    pub fn used(&mut self, key: Key, fact: Fact) -> &mut Self {
        self.builder.used(key, fact);
        self
    }

    pub fn remember(&mut self, memo: M) -> &mut Self {
        self.builder.memo(memo.into_memo());
        self
    }

    pub fn finish(self) -> Decision {
        self.builder.finish()
    }
}

/// For `memos!`: a value, or `None` to forget it.
pub fn to_memo(name: &str, key: Option<&str>, value: Option<impl Serialize>) -> Memo {
    let name = key.map_or_else(|| name.to_owned(), |key| format!("{name}/{key}"));
    let json = |value| serde_json::to_value(value).expect("BUG: memory must be plain data");
    Memo { name, value: value.map(json) }
}

/// For `memos!`.
pub fn read_memo<T: DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    value.map(|value| T::deserialize(value).expect("BUG: a memo in the journal must be readable"))
}

/// Declares everything that a protocol remembers: `one` value under a name, or one `each` for any number of keys. `None` forgets.
#[macro_export]
macro_rules! memos {
    (
        $(#[$about:meta])*
        $seen:vis enum $memo:ident {
            one { $($(#[$one_about:meta])* $one:ident($one_name:literal): $one_type:ty,)* }
            each { $($(#[$each_about:meta])* $each:ident($each_name:literal): $each_type:ty,)* }
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        $seen enum $memo {
            $($(#[$one_about])* $one(Option<$one_type>),)*
            $($(#[$each_about])* $each(String, Option<$each_type>),)*
        }

        impl $crate::engine::Remember for $memo {
            fn into_memo(self) -> $crate::model::Memo {
                match self {
                    $(Self::$one(value) => $crate::engine::to_memo($one_name, None, value),)*
                    $(Self::$each(key, value) => $crate::engine::to_memo($each_name, Some(&key), value),)*
                }
            }

            fn from_memo(memo: &$crate::model::Memo) -> Self {
                let value = memo.value.as_ref();
                match memo.name.split_once('/').unwrap_or((&memo.name, "")) {
                    $(($one_name, _) => Self::$one($crate::engine::read_memo(value)),)*
                    $(($each_name, key) => Self::$each(key.to_owned(), $crate::engine::read_memo(value)),)*
                    (other, _) => panic!("BUG: this version does not know the memo `{other}`"),
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    memos! {
        /// Two kinds of memory.
        enum Known {
            one { Count("count"): u64, }
            each { File("file"): String, }
        }
    }

    // covers: DM-08
    #[test]
    fn a_memo_is_a_name_and_a_value_in_the_journal_and_comes_back_typed() {
        let memo = Known::File("a/b".to_owned(), Some("x".to_owned())).into_memo();
        assert_eq!((memo.name.as_str(), &memo.value), ("file/a/b", &Some("x".into())));
        assert!(matches!(Known::from_memo(&memo), Known::File(key, Some(_)) if key == "a/b"));
        let gone = Known::Count(None).into_memo();
        assert_eq!((gone.name.as_str(), &gone.value), ("count", &None));
        assert!(matches!(Known::from_memo(&gone), Known::Count(None)));
    }

    #[test]
    #[should_panic(expected = "does not know the memo `later`")]
    fn a_memo_of_a_later_version_freezes() {
        Known::from_memo(&Memo { name: "later".to_owned(), value: None });
    }
}
