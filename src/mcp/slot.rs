//! One configured server over its life: started when it is needed, watched, started again, ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rmcp::model::{
    ArgumentInfo, CallToolRequestParams, CallToolResult, CompleteRequestParams, CompletionContext,
    GetPromptRequestParams, GetPromptResult, ReadResourceResult, Reference,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::Caller;
use super::connect::connect;
use super::connection::{Connection, Unanswered};
use super::error::McpError;
use super::facts::{Completion, Era, Prompt, Resource, ServerFacts, State, Template, ToolFacts};
use super::failure::{Failure, UNREADABLE};
use super::lists::Reading;
use super::oauth::{self, Authorized, Pending};
use super::server_context::ServerContext;
use super::settings::{Server, ServerTransport};
use crate::http::Url;
use crate::limits::{
    MCP_COMPLETE_WAIT, MCP_COMPLETIONS, MCP_IDLE, MCP_LIST_PAUSE, MCP_LISTED, MCP_READY_WAIT,
    MCP_START_LONGEST, MCP_START_WAIT, MCP_STARTS, MCP_STARTS_TIME, MCP_TITLE_BYTES,
};
use crate::peer::Stderr;
use crate::peer::{Redactor, Tokens};

/// One configured server.
pub(super) struct Slot {
    server: Mutex<Arc<Server>>,
    place: Arc<ServerContext>,
    changes: Arc<watch::Sender<u64>>,
    tasks: TaskTracker,
    /// One start at a time.
    starting: Arc<tokio::sync::Mutex<()>>,
    known: Mutex<ServerListing>,
    /// The tokens of its logins, which are keys as well.
    tokens: Arc<Tokens>,
    /// It is no longer configured, or all servers are ended.
    ended: CancellationToken,
}

/// What is known of it.
#[derive(Clone)]
struct ServerListing {
    state: State,
    connection: Option<Arc<Connection>>,
    starts: VecDeque<Instant>,
    /// How many starts have failed, and why the last one did.
    failures: u64,
    failure: Option<McpError>,
    era: Option<Era>,
    revision: Option<Arc<str>>,
    title: Option<Arc<str>>,
    lists: Lists,
    instructions: Option<Arc<str>>,
    completes: bool,
    last_error: Option<Arc<str>>,
    connected: Option<Timestamp>,
    /// The last words of its program, and what takes its keys out of them.
    stderr: Option<(Arc<Stderr>, Arc<Redactor>)>,
    /// What the server said when it wanted a login.
    challenge: Option<String>,
    /// The login of this process, if there was one.
    login: Option<Authorized>,
}

/// What a server has.
#[derive(Clone, Default)]
struct Lists {
    tools: Arc<[ToolFacts]>,
    prompts: Arc<[Prompt]>,
    resources: Arc<[Resource]>,
    templates: Arc<[Template]>,
    passed_over: Arc<[String]>,
}

/// A result with what takes the server's keys out of it.
pub(super) type Answered<T> = (T, Arc<Redactor>);

impl Slot {
    pub(super) fn new(
        server: Arc<Server>,
        place: Arc<ServerContext>,
        changes: Arc<watch::Sender<u64>>,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        let state = if server.enabled { State::Idle } else { State::Off };
        let known = ServerListing {
            state,
            connection: None,
            starts: VecDeque::new(),
            failures: 0,
            failure: None,
            era: None,
            revision: None,
            title: None,
            lists: Lists::default(),
            instructions: None,
            completes: false,
            last_error: None,
            connected: None,
            stderr: None,
            challenge: None,
            login: None,
        };
        Arc::new(Self {
            server: Mutex::new(server),
            place,
            changes,
            tasks,
            starting: Arc::default(),
            known: Mutex::new(known),
            tokens: Arc::default(),
            ended: CancellationToken::new(),
        })
    }

    /// Its settings.
    pub(super) fn server(&self) -> Arc<Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn known(&self) -> MutexGuard<'_, ServerListing> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut ServerListing)) {
        change(&mut self.known());
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Takes other settings of the same server, which keep its connection, and has its lists read again if need be.
    pub(super) fn adjust(&self, server: Arc<Server>) {
        let enabled = server.enabled;
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
        let connection = self.known().connection.clone();
        self.change(|known| match (enabled, known.state) {
            (true, State::Off) => known.state = State::Idle,
            (false, _) => known.state = State::Off,
            _ => {}
        });
        match connection {
            // Which tools are offered may have changed.
            Some(connection) if enabled => connection.changed().notify_one(),
            Some(connection) => self.end_when_unused(connection),
            None => {}
        }
    }

    fn end_when_unused(&self, connection: Arc<Connection>) {
        self.known().connection = None;
        self.tasks.spawn(async move {
            let calls = connection.calls().clone();
            loop {
                let fewer = calls.fewer.notified();
                if calls.are_none() {
                    break;
                }
                tokio::select! {
                    () = fewer => {}
                    () = connection.gone().cancelled() => break,
                }
            }
            connection.end().await;
        });
    }

    /// It is no longer configured: calls that run go on, and then it is ended.
    pub(super) fn retire(&self) {
        self.ended.cancel();
        let connection = self.known().connection.clone();
        if let Some(connection) = connection {
            self.end_when_unused(connection);
        }
    }

    /// Ends it, and waits for it.
    pub(super) async fn end(&self) {
        self.ended.cancel();
        // A start that is under way sees it.
        let _starting = self.starting.lock().await;
        let connection = self.known().connection.take();
        if let Some(connection) = connection {
            connection.end().await;
        }
    }

    /// What is known of it.
    pub(super) fn facts(&self) -> ServerFacts {
        let (server, known) = (self.server(), self.known().clone());
        ServerFacts {
            name: server.name.clone(),
            source: server.source.clone(),
            borrows_name: server.borrows_name(),
            transport: match &server.way {
                ServerTransport::Command(_) => "stdio",
                ServerTransport::Http(_) => "http",
            },
            target: server.shown().into(),
            state: known.state,
            era: known.era,
            revision: known.revision,
            title: known.title,
            tools: known.lists.tools,
            prompts: known.lists.prompts,
            resources: known.lists.resources,
            templates: known.lists.templates,
            instructions: known.instructions,
            completes: known.completes,
            last_error: known.last_error,
            connected: known.connected,
            passed_over: known.lists.passed_over,
        }
    }

    /// Its tools.
    pub(super) fn tools(&self) -> Arc<[ToolFacts]> {
        self.known().lists.tools.clone()
    }

    /// What its program wrote last to its standard error, without its keys.
    pub(super) fn stderr(&self) -> String {
        let stderr = self.known().stderr.clone();
        stderr.map(|(stderr, noted)| noted.masked(&stderr.text())).unwrap_or_default()
    }

    /// Begins a login at it.
    pub(super) async fn begin_login(self: &Arc<Self>, redirect: &Url) -> Result<Pending, McpError> {
        let server = self.server();
        let ServerTransport::Http(url) = &server.way else {
            return Err(McpError::Lacks { server: server.name.to_string(), what: "login: it is a program" });
        };
        // It names what a login needs only in its answer to a request.
        if self.known().starts.is_empty() {
            let _ = timeout(MCP_READY_WAIT, self.connection()).await;
        }
        let challenge = self.known().challenge.clone().filter(|challenge| !challenge.is_empty());
        let tokens = &self.tokens;
        let begun = oauth::begin(&server, url, &self.place, tokens, redirect, challenge.as_deref()).await;
        begun.map_err(|why| self.failed(format!("{}.", Redactor::default().words(why))))
    }

    /// Completes a login with the address that the page sent the browser to, and connects with it.
    pub(super) async fn finish_login(
        self: &Arc<Self>,
        pending: Pending,
        callback: &str,
    ) -> Result<(), McpError> {
        let finished = oauth::finish(pending, callback).await;
        let login = finished.map_err(|why| self.failed(format!("{}.", Redactor::default().words(why))))?;
        self.known().login = Some(login);
        self.restart().await
    }

    /// Forgets its login; returns whether there was one.
    pub(super) async fn logout(&self) -> Result<bool, McpError> {
        let server = self.server();
        let ServerTransport::Http(url) = server.way.clone() else { return Ok(false) };
        let place = self.place.clone();
        let forgotten = tokio::task::spawn_blocking(move || oauth::forget(&url, &place)).await;
        let forgotten = forgotten.unwrap_or_else(|error| Err(error.to_string()));
        let was_there = forgotten.map_err(|why| self.failed(format!("{why}.")))?;
        let connection = {
            let mut known = self.known();
            known.login = None;
            known.connection.clone()
        };
        if let Some(connection) = connection.filter(|_| was_there) {
            self.change(|known| known.state = State::Idle);
            self.end_when_unused(connection);
        }
        Ok(was_there)
    }

    /// How long to wait for it without its being asked for by name, at most `wait`. `None` if it is not worth that: it was
    /// tried a short while ago, or has been waited for since it began to start.
    pub(super) fn patience(&self, wait: Duration) -> Option<Duration> {
        let known = self.known();
        let since = known.starts.back().map(Instant::elapsed);
        patience(known.state, known.connected.is_some(), since, wait)
    }

    /// Forgets how often it was started.
    pub(super) fn forgive(&self) {
        self.known().starts.clear();
    }

    /// Ends its connection, if there is one, and starts it again.
    pub(super) async fn restart(self: &Arc<Self>) -> Result<(), McpError> {
        {
            let _starting = self.starting.lock().await;
            let connection = self.known().connection.take();
            if let Some(connection) = connection {
                connection.end().await;
            }
        }
        self.forgive();
        self.connection().await.map(drop)
    }

    /// Its connection, which is made if there is none.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, McpError> {
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        let before = self.known().failures;
        let starting = self.starting.clone().lock_owned().await;
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        // A caller that has waited for a failed start gets its error, and does not start it again.
        let failure = {
            let known = self.known();
            known.failure.clone().filter(|_| known.failures != before)
        };
        if let Some(failure) = failure {
            return Err(failure);
        }
        let slot = self.clone();
        // Who waits for it may go away; the start goes on.
        let started = self.tasks.spawn(async move {
            let started = slot.start().await;
            if let Err(error) = &started {
                let mut known = slot.known();
                known.failures = known.failures.wrapping_add(1);
                known.failure = Some(error.clone());
            }
            drop(starting);
            started
        });
        started.await.unwrap_or_else(|_| Err(self.failed("its start was cut off")))
    }

    fn alive(&self) -> Option<Arc<Connection>> {
        let known = self.known();
        if known.state == State::Off {
            return None;
        }
        known.connection.clone().filter(|connection| connection.is_alive())
    }

    fn failed(&self, why: impl Into<String>) -> McpError {
        McpError::Failed { server: self.server().name.to_string(), why: why.into() }
    }

    async fn start(self: &Arc<Self>) -> Result<Arc<Connection>, McpError> {
        let server = self.server();
        let name = server.name.to_string();
        if self.ended.is_cancelled() {
            return Err(self.failed("it is no longer in the configuration"));
        }
        if !server.enabled {
            return Err(McpError::Off(name));
        }
        let begins = {
            let mut known = self.known();
            while known.starts.front().is_some_and(|start| start.elapsed() >= MCP_STARTS_TIME) {
                known.starts.pop_front();
            }
            let begins = known.state != State::GivenUp && known.starts.len() < MCP_STARTS
                || known.state == State::GivenUp && known.starts.is_empty();
            if begins {
                known.starts.push_back(Instant::now());
            }
            begins
        };
        if !begins {
            self.change(|known| known.state = State::GivenUp);
            return Err(McpError::GivenUp(name));
        }
        self.change(|known| known.state = State::Starting);
        let begun = Instant::now();
        let connecting = async {
            let login = self.known().login.clone();
            let connection = match connect(&server, &self.place, &self.tokens, &self.tasks, login).await {
                Ok(connection) => Arc::new(connection),
                Err(error) => {
                    self.known().stderr = error.stderr.clone().map(|stderr| (stderr, error.noted.clone()));
                    return Err(self.lost(error.failure, &error.noted, true));
                }
            };
            match self.lists(&connection, begun + MCP_START_LONGEST).await {
                Ok(lists) => Ok((connection, lists)),
                Err(unanswered) => {
                    let error = self.unanswered(unanswered, &connection, true).await;
                    connection.end().await;
                    Err(error)
                }
            }
        };
        let (connection, lists) = tokio::select! {
            biased;
            () = self.ended.cancelled() => return Err(self.failed("it is no longer in the configuration")),
            connected = connecting => connected?,
        };
        if !self.server().enabled {
            // It was switched off meanwhile.
            connection.end().await;
            return Err(McpError::Off(name));
        }
        let now = self.place.clock.now();
        self.change(|known| {
            known.state = State::Ready;
            known.era = Some(connection.era);
            known.revision = Some(connection.revision.clone());
            known.title.clone_from(&connection.title);
            known.instructions.clone_from(&connection.instructions);
            known.completes = connection.capabilities.completions.is_some();
            known.stderr = connection.stderr().map(|stderr| (stderr.clone(), connection.noted.clone()));
            known.connected = Some(now);
            known.last_error = None;
            known.challenge = None;
            known.lists = lists;
            known.connection = Some(connection.clone());
        });
        self.tasks.spawn(watch_over(self.clone(), connection.clone()));
        Ok(connection)
    }

    /// Reads its lists, all in one time: at most that of a call, and until `until`.
    async fn lists(&self, connection: &Connection, until: Instant) -> Result<Lists, Unanswered> {
        let (server, noted) = (self.server(), &*connection.noted);
        let time = server.timeout.min(MCP_START_WAIT);
        let span = (time, until.min(Instant::now() + time));
        let mut tools = Reading::new(&server, noted);
        let mut prompts = Reading::new(&server, noted);
        let mut resources = Reading::new(&server, noted);
        let mut templates = Reading::new(&server, noted);
        let (all_tools, all_prompts, all_resources, all_templates) = tokio::join!(
            connection.tools(span, |page, left_out| tools.page(page, left_out)),
            connection.prompts(span, |page, left_out| prompts.page(page, left_out)),
            connection.resources(span, |page, left_out| resources.page(page, left_out)),
            connection.templates(span, |page, left_out| templates.page(page, left_out))
        );
        // Tools are what a server is for. Without its other lists it is still of use.
        let all_tools = all_tools?;
        let mut passed_over = Vec::new();
        for (what, rest) in [
            ("tools", Ok(all_tools)),
            ("prompts", all_prompts),
            ("resources", all_resources),
            ("templates of resources", all_templates),
        ] {
            match rest {
                Ok(None) => {}
                Ok(Some(why)) => passed_over.push(format!("the rest of its {what} is missing: {why}")),
                Err(_) => passed_over.push(format!("its {what} could not be listed")),
            }
        }
        let told = [tools.passed_over, prompts.passed_over, resources.passed_over, templates.passed_over];
        passed_over.extend(told.into_iter().flatten().take(MCP_LISTED));
        Ok(Lists {
            tools: tools.kept.into(),
            prompts: prompts.kept.into(),
            resources: resources.kept.into(),
            templates: templates.kept.into(),
            passed_over: passed_over.into(),
        })
    }

    /// Notes why something failed, and says it.
    fn lost(&self, failure: Failure, noted: &Redactor, is_start: bool) -> McpError {
        let server = self.server().name.to_string();
        match failure {
            Failure::Login(challenge) => {
                let error = McpError::NeedsLogin(server);
                let words: Arc<str> = error.to_string().into();
                let connection = self.known().connection.take();
                self.change(|known| {
                    known.state = State::NeedsLogin;
                    known.challenge = Some(challenge);
                    known.last_error = Some(words);
                });
                if let Some(connection) = connection {
                    self.end_when_unused(connection);
                }
                error
            }
            Failure::Refused(error) if !is_start => {
                McpError::Refused { server, why: noted.words(error.message) }
            }
            Failure::Unreadable if !is_start => McpError::Unreadable(server),
            failure => {
                let why = match failure {
                    Failure::Other(why) => noted.words(why),
                    Failure::Unreadable => UNREADABLE.to_owned(),
                    Failure::Refused(error) => format!("it refused: {}", noted.words(error.message)),
                    _ => noted
                        .last()
                        .map_or_else(|| "the connection was lost".to_owned(), |why| why.to_string()),
                };
                let words: Arc<str> = why.as_str().into();
                self.change(|known| {
                    if is_start {
                        known.state = State::Failed;
                    }
                    known.last_error = Some(words);
                });
                McpError::Failed { server, why: format!("{why}.") }
            }
        }
    }

    /// Why a request has no answer. Of a server that is gone, its end says why.
    async fn unanswered(&self, unanswered: Unanswered, connection: &Connection, is_start: bool) -> McpError {
        if matches!(unanswered, Unanswered::Failed(Failure::Lost)) {
            connection.end().await;
        }
        let server = self.server().name.to_string();
        match unanswered {
            Unanswered::Ended => McpError::Ended,
            Unanswered::TimedOut(after) => {
                let error = McpError::TimedOut { server, after };
                let words: Arc<str> = error.to_string().into();
                self.change(|known| {
                    if is_start {
                        known.state = State::Failed;
                    }
                    known.last_error = Some(words);
                });
                error
            }
            Unanswered::Failed(Failure::Lost) if !is_start => {
                McpError::Gone { server, why: connection.noted.last().map(|why| why.to_string()) }
            }
            Unanswered::Failed(failure) => self.lost(failure, &connection.noted, is_start),
        }
    }

    /// The connection for a call, unless the call is ended before.
    async fn connected(self: &Arc<Self>, stop: &CancellationToken) -> Result<Arc<Connection>, McpError> {
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(McpError::Ended),
            connection = self.connection() => connection,
        }
    }

    /// Calls a tool, by its name at the server, if it is still the one that was offered: the server may be another one
    /// since it was started again.
    pub(super) async fn call_tool(
        self: &Arc<Self>,
        params: CallToolRequestParams,
        offered: &str,
        caller: Caller,
        stop: &CancellationToken,
    ) -> Result<Answered<CallToolResult>, McpError> {
        let connection = self.connected(stop).await?;
        let tools = self.tools();
        let is_now = tools.iter().find(|tool| *tool.tool == *params.name).map(|tool| &*tool.digest);
        if is_now != Some(offered) {
            let (server, tool) = (self.server().name.to_string(), params.name.to_string());
            return Err(match is_now {
                Some(_) => McpError::Changed { server, tool },
                None => McpError::Withdrawn { server, tool },
            });
        }
        let answer = connection.call_tool(params, caller, self.server().timeout, stop).await;
        match answer {
            Ok(answer) => Ok((answer, connection.noted.clone())),
            Err(unanswered) => Err(self.unanswered(unanswered, &connection, false).await),
        }
    }

    /// Fills in a prompt.
    pub(super) async fn get_prompt(
        self: &Arc<Self>,
        params: GetPromptRequestParams,
        caller: Caller,
        stop: &CancellationToken,
    ) -> Result<Answered<GetPromptResult>, McpError> {
        let connection = self.connected(stop).await?;
        if connection.capabilities.prompts.is_none() {
            return Err(McpError::Lacks { server: self.server().name.to_string(), what: "prompts" });
        }
        let answer = connection.get_prompt(params, caller, self.server().timeout, stop).await;
        match answer {
            Ok(answer) => Ok((answer, connection.noted.clone())),
            Err(unanswered) => Err(self.unanswered(unanswered, &connection, false).await),
        }
    }

    /// Reads a resource.
    pub(super) async fn read_resource(
        self: &Arc<Self>,
        uri: &str,
        caller: Caller,
        stop: &CancellationToken,
    ) -> Result<Answered<ReadResourceResult>, McpError> {
        let connection = self.connected(stop).await?;
        if connection.capabilities.resources.is_none() {
            return Err(McpError::Lacks { server: self.server().name.to_string(), what: "resources" });
        }
        let answer = connection.read_resource(uri, caller, self.server().timeout, stop).await;
        match answer {
            Ok(answer) => Ok((answer, connection.noted.clone())),
            Err(unanswered) => Err(self.unanswered(unanswered, &connection, false).await),
        }
    }

    /// What may follow in an argument.
    pub(super) async fn complete(
        self: &Arc<Self>,
        reference: Reference,
        (name, typed): (&str, &str),
        given: &[(String, String)],
    ) -> Result<Completion, McpError> {
        let connection = self.connection().await?;
        if connection.capabilities.completions.is_none() {
            return Ok(Completion::default());
        }
        let mut params = CompleteRequestParams::new(reference, ArgumentInfo::new(name, typed));
        if !given.is_empty() {
            params = params.with_context(CompletionContext::with_arguments(given.iter().cloned().collect()));
        }
        let answer = connection.complete(params, MCP_COMPLETE_WAIT).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(unanswered) => return Err(self.unanswered(unanswered, &connection, false).await),
        };
        let more = answer.has_more.unwrap_or(false) || answer.values.len() > MCP_COMPLETIONS;
        let noted = &connection.noted;
        let fits = |value: &String| value.len() <= MCP_TITLE_BYTES && !noted.is_in(value);
        let values = answer.values.into_iter().filter(fits);
        Ok(Completion { values: values.take(MCP_COMPLETIONS).collect(), more })
    }
}

/// Watches a connection: reads its lists again when they change, ends it when it is idle, and notes its end.
async fn watch_over(slot: Arc<Slot>, connection: Arc<Connection>) {
    let is_current =
        |known: &ServerListing| known.connection.as_ref().is_some_and(|now| Arc::ptr_eq(now, &connection));
    loop {
        let idle = connection.used() + MCP_IDLE;
        tokio::select! {
            biased;
            () = connection.gone().cancelled() => {
                // Its program may still run; where it has ended, its end says why.
                connection.end().await;
                slot.change(|known| {
                    if is_current(known) {
                        known.connection = None;
                        left_ready(known, State::Failed);
                        let why = connection.noted.last();
                        known.last_error = Some(why.unwrap_or_else(|| "the connection was lost".into()));
                    }
                });
                return;
            }
            () = sleep_until(idle) => {
                if connection.used() + MCP_IDLE > Instant::now() || !connection.calls().are_none() {
                    sleep(MCP_LIST_PAUSE).await;
                    continue;
                }
                slot.change(|known| {
                    if is_current(known) {
                        known.connection = None;
                        left_ready(known, State::Idle);
                    }
                });
                connection.end().await;
                return;
            }
            () = connection.changed().notified() => {
                let used = connection.used();
                if let Ok(lists) = slot.lists(&connection, Instant::now() + MCP_START_LONGEST).await {
                    slot.change(|known| {
                        if is_current(known) {
                            known.lists = lists;
                        }
                    });
                }
                // That was no use of it.
                connection.unused_since(used);
                sleep(MCP_LIST_PAUSE).await;
            }
        }
    }
}

/// Notes that a connection is gone. A call may have begun the next start meanwhile, or given it up: that is newer.
fn left_ready(known: &mut ServerListing, state: State) {
    if known.state == State::Ready {
        known.state = state;
    }
}

/// How long to wait for a server in a state, whose last start began `since` ago. A start is waited for once: whoever
/// comes later goes on without it.
fn patience(state: State, was_connected: bool, since: Option<Duration>, wait: Duration) -> Option<Duration> {
    let is_due = match state {
        State::Idle => !was_connected,
        State::Starting => {
            let left = MCP_READY_WAIT.saturating_sub(since.unwrap_or_default());
            return (!left.is_zero()).then(|| left.min(wait));
        }
        State::Failed | State::NeedsLogin => since.is_none_or(|since| since >= MCP_STARTS_TIME),
        State::Off | State::Ready | State::GivenUp => false,
    };
    is_due.then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_of_a_server_is_waited_for_once() {
        let (wait, second) = (MCP_READY_WAIT, Duration::from_secs(1));
        let starting = |since| patience(State::Starting, false, Some(since), wait);
        assert_eq!(starting(Duration::ZERO), Some(wait));
        assert_eq!(starting(wait - second), Some(second));
        assert_eq!((starting(wait), starting(wait * 2)), (None, None));
        assert_eq!(patience(State::Idle, false, None, wait), Some(wait));
        assert_eq!(patience(State::Idle, true, Some(wait), wait), None);
        assert_eq!(patience(State::Failed, false, Some(wait), wait), None);
        assert_eq!(patience(State::Failed, false, Some(MCP_STARTS_TIME), second), Some(second));
    }
}
