//! A model's call of a tool, with its summary for people.

use std::sync::Arc;

use crate::event::ToolCall;
use crate::tool;
use crate::value::Value;

/// A call from the model.
pub fn proposed(id: Arc<str>, name: Arc<str>, arguments: Value<'static>) -> ToolCall {
    let summary = tool::summary(&name, &arguments).into();
    ToolCall { id, name, summary, arguments: crate::edn::to_string(&arguments).into(), parsed: arguments }
}
