//! The commands that print a result: models, EDN, generated files, the contract. They need no session and no engine.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use edn_bridge::catalogue;
use edn_bridge::provider::downloads::{self, FileState};
use edn_bridge::provider::fetch::{self, FetchProgress};
use edn_bridge_contract as contract;

use super::canonical::canonical_forms;
use super::{Exit, Failure, Options, out};

/// Runs the contract. Exit status 0 if every applicable check passes.
pub(super) fn contract(
    wire: contract::Wire,
    server: Vec<OsString>,
    format: contract::Format,
    only: Vec<String>,
    patience: Duration,
) -> Exit {
    let options = contract::Options { only, patience };
    let mut out = out::stdout();
    let holds = contract::execute(wire, server, format, &options, &mut out)
        .map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(super::FAILED) })
}

pub(super) fn models(options: &Options) -> Exit {
    let settings = options.settings()?;
    let mut text = String::new();
    for status in downloads::list(&settings.state_dir) {
        let state = match status.state {
            FileState::Installed => "installed".to_owned(),
            FileState::WrongSize { found } => format!("damaged ({found} bytes)"),
            FileState::Missing => "not fetched".to_owned(),
        };
        let _ = writeln!(
            text,
            "embedded  {}  {}  {state}  {}",
            status.model.id,
            status.model.title,
            status.path.display()
        );
    }
    out::print(&text)
}

pub(super) fn fetch(options: &Options) -> Exit {
    let settings = options.settings()?;
    let mut shown = None;
    let mut progress = |step: FetchProgress| {
        // A line for each tenth, so that a log stays readable.
        let tenth = |done: u64, total: u64| {
            done.saturating_mul(10).checked_div(total).unwrap_or(0).saturating_mul(10)
        };
        let line = match step {
            FetchProgress::Waiting => "another process is fetching the model; waiting for it".to_owned(),
            FetchProgress::Downloading { done, total } => {
                format!("downloading the model: {} %", tenth(done, total))
            }
            FetchProgress::Unpacking { done, total } => {
                format!("unpacking and checking: {} %", tenth(done, total))
            }
        };
        if shown.as_ref() != Some(&line) {
            let _ = writeln!(out::stderr(), "edn-bridge: {line}");
            shown = Some(line);
        }
    };
    let fetched = fetch::fetch(&downloads::SMOLLM2, &settings.state_dir, &mut progress)?;
    out::print(&format!("{}\n", fetched.path.display()))
}

pub(super) fn edn() -> Exit {
    let output = BufWriter::new(out::stdout());
    let outcome = canonical_forms(std::io::stdin().lock(), output, out::stderr());
    outcome
        .map(|outcome| ExitCode::from(outcome.exit_status()))
        .map_err(Failure::io("standard input or output"))
}

pub(super) fn generate(root: &Path) -> Exit {
    for (path, content) in [
        ("spec/reference.md", catalogue::reference_page()),
        ("emacs/edn-bridge-constants.el", catalogue::emacs_constants()),
        ("src/contract/catalogue.edn", catalogue::contract_tables()),
        ("src/contract/ui-catalogue.edn", edn_bridge::wire::ui::reference::contract_tables()),
        ("spec/ui-reference.md", edn_bridge::wire::ui::reference::page()),
        ("spec/ui-protocol.schema.json", edn_bridge::wire::ui::reference::schema()),
    ] {
        let path = root.join(path);
        std::fs::write(&path, content).map_err(Failure::io(path.display().to_string()))?;
    }
    Ok(ExitCode::SUCCESS)
}
