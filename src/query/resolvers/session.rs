//! `:psi.agent-session/*`: a live session. Reads the facts of a snapshot; does not know how the session lives.

use std::collections::HashMap;

use crate::facts::Phase;
use crate::facts::agent::{AgentFacts, AgentOption, AgentStep};
use crate::facts::editor::Editor;
use crate::message::{SessionId, count};
use crate::projection;
use crate::query::datum::{Datum, ENTRY, KnownEntity, MESSAGE, SESSION};
use crate::query::graph::{Env, Input, Inputs, Resolve, Resolver, ResolverResult};
use crate::query::plan::Cost;
use crate::query::table::{join, out, table, text, texts};
use crate::query::world::SessionView;
use crate::value::{Map, Value};

table! {
    FIELDS of dyn SessionView {
        "psi.agent-session/session-id" "The session's id." => |s| s.id().to_value();
        "psi.agent-session/session-name" "The name from the person, or nil." => |s| s.facts().name.as_deref().map(text);
        "psi.agent-session/session-display-name" "The name, or else the start of the first message."
            => |s| text(s.facts().display_name());
        "psi.agent-session/session-file" "The journal's path, or nil before the first entry."
            => |s| s.facts().location.as_deref().map(text);
        "psi.agent-session/worktree-path" "The session's working folder." => |s| text(&s.facts().cwd);
        "psi.agent-session/git-branch" "The checked out branch of that folder as of the last turn, or nil."
            => |s| s.facts().git_branch.as_deref().map(text);
        "psi.agent-session/phase" "The session's activity: :idle, :streaming, :compacting or :retrying."
            => |s| Value::keyword(s.facts().phase.as_str());
        "psi.agent-session/turn-started-at" "When the running turn's message was written, RFC 3339 in UTC, or nil if none runs."
            => |s| s.facts().is_streaming().then(|| turn_began(s)).flatten();
        "psi.agent-session/is-streaming" "Whether a turn runs." => |s| s.facts().is_streaming();
        "psi.agent-session/is-compacting" "Whether the conversation is being compacted."
            => |s| s.facts().phase == Phase::Compacting;
        "psi.agent-session/pending-message-count" "The number of messages queued for the running turn or its end."
            => |s| s.facts().pending_messages;
        "psi.agent-session/retry-attempt" "The number of the awaited retry of a failed model call; 0 without one."
            => |s| s.facts().retry_attempt;
        "psi.agent-session/retry-deadline-ms" "When that retry starts, in milliseconds since the epoch, or nil."
            => |s| s.facts().retry_deadline_ms;
        "psi.agent-session/interrupted" "The last turn, if it was cut off because its process was killed, or nil."
            => |s| s.facts().interrupted.as_ref().map(|turn| text(turn.as_str()));
        "psi.agent-session/interrupt-pending" "Whether the turn ends after the running tool call."
            => |s| s.facts().interrupt_pending;
        "psi.agent-session/model" "The model: {:provider :id}."
            => |s| Map::new().with("provider", text(&s.facts().model_provider)).with("id", text(&s.facts().model_id));
        "psi.agent-session/model-provider" "The provider's name." => |s| text(&s.facts().model_provider);
        "psi.agent-session/model-id" "The model's id at the provider." => |s| text(&s.facts().model_id);
        "psi.agent-session/model-reasoning" "Whether the model can think." => |s| s.facts().model_reasoning;
        "psi.agent-session/thinking-level" "The requested thinking level." => |s| s.facts().thinking.as_str();
        "psi.agent-session/effective-reasoning-effort" "The thinking level that the model uses."
            => |s| s.facts().effective_thinking().as_str();
        "psi.agent-session/mode" "The permission mode." => |s| s.facts().mode.as_str();
        "psi.agent-session/web-search" "Whether the model's provider may search the web, or nil if nobody has decided it."
            => |s| s.facts().web_search;
        "psi.agent-session/sandbox" "The kernel's sandbox for commands: :enforced (no writes outside the workspace), :unavailable, or :off (yolo)."
            => |s| Value::keyword(s.facts().sandbox());
        "psi.agent-session/authenticated-providers" "The providers that need no further login."
            => |s| texts(s.providers());
        "psi.agent-session/prompt-templates" "The prompt templates of the project and the user: {:name :usage :description :argument-hint :scope :path}."
            => |s| projection::templates(&s.facts().prompt_templates).into_owned();
        "psi.agent-session/editor-context" "What the editor shows, from `context_update`, or nil."
            => |s| s.facts().editor.as_deref().map(Editor::to_value);
        "psi.agent-session/agent" "The agent that answers the turns, if it is not this program: {:name :session-id :info}."
            => |s| s.facts().agent.as_deref().map(AgentFacts::to_value);
        "psi.agent-session/options" "What can be chosen at the session's agent: {:id :name :about :category :value :values}."
            => |s| Value::vector(s.facts().agent.iter().flat_map(|agent| agent.options.iter().map(AgentOption::to_value)));
        "psi.agent-session/plan" "What the session's agent plans: {:text :state}."
            => |s| Value::vector(s.facts().agent.iter().flat_map(|agent| agent.plan.iter().map(AgentStep::to_value)));
        "psi.agent-session/message-count" "Messages on the current branch." => |s| s.facts().message_count;
        "psi.agent-session/first-message" "The start of the first message, or nil."
            => |s| s.facts().first_message.as_deref().map(text);
        "psi.agent-session/usage-input" "Tokens in requests to models." => |s| count(s.facts().usage.input);
        "psi.agent-session/usage-output" "Tokens in answers of models." => |s| count(s.facts().usage.output);
        "psi.agent-session/usage-cache-read" "Tokens that providers read from their caches."
            => |s| count(s.facts().usage.cache_read);
        "psi.agent-session/usage-cache-write" "Tokens that providers wrote to their caches."
            => |s| count(s.facts().usage.cache_write);
        "psi.agent-session/usage-cost-total" "The cost of all model calls, in US dollars." => |s| s.facts().usage.cost;
        "psi.agent-session/context-tokens" "Tokens in the window at the last model call."
            => |s| count(s.facts().context_tokens);
        "psi.agent-session/context-fraction" "The used part of the window, 0 to 1, or nil before the first call."
            => |s| s.facts().context_fraction();
        "psi.agent-session/context-window" "The model's window in tokens." => |s| count(s.facts().context_window);
        "psi.agent-session/auto-compaction-enabled" "Whether the conversation is compacted automatically."
            => |s| s.facts().auto_compaction;
        "psi.agent-session/auto-retry-enabled" "Whether failed model calls are retried automatically."
            => |s| s.facts().auto_retry;
        "psi.agent-session/system-prompt" "The system prompt." => |s| s.system_prompt();
        "psi.agent-session/parent-session-id" "The session from which this one was forked, or nil."
            => |s| s.facts().parent.as_ref().map(SessionId::to_value);
        "psi.agent-session/subagent-id" "For a subagent: its name in questions; otherwise nil."
            => |s| s.subagent().map(|(name, _)| text(&name));
        "psi.agent-session/depth" "The number of sessions above a subagent; 0 for a session of the person."
            => |s| s.depth();
        "psi.agent-session/envelope" "For a subagent: the tools that were granted to it; otherwise nil."
            => |s| s.subagent().map(|(_, envelope)| texts(envelope));
        "psi.agent-session/created-at" "When the session was opened, RFC 3339 in UTC."
            => |s| text(&s.facts().created_at);
        "psi.agent-session/offset" "The number of entries in its journal." => |s| count(s.offset());
        "psi.agent-session/config-revision" "The revision of its configuration. The next boundary switches to the newest."
            => |s| count(s.config_revision());
        "psi.agent-session/footer" "The footer, with the keys of `footer/updated`."
            => |s| projection::footer(s.facts()).into_owned();
        "psi.agent-session/state" "The state, as `session/updated` has it."
            => |s| projection::session_state(s.facts()).into_owned();
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one("psi.agent-session/focus", &[], &[out("psi.agent-session/session-id", "")], |env, _| {
        Ok(vec![("psi.agent-session/session-id", env.world.focus().to_value().into())])
    })
    .costing(Cost::Seed),
    Resolver::one("psi.agent-session/by-id", ID, &[out(SESSION, "")], |env, inputs| {
        let session = inputs.text("psi.agent-session/session-id").and_then(|id| env.world.session(id));
        Ok(session.map(|session| (SESSION, Datum::Node(KnownEntity::Session(session)))).into_iter().collect())
    }),
    Resolver::new(
        "psi.agent-session/facts",
        &[Input::Required(SESSION)],
        FIELDS.outputs,
        Resolve::Fields(|handle, place| match handle {
            KnownEntity::Session(session) => FIELDS.field(session.as_ref(), place),
            _ => Value::Nil,
        }),
    ),
    Resolver::session(
        "psi.agent-session/messages",
        &[join(
            "psi.agent-session/messages",
            "The messages on the current branch, oldest first; :limit selects the newest, :role one role.",
            &[out(MESSAGE, "")],
        )],
        |env, session| {
            let role = env.text("role");
            let of_role =
                session.messages().rev().filter(|m| role.is_none_or(|role| m.role.as_str() == role));
            let nodes = newest(of_role.cloned().map(KnownEntity::Message), env.count("limit")?);
            Ok(vec![("psi.agent-session/messages", Datum::Nodes(nodes))])
        },
    ),
    Resolver::session(
        "psi.agent-session/entries",
        &[join(
            "psi.agent-session/entries",
            "The journal's entries on the current branch, oldest first; :limit selects the newest.",
            &[out(ENTRY, "")],
        )],
        |env, session| {
            let nodes = newest(session.entries().rev().cloned().map(KnownEntity::Entry), env.count("limit")?);
            Ok(vec![("psi.agent-session/entries", Datum::Nodes(nodes))])
        },
    ),
    Resolver::batch(
        "psi.agent-session/children",
        ID,
        &[join("psi.agent-session/children", "The live forks of this session.", &[out(SESSION, "")])],
        children,
    ),
    Resolver::session(
        "psi.agent-session/stats",
        &[out(
            "psi.agent-session/stats",
            "Counts, tokens, cost, times and bytes, with the keys of `get_session_stats`.",
        )],
        |_, session| {
            let stats = projection::stats(&session.stats()).into_owned();
            Ok(vec![("psi.agent-session/stats", stats.into())])
        },
    )
    .costing(Cost::Slow),
    Resolver::one(
        "psi.agent-session/message-counts",
        &[Input::Nested("psi.agent-session/messages", "[:psi.message/role]")],
        &[out("psi.agent-session/message-counts", "The number of messages by role.")],
        message_counts,
    ),
];

/// When the first message of the last turn was written.
fn turn_began(session: &dyn SessionView) -> Option<Value<'static>> {
    let turn = session.messages().next_back()?.turn_id.as_ref()?;
    let first =
        session.messages().rev().take_while(|message| message.turn_id.as_ref() == Some(turn)).last()?;
    Some(text(&first.timestamp))
}

const ID: &[Input] = &[Input::Required("psi.agent-session/session-id")];

/// The newest items, oldest first, from an iterator that yields the newest first. Visits no more than it
/// returns.
fn newest<T>(newest_first: impl Iterator<Item = T>, limit: Option<usize>) -> Vec<T> {
    let mut items: Vec<T> = newest_first.take(limit.unwrap_or(usize::MAX)).collect();
    items.reverse();
    items
}

/// Goes through the live sessions once for all requested ones.
fn children(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<ResolverResult> {
    let mut below: HashMap<String, Vec<KnownEntity>> = HashMap::new();
    for session in env.world.live() {
        if let Some(parent) = &session.facts().parent {
            below.entry(parent.to_string()).or_default().push(KnownEntity::Session(session.clone()));
        }
    }
    let answer = |inputs: &Inputs<'_>| {
        let children = inputs.text("psi.agent-session/session-id").and_then(|id| below.get(id));
        Ok(vec![("psi.agent-session/children", Datum::Nodes(children.cloned().unwrap_or_default()))])
    };
    inputs.iter().map(answer).collect()
}

fn message_counts(_: &Env<'_>, inputs: &Inputs<'_>) -> ResolverResult {
    let messages = inputs.value("psi.agent-session/messages").and_then(Value::as_slice).unwrap_or_default();
    let counts = ["user", "assistant", "tool", "system"].map(|role| {
        let of_role =
            |message: &&Value<'_>| message.get("psi.message/role").and_then(Value::as_str) == Some(role);
        (Value::keyword(role), Value::from(messages.iter().filter(of_role).count()))
    });
    Ok(vec![("psi.agent-session/message-counts", Value::map(counts).into())])
}
