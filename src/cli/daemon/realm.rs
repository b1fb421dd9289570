//! The engines of a daemon: one for each project and set of options, for as long as somebody is there or something runs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use edn_bridge::environment::{Environment, Variables};
use edn_bridge::facts::AtWork;
use edn_bridge::message::Mode;
use edn_bridge::wire::transport::Transport;

use super::super::served::{Protocol, Served};
use super::super::{Failure, Options, SOURCES};
use super::line::{EngineStatus, Given, Working};

/// An engine of the daemon.
struct Running {
    served: Served,
    /// What its newest client brought.
    environment: Environment,
}

/// The engines.
#[derive(Default)]
pub(super) struct Engines {
    running: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    running: HashMap<Given, Arc<Running>>,
    /// How many engines were started.
    numbers: u64,
}

impl Engines {
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves an editor on the engine of its options, which is started if there is none. Calls `left` when the editor has
    /// left.
    pub(super) fn attach(
        self: &Arc<Self>,
        options: &Options,
        given: Given,
        variables: Variables,
        protocol: Protocol,
        transport: Transport,
        left: impl FnOnce() + Send + 'static,
    ) -> Result<(), Failure> {
        // Held until the editor is a client, so that its engine is not ended in between.
        let mut held = self.held();
        let running = match held.running.get(&given) {
            Some(running) => running.clone(),
            None => {
                let options = given.options(options);
                let mut settings = options.settings()?;
                settings.outlives_clients = true;
                let environment = settings.environment.clone();
                environment.bring(variables.clone());
                let served = Served::start(settings, options.durability(), held.numbers)?;
                let all = Arc::downgrade(self);
                served.engine().see_all(move || all.upgrade().map(|all| all.at_work()).unwrap_or_default());
                held.numbers = held.numbers.saturating_add(1);
                let running = Arc::new(Running { served, environment });
                held.running.insert(given, running.clone());
                running
            }
        };
        running.environment.bring(variables);
        running.served.editor_of_many(protocol, transport, left)?;
        running.served.listen();
        Ok(())
    }

    /// Ends the engines that have no client and no work. Returns how many remain.
    pub(super) fn sweep(&self) -> usize {
        // Held meanwhile: whoever opens the same project waits until the locks of its sessions are given back.
        let mut held = self.held();
        let rest = |running: &Running| {
            running.served.connected() == 0 && running.served.engine().at_work().is_empty()
        };
        let done: Vec<Given> = held
            .running
            .iter()
            .filter(|(_, running)| rest(running))
            .map(|(given, _)| given.clone())
            .collect();
        for given in done {
            if let Some(running) = held.running.remove(&given).and_then(Arc::into_inner) {
                tracing::info!(cwd = given.cwd, "an engine ends");
                running.served.finish(None);
            }
        }
        held.running.len()
    }

    /// Ends all engines with what runs in them.
    pub(super) fn finish(&self) {
        let all: Vec<_> = self.held().running.drain().map(|(_, running)| running).collect();
        std::thread::scope(|scope| {
            for running in all.into_iter().filter_map(Arc::into_inner) {
                let end = std::thread::Builder::new().name("end".to_owned());
                if let Err(error) = end.spawn_scoped(scope, move || running.served.finish(None)) {
                    tracing::warn!(%error, "an engine ends without being waited for");
                }
            }
        });
    }

    /// What works in all engines.
    fn at_work(&self) -> Vec<AtWork> {
        self.held().running.values().flat_map(|running| running.served.engine().at_work()).collect()
    }

    /// What runs and waits.
    pub(super) fn status(&self) -> Vec<EngineStatus> {
        let held = self.held();
        let status = held.running.iter().map(|(given, running)| EngineStatus {
            cwd: given.cwd.clone(),
            clients: running.served.connected(),
            at_work: running
                .served
                .engine()
                .at_work()
                .into_iter()
                .map(|work| Working {
                    session: work.session.to_string(),
                    name: work.name.to_string(),
                    cwd: work.cwd.to_string(),
                    phase: work.phase.as_str().to_owned(),
                    asks: work.asks.map(str::to_owned),
                })
                .collect(),
        });
        let mut status: Vec<_> = status.collect();
        status.sort_by(|one, other| one.cwd.cmp(&other.cwd));
        status
    }
}

impl Given {
    /// Those of a client's options that make its engine.
    pub(super) fn of(options: &Options, cwd: String) -> Result<Self, Failure> {
        let absolute = |path: &PathBuf| {
            let path = std::path::absolute(path).map_err(Failure::io(path.display().to_string()))?;
            path.into_os_string()
                .into_string()
                .map_err(|path| Failure::Failed(format!("the path is not UTF-8: {}", path.display())))
        };
        Ok(Self {
            cwd,
            provider: options.provider.clone(),
            model: options.model.clone(),
            model_file: options.model_file.as_ref().map(absolute).transpose()?,
            script: options.script.as_ref().map(absolute).transpose()?,
            mode: if options.yolo { Some(Mode::Yolo.as_str().to_owned()) } else { options.mode.clone() },
            config: options.config.as_ref().map(absolute).transpose()?,
            durability: options.durability.clone(),
            origins: options
                .origins
                .iter()
                .map(|(key, origin)| ((*key).to_owned(), origin.clone()))
                .collect(),
        })
    }

    /// The options that a process of its own would have had; the rest is the daemon's.
    fn options(&self, daemon: &Options) -> Options {
        let path = |path: &Option<String>| path.as_ref().map(PathBuf::from);
        let known = |key: &str| {
            SOURCES.iter().find(|(setting, _, _)| *setting == key).map(|(setting, _, _)| *setting)
        };
        Options {
            cwd: Some(PathBuf::from(&self.cwd)),
            provider: self.provider.clone(),
            model: self.model.clone(),
            model_file: path(&self.model_file),
            script: path(&self.script),
            mode: self.mode.clone(),
            yolo: false,
            config: path(&self.config),
            durability: self.durability.clone(),
            origins: self
                .origins
                .iter()
                .filter_map(|(key, origin)| Some((known(key)?, origin.clone())))
                .collect(),
            ..daemon.clone()
        }
    }
}
