//! Why a command failed, and with which exit status. Knows no command.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use edn_bridge::client::Refused;
use edn_bridge::config::ConfigError;
use edn_bridge::provider::fetch::FetchError;
use edn_bridge::provider::scripted::ScriptError;
use edn_bridge::store::StoreError;

/// The exit status of a command that failed.
pub const FAILED: u8 = 1;
/// That of a command that was called wrongly; clap's too.
pub const USAGE: u8 = 2;
/// That of a prompt whose server cannot be reached or is overloaded: the same later may succeed.
pub const UNREACHABLE: u8 = 3;
/// That of a prompt that cannot succeed before the configuration is changed.
pub const NOT_SET_UP: u8 = 4;
/// That of a prompt that a limit ended.
pub const LIMIT: u8 = 5;
/// That of a prompt without the structured answer that it asked for.
pub const NO_ANSWER: u8 = 6;
/// That of a prompt that was answered, while calls were refused because nobody could be asked about them.
pub const REFUSED_CALLS: u8 = 7;
/// That of a command that C-c ended, by the convention of shells.
pub const INTERRUPTED: u8 = 130;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no home folder to keep the state in.
    #[error("There is no home folder: name one with --state-dir DIR.")]
    NoHome,
    /// A folder's path is not UTF-8. Paths are part of frames and journals, which are text.
    #[error("the {role} folder's path is not UTF-8: {}; choose another ({option})", path.display())]
    NotText {
        /// `state` or `project`.
        role: &'static str,
        /// Its option.
        option: &'static str,
        /// Its path.
        path: PathBuf,
    },
    /// The configuration is unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model's script is unusable.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The state is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No session, or more than one, has this name.
    #[error("{0}")]
    NoSession(String),
    /// The process cannot start.
    #[error("cannot start: {0}")]
    Start(Box<dyn std::error::Error + Send + Sync>),
    /// A folder, a file, a stream or a terminal is unusable.
    #[error("{place}: {error}")]
    Io {
        /// Its name for a person.
        place: String,
        /// The system's error.
        error: io::Error,
    },
    /// The embedded model cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A bridge refused a request.
    #[error("{}", .0.message)]
    Refused(#[from] Refused),
    /// A form on standard input has no end.
    #[error("standard input ended within a form")]
    OpenForm,
    /// The prompt, the contract or the opening of the engine failed; contains the reason.
    #[error("{0}")]
    Failed(String),
    /// The same with an exit status of its own.
    #[error("{message}")]
    Status {
        /// The exit status.
        code: u8,
        /// The reason.
        message: String,
    },
}

impl Failure {
    /// A failure to start, of any error.
    pub fn start(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Start(error.into())
    }

    /// The exit status of a command that fails so.
    pub const fn status(&self) -> u8 {
        match self {
            Self::Status { code, .. } => *code,
            _ => FAILED,
        }
    }

    /// What makes a failure of an error of the system at a place, which is named for a person.
    pub fn io(place: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let place = place.into();
        |error| Self::Io { place, error }
    }
}

/// The exit status of a command.
pub type Exit = Result<ExitCode, Failure>;
