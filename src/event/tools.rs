//! Tool calls, requests to clients for tools and files, and outputs. Plain data: runs nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::files::FileStamp;
use crate::message::Arguments;
use crate::value::Value;

/// A tool call, for events.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The call's id.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// Its effect, on one line.
    pub summary: Arc<str>,
    /// The arguments as EDN text, as the gate left them; empty while unknown.
    pub arguments: Arc<str>,
    /// The arguments; nil while unknown.
    pub parsed: Arguments,
}

/// A call of a tool that a client offers.
#[derive(Debug, Clone)]
pub struct ToolRequest {
    /// Its id, for the answer.
    pub request: Arc<str>,
    /// The call.
    pub call: Arc<ToolCall>,
    /// The time in which the answer must come.
    pub timeout: Duration,
}

/// A request for an open file.
#[derive(Debug, Clone)]
pub struct FileRequest {
    /// Its id, for the answer.
    pub request: Arc<str>,
    /// The file, as the client named it.
    pub path: String,
    /// What is asked for.
    pub action: FileAction,
    /// The time in which the answer must come.
    pub timeout: Duration,
}

/// What is asked for an open file.
#[derive(Debug, Clone)]
pub enum FileAction {
    /// Its text.
    Read,
    /// It is to have another text. This program saves it.
    Write {
        /// The text.
        text: Arc<str>,
        /// The digest of the text that it replaces.
        expected: Arc<str>,
    },
    /// The diagnostics of its checkers that are new since the turn's first change of it.
    Diagnostics,
}

/// What has become of a file that a client has open.
#[derive(Debug, Clone, Default)]
pub struct ChangedFile {
    /// The file, as the client named it.
    pub path: String,
    /// The request whose change is on disk now. Then the client has the text.
    pub request: Option<Arc<str>>,
    /// The file now.
    pub stamp: Option<FileStamp>,
    /// The digest of its bytes.
    pub digest: Option<String>,
    /// What it has now.
    pub content: Option<FileContent>,
    /// Why it is not followed.
    pub problem: Option<String>,
}

/// The content of a file.
#[derive(Debug, Clone)]
pub enum FileContent {
    /// A text in UTF-8.
    Text(Arc<str>),
    /// Other bytes.
    Bytes(Arc<[u8]>),
}

impl FileContent {
    /// Those bytes.
    pub fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(error) => Self::Bytes(error.into_bytes().into()),
        }
    }
}

impl ChangedFile {
    pub(super) fn weight(&self) -> usize {
        match &self.content {
            Some(FileContent::Text(text)) => text.len(),
            Some(FileContent::Bytes(bytes)) => bytes.len().saturating_mul(4) / 3,
            None => 0,
        }
    }
}

/// A tool's output, for events.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    /// The call.
    pub call: Arc<ToolCall>,
    /// The bounded output.
    pub text: Arc<str>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Further facts: a diff, an exit code, a handle for the rest. Nil if there are none.
    pub details: Value<'static>,
    /// How long the call ran, in milliseconds; `None` if it did not run, or runs still.
    pub duration_ms: Option<u64>,
    /// The changed file, if the tool changed one.
    pub edit: Option<Arc<FileEdit>>,
}

/// A changed file with its whole text. For wires that show their own diffs; the EDN wire has one in the details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The file.
    pub path: PathBuf,
    /// The text before; `None` for a new file.
    pub old: Option<Arc<str>>,
    /// The text now.
    pub new: Arc<str>,
    /// The bytes of the file, where they are not those of the texts in UTF-8.
    pub bytes: Option<Arc<FileBytes>>,
}

/// The bytes of a file before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBytes {
    /// Those before; `None` for a new file.
    pub old: Option<Vec<u8>>,
    /// Those now.
    pub new: Vec<u8>,
}

impl FileEdit {
    /// The bytes of the file before; `None` for a new file.
    pub fn old_bytes(&self) -> Option<&[u8]> {
        match &self.bytes {
            Some(bytes) => bytes.old.as_deref(),
            None => self.old.as_deref().map(str::as_bytes),
        }
    }

    /// The bytes of the file now.
    pub fn new_bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(self.new.as_bytes(), |bytes| &bytes.new)
    }

    pub(super) fn weight(&self) -> usize {
        let of_bytes =
            |bytes: &Arc<FileBytes>| bytes.new.len().saturating_add(bytes.old.as_ref().map_or(0, Vec::len));
        let texts = self.new.len().saturating_add(self.old.as_deref().map_or(0, str::len));
        texts.saturating_add(self.bytes.as_ref().map_or(0, of_bytes))
    }
}
