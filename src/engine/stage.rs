//! Events about the stages of a turn. Runs nothing.

use std::sync::Arc;

use crate::event::{Body, HookOutcome, StagePassed};
use crate::hook::Hook;
pub use crate::hook::{Point, Stage};

/// The event that a turn passed a boundary.
pub fn passed(stage: Stage, point: Point) -> Body {
    Body::StagePassed(Arc::new(StagePassed { stage, point, hook: None }))
}

/// The event that a hook ran at a boundary, and its outcome. `tool` is the call that it ran for.
pub fn hooked(hook: &Hook, outcome: &str, reason: Option<&str>, tool: Option<&str>) -> Body {
    let ran = HookOutcome {
        id: hook.id.clone(),
        outcome: outcome.into(),
        reason: reason.map(Arc::from),
        tool_id: tool.map(Arc::from),
    };
    Body::StagePassed(Arc::new(StagePassed { stage: hook.stage, point: hook.point, hook: Some(ran) }))
}
