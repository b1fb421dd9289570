//! The one table of the protocol: ops, topics, error codes, features, slash commands.
//!
//! The router, the subscriptions, the generated reference, the constants of the Emacs package and the contract
//! tests read it. It knows [`Value`], to check params against a row. It does not know what an op does.
//!
//! `spec/*.allium` specifies the same tables formally, and a test compares the two. Sources: the RPC EDN op-mapping
//! contract and the tables that complete it.

use std::fmt;

use crate::value::Value;

mod check;
mod command;
mod errors;
mod ops;
mod reference;
mod topics;

pub use check::{InvalidParam, thinking_level};
pub use command::{COMMANDS, CommandSpec};
pub use errors::{ERROR_CODES, ErrorCode, ErrorSpec};
pub(crate) use ops::each_op;
pub use ops::{OP_NAMES, OPS, Op};
pub use reference::{contract_tables, emacs_constants, reference_page};
pub use topics::{SCOPE_KEYS, TOPICS, Topic, TopicSpec};

/// The version of the protocol that this server speaks: major, minor.
pub const PROTOCOL_VERSION: (u32, u32) = (1, 0);

/// [`PROTOCOL_VERSION`] as text on the wire.
pub const PROTOCOL_VERSION_TEXT: &str = "1.0";

/// The features that a client may request in the handshake, each with its effect.
pub const FEATURES: &[(&str, &str)] = &[
    ("plist-frames", "After the handshake, the server writes frames as lists that a Lisp reader can read."),
    (
        "interactor",
        "While it is subscribed to `interaction/requested`, the connection answers typed questions, receives them on that topic, and learns on `interaction/answered` how they end.",
    ),
    (
        "flow-credit",
        "The client reports with `ack` what it has shown; the server merges deltas beyond a window.",
    ),
];

/// The shape of a param's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A string, possibly empty.
    Text,
    /// A non-empty string.
    Filled,
    /// An integer, zero or more.
    Count,
    /// `true` or `false`.
    Flag,
    /// A map.
    Map,
    /// Any value.
    Any,
    /// A string, a boolean or nil.
    DialogResult,
    /// A list or vector of strings.
    Texts,
    /// A list or vector of maps.
    Maps,
    /// A string or a keyword.
    Name,
    /// A thinking level: its name as a string or keyword, or its place in the list, 0 to 5.
    Level,
    /// One of these strings.
    OneOf(&'static [&'static str]),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a string"),
            Self::Filled => f.write_str("a non-empty string"),
            Self::Count => f.write_str("an integer of 0 or more"),
            Self::Flag => f.write_str("true or false"),
            Self::Map => f.write_str("a map"),
            Self::Any => f.write_str("any value"),
            Self::DialogResult => f.write_str("a string, true, false or nil"),
            Self::Texts => f.write_str("a vector of strings"),
            Self::Maps => f.write_str("a vector of maps"),
            Self::Name => f.write_str("a non-empty string or a keyword"),
            Self::Level => f.write_str("off, minimal, low, medium, high, xhigh or an integer from 0 to 5"),
            Self::OneOf(names) => {
                f.write_str("one of ")?;
                for (place, name) in names.iter().enumerate() {
                    if place > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{name:?}")?;
                }
                Ok(())
            }
        }
    }
}

/// One key of an op's params.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// The key, without its colon.
    pub key: &'static str,
    /// The shape of its value.
    pub shape: Shape,
    /// Whether it is required.
    pub required: bool,
}

/// How an op relates to a session. This decides which requests it may overtake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Concerns only the connection.
    Connection,
    /// Reads a session or the process; never waits for a turn.
    Read,
    /// Changes a session; served in order of arrival.
    Write,
    /// Ends something or answers a question; admitted even if the maximum of requests is pending.
    Urgent,
}

/// One row of the ops table.
#[derive(Debug, Clone, Copy)]
pub struct OpSpec {
    /// The op.
    pub op: Op,
    /// Its name on the wire.
    pub name: &'static str,
    /// How it relates to a session.
    pub access: Access,
    /// Its params, without the optional `:session-id` of session ops.
    pub params: &'static [Param],
    /// Whether it concerns a session and takes `:session-id`.
    pub session: bool,
    /// The keys of the response's `:data`; a key that ends in `?` is optional.
    pub data: &'static [&'static str],
    /// Its specific error codes, in addition to those of every request.
    pub errors: &'static [ErrorCode],
    /// What it does, in one or two sentences.
    pub doc: &'static str,
}

impl OpSpec {
    /// Checks params against the row.
    ///
    /// # Errors
    /// [`InvalidParam`] names the first key that is missing or whose value has the wrong shape. Unknown keys are
    /// accepted, because a newer client may send more.
    pub fn check(&self, params: &Value<'_>) -> Result<(), InvalidParam> {
        check::params(self, params)
    }
}
