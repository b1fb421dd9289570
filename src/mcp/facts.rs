//! What is known of a server: plain data, bounded.

use std::sync::Arc;

use jiff::Timestamp;

use crate::peer::Source;
use crate::value::Value;

/// Where a server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Switched off in the configuration.
    Off,
    /// Not started: nobody has needed it yet, or it was idle for long.
    Idle,
    /// It is being started.
    Starting,
    /// It answers.
    Ready,
    /// The last start or connection failed; the next use tries again.
    Failed,
    /// It wants a login first.
    NeedsLogin,
    /// It was started too often within a minute; only [`super::Servers::restart`] starts it again.
    GivenUp,
}

impl State {
    /// The name on every wire, such as `needs-login`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::NeedsLogin => "needs-login",
            Self::GivenUp => "given-up",
        }
    }
}

/// The era of the protocol that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// With a handshake: 2025-11-25 and older.
    Handshake,
    /// Without: 2026-07-28.
    Discover,
}

impl Era {
    /// Its name in the state folder and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Discover => "discover",
        }
    }
}

/// What is known of one server at a moment. Lists are those of its last connection.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerFacts {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Where it was configured.
    pub source: Source,
    /// Whether it has the name of a server of the user's own file that runs or asks something else: nothing that was
    /// allowed by that name was allowed for this one.
    pub borrows_name: bool,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// Its command line or address as it may be shown: without what may be a key.
    pub target: Arc<str>,
    /// Where it stands.
    pub state: State,
    /// The era that it speaks, once it is known.
    pub era: Option<Era>,
    /// The revision of the protocol, such as `2025-11-25`.
    pub revision: Option<Arc<str>>,
    /// What it calls itself, with its version.
    pub title: Option<Arc<str>>,
    /// Its tools, those that are offered.
    pub tools: Arc<[ToolFacts]>,
    /// Its prompts.
    pub prompts: Arc<[Prompt]>,
    /// Its resources.
    pub resources: Arc<[Resource]>,
    /// Its templates of resources.
    pub templates: Arc<[Template]>,
    /// What it says of its use, at most 4 KiB.
    pub instructions: Option<Arc<str>>,
    /// Whether it completes arguments.
    pub completes: bool,
    /// Why the last start, connection or call failed, as a sentence.
    pub last_error: Option<Arc<str>>,
    /// When it last connected.
    pub connected: Option<Timestamp>,
    /// What of it is not offered, with why, for a person.
    pub passed_over: Arc<[String]>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFacts {
    /// Its name at the server.
    pub tool: Arc<str>,
    /// The name by which models call it, `mcp__server__tool`.
    pub name: Arc<str>,
    /// Its title for people.
    pub title: Option<Arc<str>>,
    /// What it does, at most 2 KiB.
    pub description: Arc<str>,
    /// Its parameters, as a JSON schema in plain data.
    pub schema: Arc<Value<'static>>,
    /// Whether the server says that it changes nothing. A hint, not a promise.
    pub read_only: bool,
    /// A digest of its description, schema and hints, and of which program runs or which address is asked: where it
    /// changes, what was allowed is no longer.
    pub digest: Arc<str>,
}

/// A prompt of a server: a template that a person fills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its name at the server.
    pub name: Arc<str>,
    /// The slash command, `mcp__server__prompt` without the slash.
    pub command: Arc<str>,
    /// Its title for people.
    pub title: Option<Arc<str>>,
    /// What it is for.
    pub description: Arc<str>,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: Arc<str>,
    /// What it means.
    pub description: Arc<str>,
    /// Whether it must be given.
    pub required: bool,
}

/// A resource of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its address at the server.
    pub uri: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its title for people.
    pub title: Option<Arc<str>>,
    /// What it is.
    pub description: Arc<str>,
    /// Its type, such as `text/plain`.
    pub mime_type: Option<Arc<str>>,
    /// Its size in bytes, if the server says it.
    pub size: Option<u64>,
}

/// A template of addresses of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The template, as RFC 6570 has them.
    pub uri: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its title for people.
    pub title: Option<Arc<str>>,
    /// What it is.
    pub description: Arc<str>,
    /// The type of its resources, where all have one.
    pub mime_type: Option<Arc<str>>,
}

/// A piece of what a server sends: text, or bytes as base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(Arc<str>),
    /// An image.
    Image {
        /// Its type, such as `image/png`.
        mime_type: Arc<str>,
        /// The bytes, base64.
        data: Arc<str>,
    },
}

/// A prompt, filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptText {
    /// What the server says of it.
    pub description: Option<Arc<str>>,
    /// Its messages, in order.
    pub messages: Vec<PromptMessage>,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage {
    /// Whether it is written as the model's, not as the user's.
    pub by_model: bool,
    /// What it says.
    pub content: Content,
}

/// What may follow what was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// Values, the best first, at most a hundred.
    pub values: Vec<String>,
    /// Whether there are more.
    pub more: bool,
}
