//! The table of a run's events: the `type` of each, its keys with their shapes, and its meaning.
//!
//! [`super::encoder`] makes them. Knows no session.

use crate::wire::ui::methods::Introduced;
use crate::wire::ui::shape::Shape::{Any, Each, Flag, OneOf, Text, Whole};
use crate::wire::ui::shape::{Key, may, needs};

/// An event of a run.
#[derive(Debug, Clone, Copy)]
pub struct EventRow {
    /// Its `type`.
    pub name: &'static str,
    /// Since when it is in the protocol.
    pub since: Introduced,
    /// Its further keys.
    pub keys: &'static [Key],
    /// Its meaning.
    pub doc: &'static str,
}

impl EventRow {
    /// The same, since another time.
    const fn since(self, since: Introduced) -> Self {
        Self { since, ..self }
    }
}

/// The events, in the order of a run.
pub const EVENTS: &[EventRow] = &[
    row(
        "hidden_user_message",
        &[needs("content", Text)],
        "A message to the model: of the history, or from another client.",
    ),
    row("reasoning", &[needs("content", Text), needs("timestamp", Whole)], "The model's thinking."),
    row(
        "text",
        &[needs("content", Text), needs("timestamp", Whole)],
        "The text of an answer that is not the last.",
    ),
    row(
        "step_start",
        &[needs("step_id", Text), needs("title", Text), needs("step_number", Whole)],
        "A tool call begins.",
    ),
    row(
        "tool_call",
        &[
            needs("tool", Text),
            needs("args", Each(&Any)),
            needs("tool_call_id", Text),
            may("raw_args", Text),
            may("display_name", Text),
        ],
        "The call.",
    ),
    row(
        "permission.preview",
        &[
            needs("tool", Text),
            may("tool_call_id", Text),
            may("file_path", Text),
            may("language", Text),
            may("diff", Text),
            may("summary", Text),
            may("truncated", Flag),
        ],
        "What a call that a person is asked about would do.",
    )
    .since(Introduced::Code),
    row("permission.ready", &[needs("tool", Text), may("tool_call_id", Text)], "The question follows.")
        .since(Introduced::Code),
    row(
        "tool_result",
        &[needs("tool", Text), needs("result", Text), needs("tool_call_id", Text), may("is_error", Flag)],
        "The result.",
    ),
    row(
        "step_complete",
        &[
            needs("step_id", Text),
            needs("status", OneOf(&["completed", "error"])),
            needs("duration_ms", Whole),
        ],
        "The call has ended.",
    ),
    row(
        "compaction_start",
        &[needs("timestamp", Whole)],
        "The older part of the conversation is being summarised.",
    ),
    row("compaction_complete", &[needs("timestamp", Whole), needs("compacted", Flag)], "That has ended."),
    row(
        "llm.retry",
        &[
            needs("provider", Text),
            needs("failure_kind", Text),
            needs("next_attempt", Whole),
            needs("max_attempts", Whole),
            needs("delay_ms", Whole),
            needs("delay_source", Text),
            may("status", Whole),
            may("discarded", Flag),
        ],
        "A model call failed and is made again after a pause. With `discarded`, the pieces that it has shown are dropped.",
    )
    .since(Introduced::Later),
    row(
        "text_delta",
        &[needs("kind", OneOf(&["text", "reasoning"])), needs("content", Text)],
        "A piece of an answer, for interfaces that say `supports_text_deltas`.",
    )
    .since(Introduced::Ours),
    row("final", &[needs("content", Text)], "The text of the last answer."),
];

/// A row of the document.
const fn row(name: &'static str, keys: &'static [Key], doc: &'static str) -> EventRow {
    EventRow { name, since: Introduced::Document, keys, doc }
}
