//! Implements the session API.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::catalogue::{self, ErrorCode};
use crate::clock::epoch_millis;
use crate::command::{self, Line};
use crate::engine::change::Change;
use crate::engine::client_tools;
use crate::engine::commands::{self, Commands};
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::incoming::{self, Incoming};
use crate::engine::ledger::Lookup;
use crate::engine::login::LoginDesk;
use crate::engine::open::{history, show};
use crate::engine::process_snapshot::ProcessSnapshot;
use crate::engine::queue::{Until, not_waiting};
use crate::engine::shell_start::{self, NewShell};
use crate::engine::snapshot::Snapshot;
use crate::engine::trust_preview;
use crate::event::{Body, Cause, Event, WaitingMessages};
use crate::facts::editor::Editor;
use crate::facts::permissions::{AuditPage, AuditWanted, ListedRule, TrustPreview};
use crate::facts::{
    BashOutput, CommandFacts, JobFacts, ListedSession, LoginFacts, ModelFacts, Note, OutputPart,
    ProviderName, SessionFacts, SessionStats, ShellFacts,
};
use crate::interaction::audit;
use crate::limits::{AUDIT_PAGE, CLIENT_DETAILS_BYTES, CLIENT_FILES, ERROR_NAME_CHARS, SEARCH_QUERY_BYTES};
use crate::message::{EntryId, Message, Mode, Role, SessionId, ThinkingLevel};
use crate::provider::models::{Model, Models};
use crate::query;
use crate::session::{
    ActionResult, Again, ApiError, Call, Client, ClientTools, Clients, DialogResult, Edited, FileAnswer,
    Graph, Interrupted, Jobs, Listing, Logins, OfferedTool, OpenFile, Opened, Page, Permissions, Prompt,
    Prompted, Query, QueryAnswer, Questions, Queues, Reach, Registered, Removed, Reply, Response, Resumed,
    Sessions, Settings, ShellCommand, ShownFiles, Since, Snapshot as Shown, SwitchTarget, Tally, ToolAnswer,
    ToolOutcome, Turns, Undo, Undone, Undos, Waited,
};
use crate::store::Parent;
use crate::store::record::Request;
use crate::tool::output::Outputs;
use crate::tool::path::within;
use crate::tool::toolbox::Source;
use crate::value::{Map, Value};

impl Engine {
    /// Passes the call's session to `work`, or refuses the call.
    fn with<T>(&self, call: &Call, reply: Reply<T>, work: impl FnOnce(Handle, Reply<T>)) {
        match self.shared.tree.get(&call.session) {
            Ok(handle) => {
                // New tasks run on the process's executor, whoever calls.
                let _executor = self.shared.executor.enter();
                work(handle, reply);
            }
            Err(error) => reply.fail(error),
        }
    }

    /// Reads from a session's snapshot.
    fn read<T>(&self, call: &Call, reply: Reply<T>, read: impl FnOnce(&Snapshot) -> Result<T, ApiError>) {
        self.with(call, reply, |handle, reply| reply.send(read(&handle.snapshot())));
    }
}

impl Engine {
    /// Starts a turn with a message that is not a command.
    pub(super) fn begin_turn(&self, call: Call, incoming: Incoming, reply: Reply<Prompted>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::Prompt { call, incoming, reply });
        });
    }
}

impl Engine {
    /// Whether a session does not know a request's key.
    pub(super) fn is_new(&self, handle: &Handle, request: Option<&Request>) -> bool {
        let now = epoch_millis(self.shared.clock.now());
        request.is_none_or(|request| {
            handle.snapshot().ledger.look_up(request, now, self.shared.ledger_window()) == Lookup::New
        })
    }
}

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
}

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

    fn register_files(&self, call: Call, files: Vec<OpenFile>, reply: Reply<usize>) {
        if files.len() > CLIENT_FILES {
            let expected = format!("a vector of at most {CLIENT_FILES} files");
            return reply.fail(ApiError::invalid_param("files", &expected));
        }
        let count = files.len();
        self.shared.client_files.set(call.connection, files);
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
        self.shared.hub.attach(connection, client);
        let _executor = self.shared.executor.enter();
        let cwd = self.shared.settings.cwd.to_string_lossy().into();
        self.shared.tree.primary(|| self.opener.create(None, cwd).id)
    }

    fn detach(&self, connection: u64, reply: Reply<()>) {
        LoginDesk(&self.shared).forget_connection(connection);
        if !self.shared.hub.is_last(connection) {
            self.left(connection);
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

    fn tally(&self) -> Arc<Tally> {
        self.shared.tally.clone()
    }

    fn snapshot(
        &self,
        connection: u64,
        session: &SessionId,
        what: Shown,
        cause: Option<Cause>,
    ) -> Option<Event> {
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
            Shown::Questions | Shown::Dialogs => {
                let client = self.shared.hub.client(connection)?;
                // Each of the two serves one kind of interactor.
                let dialogs = what == Shown::Dialogs;
                return (client.is_interactor() && client.dialogs_only() == dialogs)
                    .then(|| self.shared.questions.joined(connection, &client))
                    .flatten();
            }
        };
        Some(handle.event(body, cause))
    }

    fn catch_up(&self, connection: u64) {
        let Some(client) = self.shared.hub.client(connection) else { return };
        let Ok(handle) = self.shared.tree.get(&client.focused()) else { return };
        handle.let_in(&self.shared.hub, connection, |snapshot| {
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

impl Sessions for Engine {
    fn has_session(&self, session: &SessionId) -> bool {
        self.shared.tree.get(session).is_ok()
    }

    fn facts(&self, session: &SessionId) -> Option<Arc<SessionFacts>> {
        self.shared.tree.get(session).ok().map(|handle| handle.snapshot().facts.clone())
    }

    fn state(&self, call: Call, reply: Reply<Arc<SessionFacts>>) {
        self.with(&call, reply, |handle, reply| {
            let mut reply = Some(reply);
            // While no event of the session goes out, so that no answer follows an event that is newer than it.
            handle.in_order(&mut |_| {
                if let Some(reply) = reply.take() {
                    reply.ok(handle.snapshot().facts.clone());
                }
            });
        });
    }

    fn messages(&self, call: Call, before: Option<EntryId>, limit: Option<usize>, reply: Reply<Page>) {
        self.read(&call, reply, |snapshot| snapshot.page(before.as_ref(), limit));
    }

    fn stats(&self, call: Call, reply: Reply<SessionStats>) {
        self.with(&call, reply, |handle, reply| {
            // The session's task reads all messages, not the caller.
            handle.tell(Change::Stats { reply });
        });
    }

    fn fork_messages(&self, call: Call, reply: Reply<Vec<Arc<Message>>>) {
        self.read(&call, reply, |snapshot| Ok(snapshot.fork_messages()));
    }

    fn last_assistant_text(&self, call: Call, reply: Reply<Option<String>>) {
        self.read(&call, reply, |snapshot| {
            Ok(snapshot.messages().rev().find(|message| message.role == Role::Assistant).map(|m| m.text()))
        });
    }

    fn list_sessions(&self, call: Call, wanted: Listing, reply: Reply<Vec<ListedSession>>) {
        let shared = self.shared.clone();
        if wanted.text.as_ref().is_some_and(|text| text.len() > SEARCH_QUERY_BYTES) {
            let expected = format!("a text of at most {SEARCH_QUERY_BYTES} bytes");
            return reply.fail(ApiError::invalid_param("text", &expected));
        }
        self.with(&call, reply, |handle, reply| {
            shared.clone().tasks.spawn_blocking(move || {
                let facts = handle.snapshot().facts.clone();
                reply.send(shared.list(&facts, &wanted));
            });
        });
    }

    fn new_session(&self, call: Call, parent: Option<SessionId>, key: Option<String>, reply: Reply<Opened>) {
        self.with(&call.clone(), reply, |source, reply| {
            let parent = match parent {
                Some(id) => match self.shared.tree.get(&id) {
                    Ok(_) => Some(Parent { session: id, path: None, entry: None }),
                    Err(error) => return reply.fail(error),
                },
                None => None,
            };
            if let Err(error) = self.shared.tree.check_room() {
                return reply.fail(error);
            }
            let cwd = source.snapshot().facts.cwd.clone();
            if let Some(key) = key {
                let above = parent.as_ref().map_or("", |parent| parent.session.as_str());
                let request = incoming::of_op(&source.id, &key, ["new_session", above]);
                return self.opener.create_once(call, parent, cwd, request, reply);
            }
            let handle = self.opener.create(parent, cwd);
            self.opener.enter(&call, &handle, reply);
        });
    }

    fn open_session(&self, call: Call, session: SessionId, reply: Reply<SessionId>) {
        let _executor = self.shared.executor.enter();
        self.opener.open_only(call, session, reply);
    }

    fn switch_session(&self, call: Call, target: SwitchTarget, reply: Reply<Opened>) {
        let _executor = self.shared.executor.enter();
        self.opener.switch(call, target, reply);
    }

    fn fork(&self, call: Call, entry: EntryId, key: Option<String>, reply: Reply<Opened>) {
        self.with(&call.clone(), reply, |handle, reply| {
            let said = ["fork", handle.id.as_str(), entry.as_str()];
            let request = key.map(|key| incoming::of_op(&handle.id, &key, said));
            self.opener.fork(call, &handle, entry, request, reply);
        });
    }

    fn set_name(&self, call: Call, name: String, reply: Reply<String>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetName { call, name, reply });
        });
    }

    fn rename_session(&self, call: Call, session: SessionId, name: String, reply: Reply<String>) {
        let _executor = self.shared.executor.enter();
        self.opener.rename(call, session, name, reply);
    }

    fn archive_session(&self, call: Call, session: SessionId, archived: bool, reply: Reply<bool>) {
        self.opener.archive(call, session, archived, reply);
    }

    fn delete_session(&self, call: Call, session: SessionId, reply: Reply<()>) {
        self.opener.delete(call, session, reply);
    }

    fn read_output(&self, call: Call, handle: String, offset: u64, limit: usize, reply: Reply<OutputPart>) {
        let state_dir = self.shared.settings.state_dir.clone();
        let tasks = self.shared.tasks.clone();
        self.with(&call, reply, |session, reply| {
            let outputs = Outputs::new(&state_dir, session.id.as_str());
            tasks.spawn_blocking(move || match outputs.read(&handle, offset, limit) {
                Ok(Some(part)) => reply.ok(part),
                Ok(None) => reply.fail(ApiError::not_found("kept output", &handle)),
                Err(error) => reply.fail(ApiError::failed(format!("The output cannot be read: {error}."))),
            });
        });
    }

    fn export_html(&self, call: Call, path: Option<String>, reply: Reply<String>) {
        self.with(&call, reply, |handle, reply| {
            let work = move || reply.send(handle.snapshot().save_page(path.as_deref()));
            self.shared.tasks.spawn_blocking_on(work, &self.shared.executor);
        });
    }
}

impl Turns for Engine {
    fn prompt(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        let incoming = Incoming::of_op(&call.session, "prompt", prompt);
        Commands(self).line(call, incoming, reply);
    }

    fn steer(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        self.with(&call.clone(), reply, |handle, reply| {
            let incoming = Incoming::of_op(&call.session, "steer", prompt);
            handle.tell(Change::Enqueue { call, incoming, until: Until::NextCall, reply });
        });
    }

    fn follow_up(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        self.with(&call.clone(), reply, |handle, reply| {
            let incoming = Incoming::of_op(&call.session, "follow_up", prompt);
            handle.tell(Change::Enqueue { call, incoming, until: Until::TurnEnd, reply });
        });
    }

    fn ask_again(&self, call: Call, how: Again, key: Option<String>, reply: Reply<Prompted>) {
        self.with(&call.clone(), reply, |handle, reply| {
            let request = key.map(|key| incoming::of_op(&handle.id, &key, [how.as_str()]));
            handle.tell(Change::AskAgain { call, how, request, reply });
        });
    }

    fn abort(&self, call: Call, key: Option<String>, reply: Reply<bool>) {
        self.with(&call, reply, |handle, reply| {
            let request = key.map(|key| incoming::of_op(&handle.id, &key, ["abort"]));
            // At once, and again after an earlier prompt that still waits for the disk.
            if self.is_new(&handle, request.as_deref()) {
                handle.abort_and_hold();
            }
            if request.is_some() {
                return handle.tell(Change::Abort { request, reply });
            }
            reply.ok(false);
            handle.tell(Change::Abort { request, reply: Reply::new(|_| {}) });
        });
    }

    fn interrupt(&self, call: Call, key: Option<String>, reply: Reply<Interrupted>) {
        self.with(&call.clone(), reply, |handle, reply| {
            let request = key.map(|key| incoming::of_op(&handle.id, &key, ["interrupt"]));
            // At once: a stop does not wait for the disk.
            if self.is_new(&handle, request.as_deref()) {
                handle.interrupt(i64::MAX);
            }
            handle.tell(Change::Interrupt { call, request, before: None, reply });
        });
    }

    fn abort_retry(&self, call: Call, reply: Reply<()>) {
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::AbortRetry { reply });
        });
    }

    fn compact(&self, call: Call, instructions: Option<String>, reply: Reply<Option<String>>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::Compact { call, wishes: instructions, reply });
        });
    }

    fn commands(&self, call: Call, reply: Reply<Vec<CommandFacts>>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| {
            shared.clone().tasks.spawn_blocking(move || {
                let project = shared.search_folder(&handle.snapshot().facts.cwd);
                reply.ok(commands::listed(&project));
            });
        });
    }

    fn command(&self, call: Call, text: String, reply: Reply<()>) {
        if matches!(command::read(&text), Line::Text(_)) {
            return reply
                .fail(ApiError::invalid_param("text", "a slash command; prompt takes text for the model"));
        }
        let prompt = Prompt { message: text, ..Prompt::default() };
        Commands(self).line(
            call.clone(),
            Incoming { prompt, request: None },
            Reply::new(|result: Result<Prompted, ApiError>| reply.send(result.map(drop))),
        );
    }

    fn action_result(&self, call: Call, result: ActionResult, reply: Reply<()>) {
        Commands(self).chosen(call, result, reply);
    }

    fn update_context(&self, call: Call, editor: Editor, reply: Reply<()>) {
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::ShowEditor { editor: Box::new(editor), reply });
        });
    }
}

impl Queues for Engine {
    fn pending(&self, call: Call, entry: Option<EntryId>, reply: Reply<WaitingMessages>) {
        self.read(&call, reply, |snapshot| match entry {
            None => Ok(snapshot.queue.shown()),
            Some(entry) => {
                let waiting = snapshot.queue.get(&entry).ok_or_else(|| not_waiting(&entry))?;
                let messages = vec![waiting.shown(usize::MAX)];
                Ok(WaitingMessages { is_held: snapshot.queue.is_held(), messages })
            }
        });
    }

    fn edit_pending(&self, call: Call, entry: EntryId, content: Edited, reply: Reply<()>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::EditPending { call, entry, content: Box::new(content), reply });
        });
    }

    fn remove_pending(&self, call: Call, entry: EntryId, reply: Reply<Removed>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::RemovePending { call, entry, reply });
        });
    }

    fn move_pending(&self, call: Call, entry: EntryId, before: Option<EntryId>, reply: Reply<()>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::MovePending { call, entry, before, reply });
        });
    }

    fn resume_queue(&self, call: Call, reply: Reply<Resumed>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::ResumeQueue { call, reply });
        });
    }
}

impl Undos for Engine {
    fn undo(&self, call: Call, wish: Undo, reply: Reply<Undone>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::Undo { call, wish, reply });
        });
    }
}

impl Questions for Engine {
    fn decide(
        &self,
        call: Call,
        interaction_id: String,
        approve: bool,
        note: Option<String>,
        reply: Reply<()>,
    ) {
        // A question that is not open is refused with the reason.
        match self.shared.questions.decision(interaction_id, approve, note) {
            Ok(response) => self.respond(call, response, reply),
            Err(error) => reply.fail(error),
        }
    }

    fn respond(&self, call: Call, response: Response, reply: Reply<()>) {
        self.shared.questions.respond(call.connection, response, reply);
    }

    fn interactor_changed(&self, connection: u64) {
        let Some(client) = self.shared.hub.client(connection) else { return };
        if !client.is_interactor() {
            return self.shared.questions.left(connection);
        }
        if let Some(event) = self.shared.questions.joined(connection, &client) {
            let _ = client.deliver(&event);
        }
    }

    fn resolve_dialog(&self, call: Call, dialog: String, result: Option<DialogResult>, reply: Reply<()>) {
        self.shared.questions.resolve_dialog(call.connection, &dialog, result, reply);
    }
}

impl Settings for Engine {
    fn models(&self, _call: Call, reply: Reply<Vec<ModelFacts>>) {
        let manifest = self.shared.configuration.newest();
        let ready = manifest.providers.ready();
        let facts = |model: &Model| model.facts(ready.contains(&&*model.provider));
        reply.ok(manifest.models.iter().map(facts).collect());
    }

    fn set_model(
        &self,
        call: Call,
        provider: String,
        model: String,
        reach: Reach,
        reply: Reply<(String, String)>,
    ) {
        let manifest = self.shared.configuration.newest();
        if manifest.models.find(&provider, &model).is_none() {
            return reply.fail(unknown_model(&manifest.models, &provider, &model));
        }
        let shared = self.shared.clone();
        self.with(&call.clone(), reply, |handle, reply| {
            let set = move |reply: Reply<(String, String)>, provider: String, model: String| {
                handle.tell(Change::SetModel { call, provider: provider.into(), model: model.into(), reply });
            };
            if reach == Reach::Session {
                return set(reply, provider, model);
            }
            shared.clone().tasks.spawn_blocking(move || {
                match shared.configuration.choose_model(reach, &provider, &model) {
                    Ok(()) => set(reply, provider, model),
                    Err(error) => reply.fail(error),
                }
            });
        });
    }

    fn usual_model(&self) -> (Arc<str>, Arc<str>) {
        self.shared.configuration.usual_model()
    }

    fn cycle_model(&self, call: Call, forward: bool, reply: Reply<(String, String)>) {
        let manifest = self.shared.configuration.newest();
        let ready = manifest.providers.ready();
        let usable: Vec<(Arc<str>, Arc<str>)> = manifest
            .models
            .iter()
            .filter(|model| ready.contains(&&*model.provider))
            .map(|model| (model.provider.clone(), model.id.clone()))
            .collect();
        self.with(&call.clone(), reply, |handle, reply| {
            let facts = handle.snapshot().facts.clone();
            let now = usable
                .iter()
                .position(|(provider, id)| *provider == facts.model_provider && *id == facts.model_id);
            let next = match (now, usable.len()) {
                (_, 0) => None,
                (None, _) => usable.first(),
                (Some(now), all) => {
                    let step = if forward { 1 } else { all.saturating_sub(1) };
                    usable.get(now.saturating_add(step).checked_rem(all).unwrap_or(0))
                }
            };
            match next.cloned() {
                Some((provider, id)) => {
                    handle.tell(Change::SetModel { call, provider, model: id, reply });
                }
                None => reply.fail(ApiError::new(
                    ErrorCode::UnknownModel,
                    "No model of the catalogue can be used: no provider is set up.",
                )),
            }
        });
    }

    fn set_thinking_level(&self, call: Call, level: Option<ThinkingLevel>, reply: Reply<ThinkingLevel>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetThinking { call, level, reply });
        });
    }

    fn set_mode(&self, call: Call, mode: Mode, reply: Reply<Mode>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetMode { call, mode, reply });
        });
    }

    fn set_auto_compaction(&self, call: Call, enabled: bool, reply: Reply<bool>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetAutoCompaction { call, enabled, reply });
        });
    }

    fn set_auto_retry(&self, call: Call, enabled: bool, reply: Reply<bool>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetAutoRetry { call, enabled, reply });
        });
    }

    fn theme(&self) -> Option<String> {
        self.shared.settings.files.theme()
    }

    fn set_theme(&self, call: Call, name: String, reply: Reply<String>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |_, reply| {
            shared.clone().tasks.spawn_blocking(move || {
                let kept = shared.settings.files.choose_theme(&name);
                reply.send(kept.map_err(|error| ApiError::failed(error.to_string())));
            });
        });
    }

    fn trust_project(&self, call: Call, trusted: bool, shown: Option<ShownFiles>, reply: Reply<bool>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| {
            let cwd = handle.snapshot().facts.cwd.clone();
            let trust = move || reply.send(shared.trust(&cwd, trusted, shown.as_ref()).map(|()| trusted));
            self.shared.tasks.spawn_blocking(trust);
        });
    }
}

impl Permissions for Engine {
    fn rules(&self, call: Call, reply: Reply<Vec<ListedRule>>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| {
            self.shared.tasks.spawn_blocking(move || reply.ok(shared.listed_rules(&handle)));
        });
    }

    fn remove_rule(&self, call: Call, id: String, reply: Reply<()>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| {
            self.shared.tasks.spawn_blocking(move || reply.send(shared.take_rule_back(&handle, &id)));
        });
    }

    fn audit(&self, call: Call, wanted: AuditWanted, reply: Reply<AuditPage>) {
        let path = audit::path(&self.shared.settings.state_dir);
        self.with(&call, reply, |handle, reply| {
            self.shared.tasks.spawn_blocking(move || {
                let is_of = |record: &Map<'_>, key| {
                    record.get_keyword(key).and_then(Value::as_str) == Some(handle.id.as_str())
                };
                let is_wanted = |record: &Map<'_>| {
                    wanted.all || is_of(record, "session-id") || is_of(record, "parent-session-id")
                };
                let limit = wanted.limit.unwrap_or(AUDIT_PAGE).min(AUDIT_PAGE);
                let page = audit::page(&path, wanted.before, limit, is_wanted);
                let page = page.map(|(records, next)| AuditPage { records, next });
                reply.send(
                    page.map_err(|error| ApiError::failed(format!("The audit cannot be read: {error}."))),
                );
            });
        });
    }

    fn trust_preview(&self, call: Call, reply: Reply<TrustPreview>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| {
            let cwd = handle.snapshot().facts.cwd.clone();
            let preview = move || reply.ok(trust_preview::preview(&shared.configuration.files_of(&cwd)));
            self.shared.tasks.spawn_blocking(preview);
        });
    }
}

impl Logins for Engine {
    fn login_begin(&self, call: Call, provider: Option<String>, reply: Reply<LoginFacts>) {
        LoginDesk(&self.shared).begin(&call, provider, reply);
    }

    fn login_complete(&self, call: Call, input: Option<String>, reply: Reply<ProviderName>) {
        LoginDesk(&self.shared).complete(&call, input, reply);
    }

    fn logout(&self, call: Call, provider: String, reply: Reply<bool>) {
        LoginDesk(&self.shared).forget(&call, provider, reply);
    }
}

impl Jobs for Engine {
    fn bash(&self, call: Call, command: String, timeout_seconds: Option<u64>, reply: Reply<BashOutput>) {
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::Bash { command, timeout_seconds, reply });
        });
    }

    fn abort_bash(&self, call: Call, reply: Reply<()>) {
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::AbortBash { reply });
        });
    }

    fn jobs(&self, call: Call, statuses: Option<Vec<String>>, reply: Reply<Vec<Arc<JobFacts>>>) {
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::ListJobs { statuses, reply });
        });
    }

    fn job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>) {
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::GetJob { id, reply });
        });
    }

    fn cancel_job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>) {
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::CancelJob { id, reply });
        });
    }

    fn shell_start(&self, call: Call, command: ShellCommand, reply: Reply<Arc<ShellFacts>>) {
        self.with(&call, reply, |handle, reply| {
            let facts = handle.snapshot().facts.clone();
            let cwd = match shell_folder(&facts.cwd, command.cwd.as_deref()) {
                Ok(cwd) => cwd,
                Err(error) => return reply.fail(error),
            };
            let new = NewShell {
                session: handle.id.clone(),
                command: command.command,
                cwd,
                timeout: command.timeout_seconds.map(Duration::from_secs),
                hidden: handle.manifest().hidden.to_vec(),
            };
            shell_start::start(&self.shared, new, reply);
        });
    }

    fn shells(&self) -> Vec<Arc<ShellFacts>> {
        self.shared.shells.list()
    }

    fn shell_wait(&self, id: &str, patience: Option<Duration>, reply: Reply<(Arc<ShellFacts>, Waited)>) {
        self.wait_for_shell(id, patience, true, reply);
    }

    fn shell_detach(&self, id: &str, reply: Reply<Arc<ShellFacts>>) {
        reply.send(self.shared.shells.detach(id));
    }

    fn shell_cancel(&self, id: &str, reply: Reply<Arc<ShellFacts>>) {
        if let Err(error) = self.shared.shells.stop(id) {
            return reply.fail(error);
        }
        let ended = |ended: Result<(Arc<ShellFacts>, Waited), _>| reply.send(ended.map(|(facts, _)| facts));
        self.wait_for_shell(id, None, false, Reply::new(ended));
    }

    fn call_tool(&self, call: Call, tool: String, arguments: Value<'static>, reply: Reply<ToolOutcome>) {
        self.with(&call.clone(), reply, |handle, reply| {
            if handle.tools.find(&tool).is_none() {
                return reply.fail(ApiError::invalid_param("tool", "the name of a tool of the session"));
            }
            let asked = Box::new((tool, arguments));
            handle.tell(Change::CallTool { call, asked, reply });
        });
    }
}

impl Engine {
    /// Waits for a command of a person on a task of its own.
    fn wait_for_shell(
        &self,
        id: &str,
        patience: Option<Duration>,
        detachable: bool,
        reply: Reply<(Arc<ShellFacts>, Waited)>,
    ) {
        let (shared, id) = (self.shared.clone(), id.to_owned());
        // From now on, so that a request that follows at once is seen.
        let watch = match shared.shells.watch(&id, detachable) {
            Ok(watch) => watch,
            Err(error) => return reply.fail(error),
        };
        let wait = async move {
            let waited = watch.over(patience).await;
            reply.send(shared.shells.get(&id).map(|facts| (facts, waited)));
        };
        self.shared.tasks.spawn_on(wait, &self.shared.executor);
    }
}

/// The folder of a person's command: the session's, or one inside it.
fn shell_folder(root: &str, asked: Option<&str>) -> Result<PathBuf, ApiError> {
    let Some(asked) = asked else { return Ok(PathBuf::from(root)) };
    let inside = || -> Option<PathBuf> {
        let root = Path::new(root).canonicalize().ok()?;
        let folder = root.join(asked).canonicalize().ok()?;
        (within(&folder, &root) && folder.is_dir()).then_some(folder)
    };
    inside().ok_or_else(|| ApiError::invalid_param("cwd", "a folder inside the session's"))
}

impl Graph for Engine {
    fn query(&self, call: Call, query: Query, reply: Reply<QueryAnswer>) {
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
        self.with(&call, reply, |handle, reply| self.shared.keep_note(&handle, text, reply));
    }

    fn forget(&self, call: Call, note: String, reply: Reply<bool>) {
        self.with(&call, reply, |handle, reply| self.shared.forget_note(&handle, note, reply));
    }
}

/// `request/unknown-model`, with the most similar names.
fn unknown_model(models: &Models, provider: &str, id: &str) -> ApiError {
    let nearest = models.nearest(provider, id);
    let names: Vec<String> = nearest.iter().map(|model| format!("{} {}", model.provider, model.id)).collect();
    let [id, provider] = [id, provider].map(|name| catalogue::excerpt(name, ERROR_NAME_CHARS));
    let message =
        format!("There is no model {id:?} of provider {provider:?}. Nearest: {}.", names.join(", "));
    let nearest = nearest.iter().map(|model| {
        Value::from(Map::new().with("provider", model.provider.to_string()).with("id", model.id.to_string()))
    });
    ApiError::new(ErrorCode::UnknownModel, message).with("nearest", Value::vector(nearest))
}
