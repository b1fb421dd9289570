//! The program's own tools, a row each, with all that a wire, a rule, a history or an editor needs to know of a tool.
//! Data only; descriptions and schemas for the model stand in the tool's file.

use std::fmt::Write as _;

/// Reads a file.
pub const READ: &str = "read";
/// Writes a whole file.
pub const WRITE: &str = "write";
/// Changes places of a file.
pub const EDIT: &str = "edit";
/// Runs a command.
pub const BASH: &str = "bash";
/// Looks after background jobs; the engine carries it out.
pub const JOB: &str = "job";
/// Searches in files.
pub const SEARCH: &str = "search";
/// Finds files.
pub const FIND: &str = "find";
/// Asks a server for an address.
pub const FETCH: &str = "fetch";
/// Asks the person; the engine answers it.
pub const ASK_USER: &str = "ask-user";
/// Gives a task to a subagent; the engine answers it.
pub const DELEGATE: &str = "delegate";

/// The kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// It reads files.
    Read,
    /// It changes files.
    Edit,
    /// It searches.
    Search,
    /// It runs commands.
    Execute,
    /// It gets something from the network.
    Fetch,
    /// It gives a task away.
    Delegate,
    /// It asks the person.
    Ask,
}

/// The thing that a call touches, which rules about it name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touches {
    /// A file or folder.
    Path,
    /// A command.
    Command,
    /// A host.
    Host,
    /// Nothing that is judged.
    Nothing,
}

/// How its result is shown to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// As text, on demand.
    Text,
    /// As the diff of a file, at once.
    Diff,
}

/// The end of its effects when the turn is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// It has none.
    None,
    /// They are undone.
    Undone,
    /// They stay, and the person is told.
    Stay,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct ToolRow {
    /// Its name for the model and in rules.
    pub name: &'static str,
    /// Its kind.
    pub kind: ToolKind,
    /// The title of a question about a call; `None` for "Allow NAME?".
    pub title: Option<&'static str>,
    /// The thing that it touches.
    pub touches: Touches,
    /// Whether the mode `read-only` withholds it, because it would refuse each call.
    pub changes: bool,
    /// How its result is shown.
    pub shown: Shown,
    /// The end of its effects.
    pub undo: Undo,
    /// Names that other programs have for it, which are understood. No alias names two tools.
    pub aliases: &'static [&'static str],
}

/// A row that reads, for the others to differ from.
const ROW: ToolRow = ToolRow {
    name: READ,
    kind: ToolKind::Read,
    title: None,
    touches: Touches::Path,
    changes: false,
    shown: Shown::Text,
    undo: Undo::None,
    aliases: &[],
};

/// A row that changes a file.
const CHANGE: ToolRow = ToolRow {
    kind: ToolKind::Edit,
    title: Some("Change file?"),
    changes: true,
    shown: Shown::Diff,
    undo: Undo::Undone,
    ..ROW
};

/// All of them, in the order in which a model gets them.
pub const TOOLS: &[ToolRow] = &[
    ToolRow {
        title: Some("Read file?"),
        aliases: &["read_file", "view", "view_file", "cat", "open_file"],
        ..ROW
    },
    ToolRow { name: WRITE, aliases: &["write_file", "create_file", "save_file"], ..CHANGE },
    ToolRow {
        name: EDIT,
        aliases: &["str_replace", "edit_file", "multiedit", "search_replace", "replace_in_file", "replace"],
        ..CHANGE
    },
    ToolRow {
        name: BASH,
        kind: ToolKind::Execute,
        title: Some("Run command?"),
        touches: Touches::Command,
        changes: true,
        undo: Undo::Stay,
        aliases: &[
            "shell",
            "sh",
            "run",
            "exec",
            "terminal",
            "run_command",
            "execute_command",
            "run_shell_command",
            "run_terminal_cmd",
            "local_shell",
        ],
        ..ROW
    },
    ToolRow { name: JOB, kind: ToolKind::Execute, touches: Touches::Nothing, changes: true, ..ROW },
    ToolRow {
        name: SEARCH,
        kind: ToolKind::Search,
        aliases: &["grep", "rg", "ripgrep", "grep_search", "search_files", "search_file_content"],
        ..ROW
    },
    ToolRow {
        name: FIND,
        kind: ToolKind::Search,
        aliases: &["glob", "find_files", "file_search", "glob_search"],
        ..ROW
    },
    ToolRow {
        name: FETCH,
        kind: ToolKind::Fetch,
        title: Some("Fetch page?"),
        touches: Touches::Host,
        aliases: &["web_fetch", "fetch_url"],
        ..ROW
    },
    ToolRow {
        name: ASK_USER,
        kind: ToolKind::Ask,
        touches: Touches::Nothing,
        aliases: &["ask", "ask_user_question", "question"],
        ..ROW
    },
    ToolRow {
        name: DELEGATE,
        kind: ToolKind::Delegate,
        touches: Touches::Nothing,
        undo: Undo::Stay,
        aliases: &["task", "agent", "subagent"],
        ..ROW
    },
];

impl ToolRow {
    /// The row of a tool; `None` for one of a client or of a server.
    pub fn of(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|row| row.name == name)
    }

    /// The names of the tools of a kind.
    pub fn names_of(kind: ToolKind) -> impl Iterator<Item = &'static str> {
        TOOLS.iter().filter(move |row| row.kind == kind).map(|row| row.name)
    }

    /// Whether its result shows the model the text of the file that it names.
    pub const fn shows_file(&self) -> bool {
        matches!(self.kind, ToolKind::Read | ToolKind::Edit)
    }
}

/// `docs/tool-table.md`: the table for people.
pub fn tools_page() -> String {
    let mut page = String::from(
        "<!-- Generated from src/catalogue/tools.rs by `make generate`. -->\n\n# Tools\n\nThe program's own tools. Clients and \
         MCP servers add others. A name of another program, in any case and with `-` for `_`, is understood where no tool \
         on offer has it.\n\n\
         | tool | kind | rules name | in `read-only` | result is shown | after `/undo` | also understood as |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in TOOLS {
        let kind = format!("{:?}", row.kind).to_lowercase();
        let touches = match row.touches {
            Touches::Path => "a path",
            Touches::Command => "a command",
            Touches::Host => "a host",
            Touches::Nothing => "–",
        };
        let shown = match row.shown {
            Shown::Text => "as text",
            Shown::Diff => "as a diff",
        };
        let undo = match row.undo {
            Undo::None => "–",
            Undo::Undone => "undone",
            Undo::Stay => "its effects stay",
        };
        let mode = if row.changes { "withheld" } else { "offered" };
        let aliases: Vec<String> = row.aliases.iter().map(|name| format!("`{name}`")).collect();
        let aliases = if aliases.is_empty() { "–".to_owned() } else { aliases.join(" ") };
        let _ =
            writeln!(page, "| `{}` | {kind} | {touches} | {mode} | {shown} | {undo} | {aliases} |", row.name);
    }
    page
}
