//! The one table of the UI protocol's methods: their params and results with shapes, and their capabilities.
//!
//! The checks of params, the reference page and the JSON schema come from it; [`super::run_events`] is the table of
//! events. Knows no session.

use crate::wire::ui::codes::Code;
use crate::wire::ui::shape::Shape::{
    self, Any, Each, Either, Filled, Flag, List, Null, Number, Object, OneOf, Percent, Text, Whole,
};
use crate::wire::ui::shape::{Key, may, needs};

/// The version of the protocol.
pub const VERSION: &str = "0";

/// Who sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The interface, which waits for an answer.
    Ui,
    /// The interface, which waits for none.
    UiNotice,
    /// The runtime, which waits for an answer.
    Runtime,
    /// The runtime, which waits for none.
    RuntimeNotice,
}

impl From {
    /// Who sends it, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ui => "interface, request",
            Self::UiNotice => "interface, notification",
            Self::Runtime => "runtime, request",
            Self::RuntimeNotice => "runtime, notification",
        }
    }
}

/// Since when it is in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Introduced {
    /// The document.
    Document,
    /// The code at the time of the document.
    Code,
    /// Later.
    Later,
    /// An extension of this program.
    Ours,
}

impl Introduced {
    /// The time, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Code => "code",
            Self::Later => "later",
            Self::Ours => "extension",
        }
    }
}

/// A method.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Who sends it.
    pub from: From,
    /// Since when it is in the protocol.
    pub since: Introduced,
    /// The capability that says that it is served.
    pub capability: Option<&'static str>,
    /// Whether it is served.
    pub served: bool,
    /// Its params.
    pub params: &'static [Key],
    /// The result.
    pub result: &'static [Key],
    /// The codes of its own errors.
    pub codes: &'static [Code],
    /// Its purpose.
    pub doc: &'static str,
}

impl Method {
    /// The same, since another time.
    const fn since(self, since: Introduced) -> Self {
        Self { since, ..self }
    }
}

const NAMED: Shape = Object(&[needs("name", Text), needs("version", Text)]);
const POSITION: Shape = Object(&[needs("line", Whole), needs("column", Whole)]);

/// What the interface shows.
pub const UI_CONTEXT: &[Key] = &[
    may("cwd", Text),
    may("workspace_root", Text),
    may("active_file", Object(&[needs("path", Text), may("language_id", Text)])),
    may(
        "selection",
        Object(&[
            needs("path", Text),
            needs("range", Object(&[needs("start", POSITION), needs("end", POSITION)])),
            may("selected_text", Text),
        ]),
    ),
    may("extensions", Each(&Any)),
];

const INPUT: Shape = Either(&[
    Object(&[needs("type", OneOf(&["text"])), needs("text", Text)]),
    Object(&[needs("type", OneOf(&["parts"])), needs("parts", List(&PART))]),
]);

const PART: Shape = Either(&[
    Object(&[needs("type", OneOf(&["text"])), needs("text", Text)]),
    Object(&[
        needs("type", OneOf(&["image_url"])),
        needs("image_url", Object(&[needs("url", Filled), may("detail", Text), may("media_type", Text)])),
    ]),
]);

const CLIENT_TOOL: Shape = Object(&[
    may("type", OneOf(&["function"])),
    needs("name", Filled),
    needs("description", Filled),
    needs("parameters", Each(&Any)),
    may("strict", Flag),
    may("timeout_ms", Whole),
    may("approval", OneOf(&["default", "never"])),
]);

const RUN_STATUS: Shape = OneOf(&["running", "awaiting_ui", "completed", "error", "cancelled"]);
const NULLABLE_TEXT: Shape = Either(&[Text, Null]);
const NULLABLE_WHOLE: Shape = Either(&[Whole, Null]);
const NULLABLE_NUMBER: Shape = Either(&[Number, Null]);
const REASONING: Shape = OneOf(&["low", "medium", "high", "xhigh"]);

const SESSION: Shape = Object(&[
    needs("session_id", Text),
    needs("updated_at", Text),
    may("run_id", Text),
    may("message_count", Whole),
    may("last_user_message", Text),
    may("workspace_root", Text),
]);

const MODEL_DETAILS: Shape = Object(&[
    may("release_date", Text),
    may("context_window", Whole),
    may("max_input_tokens", Whole),
    may("max_output_tokens", Whole),
    may("cost_per_1m_input_tokens_usd", Number),
    may("cost_per_1m_output_tokens_usd", Number),
]);

const SERVER: Shape = Object(&[
    needs("id", Text),
    needs("transport", OneOf(&["http", "stdio"])),
    may("source", OneOf(&["project", "global"])),
    needs("enabled", Flag),
    needs("state", OneOf(&["disabled", "connecting", "auth_required", "ready", "error"])),
    may("tools", Whole),
    may("last_error", Text),
    may("last_connected_at", Text),
]);

const SKILL: Shape = Object(&[
    needs("id", Text),
    needs("name", Text),
    needs("description", Text),
    needs("path", Text),
    needs("dir", Text),
    needs("scope", OneOf(&["repo", "user"])),
    needs("mtime_ms", Whole),
]);

const USAGE: Shape = Either(&[
    Null,
    Object(&[
        needs("input_tokens", Whole),
        needs("output_tokens", Whole),
        needs("total_tokens", Whole),
        may("input_cached_tokens", NULLABLE_WHOLE),
        may("input_cache_creation_tokens", NULLABLE_WHOLE),
        may("input_image_tokens", NULLABLE_WHOLE),
    ]),
]);

const LLM_CALL: Shape = Object(&[
    needs("run_id", Text),
    needs("seq", Whole),
    may("provider", Text),
    needs("model", Text),
    needs("request_ts", Text),
    needs("response_ts", Text),
    needs("latency_ms", Whole),
    may("stop_reason", NULLABLE_TEXT),
    may("usage", USAGE),
    needs(
        "cache",
        Object(&[
            needs("hit_state", OneOf(&["hit", "miss", "unknown"])),
            needs("cache_read_tokens", Whole),
            needs("cache_creation_tokens", Whole),
            may("cache_read_ratio", NULLABLE_NUMBER),
        ]),
    ),
    may("cost_usd", NULLABLE_NUMBER),
    may("provider_meta_summary", NULLABLE_TEXT),
]);

const BY_MODEL: Shape = Object(&[
    needs("calls", Whole),
    needs("input_tokens", Whole),
    needs("output_tokens", Whole),
    needs("cached_input_tokens", Whole),
    needs("cache_creation_tokens", Whole),
    needs("total_tokens", Whole),
    may("cost_usd", NULLABLE_NUMBER),
]);

const RUN_SUMMARY: Shape = Object(&[
    needs("total_calls", Whole),
    needs("total_tokens", Whole),
    needs("total_input_tokens", Whole),
    needs("total_output_tokens", Whole),
    needs("total_cached_input_tokens", Whole),
    needs("total_cache_creation_tokens", Whole),
    may("total_cost_usd", NULLABLE_NUMBER),
    needs("by_model", Each(&BY_MODEL)),
]);

const SHELL: &[Key] = &[needs("command", Filled), may("timeout_seconds", Whole), may("cwd", Filled)];

const TASK_STATE: Shape = OneOf(&["queued", "running", "completed", "failed", "cancelled"]);
const TRUNCATED: Shape = Object(&[needs("stdout", Flag), needs("stderr", Flag), needs("combined", Flag)]);

const SHELL_TASK: &[Key] = &[
    needs("task_id", Text),
    needs("state", TASK_STATE),
    needs("command_preview", Text),
    needs("cwd", Text),
    needs("created_at", Text),
    needs("updated_at", Text),
    may("started_at", Text),
    may("ended_at", Text),
    needs("exit_code", NULLABLE_WHOLE),
    may("signal", NULLABLE_TEXT),
    needs("stdout", Text),
    needs("stderr", Text),
    needs("truncated", TRUNCATED),
    needs("duration_ms", NULLABLE_WHOLE),
    may("stdout_cache_id", Text),
    may("stderr_cache_id", Text),
    may("failure_message", Text),
];

const TASK_ID: &[Key] = &[needs("task_id", Filled)];

const TASK: &[Key] = &[
    needs("task_id", Text),
    needs("kind", OneOf(&["shell", "subagent"])),
    needs("workspace_mode", OneOf(&["live_workspace", "worktree"])),
    needs("state", TASK_STATE),
    may("title", Text),
    may("working_directory", Text),
    needs("created_at", Text),
    needs("updated_at", Text),
    may("started_at", Text),
    may("ended_at", Text),
    needs("exit_code", NULLABLE_WHOLE),
    may("signal", NULLABLE_TEXT),
    needs("duration_ms", NULLABLE_WHOLE),
    may("stdout", Text),
    may("stderr", Text),
    may("truncated", TRUNCATED),
    may("failure_message", Text),
];

/// A row of a request of the document that is served.
const fn served(
    name: &'static str,
    capability: Option<&'static str>,
    params: &'static [Key],
    result: &'static [Key],
    codes: &'static [Code],
    doc: &'static str,
) -> Method {
    let since = Introduced::Document;
    Method { name, from: From::Ui, since, capability, served: true, params, result, codes, doc }
}

/// A row of the person's commands, or of tasks.
const fn task(
    name: &'static str,
    capability: &'static str,
    params: &'static [Key],
    result: &'static [Key],
    codes: &'static [Code],
    doc: &'static str,
) -> Method {
    served(name, Some(capability), params, result, codes, doc).since(Introduced::Later)
}

/// A row of what the runtime sends, of the document.
const fn sent(
    name: &'static str,
    from: From,
    capability: Option<&'static str>,
    params: &'static [Key],
    result: &'static [Key],
    doc: &'static str,
) -> Method {
    let since = Introduced::Document;
    Method { name, from, since, capability, served: true, params, result, codes: &[], doc }
}

/// All methods, in the order of the document.
pub const METHODS: &[Method] = &[
    served(
        "initialize",
        None,
        &[needs("protocol_version", Text), needs("client", NAMED), may("ui_capabilities", Each(&Any))],
        &[
            needs("protocol_version", Text),
            needs("server", NAMED),
            may("server_capabilities", Each(&Flag)),
            may("tui", Object(&[may("theme", Text)])),
        ],
        &[],
        "Agrees on what both sides can do. Other requests do not wait for it.",
    ),
    served(
        "run.start",
        None,
        &[
            may("input", INPUT),
            may("session_id", Text),
            may("force_compaction", Flag),
            may("ui_context", Object(UI_CONTEXT)),
            may("meta", Each(&Any)),
            may("tools", List(&CLIENT_TOOL)),
            may("tool_choice", OneOf(&["auto"])),
        ],
        &[needs("run_id", Text), may("session_id", Text), may("session_log_path", Text)],
        &[Code::InvalidParams, Code::Busy, Code::NoSession, Code::NotLoadable],
        "Starts a run: a turn, a slash command, or with `force_compaction` a compaction. Without `session_id` it continues \
         with the current session. `tools` are there for this run.",
    ),
    served(
        "run.cancel",
        Some("supports_run_cancel"),
        &[needs("run_id", Filled), may("reason", Text)],
        &[needs("ok", Flag), may("status", RUN_STATUS)],
        &[Code::NoRun],
        "Ends a run at once. A run that is over is told with `ok` false and its status.",
    ),
    served(
        "session.list",
        None,
        &[
            may("limit", Whole),
            may("scope", OneOf(&["current_workspace", "all"])),
            may("workspace_root", Text),
        ],
        &[needs("sessions", List(&SESSION)), may("current_workspace_root", Text)],
        &[Code::NotListed],
        "The sessions, newest first: those of this folder, or all.",
    ),
    served(
        "session.history",
        None,
        &[needs("session_id", Filled), may("max_runs", Whole), may("max_events", Whole)],
        &[needs("runs", Whole), needs("events_sent", Whole), may("truncated", Flag)],
        &[Code::NotLoadable],
        "Replays the newest runs of a session as `agent.event`, then answers. An id that is not known has none.",
    ),
    served(
        "model.list",
        None,
        &[may("provider", Filled), may("include_details", Flag)],
        &[
            needs("provider", Text),
            needs("models", List(&Text)),
            may("current", Text),
            may("details", Each(&MODEL_DETAILS)),
            may("source", OneOf(&["config", "session"])),
            may("reasoning", REASONING),
        ],
        &[Code::InvalidParams],
        "The models of a provider, or of the current one.",
    ),
    served(
        "model.set",
        None,
        &[
            may("name", Filled),
            may("provider", Filled),
            may("reasoning", OneOf(&["low", "medium", "high", "xhigh", "max"])),
            may("fast", Flag),
            may("scope", OneOf(&["config", "session"])),
            may("reset", Flag),
        ],
        &[
            needs("provider", Text),
            needs("name", Text),
            may("source", OneOf(&["config", "session"])),
            may("reasoning", REASONING),
        ],
        &[Code::InvalidParams, Code::Busy],
        "Sets the model, for new sessions too unless the scope is `session`. With `reset` the session goes back to the \
         model of new ones.",
    ),
    served(
        "tool.call",
        Some("supports_tool_call"),
        &[needs("name", Filled), may("arguments", Each(&Any))],
        &[needs("ok", Flag), needs("result", Any)],
        &[Code::InvalidParams, Code::Internal, Code::UserCancelled],
        "Runs one tool of the runtime without a turn, under the rules of every call. `tool_output_cache` gives lines of a \
         kept output.",
    ),
    served(
        "mcp.list",
        Some("supports_mcp_list"),
        &[may("scope", OneOf(&["loaded", "configured"]))],
        &[needs("servers", List(&SERVER))],
        &[],
        "The MCP servers.",
    ),
    served(
        "skills.list",
        Some("supports_skills_list"),
        &[may("cwd", Text), may("force_reload", Flag)],
        &[
            needs("skills", List(&SKILL)),
            needs("errors", List(&Object(&[needs("path", Text), needs("message", Text)]))),
            needs("truncated", Flag),
        ],
        &[],
        "The skills of the project and the user. They are searched anew each time.",
    ),
    served(
        "context.inspect",
        Some("supports_context_inspect"),
        &[may("include_agents", Flag), may("include_skills", Flag)],
        &[
            may("runtime_working_dir", Text),
            may("runtime_sandbox_root", Text),
            may(
                "ui_context",
                Object(&[may("cwd", Text), may("workspace_root", Text), may("active_file_path", Text)]),
            ),
            may("agents", Any),
            may("skills", Any),
        ],
        &[],
        "What the model is told: files of instructions, skills, what the interface shows.",
    ),
    served(
        "auth.logout",
        None,
        &[may("clear_session", Flag)],
        &[
            needs("ok", Flag),
            needs("auth_cleared", Flag),
            needs("session_cleared", Flag),
            may("cancelled", Flag),
        ],
        &[Code::Busy, Code::Internal],
        "Asks the person, then deletes the logins of all providers and opens a new session.",
    ),
    served(
        "shell.exec",
        Some("supports_shell_exec"),
        SHELL,
        &[
            needs("command_preview", Text),
            needs("exit_code", NULLABLE_WHOLE),
            may("signal", NULLABLE_TEXT),
            needs("stdout", Text),
            needs("stderr", Text),
            needs("truncated", TRUNCATED),
            needs("duration_ms", Whole),
            may("stdout_cache_id", Text),
            may("stderr_cache_id", Text),
        ],
        &[Code::InvalidParams, Code::Internal],
        "Runs the person's own command, outside the sandbox and without a question.",
    ),
    served(
        "theme.set",
        Some("supports_theme_set"),
        &[needs("name", OneOf(THEMES))],
        &[needs("name", Text), may("scope", Text), may("path", Text)],
        &[Code::InvalidParams, Code::Busy],
        "Keeps the interface's theme for its next start.",
    ).since(Introduced::Code),
    task(
        "shell.start",
        "supports_shell_tasks",
        SHELL,
        SHELL_TASK,
        &[Code::InvalidParams],
        "Starts the person's command, and answers at once.",
    ),
    task(
        "shell.list",
        "supports_shell_tasks",
        &[may("limit", Whole)],
        &[needs("tasks", List(&Object(SHELL_TASK)))],
        &[],
        "The person's commands of this process, newest first.",
    ),
    task(
        "shell.status",
        "supports_shell_tasks",
        TASK_ID,
        SHELL_TASK,
        &[Code::InvalidParams],
        "One of them.",
    ),
    task(
        "shell.output",
        "supports_shell_tasks",
        &[
            needs("task_id", Filled),
            needs("stream", OneOf(&["stdout", "stderr"])),
            may("offset", Whole),
            may("limit", Whole),
        ],
        &[
            needs("task_id", Text),
            needs("stream", Text),
            needs("cached", Flag),
            may("ref_id", Text),
            needs("content", Text),
        ],
        &[Code::InvalidParams, Code::Busy],
        "Lines of an output of one that has ended.",
    ),
    task(
        "shell.wait",
        "supports_shell_tasks",
        &[needs("task_id", Filled), may("wait_timeout_seconds", Whole)],
        &[
            needs("task_id", Text),
            needs("state", TASK_STATE),
            may("detached", Flag),
            may("still_running", Flag),
            may("stdout", Text),
            may("exit_code", NULLABLE_WHOLE),
        ],
        &[Code::InvalidParams],
        "Waits for its end, or until somebody detaches from it: its record, or `detached`, or `still_running`.",
    ),
    task(
        "shell.detach",
        "supports_shell_detach",
        TASK_ID,
        &[needs("task_id", Text), needs("detached", Flag), needs("state", TASK_STATE)],
        &[Code::InvalidParams],
        "Ends the waits for it; it goes on.",
    ),
    task(
        "shell.cancel",
        "supports_shell_tasks",
        TASK_ID,
        SHELL_TASK,
        &[Code::InvalidParams],
        "Ends it.",
    ),
    task(
        "task.spawn",
        "supports_tasks",
        &[
            needs("kind", OneOf(&["shell", "subagent"])),
            may("command", Text),
            may("prompt", Text),
            may("tools", List(&Text)),
            may("cwd", Filled),
            may("timeout_seconds", Whole),
            may("background", Flag),
        ],
        TASK,
        &[Code::InvalidParams, Code::Busy],
        "Starts a `command` as a task, or a subagent with a `prompt` and these `tools`, which the person is asked about. \
         Waits for its end if `background` is false.",
    ),
    task(
        "task.list",
        "supports_tasks",
        &[may("limit", Whole), may("kind", OneOf(&["shell", "subagent"])), may("state", TASK_STATE)],
        &[needs("tasks", List(&Object(TASK)))],
        &[],
        "The person's subagents and commands, and the model's commands in the background.",
    ),
    task(
        "task.status",
        "supports_tasks",
        TASK_ID,
        TASK,
        &[Code::InvalidParams],
        "One of them.",
    ),
    task(
        "task.wait",
        "supports_tasks",
        TASK_ID,
        TASK,
        &[Code::InvalidParams],
        "Waits for the end of one.",
    ),
    task(
        "task.cancel",
        "supports_tasks",
        TASK_ID,
        TASK,
        &[Code::InvalidParams],
        "Ends it.",
    ),
    task(
        "task.result",
        "supports_tasks",
        TASK_ID,
        TASK,
        &[Code::InvalidParams, Code::Busy],
        "One that has ended.",
    ),
    Method {
        name: "ui.context.update",
        from: From::UiNotice,
        since: Introduced::Document,
        capability: None,
        served: true,
        params: UI_CONTEXT,
        result: &[],
        codes: &[],
        doc: "What the interface shows. A malformed one is ignored.",
    },
    sent(
        "agent.event",
        From::RuntimeNotice,
        None,
        &[
            needs("run_id", Text),
            needs("seq", Whole),
            needs("event", Object(&[needs("type", Text)])),
            may("meta", Each(&Any)),
        ],
        &[],
        "An event of a run. `seq` counts from 0 without gaps; -1 stands for a person's message of the history.",
    ),
    sent(
        "run.status",
        From::RuntimeNotice,
        None,
        &[needs("run_id", Text), needs("status", RUN_STATUS), may("message", Text)],
        &[],
        "The state of a run. Nothing of the run follows `completed`, `error` or `cancelled`.",
    ),
    sent(
        "run.context",
        From::RuntimeNotice,
        None,
        &[needs("run_id", Text), needs("context_left_percent", Percent)],
        &[],
        "The free part of the model's window, when it has changed.",
    ),
    sent(
        "run.diagnostics",
        From::RuntimeNotice,
        Some("supports_run_diagnostics"),
        &[
            needs("run_id", Text),
            needs("kind", OneOf(&["llm_call", "run_summary"])),
            may("call", LLM_CALL),
            may("summary", RUN_SUMMARY),
        ],
        &[],
        "Tokens, times and cost of a model call or of a run, if `CODELIA_DIAGNOSTICS` is 1 in the environment.",
    ),
    sent(
        "ui.confirm.request",
        From::Runtime,
        Some("supports_ui_requests"),
        &[
            may("run_id", Text),
            needs("title", Text),
            needs("message", Text),
            may("confirm_label", Text),
            may("cancel_label", Text),
            may("danger_level", OneOf(&["normal", "danger"])),
            may("allow_remember", Flag),
            may("allow_reason", Flag),
        ],
        &[needs("ok", Flag), may("remember", Flag), may("reason", Text)],
        "Yes or no. Only `true` is yes.",
    ),
    sent(
        "ui.prompt.request",
        From::Runtime,
        Some("supports_ui_requests"),
        &[
            may("run_id", Text),
            needs("title", Text),
            needs("message", Text),
            may("default_value", Text),
            may("multiline", Flag),
            may("secret", Flag),
        ],
        &[needs("value", NULLABLE_TEXT)],
        "A text.",
    ),
    sent(
        "ui.pick.request",
        From::Runtime,
        Some("supports_ui_requests"),
        &[
            may("run_id", Text),
            needs("title", Text),
            needs("items", List(&Object(&[needs("id", Text), needs("label", Text), may("detail", Text)]))),
            may("multi", Flag),
        ],
        &[needs("ids", List(&Text))],
        "One of several.",
    ),
    sent(
        "client.tool.call",
        From::Runtime,
        Some("supports_client_tools"),
        &[
            needs("run_id", Text),
            needs("name", Text),
            may("arguments", Each(&Any)),
            needs("raw_arguments", Text),
        ],
        &[needs("ok", Flag), may("result", Any), may("error", Text)],
        "A call of a tool that the interface brought. A result of the type `text`, `json` or `parts` is unpacked; any \
         other is text for the model.",
    ).since(Introduced::Later),
    sent(
        "client.tool.cancel",
        From::RuntimeNotice,
        Some("supports_client_tools"),
        &[
            needs("request_id", Text),
            needs("run_id", Text),
            needs("name", Text),
            needs("reason", OneOf(&["timeout"])),
        ],
        &[],
        "The time of a call is over. Its answer does nothing any more.",
    ).since(Introduced::Later),
];

/// The names of the themes that an interface may set.
pub const THEMES: &[&str] =
    &["codelia", "ocean", "forest", "rose", "sakura", "mauve", "plum", "iris", "crimson", "wine"];

/// The capabilities of a runtime.
pub const CAPABILITIES: &[&str] = &[
    "supports_run_cancel",
    "supports_ui_requests",
    "supports_mcp_list",
    "supports_skills_list",
    "supports_context_inspect",
    "supports_tool_call",
    "supports_shell_exec",
    "supports_run_diagnostics",
    "supports_theme_set",
    "supports_permission_preflight_events",
    "supports_shell_tasks",
    "supports_shell_detach",
    "supports_tasks",
    "supports_text_deltas",
    "supports_client_tools",
];

/// Whether this runtime has a capability: whether all of its methods are served.
pub fn is_capable(name: &str) -> bool {
    METHODS.iter().filter(|method| method.capability == Some(name)).all(|method| method.served)
}

/// The names of the methods that the interface sends, for their counts.
pub const NAMES: &[&str] = &{
    let mut names = [""; METHODS.len()];
    let mut at = 0;
    #[expect(clippy::indexing_slicing, reason = "in the compiler; the bounds are those of the table")]
    while at < METHODS.len() {
        names[at] = METHODS[at].name;
        at += 1;
    }
    names
};

/// The method of that name that the interface may send, with its place in [`NAMES`].
pub fn find(name: &str) -> Option<(usize, &'static Method)> {
    let is_it = |method: &&Method| method.name == name && matches!(method.from, From::Ui | From::UiNotice);
    let at = METHODS.iter().position(|method| is_it(&method))?;
    METHODS.get(at).map(|method| (at, method))
}
