//! `:psi.turn/*`: the running turn, or the last one, as far as it is journalled.

use crate::message::{Message, Role, TurnId};
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::out;
use crate::query::resolvers::session::SessionFact;
use crate::query::resolvers::tool::summaries;
use crate::value::Value;

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.turn/id", "The id of the running turn, or of the last one; nil before the first."),
        ("psi.turn/phase", "What the turn does, as the session's phase says it."),
        ("psi.turn/is-streaming", "Whether it runs."),
        ("psi.turn/text", "What the model said in it, as far as it is journalled."),
        ("psi.turn/tool-calls", "Its tool calls, as summaries."),
        ("psi.turn/tool-call-count", "How many tool calls it made."),
    ],
    resolvers: &[Resolver {
        name: "psi.turn/last",
        input: &[Input::Required(SESSION)],
        output: &[
            out("psi.turn/id"),
            out("psi.turn/phase"),
            out("psi.turn/is-streaming"),
            out("psi.turn/text"),
            super::join("psi.turn/tool-calls", super::tool::SUMMARY),
            out("psi.turn/tool-call-count"),
        ],
        cost: Cost::Ready,
        run: Run::One(last),
    }],
    mutations: &[],
};

fn last(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let messages = session.messages();
    let turn = messages.last().and_then(|message| message.turn_id.clone());
    let of_turn = |message: &&std::sync::Arc<Message>| turn.is_some() && message.turn_id == turn;
    let start = messages.len() - messages.iter().rev().take_while(of_turn).count();
    let messages = messages.get(start..).unwrap_or_default();
    let text: String =
        messages.iter().filter(|message| message.role == Role::Assistant).map(|m| m.text()).collect();
    let calls = summaries(messages);
    Ok(vec![
        ("psi.turn/id", Value::from(turn.as_ref().map(TurnId::to_value)).into()),
        ("psi.turn/phase", session.fact(SessionFact::Phase).into()),
        ("psi.turn/is-streaming", session.fact(SessionFact::IsStreaming).into()),
        ("psi.turn/text", text.into()),
        ("psi.turn/tool-call-count", calls.len().into()),
        ("psi.turn/tool-calls", Value::vector(calls).into()),
    ])
}
