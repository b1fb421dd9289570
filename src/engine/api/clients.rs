//! Clients of the engine: who is attached, and what they bring. Knows a client as the session API describes it, not
//! its wire.

use std::sync::Arc;

use crate::engine::change::{Change, Unload};
use crate::engine::client_tools;
use crate::engine::host::Engine;
use crate::engine::login::LoginDesk;
use crate::engine::open::{history, show};
use crate::event::{Body, Cause, Event};
use crate::limits::{CLIENT_DETAILS_BYTES, CLIENT_FILES};
use crate::message::SessionId;
use crate::session::{
    ApiError, Call, Client, ClientTools, Clients, FileAnswer, OfferedTool, OpenFilesOfClient, Registered,
    Reply, Since, Snapshot as Shown, Tally, ToolAnswer,
};
use crate::tool::toolbox::Source;

impl Engine {
    /// Forgets a connection: what it offers goes with it, and nobody waits for it.
    fn left(&self, connection: u64) {
        self.shared.hub.detach(connection);
        self.shared.questions.left(connection);
        for handle in self.shared.tree.all() {
            handle.tools.take_back(&Source::Client(connection));
        }
        self.shared.client_requests.left(connection);
        self.shared.client_files.left(connection);
    }

    /// Forgets a session in which nobody has said anything, and that no client shows.
    fn put_away_empty(&self, session: &SessionId) {
        let Ok(handle) = self.shared.tree.get(session) else { return };
        if handle.snapshot().offset == 0 && !self.shared.tree.is_viewed(session, None) {
            self.shared.tree.begin_elsewhere(session);
            handle.tell(Change::Unload(Unload { lookup: handle.last_used(), waiting: None }));
        }
    }
}

/// How the wire names the way of an editor's own connection.
const EDITOR: &str = "stdio";

impl ClientTools for Engine {
    fn register_tools(&self, call: Call, tools: Vec<OfferedTool>, reply: Reply<Registered>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| {
            let names = tools.iter().map(|tool| tool.name.clone()).collect();
            let offered = client_tools::offer(&handle.tools, &shared.client_requests, call.connection, tools);
            // Who has left meanwhile has taken back what was there before.
            if shared.hub.client(call.connection).is_none() {
                handle.tools.take_back(&Source::Client(call.connection));
            }
            reply.send(match offered {
                Ok(shadowed) => Ok(Registered { names, shadowed }),
                Err(wrong) => Err(ApiError::invalid_param("tools", &format!("tools of a client: {wrong}"))),
            });
        });
    }

    fn tool_result(&self, call: Call, request: String, answer: ToolAnswer, reply: Reply<()>) {
        if !client_tools::is_bounded(&answer.details) {
            let expected = format!("a map of at most {CLIENT_DETAILS_BYTES} bytes");
            return reply.fail(ApiError::invalid_param("details", &expected));
        }
        reply.send(self.shared.client_requests.answer(call.connection, &request, answer));
    }

    fn tool_progress(&self, call: Call, request: String, text: String, reply: Reply<()>) {
        reply.send(self.shared.client_requests.progress(call.connection, &request, &text));
    }

    fn register_files(&self, call: Call, told: OpenFilesOfClient, reply: Reply<usize>) {
        let OpenFilesOfClient { files, lock } = told;
        if files.len() > CLIENT_FILES {
            let expected = format!("a vector of at most {CLIENT_FILES} files");
            return reply.fail(ApiError::invalid_param("files", &expected));
        }
        let count = files.len();
        self.shared.client_files.set(call.connection, files, lock);
        // Who has left meanwhile has taken back what was there before.
        if self.shared.hub.client(call.connection).is_none() {
            self.shared.client_files.left(call.connection);
        }
        reply.ok(count);
    }

    fn file_result(&self, call: Call, request: String, answer: FileAnswer, reply: Reply<()>) {
        reply.send(self.shared.client_files.answer(call.connection, &request, answer));
    }
}

impl Clients for Engine {
    fn attach(&self, connection: u64, client: Arc<dyn Client>) -> SessionId {
        // An editor that comes to an engine that has lived before it begins afresh.
        let begins = self.shared.settings.outlives_clients && client.peer().transport == EDITOR;
        self.shared.hub.attach(connection, client);
        let _executor = self.shared.executor.enter();
        let cwd = self.shared.settings.cwd.to_string_lossy().into();
        if begins {
            let session = self.opener.create(None, cwd).id.clone();
            self.shared.tree.begin_with(session.clone());
            return session;
        }
        self.shared.tree.primary(|| self.opener.create(None, cwd).id.clone())
    }

    fn detach(&self, connection: u64, reply: Reply<()>) {
        LoginDesk(&self.shared).forget_connection(connection);
        let outlives = self.shared.settings.outlives_clients;
        if outlives || !self.shared.hub.is_last(connection) {
            let showed = self.shared.hub.client(connection).map(|client| client.focused());
            self.left(connection);
            if let (true, Some(session)) = (outlives, showed) {
                self.put_away_empty(&session);
            }
            return reply.ok(());
        }
        // The last connection still learns how its turns end.
        let engine = self.clone();
        let leave = Reply::new(move |_| {
            engine.left(connection);
            reply.ok(());
        });
        self.stop(leave);
    }

    fn outlives_clients(&self) -> bool {
        self.shared.settings.outlives_clients
    }

    fn tally(&self) -> Arc<Tally> {
        self.shared.tally.clone()
    }

    fn snapshot(
        &self,
        connection: u64,
        session: &SessionId,
        what: Shown,
        cause: Option<Cause>,
    ) -> Vec<Event> {
        if let Shown::Questions | Shown::Dialogs = what {
            let Some(client) = self.shared.hub.client(connection) else { return Vec::new() };
            // Each of the two serves one kind of interactor.
            let is_asked = client.is_interactor() && client.dialogs_only() == (what == Shown::Dialogs);
            return if is_asked { self.joined(connection, &client) } else { Vec::new() };
        }
        self.shown(session, what, cause).into_iter().collect()
    }

    fn catch_up(&self, connection: u64) {
        let Some(client) = self.shared.hub.client(connection) else { return };
        let Ok(handle) = self.shared.tree.get(&client.focused()) else { return };
        handle.let_in(&self.shared.hub, connection, |snapshot, _| {
            show(client.as_ref(), &handle, snapshot, history(snapshot), None);
        });
    }

    fn follow(&self, call: Call, since: Since, reply: Reply<u64>) {
        let _executor = self.shared.executor.enter();
        self.opener.follow(call, since, reply);
    }

    fn follow_again(&self, connection: u64, replay: u64, session: &SessionId, offset: u64) -> bool {
        let Ok(handle) = self.shared.tree.get(session) else { return false };
        self.opener.follow_again(connection, replay, handle, offset);
        true
    }
}

impl Engine {
    /// What a client is shown of a session, as one event.
    fn shown(&self, session: &SessionId, what: Shown, cause: Option<Cause>) -> Option<Event> {
        let handle = self.shared.tree.get(session).ok()?;
        let facts = handle.snapshot().facts.clone();
        let body = match what {
            Shown::State => Body::SessionUpdated(facts),
            Shown::Footer => Body::FooterUpdated(facts),
            Shown::Queue => Body::QueueUpdated(Arc::new(handle.snapshot().queue.shown())),
            Shown::Sessions => return Some(Event { cause, ..self.shared.tree.context_event() }),
            Shown::Widgets | Shown::WidgetSpecs | Shown::Statuses => {
                let progress = handle.progress.load();
                let progress = progress.as_ref()?;
                match what {
                    Shown::Widgets => Body::WidgetsUpdated(progress.widgets.clone()),
                    Shown::WidgetSpecs => Body::WidgetSpecsUpdated(progress.specs.clone()),
                    _ => Body::StatusUpdated(progress.statuses.clone()),
                }
            }
            // No single event shows them.
            Shown::Questions | Shown::Dialogs => return None,
        };
        Some(handle.event(body, cause))
    }
}
