//! What an editor asks and what it is answered, in plain types: of no version of the protocol. Decides nothing.

use std::path::PathBuf;
use std::sync::Arc;

use crate::message::{Mode, SessionId};
use crate::session::SessionServers;
use crate::value::Value;
use crate::wire::acp::map::Can;
use crate::wire::acp::update::{ShownOption, Stop};
use crate::wire::acp::version::Version;

/// A request of an editor.
#[derive(Debug, Clone)]
pub enum AcpRequest {
    /// To agree on a version and on what both can do.
    Initialize {
        /// The version that it gets.
        version: Version,
        /// What it can show.
        can: Can,
        /// Its name and version.
        client: Option<(String, String)>,
    },
    /// To log in.
    Authenticate {
        /// The way.
        method: String,
    },
    /// To forget the login.
    Logout,
    /// To open a new session.
    New(SessionPlace),
    /// To open a session of the disk, and to be told its history, or not.
    Load {
        /// The session.
        session: SessionId,
        /// Where.
        place: SessionPlace,
        /// Whether the history is told.
        replays: bool,
    },
    /// To be told the sessions.
    List {
        /// Of which folder; `None` for all.
        folder: Option<PathBuf>,
        /// Where the list goes on.
        cursor: Option<String>,
    },
    /// To close a session.
    Close(SessionId),
    /// To delete a session.
    Delete(SessionId),
    /// To say something to the model.
    Prompt {
        /// The session.
        session: SessionId,
        /// What is said.
        parts: Vec<Part>,
    },
    /// To set the permission mode.
    SetMode {
        /// The session.
        session: SessionId,
        /// The mode.
        mode: String,
    },
    /// To change a setting.
    SetOption {
        /// The session.
        session: SessionId,
        /// The setting.
        option: String,
        /// Its value.
        value: Chosen,
    },
    /// To end a tool call alone.
    CancelCall {
        /// The session.
        session: SessionId,
        /// The call.
        call: String,
    },
    /// To run an op of the EDN wire.
    Op {
        /// The session.
        session: SessionId,
        /// Its name.
        op: String,
        /// Its params, as EDN.
        params: String,
    },
    /// To ask the graph.
    Query {
        /// The session.
        session: SessionId,
        /// The query, as EDN.
        query: String,
    },
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// On or off.
    Switch(bool),
    /// A value by its id.
    Value(String),
}

/// Where a session works.
#[derive(Debug, Clone)]
pub struct SessionPlace {
    /// Its folder.
    pub folder: PathBuf,
    /// Further folders.
    pub further: Vec<PathBuf>,
    /// The MCP servers that it is to have.
    pub servers: SessionServers,
}

/// A part of what is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A text.
    Text(String),
    /// An image: its MIME type and its bytes in base64.
    Image(String, String),
    /// Something that stands elsewhere: its name and its address.
    Link(String, String),
    /// A text that stands elsewhere too: its address, and the text.
    Embedded(String, String),
    /// Something that cannot be used: what it is.
    Other(&'static str),
}

/// A notification of an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorNotice {
    /// The running turn of the session is to end.
    Cancel(SessionId),
    /// The request with this id, as JSON, is to end.
    CancelRequest(Arc<str>),
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AcpResponse {
    /// The version, and whether a login in a terminal is offered.
    Initialized {
        /// The version.
        version: Version,
        /// Whether the editor can open a terminal for a login.
        terminal_login: bool,
    },
    /// A session was opened.
    Opened {
        /// The session, if it is new.
        session: Option<SessionId>,
        /// Its mode.
        mode: Mode,
        /// Its settings.
        options: Vec<ShownOption>,
    },
    /// Sessions.
    Listed {
        /// The sessions.
        sessions: Vec<Row>,
        /// Where the list goes on.
        next: Option<String>,
    },
    /// The settings.
    Options(Vec<ShownOption>),
    /// The message of a prompt is in the conversation: the message's id.
    Inserted(String),
    /// A prompt has ended.
    Stopped(Stop),
    /// The result of a query.
    Found(Value<'static>),
    /// It was done.
    Done,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The session.
    pub session: SessionId,
    /// Its folder.
    pub folder: PathBuf,
    /// Its title.
    pub title: String,
    /// When it was last written, RFC 3339.
    pub updated_at: String,
}
