//! `edn-bridge repl` and `edn-bridge query`: clients of the project's running bridge or, if none runs, of an engine of
//! their own. Knows the EDN wire as any client does. What a line of the REPL means is in the library.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use edn_bridge::config::Settings;
use edn_bridge::repl::show::Layout;
use edn_bridge::repl::terminal::{self, Screen};
use edn_bridge::repl::{Aside, Outcome, Repl, explaining};
use edn_bridge::value::{Map, Value};

use super::engine_client::EngineClient;
use super::failure::{Exit, FAILED, Failure};
use super::options::Options;
use super::style::Painter;
use super::{out, sessions};

/// The near attributes that are named for one that does not exist.
const NAMED_ATTRIBUTES: usize = 3;

/// Columns of an output that is no terminal.
const WIDTH: usize = 100;

/// The whole id of a session that is given by the beginning of its id or by its name. One that is live and has no entry
/// yet is on no disk: its id is whole.
fn whole(options: &Options, settings: &Settings, session: String) -> Result<String, Failure> {
    let store = options.store(settings)?;
    match sessions::resolve(&store, &settings.cwd, &session) {
        Ok(id) => Ok(id.as_str().to_owned()),
        Err(Failure::NoSession(_)) if is_whole(&session) => Ok(session),
        Err(failure) => Err(failure),
    }
}

/// Whether a text has the form of a whole id.
fn is_whole(session: &str) -> bool {
    session.strip_prefix("s-").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit() || c == '-'))
}

pub(super) fn query(options: &Options, query: String, session: Option<String>, explain: bool) -> Exit {
    let settings = options.settings()?;
    let session = session.map(|session| whole(options, &settings, session)).transpose()?;
    let attached = EngineClient::new("edn-bridge query", settings, options.durability(), session.as_deref())?;
    let text = if explain { explaining(&query).to_string() } else { query };
    let params = Map::new().with("query", text.clone());
    let params = session.into_iter().fold(params, |params, session| params.with("session-id", session));
    let answer = attached.client.ask("query_eql", Value::from(params));
    let misspelt = match &answer {
        Ok(data) if !explain && data.get("missing").is_some() => {
            let plan = Map::new().with("query", explaining(&text).to_string());
            attached.client.ask("query_eql", Value::from(plan)).map(|plan| nearest(&plan)).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    attached.end();
    let data = answer?;
    let mut result = data.get("result").unwrap_or(&Value::Nil);
    if explain {
        result = result.get("psi.query/plan").unwrap_or(result);
    }
    let layout = Layout { width: WIDTH, terminal: false, colours: false };
    out::print(&format!("{}\n", layout.value(result)))?;
    for (key, what) in [("missing", "not resolved"), ("errors", "failed")] {
        if let Some(rest) = data.get(key) {
            let _ = writeln!(out::stderr(), "edn-bridge: {what}: {rest}");
        }
    }
    if !misspelt.is_empty() {
        let _ = writeln!(out::stderr(), "edn-bridge: did you mean {}?", misspelt.join(" or "));
    }
    let failed = data.get("errors").is_some() || !misspelt.is_empty();
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// The known attributes that are most similar to those of a plan that do not exist.
fn nearest(plan: &Value<'_>) -> Vec<String> {
    if let Some(names) = plan.get("nearest").and_then(Value::as_slice) {
        return names.iter().take(NAMED_ATTRIBUTES).map(Value::to_string).collect();
    }
    let below: Vec<&Value<'_>> = match plan {
        Value::Map(map) => map.iter().map(|(_, value)| value).collect(),
        _ => plan.as_slice().unwrap_or_default().iter().collect(),
    };
    below.into_iter().flat_map(nearest).collect()
}

pub(super) fn run(options: &Options, session: Option<String>) -> Exit {
    let settings = options.settings()?;
    let session = session.map(|session| whole(options, &settings, session)).transpose()?;
    let history = settings.state_dir.join("repl-history");
    let attached = EngineClient::new("edn-bridge repl", settings, options.durability(), session.as_deref())?;
    let EngineClient { client, events, own } = attached;
    let place = match own {
        Some(_) => "no bridge runs here: this is a runtime of its own",
        None => "attached to the running bridge",
    };
    let code = if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        let _ = writeln!(
            std::io::stdout().lock(),
            "edn-bridge {}: {place}. :help shows more.",
            env!("CARGO_PKG_VERSION")
        );
        let screen = Screen::default();
        let width =
            rustix::termios::tcgetwinsize(std::io::stdout()).map_or(WIDTH, |size| size.ws_col.max(40).into());
        let colours = Painter::stdout().has_colours();
        let mut repl = Repl::new(client, events, Layout { width, terminal: true, colours }, screen.aside());
        repl.focus(session);
        repl.begin();
        let names = repl.names().unwrap_or_default();
        terminal::run(repl, screen, names, &history, colours, show).map_err(Failure::io("the terminal"))?;
        ExitCode::SUCCESS
    } else {
        tracing::info!("{place}");
        let aside: Aside = Arc::new(|text: &str| {
            let _ = writeln!(out::stderr(), "{text}");
        });
        let mut repl =
            Repl::new(client, events, Layout { width: WIDTH, terminal: false, colours: false }, aside);
        repl.focus(session);
        repl.begin();
        lines(repl)?
    };
    if let Some(own) = own {
        own.end();
    }
    Ok(code)
}

/// Forms from standard input, answers on standard output, events and refusals on standard error. Fails if
/// any form was refused.
fn lines(mut repl: Repl) -> Exit {
    let mut code = ExitCode::SUCCESS;
    let mut text = String::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(Failure::io("standard input"))?;
        text.push_str(&line);
        text.push('\n');
        if !Repl::is_whole(&text) {
            continue;
        }
        match repl.evaluate(&std::mem::take(&mut text)) {
            Outcome::Quit => return Ok(code),
            outcome => {
                if let Outcome::Refused(_) = outcome {
                    code = ExitCode::from(FAILED);
                }
                print(&outcome);
            }
        }
    }
    if !text.trim().is_empty() {
        return Err(Failure::OpenForm);
    }
    Ok(code)
}

fn print(outcome: &Outcome) {
    match outcome {
        Outcome::Text(text) if !text.is_empty() => {
            let _ = writeln!(out::stdout(), "{text}");
        }
        Outcome::Refused(text) => {
            let _ = writeln!(out::stderr(), "{text}");
        }
        _ => {}
    }
}

/// The same on a terminal. The layout has replaced hidden characters before it added its colours.
fn show(outcome: &Outcome) {
    match outcome {
        Outcome::Text(text) if !text.is_empty() => {
            let _ = writeln!(std::io::stdout().lock(), "{text}");
        }
        outcome => print(outcome),
    }
}
