//! `edn-bridge login` and `logout`: the logins of the session API, for a person at a terminal. Knows the EDN wire as any
//! client does, and no provider.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use edn_bridge::client::{Client, Refused};
use edn_bridge::limits::KEY_BYTES;
use edn_bridge::secret::Secret;
use edn_bridge::value::{Map, Owned, Value};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use super::engine_client::hello;
use super::failure::{Exit, FAILED, Failure};
use super::options::Options;
use super::out;
use super::served::Own;

/// An engine of our own: a running bridge reads the same credentials when it needs them.
struct LoginEngine {
    client: Arc<Client>,
    own: Own,
}

impl LoginEngine {
    fn new(options: &Options) -> Result<Self, Failure> {
        let (own, stream) = Own::start(options.settings()?, options.durability())?;
        let (client, _) = Client::connect(stream, &hello("edn-bridge login"))?;
        Ok(Self { client: Arc::new(client), own })
    }

    fn ask(&self, op: &str, params: Map<'static>) -> Result<Owned, Refused> {
        self.client.ask(op, Value::from(params))
    }

    fn end(self) {
        drop(self.client);
        self.own.end();
    }
}

/// What ends the waiting.
enum LoginWake {
    /// The login ended, by what was pasted or by itself.
    Done(Result<Owned, Refused>),
    /// What was pasted is not what is needed; contains what is.
    Again(String),
    /// Nothing more is pasted: the end of the input, or an interrupt.
    NoMore {
        /// Whether the person gave up.
        gave_up: bool,
    },
}

/// Logs in. Without a name, at the provider of new sessions.
pub(super) fn login(options: &Options, provider: Option<String>) -> Exit {
    let attached = LoginEngine::new(options)?;
    let done = see_through(&attached, provider);
    attached.end();
    match done? {
        Some(name) => out::print(&format!("You are logged in at {name}.\n")),
        None => Ok(ExitCode::from(FAILED)),
    }
}

/// Deletes a login.
pub(super) fn logout(options: &Options, provider: String) -> Exit {
    let attached = LoginEngine::new(options)?;
    let done = attached.ask("logout", Map::new().with("provider", provider.clone()));
    attached.end();
    match done?.get("logged-out").and_then(Value::as_bool) {
        Some(true) => out::print(&format!("Logged out of {provider}.\n")),
        _ => Err(Failure::Failed(format!("There was no login at {provider}."))),
    }
}

/// Starts a login and waits for its end; returns the name of the provider, or `None` if the person gave up.
fn see_through(attached: &LoginEngine, provider: Option<String>) -> Result<Option<String>, Failure> {
    let mut params = Map::new();
    params.put_some("provider", provider);
    let begun = attached.ask("login_begin", params)?;
    let text = |key: &str| begun.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = begun.get("provider").and_then(|provider| provider.get("name")).and_then(Value::as_str);
    let name = name.unwrap_or_default();
    let (url, code) = (text("url"), text("user-code"));
    let returns = begun.get("uses-callback-server").and_then(Value::as_bool) == Some(true);
    let mut told = format!("Open this page to log in at {name}:\n\n  {url}\n\n");
    if !code.is_empty() {
        told.push_str(&format!("and enter the code {code}\n\n"));
    }
    told.push_str(match (code.is_empty(), returns) {
        (false, _) => "Waiting for the page …\n",
        (true, true) => {
            "Waiting for the browser … If it runs elsewhere, paste the address that it ends at.\n"
        }
        (true, false) => "Paste what the page shows (it is not displayed), and press RET:\n",
    });
    // Standard output is for what is wanted in the end, and may be a pipe.
    let _ = out::stderr().write_all(told.as_bytes());
    let (sender, said) = channel();
    if !code.is_empty() || returns {
        let (client, sender) = (attached.client.clone(), sender.clone());
        std::thread::spawn(move || {
            let _ = sender.send(LoginWake::Done(client.ask("login_complete", Value::from(Map::new()))));
        });
    }
    let quiet = if code.is_empty() { Quiet::new() } else { None };
    if code.is_empty() {
        read_pasted(attached.client.clone(), sender, quiet.is_some());
    }
    let mut wrong = None;
    loop {
        match said.recv() {
            Ok(LoginWake::Done(done)) => {
                let done = done?;
                let name = done.get("provider").and_then(|provider| provider.get("name"));
                return Ok(Some(name.and_then(Value::as_str).unwrap_or_default().to_owned()));
            }
            Ok(LoginWake::Again(why)) => {
                let _ = writeln!(out::stderr(), "{why}");
                wrong = Some(why);
            }
            Ok(LoginWake::NoMore { gave_up: true }) => return Ok(None),
            // The browser may still come back.
            Ok(LoginWake::NoMore { gave_up: false }) if returns => {}
            Ok(LoginWake::NoMore { gave_up: false }) | Err(_) => {
                let why = wrong.unwrap_or_else(|| "Nothing was pasted.".to_owned());
                return Err(Failure::Failed(why));
            }
        }
    }
}

/// Takes what is pasted, line by line, until it completes the login.
fn read_pasted(client: Arc<Client>, sender: Sender<LoginWake>, is_quiet: bool) {
    std::thread::spawn(move || {
        loop {
            let said = match line(is_quiet) {
                Ok(Some(pasted)) if pasted.expose().trim().is_empty() => continue,
                Ok(Some(pasted)) => {
                    let input = Map::new().with("input", pasted.expose().to_owned());
                    match client.ask("login_complete", Value::from(input)) {
                        Err(refused) if refused.code == "request/invalid-params" => {
                            LoginWake::Again(refused.message)
                        }
                        done => LoginWake::Done(done),
                    }
                }
                Ok(None) => LoginWake::NoMore { gave_up: false },
                Err(Interrupted) => LoginWake::NoMore { gave_up: true },
            };
            let is_last = !matches!(said, LoginWake::Again(_));
            if sender.send(said).is_err() || is_last {
                return;
            }
        }
    });
}

/// The person pressed C-c.
struct Interrupted;

/// One line of standard input, bounded; `None` at its end. On a quiet terminal this is all that handles C-c and DEL.
fn line(is_quiet: bool) -> Result<Option<Secret>, Interrupted> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) if line.is_empty() => return Ok(None),
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        match byte {
            [b'\n' | b'\r'] => break,
            [3] if is_quiet => return Err(Interrupted),
            [4] if is_quiet && line.is_empty() => return Ok(None),
            [8 | 127] if is_quiet => drop(line.pop()),
            [other] if u64::try_from(line.len()).is_ok_and(|bytes| bytes < KEY_BYTES) => line.push(other),
            // A longer line is no key: it is read to its end and refused as what it is.
            _ => {}
        }
    }
    Ok(Some(Secret::new(String::from_utf8_lossy(&line).into_owned())))
}

/// A terminal that does not show what is typed, until this is dropped.
struct Quiet(Termios);

impl Quiet {
    /// `None` if standard input is no terminal.
    fn new() -> Option<Self> {
        let input = io::stdin();
        let before = input.is_terminal().then(|| termios::tcgetattr(&input).ok())??;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        // Each key at once.
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        // What was typed before the page was named is no part of a key.
        termios::tcsetattr(&input, OptionalActions::Flush, &quiet).ok().map(|()| Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
