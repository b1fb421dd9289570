//! What a session's journal says, as a state: its entries, and all that follows from them.
//!
//! Pure: entries in, facts and entries out. The same [`SessionState::apply`] builds the state when a session is opened and
//! keeps it up while the session runs. Knows no disk, no client, no configuration and no task.

use std::sync::Arc;

use crate::clock::{Clock, rfc3339};
use crate::engine::conversation;
use crate::engine::editor_view::EditorView;
use crate::engine::entries::EntryTree;
use crate::engine::idempotency::IdempotencyKeys;
use crate::engine::queue::MessageQueue;
use crate::engine::run_record::{self, RUN_PREFIX, RunRecord};
use crate::engine::snapshot::SessionSnapshot;
use crate::engine::undo::UndoHistory;
use crate::event::{RunEnd, TurnOutcome};
use crate::facts::SessionFacts;
use crate::facts::agent::AgentFacts;
use crate::limits::AGENT_OPTIONS;
use crate::message::{Block, EntryId, Message, Mode, Role, ThinkingLevel, TurnId, Usage};
use crate::store::record::{
    CHOSEN_OPTIONS, KeyedRequest, OwnerRecord, Requested, TurnEvent, TurnRecord, Wish,
};
use crate::store::{Entry, EntryBody};
use crate::tool::WEB_SEARCH;
use crate::value::{Map, Value};

/// A session's state, as far as it follows from its entries.
pub struct SessionState {
    pub entries: EntryTree,
    /// What readers see besides history. The session's task adds what no entry says: the phase, the branch of the
    /// repository, what is known of the model.
    pub facts: SessionFacts,
    /// The queued messages.
    pub queue: MessageQueue,
    /// Whether it has changed since clients were told.
    pub queue_is_new: bool,
    /// The keys of requests.
    pub idempotency: IdempotencyKeys,
    /// What its turns did to files.
    pub changes: UndoHistory,
    pub editor: EditorView,
    /// The newest entry that says which host owns the session.
    pub owner: Option<Box<OwnerRecord>>,
    /// Whether the size of the conversation is to be estimated.
    is_size_unknown: bool,
}

impl SessionState {
    /// The state of a session without entries.
    pub fn new(facts: SessionFacts) -> Self {
        Self {
            entries: EntryTree::default(),
            facts,
            queue: MessageQueue::default(),
            queue_is_new: false,
            idempotency: IdempotencyKeys::default(),
            changes: UndoHistory::default(),
            editor: EditorView::default(),
            owner: None,
            is_size_unknown: false,
        }
    }

    /// Applies an entry that is on disk.
    pub fn apply(&mut self, entry: &Arc<Entry>) {
        self.idempotency.apply(entry, &self.facts.id);
        self.changes.apply(entry, &self.facts.id);
        let facts = &mut self.facts;
        if self.entries.push(entry) {
            self.editor.forget_sent();
            facts.message_count = self.entries.messages();
        } else if matches!(entry.body, EntryBody::Message(_)) {
            facts.message_count = facts.message_count.saturating_add(1);
        }
        match &entry.body {
            EntryBody::Message(message) => {
                if let Some(usage) = &message.usage {
                    facts.usage.add(usage);
                }
                // An agent says itself how full its model's window is.
                if facts.agent.is_none() && message.role == Role::Assistant {
                    match message.usage.as_ref().map(Usage::total).filter(|tokens| *tokens > 0) {
                        Some(tokens) => (facts.context_tokens, self.is_size_unknown) = (tokens, false),
                        // Some servers send no figures.
                        None => self.is_size_unknown = !message.is_empty(),
                    }
                }
                if message.role == Role::User && facts.first_message.is_none() {
                    let start: String = message.text().chars().take(80).collect();
                    facts.first_message = Some(start.replace('\n', " ").into());
                }
            }
            EntryBody::Name(name) => facts.name = Some(name.clone()),
            EntryBody::Model { provider, id } => {
                facts.model_provider = provider.clone();
                facts.model_id = id.clone();
                facts.model_notice = None;
            }
            EntryBody::Setting { key, value } => match (key.as_ref(), value.as_str(), value.as_bool()) {
                ("thinking", Some(level), _) => {
                    facts.thinking = ThinkingLevel::parse(level).unwrap_or(facts.thinking);
                }
                // A mode that is not understood, from a newer version, allows least.
                ("mode", Some(mode), _) => facts.mode = Mode::parse(mode).unwrap_or(Mode::ReadOnly),
                ("auto-compaction", _, Some(enabled)) => facts.auto_compaction = enabled,
                ("auto-retry", _, Some(enabled)) => facts.auto_retry = enabled,
                (WEB_SEARCH, _, Some(enabled)) => facts.web_search = Some(enabled),
                ("mcp-off", ..) => {
                    let names = value.as_slice().unwrap_or_default().iter().filter_map(Value::as_str);
                    facts.mcp_off = Arc::new(names.map(Arc::from).collect());
                }
                (CHOSEN_OPTIONS, ..) => {
                    let pairs = value.as_map().into_iter().flat_map(Map::iter);
                    let chosen =
                        pairs.filter_map(|(id, value)| Some((Arc::from(id.as_str()?), value.clone())));
                    if let Some(agent) = &mut facts.agent {
                        Arc::make_mut(agent).chosen = chosen.take(AGENT_OPTIONS).collect();
                    }
                }
                _ => {}
            },
            EntryBody::Context(context) => {
                if let Some(editor) = &context.editor {
                    self.editor.set_sent(editor.clone());
                }
            }
            EntryBody::Compaction(_) => {
                // It may be among what is no longer sent.
                self.editor.forget_sent();
                // Until the next call says so exactly.
                self.is_size_unknown = true;
            }
            EntryBody::Queued(_) | EntryBody::Dequeued(_) | EntryBody::Queue(_) => {
                self.queue.apply(entry, &facts.id);
                facts.pending_messages = self.queue.len();
                facts.queue_held = self.queue.is_held();
                self.queue_is_new = true;
            }
            EntryBody::Agent(record) => {
                let known = facts.agent.take().filter(|known| known.name == record.name);
                let known = known.map(Arc::unwrap_or_clone).unwrap_or_default();
                facts.answered_by(AgentFacts {
                    name: record.name.clone(),
                    session: record.agent_session_id.clone(),
                    info: record.info.clone().or(known.info.clone()),
                    ..known
                });
            }
            EntryBody::Owner(owner) if owner.session_id == facts.id => {
                facts.host = Some(owner.host.clone()).filter(|host| !host.is_empty());
                facts.cwd = owner.cwd.clone();
                self.owner = Some(owner.clone());
            }
            EntryBody::Turn(turn) if turn.session_id == facts.id => {
                facts.interrupted = (turn.event == TurnEvent::Interrupted).then(|| turn.turn_id.clone());
            }
            EntryBody::Leaf(_)
            | EntryBody::Rewritten(_)
            | EntryBody::Withheld(_)
            | EntryBody::Update(_)
            | EntryBody::Manifest(_)
            | EntryBody::Workflow(_)
            | EntryBody::Requested(_)
            | EntryBody::Turn(_)
            | EntryBody::Files(_)
            | EntryBody::Question(_)
            | EntryBody::Answer(_)
            | EntryBody::Call(_)
            | EntryBody::Owner(_)
            | EntryBody::Other { .. } => {}
        }
    }

    /// Estimates the size of the conversation where no server has said it: once for many entries that are applied.
    pub fn estimate_size(&mut self) {
        if std::mem::take(&mut self.is_size_unknown) {
            let messages = conversation::messages(self.entries.branch());
            let tokens = messages.iter().map(|message| conversation::tokens(message));
            self.facts.context_tokens = tokens.fold(0, u64::saturating_add);
        }
    }

    /// The next entries, each following the one before. A request stands in the line of what carries it out: the requests
    /// are those of the messages and wishes among the entries, in order.
    pub fn next_entries(
        &self,
        bodies: Vec<EntryBody>,
        requests: impl IntoIterator<Item = Option<Arc<KeyedRequest>>>,
        clock: &dyn Clock,
    ) -> Vec<Arc<Entry>> {
        let mut requests = requests.into_iter();
        let ts = rfc3339(clock.now());
        let mut parent = self.entries.last().cloned();
        let mut entries = Vec::with_capacity(bodies.len());
        for mut body in bodies {
            let id = EntryId::from(clock.id("e-"));
            let request = match &body {
                EntryBody::Message(_) | EntryBody::Queued(_) | EntryBody::Requested(_) => {
                    requests.next().flatten()
                }
                _ => None,
            };
            if let EntryBody::Message(message) = &mut body {
                let message = Arc::make_mut(message);
                message.sender = request.as_ref().and_then(|request| request.sender.clone());
                message.id = id.clone();
                message.parent_id = parent.clone();
                message.timestamp = ts.clone();
            }
            // What follows a leaf follows the entry that it names.
            let next = match &body {
                EntryBody::Leaf(leaf) => leaf.clone(),
                _ => id.clone(),
            };
            entries.push(Arc::new(Entry { id, parent: parent.replace(next), ts: ts.clone(), request, body }));
        }
        entries
    }

    /// The state for readers, with the size of the journal in bytes.
    pub fn snapshot(&self, bytes: u64, can_retry: bool) -> SessionSnapshot {
        SessionSnapshot {
            facts: Arc::new(SessionFacts { can_retry, ..self.facts.clone() }),
            branch: self.entries.branch().clone(),
            entries: self.entries.all().clone(),
            offset: self.entries.offset(),
            bytes,
            queue: self.queue.clone(),
            idempotency: self.idempotency.clone(),
        }
    }

    /// The newest run of a workflow here, or of any.
    pub fn newest_run(&self, named: Option<&str>) -> Option<RunRecord> {
        run_record::newest(self.entries.all(), &self.facts.id, named)
    }

    /// How a workflow's run ended that held the session under this id.
    pub fn run_end(&self, turn: &TurnId) -> Option<RunEnd> {
        // Only a run's id begins so: the entries of other turns are not searched.
        let id = Some(turn.as_str()).filter(|id| id.starts_with(RUN_PREFIX))?;
        let run = self.newest_run(None).filter(|run| run.id == id && !run.ended.is_empty())?;
        let reason = Some(run.why).filter(|why| !why.is_empty());
        Some(RunEnd { outcome: run.ended.into(), reason: reason.map(Into::into) })
    }

    /// The entry of what happened to a turn, with the outcome of its end.
    pub fn turn_record(&self, turn: &TurnId, event: TurnEvent, outcome: Option<TurnOutcome>) -> EntryBody {
        EntryBody::Turn(TurnRecord {
            session_id: self.facts.id.clone(),
            turn_id: turn.clone(),
            event,
            outcome: outcome.map(|outcome| outcome.as_str().to_owned()),
        })
    }

    /// The entry of a request that leaves no message.
    pub fn requested(&self, wish: Wish, turn: Option<&TurnId>) -> EntryBody {
        EntryBody::Requested(Requested { session_id: self.facts.id.clone(), wish, turn_id: turn.cloned() })
    }
}

/// A message of the user's in a turn.
pub fn user_message(content: Vec<Block>, turn: &TurnId) -> EntryBody {
    let mut message = Message::new(EntryId::from(""), Role::User, content, Arc::from(""));
    message.turn_id = Some(turn.clone());
    EntryBody::Message(Arc::new(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::engine::queue::{Until, queued};

    fn state() -> SessionState {
        SessionState::new(SessionFacts::empty("s".into()))
    }

    fn text(text: &str) -> Vec<Block> {
        vec![Block::Text(text.into())]
    }

    /// A session that is opened again stands as it stood while it ran, and does not know what is its source's alone.
    #[test]
    fn opened_state_is_the_running_state() {
        let turn = TurnId::from("t");
        let of = |session: &str, event| {
            let (session_id, turn_id) = (session.into(), turn.clone());
            EntryBody::Turn(TurnRecord { session_id, turn_id, event, outcome: None })
        };
        let groups = [
            vec![user_message(text("first\nline"), &turn), of("s", TurnEvent::Began)],
            vec![EntryBody::Model { provider: "p".into(), id: "m".into() }],
            vec![EntryBody::Setting { key: "mode".into(), value: Value::from("of a newer version") }],
            vec![queued(&"s".into(), Until::TurnEnd, &text("waits"), Some(&turn))],
            vec![queued(&"source".into(), Until::TurnEnd, &text("waits there"), None)],
            vec![
                EntryBody::Name("n".into()),
                of("s", TurnEvent::Interrupted),
                of("source", TurnEvent::Ended),
            ],
        ];
        let (mut running, mut written) = (state(), Vec::new());
        for bodies in groups {
            let entries = running.next_entries(bodies, [], &SystemClock);
            entries.iter().for_each(|entry| running.apply(entry));
            written.extend(entries);
        }
        let facts = &running.facts;
        assert_eq!((facts.message_count, facts.first_message.as_deref()), (1, Some("first line")));
        assert_eq!((&*facts.model_provider, &*facts.model_id, facts.mode), ("p", "m", Mode::ReadOnly));
        assert_eq!((facts.name.as_deref(), facts.interrupted.as_ref()), (Some("n"), Some(&turn)));
        assert_eq!((facts.pending_messages, running.queue.len(), running.queue_is_new), (1, 1, true));

        let mut opened = state();
        written.iter().for_each(|entry| opened.apply(entry));
        let shown = |state: &SessionState| format!("{:?}", state.snapshot(0, false));
        assert_eq!(shown(&opened), shown(&running));
        assert_eq!(opened.entries.branch(), opened.entries.all(), "each entry follows the one before");
    }

    #[test]
    fn request_stands_in_the_line_that_carries_it_out() {
        let request = |id: &str| {
            Some(Arc::new(KeyedRequest {
                sender: Some("who".into()),
                ..*crate::engine::incoming::of_op(&"s".into(), id, [])
            }))
        };
        let turn = TurnId::from("t");
        let state = state();
        let bodies = vec![
            EntryBody::Name("n".into()),
            user_message(text("a"), &turn),
            state.requested(Wish::Abort, None),
            EntryBody::Leaf("e0".into()),
            user_message(text("b"), &turn),
        ];
        let entries = state.next_entries(bodies, [None, request("k")], &SystemClock);
        let keys: Vec<_> = entries.iter().map(|entry| entry.request.as_ref().map(|key| &*key.id)).collect();
        assert_eq!(keys, [None, None, Some("k"), None, None]);
        assert_eq!(entries[4].parent, Some("e0".into()), "what follows a leaf follows what that names");
    }
}
