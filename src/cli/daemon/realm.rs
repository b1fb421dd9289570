//! The engines of a daemon: one for each project and set of options, for as long as somebody is there or something runs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use edn_bridge::environment::{Environment, Variables};
use edn_bridge::facts::AtWork;
use edn_bridge::limits::{DAEMON_ASK, DAEMON_START};
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

impl Running {
    /// Whether it has neither a client nor work.
    fn is_at_rest(&self) -> bool {
        self.served.connected() == 0 && self.served.engine().at_work().is_empty()
    }
}

/// The place of an engine.
#[derive(Default)]
struct Seat {
    /// Held while the engine starts, takes an editor or ends. True once the seat is given up.
    changing: Mutex<bool>,
    running: Mutex<Option<Arc<Running>>>,
}

impl Seat {
    fn running(&self) -> Option<Arc<Running>> {
        lock(&self.running).clone()
    }

    /// Ends the engine with what runs in it. The caller holds `changing`.
    fn end(&self) {
        let Some(mut running) = lock(&self.running).take() else { return };
        // Others look at it for an instant at most.
        let until = Instant::now().checked_add(DAEMON_START);
        loop {
            running = match Arc::try_unwrap(running) {
                Ok(running) => return running.served.finish(None),
                Err(running) => running,
            };
            if until.is_none_or(|until| Instant::now() > until) {
                return tracing::error!("an engine could not be ended");
            }
            std::thread::yield_now();
        }
    }
}

/// The engines. Where one hangs, at its start or its end, the others do not notice.
#[derive(Default)]
pub(super) struct Engines {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    seats: HashMap<Given, Arc<Seat>>,
    /// How many engines were started.
    numbers: u64,
    /// Whether no further editor is taken.
    is_closed: bool,
}

impl Engines {
    /// Serves an editor on the engine of its options, which is started if there is none. Calls `left` when the editor has
    /// left. Returns whether it does: not after [`Engines::finish`].
    pub(super) fn attach(
        self: &Arc<Self>,
        options: &Options,
        given: &Given,
        variables: Variables,
        protocol: Protocol,
        transport: Transport,
        left: impl FnOnce() + Send + 'static,
    ) -> Result<bool, Failure> {
        loop {
            let seat = {
                let mut held = lock(&self.held);
                if held.is_closed {
                    return Ok(false);
                }
                held.seats.entry(given.clone()).or_default().clone()
            };
            // Until the editor is a client, so that the engine is not ended in between. Whoever opens a project that is put
            // away waits here until the locks of its sessions are given back.
            let is_gone = lock(&seat.changing);
            if *is_gone {
                continue;
            }
            let running = match seat.running() {
                Some(running) => running,
                None => {
                    let running = Arc::new(self.start(&given.options(options), variables.clone())?);
                    *lock(&seat.running) = Some(running.clone());
                    running
                }
            };
            running.environment.bring(variables);
            running.served.editor_of_many(protocol, transport, left)?;
            running.served.listen();
            return Ok(true);
        }
    }

    fn start(self: &Arc<Self>, options: &Options, variables: Variables) -> Result<Running, Failure> {
        let mut settings = options.settings()?;
        settings.outlives_clients = true;
        let environment = settings.environment.clone();
        environment.bring(variables);
        let number = {
            let mut held = lock(&self.held);
            held.numbers = held.numbers.saturating_add(1);
            held.numbers.saturating_sub(1)
        };
        let served = Served::start(settings, options.durability(), number)?;
        let all = Arc::downgrade(self);
        served.engine().see_all(move || all.upgrade().map(|all| all.at_work()).unwrap_or_default());
        Ok(Running { served, environment })
    }

    fn seats(&self) -> Vec<(Given, Arc<Seat>)> {
        lock(&self.held).seats.iter().map(|(given, seat)| (given.clone(), seat.clone())).collect()
    }

    /// Ends the engines that have no client and no work, each on a thread of its own. Returns how many there are.
    pub(super) fn sweep(self: &Arc<Self>) -> usize {
        let seats = self.seats();
        let count = seats.len();
        for (given, seat) in seats {
            if seat.running().is_some_and(|running| !running.is_at_rest()) {
                continue;
            }
            let engines = self.clone();
            let ending = std::thread::Builder::new().name("end".to_owned()).spawn(move || {
                // Somebody else starts it, takes an editor or ends it.
                let Ok(mut is_gone) = seat.changing.try_lock() else { return };
                if seat.running().is_none_or(|running| running.is_at_rest()) {
                    seat.end();
                    *is_gone = true;
                    let mut held = lock(&engines.held);
                    if held.seats.get(&given).is_some_and(|there| Arc::ptr_eq(there, &seat)) {
                        held.seats.remove(&given);
                    }
                }
            });
            if let Err(error) = ending {
                tracing::warn!(%error, "an engine could not be put away");
            }
        }
        count
    }

    /// Takes no further editor, and ends all engines with what runs in them. One that has not started by then is not waited
    /// for.
    pub(super) fn finish(&self) {
        lock(&self.held).is_closed = true;
        std::thread::scope(|scope| {
            for (_, seat) in self.seats() {
                let end = std::thread::Builder::new().name("end".to_owned());
                let ended = end.spawn_scoped(scope, move || {
                    let until = Instant::now().checked_add(DAEMON_ASK);
                    loop {
                        if let Ok(mut is_gone) = seat.changing.try_lock() {
                            *is_gone = true;
                            return seat.end();
                        }
                        if until.is_none_or(|until| Instant::now() > until) {
                            return tracing::warn!("an engine that starts or ends is not waited for");
                        }
                        std::thread::sleep(END_PAUSE);
                    }
                });
                if let Err(error) = ended {
                    tracing::warn!(%error, "an engine ends without being waited for");
                }
            }
        });
    }

    /// What works in all engines.
    fn at_work(&self) -> Vec<AtWork> {
        let running = self.seats().into_iter().filter_map(|(_, seat)| seat.running());
        running.flat_map(|running| running.served.engine().at_work()).collect()
    }

    /// What runs and waits.
    pub(super) fn status(&self) -> Vec<EngineStatus> {
        let mut status: Vec<_> = self
            .seats()
            .into_iter()
            .filter_map(|(given, seat)| Some((given, seat.running()?)))
            .map(|(given, running)| EngineStatus {
                cwd: given.cwd,
                clients: running.served.connected(),
                at_work: running.served.engine().at_work().into_iter().map(Working::from).collect(),
            })
            .collect();
        status.sort_by(|one, other| one.cwd.cmp(&other.cwd));
        status
    }
}

impl From<AtWork> for Working {
    fn from(work: AtWork) -> Self {
        Self {
            session: work.session.to_string(),
            name: work.name.to_string(),
            cwd: work.cwd.to_string(),
            phase: work.phase.as_str().to_owned(),
            asks: work.asks.map(str::to_owned),
        }
    }
}

/// How long the end waits before it looks again whether an engine can be ended.
const END_PAUSE: Duration = Duration::from_millis(5);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
