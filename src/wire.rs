//! The wires: how clients reach the sessions.
//!
//! This room holds what every wire shares: byte streams ([`transport`]), lines ([`lines`]), one connection with its
//! pending requests and its focus ([`connection`]), and the queue of what it sends ([`outbox`]), for any
//! [`encoder`] of events. [`edn`] is the wire of EDN lines; [`control`] is the wire of programs that send texts and
//! interrupts to live sessions, as JSON lines; [`ui`] is the wire of terminal interfaces that speak the UI protocol;
//! [`acp`] is the wire of editors that speak the Agent Client Protocol. The last two read lines of [`jsonrpc`].

pub mod acp;
pub mod connection;
pub mod control;
pub mod edn;
pub mod encoder;
pub mod jsonrpc;
pub mod lines;
pub mod outbox;
pub mod partial_lines;
pub mod refusals;
pub mod transport;
pub mod ui;
