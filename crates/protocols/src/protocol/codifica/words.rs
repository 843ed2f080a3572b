//! The closed words of the task model (spec 3 §5), each an enum. What an owner's own types are called is open.

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($variant),+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            pub fn read(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.word() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

words!(
    /// Where a task stands.
    State {
        Todo = "todo",
        InProgress = "in_progress",
        ToBeTested = "to_be_tested",
        Done = "done",
        Blocked = "blocked",
        Rejected = "rejected",
    }
);
words!(
    /// Most urgent first.
    Priority { Critical = "critical", High = "high", Normal = "normal", Low = "low" }
);
words!(
    /// What a human found.
    Verdict { Pass = "pass", NeedsWork = "needs_work", Blocked = "blocked" }
);

impl State {
    /// Nothing follows by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Rejected)
    }
}

/// What kind of work a task is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Build,
    Test,
    Review,
    Investigate,
    Followup,
    /// One of `custom_types`; it follows `build` (spec 3 §6).
    Custom(String),
}

impl Kind {
    pub const BUILT_IN: [Self; 5] =
        [Self::Build, Self::Test, Self::Review, Self::Investigate, Self::Followup];

    pub fn word(&self) -> &str {
        match self {
            Self::Build => "build",
            Self::Test => "test",
            Self::Review => "review",
            Self::Investigate => "investigate",
            Self::Followup => "followup",
            Self::Custom(word) => word,
        }
    }

    /// Whether it is among the owner's types is for the rules to say.
    pub fn read(word: &str) -> Self {
        let built_in = Self::BUILT_IN.into_iter().find(|kind| kind.word() == word);
        built_in.unwrap_or_else(|| Self::Custom(word.to_owned()))
    }

    /// Acceptance criteria are needed and `to_be_tested` is not skipped.
    pub fn follows_build(&self) -> bool {
        match self {
            Self::Build | Self::Custom(_) => true,
            Self::Test | Self::Review | Self::Investigate | Self::Followup => false,
        }
    }
}

/// Who has a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    Human,
    /// The name without `agent:`.
    Agent(String),
    Unassigned,
}

impl Owner {
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "human" => Some(Self::Human),
            "unassigned" => Some(Self::Unassigned),
            _ => agent_name(word).map(Self::Agent),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Human => f.write_str("human"),
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::Unassigned => f.write_str("unassigned"),
        }
    }
}

/// Who does something to a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    Human,
    /// The name without `agent:`.
    Agent(String),
    /// An agent or a human: nobody can tell. Only what is wrong for both is held against them.
    Someone,
}

/// The daemon's own name in state files (CD-24).
pub const OURSELVES: &str = "agency";

impl Actor {
    /// `human` or `agent:<name>`.
    pub fn read(word: &str) -> Option<Self> {
        if word == "human" { Some(Self::Human) } else { agent_name(word).map(Self::Agent) }
    }

    pub fn is_agent(&self) -> bool {
        matches!(self, Self::Agent(_))
    }

    /// The owner that this actor can be.
    pub fn owns(&self, owner: &Owner) -> bool {
        match (self, owner) {
            (Self::Human, Owner::Human) => true,
            (Self::Agent(name), Owner::Agent(owner)) => name == owner,
            (Self::Someone, Owner::Human | Owner::Agent(_)) => true,
            (Self::Human | Self::Agent(_) | Self::Someone, _) => false,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Human => f.write_str("human"),
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::Someone => f.write_str("agent or human"),
        }
    }
}

/// The name in `agent:<name>`, if it is one.
pub fn agent_name(word: &str) -> Option<String> {
    word.strip_prefix("agent:").filter(|name| is_name(name)).map(str::to_owned)
}

/// Names and ids that may stand in files, on command lines and in paths (SE-02).
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 100
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !text.contains("..")
        && !text.ends_with('.')
        && !text.ends_with(".lock")
}
