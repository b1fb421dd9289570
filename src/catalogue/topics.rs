//! The event topics. Data only: does not know how a payload is laid out.

use crate::delivery::Class;

/// Declares the topics: variant, wire name, delivery class, whether a connection also receives events of sessions
/// outside its focus, required keys, optional keys, and the cause of the event.
macro_rules! topics {
    ($($variant:ident $name:literal $class:ident $anywhere:literal [$($required:literal)*] [$($also:literal)*] $doc:literal;)*) => {
        /// The topic of an event.
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

            /// Whether a connection also receives events of sessions outside its focus.
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
    /// Whether a connection also receives events of sessions outside its focus.
    pub anywhere: bool,
    /// The required keys of its payload.
    pub required: &'static [&'static str],
    /// The optional keys of its payload, apart from [`SCOPE_KEYS`].
    pub also: &'static [&'static str],
    /// The cause of the event.
    pub doc: &'static str,
}

/// Optional keys of every session payload.
pub const SCOPE_KEYS: &[&str] = &["session-id", "offset", "turn-id", "entry-id"];

impl Topic {
    /// The topic of that name.
    pub fn parse(name: &str) -> Option<Self> {
        TOPICS.iter().find(|spec| spec.name == name).map(|spec| spec.topic)
    }

    /// Whether the outbox skips the topic's events for a client that has fallen behind. Once the client has caught
    /// up, the connection sends it the history of its session and the snapshots of a new subscription. The client then
    /// misses the start of a streaming answer until the whole message arrives, and the stages of past turns. The
    /// outbox keeps the events of all other topics, up to a limit.
    pub const fn is_shown_anew(self) -> bool {
        !matches!(
            self,
            Self::InteractionAnswered
                | Self::FrontendActionRequested
                | Self::ToolRequested
                | Self::FileRequested
                | Self::FileChanged
                | Self::RequestCancelled
                | Self::Notification
                | Self::CommandResult
                | Self::TurnEnded
                | Self::Diagnostic
                | Self::JobUpdated
                | Self::McpUpdated
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
         "model-provider" "model-id" "setup" "model-reasoning" "thinking-level" "effective-reasoning-effort"
         "header-model-label" "status-session-line" "extension-command-names" "prompt-templates" "mode" "web-search"
         "context-tokens" "context-window" "queue-held" "can-retry" "interrupted" "host" "elsewhere" "owner-lost" "activity"]
        "The session's state changed. `:activity` is what its turn is doing, while one runs: {:kind, :since-ms}, \
         milliseconds since the epoch. `:kind` is \"waiting\" (for the model), \"thinking\", \"answering\", \"calling\" (the \
         model writes a call of `:tool-name`), \"tool\" (with `:tool-name`, `:tool-id` and `:call-summary` of the call that \
         has run longest, and `:running`, the number of running calls), \"asking\" (a person), \"retry\" (with `:attempt`, \
         `:deadline-ms` and `:reason`, as `:kind` of `turn/retry`) or \"compacting\".";
    SessionResumed "session/resumed" Lossless false
        ["session-id" "session-file" "message-count"] []
        "The connection's focus moved to a session.";
    SessionRehydrated "session/rehydrated" Lossless false
        ["session-id" "messages" "tool-calls" "tool-order"] ["more" "interrupted"]
        "The newest part of the resumed session's history.";
    SessionEntry "session/entry" Lossless false
        ["session-id" "entry"] []
        "An entry was written to the session's journal; `:offset` is its number, from 1 and without holes. `:entry` \
         is the journal's map: `:id`, `:parent-id`, `:ts`, `:type`, `:message` for a message, and the keys of its type.";
    SessionSynced "session/synced" Lossless false
        ["session-id"] []
        "A replay is complete: the client has everything up to `:offset`, and what follows is live.";
    SessionStale "session/stale" Lossless false
        ["session-id" "reason"] []
        "The session's history is not the one of `:since`: it is shorter (`:reason` is \"ahead\") or has another entry \
         at that offset (\"other-entry\"). Its newest part follows.";
    ContextUpdated "context/updated" Latest true
        ["active-session-id" "sessions"] ["session-tree-widget" "live-count"]
        "The list of live sessions changed, or the focus did. `:sessions` are those that clients show and the newest \
         others, up to 50; `:live-count` is the number of all, if there are more, and the last line of the tree says how \
         many are left out.";
    AssistantDelta "assistant/delta" Coalescible false ["session-id" "text"] ["call" "at"]
        "New text of the answer. `:call` is the number of the model call in the turn, `:at` the number of characters \
         of its text before.";
    AssistantThinkingDelta "assistant/thinking-delta" Coalescible false ["session-id" "text"] ["call" "at"]
        "New text of the model's thinking, with `:call` and `:at` as for the answer.";
    AssistantMessage "assistant/message" Lossless false
        ["session-id" "role" "content"] ["text" "stop-reason" "error-message" "usage"]
        "A message of the model is complete or failed.";
    UserMessage "user/message" Lossless false
        ["session-id" "role" "content" "from"] ["text" "sender"]
        "A message was put into the conversation: by a client, from the queue, through control, by a workflow or by \
         the session that delegated. `:from` says by whom: {:kind \"client\", \"runtime\", \"earlier\" or \"control\", \
         :connection, :client}; `:sender` is the name that a sender of control gave itself.";
    MessagesReplaced "messages/replaced" Lossless false ["session-id" "entry-ids" "reason"] []
        "Messages are no longer part of the conversation; the model is not told of them, and other messages take their \
         place. `:reason` is \"retry\": the model is asked again.";
    FilesUndone "files/undone" Lossless false ["session-id" "undone" "files"] []
        "What a turn did to files was undone, or with `:undone` false redone; `:files` are those of `undo`.";
    QueueUpdated "queue/updated" Latest false ["session-id" "held" "waiting"] []
        "The waiting messages changed; these are all, in the order in which they came or were moved. `:held` says that an abort holds \
         them. Each is {:entry-id, :text, :cut, :images, :until \"next-call\" or \"turn-end\", :from, :sender, :turn-id, \
         :fixed, :queued-at}; `:from` as in `user/message`, and :fixed if it came through control, so that nobody may \
         change it.";
    ToolStart "tool/start" Lossless false
        ["session-id" "tool-id" "tool-name" "call-summary"] ["arguments" "parsed-args"]
        "The model proposed a tool call.";
    ToolDelta "tool/delta" Coalescible false ["session-id" "tool-id" "arguments"] ["call" "at"]
        "New text of a call's arguments, with `:call` and `:at` as for the answer.";
    ToolExecuting "tool/executing" Lossless false
        ["session-id" "tool-id" "tool-name" "call-summary"] ["arguments" "parsed-args"]
        "A tool call started to run.";
    ToolUpdate "tool/update" Latest false
        ["session-id" "tool-id" "tool-name" "content" "result-text" "is-error" "call-summary"] ["details"]
        "The latest output of a running tool.";
    ToolResult "tool/result" Lossless false
        ["session-id" "tool-id" "tool-name" "content" "result-text" "is-error" "call-summary"] ["details" "duration-ms"]
        "A tool call ended. `:duration-ms` is how long it ran, without what it waited for; a call that did not run, or that asks the user, has none.";
    ToolRequested "tool/requested" Lossless true
        ["session-id" "request-id" "tool-id" "tool-name" "arguments" "timeout-ms"] []
        "The model calls a tool that this client offers with `register_tools`; `tool_result` answers. Sent to no other \
         client, and to this one with or without a subscription.";
    FileRequested "file/requested" Lossless true
        ["session-id" "request-id" "path" "action" "timeout-ms"] ["text" "expected"]
        "The agent reads (`:action` \"read\") or changes (\"write\") a file that this client has open, or asks for its \
         \"diagnostics\" that are new since the turn's first change; `file_result` answers. \
         `:expected` is the SHA-256 of the text that `:text` replaces. The client saves nothing. Sent like `tool/requested`.";
    FileChanged "file/changed" Lossless true
        ["session-id" "path"] ["request-id" "sha256" "visited" "text" "bytes" "problem"]
        "A file that this client has open is another one on disk: with the change of `:request-id`, or with `:text` \
         (`:bytes` in base64 for what is not UTF-8), or with a `:problem` for which it is not followed. `:visited` is its \
         new state. Sent like `tool/requested`.";
    RequestCancelled "request/cancelled" Lossless true ["session-id" "request-id" "reason"] []
        "A `tool/requested` or `file/requested` takes no answer any more, because the turn was \"ended\" or the request \
         \"timed-out\"; or a change that the client has made was \"not-written\", and is undone. Sent like those.";
    DialogRequested "ui/dialog-requested" Lossless true
        ["dialog-id" "kind" "title"]
        ["message" "options" "placeholder" "default" "parent-session-id" "root-session-id" "subagent-id" "subagent-label"]
        "A question to a person, for connections that support only dialogs.";
    FrontendActionRequested "ui/frontend-action-requested" Lossless false
        ["request-id" "ui/action"] []
        "A command needs a choice, which the frontend offers natively.";
    WidgetsUpdated "ui/widgets-updated" Latest false ["widgets"] []
        "The widgets' content changed.";
    WidgetSpecsUpdated "ui/widget-specs-updated" Latest false [] ["widget-specs"]
        "The set of widgets changed.";
    StatusUpdated "ui/status-updated" Latest false ["statuses"] []
        "The status texts changed.";
    Notification "ui/notification" Lossless true ["id" "message" "level"] ["extension-id"]
        "A message to the person.";
    FooterUpdated "footer/updated" Latest false
        ["session-id" "path-line" "stats-line"]
        ["status-line" "usage-parts" "model-text" "session-activity-line" "session-activity-buckets"]
        "The footer's content changed.";
    CommandResult "command-result" Lossless false ["type"] ["message" "data"]
        "A slash command ended; this is its outcome. `:turn-id` is that of the workflow's run that it began, whose \
         `turn/ended` follows.";
    InteractionRequested "interaction/requested" Lossless true
        ["interaction-id" "kind" "correlation-id" "payload"]
        ["parent-session-id" "root-session-id" "subagent-id" "subagent-label"]
        "The runtime asks a typed question and waits for its answer.";
    InteractionAnswered "interaction/answered" Lossless true
        ["interaction-id" "correlation-id" "status" "ext-id"] ["value"]
        "A question was answered or withdrawn.";
    TurnStage "turn/stage" Lossless false ["session-id" "turn-id" "stage" "point"] ["hook" "outcome" "reason" "tool-id"]
        "A turn passed a boundary, or a hook ran there.";
    TurnEnded "turn/ended" Lossless false
        ["session-id" "turn-id" "outcome"] ["stop-reason" "error-message" "error-kind" "usage" "run"]
        "A turn or a workflow's run ended and the session is free. `:outcome` is \"completed\", \"aborted\", \
         \"interrupted\" or \"failed\"; `:entry-id` names its last message. `:error-kind` is that of the model call \
         that failed, if one did: \"overloaded\", \"rate-limited\", \"dropped\", \"malformed\" (the model wrote a call \
         that cannot be used), \"context-overflow\", \"not-configured\" (a key, a model or a provider is missing) or \
         \"fatal\"; or \"round-limit\", if the turn made as many model calls as it may, \"loop\", if it made the same call again \
         and again, or \"empty-answer\", if the model ended twice without one. Of a \
         workflow's run, `:run` has the `:outcome` of its last stage, and the `:reason` if it did not succeed.";
    TurnRetry "turn/retry" Lossless false
        ["session-id" "attempt" "kind" "pause-ms"] ["error-message" "discarded"]
        "A model call failed, and the turn waits before it retries it. `:kind` is that of the failure: \"overloaded\", \
         \"rate-limited\", \"dropped\" or \"malformed\". With `:discarded` true, the text, the thinking and the proposed calls \
         that this call has shown are dropped: the answer begins anew.";
    CompactionStarted "compaction/started" Lossless false ["session-id" "reason"] []
        "The model begins to summarise the older part of the conversation. `:reason` is \"requested\" or \"window-full\".";
    CompactionEnded "compaction/ended" Lossless false
        ["session-id" "outcome" "tokens-before" "tokens"] ["error-message"]
        "The summary ended. `:outcome` is \"completed\", \"aborted\" or \"failed\"; `:tokens` are those in the window now.";
    ControlHandled "control/handled" Lossless false
        ["session-id" "type" "request-id" "team" "sender" "result" "duplicate"] ["detail"]
        "A request of the control protocol for the session was answered. `:type` is \"stdin\", \"interrupt\" or \
         \"elicitation\"; `:result` is that of the acknowledgement. Never the text.";
    Diagnostic "diagnostic" Lossless true ["code" "message"] ["detail"]
        "A condition worth reporting: repairs, failed hooks, merged events.";
    McpUpdated "mcp/updated" Latest false ["session-id" "servers"] []
        "The state of the session's MCP servers changed. `:servers` are all of them, each {:name, :enabled, :state, \
         :tools, :last-error}, with the number of its tools; `list_mcp` tells more.";
    JobUpdated "job/updated" Latest true ["job"] []
        "A background job changed.";
    Error "error" Lossless true ["error-code" "error-message"] ["id" "op"]
        "Something failed outside a pending request.";
}
