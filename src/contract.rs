//! The contract runner: starts any server of the protocol and tests it.
//!
//! `edn-bridge contract [--format text|edn|junit] -- COMMAND…` serves authors of other servers, and tests
//! this one. It sees what a client sees, bytes on a pair of streams, and nothing of a server's internals. It
//! uses only the codec and the catalogue's names.
//!
//! A [`Check`] provokes a reaction and examines it; each check starts its own server. A rule ([`rules`])
//! holds for every frame of every check. One table binds the obligations that `allium plan` derives from
//! `spec/*.allium` to both, by name.
//!
//! The runner is fair. It notes behaviour that the contract leaves open, skips what a server does not offer,
//! and fails only violations.

mod check;
mod checks;
mod launch;
mod obligations;
mod peer;
mod report;
mod rules;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use check::{Probe, client_info};
use peer::Peer;

pub use check::{Abilities, Check, Need, Stop};
pub use checks::{
    CHECKS, CHOICES, DIRECT, GRAPH_ATTRIBUTES, MEMORY_ATTRIBUTES, ROOT_ATTRIBUTES, SESSION_ATTRIBUTES,
    SESSION_INFO_ATTRIBUTES, TOOL_SUMMARY_ATTRIBUTES, TURN_ATTRIBUTES,
};
pub use launch::{CONFIG_WORD, CommandLine, Config, Launch, Link, SCRIPT_WORD, STATE_WORD, Server, Wish};
pub use obligations::{Binding, BindingsError, bindings};
pub use report::{Finding, Format, Report, Status};
pub use rules::{Breach, Frame, INTERACTION_KINDS, Ledger, Witness, rules};

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names of checks and rules, or of their rooms (`framing`, `topic`); empty for all.
    pub only: Vec<String>,
    /// How long a check waits for one answer or event.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { only: Vec::new(), patience: Duration::from_secs(10) }
    }
}

/// Runs the checks against a command line and writes the report, for the command `contract`. Returns whether
/// all applicable checks pass.
///
/// # Errors
/// If the command cannot be started or does not answer a handshake, if no folder can be created for the
/// servers' state, or if the report cannot be written.
pub fn execute(
    words: Vec<OsString>,
    format: Format,
    options: &Options,
    out: &mut dyn Write,
) -> std::io::Result<bool> {
    let folder = std::env::temp_dir().join(format!("edn-bridge-contract-{}", std::process::id()));
    let launch = CommandLine::new(words, folder)?;
    greet(&launch, options.patience)?;
    let report = run(&launch, options);
    let bindings = bindings().map_err(std::io::Error::other)?;
    report.write(format, &bindings, out)?;
    Ok(report.holds())
}

/// Shakes hands once, so that a command that is not a server is reported once and not by every check.
fn greet(launch: &dyn Launch, patience: Duration) -> std::io::Result<()> {
    let link = launch.launch(Wish { script: None, state: "greeting", config: None })?;
    let mut peer = Peer::new(link, patience, Rc::default(), Rc::default());
    match peer.ask("handshake", &client_info("1.0", &[])) {
        Ok(_) => Ok(()),
        Err(Stop::Failed(why) | Stop::NotApplicable(why)) => {
            Err(std::io::Error::other(format!("the command is not a server that answers a handshake: {why}")))
        }
    }
}

/// Runs the checks in order, then evaluates the rules on all received frames.
pub fn run(launch: &dyn Launch, options: &Options) -> Report {
    let chosen = |name: &str| options.only.is_empty() || options.only.iter().any(|asked| names(asked, name));
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let abilities = OnceCell::new();
    let mut findings: Vec<Finding> = CHECKS
        .iter()
        .copied()
        .flatten()
        .copied()
        .filter(|check| chosen(check.name))
        .map(|check| run_one(launch, options, check, &abilities, &ledger))
        .collect();
    let ledger = ledger.take();
    findings.extend(rule_findings(&ledger).into_iter().filter(|finding| chosen(&finding.name)));
    Report { findings, frames: ledger.frames, notes: ledger.notes.into_iter().collect() }
}

/// Whether the filter contains the name or the room of a check or rule.
fn names(asked: &str, name: &str) -> bool {
    let asked = asked.strip_suffix('.').unwrap_or(asked);
    name.strip_prefix(asked)
        .is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && !asked.contains('.')))
}

fn run_one(
    launch: &dyn Launch,
    options: &Options,
    check: Check,
    abilities: &OnceCell<Abilities>,
    ledger: &Rc<RefCell<Ledger>>,
) -> Finding {
    let probe = Probe::new(launch, options.patience, check.name, abilities, ledger.clone());
    let outcome = match probe.lacks(check.needs) {
        Ok(None) => (check.run)(&probe),
        Ok(Some(lack)) => Err(Stop::NotApplicable(lack)),
        Err(stop) => Err(stop),
    };
    let (transcript, notes) = probe.finish();
    let (status, frames) = match outcome {
        Ok(()) => (Status::Passed, Vec::new()),
        Err(Stop::Failed(why)) => (Status::Failed(why), transcript),
        Err(Stop::NotApplicable(why)) => (Status::NotApplicable(why), Vec::new()),
    };
    Finding { name: check.name.to_owned(), about: check.about.to_owned(), status, frames, notes }
}

/// The findings of the rules for all frames of a run.
fn rule_findings(ledger: &Ledger) -> Vec<Finding> {
    let finding = |(name, about): (String, String)| {
        let breaches = ledger.breaches.get(&name).map(Vec::as_slice).unwrap_or_default();
        let status = match breaches.first() {
            Some(breach) => Status::Failed(breach.why.clone()),
            None if ledger.looked.contains_key(&name) => Status::Passed,
            None => Status::NotApplicable("nothing of the kind came in this run".to_owned()),
        };
        let shown: BTreeSet<String> =
            breaches.iter().map(|breach| format!("< {}  ({})", breach.line, breach.why)).collect();
        Finding { name, about, status, frames: shown.into_iter().collect(), notes: Vec::new() }
    };
    rules().map(finding).collect()
}
