//! `:psi.agent-session/*`: a live session.

use std::collections::HashMap;

use crate::query::graph::{
    Answer, Cost, Datum, Env, Failure, Handle, Input, Inputs, Namespace, Output, Resolver, Run, SESSION,
};
use crate::query::resolvers::{join, out};
use crate::value::Value;

/// Declares the facts of a session: attribute name and description. The runtime gives the value of each, and
/// the compiler ensures that none is forgotten.
macro_rules! session_facts {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// One fact of a session.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SessionFact {
            $(#[doc = $doc] $variant,)*
        }

        const FACTS: &[SessionFact] = &[$(SessionFact::$variant),*];
        const OUTPUT: &[Output] = &[$(out(concat!("psi.agent-session/", $name))),*];
        const ATTRIBUTES: &[(&str, &str)] = &[
            ("psi.agent-session/messages", "The messages on the current branch, oldest first; :limit selects the newest, :role one role."),
            ("psi.agent-session/entries", "The journal's entries on the current branch, oldest first; :limit selects the newest."),
            ("psi.agent-session/children", "The live forks of this session."),
            ("psi.agent-session/message-counts", "The number of messages by role."),
            ("psi.agent-session/stats", "Counts, tokens, cost, times and bytes, with the keys of `get_session_stats`."),
            $((concat!("psi.agent-session/", $name), $doc),)*
        ];
    };
}

session_facts! {
    SessionId "session-id" "The session's id.";
    SessionName "session-name" "The name from the person, or nil.";
    DisplayName "session-display-name" "The name, or else the start of the first message.";
    SessionFile "session-file" "The journal's path, or nil before the first entry.";
    WorktreePath "worktree-path" "The session's working folder.";
    GitBranch "git-branch" "The checked out branch of that folder as of the last turn, or nil.";
    Phase "phase" "The session's activity: :idle, :streaming, :compacting or :retrying.";
    IsStreaming "is-streaming" "Whether a turn runs.";
    IsCompacting "is-compacting" "Whether the conversation is being compacted.";
    PendingMessageCount "pending-message-count" "The number of messages that wait for the running turn or its end.";
    RetryAttempt "retry-attempt" "The number of the awaited retry of a failed model call; 0 without one.";
    RetryDeadlineMs "retry-deadline-ms" "When that retry starts, in milliseconds since the epoch, or nil.";
    InterruptPending "interrupt-pending" "Whether the turn ends after the running tool call.";
    Model "model" "The model: {:provider :id}.";
    ModelProvider "model-provider" "The provider's name.";
    ModelId "model-id" "The model's id at the provider.";
    ModelReasoning "model-reasoning" "Whether the model can think.";
    ThinkingLevel "thinking-level" "The requested thinking level.";
    EffectiveReasoningEffort "effective-reasoning-effort" "The thinking level that the model uses.";
    Mode "mode" "The permission mode.";
    Sandbox "sandbox" "The kernel's sandbox for commands: :enforced (no writes outside the workspace), :unavailable, or :off (yolo).";
    AuthenticatedProviders "authenticated-providers" "The providers that need no further login.";
    PromptTemplates "prompt-templates" "The prompt templates of the project and the user: {:name :usage :description :argument-hint :scope :path}.";
    EditorContext "editor-context" "What the editor shows, from `context_update`, or nil.";
    MessageCount "message-count" "Messages on the current branch.";
    FirstMessage "first-message" "The start of the first message, or nil.";
    UsageInput "usage-input" "Tokens in requests to models.";
    UsageOutput "usage-output" "Tokens in answers of models.";
    UsageCacheRead "usage-cache-read" "Tokens that providers read from their caches.";
    UsageCacheWrite "usage-cache-write" "Tokens that providers wrote to their caches.";
    UsageCostTotal "usage-cost-total" "The cost of all model calls, in US dollars.";
    ContextTokens "context-tokens" "Tokens in the window at the last model call.";
    ContextFraction "context-fraction" "The used part of the window, 0 to 1, or nil before the first call.";
    ContextWindow "context-window" "The model's window in tokens.";
    AutoCompactionEnabled "auto-compaction-enabled" "Whether the conversation is compacted automatically.";
    AutoRetryEnabled "auto-retry-enabled" "Whether failed model calls are retried automatically.";
    SystemPrompt "system-prompt" "The system prompt.";
    ParentSessionId "parent-session-id" "The session from which this one was forked, or nil.";
    SubagentId "subagent-id" "For a subagent: its name in questions; otherwise nil.";
    Depth "depth" "The number of sessions above a subagent; 0 for a session of the person.";
    Envelope "envelope" "For a subagent: the tools that were granted to it; otherwise nil.";
    CreatedAt "created-at" "When the session was opened, RFC 3339 in UTC.";
    Offset "offset" "The number of entries in its journal.";
    ConfigRevision "config-revision" "The revision of its configuration. The next boundary switches to the newest.";
    Footer "footer" "The footer, with the keys of `footer/updated`.";
    State "state" "The state, as `session/updated` has it.";
}

pub(super) const PART: Namespace = Namespace {
    attributes: ATTRIBUTES,
    resolvers: &[
        Resolver {
            name: "psi.agent-session/focus",
            input: &[],
            output: &[out("psi.agent-session/session-id")],
            cost: Cost::Seed,
            run: Run::One(focus),
        },
        Resolver {
            name: "psi.agent-session/by-id",
            input: &[Input::Required("psi.agent-session/session-id")],
            output: &[out(SESSION)],
            cost: Cost::Ready,
            run: Run::One(by_id),
        },
        Resolver {
            name: "psi.agent-session/facts",
            input: &[Input::Required(SESSION)],
            output: OUTPUT,
            cost: Cost::Ready,
            run: Run::Fields(fact),
        },
        Resolver {
            name: "psi.agent-session/messages",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/messages", &[super::message::HANDLE])],
            cost: Cost::Ready,
            run: Run::One(messages),
        },
        Resolver {
            name: "psi.agent-session/entries",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/entries", &[super::entry::HANDLE])],
            cost: Cost::Ready,
            run: Run::One(entries),
        },
        Resolver {
            name: "psi.agent-session/children",
            input: &[Input::Required("psi.agent-session/session-id")],
            output: &[join("psi.agent-session/children", &[SESSION])],
            cost: Cost::Ready,
            run: Run::Batch(children),
        },
        Resolver {
            name: "psi.agent-session/stats",
            input: &[Input::Required(SESSION)],
            output: &[out("psi.agent-session/stats")],
            cost: Cost::Slow,
            run: Run::One(stats),
        },
        Resolver {
            name: "psi.agent-session/message-counts",
            input: &[Input::Nested("psi.agent-session/messages", "[:psi.message/role]")],
            output: &[out("psi.agent-session/message-counts")],
            cost: Cost::Ready,
            run: Run::One(message_counts),
        },
    ],
    mutations: &[],
};

fn focus(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    Ok(vec![("psi.agent-session/session-id", env.world.focus().to_value().into())])
}

fn by_id(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let session = inputs.text("psi.agent-session/session-id").and_then(|id| env.world.session(id));
    Ok(session.map(|session| (SESSION, Datum::Node(Handle::Session(session)))).into_iter().collect())
}

fn fact(handle: &Handle, place: usize) -> Value<'static> {
    match (handle, FACTS.get(place)) {
        (Handle::Session(session), Some(fact)) => session.fact(*fact),
        _ => Value::Nil,
    }
}

fn messages(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let role = env.text("role");
    let wanted =
        session.messages().rev().filter(|message| role.is_none_or(|role| message.role.as_str() == role));
    let nodes = newest(wanted.cloned().map(Handle::Message), env.count("limit")?);
    Ok(vec![("psi.agent-session/messages", Datum::Nodes(nodes))])
}

fn entries(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let entries = session.entries().rev().map(|entry| Handle::Entry(entry.into()));
    let nodes = newest(entries, env.count("limit")?);
    Ok(vec![("psi.agent-session/entries", Datum::Nodes(nodes))])
}

fn stats(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let stats = inputs.session().map(|session| session.stats());
    Ok(stats.map(|stats| ("psi.agent-session/stats", Value::from(stats).into())).into_iter().collect())
}

/// The newest items, oldest first, from an iterator that yields the newest first. Visits no more than it
/// returns.
fn newest<T>(newest_first: impl Iterator<Item = T>, limit: Option<usize>) -> Vec<T> {
    let mut items: Vec<T> = newest_first.take(limit.unwrap_or(usize::MAX)).collect();
    items.reverse();
    items
}

/// Goes through the live sessions once for all requested ones.
fn children(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let mut below: HashMap<String, Vec<Handle>> = HashMap::new();
    for session in env.world.live() {
        if let Some(parent) = session.fact(SessionFact::ParentSessionId).as_str() {
            below.entry(parent.to_owned()).or_default().push(Handle::Session(session.clone()));
        }
    }
    let answer = |inputs: &Inputs<'_>| {
        let children = inputs.text("psi.agent-session/session-id").and_then(|id| below.get(id));
        Ok(vec![("psi.agent-session/children", Datum::Nodes(children.cloned().unwrap_or_default()))])
    };
    inputs.iter().map(answer).collect()
}

fn message_counts(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let messages = inputs.value("psi.agent-session/messages").and_then(Value::as_slice).unwrap_or_default();
    let counts = ["user", "assistant", "tool", "system"].map(|role| {
        let of_role =
            |message: &&Value<'_>| message.get("psi.message/role").and_then(Value::as_str) == Some(role);
        (Value::keyword(role), Value::from(messages.iter().filter(of_role).count()))
    });
    Ok(vec![("psi.agent-session/message-counts", Value::map(counts).into())])
}
