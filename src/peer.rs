//! Programs that are started to be talked to over their pipes, such as MCP servers and agents: what a configuration
//! says of them, the variables that they get, their sandbox, their standard error, and their end.
//!
//! Knows no protocol: what is read and written on the pipes is the caller's.

mod child;
mod lines;
mod redacted_errors;
mod settings;
mod variable_listing;
mod variables;

pub use child::{Child, Confine, PeerProgram, Started, Stderr, missing, start, with_variables};
pub use lines::LineReader;
pub use redacted_errors::{Redactor, Tokens, cut, shown};
pub use settings::{Read, Source, Unfit, Variable, at_home, command_line, is_name, of_text, unknown_key};
pub use variable_listing::{described, short_line, source_of};
pub use variables::{KeysOf, names_key, value};
