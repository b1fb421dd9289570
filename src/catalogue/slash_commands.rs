//! The table of slash commands. Does not know what they do.

/// One slash command.
#[derive(Debug, Clone, Copy)]
pub struct CommandSpec {
    /// The name, without the slash.
    pub name: &'static str,
    /// Its syntax, with arguments.
    pub usage: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// Those that are only listed where the process is in a realm.
pub const REALM_COMMANDS: [&str; 4] = ["share", "hosts", "take", "give"];

/// All slash commands, in the order in which help shows them.
pub const COMMANDS: &[CommandSpec] = &[
    CommandSpec { name: "help", usage: "/help", doc: "Lists the commands." },
    CommandSpec { name: "?", usage: "/?", doc: "Lists the commands." },
    CommandSpec { name: "quit", usage: "/quit", doc: "Ends the frontend's connection." },
    CommandSpec { name: "exit", usage: "/exit", doc: "Ends the frontend's connection." },
    CommandSpec {
        name: "new",
        usage: "/new [agent]",
        doc: "Opens a new session; with a name, one that this agent answers.",
    },
    CommandSpec {
        name: "resume",
        usage: "/resume [text]",
        doc: "Chooses a session on disk to resume, from all or from those that contain the text.",
    },
    CommandSpec {
        name: "tree",
        usage: "/tree [id]",
        doc: "Chooses a live session, or switches to the named one.",
    },
    CommandSpec { name: "fork", usage: "/fork", doc: "Chooses a message and forks the session there." },
    CommandSpec { name: "share", usage: "/share", doc: "Shares the session with your other hosts." },
    CommandSpec { name: "hosts", usage: "/hosts", doc: "Lists the hosts of the realm." },
    CommandSpec {
        name: "take",
        usage: "/take [folder]",
        doc: "Goes on here with a session whose host is lost, in this folder or in the session's.",
    },
    CommandSpec { name: "give", usage: "/give host", doc: "Gives the session to another host." },
    CommandSpec { name: "mode", usage: "/mode [name]", doc: "Shows or sets the permission mode." },
    CommandSpec { name: "trust", usage: "/trust", doc: "Trusts the project's configuration." },
    CommandSpec { name: "workflow", usage: "/workflow name [args]", doc: "Runs a workflow." },
    CommandSpec { name: "reload", usage: "/reload", doc: "Reads the configuration again." },
    CommandSpec { name: "status", usage: "/status", doc: "Shows the session's state." },
    CommandSpec { name: "history", usage: "/history", doc: "Shows the messages so far." },
    CommandSpec { name: "model", usage: "/model [provider/model]", doc: "Chooses the model." },
    CommandSpec { name: "thinking", usage: "/thinking [level]", doc: "Sets the thinking level." },
    CommandSpec {
        name: "compact",
        usage: "/compact [text]",
        doc: "Summarises the older part of the conversation.",
    },
    CommandSpec {
        name: "leave-out",
        usage: "/leave-out",
        doc: "Leaves out the message that the model's server refused.",
    },
    CommandSpec {
        name: "search",
        usage: "/search [on|off]",
        doc: "Shows whether the model may search the web by its provider, or sets it.",
    },
    CommandSpec { name: "name", usage: "/name text", doc: "Names the session." },
    CommandSpec { name: "prompts", usage: "/prompts", doc: "Lists the prompt templates." },
    CommandSpec { name: "skills", usage: "/skills", doc: "Lists the skills." },
    CommandSpec {
        name: "remember",
        usage: "/remember [text]",
        doc: "Keeps a note for later sessions, or lists them.",
    },
    CommandSpec { name: "login", usage: "/login [provider]", doc: "Logs in to a provider." },
    CommandSpec { name: "logout", usage: "/logout [provider]", doc: "Deletes a provider's credentials." },
    CommandSpec {
        name: "worktree",
        usage: "/worktree",
        doc: "Shows the repository and worktree of the session.",
    },
    CommandSpec { name: "jobs", usage: "/jobs", doc: "Lists the background jobs." },
    CommandSpec { name: "job", usage: "/job id", doc: "Shows a background job." },
    CommandSpec { name: "cancel-job", usage: "/cancel-job id", doc: "Ends a background job." },
    CommandSpec { name: "tools", usage: "/tools", doc: "Lists the tools of the session." },
    CommandSpec {
        name: "mcp",
        usage: "/mcp [on|off server [tool]] OR /mcp restart server",
        doc: "Lists the MCP servers, or switches one or a tool of it for the session.",
    },
    CommandSpec { name: "export", usage: "/export [path]", doc: "Writes the session as an HTML page." },
    CommandSpec {
        name: "retry",
        usage: "/retry",
        doc: "Asks the model again; the new answer replaces one that failed or was aborted.",
    },
    CommandSpec {
        name: "continue",
        usage: "/continue",
        doc: "Has the model go on where its answer failed or was aborted.",
    },
    CommandSpec { name: "undo", usage: "/undo", doc: "Undoes what the last turn's tools did to files." },
    CommandSpec { name: "redo", usage: "/redo", doc: "Does again to files what was undone last." },
    CommandSpec { name: "abort", usage: "/abort", doc: "Ends the running turn." },
];
