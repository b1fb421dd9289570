//! What servers need of the process and the project.

use std::path::PathBuf;
use std::sync::Arc;

use crate::auth::Credentials;
use crate::clock::Clock;
use crate::environment::Environment;
use crate::http::Http;
use crate::peer::{Confine, KeysOf};

/// What the servers of a project need of the process.
#[derive(Clone)]
pub struct ServerContext {
    /// The project's folder: programs run in it, and servers are told of it as their root.
    pub root: PathBuf,
    /// The state folder.
    pub state_dir: PathBuf,
    /// Where variables are read.
    pub environment: Environment,
    /// The sandbox of programs; `None` for the rights of the user.
    pub confine: Option<Confine>,
    /// Requests over HTTP.
    pub http: Arc<Http>,
    /// Tokens of logins.
    pub credentials: Credentials,
    /// Keys of providers.
    pub keys: Arc<KeysOf>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}
