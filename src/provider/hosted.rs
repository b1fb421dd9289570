//! Models behind HTTP: a call goes out, an answer streams in.
//!
//! Knows servers, their protocols and their failures. Does not know where keys come from ([`crate::auth`]),
//! and neither retries nor runs tools.
//!
//! The protocols are implemented here over [`crate::http`], one file each. The crate `genai` 0.7.2, which
//! implements all of them, cannot keep this program's bounds. A piece of a tool call contains all pieces
//! before it, so that 40,000 pieces take eighteen times as long as 10,000. It uses an index of an event as a
//! length, so that one event of a broken server ends the process for want of 576 GB. It holds an event
//! without an end for as long as it grows. A text event took 8 µs; the whole path to the wire may take 5.
//! None of that can be detected or configured from outside.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::stream;

mod account;
mod anthropic;
mod calls;
mod citations;
mod failure;
mod formats;
mod gemini;
mod history;
mod json;
mod lenient;
mod openai;
mod protocol;
mod quiet;
mod refused_field;
mod refused_part;
mod responses;
pub mod spec;
mod sse;
mod surrogates;
mod text_deltas;
mod thinking_tags;

use account::Account;
use failure::{FailureKind, FailureReport};
use protocol::{Attempt, Broken, Decoder, Out, Outgoing, Protocol, ServerKey};
use quiet::Quiet;
use refused_field::RefusedField;
use spec::Spec;
use sse::{Events, SseEvent, StreamError};

use crate::auth::{Credential, KeyError, Keys};
use crate::clock::Clock;
use crate::environment::Variables;
use crate::facts::ProviderFacts;
use crate::http::{self, Http, HttpError, RequestBuilder, Response};
use crate::limits::{
    FIELDS_REFUSED, HTTP_DRAIN, HTTP_ERROR_BYTES, MODEL_LIST_BYTES, MODEL_LIST_WAIT, PARTS_WITHHELD,
    REFUSED_KEPT,
};
use crate::message::{EntryId, Message, WithheldPart};
use crate::provider::{
    AnswerEnd, Chunk, ChunkStream, ErrorKind, Fact, ListedModels, ModelRequest, Provider, ProviderError,
    Retry,
};
use crate::secret::Secret;
use crate::value::{Map, Value};

/// A model server.
pub struct Hosted {
    server: Arc<Server>,
}

struct Server {
    spec: Spec,
    keys: Keys,
    http: Arc<Http>,
    clock: Arc<dyn Clock>,
    /// The parts of requests that it has refused, until the configuration is read again.
    refused: Mutex<Refused>,
}

/// The refused parts of a server's requests, each list bounded by [`REFUSED_KEPT`], the newest last.
#[derive(Default)]
struct Refused {
    /// Fields, by model.
    fields: Vec<(String, RefusedField)>,
    /// The last messages of conversations up to which the replays were refused.
    replays: Vec<EntryId>,
}

impl Server {
    fn lock_refused(&self) -> MutexGuard<'_, Refused> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds to the end of a list, and drops its start beyond the bound.
fn keep<T>(list: &mut Vec<T>, item: T) {
    list.push(item);
    let over = list.len().saturating_sub(REFUSED_KEPT);
    list.drain(..over);
}

impl Hosted {
    /// A server from its description. Sends no request.
    pub fn new(spec: Spec, keys: Keys, http: Arc<Http>, clock: Arc<dyn Clock>) -> Self {
        Self { server: Arc::new(Server { spec, keys, http, clock, refused: Mutex::default() }) }
    }
}

impl Provider for Hosted {
    #[expect(clippy::misnamed_getters, reason = "a server's name here is its id in the configuration")]
    fn name(&self) -> &str {
        &self.server.spec.id
    }

    fn is_ready(&self) -> bool {
        self.server.keys.are_there()
    }

    fn facts(&self) -> ProviderFacts {
        let Spec { protocol, base, .. } = &self.server.spec;
        ProviderFacts {
            api: Some(protocol.as_str()),
            base_url: Some(http::shown(base).to_string()),
            key_from: self.server.keys.origin(),
        }
    }

    fn searches_web(&self, model: &str, takes: &[Fact]) -> bool {
        !self.server.spec.takes(model, takes).search.is_empty()
    }

    fn listed(&self) -> ListedModels {
        let mut call = HostedCall::new(self.server.clone(), ModelRequest::default());
        Box::pin(async move { call.list().await })
    }

    fn stream(&self, request: ModelRequest) -> ChunkStream {
        let call = Box::new(HostedCall::new(self.server.clone(), request));
        Box::pin(stream::unfold(call, |mut call| async move {
            let item = call.next().await?;
            Some((item, call))
        }))
    }
}

/// A running call.
struct HostedCall {
    server: Arc<Server>,
    decoder: Box<dyn Decoder>,
    model: String,
    /// The account's mark for data that must be sent again.
    account: String,
    state: CallState,
    /// The secrets of the call, so that no error shows them.
    secrets: Vec<Secret>,
    /// Chunks that were read and not returned yet.
    chunks: Out,
    events: Events,
}

enum CallState {
    Ahead(ModelRequest),
    Reading(Response, Quiet),
    /// The read chunks come first, then this error.
    Failed(ProviderError),
    Over,
}

/// The compression of a response, which no request asks for.
fn compression(response: &Response) -> Option<String> {
    let encoding = response.headers().get("content-encoding")?.to_str().ok()?.trim();
    (!encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity")).then(|| encoding.to_owned())
}

impl HostedCall {
    fn new(server: Arc<Server>, request: ModelRequest) -> Self {
        Self {
            decoder: server.spec.protocol.decoder(&request, server.spec.ends_without_reason),
            server,
            model: request.model.clone(),
            account: String::new(),
            state: CallState::Ahead(request),
            secrets: Vec::new(),
            chunks: Out::new(),
            events: Events::default(),
        }
    }

    async fn next(&mut self) -> Option<Result<Chunk, ProviderError>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                // Many chunks may be ready at once; other tasks get their turn between them.
                tokio::task::coop::consume_budget().await;
                return Some(Ok(self.mark(chunk)));
            }
            match std::mem::replace(&mut self.state, CallState::Over) {
                CallState::Over => return None,
                CallState::Failed(error) => return Some(Err(error)),
                CallState::Ahead(request) => {
                    self.state = match self.open(&request).await {
                        Ok(response) => CallState::Reading(response, Quiet::new(self.server.spec.patience)),
                        Err(error) => CallState::Failed(error),
                    };
                }
                CallState::Reading(mut response, mut quiet) => {
                    let read = self.read(&mut response, &mut quiet).await;
                    self.log_unknown(read.is_err());
                    self.state = match read {
                        Ok(()) if self.decoder.is_over() => {
                            drain(response);
                            CallState::Over
                        }
                        Ok(()) => CallState::Reading(response, quiet),
                        Err(error) => CallState::Failed(error),
                    };
                }
            }
        }
    }

    /// Logs the number of skipped events once the answer has ended.
    fn log_unknown(&self, has_failed: bool) {
        let unknown = self.decoder.unknown();
        if unknown > 0 && (has_failed || self.decoder.is_over()) {
            tracing::debug!(
                provider = &*self.server.spec.id,
                unknown,
                "events of unknown types were skipped"
            );
        }
    }

    /// Adds the source to data that must be sent again.
    fn mark(&self, chunk: Chunk) -> Chunk {
        match chunk {
            Chunk::Replay { data, is_attached } => {
                let mut replay = Map::new();
                replay.put("provider", self.server.spec.id.to_string());
                replay.put("model", self.model.clone());
                replay.put("account", self.account.clone());
                replay.put("data", data);
                Chunk::Replay { data: Value::from(replay), is_attached }
            }
            chunk => chunk,
        }
    }

    /// Sends the call and waits for a successful response's head.
    async fn open(&mut self, request: &ModelRequest) -> Result<Response, ProviderError> {
        let server = self.server.clone();
        let spec = &server.spec;
        let mut attempt = self.attempt(request);
        let mut fresh_key = false;
        loop {
            let key = self.key(fresh_key, request.variables.clone()).await?;
            let is_token = matches!(key, Some(ServerKey::Token(_)));
            attempt.account = self.who(key.as_ref());
            self.account = Account::new(spec.base.as_str(), &attempt.account).mark(&request.messages);
            let outgoing = spec.protocol.write(spec, request, &attempt);
            let mut response = self.send(&outgoing, key.as_ref()).await?;
            let status = response.status();
            if status.is_success() {
                return self.check(response).await;
            }
            if status.is_redirection() {
                return Err(self.fatal("sent the call elsewhere; check its :base-url"));
            }
            let wait = failure::retry_after(response.headers(), server.clock.now());
            let should_retry = failure::should_retry(response.headers());
            let body = http::whole(&mut response, HTTP_ERROR_BYTES, spec.patience).await;
            let report = match compression(&response) {
                Some(encoding) => FailureReport {
                    message: format!("the reason is compressed ({encoding}), against the request"),
                    ..FailureReport::default()
                },
                None => FailureReport::body(&body.unwrap_or_default()),
            };
            // A login may have been ended elsewhere before its time.
            if status.as_u16() == 401 && is_token && !std::mem::replace(&mut fresh_key, true) {
                continue;
            }
            if self.does_without(&report, status.as_u16(), request, &outgoing, &mut attempt) {
                continue;
            }
            let mut error = self.refused(&report, Some(status.as_u16()), wait, should_retry);
            if error.kind == ErrorKind::Fatal
                && let Some(place) = refused_place(&report)
            {
                let refused = refused_part::message(&outgoing.index, place);
                let refused = refused.and_then(|message| request.messages.get(message));
                error.refused =
                    refused.map(|message| message.id.clone()).filter(|id| !id.as_str().is_empty());
            }
            return Err(error);
        }
    }

    /// The request as it is without the parts that the server is known to refuse.
    fn attempt(&self, request: &ModelRequest) -> Attempt {
        let refused = self.server.lock_refused();
        let fields = refused.fields.iter().filter(|(model, _)| *model == request.model);
        let is_refused = |message: &Arc<Message>| refused.replays.contains(&message.id);
        let withheld = match refused.replays.as_slice() {
            [] => None,
            _ => request.messages.iter().rposition(is_refused),
        };
        Attempt {
            account: String::new(),
            withheld: withheld.map_or(0, |last| last.saturating_add(1)),
            parts: request.withheld.to_vec(),
            fields: fields.map(|(_, field)| field.clone()).collect(),
        }
    }

    /// Whether the request is sent again without what the server has refused, which is kept in mind for the next requests.
    fn does_without(
        &mut self,
        report: &FailureReport,
        status: u16,
        request: &ModelRequest,
        outgoing: &Outgoing,
        attempt: &mut Attempt,
    ) -> bool {
        let kind = report.judge(Some(status)).kind;
        if matches!(kind, FailureKind::Refused | FailureKind::Field)
            && self.withholds_images(report, request, outgoing, attempt)
        {
            return true;
        }
        match kind {
            FailureKind::Replay => {
                let last = request.messages.iter().rposition(|message| !message.replays.is_empty());
                let Some(last) = last.filter(|last| *last >= attempt.withheld) else { return false };
                attempt.withheld = last.saturating_add(1);
                if let Some(message) = request.messages.get(last) {
                    keep(&mut self.server.lock_refused().replays, message.id.clone());
                }
                true
            }
            FailureKind::Field if attempt.fields.len() < FIELDS_REFUSED => {
                let Some(field) =
                    RefusedField::find(&outgoing.body, &report.message, report.field.as_deref())
                else {
                    return false;
                };
                keep(&mut self.server.lock_refused().fields, (request.model.clone(), field.clone()));
                attempt.fields.push(field);
                true
            }
            _ => false,
        }
    }

    /// Whether the request is sent again with words in the place of the images that the server names.
    fn withholds_images(
        &mut self,
        report: &FailureReport,
        request: &ModelRequest,
        outgoing: &Outgoing,
        attempt: &mut Attempt,
    ) -> bool {
        let Some(place) = refused_place(report) else { return false };
        let images = refused_part::images(&outgoing.index, place, &request.messages);
        let why = failure::shown(&self.redact(&report.message)).into_owned();
        let mut is_less = false;
        for (message, block) in images {
            let Some(entry) = request.messages.get(message).map(|message| message.id.clone()) else {
                continue;
            };
            let part = WithheldPart { entry, block: Some(block), why: why.as_str().into() };
            let is_known =
                attempt.parts.iter().any(|known| (&known.entry, known.block) == (&part.entry, part.block));
            if !is_known && attempt.parts.len() < PARTS_WITHHELD {
                is_less = true;
                self.chunks.push_back(Chunk::Withheld(part.clone()));
                attempt.parts.push(part);
            }
        }
        is_less
    }

    /// The mark of a call's account among others, never shown: the key, unless it changes without the account.
    fn who(&self, key: Option<&ServerKey>) -> String {
        match key {
            None => "none".to_owned(),
            Some(ServerKey::Token(_)) => "login".to_owned(),
            Some(ServerKey::Key(_)) if self.server.keys.are_obtained() => "obtained".to_owned(),
            Some(ServerKey::Key(key)) => format!("key {}", key.expose()),
        }
    }

    async fn send(
        &mut self,
        outgoing: &Outgoing,
        key: Option<&ServerKey>,
    ) -> Result<Response, ProviderError> {
        let server = self.server.clone();
        let spec = &server.spec;
        let url =
            spec.url(&outgoing.path).map_err(|error| self.fatal(&format!("has no such address: {error}")))?;
        let client = server.http.client(&url).map_err(|error| self.failed(&error))?;
        // Faster than to print it.
        let body = serde_json::to_vec(&outgoing.body)
            .map_err(|error| self.fatal(&format!("cannot be asked: {error}")))?;
        let call = client
            .post(url)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .header("accept-encoding", "identity")
            .body(body);
        let call = self.signed(call, key)?;
        http::send(call, spec.patience).await.map_err(|error| self.failed(&error))
    }

    /// The key, newly asked for if `fresh`.
    async fn key(
        &self,
        fresh: bool,
        variables: Option<Variables>,
    ) -> Result<Option<ServerKey>, ProviderError> {
        let credential = self.server.keys.get(fresh, variables).await.map_err(|error| self.no_key(error))?;
        Ok(match credential {
            Credential::None => None,
            Credential::Key(secret) => Some(ServerKey::Key(secret)),
            Credential::Token(secret) => Some(ServerKey::Token(secret)),
        })
    }

    /// A request with the headers that every request to the server has. No error shows their values from then on.
    fn signed(
        &mut self,
        mut call: RequestBuilder,
        key: Option<&ServerKey>,
    ) -> Result<RequestBuilder, ProviderError> {
        let server = self.server.clone();
        let spec = &server.spec;
        if spec.protocol == Protocol::Anthropic {
            call = call.header("anthropic-version", "2023-06-01");
        }
        self.secrets.clear();
        // What the configuration puts into every address may be a key.
        self.secrets.extend(spec.base.query_pairs().map(|(_, value)| Secret::new(value.into_owned())));
        if let Some(key) = key {
            let Some((name, value)) = spec.protocol.key(key) else {
                return Err(ProviderError::new(
                    ErrorKind::NotConfigured,
                    format!("The key of {} holds characters that no key can hold.", spec.name),
                ));
            };
            call = call.header(name, value);
            let (ServerKey::Key(secret) | ServerKey::Token(secret)) = key;
            self.secrets.push(secret.clone());
        }
        for (name, value) in &spec.headers {
            call = call.header(name, value);
            // These headers may contain a key too.
            self.secrets.extend(value.to_str().ok().map(|value| Secret::new(value.to_owned())));
        }
        Ok(call)
    }

    /// Asks for the ids of the server's models; `None` if it answers without a list.
    async fn list(&mut self) -> Result<Option<Vec<String>>, ProviderError> {
        let server = self.server.clone();
        let spec = &server.spec;
        let key = self.key(false, None).await?;
        let url = spec
            .url(spec.protocol.list_path())
            .map_err(|error| self.fatal(&format!("has no such address: {error}")))?;
        let client = server.http.client(&url).map_err(|error| self.failed(&error))?;
        let call = self.signed(client.get(url).header("accept", "application/json"), key.as_ref())?;
        let mut response = http::send(call, MODEL_LIST_WAIT).await.map_err(|error| self.failed(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(self.fatal("sent the request elsewhere; check its :base-url"));
        }
        let body = http::whole(&mut response, MODEL_LIST_BYTES, MODEL_LIST_WAIT).await;
        let body = body.map_err(|error| self.failed(&error))?;
        match status.as_u16() {
            // Many servers have no list, and answer calls all the same.
            404 | 405 | 501 => Ok(None),
            200..=299 => Ok(protocol::listed(&body)),
            status => Err(self.refused(&FailureReport::body(&body), Some(status), None, None)),
        }
    }

    /// Whether a successful response is a stream at all.
    async fn check(&mut self, mut response: Response) -> Result<Response, ProviderError> {
        if let Some(encoding) = compression(&response) {
            return Err(self.fatal(&format!("sent its answer compressed ({encoding}), against the request")));
        }
        let kind =
            response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.to_ascii_lowercase();
        if kind.starts_with("application/json") {
            let body = http::whole(&mut response, HTTP_ERROR_BYTES, self.server.spec.patience).await;
            let json = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
            let report = FailureReport::json(&json);
            if !report.message.is_empty() {
                return Err(self.refused(&report, None, None, None));
            }
            return Err(self.fatal("answered with one piece of JSON instead of a stream"));
        }
        if kind.starts_with("text/html") {
            return Err(self.fatal("answered with a page instead of a stream; check its :base-url"));
        }
        Ok(response)
    }

    /// Reads the next bytes and decodes them.
    async fn read(&mut self, response: &mut Response, quiet: &mut Quiet) -> Result<(), ProviderError> {
        match http::more(response, self.server.spec.patience).await {
            Ok(Some(bytes)) => {
                let bytes = bytes.as_ref();
                self.events.push(bytes);
                self.decode()?;
                let says = !self.chunks.is_empty() || self.decoder.is_over();
                match quiet.heard(bytes.len(), says, Instant::now()) {
                    Some(what) => Err(self.fatal(&what)),
                    None => Ok(()),
                }
            }
            Ok(None) => self.decoder.end(&mut self.chunks).map_err(|broken| self.broken(broken)),
            // An answer that was complete before the connection ended is valid.
            Err(error) => match self.decoder.end(&mut self.chunks) {
                Ok(()) => Ok(()),
                Err(_) => Err(self.failed(&error)),
            },
        }
    }

    fn decode(&mut self) -> Result<(), ProviderError> {
        loop {
            let event = match self.events.next() {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(error @ (StreamError::TooLong | StreamError::NotText)) => {
                    return Err(self.fatal(&format!("sent {error}")));
                }
            };
            let data = surrogates::escape_lone(event.data);
            let event = SseEvent { name: event.name, data: &data };
            let taken = self.decoder.event(&event, &mut self.chunks);
            if let Err(broken) = taken {
                return Err(self.broken(broken));
            }
            if self.decoder.is_over() {
                return Ok(());
            }
        }
    }

    fn broken(&self, broken: Broken) -> ProviderError {
        match broken {
            Broken::Reported(json) => {
                self.refused(&FailureReport::body(json.to_string().as_bytes()), None, None, None)
            }
            Broken::PlainText(words) => {
                let words = self.redact(words.trim()).into_owned();
                self.error(ErrorKind::Dropped, &format!("broke off its answer: {}", failure::shown(&words)))
            }
            Broken::TooLarge(what) => self.fatal(&format!("sent something that cannot be read: {what}")),
            Broken::Unreadable(what) => {
                self.error(ErrorKind::Dropped, &format!("sent something that cannot be read: {what}"))
            }
            Broken::Ended(end) => {
                let (kind, why) = match end {
                    AnswerEnd::Broken { why, is_overflow: true, .. } => (ErrorKind::ContextOverflow, why),
                    AnswerEnd::Broken { why, retry: Retry::Now, .. } => (ErrorKind::Malformed, why),
                    AnswerEnd::Broken { why, retry: Retry::Later, .. } => (ErrorKind::Dropped, why),
                    AnswerEnd::Broken { why, retry: Retry::No, .. } | AnswerEnd::Refused(why) => {
                        (ErrorKind::Fatal, why)
                    }
                    _ => (ErrorKind::Fatal, String::new()),
                };
                let why = self.redact(&why).into_owned();
                self.error(kind, &format!("ended its answer {}", failure::shown(&why)))
            }
            Broken::Cut => self.error(ErrorKind::Dropped, "ended the connection in the middle of its answer"),
        }
    }

    fn failed(&self, error: &HttpError) -> ProviderError {
        let host = self.server.spec.base.host_str().unwrap_or_default();
        let port = self.server.spec.base.port().map(|port| format!(":{port}")).unwrap_or_default();
        let kind = if error.lasts() { ErrorKind::Fatal } else { ErrorKind::Dropped };
        let what = match error {
            HttpError::Impossible(why) => format!("cannot be asked: {why}"),
            HttpError::Silent(_) => format!("at {host}{port} said nothing more: {error}"),
            _ if error.lasts() => format!("at {host}{port} cannot be asked: {error}"),
            _ => format!("at {host}{port} cannot be reached, or went away: {error}"),
        };
        let advice = error.advice();
        let what = advice.map_or_else(|| what.clone(), |advice| format!("{what}. {advice}"));
        ProviderError { advice, ..self.error(kind, &what) }
    }

    fn refused(
        &self,
        report: &FailureReport,
        status: Option<u16>,
        wait: Option<std::time::Duration>,
        head_retry: Option<bool>,
    ) -> ProviderError {
        let judged = report.judge(status);
        let wait = wait.or_else(|| report.said_wait()).or(report.wait);
        let kind = match (judged.kind.error_kind(wait), head_retry) {
            (kind, Some(false)) if kind.is_passing() => ErrorKind::Fatal,
            (ErrorKind::Fatal, Some(true)) if judged.kind == FailureKind::Refused => ErrorKind::Overloaded,
            (kind, _) => kind,
        };
        let status = status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        // Redacted before it is cut, so that no half of a key remains.
        let words =
            self.redact(if report.message.is_empty() { "no reason was given" } else { &report.message });
        let words = failure::shown(&words);
        let predicate = judged.kind.predicate(wait);
        let advice = match judged.kind {
            FailureKind::NoModel => "Choose another model, or check its :base-url.".to_owned(),
            FailureKind::KeyRefused => self.server.keys.advice(),
            _ => judged.advice.to_owned(),
        };
        let text = match advice.as_str() {
            "" => format!("{predicate}{status}: {words}"),
            advice => format!("{predicate}{status}: {}. {advice}", words.trim_end_matches('.')),
        };
        ProviderError { limit: judged.limit, ..self.error(kind, &text) }
    }

    fn no_key(&self, error: KeyError) -> ProviderError {
        match error {
            KeyError::Passing(why) => self.error(ErrorKind::Dropped, &format!("cannot be asked: {why}")),
            other => ProviderError::new(ErrorKind::NotConfigured, other.to_string()),
        }
    }

    fn fatal(&self, what: &str) -> ProviderError {
        self.error(ErrorKind::Fatal, what)
    }

    /// An error that starts with the provider's name and shows no key, whatever a server wrote.
    fn error(&self, kind: ErrorKind, what: &str) -> ProviderError {
        ProviderError::new(kind, format!("{} {}", self.server.spec.name, self.redact(what)))
    }

    fn redact<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        self.secrets.iter().fold(text.into(), |text, secret| match secret.redact(&text) {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(hidden) => hidden.into(),
        })
    }
}

/// The place in the request that a server's refusal is about.
fn refused_place(report: &FailureReport) -> Option<(usize, Option<usize>)> {
    refused_part::place(&report.message).or_else(|| refused_part::place(report.field.as_deref()?))
}

/// Reads the rest after the answer's end, so that the connection can serve the next call.
fn drain(mut response: Response) {
    let rest = async move {
        let _ = http::whole(&mut response, HTTP_ERROR_BYTES, HTTP_DRAIN).await;
    };
    tokio::spawn(rest);
}
