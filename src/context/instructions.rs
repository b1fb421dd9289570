//! Instructions for agents from a project or the user: `AGENTS.md` and its alternatives. Knows no model.

use std::path::PathBuf;

use super::source_folder::{self, Author, Folder, Problem};
use crate::limits::INSTRUCTIONS_BYTES;

/// The file names in a folder; the first existing one counts.
const NAMES: &[&str] = &["AGENTS.md", "CLAUDE.md"];

/// One file of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// The file.
    pub path: PathBuf,
    /// Its author.
    pub scope: Author,
    /// The part of the text that was read.
    pub text: String,
    /// The file's size in bytes.
    pub bytes: u64,
    /// Whether the text is truncated.
    pub cut: bool,
}

pub(super) fn find(folder: &Folder, instructions: &mut Vec<Instructions>, problems: &mut Vec<Problem>) {
    for name in NAMES {
        let path = folder.path.join(name);
        match source_folder::start(folder, &path, INSTRUCTIONS_BYTES) {
            Ok(None) => continue,
            Ok(Some(start)) if start.text.trim().is_empty() => {}
            Ok(Some(start)) => {
                let (scope, bytes, cut) = (folder.scope, start.bytes, start.is_cut(INSTRUCTIONS_BYTES));
                instructions.push(Instructions { path, scope, text: start.text, bytes, cut });
            }
            Err(error) => problems.push(Problem::new(&path, error)),
        }
        return;
    }
}
