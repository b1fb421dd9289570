//! The commands that print a result: EDN, generated files, the contract. They need no session and no engine.

use std::ffi::OsString;
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use edn_bridge::catalogue;
use edn_bridge_contract as contract;

use super::canonical::canonical_forms;
use super::failure::{Exit, Failure};
use super::out;

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
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(super::failure::FAILED) })
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
        ("docs/tool-table.md", catalogue::tools::tools_page()),
        ("src/contract/ui-catalogue.edn", edn_bridge::wire::ui::reference::contract_tables()),
        ("spec/ui-reference.md", edn_bridge::wire::ui::reference::page()),
        ("spec/ui-protocol.schema.json", edn_bridge::wire::ui::reference::schema()),
    ] {
        let path = root.join(path);
        std::fs::write(&path, content).map_err(Failure::io(path.display().to_string()))?;
    }
    Ok(ExitCode::SUCCESS)
}
