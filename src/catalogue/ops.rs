//! The ops. Data only: does not know who serves an op.

use crate::catalogue::errors::ErrorCode;
use crate::catalogue::param::{Param, Shape};
use crate::catalogue::param_check::{self, InvalidParam};
use crate::message::Mode;
use crate::value::Value;

/// How an op relates to a session. This decides which requests it may overtake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAccess {
    /// Concerns only the connection.
    Connection,
    /// Reads a session or the process; never waits for a turn.
    Read,
    /// Changes a session; served in order of arrival.
    Write,
    /// Ends something or answers a question; admitted even if the maximum of requests is pending.
    Urgent,
}

/// One row of the ops table.
#[derive(Debug, Clone, Copy)]
pub struct OpSpec {
    /// The op.
    pub op: Op,
    /// Its name on the wire.
    pub name: &'static str,
    /// How it relates to a session.
    pub access: SessionAccess,
    /// Its params, without the optional `:session-id` of session ops.
    pub params: &'static [Param],
    /// Whether it concerns a session and takes `:session-id`.
    pub session: bool,
    /// The keys of the response's `:data`; a key that ends in `?` is optional.
    pub data: &'static [&'static str],
    /// Its specific error codes, in addition to those of every request.
    pub errors: &'static [ErrorCode],
    /// What it does, in one or two sentences.
    pub doc: &'static str,
}

impl OpSpec {
    /// Checks params against the row.
    ///
    /// # Errors
    /// [`InvalidParam`] names the first key that is missing or whose value has the wrong shape. Unknown keys are
    /// accepted, because a newer client may send more.
    pub fn check(&self, params: &Value<'_>) -> Result<(), InvalidParam> {
        param_check::params(self.params, self.session, params)
    }
}

/// Passes the rows of the table to a macro: variant, name on the wire, access, whether it takes a session, params (`?`
/// marks an optional one), keys of the response's data, specific error codes, and what it does. The name is also that
/// of the op's handler, so that a wire makes its dispatch from the same row.
macro_rules! each_op {
    ($make:ident) => {
        $make! {
            Handshake handshake Connection false { "client-info" Shape::Map }
                ["server-info"] [UnsupportedVersion]
                "Agrees on a version and features. Every other op requires it.";
            Ping ping Connection false {} ["pong" "protocol-version"] []
                "Answers at once.";
            Subscribe subscribe Connection false { "topics" Shape::Texts ;?, "since" Shape::Map ;? }
                ["subscribed" "ignored?" "asked-on?" "replaying?"] [NotFound]
                "Subscribes the connection to topics; without `:topics`, to all. `:asked-on` is there with a topic of questions: the topic on which this client is asked them, or nil if it is not asked. With `:since` {:session-id, :offset, [:entry-id], [:at {:turn, :call, :chars, [:thinking]}]} the focus moves to that session, and the client is sent each entry after that offset (`:replaying` of them), the running answer after `:at`, running tools, open questions and `session/synced`; then live events follow.";
            Unsubscribe unsubscribe Connection false { "topics" Shape::Texts ;? } ["subscribed" "ignored?" "asked-on?"] []
                "Ends subscriptions to topics; without `:topics`, all.";
            Ack ack Connection false { "seq" Shape::Count } ["accepted"] []
                "Reports the `:seq` of the last event that the client has shown.";
            QueryEql query_eql Read true
                { "query" Shape::Text, "entity" Shape::Text ;?, "strict" Shape::Flag ;? }
                ["result" "missing?" "errors?"] [InvalidQuery QueryFailed]
                "Queries the graph in EQL.";
            GetState get_state Read true {} ["state"] []
                "Returns the session's state, in the shape of `session/updated`.";
            GetMessages get_messages Read true { "before" Shape::Filled ;?, "limit" Shape::Count ;? }
                ["messages" "more?" "interrupted?"] [NotFound]
                "Returns messages of the current branch: the newest, or those before an entry.";
            GetSessionStats get_session_stats Read true {} ["stats"] []
                "Returns counts, tokens, cost and sizes of the session.";
            GetForkMessages get_fork_messages Read true {} ["messages"] []
                "Returns the user's messages, each a point to fork at.";
            GetLastAssistantText get_last_assistant_text Read true {} ["text"] []
                "Returns the text of the model's last message, or nil.";
            GetCommands get_commands Read true {} ["commands"] []
                "Returns the slash commands, for completion.";
            GetAvailableModels get_available_models Read true {} ["models"] []
                "Returns the models of the catalogue and whether each is usable now.";
            ListSessions list_sessions Read true
                { "limit" Shape::Count ;?, "scope" Shape::OneOf(&["project", "all"]) ;?, "text" Shape::Filled ;?,
                  "archived?" Shape::Flag ;? }
                ["active-session-id" "sessions" "missing?"] []
                "Returns the sessions, live and on disk, newest first; without `:limit`, at most a thousand. With `:text`, returns the sessions that match its words, best first; with `:scope \"all\"`, those of other hosts of the realm come after them, and `:missing` says why they do not. It also names the copies of sessions among the files, which are not listed, and with `:text` what is wrong with the files of those that match. Archived ones are among them with `:archived? true`.";
            ReadOutput read_output Read true
                { "handle" Shape::Filled, "offset" Shape::Count ;?, "limit" Shape::Count ;? }
                ["text" "offset" "size"] [NotFound]
                "Returns a part of an output of which an event carried only an excerpt.";
            Command command Write true { "text" Shape::Filled } ["accepted"] [UnknownCommand]
                "Runs a slash command; an event carries the outcome.";
            FrontendActionResult frontend_action_result Write true
                { "request-id" Shape::Filled, "action-name" Shape::Name,
                  "status" Shape::OneOf(&["submitted", "cancelled", "failed"]),
                  "value" Shape::Any ;?, "error-message" Shape::Text ;? }
                ["accepted"] [NotFound]
                "Answers a frontend action.";
            Prompt prompt Write true
                { "message" Shape::Filled, "images" Shape::Maps ;?, "idempotency-key" Shape::Filled ;? }
                ["accepted" "turn-id?" "duplicate?" "turn-state?"]
                [SessionNotIdle UnknownCommand IdempotencyConflict LedgerFull]
                "Starts a turn with the user's message.";
            Steer steer Write true
                { "message" Shape::Filled, "images" Shape::Maps ;?, "idempotency-key" Shape::Filled ;? }
                ["accepted" "turn-id?" "duplicate?" "turn-state?"] [IdempotencyConflict LedgerFull]
                "Adds a message to the running turn before its next model call; if no turn runs, starts one.";
            FollowUp follow_up Write true
                { "message" Shape::Filled, "images" Shape::Maps ;?, "idempotency-key" Shape::Filled ;? }
                ["accepted" "turn-id?" "duplicate?" "turn-state?"] [IdempotencyConflict LedgerFull]
                "Queues a message until the running turn has ended; if no turn runs, starts one.";
            PromptWhileStreaming prompt_while_streaming Write true
                { "message" Shape::Filled, "behavior" Shape::OneOf(&["steer", "queue"]) ;? }
                ["accepted" "behavior"] []
                "Steers or queues a message, according to `:behavior`.";
            ListPending list_pending Read true { "entry-id" Shape::Filled ;? } ["waiting" "held"] [NotFound]
                "Returns the messages queued for the running turn or its end, in the order in which they came or were moved, each with its sender; with `:entry-id`, only that one, with its whole text.";
            EditPending edit_pending Write true
                { "entry-id" Shape::Filled, "message" Shape::Filled, "images" Shape::Maps ;? }
                ["accepted"] [NotFound MessageFixed]
                "Gives a waiting message another text; it keeps its place, and without `:images` its images.";
            RemovePending remove_pending Write true { "entry-id" Shape::Filled } ["accepted" "text" "images"]
                [NotFound MessageFixed]
                "Takes a waiting message out of the queue and returns its text.";
            MovePending move_pending Write true { "entry-id" Shape::Filled, "before" Shape::Filled ;? }
                ["accepted"] [NotFound MessageFixed]
                "Moves a waiting message before another one; without `:before`, to the end.";
            ResumeQueue resume_queue Write true {} ["resumed" "turn-id?"] []
                "Lets a queue go on, in order, that an abort holds; if no turn runs, begins one with its first message.";
            Retry retry Write true { "idempotency-key" Shape::Filled ;? }
                ["accepted" "turn-id?" "duplicate?" "turn-state?"]
                [SessionNotIdle NothingToRetry IdempotencyConflict LedgerFull]
                "Asks the model again where the last message has no answer, or one that failed or was ended. The new answer replaces that one, for the model and in the conversation.";
            ContinueTurn continue_turn Write true { "idempotency-key" Shape::Filled ;? }
                ["accepted" "turn-id?" "duplicate?" "turn-state?"]
                [SessionNotIdle NothingToRetry IdempotencyConflict LedgerFull]
                "Asks the model to go on where its last answer failed or was ended; what it said stays.";
            Undo undo Write true { "steps" Shape::Count ;?, "skip-changed" Shape::Flag ;? }
                ["steps" "files" "message"] [SessionNotIdle FileChanged]
                "Puts the files that the last turn's tools changed back as they were, or those of as many turns as `:steps`. Files that somebody else has changed since stop it, or are skipped with `:skip-changed`. Each of `:files` is {:path, :action \"restored\", \"created\", \"removed\" or \"skipped\"}.";
            Redo redo Write true { "steps" Shape::Count ;?, "skip-changed" Shape::Flag ;? }
                ["steps" "files" "message"] [SessionNotIdle FileChanged]
                "Does again to files what was undone last, with the params and the answer of `undo`. A later change by a tool ends that.";
            Abort abort Urgent true { "idempotency-key" Shape::Filled ;? }
                ["accepted" "duplicate?"] [IdempotencyConflict LedgerFull]
                "Ends the running turn at once. Queued messages are held until the next one comes, or `resume_queue`.";
            Interrupt interrupt Urgent true { "idempotency-key" Shape::Filled ;? }
                ["accepted" "pending" "waits-for?" "dropped-steering-text" "duplicate?"] [IdempotencyConflict LedgerFull]
                "Ends the running turn after the running tool calls, whose ids are in `:waits-for`.";
            AbortRetry abort_retry Write true {} ["accepted"] []
                "Cancels the wait for a retry.";
            Control control Write false { "message" Shape::Map } ["ack"] []
                "Serves a message of the control protocol, its keys in kebab case.";
            NewSession new_session Write true
                { "parent-session" Shape::Filled ;?, "agent" Shape::Filled ;?, "idempotency-key" Shape::Filled ;? }
                ["session-id" "session-file?" "duplicate?"] [NotFound IdempotencyConflict]
                "Opens a session and moves the connection's focus to it. With an agent of the configuration, that one answers its turns.";
            SwitchSession switch_session Write false
                { "session-id" Shape::Filled ;?, "session-path" Shape::Filled ;? }
                ["session-id" "session-file?"] [NotFound]
                "Moves the connection's focus to a session, named by its id, its path or both; opens it from disk if necessary.";
            Fork fork Write true { "entry-id" Shape::Filled, "idempotency-key" Shape::Filled ;? }
                ["session-id" "session-file?" "duplicate?"] [NotFound IdempotencyConflict]
                "Opens a session with the history up to an entry and moves the focus to it.";
            SetSessionName set_session_name Write true { "name" Shape::Filled } ["session-name"] []
                "Names the session.";
            RenameSession rename_session Write false { "session-id" Shape::Filled, "name" Shape::Filled }
                ["session-id" "session-name"] [NotFound]
                "Names a session, live or on disk.";
            ArchiveSession archive_session Write false { "session-id" Shape::Filled, "archived?" Shape::Flag ;? }
                ["session-id" "archived"] [NotFound SessionNotIdle]
                "Archives a session, live or on disk, so that lists leave it out; with `:archived? false`, takes it out again. A session that runs, that another client shows or that another process has open is refused.";
            DeleteSession delete_session Write false { "session-id" Shape::Filled }
                ["session-id" "deleted"] [NotFound SessionNotIdle]
                "Deletes a session, live or on disk, with its journal and its kept outputs. Nothing of it comes back after the answer. A session that runs, that a client shows or that another process has open is refused.";
            TakeSession take_session Write false { "session-id" Shape::Filled, "cwd" Shape::Filled ;? }
                ["session-id" "cwd"] [NotFound]
                "Makes this host the owner of a session of the realm whose owner is lost, in a folder of this host: `:cwd`, or else one of the same git remote (`origin`), or that of the connection's focus where the session has no remote. A turn that was cut off is marked. A session that a living host owns is refused with `realm/owned`.";
            HandOverSession hand_over_session Write false { "session-id" Shape::Filled, "host" Shape::Filled }
                ["session-id" "host"] [NotFound SessionNotIdle]
                "Makes another host of the realm the owner of a session of this host. That host must be there. A session in which a turn runs is refused.";
            SetModel set_model Write true
                { "provider" Shape::Name ;?, "model-id" Shape::Filled,
                  "scope" Shape::OneOf(&["session", "project", "user"]) ;? }
                ["model"] [UnknownModel]
                "Sets the model, from the next model call on. `:model-id` is an id, a family such as `claude-sonnet` (the newest of its models is taken), or `provider/model` without `:provider`. A model that the catalogue does not list is taken from a provider that is known.";
            CycleModel cycle_model Write true { "direction" DIRECTIONS ;? } ["model"] [UnknownModel]
                "Switches to the next usable model of the catalogue.";
            SetThinkingLevel set_thinking_level Write true
                { "level" Shape::Level, "scope" Shape::OneOf(&["session", "project", "user"]) ;? }
                ["thinking-level"] []
                "Sets the thinking level; with a scope, for new sessions too.";
            CycleThinkingLevel cycle_thinking_level Write true {} ["thinking-level"] []
                "Switches to the next thinking level.";
            SetMode set_mode Write true { "mode" MODES } ["mode"] []
                "Sets the permission mode: what tools may do without asking.";
            SetAutoCompaction set_auto_compaction Write true { "enabled" Shape::Flag } ["enabled"] []
                "Turns automatic compaction on or off.";
            SetAutoRetry set_auto_retry Write true { "enabled" Shape::Flag } ["enabled"] []
                "Turns automatic retries on or off.";
            SetOption set_option Write true { "option" Shape::Filled, "value" Shape::Any } ["options"] [NotFound]
                "Chooses a value of an option of the session's agent, by their ids: true or false for a switch. The options are in `session/updated`.";
            AgentOptions agent_options Write true {} ["options"] []
                "Returns what can be chosen at the session's agent, as `session/updated` has it. An agent that does not run yet is started for it, and a project's agent with another command line than before is asked about.";
            ListAgents list_agents Read true {} ["agents"] []
                "Returns the agents that can answer the turns of a new session in the session's folder: {:name :source :command :trusted :sandbox :usual :state :info :last-error :sessions}. Starts none. What an agent says of itself is data.";
            Compact compact Write true { "custom-instructions" Shape::Text ;? } ["compacted" "summary?"] [SessionNotIdle]
                "Replaces the older part of the conversation by a summary for the model; the journal keeps that part.";
            TrustProject trust_project Write true { "trusted" Shape::Flag, "files" Shape::Map ;? } ["trusted"] []
                "Trusts the project or not. The configuration of a trusted project may widen permissions and name commands. \
                 With `:files`, the paths from the project's folder and the SHA-256 digests of what the person was shown, \
                 only that is trusted: it is an error if the project has another configuration or workflow by then.";
            TrustPreview trust_preview Read true {} ["trust" "runs" "problems" "files"] []
                "Returns what the project's configuration would do if it were trusted: `:runs` [{:kind :name :text}], what in it cannot be used, and the digests of its files as `trust_project` takes them. `:trust` is none, trusted, changed or earlier.";
            ListRules list_rules Read true {} ["rules"] []
                "Returns the rules that the session's calls are judged by, in their order, each with its source: option, configuration, kept or session.";
            RemoveRule remove_rule Write true { "rule-id" Shape::Filled } ["removed"] [NotFound]
                "Takes a rule back that came from an answer. It permits no further call.";
            ListAudit list_audit Read true
                { "scope" Shape::OneOf(&["session", "all"]) ;?, "before" Shape::Count ;?, "limit" Shape::Count ;? }
                ["records" "next?"] []
                "Returns records of decisions, newest first, at most 500. `:next` is the `:before` of the next page. Records have no texts and no answers.";
            ListMcp list_mcp Read true {} ["servers"] []
                "Returns the MCP servers of the session, each with its state, tools, prompts, resources and last error. Starts none. What a server says of itself is data.";
            SetMcp set_mcp Write true
                { "server" Shape::Filled, "tool" Shape::Filled ;?, "enabled" Shape::Flag } ["server"] [NotFound]
                "Switches an MCP server, or one of its tools, on or off for the session, from the next model call on.";
            RestartMcp restart_mcp Write true { "server" Shape::Filled } ["server"] [NotFound]
                "Starts an MCP server again, for every session that uses it, and answers once it is ready or has failed.";
            CompleteMcp complete_mcp Read true
                { "prompt" Shape::Filled ;?, "argument" Shape::Filled ;?, "value" Shape::Text ;?,
                  "before" Shape::Map ;?, "reference" Shape::Text ;? }
                ["values" "more"] [NotFound]
                "Completes `:value` as an `:argument` of a `:prompt` (its slash command without the slash), with the arguments `:before` it; or without them `:reference`, the start of `server:uri` after an `@`, to whole references: resources, and templates whose variables the server completes.";
            ResolveDialog resolve_dialog Urgent true { "dialog-id" Shape::Filled, "result" Shape::DialogResult }
                ["accepted"] [NoActiveDialog DialogIdMismatch InteractionAlreadyAnswered]
                "Answers the open dialog.";
            CancelDialog cancel_dialog Urgent true { "dialog-id" Shape::Filled }
                ["accepted"] [NoActiveDialog DialogIdMismatch InteractionAlreadyAnswered]
                "Cancels the open dialog.";
            InteractionRespond interaction_respond Urgent true
                { "interaction-id" Shape::Filled, "status" Shape::OneOf(&["accepted", "cancelled"]),
                  "value" Shape::Map ;?, "note" Shape::Text ;? }
                ["accepted"] [NotFound InteractionAlreadyAnswered]
                "Answers a typed question; the first answer wins.";
            RegisterTools register_tools Write true { "tools" Shape::Maps } ["registered" "shadowed"] []
                "Sets the tools that this connection offers to the session's model, in place of its earlier ones there. They go with the connection. `:shadowed` names those that another connection offers too.";
            ToolResult tool_result Urgent true
                { "request-id" Shape::Filled, "text" Shape::Text ;?, "is-error" Shape::Flag ;?,
                  "images" Shape::Maps ;?, "details" Shape::Map ;? }
                ["accepted"] [NotFound]
                "Answers a `tool/requested` of this connection.";
            ToolProgress tool_progress Urgent true { "request-id" Shape::Filled, "text" Shape::Text }
                ["accepted"] [NotFound]
                "Shows the newest output of a `tool/requested` that goes on.";
            RegisterFiles register_files Write true { "files" Shape::Maps, "lock" Shape::Text ;? } ["files"] []
                "Sets the files that this connection has open, in place of its earlier ones: `{:path string :real-path string? :modified flag? :encoding string? :visited map? :diagnostics flag?}` each. Of a file with unsaved changes the agent reads the client's text; what it changes is changed there too. `:lock` is the start of the client's locks beside files. They go with the connection.";
            FileResult file_result Urgent true
                { "request-id" Shape::Filled, "status" Shape::OneOf(&["ok", "changed", "closed", "failed"]),
                  "text" Shape::Text ;?, "bytes" Shape::Text ;?, "base" Shape::Text ;?, "visited" Shape::Map ;?, "modified" Shape::Flag ;?,
                  "final" Shape::Flag ;?, "diagnostics" Shape::Maps ;?, "error-message" Shape::Text ;? }
                ["accepted"] [NotFound]
                "Answers a `file/requested` of this connection: \"ok\" with the client's text, and `:base` or `:visited`, which say of which state of the file; \"changed\" if the text is not the expected one; \"closed\" if the file is not open any more or read-only, so that the one on disk counts. For the action \"diagnostics\" \"ok\" with `:diagnostics`, each `{:line int :column int? :severity string :message string :source string?}`.";
            LoginBegin login_begin Write true { "provider" Shape::Name ;? }
                ["provider" "url" "uses-callback-server" "pending-login" "user-code?" "expires-at?"] []
                "Starts a login with a provider: by a web page, by a code for that page, or by a pasted key.";
            LoginComplete login_complete Write true { "input" Shape::Text ;? } ["provider" "logged-in"] [NoPendingLogin]
                "Completes the pending login.";
            Logout logout Write true { "provider" Shape::Name } ["logged-out"] []
                "Deletes a provider's credentials.";
            Bash bash Write true { "command" Shape::Filled, "timeout-seconds" Shape::Count ;? }
                ["output" "exit-code" "cancelled" "truncated" "handle?"] [SessionNotIdle]
                "Runs a command for the user, in the session's folder.";
            AbortBash abort_bash Write true {} ["accepted"] []
                "Ends the running command of `bash`.";
            ListBackgroundJobs list_background_jobs Read true { "statuses" Shape::Texts ;? } ["jobs"] []
                "Returns the background jobs.";
            InspectBackgroundJob inspect_background_job Read true { "job-id" Shape::Filled } ["job"] [NotFound]
                "Returns one background job.";
            CancelBackgroundJob cancel_background_job Write true { "job-id" Shape::Filled } ["accepted" "job"] [NotFound]
                "Ends a background job.";
            ExportHtml export_html Read true { "path" Shape::Filled ;? } ["path"] [NotFound]
                "Writes the session as one self-contained page.";
            ContextUpdate context_update Write true
                { "cwd" Shape::Text ;?, "workspace-root" Shape::Text ;?, "active-file" Shape::Map ;?,
                  "selection" Shape::Map ;?, "extensions" Shape::Map ;? }
                ["accepted"] []
                "Reports what the editor shows: file, selection, workspace.";
        }
    };
}

pub(crate) use each_op;

/// Declares the ops.
macro_rules! ops {
    (@required) => { true };
    (@required ?) => { false };
    ($($variant:ident $name:ident $access:ident $session:literal
        { $($key:literal $shape:expr $(; $optional:tt)?),* $(,)? }
        [$($data:literal)*] [$($error:ident)*] $doc:literal;)*) => {
        /// The op of a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Op {
            $(#[doc = $doc] $variant,)*
        }

        /// All ops, in the order of the table.
        pub const OPS: &[OpSpec] = &[
            $(OpSpec {
                op: Op::$variant,
                name: stringify!($name),
                access: SessionAccess::$access,
                session: $session,
                params: &[$(Param { key: $key, shape: $shape, required: ops!(@required $($optional)?) }),*],
                data: &[$($data),*],
                errors: &[$(ErrorCode::$error),*],
                doc: $doc,
            },)*
        ];

        /// The names of all ops, in the same order.
        pub const OP_NAMES: &[&str] = &[$(stringify!($name)),*];

        impl Op {
            /// The op of that name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The op's row.
            pub const fn spec(self) -> &'static OpSpec {
                // One macro call makes the enum and the table, so both have the same order and length.
                #[expect(clippy::indexing_slicing, reason = "one macro call makes both lists")]
                &OPS[self as usize]
            }
        }
    };
}

const DIRECTIONS: Shape = Shape::OneOf(&["next", "prev"]);
const MODES: Shape = Shape::OneOf(&Mode::NAMES);

each_op!(ops);
