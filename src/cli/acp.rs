//! `edn-bridge acp`: the Agent Client Protocol on standard input and output, with an engine for each folder in which the
//! editor opens a session: those of the daemon, or those of this process, which then ends with its editor.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;

use clap::Subcommand;
use edn_bridge::environment::{Pairs, Variables};
use edn_bridge::wire::transport::Transport;

use super::daemon::{self, Engines, Handover};
use super::failure::{Exit, Failure};
use super::options::Options;
use super::served::Protocol;
use super::signals::on_termination;

/// What an editor runs beside the protocol.
#[derive(Subcommand)]
pub(super) enum AcpCommand {
    /// Logs in at a provider of models, like `edn-bridge login`. Editors start it in a terminal.
    Login {
        /// The provider by its name in the configuration; without one, that of new sessions.
        provider: Option<String>,
    },
}

/// Serves the editor on standard input and output.
pub(super) fn run(options: &Options, wanted: daemon::Use) -> Exit {
    if let Some(ended) = daemon::serve(options, Protocol::Acp, wanted)? {
        return Ok(ended);
    }
    let cwd = match &options.cwd {
        Some(dir) => dir.canonicalize().map_err(Failure::io(format!("--cwd {}", dir.display())))?,
        None => std::env::current_dir().map_err(Failure::io("the working folder"))?,
    };
    let given = Handover::of(options, cwd.to_string_lossy().into_owned())?;
    let transport = Transport::stdio().map_err(Failure::io("standard input and output"))?;
    let engines = Arc::new(Engines::new(options.state_folder()?, false));
    let (ended, wait) = channel();
    let on_signal = ended.clone();
    let left = move || {
        let _ = ended.send(None::<u8>);
    };
    let variables: Pairs = std::env::vars_os().collect();
    engines.attach(options, &given, Variables::from(variables), Protocol::Acp, transport, left)?;
    let signalled = move |signal| {
        let _ = on_signal.send(Some(signal));
    };
    on_termination(signalled).map_err(Failure::start)?;
    let why = wait.recv();
    tracing::info!(?why, "ending");
    engines.finish();
    Ok(match why {
        // The convention of shells for a process that a signal ended.
        Ok(Some(signal)) => ExitCode::from(128u8.saturating_add(signal)),
        _ => ExitCode::SUCCESS,
    })
}
