//! The configuration of the process: its newest revision, for the process's folder and for others. Tells no session
//! of a new one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::clock::Clock;
use crate::config::{ConfigError, Files, Settings};
use crate::context::Places;
use crate::engine::providers::Providers;
use crate::engine::revision::{ConfigRevision, ConfigurationError, named_model};
use crate::environment::Variables;
use crate::message::{Mode, ThinkingLevel};
use crate::provider::choice::{ModelChoice, NamedModel, NoModel};
use crate::session::{ApiError, Reach, ShownFiles};
use crate::tool::permission::Ground;

/// The configuration of the process.
pub struct Configuration {
    clock: Arc<dyn Clock>,
    /// What the process was started with.
    settings: Arc<Settings>,
    newest: ArcSwap<ConfigRevision>,
    /// The same revision for sessions of other folders.
    others: Mutex<HashMap<Arc<str>, Arc<ConfigRevision>>>,
    /// It is read by one at a time, so that revisions have an order.
    reading: Mutex<()>,
    /// The names for new sessions.
    named_model: ArcSwap<NamedModel>,
    usual_thinking: ArcSwap<ThinkingLevel>,
}

impl Configuration {
    /// The first revision.
    ///
    /// # Errors
    /// A file that cannot be read, or an invalid hook.
    pub fn new(
        clock: Arc<dyn Clock>,
        settings: Arc<Settings>,
        providers: Providers,
    ) -> Result<Self, ConfigurationError> {
        let layers = settings.files.read()?;
        let own = Settings::clone(&settings);
        let (first, problems) = ConfigRevision::new(1, clock.now(), own, &layers, providers)?;
        for problem in problems {
            tracing::warn!("{problem}");
        }
        Ok(Self {
            newest: ArcSwap::from_pointee(first),
            others: Mutex::default(),
            reading: Mutex::new(()),
            named_model: ArcSwap::from_pointee(named_model(&settings)),
            usual_thinking: ArcSwap::from_pointee(layers.thinking.unwrap_or_default()),
            clock,
            settings,
        })
    }

    /// The newest revision, for the process's own folder.
    pub fn newest(&self) -> Arc<ConfigRevision> {
        self.newest.load_full()
    }

    /// The number of the newest revision.
    pub fn revision(&self) -> u64 {
        self.newest.load().revision
    }

    /// The model of new sessions of a client with these variables; of one that brought none, with the newest. Asks no server.
    ///
    /// # Errors
    /// If nothing leads to a model.
    pub fn usual_model(&self, own: Option<&Variables>) -> Result<ModelChoice, NoModel> {
        let config = self.newest();
        config.providers.choice(&self.named_model.load(), &config.models, own)
    }

    /// The same. Asks the servers of this machine when nothing else leads to a model.
    ///
    /// # Errors
    /// If nothing leads to a model.
    pub async fn find_model(&self, own: Option<&Variables>) -> Result<ModelChoice, NoModel> {
        let config = self.newest();
        config.providers.find_choice(&self.named_model.load_full(), &config.models, own).await
    }

    /// The thinking level of new sessions.
    pub fn usual_thinking(&self) -> ThinkingLevel {
        **self.usual_thinking.load()
    }

    /// The files of a session's folder, as a separate project.
    pub fn files_of(&self, cwd: &str) -> Files {
        let cwd = Path::new(cwd);
        if cwd == self.settings.cwd {
            self.settings.files.clone()
        } else {
            self.settings.files.of_project(cwd)
        }
    }

    /// The places of context for a session's folder.
    pub fn places(&self, cwd: &str) -> Places {
        let files = self.files_of(cwd);
        let trusted = files.is_trusted();
        Places { user: files.folder.clone(), cwd: PathBuf::from(cwd), trusted }
    }

    /// The newest configuration for sessions of a folder: that of the process, or for another folder the
    /// user's with that folder's own. A project's rules, modes and hooks apply only in the project.
    pub fn for_folder(&self, cwd: &str) -> Arc<ConfigRevision> {
        let newest = self.newest.load_full();
        if Path::new(cwd) == self.settings.cwd {
            return newest;
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = others.get(cwd).filter(|known| known.revision == newest.revision) {
            return known.clone();
        }
        others.retain(|_, known| known.revision == newest.revision);
        let read = |files: Files, most: Mode| {
            let layers = files.read()?;
            let mut settings =
                Settings { cwd: cwd.into(), files, ..Settings::clone(&self.settings) }.with(&layers);
            settings.mode = settings.mode.min(most);
            let providers = newest.providers.again(&settings, &self.clock);
            ConfigRevision::new(newest.revision, self.clock.now(), settings, &layers, providers)
        };
        let read = read(self.files_of(cwd), Mode::Yolo).or_else(|wrong| {
            // An invalid guard of the project guards nothing, so a person is asked instead.
            tracing::warn!("{cwd}: the project's configuration is passed over: {wrong}");
            read(Files { project: None, ..self.settings.files.clone() }, Mode::Ask)
        });
        let Ok((config, problems)) = read else { return newest };
        for problem in problems {
            tracing::warn!("{cwd}: {problem}");
        }
        let config = Arc::new(config);
        others.insert(cwd.into(), config.clone());
        config
    }

    /// Waits until nobody else reads the configuration.
    pub fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the configuration again. The new revision is the newest from now on. Also returns the unusable models
    /// and servers. The caller is the only one that reads, see [`Self::one_at_a_time`].
    ///
    /// # Errors
    /// The error in it; nothing has changed then.
    pub fn read_again(&self) -> Result<(Arc<ConfigRevision>, Vec<String>), ApiError> {
        let before = self.newest.load_full();
        let layers = self.settings.files.read().map_err(|error| ApiError::failed(error.to_string()))?;
        // A typing error must not remove the rules and guards of a trusted project.
        if let Some(wrong) = layers.broken.first() {
            return Err(ApiError::failed(wrong.clone()));
        }
        let settings = Settings::clone(&self.settings).with(&layers);
        let providers = before.providers.again(&settings, &self.clock);
        let now = named_model(&settings);
        let revision = before.revision.saturating_add(1);
        let (config, problems) =
            ConfigRevision::new(revision, self.clock.now(), settings, &layers, providers)
                .map_err(|error| ApiError::failed(error.to_string()))?;
        let config = Arc::new(config);
        // The person's choice in the program stays, unless the files contain a new value.
        if now != named_model(&before.settings) {
            self.named_model.store(Arc::new(now));
        }
        self.newest.store(config.clone());
        Ok((config, problems))
    }

    /// Trusts the current configuration of a folder, or stops trusting it. With `shown`, trusts it only if it is that.
    ///
    /// # Errors
    /// If the choice cannot be stored, the project's file cannot be read, or it is not what was shown.
    pub fn trust(&self, cwd: &str, yes: bool, shown: Option<&ShownFiles>) -> Result<(), ApiError> {
        let failed = |error: ConfigError| ApiError::failed(error.to_string());
        let files = self.files_of(cwd);
        files.set_trusted(yes, shown).map_err(failed)?;
        files.read().map(drop).map_err(failed)
    }

    /// Keeps a model for new sessions of this process and later ones.
    ///
    /// # Errors
    /// If it cannot be stored; nothing has changed then.
    pub fn choose_model(&self, reach: Reach, provider: &str, model: &str) -> Result<(), ApiError> {
        let kept = self.settings.files.choose_model(reach == Reach::Project, provider, model);
        kept.map_err(|error| ApiError::failed(error.to_string()))?;
        // As a later process would read it: a project's choice has priority over the user's.
        let layers = self.settings.files.read().map_err(|error| ApiError::failed(error.to_string()))?;
        let (provider, model) = match (layers.provider, layers.model) {
            (Some(provider), Some(model)) => (provider.into(), model.into()),
            _ => (provider.into(), model.into()),
        };
        let named = NamedModel { provider: Some(provider), model: Some(model), is_apart: false };
        self.named_model.store(Arc::new(named));
        Ok(())
    }

    /// Keeps a thinking level for new sessions of this process and later ones.
    ///
    /// # Errors
    /// If it cannot be stored; nothing has changed then.
    pub fn choose_thinking(&self, reach: Reach, level: ThinkingLevel) -> Result<(), ApiError> {
        let failed = |error: ConfigError| ApiError::failed(error.to_string());
        self.settings.files.choose_thinking(reach == Reach::Project, level).map_err(failed)?;
        // As a later process would read it.
        let layers = self.settings.files.read().map_err(failed)?;
        self.usual_thinking.store(Arc::new(layers.thinking.unwrap_or(level)));
        Ok(())
    }

    /// The workspace of a session and its further folders for judging its calls, with the program's own files. Without private
    /// hosts, which are those of a revision.
    pub fn ground(&self, workspace: &Path, roots: &[PathBuf]) -> Ground {
        let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let files = &self.settings.files;
        let beside = files.user.as_deref().and_then(Path::parent).map(|folder| folder.join("workflows"));
        let own =
            [Some(&self.settings.state_dir), files.folder.as_ref(), files.user.as_ref(), beside.as_ref()];
        Ground {
            workspace: workspace.to_owned(),
            roots: roots.to_vec(),
            home: dirs::home_dir().map(|home| resolved(&home)),
            own: own.into_iter().flatten().map(|path| resolved(path)).collect(),
            hidden: self.settings.kept().hidden.iter().map(|path| resolved(path)).collect(),
            outputs: None,
            programs: self.for_folder(&workspace.to_string_lossy()).programs.clone(),
            private: Vec::new(),
        }
    }
}
