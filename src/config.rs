//! What the user chose: where state is kept, which model answers, what tools may do.
//!
//! Knows the environment and the file system's conventions; not who uses the values.

use std::path::PathBuf;
use std::sync::Arc;

use crate::value::Value;

/// The settings of a process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where sessions, models and other state are kept.
    pub state_dir: PathBuf,
    /// The folder that new sessions work in, absolute.
    pub cwd: PathBuf,
    /// The provider of new sessions.
    pub provider: Arc<str>,
    /// The model of new sessions, by its id at the provider.
    pub model: Arc<str>,
    /// A GGUF file for the embedded model.
    pub model_file: Option<PathBuf>,
    /// A script for the scripted provider.
    pub script: Option<PathBuf>,
    /// What tools may do without asking.
    pub mode: Arc<str>,
    /// Rules for tools, in the order in which they count, as configuration writes them.
    pub rules: Vec<Value<'static>>,
    /// Folders that commands may write to beside the workspace.
    pub writable: Vec<PathBuf>,
    /// Models beside those that the program knows, as configuration writes them.
    pub models: Vec<Value<'static>>,
}

/// The state folder where none is named: `$XDG_STATE_HOME/edn-bridge`, by default below
/// `~/.local/state`. `None` where there is no home folder.
pub fn default_state_dir() -> Option<PathBuf> {
    Some(dirs::state_dir().or_else(dirs::data_local_dir)?.join("edn-bridge"))
}
