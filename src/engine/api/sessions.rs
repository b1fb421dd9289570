//! Sessions: opened, listed, named, read and put away. Reads snapshots, and leaves every change to the session's
//! task.

use std::path::PathBuf;
use std::sync::Arc;

use crate::engine::change::Change;
use crate::engine::external::Occasion;
use crate::engine::host::Engine;
use crate::engine::open::{ForksAtAgent, Written};
use crate::engine::remote::{Owner, RemoteCall, owner_elsewhere};
use crate::engine::{incoming, listing};
use crate::facts::{HostFacts, ListedSessions, OutputPart, SessionFacts, SessionStats};
use crate::limits::{SEARCH_QUERY_BYTES, SESSION_ROOTS};
use crate::message::{EntryId, Message, Role, SessionId};
use crate::session::{ApiError, Call, Listing, NewSession, Opened, Page, Reply, Sessions, SwitchTarget};
use crate::store::Parent;
use crate::tool::output::Outputs;

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
        self.with(&call, reply, |handle, reply| {
            let page = handle.snapshot().page(before.as_ref(), limit);
            reply.send(page.map(|page| Page { faults: handle.untold_repairs(), ..page }));
        });
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

    fn list_sessions(&self, call: Call, wanted: Listing, reply: Reply<ListedSessions>) {
        let shared = self.shared.clone();
        if wanted.text.as_ref().is_some_and(|text| text.len() > SEARCH_QUERY_BYTES) {
            let expected = format!("a text of at most {SEARCH_QUERY_BYTES} bytes");
            return reply.fail(ApiError::invalid_param("text", &expected));
        }
        self.with(&call, reply, |handle, reply| {
            shared.clone().tasks.spawn_blocking(move || {
                let facts = handle.snapshot().facts.clone();
                reply.send(listing::list(&shared, &facts, &wanted));
            });
        });
    }

    fn new_session(&self, call: Call, wanted: NewSession, reply: Reply<Opened>) {
        let NewSession { parent, key, servers, agent, roots } = wanted;
        let roots = match resolved_roots(&roots) {
            Ok(roots) => roots,
            Err(error) => return reply.fail(error),
        };
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
            let agent = match agent {
                Some(name) => match source.config().agent(&name) {
                    Ok(setup) => Some(setup.name),
                    Err(error) => return reply.fail(error),
                },
                None => None,
            };
            let cwd = source.snapshot().facts.cwd.clone();
            if key.is_some() || agent.is_some() {
                let above = parent.as_ref().map_or("", |parent| parent.session.as_str());
                let said = ["new_session", above].into_iter().chain(agent.as_deref());
                let request = key.map(|key| incoming::of_op(&source.id, &key, said));
                let wanted = Written { parent, cwd, request, servers, agent, roots };
                return self.opener.create_once(call, wanted, reply);
            }
            let handle = self.opener.create(parent, cwd);
            handle.set_roots(roots);
            if let Err(error) = self.shared.mcp.bring(&handle, &servers) {
                self.shared.tree.remove(&handle.id);
                return reply.fail(error);
            }
            self.opener.enter(&call, &handle, reply);
        });
    }

    fn open_session(&self, call: Call, session: SessionId, reply: Reply<SessionId>) {
        let _executor = self.shared.executor.enter();
        self.opener.open_only(call, session, reply);
    }

    fn set_roots(&self, call: Call, roots: Vec<PathBuf>, reply: Reply<()>) {
        self.with(&call, reply, |handle, reply| {
            // A child has those of the session that it works for.
            let set = resolved_roots(&roots).map(|roots| match handle.parent {
                Some(_) => {}
                None => handle.set_roots(roots),
            });
            reply.send(set);
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
            let forks = handle.snapshot().facts.agent.as_ref().map(|agent| -> ForksAtAgent {
                let (foreign, occasion) =
                    (self.foreign.clone(), Occasion::of_request(&handle, call.cause()));
                let (name, entry) = (agent.name.clone(), entry.clone());
                // Looked at only once it is known that no fork has this key already.
                Box::pin(async move {
                    let now = occasion.session.snapshot();
                    // The conversation that counts is the agent's, which stands where it stands.
                    let last = now.messages().next_back().map(|message| &message.id);
                    if last != Some(&entry) || now.facts.is_streaming() {
                        return Err(ApiError::failed(format!(
                            "The agent {name} forks its session where it stands: fork at the last message, while no \
                             turn runs."
                        )));
                    }
                    foreign.fork(&occasion).await
                })
            });
            self.opener.fork(call, &handle, entry, request, forks, reply);
        });
    }

    fn set_name(&self, call: Call, name: String, reply: Reply<String>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::SetName(name), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetName { call, name, reply });
        });
    }

    fn rename_session(&self, call: Call, session: SessionId, name: String, reply: Reply<String>) {
        if let Some(owner) = Owner::listed(self, &session) {
            return owner.ask(RemoteCall::SetName(name), reply);
        }
        let _executor = self.shared.executor.enter();
        self.opener.rename(call, session, name, reply);
    }

    fn archive_session(&self, call: Call, session: SessionId, archived: bool, reply: Reply<bool>) {
        self.opener.archive(call, session, archived, reply);
    }

    fn delete_session(&self, call: Call, session: SessionId, reply: Reply<()>) {
        self.opener.delete(call, session, reply);
    }

    fn share_session(&self, call: Call, reply: Reply<()>) {
        self.with(&call, reply, |handle, reply| handle.tell(Change::Share { reply }));
    }

    fn take_session(&self, call: Call, session: SessionId, cwd: Option<PathBuf>, reply: Reply<String>) {
        let _executor = self.shared.executor.enter();
        self.opener.take(&call, session, cwd, reply);
    }

    fn hand_over_session(&self, call: Call, session: SessionId, host: String, reply: Reply<String>) {
        let _executor = self.shared.executor.enter();
        self.opener.give(&Call { session, ..call }, host, reply);
    }

    fn hosts(&self, _: Call, reply: Reply<Vec<HostFacts>>) {
        let _executor = self.shared.executor.enter();
        self.opener.hosts(reply);
    }

    fn read_output(&self, call: Call, handle: String, offset: u64, limit: usize, reply: Reply<OutputPart>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::ReadOutput(handle, offset, limit), reply);
        }
        let state_dir = self.shared.settings.state_dir.clone();
        let tasks = self.shared.tasks.clone();
        self.with(&call, reply, |session, reply| {
            // The history of a fork names outputs of the session that it was forked from.
            let source = session.snapshot().facts.parent.clone();
            let from = |id: &SessionId| Outputs::new(&state_dir, id.as_str());
            let (own, source) = (from(&session.id), source.as_ref().map(from));
            tasks.spawn_blocking(move || match read_first(own, source, &handle, offset, limit) {
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

/// A part of an output of the session, or else of its source.
fn read_first(
    own: Outputs,
    source: Option<Outputs>,
    handle: &str,
    offset: u64,
    limit: usize,
) -> std::io::Result<Option<OutputPart>> {
    for outputs in std::iter::once(own).chain(source) {
        if let Some(part) = outputs.read(handle, offset, limit)? {
            return Ok(Some(part));
        }
    }
    Ok(None)
}

/// Further folders of a session as the rules compare them.
///
/// # Errors
/// `request/invalid-params` for one that is not there, and if there are too many.
fn resolved_roots(roots: &[PathBuf]) -> Result<Vec<PathBuf>, ApiError> {
    if roots.len() > SESSION_ROOTS {
        return Err(ApiError::invalid_param("roots", &format!("at most {SESSION_ROOTS} folders")));
    }
    let resolved = roots.iter().map(|root| {
        let folder = root.canonicalize().ok().filter(|folder| folder.is_dir());
        folder.ok_or_else(|| {
            ApiError::invalid_param("roots", &format!("folders that are there; {} is not", root.display()))
        })
    });
    resolved.collect()
}
