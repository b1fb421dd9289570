//! Implements the session API, a file for each group of capabilities. Finds the session and passes the call on;
//! changes nothing itself. Knows no wire.

mod clients;
mod jobs;
mod mcp;
mod sessions;
mod settings;
mod turns;

use crate::clock::epoch_millis;
use crate::engine::change::Change;
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::idempotency::Lookup;
use crate::engine::incoming::Incoming;
use crate::engine::process_snapshot::ProcessSnapshot;
use crate::engine::project_notes;
use crate::engine::remote::{owner_elsewhere, stays_elsewhere};
use crate::engine::snapshot::SessionSnapshot;
use crate::facts::Note;
use crate::limits::MCP_RESOURCE_WAIT;
use crate::query;
use crate::session::{ApiError, Call, GraphQuery, Prompted, Queries, QueryAnswer, Reply};
use crate::store::record::KeyedRequest;

impl Engine {
    /// Passes the call's session to `work`, or refuses the call.
    fn with<T>(&self, call: &Call, reply: Reply<T>, work: impl FnOnce(Handle, Reply<T>)) {
        match self.shared.tree.get(&call.session) {
            Ok(handle) => {
                self.attend(call, &handle);
                // New tasks run on the process's executor, whoever calls.
                let _executor = self.shared.executor.enter();
                work(handle, reply);
            }
            Err(error) => reply.fail(error),
        }
    }

    /// Notes that a client that answers questions uses a session, whose questions then wait for its return.
    pub(in crate::engine) fn attend(&self, call: &Call, handle: &Handle) {
        if self.shared.settings.outlives_clients
            && !handle.is_attended()
            && self.shared.hub.client(call.connection).is_some_and(|client| client.is_interactor())
        {
            handle.attend();
        }
    }

    /// Reads from a session's snapshot.
    fn read<T>(
        &self,
        call: &Call,
        reply: Reply<T>,
        read: impl FnOnce(&SessionSnapshot) -> Result<T, ApiError>,
    ) {
        self.with(call, reply, |handle, reply| reply.send(read(&handle.snapshot())));
    }

    /// The same for what stays with a session's host: `realm/owned` for a session of another one.
    fn with_own<T>(&self, call: &Call, reply: Reply<T>, work: impl FnOnce(Handle, Reply<T>)) {
        self.with(call, reply, |handle, reply| match stays_elsewhere(&handle) {
            Some(error) => reply.fail(error),
            None => work(handle, reply),
        });
    }

    /// Starts a turn with a message that is not a command.
    pub(super) fn begin_turn(&self, call: Call, incoming: Incoming, reply: Reply<Prompted>) {
        self.with(&call.clone(), reply, |handle, reply| {
            self.with_resources(handle, incoming, reply, |handle, incoming, reply| {
                handle.tell(Change::Prompt { call, incoming, reply });
            });
        });
    }

    /// Passes a message to a session with the resources of servers that it names. These are read beside the session's
    /// task, which serves others meanwhile. A message that will wait for a turn is passed on as it is.
    pub(super) fn with_resources(
        &self,
        handle: Handle,
        mut incoming: Incoming,
        reply: Reply<Prompted>,
        pass: impl FnOnce(Handle, Incoming, Reply<Prompted>) + Send + 'static,
    ) {
        let wanted = match handle.is_occupied() || !self.is_new(&handle, incoming.request.as_deref()) {
            true => Vec::new(),
            false => self.shared.mcp.wanted_resources(&handle, incoming.typed()),
        };
        if wanted.is_empty() {
            return pass(handle, incoming, reply);
        }
        let (shared, stop) = (self.shared.clone(), handle.stoppable());
        let read = async move {
            match shared.mcp.referenced(&handle, wanted, MCP_RESOURCE_WAIT, &stop).await {
                Some(resources) => {
                    incoming.ahead.resources = Some(resources);
                    pass(handle, incoming, reply);
                }
                None => {
                    reply.fail(ApiError::failed("The message was aborted before what it names was read."))
                }
            }
        };
        self.shared.tasks.spawn_on(read, &self.shared.executor);
    }

    /// Whether a session does not know a request's key.
    pub(super) fn is_new(&self, handle: &Handle, request: Option<&KeyedRequest>) -> bool {
        let now = epoch_millis(self.shared.clock.now());
        request.is_none_or(|request| {
            handle.snapshot().idempotency.look_up(request, now, self.shared.idempotency_window())
                == Lookup::New
        })
    }
}

impl Queries for Engine {
    fn query(&self, call: Call, query: GraphQuery, reply: Reply<QueryAnswer>) {
        if let Some(owner) = owner_elsewhere(self, &call)
            && let Some(parts) = query::parted(&query)
        {
            return owner.query(call, parts, reply);
        }
        self.with(&call.clone(), reply, |_, reply| {
            let prepared = match query::prepare(&query) {
                Ok(prepared) => prepared,
                Err(error) => return reply.fail(error),
            };
            let waits = prepared.waits();
            let engine = self.clone();
            let answer = move |reply: Reply<QueryAnswer>| {
                let outcomes = prepared.mutate(&engine, &call);
                match prepared.run(&ProcessSnapshot::new(engine, call), outcomes) {
                    Ok((answer, memory)) => {
                        reply.ok(answer);
                        drop(memory);
                    }
                    Err(error) => reply.fail(error),
                }
            };
            if waits {
                // Off the connection's thread, which serves its next requests meanwhile.
                self.shared.tasks.spawn_blocking(move || answer(reply));
            } else {
                answer(reply);
            }
        });
    }

    fn remember(&self, call: Call, text: String, reply: Reply<Note>) {
        self.with_own(&call, reply, |handle, reply| project_notes::keep(&self.shared, &handle, text, reply));
    }

    fn forget(&self, call: Call, note: String, reply: Reply<bool>) {
        self.with_own(&call, reply, |handle, reply| {
            project_notes::forget(&self.shared, &handle, note, reply)
        });
    }
}
