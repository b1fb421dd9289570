//! Typed questions to people: asked of every interactor at once, answered by the first.
//!
//! The [`board`] holds the open questions and each interactor's queue; [`kind`] knows what each kind of
//! question carries and which answers fit; [`dialog`] puts questions to connections that know only plain
//! dialogs; [`audit`] writes down how each ended; [`warning`] says what a
//! person should know of a question's text; [`grant`] keeps what was allowed once. Knows connections as [`crate::session::Client`]s. Does
//! not know what a question is for: that is for who asks.

pub mod audit;
mod board;
mod dialog;
pub mod grant;
mod kind;
pub mod warning;

pub use board::{Audience, Board, Origin, Question, Resolution};
pub use kind::Kind;
