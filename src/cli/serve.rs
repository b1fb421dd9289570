//! `edn-bridge serve`.

use std::process::ExitCode;
use std::sync::mpsc::channel;

use edn_bridge::wire::connection::ConnectionEnd;
use edn_bridge::wire::transport::Transport;

use super::daemon;
use super::failure::{Exit, Failure};
use super::options::Options;
use super::served::{Protocol, Served};
use super::signals::terminate;

/// Serves the editor on standard input and output: by the daemon, or in this process, which then ends with the editor.
pub(super) fn run(options: &Options, protocol: Protocol, wanted: daemon::Use) -> Exit {
    if let Some(ended) = daemon::serve(options, protocol, wanted)? {
        return Ok(ended);
    }
    let served = Served::start(options.settings()?, options.durability(), 0)?;
    let transport = Transport::stdio().map_err(Failure::io("standard input and output"))?;
    let (ended, wait) = channel();
    let on_signal = ended.clone();
    served.spawn(terminate(move |signal| {
        let _ = on_signal.send(Err(signal));
    }));
    let editor = served.editor(protocol, transport, move |end: ConnectionEnd| {
        let _ = ended.send(Ok(end));
    })?;
    served.listen();
    let why = wait.recv();
    tracing::info!(?why, "ending");
    // The process belongs to the editor: when the editor leaves, all clients leave.
    served.finish(Some(&editor));
    Ok(match why {
        // The convention of shells for a process that a signal ended.
        Ok(Err(signal)) => ExitCode::from(128u8.saturating_add(signal)),
        _ => ExitCode::SUCCESS,
    })
}
