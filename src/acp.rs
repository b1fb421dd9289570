//! The tables of the Agent Client Protocol that both of its sides use: the ACP wire, which is an agent for editors, and the
//! room of agents, which is an editor for agents. Each kind and state of theirs in one enum of ours, with its name in
//! either version. Knows no message.

use agent_client_protocol_schema::{v1, v2};

use crate::catalogue::tools::{self, ToolKind, ToolRow};

/// Writes one of our enums as that of each version: the crate has a type for each, with the same names.
macro_rules! named_alike {
    ($ours:ident is $theirs:ident { $($one:ident = $other:ident),+ }) => {
        named_alike!(v1, $ours is $theirs { $($one = $other),+ });
        named_alike!(v2, $ours is $theirs { $($one = $other),+ });
    };
    ($version:ident, $ours:ident is $theirs:ident { $($one:ident = $other:ident),+ }) => {
        impl From<$ours> for $version::$theirs {
            fn from(one: $ours) -> Self {
                match one {
                    $($ours::$one => Self::$other,)+
                }
            }
        }
    };
}

/// What kind of tool a call is of, for icons and rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// It reads.
    Read,
    /// It changes files.
    Edit,
    /// It removes files.
    Delete,
    /// It moves files.
    Move,
    /// It searches.
    Search,
    /// It runs a command.
    Execute,
    /// It gets something from the network.
    Fetch,
    /// Anything else.
    Other,
}

impl CallKind {
    /// The kind of a tool.
    pub fn of(tool: &str) -> Self {
        match ToolRow::of(tool).map(|row| row.kind) {
            Some(ToolKind::Read) => Self::Read,
            Some(ToolKind::Edit) => Self::Edit,
            Some(ToolKind::Search) => Self::Search,
            Some(ToolKind::Execute) => Self::Execute,
            Some(ToolKind::Fetch) => Self::Fetch,
            Some(ToolKind::Delegate | ToolKind::Ask) | None => Self::Other,
        }
    }

    /// The tool of ours whose rules are those of such calls; `None` for calls that are like none of them.
    pub const fn tool(self) -> Option<&'static str> {
        match self {
            Self::Read => Some(tools::READ),
            Self::Edit => Some(tools::EDIT),
            Self::Search => Some(tools::SEARCH),
            Self::Execute => Some(tools::BASH),
            Self::Fetch => Some(tools::FETCH),
            Self::Delete | Self::Move | Self::Other => None,
        }
    }
}

named_alike!(CallKind is ToolKind { Read = Read, Edit = Edit, Delete = Delete, Move = Move, Search = Search, Execute = Execute, Fetch = Fetch, Other = Other });

impl From<v1::ToolKind> for CallKind {
    fn from(kind: v1::ToolKind) -> Self {
        match kind {
            v1::ToolKind::Read => Self::Read,
            v1::ToolKind::Edit => Self::Edit,
            v1::ToolKind::Delete => Self::Delete,
            v1::ToolKind::Move => Self::Move,
            v1::ToolKind::Search => Self::Search,
            v1::ToolKind::Execute => Self::Execute,
            v1::ToolKind::Fetch => Self::Fetch,
            _ => Self::Other,
        }
    }
}

/// The state of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    /// It was proposed.
    Pending,
    /// It runs.
    Running,
    /// It has ended.
    Completed,
    /// It has failed.
    Failed,
}

named_alike!(CallState is ToolCallStatus { Pending = Pending, Running = InProgress, Completed = Completed, Failed = Failed });

impl From<v1::ToolCallStatus> for CallState {
    fn from(status: v1::ToolCallStatus) -> Self {
        match status {
            v1::ToolCallStatus::InProgress => Self::Running,
            v1::ToolCallStatus::Completed => Self::Completed,
            v1::ToolCallStatus::Failed => Self::Failed,
            _ => Self::Pending,
        }
    }
}

/// Why a prompt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The model finished.
    EndTurn,
    /// The output limit was reached.
    MaxTokens,
    /// The turn made as many model calls as it may.
    MaxRounds,
    /// The provider refused.
    Refusal,
    /// A person ended it.
    Cancelled,
}

named_alike!(Stop is StopReason { EndTurn = EndTurn, MaxTokens = MaxTokens, MaxRounds = MaxTurnRequests, Refusal = Refusal, Cancelled = Cancelled });

impl From<v1::StopReason> for Stop {
    fn from(reason: v1::StopReason) -> Self {
        match reason {
            v1::StopReason::MaxTokens => Self::MaxTokens,
            v1::StopReason::MaxTurnRequests => Self::MaxRounds,
            v1::StopReason::Refusal => Self::Refusal,
            v1::StopReason::Cancelled => Self::Cancelled,
            // One that is not known yet is an end like any.
            _ => Self::EndTurn,
        }
    }
}

/// Whether a permission is for now or for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionKind {
    /// Yes, this once.
    AllowOnce,
    /// Yes, from now on.
    AllowAlways,
    /// No, this once.
    RejectOnce,
    /// No, from now on.
    RejectAlways,
}

named_alike!(PermissionKind is PermissionOptionKind { AllowOnce = AllowOnce, AllowAlways = AllowAlways, RejectOnce = RejectOnce, RejectAlways = RejectAlways });

impl TryFrom<v1::PermissionOptionKind> for PermissionKind {
    type Error = ();

    /// A kind that is not known yet is none that may be chosen.
    fn try_from(kind: v1::PermissionOptionKind) -> Result<Self, ()> {
        match kind {
            v1::PermissionOptionKind::AllowOnce => Ok(Self::AllowOnce),
            v1::PermissionOptionKind::AllowAlways => Ok(Self::AllowAlways),
            v1::PermissionOptionKind::RejectOnce => Ok(Self::RejectOnce),
            v1::PermissionOptionKind::RejectAlways => Ok(Self::RejectAlways),
            _ => Err(()),
        }
    }
}
