//! Connections to the engine, and what an error of one means.
//!
//! A connection whose answer did not come in time is given up: its statement may still be carried out. Knows nothing of
//! what the statements say.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Connection, Row, Statement};

use crate::limits::{REALM_CALL_WAIT, REALM_CONNECTIONS, REALM_IDLE, REALM_STATEMENT_WAIT};
use crate::realm::error::{Doubt, RealmError};
use crate::realm::postgres::config::Address;
use crate::realm::tls;

/// A parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// What a statement does, which decides what a missing answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It changes nothing.
    Read,
    /// It changes something.
    Write,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Statements whose effects are kept.
    Keep,
    /// Hints, which nobody waits for: a crash of the engine may lose them.
    Hint,
}

/// One connection.
pub(super) struct Link {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

/// Takes in what the engine says without being asked.
pub(super) type OnNotice = Arc<dyn Fn(&str, &str) + Send + Sync>;

impl Link {
    /// Connects. `on_notice` gets channel and text of each notification; `on_end` is dropped when the connection ends.
    pub(super) async fn connect(
        address: &Address,
        purpose: Purpose,
        on_notice: Option<OnNotice>,
        on_end: impl Send + 'static,
    ) -> Result<Self, RealmError> {
        let mut config = address.config.clone();
        let commit = if purpose == Purpose::Hint { " -c synchronous_commit=off" } else { "" };
        let wait = REALM_STATEMENT_WAIT.as_millis();
        config.options(format!(
            "-c statement_timeout={wait} -c idle_in_transaction_session_timeout={wait} -c search_path=pg_catalog{commit}"
        ));
        let connected = async {
            if address.is_encrypted {
                let (client, connection) = config.connect(address.tls()?).await.map_err(cannot_connect)?;
                drive(connection, on_notice, on_end);
                Ok(client)
            } else {
                let (client, connection) =
                    config.connect(tokio_postgres::NoTls).await.map_err(cannot_connect)?;
                drive(connection, on_notice, on_end);
                Ok(client)
            }
        };
        let client = timeout(REALM_CALL_WAIT, connected).await;
        let client = client.unwrap_or_else(|_| Err(RealmError::Unreachable("it does not answer".into())))?;
        Ok(Self { client, statements: HashMap::new() })
    }

    async fn prepared(&mut self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs a statement and returns its rows.
    pub(super) async fn rows(
        &mut self,
        kind: Kind,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, RealmError> {
        self.rows_within(REALM_CALL_WAIT, kind, sql, params).await
    }

    async fn rows_within(
        &mut self,
        wait: Duration,
        kind: Kind,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, RealmError> {
        let answer = async {
            let statement = self.prepared(sql).await.map_err(|error| (Kind::Read, error))?;
            self.client.query(&statement, params).await.map_err(|error| (kind, error))
        };
        within(wait, kind, answer).await
    }

    /// Has the engine end each later statement after that time.
    async fn end_statements_after(&self, wait: Duration) -> Result<(), RealmError> {
        let set = format!("SET statement_timeout = {}", wait.as_millis());
        let answer = async { self.client.batch_execute(&set).await.map_err(|error| (Kind::Read, error)) };
        within(REALM_CALL_WAIT, Kind::Read, answer).await
    }

    /// Runs a statement and returns how many rows it changed.
    pub(super) async fn count(
        &mut self,
        kind: Kind,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<u64, RealmError> {
        let answer = async {
            let statement = self.prepared(sql).await.map_err(|error| (Kind::Read, error))?;
            self.client.execute(&statement, params).await.map_err(|error| (kind, error))
        };
        within(REALM_CALL_WAIT, kind, answer).await
    }

    /// Runs statements without parameters.
    pub(super) async fn script(&mut self, wait: Duration, sql: &str) -> Result<(), RealmError> {
        let answer = async { self.client.batch_execute(sql).await.map_err(|error| (Kind::Write, error)) };
        within(wait, Kind::Write, answer).await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

/// Moves a connection's bytes until it ends.
fn drive<S, T>(mut connection: Connection<S, T>, on_notice: Option<OnNotice>, on_end: impl Send + 'static)
where
    Connection<S, T>: Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    tokio::spawn(async move {
        let _on_end = on_end;
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let (AsyncMessage::Notification(notice), Some(on_notice)) = (message, &on_notice) {
                on_notice(notice.channel(), notice.payload());
            }
        }
    });
}

async fn within<T>(
    wait: Duration,
    kind: Kind,
    answer: impl Future<Output = Result<T, (Kind, tokio_postgres::Error)>>,
) -> Result<T, RealmError> {
    match timeout(wait, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err((kind, error))) => Err(meaning(kind, &error)),
        Err(_) => Err(no_answer(kind, "it does not answer")),
    }
}

fn no_answer(kind: Kind, why: &str) -> RealmError {
    match kind {
        Kind::Read => RealmError::Unreachable(why.into()),
        Kind::Write => RealmError::InDoubt(Doubt::NoAnswer),
    }
}

/// What an error means. The engine's own text may repeat parameters, so only its message without details is shown.
fn meaning(kind: Kind, error: &tokio_postgres::Error) -> RealmError {
    let Some(engine) = error.as_db_error() else {
        return no_answer(kind, "the connection was lost");
    };
    let code = engine.code();
    let message = engine.message().trim_end_matches('.');
    let ends = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN];
    if ends.contains(code) || code.code().starts_with("08") {
        return no_answer(kind, message);
    }
    // The engine has undone the statement in all other cases.
    let passes = [
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::QUERY_CANCELED,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    if passes.contains(code) || code.code().starts_with("53") || code.code().starts_with("58") {
        return RealmError::Unreachable(message.into());
    }
    match code {
        code if [SqlState::INVALID_SCHEMA_NAME, SqlState::UNDEFINED_TABLE].contains(code) => {
            RealmError::Unfit("The realm's engine has no realm yet. Run `edn-bridge realm init`.".into())
        }
        code if *code == SqlState::INVALID_SQL_STATEMENT_NAME => RealmError::Unfit(pooler().into()),
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            let say = "The realm's engine does not let this user in";
            RealmError::Unfit(format!("{say}: {message}. Run `edn-bridge realm init --grant ROLE`.").into())
        }
        _ => RealmError::Refused(message.into()),
    }
}

/// Why a pooler of transactions does not do.
pub(super) fn pooler() -> &'static str {
    "The realm's engine is reached through something that shares connections (a pooler of transactions), which loses \
     hints and prepared statements. Name the PostgreSQL server itself, or a pooler's port for whole sessions."
}

fn cannot_connect(error: tokio_postgres::Error) -> RealmError {
    use std::error::Error as _;
    let Some(engine) = error.as_db_error() else {
        if let Some(refusal) = tls::refusal(&error) {
            return RealmError::Unreachable(refusal.into());
        }
        // The cause says what the system or TLS said; the error itself may name nothing.
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        return RealmError::Unreachable(cause.into());
    };
    let message = engine.message().trim_end_matches('.');
    if *engine.code() == SqlState::PROTOCOL_VIOLATION && message.contains("startup parameter") {
        return RealmError::Unfit(pooler().into());
    }
    match engine.code() {
        code if code.code().starts_with("28") || *code == SqlState::INVALID_CATALOG_NAME => {
            RealmError::Unfit(format!("The realm's engine does not let this user in: {message}.").into())
        }
        _ => RealmError::Unreachable(message.into()),
    }
}

/// The connections for statements.
pub(super) struct Pool {
    address: Address,
    /// Each with the time from which it was not needed, the newest last.
    idle: Mutex<Vec<(Instant, Link)>>,
    permits: Semaphore,
    is_fit: IsFit,
}

/// Looks at a new connection before it is used.
pub(super) type IsFit = for<'a> fn(&'a mut Link) -> BoxFuture<'a, Result<(), RealmError>>;

/// A connection that is in use. It goes back only by [`Borrowed::done`]: one whose answer did not come is closed.
pub(super) struct Borrowed<'a> {
    pub(super) link: Link,
    pool: &'a Pool,
    _permit: Option<tokio::sync::SemaphorePermit<'a>>,
}

impl Pool {
    pub(super) fn new(address: Address, is_fit: IsFit) -> Self {
        Self { address, idle: Mutex::default(), permits: Semaphore::new(REALM_CONNECTIONS), is_fit }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// A connection, as soon as there is one.
    pub(super) async fn borrow(&self) -> Result<Borrowed<'_>, RealmError> {
        let busy = || RealmError::Unreachable("its connections are all waiting for answers".into());
        let permit = timeout(REALM_CALL_WAIT, self.permits.acquire()).await.map_err(|_| busy())?;
        self.connect(Some(permit.map_err(|_| busy())?)).await
    }

    async fn connect<'a>(
        &'a self,
        permit: Option<tokio::sync::SemaphorePermit<'a>>,
    ) -> Result<Borrowed<'a>, RealmError> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            // One that is seldom needed costs the engine a process.
            idle.retain(|(since, link)| !link.is_closed() && since.elapsed() < REALM_IDLE);
            idle.pop().map(|(_, link)| link)
        };
        let link = match idle {
            Some(link) => link,
            None => {
                let mut link = Link::connect(&self.address, Purpose::Keep, None, ()).await?;
                // Each time: the address may lead to another server than before.
                (self.is_fit)(&mut link).await?;
                link
            }
        };
        Ok(Borrowed { link, pool: self, _permit: permit })
    }

    /// Runs one statement.
    pub(super) async fn rows(
        &self,
        kind: Kind,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, RealmError> {
        let mut borrowed = self.borrow().await?;
        let answer = borrowed.link.rows(kind, sql, params).await;
        borrowed.done(answer)
    }

    /// Runs one statement that waits for no other: a renewal, which work in sessions must not hold up.
    pub(super) async fn rows_at_once(
        &self,
        kind: Kind,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, RealmError> {
        let mut borrowed = self.connect(None).await?;
        let answer = borrowed.link.rows(kind, sql, params).await;
        borrowed.done(answer)
    }

    /// Runs one statement that may take long, on a connection of its own. The engine ends it after `wait` too: closing the
    /// connection would not.
    pub(super) async fn rows_aside(
        &self,
        wait: Duration,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, RealmError> {
        let mut borrowed = self.connect(None).await?;
        borrowed.link.end_statements_after(wait).await?;
        // The connection is not given back: others have another limit.
        borrowed.link.rows_within(wait, Kind::Read, sql, params).await
    }

    /// Runs one statement that changes rows.
    pub(super) async fn count(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, RealmError> {
        let mut borrowed = self.borrow().await?;
        let answer = borrowed.link.count(Kind::Write, sql, params).await;
        borrowed.done(answer)
    }
}

impl Borrowed<'_> {
    /// Gives the connection back, unless its answer is missing.
    pub(super) fn done<T>(self, answer: Result<T, RealmError>) -> Result<T, RealmError> {
        if !matches!(answer, Err(RealmError::Unreachable(_) | RealmError::InDoubt(_))) {
            let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < REALM_CONNECTIONS {
                idle.push((Instant::now(), self.link));
            }
        }
        answer
    }
}
