//! Renames, archives and deletes sessions, as a client of the bridge that has one open or, if none has, of an engine of its
//! own: what a bridge knows of its sessions stays true.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use edn_bridge::client::{Client, Refused};
use edn_bridge::clock;
use edn_bridge::config::Settings;
use edn_bridge::message::SessionId;
use edn_bridge::value::{Map, Owned, Value};
use edn_bridge::wire::transport::socket::{self, Purpose, RunningProcess};

use crate::cli::engine_client::{Running, hello, is_in_realm, open};
use crate::cli::failure::{Exit, FAILED, Failure, USAGE};
use crate::cli::options::Options;
use crate::cli::out;
use crate::cli::progress::Bar;
use crate::cli::served::Own;
use crate::cli::table::Table;
use crate::cli::typed::{Typed, TypedLine};

/// An age: a number and a unit, h, d or w.
pub(in crate::cli) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no age; write 12h, 30d or 8w");
    let number = text.get(..text.len().saturating_sub(1)).and_then(|number| number.parse::<u64>().ok());
    let unit: u64 = match text.chars().last() {
        Some('h') => 60 * 60,
        Some('d') => 24 * 60 * 60,
        Some('w') => 7 * 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let seconds = number.and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

/// Those that may have a session open: the running bridges, the one of them that is in the machine's realm, and an engine of
/// our own that is started when it is needed.
struct SessionHolders<'o> {
    options: &'o Options,
    settings: &'o Settings,
    running: Vec<Running>,
    in_realm: Option<Running>,
    own: Option<(Own, Client, Receiver<Owned>)>,
}

/// How these commands introduce themselves.
const NAME: &str = "edn-bridge sessions";

impl<'o> SessionHolders<'o> {
    fn new(options: &'o Options, settings: &'o Settings) -> Result<Self, Failure> {
        let running = socket::connect(Purpose::Clients, &settings.state_dir, None).into_iter();
        let reach =
            |process: RunningProcess| Running::reach(&hello(NAME), process.stream, process.path.display());
        let in_realm = Running::in_realm(&hello(NAME), options, settings)?;
        Ok(Self { options, settings, running: running.filter_map(reach).collect(), in_realm, own: None })
    }

    /// The running bridge that has the session open, else the one that is in the realm.
    fn keeper(&self, session: &SessionId) -> Option<&Running> {
        let has_it = self.running.iter().find(|bridge| bridge.has(session.as_str()));
        has_it.or(self.in_realm.as_ref())
    }

    /// Asks whoever has the session open, else the bridge that is in the realm, else our own engine.
    fn ask(&mut self, op: &str, session: &SessionId, params: Map<'static>) -> Result<Owned, Failure> {
        let params = params.with("session-id", session.as_str().to_owned());
        if let Some(bridge) = self.keeper(session) {
            return bridge.client.ask(op, Value::from(params)).map_err(told);
        }
        let client = match &mut self.own {
            Some((_, client, _)) => client,
            none => {
                let (own, stream) = Own::start(self.settings.clone(), self.options.durability())?;
                let (client, events) = open(NAME, stream)?;
                &none.insert((own, client, events)).1
            }
        };
        if self.settings.realm.is_some() && cfg!(feature = "realm") && !is_in_realm(client) {
            return Err(Failure::Failed(ANOTHER.to_owned()));
        }
        client.ask(op, Value::from(params)).map_err(told)
    }

    fn end(self) {
        if let Some((own, client, events)) = self.own {
            drop((client, events));
            own.end();
        }
    }
}

/// What is told where our own engine would see a shared session as one of this machine alone.
const ANOTHER: &str =
    "Another process of this machine is in the realm, and does not answer. Nothing is done: try again.";

fn told(refused: Refused) -> Failure {
    Failure::Failed(refused.message)
}

/// Has a bridge that runs here take a session: a process of this command's own would give it up again.
pub(super) fn take(options: &Options, settings: &Settings, session: &SessionId, folder: &Path) -> Exit {
    let keepers = SessionHolders::new(options, settings)?;
    // An engine that an editor began with options of its own is another one than a command would get.
    let bridge = keepers.in_realm.as_ref().and_then(|_| keepers.keeper(session));
    let Some(bridge) = bridge else {
        let message = match settings.realm {
            Some(_) => {
                "No process of this machine is in the realm, so that none could continue the session. Start the daemon \
                 (`edn-bridge daemon start`), and take it again."
            }
            None => "There is no realm in your configuration.",
        };
        return Err(Failure::Failed(message.to_owned()));
    };
    let params = Map::new()
        .with("session-id", session.as_str().to_owned())
        .with("cwd", folder.to_string_lossy().into_owned());
    bridge.client.ask("take_session", Value::from(params)).map_err(told)?;
    out::print(&format!("This host continues {session}, in {}.\n", folder.display()))
}

pub(super) fn rename(options: &Options, settings: &Settings, session: &SessionId, name: &str) -> Exit {
    let mut keepers = SessionHolders::new(options, settings)?;
    let done = keepers.ask("rename_session", session, Map::new().with("name", name.to_owned()));
    keepers.end();
    done?;
    out::print(&format!("{session} is named {name}.\n"))
}

pub(super) fn archive(
    options: &Options,
    settings: &Settings,
    sessions: &[SessionId],
    archived: bool,
) -> Exit {
    each(
        options,
        settings,
        sessions,
        if archived { "archived" } else { "out of the archive" },
        |keepers, id| keepers.ask("archive_session", id, Map::new().with("archived?", archived)).map(drop),
    )
}

/// Deletes them after a yes.
pub(super) fn delete(
    options: &Options,
    settings: &Settings,
    sessions: &[SessionId],
    shown: &Table,
    yes: bool,
) -> Exit {
    if !yes {
        if !std::io::stdin().is_terminal() {
            let message =
                "nothing is deleted: nobody can be asked here; --yes deletes without asking".to_owned();
            return Err(Failure::Status { code: USAGE, message });
        }
        out::show(&shown.text())?;
        let what = if sessions.len() == 1 { "this session" } else { "these sessions" };
        let _ = write!(out::stderr(), "Delete {what} for good? [y/N]");
        let typed = Typed::new(clock::of_process());
        typed.put_aside(None);
        let answer = loop {
            let _ = write!(out::stderr(), ": ");
            match typed.line(None) {
                Some(TypedLine::Older) => {}
                Some(TypedLine::Answer(answer)) => break answer,
                None => break String::new(),
            }
        };
        if !matches!(answer.to_lowercase().as_str(), "y" | "yes") {
            return Err(Failure::Failed("nothing is deleted".to_owned()));
        }
    }
    each(options, settings, sessions, "deleted", |keepers, id| {
        keepers.ask("delete_session", id, Map::new()).map(drop)
    })
}

/// Does something to each session; goes on after one that fails.
fn each(
    options: &Options,
    settings: &Settings,
    sessions: &[SessionId],
    done: &str,
    how: impl Fn(&mut SessionHolders<'_>, &SessionId) -> Result<(), Failure>,
) -> Exit {
    let mut keepers = SessionHolders::new(options, settings)?;
    let (bar, mut failed) = (Bar::new(), false);
    for (at, session) in sessions.iter().enumerate() {
        if bar.is_live() {
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            bar.show("sessions", count(at), count(sessions.len()));
        }
        let result = how(&mut keepers, session);
        bar.clear();
        match result {
            Ok(()) => drop(out::print(&format!("{session} is {done}.\n"))?),
            Err(failure) => {
                failed = true;
                let _ = writeln!(out::stderr(), "edn-bridge: {session}: {failure}");
            }
        }
    }
    keepers.end();
    Ok(ExitCode::from(if failed { FAILED } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_a_number_and_a_unit() {
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        for (text, expected) in [("36h", days(1) + days(1) / 2), ("30d", days(30)), ("2w", days(14))] {
            assert_eq!(age(text), Ok(expected), "{text}");
        }
        for text in ["", "d", "30", "-1d", "3é", "99999999999999999999w", "18446744073709551615w"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
