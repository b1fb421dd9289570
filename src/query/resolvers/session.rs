//! `:psi.agent-session/*`: a live session.

use std::collections::HashMap;

use crate::query::graph::{
    Answer, Cost, Datum, Env, Failure, Handle, Input, Inputs, Namespace, Output, Resolver, Run, SESSION,
};
use crate::query::resolvers::{join, out};
use crate::value::Value;

/// Declares the facts of a session: the attribute's name and what it is. Who keeps sessions says what
/// each is worth, and the compiler that none is forgotten.
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
            ("psi.agent-session/messages", "The messages on the current branch, oldest first; :limit takes the newest, :role those of one role."),
            ("psi.agent-session/entries", "The journal's entries on the current branch, oldest first; :limit takes the newest."),
            ("psi.agent-session/children", "The live sessions that were forked from this one."),
            ("psi.agent-session/message-counts", "How many messages there are by role."),
            ("psi.agent-session/stats", "Counts, tokens, cost, times and bytes, as `get_session_stats` has them."),
            $((concat!("psi.agent-session/", $name), $doc),)*
        ];
    };
}

session_facts! {
    SessionId "session-id" "The session's id.";
    SessionName "session-name" "The name that the person gave it, or nil.";
    DisplayName "session-display-name" "The name, else the start of the first message.";
    SessionFile "session-file" "The journal's path, or nil before the first entry.";
    WorktreePath "worktree-path" "The folder that the session works in.";
    GitBranch "git-branch" "The branch that is checked out there, as of the last turn, or nil.";
    Phase "phase" "What the session does: :idle, :streaming, :compacting or :retrying.";
    IsStreaming "is-streaming" "Whether a turn runs.";
    IsCompacting "is-compacting" "Whether the conversation is being compacted.";
    PendingMessageCount "pending-message-count" "Messages that wait for the running turn, or for after it.";
    RetryAttempt "retry-attempt" "Which try of a failed model call is waited for; 0 when none is.";
    RetryDeadlineMs "retry-deadline-ms" "When that try begins, in milliseconds since the epoch, or nil.";
    InterruptPending "interrupt-pending" "Whether the turn ends after the tool call that runs.";
    Model "model" "The model: {:provider :id}.";
    ModelProvider "model-provider" "The provider's name.";
    ModelId "model-id" "The model's id at the provider.";
    ModelReasoning "model-reasoning" "Whether the model can think.";
    ThinkingLevel "thinking-level" "How much the model was told to think.";
    EffectiveReasoningEffort "effective-reasoning-effort" "How much the model thinks, given what it can.";
    Mode "mode" "What tools may do without asking.";
    Sandbox "sandbox" "What the kernel keeps commands from writing: :enforced (outside the workspace), :unavailable (it cannot) or :off (yolo).";
    AuthenticatedProviders "authenticated-providers" "The providers that can be asked without a further login.";
    PromptTemplates "prompt-templates" "The prompt templates of the project and the user: {:name :usage :description :argument-hint :scope :path}.";
    EditorContext "editor-context" "What the editor shows, as `context_update` said, or nil.";
    MessageCount "message-count" "Messages on the current branch.";
    FirstMessage "first-message" "The start of the first message, or nil.";
    UsageInput "usage-input" "Tokens that were sent to models.";
    UsageOutput "usage-output" "Tokens that models wrote.";
    UsageCacheRead "usage-cache-read" "Tokens that providers read from their caches.";
    UsageCacheWrite "usage-cache-write" "Tokens that providers wrote to their caches.";
    UsageCostTotal "usage-cost-total" "What all model calls cost, in US dollars.";
    ContextTokens "context-tokens" "Tokens in the window at the last model call.";
    ContextFraction "context-fraction" "The part of the window that is used, 0 to 1, or nil before the first call.";
    ContextWindow "context-window" "The model's window in tokens.";
    AutoCompactionEnabled "auto-compaction-enabled" "Whether the conversation is compacted by itself.";
    AutoRetryEnabled "auto-retry-enabled" "Whether failed model calls are tried again by themselves.";
    SystemPrompt "system-prompt" "What the model is told before the conversation.";
    ParentSessionId "parent-session-id" "The session that this one was forked from, or nil.";
    SubagentId "subagent-id" "Its name in questions, where it works for another session, or nil.";
    Depth "depth" "How many sessions it works below; 0 for one of the person's.";
    Envelope "envelope" "The tools that were agreed on for it, where it works for another session, or nil.";
    CreatedAt "created-at" "When the session was opened, RFC 3339 in UTC.";
    Offset "offset" "How many entries its journal holds.";
    ConfigRevision "config-revision" "The revision of the configuration that it works with: the newest, from its next boundary on.";
    Footer "footer" "What a footer shows, as `footer/updated` has it.";
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

/// The newest of what comes newest first, oldest first: no more is looked at than is answered.
fn newest<T>(newest_first: impl Iterator<Item = T>, limit: Option<usize>) -> Vec<T> {
    let mut items: Vec<T> = newest_first.take(limit.unwrap_or(usize::MAX)).collect();
    items.reverse();
    items
}

/// The live sessions are looked through once for all that are asked about.
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
