//! What a call does, as rules judge it. Judges nothing.

use std::path::PathBuf;

use crate::http::Url;

/// The effect of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// None outside the session.
    Nothing,
    /// Reads a file or folder.
    Read(PathBuf),
    /// Writes a file.
    Write(PathBuf),
    /// Runs a command.
    Run(String),
    /// Asks a server for an address.
    Fetch(Url),
    /// Is carried out by a client of the session, which says whether it changes anything.
    AtClient {
        /// Whether it changes nothing.
        read_only: bool,
    },
    /// Calls a tool of a server (`mcp`).
    Call {
        /// The server, by its name in the configuration.
        server: String,
        /// The tool's name at the server.
        tool: String,
        /// Whether the server says that it changes nothing. Only a hint: it decides what edits that are accepted
        /// cover, and nothing that a rule or the mode denies.
        read_only: bool,
    },
}
