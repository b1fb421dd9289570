//! What clients bring: tools, and the text of the files that they have open; and how a client answers requests for them.
//! Knows neither how a tool is called nor a wire.

use std::sync::Arc;
use std::time::Duration;

use crate::files::FileStamp;
use crate::message::image::Image;
use crate::session::call::{Call, Reply};
use crate::value::{Map, Value};

/// The tools of clients. They are in a session's toolbox while their client is connected, and are judged like the
/// program's own. A request goes only to the client that offers the tool; no other client can answer it.
pub trait ClientTools: Send + Sync {
    /// Sets the tools that the caller's connection offers in the session, in place of its earlier ones there. All or
    /// none.
    fn register_tools(&self, call: Call, tools: Vec<OfferedTool>, reply: Reply<Registered>);

    /// Answers a tool request. The first answer counts; after it, or once the request has ended otherwise, there is no
    /// such request.
    fn tool_result(&self, call: Call, request: String, answer: ToolAnswer, reply: Reply<()>);

    /// Shows the newest output of a tool request, which goes on.
    fn tool_progress(&self, call: Call, request: String, text: String, reply: Reply<()>);

    /// Sets the files that the caller's connection has open, in place of its earlier ones, for every session. The reply is
    /// their number.
    fn register_files(&self, call: Call, files: OpenFilesOfClient, reply: Reply<usize>);

    /// Answers a file request. The first answer counts, as for a tool request.
    fn file_result(&self, call: Call, request: String, answer: FileAnswer, reply: Reply<()>);
}

/// A file that a client has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// Its path as the client names it, absolute.
    pub path: String,
    /// The path without symbolic links, if it is another one.
    pub real_path: Option<String>,
    /// Whether it has unsaved changes.
    pub modified: bool,
    /// The client's name of the encoding of the file, if that is not UTF-8.
    pub encoding: Option<String>,
    /// The file when the client read or wrote it last. Only a file with it is followed.
    pub visited: Option<FileStamp>,
    /// Whether checkers report diagnostics of it to the client.
    pub is_checked: bool,
}

/// The files that a client has open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenFilesOfClient {
    /// The files.
    pub files: Vec<OpenFile>,
    /// The start of the links that the client makes beside files with unsaved changes, as Emacs does.
    pub lock: Option<String>,
}

/// A client's text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorText {
    /// The text.
    pub text: Arc<str>,
    /// Its bytes in the file, if they are not those of the text in UTF-8.
    pub bytes: Option<Vec<u8>>,
    /// Whether it has unsaved changes.
    pub modified: bool,
    /// The digest of the file's bytes when the text last equalled them.
    pub base: Option<String>,
    /// The file when the client read it, for a text whose base it does not know.
    pub visited: Option<FileStamp>,
    /// Whether the user wants the text so, although it is not the one that was asked for.
    pub is_final: bool,
}

/// A report of a checker of a client on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorDiagnostic {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1, if the client knows it.
    pub column: Option<u64>,
    /// How bad it is.
    pub severity: Severity,
    /// The checker's message.
    pub message: String,
    /// The checker, if the client knows it.
    pub source: Option<String>,
}

/// How bad a diagnostic is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The text is wrong.
    Error,
    /// It is probably wrong.
    Warning,
    /// A hint.
    Note,
}

impl Severity {
    /// Each with its word on the wire and for the model.
    const WORDS: [(Self, &'static str); 3] =
        [(Self::Error, "error"), (Self::Warning, "warning"), (Self::Note, "note")];

    /// The word.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(severity, _)| *severity == self).map_or("note", |(_, word)| word)
    }

    /// The severity of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(severity, _)| *severity)
    }
}

/// A client's answer to a file request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAnswer {
    /// The text that was asked for, or that is there after a change.
    Text(EditorText),
    /// The file's text is not the one that was to be replaced.
    Changed,
    /// The new diagnostics of the file's checkers.
    Diagnostics(Vec<EditorDiagnostic>),
    /// The client does not have the file open any more.
    Closed,
    /// It was refused; contains the reason.
    Failed(String),
}

/// A tool that a client offers.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// Its name for the model.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value<'static>,
    /// Whether it changes nothing, at the client or elsewhere.
    pub read_only: bool,
    /// The argument that names the file or folder that it touches. That path is judged like one of the program's own
    /// tools.
    pub path: Option<String>,
    /// The time from a request to its answer.
    pub timeout: Option<Duration>,
}

/// The tools that a client offers now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registered {
    /// Their names.
    pub names: Vec<String>,
    /// Those that another client offers too.
    pub shadowed: Vec<String>,
}

/// A client's answer to a tool request.
#[derive(Debug, Clone, Default)]
pub struct ToolAnswer {
    /// The text for the model.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Images for the model.
    pub images: Vec<Image>,
    /// Further facts for frontends.
    pub details: Map<'static>,
}
