//! The words of the ledger (spec 5 §1, §2, §6), and the other spellings that are read but never written. It judges no file.

use serde::{Deserialize, Serialize};

/// An enum whose members are words of the files: the spec's own spelling is written, the others are only read.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal $(| $other:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $(#[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Also takes the spellings of the scripts in the wild.
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word $(| $other)* => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// All of them, for a refusal.
            pub fn list() -> String {
                Self::ALL.iter().map(|word| word.word()).collect::<Vec<_>>().join(", ")
            }
        }
    };
}

words!(
    /// Who runs a session; also the phases, since `current_phase` names the agent that runs next.
    AgentType {
        Initializer = "INITIALIZER" | "BROWNFIELD_INITIALIZER",
        Implement = "IMPLEMENT" | "BUGFIX",
        Review = "REVIEW",
        Fix = "FIX" | "GLOBAL_FIX",
        Architecture = "ARCHITECTURE",
    }
);

words!(
    /// How a session ended. SPEC GAP: §1 leaves `REJECTED` out, §6 has it.
    Outcome {
        Success = "SUCCESS" | "APPROVED",
        ReadyForReview = "READY_FOR_REVIEW",
        NeedsFix = "NEEDS_FIX" | "REQUEST_CHANGES" | "PASS_WITH_COMMENTS",
        Rejected = "REJECTED" | "REJECT",
        Error = "ERROR",
    }
);

words!(Verdict {
    Pass = "PASS" | "APPROVE" | "APPROVED",
    PassWithComments = "PASS_WITH_COMMENTS",
    RequestChanges = "REQUEST_CHANGES",
    Reject = "REJECT",
});

words!(
    /// The groups of a review's issues, the worst first.
    Severity {
        Critical = "critical",
        Major = "major",
        Minor = "minor",
        Suggestion = "suggestions" | "suggestion",
    }
);

words!(Health { Good = "GOOD", Fair = "FAIR", NeedsAttention = "NEEDS_ATTENTION" });

impl AgentType {
    /// DESIGN §10.
    pub fn role(self) -> &'static str {
        match self {
            Self::Initializer | Self::Implement => "builder",
            Self::Review | Self::Architecture => "reviewer",
            Self::Fix => "fixer",
        }
    }

    /// Spec 5 §6: the outcomes that a session of this agent may have.
    pub fn outcomes(self) -> &'static [Outcome] {
        match self {
            Self::Initializer | Self::Architecture => &[Outcome::Success, Outcome::Error],
            Self::Implement | Self::Fix => &[Outcome::ReadyForReview, Outcome::Error],
            Self::Review => {
                &[Outcome::Success, Outcome::NeedsFix, Outcome::Rejected, Outcome::Error]
            }
        }
    }

    /// The agent that runs after such a session, as far as the two words tell it; `None`: nothing moves.
    pub fn next(self, outcome: Outcome) -> Option<Self> {
        match (self, outcome) {
            (_, Outcome::Error) => None,
            (Self::Implement | Self::Fix, _) => Some(Self::Review),
            (Self::Review, Outcome::NeedsFix) => Some(Self::Fix),
            (
                Self::Initializer | Self::Review | Self::Architecture,
                Outcome::Success | Outcome::NeedsFix | Outcome::Rejected | Outcome::ReadyForReview,
            ) => Some(Self::Implement),
        }
    }
}

impl Verdict {
    /// Spec 5 §6: the outcome of the session that ends with this verdict.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Pass => Outcome::Success,
            Self::PassWithComments | Self::RequestChanges => Outcome::NeedsFix,
            Self::Reject => Outcome::Rejected,
        }
    }
}

impl Severity {
    /// The letter in an issue's id.
    pub fn letter(self) -> char {
        match self {
            Self::Critical => 'C',
            Self::Major => 'M',
            Self::Minor => 'm',
            Self::Suggestion => 'S',
        }
    }

    /// The heading over its issues.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Critical => "CRITICAL",
            Self::Major => "MAJOR",
            Self::Minor => "MINOR",
            Self::Suggestion => "SUGGESTION",
        }
    }

    /// Critical and major issues stand in the way of a merge.
    pub fn blocks(self) -> bool {
        match self {
            Self::Critical | Self::Major => true,
            Self::Minor | Self::Suggestion => false,
        }
    }
}

impl Health {
    /// Spec 5 §2, "Health Status". SPEC GAP: unknown coverage is no good sign (LG-05).
    pub fn of(blocking_issues: usize, coverage_percent: Option<f64>) -> Self {
        match coverage_percent {
            Some(percent) if blocking_issues == 0 && percent > 80.0 => Self::Good,
            Some(percent) if blocking_issues == 0 && percent >= 60.0 => Self::Fair,
            Some(_) | None => Self::NeedsAttention,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: LG-05
    #[test]
    fn health_follows_the_table() {
        use Health::{Fair, Good, NeedsAttention};
        let rows = [
            (0, Some(81.0), Good),
            (0, Some(80.0), Fair),
            (0, Some(60.0), Fair),
            (0, Some(59.9), NeedsAttention),
            (1, Some(99.0), NeedsAttention),
            (0, None, NeedsAttention),
        ];
        for (issues, coverage, wanted) in rows {
            assert_eq!(Health::of(issues, coverage), wanted, "{issues} {coverage:?}");
        }
    }

    // covers: LG-10
    #[test]
    fn other_spellings_are_read_and_the_specs_is_written() {
        assert_eq!(Verdict::parse("APPROVE").map(Verdict::word), Some("PASS"));
        assert_eq!(Outcome::parse("REJECT").map(Outcome::word), Some("REJECTED"));
        assert_eq!(AgentType::parse("BUGFIX").map(AgentType::word), Some("IMPLEMENT"));
        assert_eq!(Verdict::parse("approve"), None);
    }

    // covers: LG-05
    #[test]
    fn every_outcome_that_is_allowed_leads_somewhere() {
        for &agent in AgentType::ALL {
            for &outcome in agent.outcomes() {
                assert_eq!(agent.next(outcome).is_none(), outcome == Outcome::Error);
            }
        }
    }
}
