//! The event topics.

/// What happens to an event when the client is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Never dropped, never merged; but for a client that is left behind, see [`Topic::is_shown_anew`].
    Lossless,
    /// Adjacent ones of one stream are joined: text is merged, never lost; but for the same.
    Coalescible,
    /// A newer one replaces an older one that is not yet sent.
    Latest,
}

impl Class {
    /// The name in documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Coalescible => "coalescible",
            Self::Latest => "latest",
        }
    }
}

/// Declares the topics: variant, wire name, delivery class, whether events of sessions other than the
/// connection's focus are sent too, required keys, further keys, and when it is emitted.
macro_rules! topics {
    ($($variant:ident $name:literal $class:ident $anywhere:literal [$($required:literal)*] [$($also:literal)*] $doc:literal;)*) => {
        /// What an event is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Topic {
            $(#[doc = $doc] $variant,)*
        }

        /// All topics, in the order of the table, which is the order of [`Topic`].
        pub const TOPICS: &[TopicSpec] = &[
            $(TopicSpec {
                topic: Topic::$variant,
                name: $name,
                class: Class::$class,
                anywhere: $anywhere,
                required: &[$($required),*],
                also: &[$($also),*],
                doc: $doc,
            },)*
        ];

        impl Topic {
            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What happens to an event of this topic when the client is slow.
            pub const fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class,)* }
            }

            /// Whether it is sent for sessions other than the connection's focus.
            pub const fn anywhere(self) -> bool {
                match self { $(Self::$variant => $anywhere,)* }
            }
        }
    };
}

/// One row of the topics table.
#[derive(Debug, Clone, Copy)]
pub struct TopicSpec {
    /// The topic.
    pub topic: Topic,
    /// Its name on the wire.
    pub name: &'static str,
    /// What happens to it when the client is slow.
    pub class: Class,
    /// Whether it is sent for sessions other than the connection's focus.
    pub anywhere: bool,
    /// The keys that its payload always has.
    pub required: &'static [&'static str],
    /// The keys that its payload may have beside those, and beside [`SCOPE_KEYS`].
    pub also: &'static [&'static str],
    /// When it is emitted.
    pub doc: &'static str,
}

/// The keys that any payload of a session may carry.
pub const SCOPE_KEYS: &[&str] = &["session-id", "offset", "turn-id", "entry-id"];

impl Topic {
    /// The topic of that name.
    pub fn parse(name: &str) -> Option<Self> {
        TOPICS.iter().find(|spec| spec.name == name).map(|spec| spec.topic)
    }

    /// Whether a client that was left behind does without its events: when it has caught up it is shown the
    /// history of its session, and all that a subscription begins with. So it does not see the beginning of the
    /// answer that streams just then before the whole message comes, nor the stages that turns have passed. Other
    /// events are kept for it, as far as there is room.
    pub const fn is_shown_anew(self) -> bool {
        !matches!(
            self,
            Self::InteractionAnswered
                | Self::FrontendActionRequested
                | Self::Notification
                | Self::CommandResult
                | Self::Diagnostic
                | Self::JobUpdated
                | Self::Error
        )
    }

    /// The topic's bit in a set of topics.
    pub const fn bit(self) -> u64 {
        1 << (self as u8)
    }
}

topics! {
    SessionUpdated "session/updated" Latest false
        ["session-id" "phase" "is-streaming" "is-compacting" "pending-message-count" "retry-attempt"]
        ["session-file" "session-name" "session-display-name" "retry" "retry-deadline-ms" "interrupt-pending"
         "model-provider" "model-id" "model-reasoning" "thinking-level" "effective-reasoning-effort"
         "header-model-label" "status-session-line" "extension-command-names" "prompt-templates" "mode"]
        "The session's state changed.";
    SessionResumed "session/resumed" Lossless false
        ["session-id" "session-file" "message-count"] []
        "The connection's focus moved to a session.";
    SessionRehydrated "session/rehydrated" Lossless false
        ["session-id" "messages" "tool-calls" "tool-order"] ["more"]
        "The newest part of the history of the session that was resumed.";
    ContextUpdated "context/updated" Latest true
        ["active-session-id" "sessions"] ["session-tree-widget"]
        "The live sessions, and which one has the focus.";
    AssistantDelta "assistant/delta" Coalescible false ["session-id" "text"] []
        "New text of the answer.";
    AssistantThinkingDelta "assistant/thinking-delta" Coalescible false ["session-id" "text"] []
        "New text of the model's thinking.";
    AssistantMessage "assistant/message" Lossless false
        ["session-id" "role" "content"] ["text" "stop-reason" "error-message" "usage"]
        "A message of the model is complete, or failed.";
    ToolStart "tool/start" Lossless false
        ["session-id" "tool-id" "tool-name" "call-summary"] ["arguments" "parsed-args"]
        "The model proposed a tool call.";
    ToolDelta "tool/delta" Coalescible false ["session-id" "tool-id" "arguments"] []
        "New text of a call's arguments.";
    ToolExecuting "tool/executing" Lossless false
        ["session-id" "tool-id" "tool-name" "call-summary"] ["arguments" "parsed-args"]
        "A tool call runs.";
    ToolUpdate "tool/update" Latest false
        ["session-id" "tool-id" "tool-name" "content" "result-text" "is-error" "call-summary"] ["details"]
        "The end of a running tool's output so far.";
    ToolResult "tool/result" Lossless false
        ["session-id" "tool-id" "tool-name" "content" "result-text" "is-error" "call-summary"] ["details"]
        "A tool call ended.";
    DialogRequested "ui/dialog-requested" Lossless true
        ["dialog-id" "kind" "title"] ["message" "options" "placeholder"]
        "A question, for connections that know only dialogs.";
    FrontendActionRequested "ui/frontend-action-requested" Lossless false
        ["request-id" "ui/action"] []
        "A command needs a choice that the frontend offers in its own way.";
    WidgetsUpdated "ui/widgets-updated" Latest false ["widgets"] []
        "The widgets' content changed.";
    WidgetSpecsUpdated "ui/widget-specs-updated" Latest false [] ["widget-specs"]
        "Which widgets there are changed.";
    StatusUpdated "ui/status-updated" Latest false ["statuses"] []
        "The status texts changed.";
    Notification "ui/notification" Lossless true ["id" "message" "level"] ["extension-id"]
        "Something to tell the person.";
    FooterUpdated "footer/updated" Latest false
        ["session-id" "path-line" "stats-line"]
        ["status-line" "usage-parts" "model-text" "session-activity-line" "session-activity-buckets"]
        "What the footer shows changed.";
    CommandResult "command-result" Lossless false ["type"] ["message" "data"]
        "A slash command's outcome.";
    InteractionRequested "interaction/requested" Lossless true
        ["interaction-id" "kind" "correlation-id" "payload"] ["parent-session-id" "subagent-id"]
        "A typed question that the runtime waits for.";
    InteractionAnswered "interaction/answered" Lossless true
        ["interaction-id" "correlation-id" "status" "ext-id"] ["value"]
        "A question was answered or withdrawn.";
    TurnStage "turn/stage" Lossless false ["session-id" "turn-id" "stage" "point"] ["hook" "outcome" "reason" "tool-id"]
        "A turn passed a boundary, or a hook stood there.";
    Diagnostic "diagnostic" Lossless true ["code" "message"] ["detail"]
        "Something that a person may want to know: repairs, failed hooks, coalesced deliveries.";
    JobUpdated "job/updated" Latest true ["job"] []
        "A background job changed.";
    Error "error" Lossless true ["error-code" "error-message"] ["id" "op"]
        "Something failed that no request waits for.";
}
