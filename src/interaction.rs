//! Typed questions to people. Every interactor gets a question at once; the first answer wins.
//!
//! [`pending`] holds the open questions and each interactor's queue. [`answers`] defines the valid answers
//! of each kind of question. [`dialog`] converts questions for connections that support only
//! plain dialogs. [`audit`] records how each ended, and [`unended`] keeps
//! the open ones on disk for that. [`warning`] lists the risks in a question's text. [`grant`]
//! keeps single permissions. Knows connections as [`crate::session::Client`]s. Does not know the purpose of a
//! question; its asker does.

mod answers;
pub mod audit;
mod dialog;
pub mod digest;
pub mod grant;
mod pending;
mod unended;
pub mod warning;

pub use pending::{Audience, Given, HeldAnswer, Origin, PendingQuestions, Question, Resolution};
