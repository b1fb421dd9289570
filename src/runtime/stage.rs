//! The stages of a turn, as events.

use std::sync::Arc;

use crate::catalogue::Topic;
use crate::event::Body;
use crate::hook::Hook;
pub use crate::hook::{Point, Stage};
use crate::value::Map;

/// The event that a turn passed a boundary.
pub fn passed(stage: Stage, point: Point) -> Body {
    let mut payload = Map::new();
    payload.put("stage", stage.as_str());
    payload.put("point", point.as_str());
    Body::Payload(Topic::TurnStage, Arc::new(payload))
}

/// The event that a hook stood at a boundary, and what it came to. `tool` is the call that it was for.
pub fn hooked(hook: &Hook, outcome: &str, reason: Option<&str>, tool: Option<&str>) -> Body {
    let mut payload = Map::new();
    payload.put("stage", hook.stage.as_str());
    payload.put("point", hook.point.as_str());
    payload.put("hook", hook.id.to_string());
    payload.put("outcome", outcome.to_owned());
    payload.put_some("reason", reason.map(str::to_owned));
    payload.put_some("tool-id", tool.map(str::to_owned));
    Body::Payload(Topic::TurnStage, Arc::new(payload))
}
