//! A model's call of a tool, with its summary for people. Judges nothing.

use std::sync::Arc;

use crate::event::ToolCall;
use crate::tool::toolbox::Toolbox;
use crate::value::Value;

/// A call from the model.
pub fn proposed(tools: &Toolbox, id: Arc<str>, name: Arc<str>, arguments: Value<'static>) -> ToolCall {
    let summary = tools.summary(&name, &arguments).into();
    ToolCall { id, name, summary, arguments: crate::edn::to_string(&arguments).into(), parsed: arguments }
}
