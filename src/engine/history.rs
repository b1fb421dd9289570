//! A session's history for frontends: pages of messages, the newest part for a new frontend, figures.
//!
//! Reads a snapshot. Pages are bounded in messages and in bytes, so that entering a session costs the same,
//! however long it is. Does not know the wire.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::engine::snapshot::SessionSnapshot;
use crate::event::{PastCall, Rehydration, ToolCall};
use crate::export::{self, Format, Transcript};
use crate::facts::SessionStats;
use crate::limits::{MAX_PAGE_BYTES, PAGE_BYTES, PAGE_MESSAGES};
use crate::message::{Block, EntryId, Message, Role, StopReason, TurnId};
use crate::session::{ApiError, Page};
use crate::store::{Entry, EntryBody};
use crate::value::Value;

impl SessionSnapshot {
    /// The messages of the branch, oldest first.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        self.branch.iter().filter_map(|entry| match &entry.body {
            EntryBody::Message(message) => Some(message),
            _ => None,
        })
    }

    /// The newest messages, or those before an entry: at most `limit`, and no more than fit well into one
    /// frame.
    ///
    /// # Errors
    /// `request/not-found` if the entry is not on the branch.
    pub fn page(&self, before: Option<&EntryId>, limit: Option<usize>) -> Result<Page, ApiError> {
        let bytes = if limit.is_some() { MAX_PAGE_BYTES } else { PAGE_BYTES };
        let limit = limit.unwrap_or(PAGE_MESSAGES);
        let end = match before {
            None => self.branch.len(),
            Some(id) => self.place(id).ok_or_else(|| ApiError::not_found("entry", id.as_str()))?,
        };
        let mut interrupted: Vec<TurnId> = Vec::new();
        let newest =
            self.branch.focus().narrow(..end).into_iter().rev().filter_map(|entry| match &entry.body {
                EntryBody::Message(message) => Some(message.clone()),
                // It follows the last message of its turn.
                body => {
                    interrupted.extend(body.interrupted().cloned());
                    None
                }
            });
        let page = fitting(newest, limit, bytes);
        interrupted.retain(|turn| page.messages.iter().any(|message| message.turn_id.as_ref() == Some(turn)));
        interrupted.reverse();
        Ok(Page { interrupted, ..page })
    }

    /// The messages at which the session can be forked, oldest first: the user's newest that fit into one frame, or the last
    /// message of an agent's session, which forks only where it stands.
    pub fn fork_messages(&self) -> Vec<Arc<Message>> {
        if self.facts.agent.is_some() {
            return self.messages().next_back().cloned().into_iter().collect();
        }
        let newest = self.messages().rev().filter(|message| message.role == Role::User).cloned();
        fitting(newest, usize::MAX, MAX_PAGE_BYTES).messages
    }

    /// The newest part of the session, for a frontend that starts from nothing.
    pub fn rehydration(&self) -> Rehydration {
        let page = self.page(None, None).unwrap_or_default();
        let mut tool_calls: Vec<PastCall> = Vec::new();
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        for message in &page.messages {
            for block in &message.content {
                if let Block::ToolCall { id, name, arguments } = block {
                    let call = ToolCall {
                        id: id.clone(),
                        name: name.clone(),
                        summary: name.clone(),
                        arguments: arguments.text().into(),
                        parsed: arguments.clone(),
                    };
                    let past = PastCall { call, result: None };
                    // A repeated id belongs to a newer call, which replaces the first one.
                    match places.get(id).and_then(|place| tool_calls.get_mut(*place)) {
                        Some(known) => *known = past,
                        None => {
                            places.insert(id.clone(), tool_calls.len());
                            tool_calls.push(past);
                        }
                    }
                }
            }
            let Some(id) = &message.tool_call_id else { continue };
            let place = *places.entry(id.clone()).or_insert_with(|| {
                // The call itself is on an older page.
                let name = message.tool_name.clone().unwrap_or_default();
                let (arguments, parsed) = (Arc::default(), Value::Nil.into());
                let call = ToolCall { id: id.clone(), summary: name.clone(), name, arguments, parsed };
                tool_calls.push(PastCall { call, result: None });
                tool_calls.len().saturating_sub(1)
            });
            if let Some(past) = tool_calls.get_mut(place) {
                past.result = Some(message.clone());
            }
        }
        Rehydration { messages: page.messages, tool_calls, more: page.more, interrupted: page.interrupted }
    }

    /// The counts of the session.
    pub fn stats(&self) -> SessionStats {
        // In the order of their names.
        let mut roles = [Role::Assistant, Role::System, Role::Tool, Role::User].map(|role| (role, 0));
        let mut tools: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        let mut failed: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        let mut turns: BTreeMap<TurnId, (Option<Timestamp>, Option<Timestamp>)> = BTreeMap::new();
        let mut stopped = 0u64;
        for message in self.messages() {
            roles.iter_mut().filter(|(role, _)| *role == message.role).for_each(|(_, n)| add(n));
            for block in &message.content {
                if let Block::ToolCall { name, .. } = block {
                    add(tools.entry(name.clone()).or_default());
                }
            }
            if let (Some(name), Some(true)) = (&message.tool_name, message.is_error) {
                add(failed.entry(name.clone()).or_default());
            }
            if matches!(message.stop_reason, Some(StopReason::Aborted | StopReason::Interrupted)) {
                add(&mut stopped);
            }
            if let Some(turn) = &message.turn_id {
                let at = time(&message.timestamp);
                let span = turns.entry(turn.clone()).or_insert((at, at));
                span.1 = at.or(span.1);
            }
        }
        let span = |from: Option<Timestamp>, to: Option<Timestamp>| match (from, to) {
            (Some(from), Some(to)) => to.as_millisecond().saturating_sub(from.as_millisecond()).max(0),
            _ => 0,
        };
        let working = turns.values().fold(0i64, |sum, (from, to)| sum.saturating_add(span(*from, *to)));
        let last = self.branch.last().map(|entry| entry.ts.clone());
        let age = span(time(&self.facts.created_at), last.as_deref().and_then(time));

        SessionStats {
            session: self.facts.id.clone(),
            created_at: self.facts.created_at.clone(),
            last_entry_at: last,
            roles: roles.into(),
            message_count: self.facts.message_count,
            entry_count: self.offset,
            turns: turns.len(),
            turns_stopped: stopped,
            tool_calls: tools,
            tool_errors: failed,
            usage: self.facts.usage,
            duration_ms: age,
            working_ms: working,
            bytes: self.bytes,
        }
    }
}

impl SessionSnapshot {
    /// Writes the session as a page to `path`, which may be a folder or relative to the session's folder. The
    /// default is the session's folder and a name from the session. Returns the path.
    ///
    /// # Errors
    /// If the file exists and is not an export, or the system refuses.
    pub fn save_page(&self, path: Option<&str>) -> Result<String, ApiError> {
        let facts = &self.facts;
        let mut path = Path::new(&*facts.cwd).join(path.unwrap_or_default());
        if path.is_dir() {
            path.push(format!("{}.html", facts.id));
        }
        let transcript = Transcript {
            session: facts.id.clone(),
            title: facts.display_name().to_owned(),
            created_at: facts.created_at.clone(),
            cwd: facts.cwd.clone(),
            messages: self.messages().cloned().collect(),
            interrupted: interrupted(&self.branch),
        };
        export::save(&path, &export::export(&transcript, Format::Html))
            .map_err(|error| ApiError::failed(format!("Cannot write {}: {error}.", path.display())))?;
        Ok(path.to_string_lossy().into_owned())
    }
}

/// The turns of a branch that were cut off with their process.
fn interrupted(branch: &imbl::Vector<Arc<Entry>>) -> Vec<TurnId> {
    let turns = branch.iter().filter_map(|entry| entry.body.interrupted());
    turns.cloned().collect()
}

/// As many of the newest messages, which come first, as fit.
fn fitting(newest: impl Iterator<Item = Arc<Message>>, limit: usize, bytes: usize) -> Page {
    let mut messages: Vec<Arc<Message>> = Vec::new();
    let mut room = bytes;
    let mut more = false;
    for message in newest {
        let size = weight(&message);
        // One message is always included, however large.
        if messages.len() >= limit || (size > room && !messages.is_empty()) {
            more = true;
            break;
        }
        room = room.saturating_sub(size);
        messages.push(message);
    }
    messages.reverse();
    Page { messages, more, interrupted: Vec::new(), faults: Vec::new() }
}

/// The approximate size of a message on the wire, in bytes.
fn weight(message: &Message) -> usize {
    let blocks = message.content.iter().map(|block| match block {
        Block::Text(text) | Block::Thinking { text, .. } => text.len(),
        Block::ToolCall { arguments, .. } => arguments.text().len(),
        Block::Image { data, .. } => data.len(),
        Block::Sources(sources) => sources.weight(),
    });
    let details = message.details.as_ref().map_or(0, |details| details.to_string().len());
    // The approximate length of a message's keys, ids and times.
    blocks.fold(details.saturating_add(256), |sum, bytes| sum.saturating_add(bytes).saturating_add(32))
}

fn add(n: &mut u64) {
    *n = n.saturating_add(1);
}

fn time(ts: &str) -> Option<Timestamp> {
    ts.parse().ok()
}
