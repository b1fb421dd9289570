//! Turns and their queue, undo, and questions to people. Checks the call, and leaves the turn to the
//! session's task.

use std::sync::Arc;

use crate::engine::change::Change;
use crate::engine::commands::{self, Commands};
use crate::engine::host::Engine;
use crate::engine::incoming::{self, Incoming};
use crate::engine::login::LoginDesk;
use crate::engine::mcp;
use crate::engine::queue::{Until, not_waiting};
use crate::engine::remote::{RemoteCall, owner_elsewhere};
use crate::event::{Event, WaitingMessages};
use crate::facts::CommandFacts;
use crate::facts::editor::Editor;
use crate::interaction::ClientAnswer;
use crate::message::EntryId;
use crate::session::{
    ActionResult, Again, ApiError, Call, Client, DialogResult, Edited, Interrupted, Prompt, Prompted,
    Questions, Queues, Removed, Reply, Response, Resumed, Turns, Undo, Undone, Undos,
};
use crate::slash::{self, UserInput};

impl Turns for Engine {
    fn prompt(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        let incoming = Incoming::of_op(&call.session, "prompt", prompt);
        Commands(self).line(call, incoming, reply);
    }

    fn steer(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask_prompt(&call, prompt, RemoteCall::Steer, reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            let incoming = Incoming::of_op(&call.session, "steer", prompt);
            self.with_resources(handle, incoming, reply, |handle, incoming, reply| {
                handle.tell(Change::Enqueue { call, incoming, until: Until::NextCall, reply });
            });
        });
    }

    fn follow_up(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask_prompt(&call, prompt, RemoteCall::FollowUp, reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            let incoming = Incoming::of_op(&call.session, "follow_up", prompt);
            self.with_resources(handle, incoming, reply, |handle, incoming, reply| {
                handle.tell(Change::Enqueue { call, incoming, until: Until::TurnEnd, reply });
            });
        });
    }

    fn ask_again(&self, call: Call, how: Again, key: Option<String>, reply: Reply<Prompted>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            let key = key.or_else(|| Some(self.shared.clock.id("r-")));
            return owner.ask(RemoteCall::AskAgain(how, key), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            let request = key.map(|key| incoming::of_op(&handle.id, &key, [how.as_str()]));
            handle.tell(Change::AskAgain { call, how, request, reply });
        });
    }

    fn abort(&self, call: Call, key: Option<String>, reply: Reply<bool>) {
        LoginDesk(&self.shared).forget_connection(call.connection);
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::Abort(key), reply);
        }
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
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::Interrupt(key), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            let request = key.map(|key| incoming::of_op(&handle.id, &key, ["interrupt"]));
            // At once: a stop does not wait for the disk.
            let at_once = self.is_new(&handle, request.as_deref()).then(|| handle.interrupt()).flatten();
            handle.tell(Change::Interrupt { call, request, before: None, at_once, reply });
        });
    }

    fn abort_retry(&self, call: Call, reply: Reply<()>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::AbortRetry, reply);
        }
        self.with(&call, reply, |handle, reply| {
            handle.tell(Change::AbortRetry { reply });
        });
    }

    fn compact(&self, call: Call, instructions: Option<String>, reply: Reply<Option<String>>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::Compact(instructions), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::Compact { call, wishes: instructions, reply });
        });
    }

    fn commands(&self, call: Call, reply: Reply<Vec<CommandFacts>>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |handle, reply| {
            shared.clone().tasks.spawn(async move {
                let facts = handle.snapshot().facts.clone();
                // Of a session of another host, servers and what is in its folder are that host's.
                let of_servers = if facts.is_elsewhere {
                    Vec::new()
                } else {
                    shared.mcp.ready(&handle).await;
                    mcp::commands(&shared.mcp.used(&handle))
                };
                let in_realm = shared.federation.get().is_some();
                let searched = move || {
                    let project = (!facts.is_elsewhere).then(|| shared.search_folder(&facts.cwd));
                    let mut all: Vec<_> = commands::listed(project.as_deref(), in_realm)
                        .into_iter()
                        .chain(of_servers)
                        .collect();
                    let of_agent = facts.agent.iter().flat_map(|agent| agent.commands.iter());
                    for own in of_agent.filter_map(commands::of_agent) {
                        // A name that is known here is ours.
                        if !all.iter().any(|known| known.name == own.name) {
                            all.push(own);
                        }
                    }
                    reply.ok(all);
                };
                // Its end is the reply.
                let _ = tokio::task::spawn_blocking(searched).await;
            });
        });
    }

    fn command(&self, call: Call, text: String, reply: Reply<()>) {
        if matches!(slash::read(&text), UserInput::Text(_)) {
            return reply
                .fail(ApiError::invalid_param("text", "a slash command; prompt takes text for the model"));
        }
        let prompt = Prompt { message: text, ..Prompt::default() };
        Commands(self).line(
            call.clone(),
            Incoming::new(prompt, None),
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
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::EditPending(entry, content), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::EditPending { call, entry, content: Box::new(content), reply });
        });
    }

    fn remove_pending(&self, call: Call, entry: EntryId, reply: Reply<Removed>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::RemovePending(entry), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::RemovePending { call, entry, reply });
        });
    }

    fn move_pending(&self, call: Call, entry: EntryId, before: Option<EntryId>, reply: Reply<()>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::MovePending(entry, before), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::MovePending { call, entry, before, reply });
        });
    }

    fn resume_queue(&self, call: Call, reply: Reply<Resumed>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::ResumeQueue, reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::ResumeQueue { call, reply });
        });
    }
}

impl Undos for Engine {
    fn undo(&self, call: Call, wish: Undo, reply: Reply<Undone>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::Undo(wish), reply);
        }
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
        self.answer(call, ClientAnswer::Response(Box::new(response)), reply);
    }

    fn interactor_changed(&self, connection: u64) {
        let Some(client) = self.shared.hub.client(connection) else { return };
        if !client.is_interactor() {
            return self.shared.questions.left(connection);
        }
        for event in self.joined(connection, &client) {
            let _ = client.deliver(&event);
        }
    }

    fn resolve_dialog(&self, call: Call, dialog: String, result: Option<DialogResult>, reply: Reply<()>) {
        self.answer(call, ClientAnswer::Dialog(dialog, result), reply);
    }
}

impl Engine {
    /// Takes an answer. That to a question of a session's turn counts once it is in the session's journal.
    fn answer(&self, call: Call, given: ClientAnswer, reply: Reply<()>) {
        let journal = self.shared.questions.journal_of(given.question());
        if let Some(handle) = journal.and_then(|session| self.shared.tree.get(&session).ok()) {
            let reply = Reply::new(move |answered: Result<Prompted, _>| reply.send(answered.map(drop)));
            return handle.tell(Change::Answer { call, request: None, given, reply });
        }
        self.shared.questions.respond(call.connection, given, reply);
    }

    /// A connection answers questions from now on: it sees the first open one of each root session, and turns that wait
    /// for somebody go on.
    pub(in crate::engine) fn joined(&self, connection: u64, client: &Arc<dyn Client>) -> Vec<Event> {
        let events = self.shared.questions.joined(connection, client);
        for handle in self.shared.tree.all() {
            if handle.snapshot().facts.interrupted.is_some() {
                handle.tell(Change::TakeUp { variables: None });
            }
        }
        events
    }
}
