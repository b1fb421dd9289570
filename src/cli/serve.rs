//! `edn-bridge serve`, and the process that `query` and `prompt` run without an editor.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use edn_bridge::clock::{Clock, FixedClock, SystemClock};
use edn_bridge::endpoint::{self, End};
use edn_bridge::provider::scripted::Scripted;
use edn_bridge::runtime::{Providers, Runtime};
use edn_bridge::store::Store;
use edn_bridge::transport::Transport;

use super::Options;

/// How long the end of a connection may take: aborting turns, writing what they did, flushing.
const PATIENCE: Duration = Duration::from_secs(10);

/// A runtime with the executor that its tasks run on.
pub(super) struct Process {
    pub(super) runtime: Runtime,
    pub(super) clock: Arc<dyn Clock>,
    executor: tokio::runtime::Runtime,
}

impl Process {
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let settings = options.settings()?;
        let mut providers = Providers::new(&settings);
        if let Some(script) = &settings.script {
            providers.add(Arc::new(Scripted::from_file(script).map_err(|error| error.to_string())?));
        }
        let executor = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("session")
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start: {error}"))?;
        let store = Store::new(&settings.state_dir, options.durability())
            .map_err(|error| format!("cannot start: {error}"))?;
        // A transcript that is compared byte for byte needs the same times and names in every run.
        let clock: Arc<dyn Clock> = match std::env::var_os("EDN_BRIDGE_FIXED_CLOCK") {
            Some(_) => Arc::new(FixedClock::default()),
            None => Arc::new(SystemClock),
        };
        let runtime = Runtime::new(clock.clone(), settings, store, providers, executor.handle().clone());
        Ok(Self { runtime, clock, executor })
    }

    /// Ends the executor. What still runs is not waited for: it was told to stop before.
    pub(super) fn end(self) {
        self.executor.shutdown_background();
    }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, String> {
    let process = Process::new(options)?;
    let transport = Transport::stdio().map_err(|error| format!("standard input and output: {error}"))?;
    let (ended, wait) = channel();
    let on_signal = ended.clone();
    process.executor.spawn(async move {
        let signal = terminated().await;
        let _ = on_signal.send(Err(signal));
    });
    let api = Arc::new(process.runtime.clone());
    let on_end = Box::new(move |end: End| {
        let _ = ended.send(Ok(end));
    });
    let connection = endpoint::start(1, transport, api, process.clock.clone(), on_end)
        .map_err(|error| format!("cannot start: {error}"))?;
    let why = wait.recv();
    tracing::info!(?why, "ending");
    connection.finish(PATIENCE);
    process.end();
    Ok(match why {
        // The convention of shells for a process that a signal ended.
        Ok(Err(signal)) => ExitCode::from(128u8.saturating_add(signal)),
        _ => ExitCode::SUCCESS,
    })
}

/// Waits for a signal that asks the process to end, and returns its number.
async fn terminated() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut hangup), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::hangup()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => 15,
        _ = hangup.recv() => 1,
        _ = interrupt.recv() => 2,
    }
}
