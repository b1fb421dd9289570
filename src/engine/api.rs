//! Implements the session API.

use std::sync::Arc;

use crate::clock::epoch_millis;
use crate::command::{self, Line};
use crate::engine::change::Change;
use crate::engine::commands::{self, Commands};
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::incoming::{self, Incoming};
use crate::engine::ledger::Lookup;
use crate::engine::login::LoginDesk;
use crate::engine::open::{history, show};
use crate::engine::process_snapshot::ProcessSnapshot;
use crate::engine::queue::Until;
use crate::engine::snapshot::Snapshot;
use crate::event::question::ApprovalScope;
use crate::event::{Body, Cause, Event};
use crate::facts::editor::Editor;
use crate::facts::{
    BashOutput, CommandFacts, JobFacts, ListedSession, LoginFacts, ModelFacts, Note, OutputPart,
    ProviderName, SessionFacts, SessionStats,
};
use crate::limits::{LEDGER_WINDOW_MS, SEARCH_QUERY_BYTES};
use crate::message::{EntryId, Message, Mode, Role, SessionId, ThinkingLevel};
use crate::provider::models::{Model, Models};
use crate::query;
use crate::session::{
    ActionResult, AnswerFields, ApiError, Call, Client, Clients, DialogResult, Graph, Interrupted, Jobs,
    Logins, Opened, Page, Prompt, Prompted, Query, QueryAnswer, Questions, Reach, Reply, Response, Scope,
    Sessions, Settings, ShownFiles, Snapshot as Shown, SwitchTarget, Tally, Turns,
};
use crate::store::Parent;
use crate::store::record::Request;
use crate::tool::output::Outputs;
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
            handle.snapshot().ledger.look_up(request, now, LEDGER_WINDOW_MS) == Lookup::New
        })
    }
}

impl Clients for Engine {
    fn attach(&self, connection: u64, client: Arc<dyn Client>) -> SessionId {
        self.shared.hub.attach(connection, client);
        let _executor = self.shared.executor.enter();
        let cwd = self.shared.settings.cwd.to_string_lossy().into();
        self.shared.tree.primary.get_or_init(|| self.opener.create(None, cwd).id).clone()
    }

    fn detach(&self, connection: u64, reply: Reply<()>) {
        LoginDesk(&self.shared).forget_connection(connection);
        if !self.shared.hub.is_last(connection) {
            self.shared.hub.detach(connection);
            self.shared.questions.left(connection);
            return reply.ok(());
        }
        // The last connection still learns how its turns end.
        let shared = self.shared.clone();
        let leave = Reply::new(move |_| {
            shared.hub.detach(connection);
            shared.questions.left(connection);
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
        self.read(&call, reply, |snapshot| {
            Ok(snapshot.messages().filter(|message| message.role == Role::User).cloned().collect())
        });
    }

    fn last_assistant_text(&self, call: Call, reply: Reply<Option<String>>) {
        self.read(&call, reply, |snapshot| {
            Ok(snapshot.messages().rev().find(|message| message.role == Role::Assistant).map(|m| m.text()))
        });
    }

    fn list_sessions(
        &self,
        call: Call,
        text: Option<String>,
        limit: Option<usize>,
        scope: Scope,
        reply: Reply<Vec<ListedSession>>,
    ) {
        let shared = self.shared.clone();
        if text.as_ref().is_some_and(|text| text.len() > SEARCH_QUERY_BYTES) {
            let expected = format!("a text of at most {SEARCH_QUERY_BYTES} bytes");
            return reply.fail(ApiError::invalid_param("text", &expected));
        }
        self.with(&call, reply, |handle, reply| {
            shared.clone().tasks.spawn_blocking(move || {
                let facts = handle.snapshot().facts.clone();
                reply.send(match text {
                    None => shared.list(&facts, limit, scope),
                    Some(text) => shared.search(&facts, &text, limit, scope),
                });
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

    fn abort(&self, call: Call, key: Option<String>, reply: Reply<bool>) {
        self.with(&call, reply, |handle, reply| {
            let request = key.map(|key| incoming::of_op(&handle.id, &key, ["abort"]));
            // At once, and again after an earlier prompt that still waits for the disk.
            if self.is_new(&handle, request.as_deref()) {
                handle.abort();
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

impl Questions for Engine {
    fn decide(
        &self,
        call: Call,
        interaction_id: String,
        approve: bool,
        note: Option<String>,
        reply: Reply<()>,
    ) {
        let kind = self.shared.questions.kind(&interaction_id);
        if let Some(kind) = kind.filter(|kind| !kind.is_yes_or_no()) {
            let message = format!(
                "A question of the kind {} takes more than a yes or no: answer it with interaction_respond.",
                kind.as_str()
            );
            return reply.fail(ApiError::new(crate::catalogue::ErrorCode::InvalidParams, message));
        }
        // A question that is not open is refused with the reason.
        let answer = AnswerFields {
            ok: Some(approve),
            done: Some(approve),
            outcome: Some(if approve { "approve" } else { "deny" }.to_owned()),
            scope: Some(ApprovalScope::Once.as_str().to_owned()),
            ..AnswerFields::default()
        };
        self.respond(call, Response { interaction_id, accepted: true, answer, note }, reply);
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
                    crate::catalogue::ErrorCode::UnknownModel,
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

    fn trust_project(&self, call: Call, trusted: bool, shown: Option<ShownFiles>, reply: Reply<bool>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| {
            let cwd = handle.snapshot().facts.cwd.clone();
            let trust = move || reply.send(shared.trust(&cwd, trusted, shown.as_ref()).map(|()| trusted));
            self.shared.tasks.spawn_blocking(trust);
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
    let message =
        format!("There is no model {id:?} of provider {provider:?}. Nearest: {}.", names.join(", "));
    let nearest = nearest.iter().map(|model| {
        Value::from(Map::new().with("provider", model.provider.to_string()).with("id", model.id.to_string()))
    });
    ApiError::new(crate::catalogue::ErrorCode::UnknownModel, message).with("nearest", Value::vector(nearest))
}
