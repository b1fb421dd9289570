//! The stages of a turn, as events.

use std::sync::Arc;

use crate::catalogue::Topic;
use crate::event::Body;
use crate::value::Map;

/// A stage of a turn, in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The user's message is there.
    ReceiveInput,
    /// What the model is sent is put together.
    ComposeRequest,
    /// The model is asked.
    SendRequest,
    /// It answers.
    StreamResponse,
    /// The calls of the answer run.
    ToolCall,
    /// The answer is shown.
    Render,
}

impl Stage {
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
}

/// A side of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// Before its body.
    Pre,
    /// After a body that ran.
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
}

/// The event that a turn passed a boundary.
pub fn passed(stage: Stage, point: Point) -> Body {
    let mut payload = Map::new();
    payload.put("stage", stage.as_str());
    payload.put("point", point.as_str());
    Body::Payload(Topic::TurnStage, Arc::new(payload))
}
