//! A model's call of a tool, with its summary for people. Judges nothing.

use std::sync::Arc;

use crate::event::ToolCall;
use crate::message::Arguments;
use crate::tool::toolbox::Toolbox;

/// A call from the model.
pub fn proposed(tools: &Toolbox, id: Arc<str>, name: Arc<str>, arguments: impl Into<Arguments>) -> ToolCall {
    let arguments = arguments.into();
    let summary = tools.summary(&name, &arguments).into();
    ToolCall { id, name, summary, arguments: arguments.text().into(), parsed: arguments }
}
