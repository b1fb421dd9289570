//! The process of an agent and the lines to it: requests both ways, what it tells, and its end. Knows the protocol by `v1`
//! alone, and no session of ours.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value as Json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::known::KnownAgent;
use super::settings::AgentSetup;
use super::update::{
    AgentAsk, AgentCan, AgentReply, AgentServer, AgentServerWay, AgentSession, AgentUpdate, PromptPart,
    SessionNews,
};
use super::v1::{self, ParsedUpdate};
use crate::acp::Stop;
use crate::environment::Environment;
use crate::facts::agent::AgentOption;
use crate::jsonrpc::{self, RpcError, RpcMessage, id_in_head};
use crate::limits::{
    AGENT_EARLY_NEWS, AGENT_HELLO_WAIT, AGENT_LINE_BYTES, AGENT_LINES, AGENT_NOISE_LINES,
    AGENT_OPEN_REQUESTS, AGENT_SESSION_WAIT, AGENT_UPDATES, AGENT_WRITE_WAIT,
};
use crate::peer::{
    self, Child, Confine, KeysOf, LineReader, PeerProgram, Redactor, Source, Started, Stderr, Variable,
};
use crate::secret::Secret;
use crate::value::Value;

/// What an agent's process needs of ours.
#[derive(Clone)]
pub struct AgentPlace {
    /// The project's folder, in which it runs.
    pub root: PathBuf,
    /// Where variables are read.
    pub environment: Environment,
    /// The sandbox of its process; `None` for the rights of the user.
    pub confine: Option<Confine>,
    /// The keys of providers.
    pub keys: Arc<KeysOf>,
    /// The person's home folder, with the agents' own folders.
    pub home: Option<PathBuf>,
}

/// Why an agent did not do something. Its texts may be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentFault {
    /// Its process could not be started, or does not speak the protocol.
    #[error("{0}")]
    NotStarted(String),
    /// Its process has ended.
    #[error("{0}")]
    Gone(String),
    /// It did not answer in time.
    #[error("it did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It wants a login first.
    #[error("it wants a login first{}", logins(.0))]
    Login(Vec<String>),
    /// It refused, with a code and its words.
    #[error("{1}")]
    Refused(i64, String),
}

fn logins(names: &[String]) -> String {
    match names {
        [] => ": log in with its own program".to_owned(),
        names => format!(": log in with its own program ({})", names.join(", ")),
    }
}

/// Something of a turn.
pub enum FromAgent {
    /// It tells something.
    Update(AgentUpdate),
    /// It asks something.
    Ask(AgentAsk, Responder),
}

/// Answers one question of an agent. Dropped, it answers that nobody does.
pub struct Responder {
    out: mpsc::Sender<Vec<u8>>,
    open: Arc<OpenAsks>,
    id: Arc<str>,
    is_permission: bool,
    /// The agent has taken the question back, or is gone.
    pub withdrawn: CancellationToken,
    is_done: bool,
}

impl Responder {
    /// Answers. The agent is told the message of a refusal.
    pub async fn respond(mut self, reply: Result<AgentReply, RpcError>) {
        self.is_done = true;
        let line = match reply {
            Ok(reply) => answer(&self.id, &v1::reply(reply)),
            Err(error) => refusal(&self.id, &error),
        };
        self.open.end(&self.id);
        let _ = self.out.send(line).await;
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        self.open.end(&self.id);
        let line = match self.is_permission {
            true => answer(&self.id, &v1::reply(AgentReply::Chosen(None))),
            false => refusal(&self.id, &v1::error(-32800, "The request was cancelled.")),
        };
        let _ = self.out.try_send(line);
    }
}

#[derive(Serialize)]
struct Refusal<'e> {
    code: i64,
    message: &'e str,
}

fn answer(id: &str, result: &Json) -> Vec<u8> {
    let mut line = Vec::new();
    jsonrpc::respond(&mut line, id, result);
    line
}

fn refusal(id: &str, error: &RpcError) -> Vec<u8> {
    let mut line = Vec::new();
    jsonrpc::refuse(&mut line, id, &Refusal { code: error.code, message: &error.message });
    line
}

/// The agent's questions that are not answered yet.
#[derive(Default)]
struct OpenAsks {
    asks: Mutex<HashMap<Arc<str>, CancellationToken>>,
    fewer: Notify,
}

impl OpenAsks {
    fn asks(&self) -> MutexGuard<'_, HashMap<Arc<str>, CancellationToken>> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, id: &str) {
        self.asks().remove(id);
        self.fewer.notify_one();
    }
}

/// Hears what an agent tells of a session at any time.
type Hears = Arc<dyn Fn(SessionNews) + Send + Sync>;

/// Where what an agent says of a session goes.
struct Route {
    hears: Hears,
    turn: Option<mpsc::Sender<FromAgent>>,
}

/// A request to an agent that has no answer yet.
struct PendingRequest {
    answer: oneshot::Sender<Result<Value<'static>, RpcError>>,
    /// Who hears of the session that the answer names.
    hears: Option<Hears>,
}

/// An agent that runs.
pub struct AgentConnection {
    name: Arc<str>,
    out: mpsc::Sender<Vec<u8>>,
    awaited: Mutex<HashMap<String, PendingRequest>>,
    next: AtomicU64,
    routes: Mutex<HashMap<Arc<str>, Route>>,
    /// What was told of sessions before it was known whose they are.
    early: Mutex<Vec<(Arc<str>, SessionNews)>>,
    open: Arc<OpenAsks>,
    /// Ends the writing, so that its input is closed.
    closing: CancellationToken,
    /// It has ended, or cannot be talked to any more.
    gone: CancellationToken,
    child: Child,
    noted: Arc<Redactor>,
    can: std::sync::OnceLock<AgentCan>,
    environment: Environment,
    variables: Vec<(String, Secret)>,
}

/// A turn at an agent: what it says of it. Dropped, the agent's questions are answered by nobody.
pub struct AgentTurn {
    connection: Arc<AgentConnection>,
    session: Arc<str>,
    /// What comes, in order.
    pub incoming: mpsc::Receiver<FromAgent>,
}

impl Drop for AgentTurn {
    fn drop(&mut self) {
        if let Some(route) = self.connection.routes().get_mut(&self.session) {
            route.turn = None;
        }
    }
}

impl AgentConnection {
    /// Starts an agent's process and greets it. Its waiting runs on `tasks`.
    ///
    /// # Errors
    /// See [`AgentFault`].
    pub async fn start(
        setup: &AgentSetup,
        place: &AgentPlace,
        tasks: &TaskTracker,
    ) -> Result<Arc<Self>, AgentFault> {
        let failed = AgentFault::NotStarted;
        // At each start: a file may change at any time after it was looked at.
        setup.seal.verify().await.map_err(|broken| failed(broken.to_string()))?;
        let mut variables = Vec::new();
        for (name, variable) in &setup.environment {
            let value =
                peer::value(name, variable, &place.environment, &*place.keys).await.map_err(failed)?;
            variables.push((name.clone(), value));
        }
        let noted = Arc::new(Redactor::new(secrets(setup, &variables)));
        let own = own(setup, place, &mut variables).await.map_err(failed)?;
        let writable: Vec<PathBuf> = setup.writable.iter().cloned().chain(own).collect();
        let program = PeerProgram {
            what: "agent",
            name: setup.name.clone(),
            command: &setup.command,
            folder: setup.cwd.as_ref().map_or_else(|| place.root.clone(), |folder| place.root.join(folder)),
            environment: &place.environment,
            variables: &variables,
            confine: place.confine.as_ref().filter(|_| setup.sandbox),
            writable: &writable,
        };
        let stderr = Arc::new(Stderr::default());
        let started = peer::start(program, &noted, stderr.clone(), tasks).await.map_err(failed)?;
        let Started { child, read, write } = started;
        let (out, lines) = mpsc::channel(AGENT_LINES);
        let connection = Arc::new(Self {
            name: setup.name.clone(),
            out,
            awaited: Mutex::default(),
            next: AtomicU64::new(1),
            routes: Mutex::default(),
            early: Mutex::default(),
            open: Arc::default(),
            closing: CancellationToken::new(),
            gone: CancellationToken::new(),
            child,
            noted,
            can: std::sync::OnceLock::new(),
            environment: place.environment.clone(),
            variables,
        });
        let (closing, gone) = (connection.closing.clone(), connection.gone.clone());
        tasks.spawn(write_lines(write, lines, closing, gone.clone(), connection.noted.clone()));
        let reading = read_lines(Arc::downgrade(&connection), read, gone.clone(), connection.noted.clone());
        tasks.spawn(async move {
            reading.await;
            gone.cancel();
        });
        match connection.greet(setup.reads).await {
            Ok(()) => Ok(connection),
            Err(error) => {
                connection.end().await;
                // What it said last explains more than that it said nothing.
                let last = last_words(&stderr, &connection.noted);
                Err(match error {
                    AgentFault::Gone(why) => failed(format!("{why}{last}")),
                    error => error,
                })
            }
        }
    }

    async fn greet(&self, reads: bool) -> Result<(), AgentFault> {
        let answer = self.request("initialize", &v1::initialize(reads), AGENT_HELLO_WAIT).await?;
        let unfit = || AgentFault::NotStarted("its answer to initialize cannot be read".to_owned());
        let (version, can) = v1::can(&answer).ok_or_else(unfit)?;
        if version != 1 {
            let why = format!("it speaks version {version} of the Agent Client Protocol, and not version 1");
            return Err(AgentFault::NotStarted(why));
        }
        let _ = self.can.set(can);
        Ok(())
    }

    fn awaited(&self) -> MutexGuard<'_, HashMap<String, PendingRequest>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<Arc<str>, Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the variables of its process come from, and those that were added.
    pub fn variables(&self) -> (&Environment, &[(String, Secret)]) {
        (&self.environment, &self.variables)
    }

    /// What it can do.
    pub fn can(&self) -> AgentCan {
        self.can.get().cloned().unwrap_or_default()
    }

    /// Whether it can be talked to.
    pub fn is_alive(&self) -> bool {
        !self.gone.is_cancelled()
    }

    /// Waits until it cannot be talked to any more.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Whether it has sessions of ours.
    pub fn has_sessions(&self) -> bool {
        !self.routes().is_empty()
    }

    /// What it wrote last to its standard error, without its keys.
    pub fn stderr(&self) -> String {
        self.noted.masked(&self.child.stderr().text())
    }

    fn why_gone(&self) -> AgentFault {
        let last = self.noted.last();
        AgentFault::Gone(last.map_or_else(|| "its program has ended".to_owned(), |last| last.to_string()))
    }

    /// Why it has ended, if it did so by itself.
    pub fn why_ended(&self) -> Option<String> {
        (!self.is_alive() && !self.closing.is_cancelled()).then(|| self.why_gone().to_string())
    }

    async fn send(&self, line: Vec<u8>) -> Result<(), AgentFault> {
        tokio::select! {
            biased;
            () = self.gone.cancelled() => Err(self.why_gone()),
            sent = self.out.send(line) => sent.map_err(|_| self.why_gone()),
        }
    }

    async fn request(
        &self,
        method: &str,
        params: &Json,
        wait: Duration,
    ) -> Result<Value<'static>, AgentFault> {
        timeout(wait, self.ask(method, params, None)).await.unwrap_or(Err(AgentFault::Silent(wait)))
    }

    /// A request whose answer is waited for without an end. Given up, its answer is passed over.
    async fn ask(
        &self,
        method: &str,
        params: &Json,
        hears: Option<Hears>,
    ) -> Result<Value<'static>, AgentFault> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let (answer, answered) = oneshot::channel();
        self.awaited().insert(id.clone(), PendingRequest { answer, hears });
        let _forget = Forget { connection: self, id: &id };
        let mut line = Vec::new();
        jsonrpc::ask(&mut line, &id, method, params);
        self.send(line).await?;
        let answered = tokio::select! {
            biased;
            answered = answered => answered.map_err(|_| self.why_gone())?,
            () = self.gone.cancelled() => return Err(self.why_gone()),
        };
        answered.map_err(|error| match error.code {
            -32000 => AgentFault::Login(self.can().logins),
            code => {
                let message = if error.message.is_empty() { "it refused" } else { &error.message };
                AgentFault::Refused(code, self.noted.words(message))
            }
        })
    }

    async fn open(
        self: &Arc<Self>,
        method: &str,
        params: Json,
        known: Option<&str>,
        hears: Hears,
    ) -> Result<AgentSession, AgentFault> {
        if let Some(id) = known {
            self.route(&id.into(), hears.clone());
        }
        let asked = self.ask(method, &params, Some(hears));
        let answer = timeout(AGENT_SESSION_WAIT, asked).await;
        let answer = answer.unwrap_or(Err(AgentFault::Silent(AGENT_SESSION_WAIT)));
        let opened = answer.and_then(|answer| {
            let unfit = || AgentFault::Refused(0, "its answer names no session".to_owned());
            v1::opened(&answer, known).ok_or_else(unfit)
        });
        if opened.is_err()
            && let Some(id) = known
        {
            self.routes().remove(id);
        }
        opened
    }

    fn route(&self, session: &Arc<str>, hears: Hears) {
        let early = {
            let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
            let (own, others) = std::mem::take(&mut *early).into_iter().partition(|(of, _)| of == session);
            *early = others;
            let own: Vec<(Arc<str>, SessionNews)> = own;
            own
        };
        early.into_iter().for_each(|(_, news)| hears(news));
        self.routes().insert(session.clone(), Route { hears, turn: None });
    }

    /// A new session.
    ///
    /// # Errors
    /// See [`AgentFault`].
    pub async fn new_session(
        self: &Arc<Self>,
        cwd: &Path,
        servers: &[AgentServer],
        hears: Hears,
    ) -> Result<AgentSession, AgentFault> {
        self.knows(servers);
        self.open("session/new", v1::new_session(cwd, servers), None, hears).await
    }

    /// A session with what another one knows now. Nobody hears of it before it is taken up.
    ///
    /// # Errors
    /// See [`AgentFault`].
    pub async fn fork_session(
        self: &Arc<Self>,
        id: &str,
        cwd: &Path,
        servers: &[AgentServer],
    ) -> Result<Arc<str>, AgentFault> {
        self.knows(servers);
        let nobody: Hears = Arc::new(|_| {});
        let forked = self.open("session/fork", v1::old_session(id, cwd, servers), None, nobody).await?;
        self.routes().remove(&forked.id);
        Ok(forked.id)
    }

    /// Takes in the keys of servers that the agent is given: they are left out of what is shown of it.
    fn knows(&self, servers: &[AgentServer]) {
        for server in servers {
            let (AgentServerWay::Command(_, values) | AgentServerWay::Url(_, values)) = &server.way;
            let is_http = matches!(server.way, AgentServerWay::Url(..));
            let keys = values.iter().filter(|(name, _)| is_http || peer::names_key(name));
            keys.for_each(|(_, value)| self.noted.learn(value));
        }
    }

    /// A session of before, without its history: taken up where the agent can, else loaded. `None` if it can neither.
    ///
    /// # Errors
    /// See [`AgentFault`].
    pub async fn old_session(
        self: &Arc<Self>,
        id: &str,
        cwd: &Path,
        servers: &[AgentServer],
        hears: Hears,
    ) -> Option<Result<AgentSession, AgentFault>> {
        self.knows(servers);
        let can = self.can();
        let method = match (can.resume, can.load) {
            (true, _) => "session/resume",
            // What it tells of the history is passed over: no turn runs.
            (false, true) => "session/load",
            (false, false) => return None,
        };
        Some(self.open(method, v1::old_session(id, cwd, servers), Some(id), hears).await)
    }

    /// Forgets a session here, and closes it at an agent that can.
    pub async fn close_session(&self, id: &str) {
        self.routes().remove(id);
        if self.can().close && self.is_alive() {
            let _ = self.request("session/close", &v1::session(id), AGENT_WRITE_WAIT).await;
        }
    }

    /// Begins a turn: what the agent says of the session from now on belongs to it.
    pub fn begin(self: &Arc<Self>, session: &Arc<str>) -> Option<AgentTurn> {
        let (sender, incoming) = mpsc::channel(AGENT_UPDATES);
        self.routes().get_mut(session)?.turn = Some(sender);
        Some(AgentTurn { connection: self.clone(), session: session.clone(), incoming })
    }

    /// Sends a prompt, and waits for the end of its turn.
    ///
    /// # Errors
    /// See [`AgentFault`].
    pub async fn prompt(
        &self,
        session: &str,
        parts: &[PromptPart],
    ) -> Result<(Stop, Option<[u64; 4]>), AgentFault> {
        self.ask("session/prompt", &v1::prompt(session, parts), None).await.map(|answer| v1::stopped(&answer))
    }

    /// Asks it to end the turn of a session.
    pub async fn cancel(&self, session: &str) {
        let mut line = Vec::new();
        jsonrpc::notify(&mut line, "session/cancel", &v1::session(session));
        let _ = self.send(line).await;
    }

    /// Chooses a value of an option. Returns the options that it told, if it did.
    ///
    /// # Errors
    /// See [`AgentFault`].
    pub async fn set_option(
        &self,
        session: &str,
        option: &str,
        value: &Value<'_>,
    ) -> Result<Option<Vec<AgentOption>>, AgentFault> {
        let (method, params) = v1::set_option(session, option, value);
        self.request(method, &params, AGENT_SESSION_WAIT).await.map(|answer| v1::chosen(&answer))
    }

    /// Ends its process: its input is closed, it has a short time, then it is killed. Returns when nothing is left of it.
    pub async fn end(&self) {
        self.closing.cancel();
        self.child.end().await;
        self.gone.cancel();
    }

    /// Takes in a message. Waits while the turn that it belongs to has no room for it.
    async fn hear(&self, message: RpcMessage<'_>) {
        match message {
            RpcMessage::Response { id, result } => self.answered(&id, result),
            RpcMessage::Notification { method, params } => match method.as_str() {
                "session/update" => self.told(&params).await,
                "$/cancel_request" => {
                    let asked = v1::withdrawn(&params).and_then(|id| self.open.asks().get(&id).cloned());
                    asked.into_iter().for_each(|asked| asked.cancel());
                }
                _ => tracing::debug!(agent = &*self.name, "an unknown notification is ignored"),
            },
            RpcMessage::Request { id, method, params } => self.asked(id, &method, &params).await,
        }
    }

    fn answered(&self, id: &str, result: Result<Value<'_>, RpcError>) {
        let Some(awaited) = self.awaited().remove(id) else {
            return tracing::debug!(agent = &*self.name, "an answer to no open request is ignored");
        };
        let result = result.map(Value::into_owned);
        // Before the next line, which may tell of the session.
        if let (Some(hears), Ok(answer)) = (awaited.hears, &result)
            && let Some(session) = jsonrpc::text(answer, "sessionId")
        {
            self.route(&session.into(), hears);
        }
        let _ = awaited.answer.send(result);
    }

    async fn told(&self, params: &Value<'_>) {
        let Some((session, told)) = v1::update(params) else { return };
        match told {
            ParsedUpdate::Nothing => {}
            ParsedUpdate::Session(news) => {
                let hears = self.routes().get(&session).map(|route| route.hears.clone());
                match hears {
                    Some(hears) => hears(news),
                    None => {
                        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
                        if early.len() < AGENT_EARLY_NEWS {
                            early.push((session, news));
                        }
                    }
                }
            }
            ParsedUpdate::Turn(mut update) => {
                if let AgentUpdate::Call(news) = &mut update
                    && self.can().titles_commands
                {
                    news.command_from_title();
                }
                if let Some(turn) = self.turn_of(&session) {
                    let _ = turn.send(FromAgent::Update(update)).await;
                }
            }
        }
    }

    fn turn_of(&self, session: &str) -> Option<mpsc::Sender<FromAgent>> {
        self.routes().get(session)?.turn.clone()
    }

    async fn asked(&self, id: Arc<str>, method: &str, params: &Value<'_>) {
        let is_permission = method == "session/request_permission";
        let (session, mut ask) = match v1::ask(method, params, &self.noted) {
            Ok(asked) => asked,
            Err(error) => return drop(self.out.send(refusal(&id, &error)).await),
        };
        if let AgentAsk::Permission { call, .. } = &mut ask
            && self.can().titles_commands
        {
            call.command_from_title();
        }
        let withdrawn = self.gone.child_token();
        self.open.asks().insert(id.clone(), withdrawn.clone());
        let (out, open) = (self.out.clone(), self.open.clone());
        let responder = Responder { out, open, id, is_permission, withdrawn, is_done: false };
        // Outside of a turn nobody is asked, and nothing is served: the responder says so when it is dropped.
        if let Some(turn) = self.turn_of(&session) {
            let _ = turn.send(FromAgent::Ask(ask, responder)).await;
        }
    }
}

/// Passes over the answer to a request that nobody waits for any more.
struct Forget<'c> {
    connection: &'c AgentConnection,
    id: &'c str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.connection.awaited().remove(self.id);
    }
}

/// Adds the variables that a known agent needs, and returns the folders of its own.
async fn own(
    setup: &AgentSetup,
    place: &AgentPlace,
    variables: &mut Vec<(String, Secret)>,
) -> Result<Vec<PathBuf>, String> {
    // Only the user's own file may say where they are: what is there may be written to.
    let mut named = match setup.source {
        Source::User(_) => variables.clone(),
        Source::Project(_) | Source::Client(_) => Vec::new(),
    };
    let is_confined = place.confine.is_some() && setup.sandbox;
    for agent in KnownAgent::of(&setup.command) {
        for (name, value) in agent.variables(&place.environment, is_confined) {
            let add = |all: &mut Vec<(String, Secret)>| {
                if !all.iter().any(|(known, _)| *known == name) {
                    all.push((name.clone(), value.clone()));
                }
            };
            add(variables);
            add(&mut named);
        }
    }
    let (command, Some(home)) = (setup.command.clone(), place.home.clone()) else { return Ok(Vec::new()) };
    let folders = tokio::task::spawn_blocking(move || {
        let value = |name: &str| {
            named.iter().find(|(known, _)| known == name).map(|(_, value)| value.expose().to_owned())
        };
        KnownAgent::of(&command).flat_map(|agent| agent.folders(value, &home)).collect()
    });
    folders.await.map_err(|error| error.to_string())
}

/// The values that hold a key wherever they are met, and those that only may.
fn secrets(setup: &AgentSetup, values: &[(String, Secret)]) -> (Vec<Secret>, Vec<Secret>) {
    let (mut certain, mut possible) = (Vec::new(), Vec::new());
    for ((name, value), (_, variable)) in values.iter().zip(&setup.environment) {
        let is_key = !matches!(variable, Variable::Text(_)) || peer::names_key(name);
        if is_key { certain.push(value.clone()) } else { possible.push(value.clone()) }
    }
    (certain, possible)
}

/// The last line of what a program wrote to its standard error, for a person.
fn last_words(stderr: &Stderr, noted: &Redactor) -> String {
    let text = stderr.text();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.map(|line| format!("; it wrote last: {}", noted.words(line))).unwrap_or_default()
}

/// Writes lines until it is closed or there is nobody left who writes.
async fn write_lines(
    mut write: pipe::Sender,
    mut lines: mpsc::Receiver<Vec<u8>>,
    closing: CancellationToken,
    gone: CancellationToken,
    noted: Arc<Redactor>,
) {
    loop {
        let line = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = gone.cancelled() => return,
            line = lines.recv() => line,
        };
        let Some(line) = line else { return };
        let written = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            written = timeout(AGENT_WRITE_WAIT, write.write_all(&line)) => written,
        };
        let why = match written {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => format!("it cannot be written to ({error})"),
            Err(_) => format!("it has read nothing for {} s", AGENT_WRITE_WAIT.as_secs()),
        };
        noted.note(why);
        return gone.cancel();
    }
}

/// Reads lines until there are no more, or the agent does not keep to the protocol.
async fn read_lines(
    connection: Weak<AgentConnection>,
    read: pipe::Receiver,
    gone: CancellationToken,
    noted: Arc<Redactor>,
) {
    let mut reader = LineReader::new(read, AGENT_LINE_BYTES);
    let mut noise = 0usize;
    loop {
        let line = tokio::select! {
            biased;
            () = gone.cancelled() => return,
            line = reader.next() => line,
        };
        let line = match line {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => return noted.note(error),
        };
        let Some(connection) = connection.upgrade() else { return };
        while connection.open.asks().len() >= AGENT_OPEN_REQUESTS {
            tokio::select! {
                biased;
                () = gone.cancelled() => return,
                () = connection.open.fewer.notified() => {}
            }
        }
        match jsonrpc::read(&line) {
            Ok(None) => {}
            Ok(Some(message)) => {
                tokio::select! {
                    biased;
                    () = gone.cancelled() => return,
                    () = connection.hear(message) => {}
                }
            }
            Err(misread) => {
                noise = noise.saturating_add(1);
                tracing::debug!(agent = &*connection.name, %misread, "a line of an agent is no message");
                if noise > AGENT_NOISE_LINES {
                    return noted.note(format!("it sent {noise} lines that are no messages"));
                }
                // Whoever waits for it must not wait for ever.
                if let Some(id) = id_in_head(&line) {
                    let id = id.trim_matches('"').to_owned();
                    connection.answered(&id, Err(v1::error(0, "its answer cannot be read")));
                }
            }
        }
    }
}
