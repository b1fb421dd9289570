//! The connection to the server, and what an answer of its stream means.
//!
//! Its client would make a lost connection again by itself, and then send what its callers have given up. So each
//! connection is made once; after its loss, or where an answer does not come, the next call makes another one. What is
//! under way on a connection where an answer did not come goes on there: a call that is late harms no other. What was given
//! up may be carried out late, as after the end of its connection: no append is, because settling has changed the row.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::header::HeaderMap;
use async_nats::{
    AuthError, Client, ConnectErrorKind, ConnectOptions, Event, Message, Request, RequestErrorKind,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::limits::{JOURNAL_LINE_BYTES, REALM_CALL_WAIT, REALM_WAITING};
use crate::realm::error::{Doubt, RealmError};
use crate::realm::nats::address::Address;
use crate::realm::nats::records::{STREAM, StreamIndex, piece};
use crate::realm::texts::damaged;
use crate::realm::tls;

/// The number of pieces that follow a message.
const PIECES: &str = "Edn-Pieces";

/// The largest piece. A server takes 1 MiB in a message where nobody has changed that, and answers with text of a third more.
const PIECE_BYTES: usize = 512 * 1024;

/// Messages that the server takes as a unit.
const BATCH: usize = 1000;

/// The pause before a unit is sent again that another message, still under way, has blocked.
const BUSY: Duration = Duration::from_millis(10);

/// Messages that are read at once: fewer than wait for a reader.
pub(super) const PAGE: usize = REALM_WAITING / 2;

/// What a call does, which decides what a missing answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It changes nothing.
    Read,
    /// It changes something.
    Write,
}

/// What must hold when a message is taken.
#[derive(Debug, Clone)]
pub(super) enum Check {
    /// Nothing.
    Free,
    /// The last message of its own subject has that number; 0 if there is none.
    Last(u64),
    /// The last message of another subject has that number; 0 if there is none.
    Other(String, u64),
}

/// A message to be taken.
#[derive(Debug)]
pub(super) struct OutgoingMessage {
    pub(super) subject: String,
    pub(super) body: Vec<u8>,
    pub(super) check: Check,
    /// How long it is kept; for ever without it.
    pub(super) kept: Option<Duration>,
}

impl OutgoingMessage {
    pub(super) fn new(subject: String, body: Vec<u8>, check: Check) -> Self {
        Self { subject, body, check, kept: None }
    }
}

/// A message of the stream.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) subject: String,
    /// Its number in the stream.
    pub(super) seq: u64,
    /// When it was taken, by the server's clock, in milliseconds since the epoch.
    pub(super) time_ms: i64,
    pub(super) body: Vec<u8>,
    pieces: usize,
}

impl Stored {
    pub(super) fn record<T: DeserializeOwned>(&self) -> Result<T, RealmError> {
        serde_json::from_slice(&self.body).map_err(damaged)
    }

    /// The record, if it is in its own subject: one that names another thing is none of that.
    pub(super) fn of<T: DeserializeOwned>(&self, subject: fn(&T) -> String) -> Result<T, RealmError> {
        let record = self.record()?;
        if subject(&record) == self.subject {
            Ok(record)
        } else {
            Err(damaged("a record is in the subject of another one"))
        }
    }
}

/// The way to the engine: a connection as long as it lasts.
pub(super) struct EngineLink {
    address: Address,
    line: Mutex<Option<Arc<Line>>>,
    is_fit: IsFit,
}

/// Looks at a new connection before it is used.
pub(super) type IsFit = for<'a> fn(&'a Address, &'a Line) -> BoxFuture<'a, Result<(), RealmError>>;

impl EngineLink {
    pub(super) fn new(address: Address, is_fit: IsFit) -> Self {
        Self { address, line: Mutex::default(), is_fit }
    }

    /// A connection to an engine that is fit.
    pub(super) async fn line(&self) -> Result<Arc<Line>, RealmError> {
        let line = timeout(REALM_CALL_WAIT, self.made()).await;
        line.unwrap_or_else(|_| Err(RealmError::Unreachable("it does not answer".into())))
    }

    async fn made(&self) -> Result<Arc<Line>, RealmError> {
        let mut kept = self.line.lock().await;
        if let Some(line) = kept.as_ref().filter(|line| !line.is_left.is_cancelled()) {
            return Ok(line.clone());
        }
        let line = Arc::new(self.aside().await?);
        *kept = Some(line.clone());
        Ok(line)
    }

    /// A connection for one long call, whose answers hold up those of no other.
    pub(super) async fn aside(&self) -> Result<Line, RealmError> {
        let line = Line::connect(&self.address).await?;
        // Each time: the address may lead to another server than before.
        (self.is_fit)(&self.address, &line).await?;
        Ok(line)
    }
}

/// One connection.
pub(super) struct Line {
    pub(super) client: Client,
    /// Cancelled when it is lost.
    ended: CancellationToken,
    /// Cancelled when no further call is to be made on it: it is lost, or an answer did not come. The server may be one that
    /// the others of its cluster do not hear.
    pub(super) is_left: CancellationToken,
    /// What is known by the numbers of messages. The next connection may lead to a server that was set back, and has given
    /// the same numbers to other messages.
    pub(super) known: StreamIndex,
}

impl Line {
    pub(super) async fn connect(address: &Address) -> Result<Self, RealmError> {
        let ended = CancellationToken::new();
        let (auth, is_made) = (address.auth.clone(), Arc::new(AtomicBool::new(false)));
        let made = is_made.clone();
        // The only way to keep the client from coming back by itself.
        let login = move |_| {
            let (auth, is_lost) = (auth.clone(), made.load(Ordering::Acquire));
            async move { if is_lost { Err(AuthError::new("the connection was given up")) } else { Ok(auth) } }
        };
        let end = ended.clone();
        let mut options = ConnectOptions::with_auth_callback(login)
            .name("edn-bridge")
            .max_reconnects(address.servers.len())
            .ignore_discovered_servers()
            .connection_timeout(REALM_CALL_WAIT / u32::try_from(address.servers.len()).unwrap_or(1).max(1))
            .ping_interval(REALM_CALL_WAIT)
            .subscription_capacity(REALM_WAITING)
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed | Event::LameDuckMode) {
                    end.cancel();
                }
                async {}
            });
        if address.is_encrypted {
            let config = tls::config(address.roots.as_deref())?;
            options = options.require_tls(true).tls_client_config(config);
        }
        let client = timeout(REALM_CALL_WAIT, options.connect(address.servers.as_slice())).await;
        let unanswered = || RealmError::Unreachable("it does not answer".into());
        let client = client.map_err(|_| unanswered())?.map_err(|error| cannot_connect(&error))?;
        is_made.store(true, Ordering::Release);
        let is_left = ended.child_token();
        Ok(Self { client, ended, is_left, known: StreamIndex::default() })
    }

    /// Asks something, and waits for its answer in bounded time.
    async fn request(&self, kind: Kind, subject: &str, request: Request) -> Result<Message, RealmError> {
        let answer = self.client.send_request(subject.to_owned(), request.timeout(None));
        let answer = tokio::select! {
            answer = timeout(REALM_CALL_WAIT, answer) => answer,
            () = self.ended.cancelled() => return Err(no_answer(kind, "the connection was lost")),
        };
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => match error.kind() {
                RequestErrorKind::NoResponders => Err(RealmError::Unreachable(
                    "no server has its stream at this moment, or JetStream is off".into(),
                )),
                RequestErrorKind::MaxPayloadExceeded => {
                    Err(RealmError::Refused("the server takes no message of that size".into()))
                }
                _ => {
                    self.ended.cancel();
                    Err(no_answer(kind, "the connection was lost"))
                }
            },
            Err(_) => {
                self.is_left.cancel();
                Err(no_answer(kind, "it does not answer"))
            }
        }
    }

    /// Calls the server's interface of streams. `None` if what is named there does not exist.
    pub(super) async fn api<T: DeserializeOwned>(
        &self,
        kind: Kind,
        call: &str,
        params: &serde_json::Value,
    ) -> Result<Option<T>, RealmError> {
        let request =
            Request::new().payload(if params.is_null() { Bytes::new() } else { params.to_string().into() });
        let answer = self.request(kind, &format!("$JS.API.{call}"), request).await?;
        match read::<LinkReply<T>>(&answer)? {
            LinkReply::Refused { error } if error.is_missing() => Ok(None),
            LinkReply::Refused { error } => Err(error.meaning()),
            LinkReply::Done(answer) => Ok(Some(answer)),
        }
    }

    /// What the server says of the stream; `None` if it is not there.
    pub(super) async fn info<T: DeserializeOwned>(&self) -> Result<Option<T>, RealmError> {
        self.api(Kind::Read, &format!("STREAM.INFO.{STREAM}"), &serde_json::Value::Null).await
    }

    /// The server's clock, in milliseconds since the epoch.
    pub(super) async fn now_ms(&self) -> Result<i64, RealmError> {
        let now: Option<Now> = self.info().await?;
        millis(&now.ok_or_else(|| damaged("the stream is gone"))?.ts)
    }

    /// The last message of a subject, by the server that leads the stream. With `*` in the subject, the last of all.
    pub(super) async fn last(&self, subject: &str) -> Result<Option<Stored>, RealmError> {
        let params = serde_json::json!({ "last_by_subj": subject });
        let found: Option<Got> = self.api(Kind::Read, &format!("STREAM.MSG.GET.{STREAM}"), &params).await?;
        let Some(Got { message }) = found else { return Ok(None) };
        let decoded = |text: Option<String>| STANDARD.decode(text.unwrap_or_default()).map_err(damaged);
        let headers = decoded(message.hdrs)?;
        let headers = String::from_utf8_lossy(&headers);
        let pieces = headers.lines().find_map(|line| line.strip_prefix(PIECES)?.strip_prefix(':'));
        let mut stored = Stored {
            subject: message.subject,
            seq: message.seq,
            time_ms: millis(&message.time)?,
            body: decoded(message.data)?,
            pieces: pieces.map_or(Ok(0), |pieces| pieces.trim().parse()).map_err(damaged)?,
        };
        self.complete(&mut stored).await?;
        Ok(Some(stored))
    }

    /// The messages of some subjects from a number on, oldest first, at most `most` and [`PAGE`], and about `bytes`; with
    /// the number from which more are to be read, if there are any. By any server that has the stream, which may lack the
    /// newest. What is longer than a message is not complete yet.
    pub(super) async fn scan(
        &self,
        filter: &str,
        from: u64,
        most: usize,
        bytes: usize,
    ) -> Result<(Vec<Stored>, Option<u64>), RealmError> {
        let inbox = self.client.new_inbox();
        let lost = |_| RealmError::Unreachable("the connection was lost".into());
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(lost)?;
        let params = serde_json::json!({
            "seq": from.max(1), "batch": most.clamp(2, PAGE), "max_bytes": bytes, "next_by_subj": filter,
        });
        let subject = format!("$JS.API.DIRECT.GET.{STREAM}");
        let asked = self.client.publish_with_reply(subject, inbox, params.to_string().into());
        asked.await.map_err(|_| RealmError::Unreachable("the connection was lost".into()))?;
        let mut found: Vec<Stored> = Vec::new();
        loop {
            let answer = tokio::select! {
                answer = timeout(REALM_CALL_WAIT, answers.next()) => answer,
                () = self.ended.cancelled() => Ok(None),
            };
            let Ok(Some(answer)) = answer else {
                self.is_left.cancel();
                return Err(RealmError::Unreachable("it does not answer".into()));
            };
            let number = |name: &str| {
                let value = answer.headers.as_ref()?.get(name)?.as_str();
                value.parse::<u64>().ok()
            };
            match answer.status.map(|status| status.as_u16()) {
                None => {}
                Some(404) => return Ok((found, None)),
                Some(204) => {
                    let next = found.last().map(|last| last.seq.saturating_add(1));
                    return Ok((
                        found,
                        next.filter(|_| number("Nats-Num-Pending").is_some_and(|left| left > 0)),
                    ));
                }
                Some(503) => {
                    return Err(RealmError::Unreachable(
                        "no server has its stream at this moment, or JetStream is off".into(),
                    ));
                }
                Some(code) => return Err(RealmError::Refused(format!("reading gave {code}").into())),
            }
            let header =
                |name: &str| answer.headers.as_ref().and_then(|it| it.get(name)).map(|it| it.as_str());
            let (Some(seq), Some(subject)) = (number("Nats-Sequence"), header("Nats-Subject")) else {
                return Err(damaged("a message has no number"));
            };
            found.push(Stored {
                subject: subject.to_owned(),
                seq,
                time_ms: millis(header("Nats-Time-Stamp").unwrap_or_default())?,
                pieces: usize::try_from(number(PIECES).unwrap_or(0)).unwrap_or(usize::MAX),
                body: answer.payload.to_vec(),
            });
        }
    }

    /// Every message of some subjects, oldest first. One that is written meanwhile may come twice.
    pub(super) async fn each(&self, filter: &str, mut take: impl FnMut(Stored)) -> Result<(), RealmError> {
        let mut from = Some(1);
        while let Some(seq) = from {
            let (found, next) = self.scan(filter, seq, PAGE, JOURNAL_LINE_BYTES).await?;
            found.into_iter().for_each(&mut take);
            from = next;
        }
        Ok(())
    }

    /// Reads the further pieces of a message.
    pub(super) async fn complete(&self, stored: &mut Stored) -> Result<(), RealmError> {
        for number in 1..=std::mem::take(&mut stored.pieces) {
            if stored.body.len() > JOURNAL_LINE_BYTES.saturating_mul(2) {
                return Err(damaged("a message is longer than any can be"));
            }
            let found = Box::pin(self.last(&piece(&stored.subject, number))).await?;
            stored.body.extend(found.ok_or_else(|| damaged("a piece of a message is gone"))?.body);
        }
        Ok(())
    }

    /// Has messages taken as a unit: either all checks hold and all of them are on disk, or nothing is. Returns the number of
    /// the last one; `None` if a check does not hold.
    pub(super) async fn commit(&self, puts: Vec<OutgoingMessage>) -> Result<Option<u64>, RealmError> {
        let most = PIECE_BYTES.min(self.client.max_payload() / 2).max(1);
        let mut messages: Vec<(String, HeaderMap, Bytes)> = Vec::new();
        for OutgoingMessage { subject, body, check, kept } in puts {
            let body = Bytes::from(body);
            let further = body.len().div_ceil(most).saturating_sub(1);
            let mut headers = HeaderMap::new();
            let lives = |headers: &mut HeaderMap| {
                if let Some(kept) = kept {
                    headers.insert("Nats-TTL", format!("{}s", kept.as_secs().max(1)));
                }
            };
            for number in 1..=further {
                let begin = number.saturating_mul(most);
                let mut headers = HeaderMap::new();
                lives(&mut headers);
                let end = begin.saturating_add(most).min(body.len());
                messages.push((piece(&subject, number), headers, body.slice(begin..end)));
            }
            lives(&mut headers);
            if further > 0 {
                headers.insert(PIECES, further.to_string());
            }
            let last = "Nats-Expected-Last-Subject-Sequence";
            match check {
                Check::Free => {}
                Check::Last(seq) => headers.insert(last, seq.to_string()),
                Check::Other(other, seq) => {
                    headers.insert(last, seq.to_string());
                    headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", other);
                }
            }
            messages.push((subject, headers, body.slice(..most.min(body.len()))));
        }
        let count = messages.len();
        if count > BATCH {
            return Err(RealmError::TooLong {
                bytes: count.saturating_mul(most),
                most: BATCH.saturating_mul(most),
            });
        }
        let end = Instant::now() + REALM_CALL_WAIT;
        loop {
            match self.put(&messages).await? {
                Taken::Busy if Instant::now() < end => sleep(BUSY).await,
                Taken::Busy | Taken::Not => return Ok(None),
                Taken::At(seq) => return Ok(Some(seq)),
            }
        }
    }

    /// Sends messages as a unit, once.
    async fn put(&self, messages: &[(String, HeaderMap, Bytes)]) -> Result<Taken, RealmError> {
        let count = messages.len();
        let batch = uuid::Uuid::new_v4().simple().to_string();
        for (number, (subject, headers, body)) in (1..).zip(messages) {
            let (mut headers, body) = (headers.clone(), body.clone());
            if count > 1 {
                headers.insert("Nats-Batch-Id", batch.as_str());
                headers.insert("Nats-Batch-Sequence", number.to_string());
            }
            if number < count {
                let sent = self.client.publish_with_headers(subject.clone(), headers, body);
                let sent = timeout(REALM_CALL_WAIT, sent).await;
                if !matches!(sent, Ok(Ok(()))) {
                    self.is_left.cancel();
                    return Err(RealmError::Unreachable("the connection was lost".into()));
                }
                continue;
            }
            if count > 1 {
                headers.insert("Nats-Batch-Commit", "1");
            }
            let request = Request::new().headers(headers).payload(body);
            let answer = self.request(Kind::Write, subject, request).await?;
            return match read::<LinkReply<Acknowledged>>(&answer)? {
                LinkReply::Done(taken) => Ok(Taken::At(taken.seq)),
                LinkReply::Refused { error } if error.is_busy() => Ok(Taken::Busy),
                LinkReply::Refused { error } if error.is_check() => Ok(Taken::Not),
                LinkReply::Refused { error } => Err(error.meaning()),
            };
        }
        Ok(Taken::Not)
    }

    /// Removes the messages of some subjects.
    pub(super) async fn purge(&self, filter: &str) -> Result<(), RealmError> {
        let params = serde_json::json!({ "filter": filter });
        let call = format!("STREAM.PURGE.{STREAM}");
        self.api::<serde_json::Value>(Kind::Write, &call, &params).await.map(drop)
    }
}

/// What became of messages that are a unit.
enum Taken {
    /// On disk, the last one with that number.
    At(u64),
    /// A check does not hold.
    Not,
    /// A message that a check looks at is under way between the servers of a cluster.
    Busy,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum LinkReply<T> {
    Refused { error: Refusal },
    Done(T),
}

/// Why the server did not do something. It was not done.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    code: u16,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

impl Refusal {
    /// No such stream, or no such message.
    fn is_missing(&self) -> bool {
        matches!(self.err_code, 10_037 | 10_059)
    }

    fn is_check(&self) -> bool {
        matches!(self.err_code, 10_070 | 10_071)
    }

    fn is_busy(&self) -> bool {
        self.err_code == 10_164
    }

    fn meaning(&self) -> RealmError {
        let text = self.description.trim_end_matches('.');
        match (self.err_code, self.code) {
            (10_039 | 10_076, _) => RealmError::Unfit(
                format!("The realm's engine keeps no streams for this user: {text}. Turn on its JetStream.")
                    .into(),
            ),
            // The messages of a unit came only in part, or too many units are under way.
            (10_176 | 10_210 | 10_211, _) | (_, 503) => RealmError::Unreachable(text.into()),
            _ => RealmError::Refused(text.into()),
        }
    }
}

#[derive(Deserialize)]
struct Now {
    ts: String,
}

#[derive(Deserialize)]
struct Acknowledged {
    seq: u64,
}

#[derive(Deserialize)]
struct Got {
    message: GotMessage,
}

#[derive(Deserialize)]
struct GotMessage {
    subject: String,
    seq: u64,
    data: Option<String>,
    hdrs: Option<String>,
    time: String,
}

fn read<T: DeserializeOwned>(answer: &Message) -> Result<T, RealmError> {
    serde_json::from_slice(&answer.payload).map_err(damaged)
}

fn millis(time: &str) -> Result<i64, RealmError> {
    time.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).map_err(damaged)
}

fn no_answer(kind: Kind, why: &str) -> RealmError {
    match kind {
        Kind::Read => RealmError::Unreachable(why.into()),
        Kind::Write => RealmError::InDoubt(Doubt::NoAnswer),
    }
}

fn cannot_connect(error: &async_nats::ConnectError) -> RealmError {
    if let Some(refusal) = tls::refusal(error) {
        return RealmError::Unreachable(refusal.into());
    }
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            RealmError::Unfit("The realm's engine does not let this user in.".into())
        }
        ConnectErrorKind::TimedOut => RealmError::Unreachable("it does not answer".into()),
        kind => {
            use std::error::Error as _;
            // The cause says what the system said.
            let cause = error.source().map_or_else(|| kind.to_string(), ToString::to_string);
            RealmError::Unreachable(cause.into())
        }
    }
}
