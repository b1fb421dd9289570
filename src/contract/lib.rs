//! The contract runner: starts any server of the edn-bridge protocol and tests it.
//!
//! It sees what a client sees, bytes on a pair of streams, and nothing of a server's internals. The checks are data:
//! EDN files in `checks/`, of what is sent and what is expected, which one interpreter plays. Each check starts its own
//! server. The [`rules`] hold for every frame of every check. A table binds the obligations that `allium plan` derives
//! from the specs to both, by name.
//!
//! The runner is fair. It notes behaviour that the contract leaves open, skips what a server does not offer, and fails
//! only violations.
//!
//! ```no_run
//! use edn_bridge_contract::{CommandLine, Options, Suite, run};
//!
//! let suite = Suite::built_in()?;
//! let server = CommandLine::new(vec!["my-server".into(), "--state-dir".into(), "{state}".into()])?;
//! let report = run(&suite, &server, &Options::default());
//! assert!(report.holds());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A server need not be a process: implement [`Launch`].

mod catalogue;
mod expression;
mod json;
mod launch;
mod login_server;
mod obligations;
mod pattern_check;
mod peer;
mod player;
mod probe;
mod report;
mod rules;
mod shapes;
mod stop;
mod suite;
mod ui_rules;
mod wire;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use edn_codec::{Value, to_string};
use peer::Peer;
use player::Player;
use probe::{Probe, Run};
use stop::Stop;

pub use catalogue::Catalogue;
pub use launch::{CONFIG_WORD, CommandLine, Config, Launch, Link, SCRIPT_WORD, STATE_WORD, Server, Wish};
pub use obligations::{Binding, BindingsError, TABLE as OBLIGATIONS, bindings};
pub use report::{Finding, Format, Report, Status, UnknownFormat};
pub use rules::{Breach, Frame, Ledger, Witness, rules};
pub use suite::{Check, Need, Suite, SuiteError};
pub use wire::{UnknownWire, Wire};

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

/// Runs the checks against a command line and writes the report, for a command of a program. Returns whether all
/// applicable checks pass.
///
/// # Errors
/// If the command cannot be started or does not answer a handshake, if nothing has a name of `options.only`, if no
/// folder can be created for the servers' state, or if the report cannot be written.
pub fn execute(
    wire: Wire,
    words: Vec<OsString>,
    format: Format,
    options: &Options,
    out: &mut dyn Write,
) -> std::io::Result<bool> {
    let suite = Suite::of(wire).map_err(std::io::Error::other)?;
    let launch = CommandLine::new(words)?;
    greet(&suite, &launch, options.patience)?;
    let report = run(&suite, &launch, options);
    if let Some(unknown) =
        options.only.iter().find(|asked| !report.findings.iter().any(|one| names(asked, &one.name)))
    {
        return Err(std::io::Error::other(format!("no check, rule or room of them is named {unknown:?}")));
    }
    let bindings = bindings().map_err(std::io::Error::other)?;
    report.write(format, &bindings, out)?;
    Ok(report.holds())
}

/// Introduces itself once, so that a command that is not a server is reported once and not by every check.
fn greet(suite: &Suite, launch: &dyn Launch, patience: Duration) -> std::io::Result<()> {
    let link = launch.launch(Wish { script: None, state: "greeting", config: None })?;
    let mut peer = Peer::new(link, patience, suite.wire(), suite.catalogue(), Rc::default(), Rc::default());
    let (op, params) = suite.wire().greeting(Value::vector([] as [Value<'static>; 0]));
    match peer.ask(op, &to_string(&params)) {
        Ok(_) => Ok(()),
        Err(Stop::Failed(why) | Stop::NotApplicable(why)) => {
            Err(std::io::Error::other(format!("the command is not a server that answers {op}: {why}")))
        }
    }
}

/// Runs the checks in order, then evaluates the rules on all received frames.
pub fn run(suite: &Suite, launch: &dyn Launch, options: &Options) -> Report {
    let chosen = |name: &str| options.only.is_empty() || options.only.iter().any(|asked| names(asked, name));
    let run = Run {
        launch,
        patience: options.patience,
        wire: suite.wire(),
        catalogue: suite.catalogue(),
        ledger: Rc::new(RefCell::new(Ledger::default())),
        abilities: OnceCell::new(),
    };
    let checks = suite.checks().iter().filter(|check| chosen(&check.name));
    let mut findings: Vec<Finding> = checks.map(|check| run_one(suite, &run, check)).collect();
    let ledger = run.ledger.take();
    let rules = rule_findings(suite, &ledger).into_iter();
    findings.extend(rules.filter(|finding| chosen(&finding.name)));
    Report { findings, frames: ledger.frames, notes: ledger.notes.into_iter().collect() }
}

/// Whether the filter contains the name or the room of a check or rule.
fn names(asked: &str, name: &str) -> bool {
    let asked = asked.strip_suffix('.').unwrap_or(asked);
    name.strip_prefix(asked)
        .is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && !asked.contains('.')))
}

fn run_one(suite: &Suite, run: &Run<'_>, check: &Check) -> Finding {
    let probe = Probe::new(run, &check.name);
    let outcome = match probe.lacks(&check.needs) {
        Ok(None) => Player::play(suite, &probe, &check.open, &check.steps),
        Ok(Some(lack)) => Err(Stop::NotApplicable(lack)),
        Err(stop) => Err(stop),
    };
    let (transcript, notes) = probe.finish();
    let (status, frames) = match outcome {
        Ok(()) => (Status::Passed, Vec::new()),
        Err(Stop::Failed(why)) => (Status::Failed(why), transcript),
        Err(Stop::NotApplicable(why)) => (Status::NotApplicable(why), Vec::new()),
    };
    Finding { name: check.name.clone(), about: check.about.clone(), status, frames, notes }
}

/// The findings of the rules for all frames of a run.
fn rule_findings(suite: &Suite, ledger: &Ledger) -> Vec<Finding> {
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
    suite.wire().rules(&suite.catalogue()).into_iter().map(finding).collect()
}
