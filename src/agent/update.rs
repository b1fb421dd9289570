//! What an agent tells and asks, in plain types: of no version of the protocol. Decides nothing.

use std::path::PathBuf;
use std::sync::Arc;

use crate::acp::{CallKind, CallState, PermissionKind};
use crate::facts::agent::{AgentCommand, AgentOption, AgentStep};
use crate::mcp;
use crate::secret::Secret;
use crate::value::{Map, Value};

/// Whose words they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentVoice {
    /// The model's.
    Agent,
    /// The model's thinking.
    Thought,
}

/// Something that an agent tells of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdate {
    /// A piece of a message.
    Text {
        /// Whose.
        voice: AgentVoice,
        /// The message that it is a piece of, if the agent tells them apart.
        message: Option<Arc<str>>,
        /// The text.
        text: String,
    },
    /// An image of a message.
    Image {
        /// The MIME type.
        mime_type: String,
        /// The bytes, base64.
        data: String,
    },
    /// What is new of a tool call.
    Call(Box<CallNews>),
    /// A message to the person beside the conversation.
    Notice {
        /// Whether the person may have to act.
        warns: bool,
        /// The text.
        text: String,
    },
    /// The agent summarises its conversation, or has done so.
    Compaction {
        /// Whether it runs.
        runs: bool,
    },
}

/// Something that an agent tells of its session, at any time.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionNews {
    /// Its slash commands. Replaces the earlier ones.
    Commands(Vec<AgentCommand>),
    /// What can be chosen. Replaces the earlier ones.
    Options(Vec<AgentOption>),
    /// The mode of its own, by its id.
    Mode(Arc<str>),
    /// What it plans. Replaces the earlier plan.
    Plan(Vec<AgentStep>),
    /// The title.
    Title(Arc<str>),
    /// The use of the model's window, and the cost so far in US dollars.
    Usage {
        /// Tokens in the window.
        used: u64,
        /// The size of the window.
        size: u64,
        /// The cost, if it is known in that currency.
        cost: Option<f64>,
    },
}

/// What is told of a tool call: all that is there is new. The agent may tell of a call first in any way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallNews {
    /// Its id at the agent.
    pub id: Arc<str>,
    /// The tool, as the agent names it.
    pub tool: Option<String>,
    /// What it does, on one line.
    pub title: Option<String>,
    /// Its kind.
    pub kind: Option<CallKind>,
    /// Its state.
    pub state: Option<CallState>,
    /// Its output so far. Replaces the earlier one.
    pub content: Option<Vec<CallPart>>,
    /// The files that it touches.
    pub places: Option<Vec<PathBuf>>,
    /// Its arguments.
    pub input: Option<Value<'static>>,
    /// Further output that is not for people first.
    pub output: Option<Value<'static>>,
    /// What a terminal of the agent's own has written since the last time.
    pub written: Option<String>,
    /// Whether it has parts that cannot be read: nobody knows what it does.
    pub is_unread: bool,
}

/// The keys of a map with their values. Those that are no text have no name.
pub fn pairs<'v>(map: &'v Value<'_>) -> impl Iterator<Item = (&'v str, &'v Value<'v>)> {
    let pairs = map.as_map().into_iter().flat_map(|map| map.iter());
    pairs.map(|(key, value)| (key.as_keyword().or_else(|| key.as_str()).unwrap_or_default(), value))
}

impl CallNews {
    /// Takes the title of a call that runs a command for the command, where nothing else says which it is.
    pub(super) fn command_from_title(&mut self) {
        if self.kind == Some(CallKind::Execute)
            && self.input.is_none()
            && let Some(title) = self.title.as_deref().filter(|title| !title.trim().is_empty())
        {
            self.input = Some(Value::from(Map::new().with("command", title.to_owned())));
        }
    }
}

/// A part of what a tool call shows.
#[derive(Debug, Clone, PartialEq)]
pub enum CallPart {
    /// A text.
    Text(String),
    /// An image.
    Image {
        /// The MIME type.
        mime_type: String,
        /// The bytes, base64.
        data: String,
    },
    /// A change of a file.
    Diff {
        /// The file.
        path: PathBuf,
        /// The text before; `None` for a new file.
        old: Option<String>,
        /// The text after.
        new: String,
    },
    /// The output of a terminal, by its id.
    Terminal(Arc<str>),
}

/// An answer that an agent offers to its request for a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedAnswer {
    /// Its id.
    pub id: Arc<str>,
    /// Its name for people.
    pub name: String,
    /// Its kind; `None` for one that is not known.
    pub kind: Option<PermissionKind>,
}

/// Something that an agent asks.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentAsk {
    /// Whether a tool call may run.
    Permission {
        /// The call.
        call: Box<CallNews>,
        /// The answers.
        answers: Vec<OfferedAnswer>,
    },
    /// To write a file.
    Write {
        /// The file.
        path: PathBuf,
        /// The whole text.
        text: String,
    },
    /// To read a file.
    Read {
        /// The file.
        path: PathBuf,
        /// The first line, from 1.
        line: Option<u32>,
        /// The greatest number of lines.
        limit: Option<u32>,
    },
    /// To start a command.
    StartTerminal {
        /// The program and its arguments.
        command: Vec<String>,
        /// Its variables.
        variables: Vec<(String, String)>,
        /// Its folder.
        cwd: Option<PathBuf>,
        /// How many bytes of its output are to be kept.
        keep: Option<u64>,
    },
    /// For the output of a command.
    ReadTerminal(Arc<str>),
    /// To wait for the end of a command.
    AwaitTerminal(Arc<str>),
    /// To end a command.
    KillTerminal(Arc<str>),
    /// To forget a command.
    ReleaseTerminal(Arc<str>),
    /// Something of the person.
    Form(Box<mcp::Question>),
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentReply {
    /// The chosen answer; `None` if it was cancelled.
    Chosen(Option<Arc<str>>),
    /// It was done.
    Done,
    /// The text of a file.
    Text(String),
    /// The id of a command that was started.
    Terminal(Arc<str>),
    /// The output of a command.
    Output {
        /// The newest of it.
        text: String,
        /// Whether something before it is missing.
        is_cut: bool,
        /// How it ended, if it has: its exit code, or the signal.
        ended: Option<(Option<u32>, Option<String>)>,
    },
    /// How a command ended: its exit code, or the signal.
    Ended(Option<u32>, Option<String>),
    /// What the person said.
    Form(Box<mcp::Question>, mcp::ElicitReply),
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptPart {
    /// A text.
    Text(String),
    /// An image: its MIME type and its bytes, base64.
    Image(String, String),
}

/// An MCP server that an agent is given.
#[derive(Debug, Clone)]
pub struct AgentServer {
    /// Its name.
    pub name: Arc<str>,
    /// How it is reached.
    pub way: AgentServerWay,
}

/// How an agent reaches an MCP server.
#[derive(Debug, Clone)]
pub enum AgentServerWay {
    /// A program that the agent starts, with its variables.
    Command(Vec<String>, Vec<(String, Secret)>),
    /// An address, with the headers of each request.
    Url(String, Vec<(String, Secret)>),
}

/// What an agent can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentCan {
    /// It takes images.
    pub images: bool,
    /// It loads sessions, and tells their history.
    pub load: bool,
    /// It takes sessions up, without their history.
    pub resume: bool,
    /// It closes sessions.
    pub close: bool,
    /// It forks sessions where they stand.
    pub fork: bool,
    /// It asks MCP servers over HTTP.
    pub http: bool,
    /// Its own name and version.
    pub info: Option<String>,
    /// The title of a call that runs a command is the command, and nothing else says which.
    pub titles_commands: bool,
    /// How one logs in at it: names, for a person.
    pub logins: Vec<String>,
}

/// A session at an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSession {
    /// Its id.
    pub id: Arc<str>,
    /// What is known of it at once.
    pub news: Vec<SessionNews>,
}
