//! Why something cannot be had of a server.

use std::time::Duration;

use super::failure::UNREADABLE;

/// Why something cannot be had of a server, as a sentence for a person or a model. Holds no secret: what a server says
/// about itself is cut, and its keys are taken out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// No server of that name is configured.
    #[error("There is no server {name:?}.{}", hint(.near))]
    Unknown {
        /// The name.
        name: String,
        /// Names that are similar.
        near: Vec<String>,
    },
    /// It is switched off.
    #[error("The server {0} is switched off in the configuration (:enabled false).")]
    Off(String),
    /// It could not be started or asked. Contains the reason.
    #[error("The server {server} cannot be used: {why}")]
    Failed {
        /// Its name.
        server: String,
        /// The reason, as a sentence.
        why: String,
    },
    /// It was started too often in a minute.
    #[error(
        "The server {0} ended {starts} times within a minute and is not started again by itself: see its last error, \
         then use /mcp restart {0}.",
        starts = crate::limits::MCP_STARTS
    )]
    GivenUp(String),
    /// Somebody must log in first.
    #[error("The server {0} wants a login: /login mcp:{0}, on the command line edn-bridge login mcp:{0}.")]
    NeedsLogin(String),
    /// It did not answer in time.
    #[error("The server {server} did not answer within {} s. What it has done is not known.", .after.as_secs())]
    TimedOut {
        /// Its name.
        server: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// It answered with an error. Contains its words, which are data.
    #[error("The server {server} refused: {why}")]
    Refused {
        /// Its name.
        server: String,
        /// Its words, cut.
        why: String,
    },
    /// It answered with what cannot be read.
    #[error(
        "The server {0} answered, and its answer cannot be read: {UNREADABLE}. What was asked of it may be done."
    )]
    Unreadable(String),
    /// It ended, or the connection was lost, while it was asked.
    #[error("The server {server} was lost before it answered{}. What it has done is not known.", because(.why))]
    Gone {
        /// Its name.
        server: String,
        /// What is known of it.
        why: Option<String>,
    },
    /// A tool is another one than the one that was offered.
    #[error(
        "The tool {tool} of the server {server} has changed since it was offered, and was not called. It is offered \
         anew: look at what it says of itself now."
    )]
    Changed {
        /// The server's name.
        server: String,
        /// The tool's name at the server.
        tool: String,
    },
    /// A tool is no longer there.
    #[error("The server {server} no longer offers the tool {tool}.")]
    Withdrawn {
        /// The server's name.
        server: String,
        /// The tool's name at the server.
        tool: String,
    },
    /// It cannot do that.
    #[error("The server {server} has no {what}.")]
    Lacks {
        /// Its name.
        server: String,
        /// What it lacks.
        what: &'static str,
    },
    /// The caller has ended the call.
    #[error("The call was ended.")]
    Ended,
}

impl McpError {
    /// Whether what was asked may have been done.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Gone { .. } | Self::Unreadable(_))
    }
}

fn because(why: &Option<String>) -> String {
    why.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
}

fn hint(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) }
}
