//! Typed questions to people and their answers. Knows neither who asks, nor how a wire lays them out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::facts::rule::Rule;
use crate::message::SessionId;
use crate::secret::Secret;

/// The kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// A free text.
    Ask,
    /// Whether a tool call may run.
    Approve,
    /// A choice from a list.
    Select,
    /// Confirmation that a login was completed elsewhere.
    DeviceCode,
    /// A secret.
    Password,
    /// Yes or no.
    Confirm,
    /// Whether one call outside a stage's tools may run.
    GrantStageTool,
    /// Whether a subagent may be started with its tools.
    ApproveSubagentEnvelope,
}

impl QuestionKind {
    /// Its name for clients and in the audit file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Approve => "approve",
            Self::Select => "select",
            Self::DeviceCode => "auth.device-code",
            Self::Password => "auth.password",
            Self::Confirm => "confirm",
            Self::GrantStageTool => "grant-stage-tool",
            Self::ApproveSubagentEnvelope => "approve-subagent-envelope",
        }
    }

    /// All.
    const ALL: [Self; 8] = [
        Self::Ask,
        Self::Approve,
        Self::Select,
        Self::DeviceCode,
        Self::Password,
        Self::Confirm,
        Self::GrantStageTool,
        Self::ApproveSubagentEnvelope,
    ];

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether the answer is secret, or almost. Other clients do not see it.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::DeviceCode | Self::Password)
    }

    /// Whether a yes or no answers it.
    pub const fn is_yes_or_no(self) -> bool {
        !matches!(self, Self::Ask | Self::Select | Self::Password)
    }
}

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum QuestionContent {
    /// For a free text.
    Ask {
        /// The question.
        prompt: String,
    },
    /// Whether a tool call may run.
    Approve(Approval),
    /// For a choice.
    Select {
        /// The question.
        prompt: String,
        /// The options.
        options: Vec<String>,
    },
    /// To confirm that a login was completed elsewhere.
    DeviceCode {
        /// The provider's name.
        provider: String,
        /// The page.
        url: String,
        /// The code to enter there.
        code: String,
        /// Until when it counts, RFC 3339 in UTC.
        expires_at: Arc<str>,
    },
    /// For a secret.
    Password {
        /// The question.
        prompt: String,
    },
    /// For yes or no.
    Confirm {
        /// The question.
        prompt: String,
        /// The usual answer.
        default: bool,
    },
    /// Whether one call outside a stage's tools may run.
    GrantStageTool(GrantRequest),
    /// Whether a subagent may be started with its tools.
    ApproveSubagentEnvelope(EnvelopeRequest),
}

/// A tool call that a person is to approve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The tool.
    pub tool: Arc<str>,
    /// The call.
    pub call: Arc<str>,
    /// The call on one line.
    pub summary: Arc<str>,
    /// The command that it runs.
    pub command: Option<String>,
    /// Whether the command can destroy what cannot be had back.
    #[serde(default)]
    pub is_dangerous: bool,
    /// The file that it reads or writes.
    pub path: Option<String>,
    /// The change of that file.
    pub diff: Option<ShownDiff>,
    /// The whole text that the file would have. The person may accept another one in its place.
    pub proposal: Option<ProposedText>,
    /// The rule that would allow such calls from now on.
    pub suggested_rule: Option<Rule>,
}

/// The whole text that a call proposes for a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedText {
    /// The file's text now; `None` for a new file.
    pub old: Option<Arc<str>>,
    /// The text.
    pub text: Arc<str>,
    /// The digest of the file for which it was made; `None` for a new file.
    pub base: Option<String>,
    /// The stored output with the text, if that is too long for the question.
    pub handle: Option<String>,
}

impl ProposedText {
    /// The text, if the question shows it.
    pub fn shown(&self) -> Option<&str> {
        self.handle.is_none().then_some(&*self.text)
    }
}

/// A diff in a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownDiff {
    /// The diff, or its start.
    pub text: String,
    /// The rest, if the text is only the start.
    pub cut: Option<CutDiff>,
}

/// A diff that is too long for its question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutDiff {
    /// The whole diff's size in bytes.
    pub size: usize,
    /// The stored output with the whole diff; `None` if it could not be stored.
    pub handle: Option<String>,
}

/// A call outside a stage's tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRequest {
    /// The execution of the stage, unique per run.
    pub stage_execution: String,
    /// The attempt, from 0.
    pub attempt: u32,
    /// The model's proposal of the call.
    pub proposal: String,
    /// The tool.
    pub tool: Arc<str>,
    /// A digest of the arguments, only for comparisons.
    pub args_digest: String,
    /// The call on one line.
    pub args_summary: String,
    /// Why it needs a grant.
    pub reason: String,
}

/// A subagent that is to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopeRequest {
    /// Its session.
    pub subagent: SessionId,
    /// The session that it is to work for.
    pub parent: SessionId,
    /// The number of sessions above it.
    pub depth: u32,
    /// Its tools.
    pub tools: Vec<String>,
    /// The start of its task, on one line.
    pub task_summary: String,
    /// Its model: provider and id.
    pub model: (Arc<str>, Arc<str>),
    /// The external agent that does the task, instead of a model of this program.
    pub agent: Option<Arc<str>>,
}

impl EnvelopeRequest {
    /// Who does the task, for people: `Model: p m` or `Agent: a`.
    pub fn who(&self) -> String {
        match &self.agent {
            Some(agent) => format!("Agent: {agent}"),
            None => format!("Model: {} {}", self.model.0, self.model.1),
        }
    }
}

impl QuestionContent {
    /// The kind of the question.
    pub const fn kind(&self) -> QuestionKind {
        match self {
            Self::Ask { .. } => QuestionKind::Ask,
            Self::Approve(_) => QuestionKind::Approve,
            Self::Select { .. } => QuestionKind::Select,
            Self::DeviceCode { .. } => QuestionKind::DeviceCode,
            Self::Password { .. } => QuestionKind::Password,
            Self::Confirm { .. } => QuestionKind::Confirm,
            Self::GrantStageTool(_) => QuestionKind::GrantStageTool,
            Self::ApproveSubagentEnvelope(_) => QuestionKind::ApproveSubagentEnvelope,
        }
    }

    /// The tool that it is about.
    pub fn tool(&self) -> Option<&Arc<str>> {
        match self {
            Self::Approve(approval) => Some(&approval.tool),
            Self::GrantStageTool(request) => Some(&request.tool),
            _ => None,
        }
    }

    /// Its approximate size in bytes.
    pub(super) fn weight(&self) -> usize {
        let long = match self {
            Self::Ask { prompt } | Self::Password { prompt } | Self::Confirm { prompt, .. } => prompt.len(),
            Self::Select { prompt, options } => {
                options.iter().map(String::len).fold(prompt.len(), usize::saturating_add)
            }
            Self::Approve(approval) => {
                let diff = approval.diff.as_ref().map_or(0, |diff| diff.text.len());
                let command = approval.command.as_ref().map_or(0, String::len);
                let proposal = approval.proposal.as_ref().and_then(ProposedText::shown).map_or(0, str::len);
                [approval.summary.len(), diff, command, proposal].into_iter().fold(0, usize::saturating_add)
            }
            Self::DeviceCode { url, .. } => url.len(),
            Self::GrantStageTool(request) => request.args_summary.len(),
            Self::ApproveSubagentEnvelope(request) => request.task_summary.len(),
        };
        long.saturating_add(size_of::<Self>())
    }
}

/// An answer to a question, of its kind.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The text.
    Text(String),
    /// The place of an option, from 0.
    Option(usize),
    /// The secret.
    Secret(Secret),
    /// Whether the login is done.
    Done(bool),
    /// Yes or no.
    Confirm(bool),
    /// The call, or the subagent, may run.
    Approve {
        /// How far the approval of a call reaches; `None` for other approvals.
        scope: Option<ApprovalScope>,
        /// The person's own rule for that scope.
        rule: Option<Rule>,
        /// The text that the file is to have in place of the proposed one.
        content: Option<Arc<str>>,
    },
    /// It may not.
    Deny,
    /// It may not, and neither may such calls of that scope.
    Forbid {
        /// How far that reaches.
        scope: ApprovalScope,
        /// The person's own rule for that scope.
        rule: Option<Rule>,
    },
    /// The stage goes on without it for now.
    Defer,
}

impl Answer {
    /// Its outcome as one word, for answers that have one.
    pub const fn outcome(&self) -> Option<&'static str> {
        match self {
            Self::Approve { .. } => Some("approve"),
            Self::Deny | Self::Forbid { .. } => Some("deny"),
            Self::Defer => Some("defer"),
            _ => None,
        }
    }

    /// Its approximate size in bytes.
    pub(super) fn weight(&self) -> usize {
        let text = if let Self::Text(text) = self { text.len() } else { 0 };
        text.saturating_add(size_of::<Self>())
    }
}

/// How far the approval or the refusal of a call reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalScope {
    /// This call.
    Once,
    /// Such calls in this session.
    Session,
    /// Such calls in this workspace.
    Rule,
}

impl ApprovalScope {
    /// All.
    pub const ALL: [Self; 3] = [Self::Once, Self::Session, Self::Rule];

    /// Its name for clients and in the audit file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Rule => "rule",
        }
    }
}
