//! `:psi.queue/*`: the messages that wait for a session's turn or its end.

use crate::message::{EntryId, TurnId};
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::join;
use crate::query::world::QueuedView;
use crate::value::{Map, Value};

const QUEUED: &[&str] = &["psi.queue/entry-id", "psi.queue/until", "psi.queue/text", "psi.turn/id"];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.agent-session/queue", "The waiting messages, oldest first."),
        ("psi.queue/entry-id", "The journal entry of the message."),
        (
            "psi.queue/until",
            "What it waits for: :steer the running turn's next model call, :follow-up the turn's end.",
        ),
        ("psi.queue/text", "Its text."),
    ],
    resolvers: &[Resolver {
        name: "psi.agent-session/queue",
        input: &[Input::Required(SESSION)],
        output: &[join("psi.agent-session/queue", QUEUED)],
        cost: Cost::Ready,
        run: Run::One(queue),
    }],
    mutations: &[],
};

fn queue(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let waiting = session.queue().into_iter().map(entity);
    Ok(vec![("psi.agent-session/queue", Value::vector(waiting).into())])
}

fn entity(waiting: QueuedView) -> Value<'static> {
    let QueuedView { entry, until, text, turn } = waiting;
    let mut map = Map::new();
    map.put("psi.queue/entry-id", EntryId::to_value(&entry));
    map.put("psi.queue/until", Value::keyword(until));
    map.put("psi.queue/text", text);
    map.put("psi.turn/id", turn.as_ref().map(TurnId::to_value));
    Value::from(map)
}
