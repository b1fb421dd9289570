//! Typed questions to people. Every interactor gets a question at once; the first answer wins.
//!
//! [`question`] is a question on its way, [`open_questions`] holds the open ones and each interactor's queue, and
//! [`pending`] decides whose answer counts. [`answers`] defines the valid answers
//! of each kind of question. [`dialog`] converts questions for connections that support only
//! plain dialogs. [`audit`] records how each ended ([`records`] says what), and [`interrupted`] keeps
//! the open ones on disk for that. [`warning`] lists the risks in a question's text. [`grant`]
//! keeps single permissions. Knows connections as [`crate::session::Client`]s. Does not know the purpose of a
//! question; its asker does.

mod answers;
pub mod audit;
mod dialog;
pub mod digest;
pub mod grant;
mod interrupted;
mod open_questions;
mod pending;
mod question;
mod records;
pub mod warning;

pub use open_questions::Audience;
pub use pending::{HeldAnswer, PendingQuestions};
pub use question::{ClientAnswer, Origin, Question, Resolution};
