//! Settings: how a session's turns run. Does not know what the engine does with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::facts::ModelFacts;
use crate::facts::agent::{AgentOption, ListedAgent};
use crate::message::{Mode, ThinkingLevel};
use crate::session::call::{Call, Reply};
use crate::value::Value;

/// The settings of a session. A setting is on disk and in force before the reply.
pub trait SessionSettings: Send + Sync {
    /// The models of the catalogue.
    fn models(&self, call: Call, reply: Reply<Vec<ModelFacts>>);

    /// Sets the model by its id, its family, or `provider/model`; returns provider and id. Without a provider, the name is
    /// read as one of the session's provider first.
    fn set_model(
        &self,
        call: Call,
        provider: Option<String>,
        model: String,
        reach: Reach,
        reply: Reply<(String, String)>,
    );

    /// The provider and model of new sessions; both empty if there is none.
    fn usual_model(&self) -> (Arc<str>, Arc<str>);

    /// Switches to the next or previous usable model.
    fn cycle_model(&self, call: Call, forward: bool, reply: Reply<(String, String)>);

    /// Sets the thinking level; `None` for the next one.
    fn set_thinking_level(
        &self,
        call: Call,
        level: Option<ThinkingLevel>,
        reach: Reach,
        reply: Reply<ThinkingLevel>,
    );

    /// The thinking level of new sessions.
    fn usual_thinking(&self) -> ThinkingLevel;

    /// Sets the permission mode.
    fn set_mode(&self, call: Call, mode: Mode, reply: Reply<Mode>);

    /// Turns automatic compaction on or off.
    fn set_auto_compaction(&self, call: Call, enabled: bool, reply: Reply<bool>);

    /// Turns automatic retries on or off.
    fn set_auto_retry(&self, call: Call, enabled: bool, reply: Reply<bool>);

    /// Chooses a value of an option of the session's agent: a truth, or the id of a value. Answers with the options.
    fn set_option(&self, call: Call, option: String, value: Value<'static>, reply: Reply<Vec<AgentOption>>);

    /// The agents of the session's folder, by name. Starts none.
    fn agents(&self, call: Call, reply: Reply<Vec<ListedAgent>>);

    /// What can be chosen at the session's agent, which is started where it does not run.
    fn agent_options(&self, call: Call, reply: Reply<Vec<AgentOption>>);

    /// The theme of terminal interfaces that the user chose, if one was.
    fn theme(&self) -> Option<String>;

    /// Keeps a theme for the next start; returns the file that has it.
    fn set_theme(&self, call: Call, name: String, reply: Reply<String>);

    /// Trusts the project's configuration, or not; with `shown`, only what these paths and digests say.
    fn trust_project(&self, call: Call, trusted: bool, shown: Option<ShownFiles>, reply: Reply<bool>);
}

/// The files that a person was shown: the SHA-256 digest of each, by its path from the project's folder.
pub type ShownFiles = BTreeMap<String, String>;

/// The scope of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// This session.
    #[default]
    Session,
    /// Also the project's new sessions.
    Project,
    /// All new sessions of the user.
    User,
}
