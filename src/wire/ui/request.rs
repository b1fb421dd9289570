//! A request of the interface, ready to be served, and the answer that it is owed. Decides nothing.

use std::sync::Arc;

use crate::facts::SessionFacts;
use crate::message::SessionId;
use crate::session::{ApiError, Call, Client as _, Reply, SessionApi};
use crate::value::{Map, Value};
use crate::wire::jsonrpc::{at, text};
use crate::wire::ui::codes::{Code, Fault};
use crate::wire::ui::encoder::Teller;
use crate::wire::ui::link::{Connection, Ui};

/// A request that is to be served.
pub struct Ask<'a> {
    /// The wire.
    pub ui: &'a Ui,
    /// The connection.
    pub connection: &'a Connection,
    /// The id, as JSON.
    pub id: Arc<str>,
    /// The method's place in the table.
    pub place: usize,
    /// The params, which are of the table's shapes.
    pub params: &'a Value<'a>,
}

impl<'a> Ask<'a> {
    /// The caller, and the current session.
    pub fn call(&self) -> Call {
        self.call_to(self.connection.focused())
    }

    /// The caller, and a session.
    pub fn call_to(&self, session: SessionId) -> Call {
        Call { connection: self.connection.id(), request: self.id.clone(), session }
    }

    /// The session API.
    pub fn api(&self) -> &'a dyn SessionApi {
        self.connection.api()
    }

    /// The answer that is owed, in the shape of the table.
    pub fn reply<T: 'static>(
        &self,
        shape: impl FnOnce(T) -> Result<Map<'static>, Fault> + Send + 'static,
    ) -> Reply<T> {
        let place = self.place;
        self.connection.begin(self.id.clone(), move |connection: &Connection, id, result| {
            match result.map_err(Fault::from).and_then(shape) {
                Ok(result) => connection.wire().respond(connection, id, place, &result),
                Err(fault) => connection.wire().refuse(connection, id, place, &fault),
            }
        })
    }

    /// Answers at once.
    pub fn ok(&self, result: &Map<'_>) {
        self.ui.respond(self.connection, &self.id, self.place, result);
    }

    /// Refuses at once.
    pub fn fail(&self, fault: &Fault) {
        self.ui.refuse(self.connection, &self.id, self.place, fault);
    }

    /// The facts of the current session; refuses if it has ended.
    pub fn facts(&self) -> Option<Arc<SessionFacts>> {
        let facts = self.api().facts(&self.connection.focused());
        if facts.is_none() {
            self.fail(&Fault::new(Code::Internal, "The session has ended."));
        }
        facts
    }

    /// Whether a run goes on; refuses then.
    pub fn is_busy(&self) -> bool {
        let state = self.ui.desk.lock();
        let busy = state.run.is_some() || state.compaction.is_some();
        drop(state);
        if busy {
            self.fail(&Fault::new(Code::Busy, "A run is active: wait for its end, or cancel it."));
        }
        busy
    }

    /// The text of a param.
    pub fn owned(&self, key: &str) -> Option<String> {
        text(self.params, key).map(str::to_owned)
    }
}

/// Tells lines of a run at this moment.
pub fn teller(ui: &Ui, connection: &Connection) -> Teller {
    Teller { connection: connection.id(), now: ui.clock.now(), diagnostics: ui.diagnostics }
}

/// Why a session was not loaded.
pub fn not_loaded(error: ApiError) -> Fault {
    match Fault::from(error) {
        fault if fault.code == Code::Internal => fault.as_code(Code::NotLoadable),
        fault => fault,
    }
}

/// A limit: zero, negative and huge ones are none.
pub fn limit(params: &Value<'_>, key: &str, usual: usize) -> usize {
    match at(params, key).map(Value::as_i64) {
        None => usual,
        Some(Some(limit @ 1..)) => usize::try_from(limit).unwrap_or(usize::MAX),
        Some(_) => usize::MAX,
    }
}
