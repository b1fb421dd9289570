//! The one table of the EDN protocol: ops, topics, error codes, features, slash commands. The UI protocol has its own, in
//! `wire/ui/methods`.
//!
//! The router, the subscriptions, the generated reference, the constants of the Emacs package and the contract
//! tests read it. It knows [`Value`], to check params against a row. It does not know what an op does.
//!
//! `spec/*.allium` specifies the same tables formally, and a test compares the two. Sources: the RPC EDN op-mapping
//! contract and the tables that complete it.

mod errors;
mod ops;
mod param;
mod param_check;
mod reference;
mod slash_commands;
pub mod tools;
mod topics;

pub use errors::{ERROR_CODES, ErrorCode, ErrorSpec};
pub(crate) use ops::each_op;
pub use ops::{OP_NAMES, OPS, Op, OpSpec, SessionAccess};
pub use param::{Param, Shape};
pub use param_check::{InvalidParam, excerpt, thinking_level};
pub use reference::{contract_tables, emacs_constants, reference_page};
pub use slash_commands::{COMMANDS, CommandSpec, REALM_COMMANDS};
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
        "replay",
        "`subscribe` takes `:since`: the client is sent what it misses of a session, each entry once.",
    ),
    (
        "flow-credit",
        "The client reports with `ack` what it has shown; the server merges deltas beyond a window.",
    ),
];
