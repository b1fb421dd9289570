//! The boundaries of a turn: its stages and their points, where hooks may run. Knows neither hooks nor turns.

/// A stage of a turn, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The user's message has arrived.
    ReceiveInput,
    /// The request to the model is composed.
    ComposeRequest,
    /// The request is sent.
    SendRequest,
    /// The model answers.
    StreamResponse,
    /// The calls of the answer run.
    ToolCall,
    /// The answer is shown.
    Render,
}

impl Stage {
    /// All, in order.
    pub const ALL: [Self; 6] = [
        Self::ReceiveInput,
        Self::ComposeRequest,
        Self::SendRequest,
        Self::StreamResponse,
        Self::ToolCall,
        Self::Render,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReceiveInput => "receive-input",
            Self::ComposeRequest => "compose-request",
            Self::SendRequest => "send-request",
            Self::StreamResponse => "stream-response",
            Self::ToolCall => "tool-call",
            Self::Render => "render",
        }
    }

    /// The stage with that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == name)
    }

    /// The keys of the payload that a transform may change at a point of this stage.
    pub const fn rewritable(self, point: Point) -> &'static [&'static str] {
        match (self, point) {
            (Self::ReceiveInput, Point::Pre) => &["message"],
            (Self::ComposeRequest, Point::Post) => &["system", "tools"],
            (Self::SendRequest, Point::Pre) => &["max-output-tokens"],
            (Self::StreamResponse, Point::Post) | (Self::Render, Point::Pre) => &["text"],
            (Self::ToolCall, Point::Pre) => &["arguments"],
            (Self::ToolCall, Point::Post) => &["result"],
            _ => &[],
        }
    }
}

/// A point of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// Before the stage.
    Pre,
    /// After the stage has run.
    Post,
}

impl Point {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Post => "post",
        }
    }

    /// The point with that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Pre, Self::Post].into_iter().find(|point| point.as_str() == name)
    }
}
