//! Why a check ends early. Knows nothing else.

/// Why a check ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A requirement failed.
    Failed(String),
    /// The check does not apply to this server.
    NotApplicable(String),
}

impl Stop {
    /// A failed requirement.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}
