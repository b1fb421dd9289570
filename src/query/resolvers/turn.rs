//! `:psi.turn/*`: the turns of a session, from its journal. Knows entries only, and not how a turn runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::message::{Message, Role, TurnId, Usage, count, per_second};
use crate::projection;
use crate::query::graph::{Env, Input, Inputs, Resolver, ResolverOutput, ResolverResult};
use crate::query::resolvers::tool::{CallFacts, Now, SUMMARY, calls, last_turn};
use crate::query::table::{join, rest, table, text};
use crate::query::world::SessionView;
use crate::value::Value;

table! {
    TURN of TurnFacts {
        "psi.turn/id" "The id of the running turn, or of the last one; nil before the first."
            => |turn| turn.messages.last().and_then(|message| message.turn_id.as_ref()).map(TurnId::to_value);
        "psi.turn/text" "The model's text in the turn, as far as it is journalled."
            => |turn| turn.of_model().map(|message| message.text()).collect::<String>();
        "psi.turn/tool-calls" "Its tool calls, as summaries." [SUMMARY] => |turn| SUMMARY.entities(&turn.calls);
        "psi.turn/tool-call-count" "The number of its tool calls." => |turn| turn.calls.len();
        "psi.turn/message-count" "The number of its messages." => |turn| turn.messages.len();
        "psi.turn/started-at" "When its first message was written, RFC 3339 in UTC, or nil."
            => |turn| turn.messages.first().map(|message| text(&message.timestamp));
        "psi.turn/ended-at" "When its newest message was written, RFC 3339 in UTC, or nil."
            => |turn| turn.messages.last().map(|message| text(&message.timestamp));
        "psi.turn/duration-ms" "The time between these two, in milliseconds." => |turn| turn.duration().unwrap_or(0);
        "psi.turn/first-token-ms"
            "The wait for the first piece of its first model call's answer, in milliseconds, or nil."
            => |turn| turn.of_model().find_map(|message| message.timing).and_then(|timing| timing.first_token_ms).map(count);
        "psi.turn/model-ms" "The total wait for its model calls, in milliseconds, or nil."
            => |turn| turn.of_model().filter_map(|m| Some(m.timing?.duration_ms)).reduce(u64::saturating_add).map(count);
        "psi.turn/retries" "The number of retries of its model calls."
            => |turn| count(turn.of_model().filter_map(|m| Some(m.timing?.retries.into())).fold(0, u64::saturating_add));
        "psi.turn/tokens-per-second"
            "The tokens of its answers per second of waiting for their model calls, or nil."
            => |turn| turn.tokens_per_second();
        "psi.turn/stop-reason" "Why its last model call ended, or nil."
            => |turn| turn.of_model().next_back().and_then(|message| message.stop_reason).map(|reason| reason.as_str());
        "psi.turn/usage" "The tokens and cost of its model calls together." => |turn| turn.usage().to_value();
        "psi.turn/is-interrupted" "Whether it was cut off, because its process was killed." => |turn| turn.is_interrupted;
    }
}

table! {
    NOW of dyn SessionView {
        "psi.turn/phase" "The turn's activity, from the session's phase." => |s| Value::keyword(s.facts().phase.as_str());
        "psi.turn/activity" "What it is doing, as `:activity` of `session/updated`, or nil."
            => |s| s.facts().activity.as_deref().map(|now| Value::from(projection::activity(now)).into_owned());
        "psi.turn/is-streaming" "Whether it runs." => |s| s.facts().is_streaming();
        "psi.turn/stage" "The stage of the last turn's latest boundary, such as :tool-call, or nil."
            => |s| s.stage().map(|passed| Value::keyword(passed.stage.as_str()));
        "psi.turn/point" "The point of that boundary: :pre or :post, or nil."
            => |s| s.stage().map(|passed| Value::keyword(passed.point.as_str()));
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::session("psi.turn/last", TURN.outputs, |env, session| {
        let session = session.as_ref();
        let messages = last_turn(session);
        let cut = interrupted(session, messages.first());
        Ok(TURN.answer(&TurnFacts::new(&Now::of(env, session), &cut, messages)))
    }),
    Resolver::session("psi.turn/now", NOW.outputs, |_, session| Ok(NOW.answer(session.as_ref()))),
    Resolver::session(
        "psi.agent-session/turns",
        &[join(
            "psi.agent-session/turns",
            "The turns on the current branch, oldest first; :limit selects the newest.",
            TURN.outputs,
        )],
        of_session,
    ),
    Resolver::batch("psi.turn/by-id", &[Input::Required("psi.turn/id")], rest(TURN.outputs), by_id),
];

fn of_session(env: &Env<'_>, session: &Arc<dyn SessionView>) -> ResolverResult {
    let limit = env.count("limit")?.unwrap_or(usize::MAX);
    // The messages of one turn are adjacent. Goes from the newest on, to visit no more than requested.
    let mut turns: Vec<Vec<Arc<Message>>> = Vec::new();
    let mut open: Option<&TurnId> = None;
    for message in session.messages().rev() {
        let turn = message.turn_id.as_ref();
        if turn != open {
            open = turn;
            if turn.is_some() && turns.len() >= limit {
                break;
            }
            turns.extend(turn.map(|_| Vec::new()));
        }
        if let (Some(messages), Some(_)) = (turns.last_mut(), turn) {
            messages.push(message.clone());
        }
    }
    let now = Now::of(env, session.as_ref());
    let cut = interrupted(session.as_ref(), turns.last().and_then(|oldest| oldest.last()));
    let turns = turns.into_iter().rev().map(|mut messages| {
        messages.reverse();
        TurnFacts::new(&now, &cut, messages)
    });
    TURN.list("psi.agent-session/turns", &turns.collect::<Vec<_>>())
}

/// Searches in the query's session, once for all requested turns.
fn by_id(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<ResolverResult> {
    let Some(session) = env.world.session(env.world.focus().as_str()) else {
        return inputs.iter().map(|_| Ok(Vec::new())).collect();
    };
    let asked = inputs.iter().filter_map(|inputs| inputs.text("psi.turn/id"));
    let mut turns: HashMap<&str, Vec<Arc<Message>>> = asked.map(|id| (id, Vec::new())).collect();
    for message in session.messages() {
        if let Some(messages) = message.turn_id.as_ref().and_then(|id| turns.get_mut(id.as_str())) {
            messages.push(message.clone());
        }
    }
    let now = Now::of(env, session.as_ref());
    // Many items of a list may belong to one turn, which is returned once.
    turns.retain(|_, messages| !messages.is_empty());
    let cut = interrupted(session.as_ref(), None);
    let answer = |messages| TURN.answer(&TurnFacts::new(&now, &cut, messages));
    let turns: HashMap<&str, ResolverOutput> =
        turns.into_iter().map(|(id, messages)| (id, answer(messages))).collect();
    let answer = |inputs: &Inputs<'_>| inputs.text("psi.turn/id").and_then(|id| turns.get(id));
    inputs.iter().map(|inputs| Ok(answer(inputs).cloned().unwrap_or_default())).collect()
}

/// The turns that were cut off with their process, back to the oldest wanted message.
fn interrupted(session: &dyn SessionView, oldest: Option<&Arc<Message>>) -> HashSet<TurnId> {
    let newest = session.entries().rev();
    let wanted = newest.take_while(|entry| oldest.is_none_or(|oldest| entry.id != oldest.id));
    wanted.filter_map(|entry| entry.body.interrupted().cloned()).collect()
}

/// A turn: its messages and their tool calls.
struct TurnFacts {
    messages: Vec<Arc<Message>>,
    calls: Vec<CallFacts>,
    is_interrupted: bool,
}

impl TurnFacts {
    fn new(now: &Now, cut: &HashSet<TurnId>, messages: Vec<Arc<Message>>) -> Self {
        let turn = messages.last().and_then(|message| message.turn_id.as_ref());
        let is_interrupted = turn.is_some_and(|turn| cut.contains(turn));
        Self { calls: calls(now, &messages), messages, is_interrupted }
    }

    fn of_model(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        self.messages.iter().filter(|message| message.role == Role::Assistant)
    }

    fn duration(&self) -> Option<i64> {
        let time = |message: &Message| message.timestamp.parse::<Timestamp>().ok();
        let (from, to) = time(self.messages.first()?).zip(time(self.messages.last()?))?;
        Some(to.as_millisecond().saturating_sub(from.as_millisecond()))
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.of_model().filter_map(|message| message.usage.as_ref()).for_each(|used| usage.add(used));
        usage
    }

    fn tokens_per_second(&self) -> Option<f64> {
        let (mut tokens, mut millis) = (0u64, 0u64);
        for (usage, timing) in self.of_model().filter_map(|message| Some((message.usage?, message.timing?))) {
            tokens = tokens.saturating_add(usage.output);
            millis = millis.saturating_add(timing.duration_ms);
        }
        per_second(tokens, millis)
    }
}
