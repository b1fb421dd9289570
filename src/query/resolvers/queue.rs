//! `:psi.queue/*`: the queued messages for a session's turn or its end. Changes none.

use crate::message::TurnId;
use crate::query::graph::Resolver;
use crate::query::table::{join, table, text};
use crate::query::world::QueuedView;
use crate::value::Value;

table! {
    QUEUED of QueuedView {
        "psi.queue/entry-id" "The journal entry of the message." => |waiting| waiting.entry.to_value();
        "psi.queue/until" "What it waits for: :steer the running turn's next model call, :follow-up the turn's end."
            => |waiting| Value::keyword(waiting.until);
        "psi.queue/text" "Its text." => |waiting| text(&waiting.text);
        "psi.turn/id" => |waiting| waiting.turn.as_ref().map(TurnId::to_value);
    }
}

pub(super) const PART: &[Resolver] = &[Resolver::session(
    "psi.agent-session/queue",
    &[join("psi.agent-session/queue", "The waiting messages, oldest first.", QUEUED.outputs)],
    |_, session| QUEUED.list("psi.agent-session/queue", &session.queue()),
)];
