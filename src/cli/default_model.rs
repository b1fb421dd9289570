//! The model of new sessions, for commands that have no engine. Chooses nothing itself: [`Providers`] does.

use std::sync::Arc;

use edn_bridge::clock::{Clock, SystemClock};
use edn_bridge::config::Settings;
use edn_bridge::engine::{Providers, named_model};
use edn_bridge::provider::choice::{ModelChoice, NoModel};
use edn_bridge::provider::models::Models;

/// The choice, with what it was made from.
pub(super) struct DefaultModel {
    /// The known providers.
    pub(super) providers: Providers,
    /// The catalogue, with the chosen model.
    pub(super) models: Models,
    /// The configured models that cannot be used, for a person.
    pub(super) problems: Vec<String>,
    /// The choice.
    pub(super) choice: Result<ModelChoice, NoModel>,
}

impl DefaultModel {
    /// Finds it. Asks the servers of this machine if nothing else leads to a model.
    pub(super) fn find(settings: &Settings) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let providers = Providers::new(settings, &clock);
        let (models, problems) = Models::new(&settings.models);
        let named = named_model(settings);
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let choice = match executor {
            Ok(executor) => executor.block_on(providers.find_choice(&named, &models, None)),
            Err(_) => providers.choice(&named, &models, None),
        };
        let models = match &choice {
            Ok(choice) => models.with(&choice.provider, &choice.model),
            Err(_) => models,
        };
        Self { providers, models, problems, choice }
    }

    /// Whether it is this model.
    pub(super) fn is(&self, provider: &str, id: &str) -> bool {
        self.choice.as_ref().is_ok_and(|choice| (&*choice.provider, &*choice.model) == (provider, id))
    }

    /// Why it was chosen, if it is not named.
    pub(super) fn reason(&self) -> Option<String> {
        self.choice.as_ref().ok().and_then(ModelChoice::reason)
    }

    /// The first line of a conversation: a choice that was made by rule, or that there is none.
    pub(super) fn opening(&self) -> Option<String> {
        match &self.choice {
            Ok(choice) => choice.notice(),
            Err(none) => Some(none.to_string()),
        }
    }
}
