//! The settings of the user: state folder, model, permissions of tools.
//!
//! Values come in layers, each over the one before: the user's file, the project's file, the environment,
//! the command line. A project's file that the user has not trusted may narrow what is allowed, and nothing
//! else. Knows files and plain data; does not know the users of the values.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::environment::Environment;
use crate::files::Seal;
use crate::http::host::HostPattern;
use crate::message::Mode;
use crate::value::Value;

mod command_files;
mod control;
mod daemon;
mod edit;
mod error;
mod fetch;
mod files;
mod layers;
mod realm;
mod servers;
mod source_position;
mod telemetry;
mod trust;

pub use command_files::{programs_below, unwatched};
pub use control::{ControlPolicy, Member, Team};
pub use daemon::{DaemonPolicy, IdleExit};
pub use error::{ConfigError, EditError};
pub use files::{Files, ProjectFiles};
pub use layers::{HookValue, Layers, RuleValue, ServersValue, Sourced};
pub use realm::{EngineAddress, RealmPolicy, Share, Takeover, Workspace};
pub use servers::KnownDigests;
pub use telemetry::TelemetryPolicy;
pub use trust::{Sealed, Trust};

/// Values from the command line and the environment. They override the files.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The provider of new sessions.
    pub provider: Option<Arc<str>>,
    /// The model of new sessions.
    pub model: Option<Arc<str>>,
    /// What tools may do without asking.
    pub mode: Option<Mode>,
    /// Rules for the calls of tools in this run, before those of the files.
    pub rules: Vec<RuleValue>,
    /// The option or variable of each value, for a person.
    pub origins: Vec<(&'static str, String)>,
}

/// The settings of a process.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where sessions, models and other state are kept.
    pub state_dir: PathBuf,
    /// The folder that new sessions work in, absolute.
    pub cwd: PathBuf,
    /// The provider that is named for new sessions.
    pub provider: Option<Arc<str>>,
    /// The model that is named for new sessions.
    pub model: Option<Arc<str>>,
    /// Whether the model is named by another source than the provider, and before it.
    pub model_is_apart: bool,
    /// The agent of new sessions; `None` for this program itself.
    pub agent: Option<Arc<str>>,
    /// A GGUF file for the embedded model.
    pub model_file: Option<PathBuf>,
    /// A script for the scripted provider.
    pub script: Option<PathBuf>,
    /// What tools may do without asking.
    pub mode: Mode,
    /// Values from the command line and the environment.
    pub overrides: Overrides,
    /// The configuration files.
    pub files: Files,
    /// Whether a call that needs an approval is denied and the turn continues if nobody can be asked. Otherwise the turn ends.
    pub denies_unasked: bool,
    /// A text that the system prompt of each session ends with.
    pub system_prompt: Option<Arc<str>>,
    /// Whether the sessions of this process end with it.
    pub is_ephemeral: bool,
    /// The variables that keys are read from and programs get.
    pub environment: Environment,
    /// Folders that commands may write to, in addition to the workspace.
    pub writable: Vec<PathBuf>,
    /// Variables of the model's commands; `None` takes one back that they would have.
    pub commands: Vec<(String, Option<String>)>,
    /// Whether models may be offered the search of their providers. A session asks before the first offer.
    pub web_search: bool,
    /// The hosts that may be on this machine or in a private network, for what is fetched.
    pub private_hosts: Vec<HostPattern>,
    /// Whether `fetch` goes through the proxy that the environment names.
    pub fetch_proxy: bool,
    /// How long a question stays open after its last client has left, if a file says it.
    pub orphan_grace: Option<Duration>,
    /// Whether what runs goes on when the last client has left.
    pub outlives_clients: bool,
    /// Whether editors use the daemon, and how long it stays.
    pub daemon: DaemonPolicy,
    /// Where spans and metrics are sent.
    pub telemetry: TelemetryPolicy,
    /// Who may control sessions.
    pub control: ControlPolicy,
    /// How this machine takes part in a realm.
    pub realm: Option<RealmPolicy>,
    /// Configured models, in addition to the built-in ones.
    pub models: Vec<Value<'static>>,
    /// Configured servers of models, and changes to built-in ones, by name.
    pub providers: Vec<(String, Value<'static>)>,
    /// The files that their commands for keys name, as they must be when these run; the last one of a name counts.
    pub provider_seals: Vec<(String, Seal)>,
    /// The sources of values, for a person: an option, a variable, a file. Other values are defaults.
    pub origins: Vec<(&'static str, String)>,
}

/// The files that commands may not change.
#[derive(Debug)]
pub struct KeptFiles {
    /// Readable ones: the user's configuration folder, which has the scripts of skills.
    pub guarded: Vec<PathBuf>,
    /// Unreadable ones: conversations, credentials, configured keys.
    pub hidden: Vec<PathBuf>,
}

impl Settings {
    /// The files that commands may not change.
    pub fn kept(&self) -> KeptFiles {
        let guarded = self.files.folder.iter().cloned().collect();
        let hidden = [self.state_dir.clone()].into_iter().chain(self.files.user.clone()).collect();
        KeptFiles { guarded, hidden }
    }

    /// The settings with the values of newly read files.
    #[must_use]
    pub fn with(mut self, layers: &Layers) -> Self {
        let Overrides { provider, model, mode, origins, rules: _ } = &self.overrides;
        let provider = provider.clone().or_else(|| layers.provider.as_deref().map(Arc::from));
        // A configured model belongs to the configured provider.
        let is_its = layers.provider.is_none() || layers.provider.as_deref() == provider.as_deref();
        let configured = layers.model.as_deref().filter(|_| is_its).map(Arc::from);
        self.model_is_apart = match model {
            Some(_) => self.overrides.provider.is_none(),
            None => layers.origin("model") != layers.origin("provider"),
        };
        self.model = model.clone().or(configured);
        self.mode = mode.or(layers.mode).unwrap_or_default();
        let mut all = origins.clone();
        for key in ["provider", "model", "mode"] {
            let is_taken = key != "model" || is_its;
            let is_known = !is_taken || all.iter().any(|(known, _)| *known == key);
            if let (false, Some(path)) = (is_known, layers.origin(key)) {
                all.push((key, path.to_string_lossy().into_owned()));
            }
        }
        self.origins = all;
        self.provider = provider;
        self.writable.clone_from(&layers.writable);
        self.commands.clone_from(&layers.commands);
        self.web_search = layers.web_search.unwrap_or(false);
        self.private_hosts.clone_from(&layers.private_hosts);
        self.fetch_proxy = layers.fetch_proxy;
        self.orphan_grace = layers.orphan_grace;
        self.daemon = layers.daemon;
        self.telemetry.clone_from(&layers.telemetry);
        self.control.clone_from(&layers.control);
        self.realm.clone_from(&layers.realm);
        self.models.clone_from(&layers.models);
        self.providers.clone_from(&layers.providers);
        self.provider_seals.clone_from(&layers.provider_seals);
        self
    }

    /// How long a question stays open after its last client has left.
    pub fn grace(&self) -> Duration {
        let usual = if self.outlives_clients { Duration::MAX } else { Duration::ZERO };
        self.orphan_grace.unwrap_or(usual)
    }

    /// The source of a value, for a person.
    pub fn origin(&self, key: &str) -> &str {
        self.origin_or(key, None)
    }

    /// The same for a value that has another source than the settings, if they do not name it.
    pub fn origin_or<'a>(&'a self, key: &str, other: Option<&'a str>) -> &'a str {
        let origin = self.origins.iter().find(|(known, _)| *known == key).map(|(_, origin)| origin.as_str());
        origin.or(other).unwrap_or("default")
    }
}

/// The default state folder: `$XDG_STATE_HOME/edn-bridge`, or else `~/.local/state/edn-bridge`. `None` without a home
/// folder.
pub fn default_state_dir() -> Option<PathBuf> {
    Some(dirs::state_dir().or_else(dirs::data_local_dir)?.join("edn-bridge"))
}
