//! The ops.

use crate::catalogue::{Access, ErrorCode, OpSpec, Param, Shape};
use crate::message::Mode;

/// Declares the ops: variant, wire name, access, whether it concerns a session, params (`?` marks one
/// that may be absent), keys of the response's data, error codes of its own, and what it does.
macro_rules! ops {
    (@required) => { true };
    (@required ?) => { false };
    ($($variant:ident $name:literal $access:ident $session:literal
        { $($key:literal $shape:expr $(; $optional:tt)?),* $(,)? }
        [$($data:literal)*] [$($error:ident)*] $doc:literal;)*) => {
        /// What a request asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Op {
            $(#[doc = $doc] $variant,)*
        }

        /// All ops, in the order of the table.
        pub const OPS: &[OpSpec] = &[
            $(OpSpec {
                op: Op::$variant,
                name: $name,
                access: Access::$access,
                session: $session,
                params: &[$(Param { key: $key, shape: $shape, required: ops!(@required $($optional)?) }),*],
                data: &[$($data),*],
                errors: &[$(ErrorCode::$error),*],
                doc: $doc,
            },)*
        ];

        impl Op {
            /// The op of that name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The op's row.
            pub const fn spec(self) -> &'static OpSpec {
                // The table stands in the order of the enum, so this indexing is checked at compile time
                // by the length of both lists, which come from one macro call.
                #[expect(clippy::indexing_slicing, reason = "one macro call makes both lists")]
                &OPS[self as usize]
            }
        }
    };
}

const DIRECTIONS: Shape = Shape::OneOf(&["next", "prev"]);
const MODES: Shape = Shape::OneOf(&Mode::NAMES);

ops! {
    Handshake "handshake" Connection false { "client-info" Shape::Map }
        ["server-info"] [UnsupportedVersion]
        "Agrees on a version and features; every other op needs it first.";
    Ping "ping" Connection false {} ["pong" "protocol-version"] []
        "Answers at once.";
    Subscribe "subscribe" Connection false { "topics" Shape::Texts ;? } ["subscribed" "ignored?"] []
        "Adds topics to what the connection is sent; without topics, all of them.";
    Unsubscribe "unsubscribe" Connection false { "topics" Shape::Texts ;? } ["subscribed" "ignored?"] []
        "Removes topics; without topics, all of them.";
    Ack "ack" Connection false { "seq" Shape::Count } ["accepted"] []
        "Says the seq of the last event that the client has shown.";
    QueryEql "query_eql" Read true
        { "query" Shape::Text, "entity" Shape::Text ;?, "strict" Shape::Flag ;? }
        ["result" "missing?" "errors?"] [InvalidQuery QueryFailed]
        "Asks the graph in EQL.";
    GetState "get_state" Read true {} ["state"] [QueryFailed]
        "The session's state, as `session/updated` has it.";
    GetMessages "get_messages" Read true { "before" Shape::Filled ;?, "limit" Shape::Count ;? }
        ["messages" "more?"] [QueryFailed NotFound]
        "The messages on the current branch, the newest part or those before an entry.";
    GetSessionStats "get_session_stats" Read true {} ["stats"] [QueryFailed]
        "Counts, tokens, cost and sizes of the session.";
    GetForkMessages "get_fork_messages" Read true {} ["messages"] [QueryFailed]
        "The user's messages, each a place to fork at.";
    GetLastAssistantText "get_last_assistant_text" Read true {} ["text"] [QueryFailed]
        "The text of the model's last message, or nil.";
    GetCommands "get_commands" Read true {} ["commands"] [QueryFailed]
        "The slash commands, for completion.";
    GetAvailableModels "get_available_models" Read true {} ["models"] [QueryFailed]
        "The models of the catalogue, and which of them can be used now.";
    ListSessions "list_sessions" Read true
        { "limit" Shape::Count ;?, "scope" Shape::OneOf(&["project", "all"]) ;?, "text" Shape::Filled ;? }
        ["active-session-id" "sessions"] [QueryFailed]
        "The sessions, live and on disk, newest first, a thousand where no `:limit` is named; with `:text` those with its words, the best first.";
    ReadOutput "read_output" Read true
        { "handle" Shape::Filled, "offset" Shape::Count ;?, "limit" Shape::Count ;? }
        ["text" "offset" "size"] [NotFound]
        "A part of an output that an event showed only in excerpt.";
    Command "command" Write true { "text" Shape::Filled } ["accepted"] [UnknownCommand]
        "Runs a slash command; its outcome comes as an event.";
    FrontendActionResult "frontend_action_result" Write true
        { "request-id" Shape::Filled, "action-name" Shape::Filled,
          "status" Shape::OneOf(&["submitted", "cancelled", "failed"]),
          "value" Shape::Any ;?, "error-message" Shape::Text ;? }
        ["accepted"] [NotFound]
        "Answers a frontend action.";
    Prompt "prompt" Write true
        { "message" Shape::Filled, "images" Shape::Maps ;?, "idempotency-key" Shape::Filled ;? }
        ["accepted" "turn-id?"] [SessionNotIdle UnknownCommand]
        "Starts a turn with the user's message.";
    Steer "steer" Write true
        { "message" Shape::Filled, "images" Shape::Maps ;?, "idempotency-key" Shape::Filled ;? }
        ["accepted" "turn-id?"] []
        "Adds to the running turn, before the next model call; starts one where none runs.";
    FollowUp "follow_up" Write true
        { "message" Shape::Filled, "images" Shape::Maps ;?, "idempotency-key" Shape::Filled ;? }
        ["accepted" "turn-id?"] []
        "Queues a message for after the running turn; starts a turn where none runs.";
    PromptWhileStreaming "prompt_while_streaming" Write true
        { "message" Shape::Filled, "behavior" Shape::OneOf(&["steer", "queue"]) ;? }
        ["accepted" "behavior"] []
        "Steers or queues, as `:behavior` says.";
    Abort "abort" Urgent true {} ["accepted"] []
        "Ends the running turn at once.";
    Interrupt "interrupt" Urgent true {} ["accepted" "pending" "dropped-steering-text"] []
        "Ends the running turn after the tool call that runs.";
    AbortRetry "abort_retry" Write true {} ["accepted"] []
        "Gives up waiting for a retry.";
    NewSession "new_session" Write true { "parent-session" Shape::Filled ;? } ["session-id" "session-file?"] [NotFound]
        "Opens a session and moves the connection's focus to it.";
    SwitchSession "switch_session" Write false
        { "session-id" Shape::Filled ;?, "session-path" Shape::Filled ;? }
        ["session-id" "session-file?"] [NotFound]
        "Moves the connection's focus to a session, opening it from disk if need be.";
    Fork "fork" Write true { "entry-id" Shape::Filled } ["session-id" "session-file?"] [NotFound]
        "Opens a session with the history up to an entry, and moves the focus to it.";
    SetSessionName "set_session_name" Write true { "name" Shape::Filled } ["session-name"] []
        "Names the session.";
    SetModel "set_model" Write true
        { "provider" Shape::Name, "model-id" Shape::Filled,
          "scope" Shape::OneOf(&["session", "project", "user"]) ;? }
        ["model"] [UnknownModel]
        "Chooses the model, from the next model call on.";
    CycleModel "cycle_model" Write true { "direction" DIRECTIONS ;? } ["model"] [UnknownModel]
        "Chooses the next usable model of the catalogue.";
    SetThinkingLevel "set_thinking_level" Write true { "level" Shape::Level } ["thinking-level"] []
        "Chooses how much the model may think.";
    CycleThinkingLevel "cycle_thinking_level" Write true {} ["thinking-level"] []
        "Chooses the next thinking level.";
    SetMode "set_mode" Write true { "mode" MODES } ["mode"] []
        "Chooses what tools may do without asking.";
    SetAutoCompaction "set_auto_compaction" Write true { "enabled" Shape::Flag } ["enabled"] []
        "Turns automatic compaction on or off.";
    SetAutoRetry "set_auto_retry" Write true { "enabled" Shape::Flag } ["enabled"] []
        "Turns automatic retries on or off.";
    Compact "compact" Write true { "custom-instructions" Shape::Text ;? } ["compacted" "summary?"] [SessionNotIdle]
        "Summarises the older part of the conversation for the model; the journal keeps it.";
    TrustProject "trust_project" Write true { "trusted" Shape::Flag } ["trusted"] []
        "Lets the project's configuration widen permissions and name commands, or not.";
    ResolveDialog "resolve_dialog" Urgent true { "dialog-id" Shape::Filled, "result" Shape::DialogResult }
        ["accepted"] [NoActiveDialog DialogIdMismatch InteractionAlreadyAnswered]
        "Answers the dialog that is open.";
    CancelDialog "cancel_dialog" Urgent true { "dialog-id" Shape::Filled }
        ["accepted"] [NoActiveDialog DialogIdMismatch InteractionAlreadyAnswered]
        "Cancels the dialog that is open.";
    InteractionRespond "interaction_respond" Urgent true
        { "interaction-id" Shape::Filled, "status" Shape::OneOf(&["accepted", "cancelled"]),
          "value" Shape::Map ;?, "note" Shape::Text ;? }
        ["accepted"] [NotFound InteractionAlreadyAnswered]
        "Answers a typed question; the first answer wins.";
    LoginBegin "login_begin" Write true { "provider" Shape::Name ;? }
        ["provider" "url" "uses-callback-server" "pending-login" "user-code?" "expires-at?"] []
        "Begins a login with a provider: a page to agree at, a code to type there, or a key to paste.";
    LoginComplete "login_complete" Write true { "input" Shape::Text ;? } ["provider" "logged-in"] [NoPendingLogin]
        "Completes the login that was begun.";
    Logout "logout" Write true { "provider" Shape::Name } ["logged-out"] []
        "Forgets a provider's credentials.";
    Bash "bash" Write true { "command" Shape::Filled, "timeout-seconds" Shape::Count ;? }
        ["output" "exit-code" "cancelled" "truncated" "handle?"] [SessionNotIdle]
        "Runs a command for the user, in the session's folder.";
    AbortBash "abort_bash" Write true {} ["accepted"] []
        "Ends the command that `bash` runs.";
    ListBackgroundJobs "list_background_jobs" Read true { "statuses" Shape::Texts ;? } ["jobs"] []
        "The background jobs.";
    InspectBackgroundJob "inspect_background_job" Read true { "job-id" Shape::Filled } ["job"] [NotFound]
        "One background job.";
    CancelBackgroundJob "cancel_background_job" Write true { "job-id" Shape::Filled } ["accepted" "job"] [NotFound]
        "Ends a background job.";
    ExportHtml "export_html" Read true { "path" Shape::Filled ;? } ["path"] [NotFound]
        "Writes the session as one self-contained page.";
    ContextUpdate "context_update" Write true
        { "cwd" Shape::Text ;?, "workspace-root" Shape::Text ;?, "active-file" Shape::Map ;?,
          "selection" Shape::Map ;?, "extensions" Shape::Map ;? }
        ["accepted"] []
        "Says what the person looks at in the editor.";
}
