//! The activity of a turn at one moment. Plain data: the engine derives it from the events of the turn.

use std::sync::Arc;

/// An activity, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The activity.
    pub doing: Doing,
    /// Since when, in milliseconds since the epoch.
    pub since_ms: i64,
}

/// The kinds of activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// It prepares a model call, or waits for the model's first word.
    Waiting,
    /// The model thinks.
    Thinking,
    /// The model writes its answer.
    Answering,
    /// The model writes the arguments of a call of this tool.
    Calling {
        /// The tool.
        tool: Arc<str>,
    },
    /// Tools run.
    Tool {
        /// The call that has run longest.
        call: Arc<str>,
        /// Its tool.
        tool: Arc<str>,
        /// The call on one line.
        summary: Arc<str>,
        /// The number of running calls.
        running: usize,
    },
    /// A person is asked.
    Asking,
    /// A failed model call waits for its retry.
    Retry {
        /// The number of the retry, from 1.
        attempt: u32,
        /// When it starts, in milliseconds since the epoch.
        deadline_ms: i64,
        /// The kind of the failure, such as `rate-limited`.
        reason: Arc<str>,
    },
    /// The model summarises the older part of the conversation.
    Compacting,
}

impl Doing {
    /// The name on every wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Thinking => "thinking",
            Self::Answering => "answering",
            Self::Calling { .. } => "calling",
            Self::Tool { .. } => "tool",
            Self::Asking => "asking",
            Self::Retry { .. } => "retry",
            Self::Compacting => "compacting",
        }
    }
}
