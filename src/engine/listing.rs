//! Lists of sessions, live and stored, for people. Opens none of them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::clock::rfc3339;
use crate::engine::handle::Handle;
use crate::engine::services::{Services, refused};
use crate::engine::snapshot::SessionSnapshot;
use crate::facts::{ListedSession, ListedSessions, Recent, SessionFacts, Slot};
use crate::federation::SlotText;
use crate::limits::{LISTED_SESSIONS, SEARCH_HITS, TOLD_FAULTS};
use crate::message::{Role, SessionId};
use crate::realm::RealmSlot;
use crate::session::{ApiError, ListScope, Listing};
use crate::store::{Hit, SessionCopy, StoreError, StoredSession};

/// Characters of the user's last message in a list.
const RECENT_CHARS: usize = 80;

/// A session of a list.
pub(super) enum ListEntry {
    Live(Handle),
    Stored(Box<StoredSession>),
    /// A session of the realm that this machine has no copy of.
    Elsewhere(Box<RealmSlot>),
}

/// The sessions of a list, newest first: live ones with their state, stored ones with the facts from both
/// ends of their files.
///
/// # Errors
/// If the list would be incomplete.
pub(super) fn list(
    services: &Services,
    asking: &SessionFacts,
    wanted: &Listing,
) -> Result<ListedSessions, ApiError> {
    if let Some(text) = &wanted.text {
        return search(services, asking, text, wanted);
    }
    let folder = (wanted.scope == ListScope::Project).then_some(&*asking.cwd);
    let limit = wanted.limit.unwrap_or(LISTED_SESSIONS);
    let (found, copies) =
        sessions(services, folder, limit, wanted.archived).map_err(|error| refused(&error))?;
    let slot = |listed| match listed {
        ListEntry::Live(handle) => Some(live_slot(&handle.snapshot(), asking)),
        ListEntry::Stored(info) => Some(owned(services, disk_slot(*info))),
        ListEntry::Elsewhere(slot) => (wanted.scope == ListScope::All).then(|| realm_slot(&slot)),
    };
    let missing = told(copies.iter().map(ToString::to_string));
    Ok(ListedSessions { sessions: found.into_iter().filter_map(slot).collect(), missing })
}

/// What a person is told beside a list; `None` if it is nothing.
fn told(sentences: impl Iterator<Item = String>) -> Option<Arc<str>> {
    let text = sentences.take(TOLD_FAULTS).collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| text.into())
}

/// The sessions of a folder, or all, at most `limit`: the live ones, newest first, then the stored ones; with
/// `archived`, also those. Beside them, the copies of sessions.
///
/// # Errors
/// If the list would be incomplete.
pub(super) fn sessions(
    services: &Services,
    folder: Option<&str>,
    limit: usize,
    archived: bool,
) -> Result<(Vec<ListEntry>, Vec<SessionCopy>), StoreError> {
    let live = services.tree.all();
    let known: HashSet<SessionId> = live.iter().map(|handle| handle.id.clone()).collect();
    let here = |handle: &Handle| {
        let facts = handle.snapshot().facts.clone();
        (archived || !facts.archived) && folder.is_none_or(|folder| *facts.cwd == *folder)
    };
    let here = live.into_iter().rev().filter(here);
    let mut listed: Vec<ListEntry> = here.take(limit).map(ListEntry::Live).collect();
    let mut copies = Vec::new();
    if listed.len() < limit {
        let stored = services.read_journals(|journals| journals.stored(folder.map(Path::new)))?;
        copies = stored.copies;
        let is_wanted =
            |info: &StoredSession| (archived || !info.archived) && !known.contains(&info.header.session);
        let stored = stored.sessions.into_iter().filter(is_wanted);
        listed.extend(
            stored.take(limit.saturating_sub(listed.len())).map(|info| ListEntry::Stored(Box::new(info))),
        );
    }
    // A folder of another host is another folder, whatever its name.
    if let (None, Some(federation)) = (folder, services.federation.get()) {
        let id = |listed: &ListEntry| match listed {
            ListEntry::Live(handle) => handle.id.clone(),
            ListEntry::Stored(info) => info.header.session.clone(),
            ListEntry::Elsewhere(slot) => slot.header.session.clone(),
        };
        let known: HashSet<SessionId> = listed.iter().map(id).chain(known).collect();
        let further = federation.sessions().into_iter().filter(|slot| !known.contains(&slot.header.session));
        let room = limit.saturating_sub(listed.len());
        listed.extend(further.take(room).map(|slot| ListEntry::Elsewhere(Box::new(slot))));
    }
    Ok((listed, copies))
}

/// The sessions with a text in a message or in their name, each with an `excerpt`: those of this machine's files, best first,
/// and then, of all folders, those that only the realm knows to have it. Where its engine cannot be asked, this says so.
///
/// # Errors
/// Those of [`list`].
fn search(
    services: &Services,
    asking: &SessionFacts,
    text: &str,
    wanted: &Listing,
) -> Result<ListedSessions, ApiError> {
    let project = (wanted.scope == ListScope::Project).then(|| Path::new(&*asking.cwd));
    let limit = wanted.limit.unwrap_or(SEARCH_HITS).min(SEARCH_HITS);
    let hits = services.read_journals(|journals| journals.search(project, text, wanted.archived, limit));
    let hits = hits.map_err(|error| refused(&error))?;
    let faults: Vec<String> = hits.iter().flat_map(faults_of).collect();
    let hits = hits.into_iter().map(|hit| {
        let listed = owned(services, disk_slot(hit.info));
        found(services, asking, listed, hit.excerpt)
    });
    let mut list = ListedSessions { sessions: hits.collect(), missing: None };
    let room = limit.saturating_sub(list.sessions.len());
    let federation = services.federation.get().filter(|_| wanted.scope == ListScope::All);
    let mut absent = None;
    if let (Some(_), 0) = (federation, room) {
        absent = Some(NO_ROOM.to_owned());
    } else if let Some(federation) = federation {
        match federation.find(text, limit) {
            Ok(hits) => {
                let known: HashSet<SessionId> =
                    list.sessions.iter().map(|listed| listed.slot.id.clone()).collect();
                let is_wanted = |id: &SessionId| {
                    !known.contains(id) && (wanted.archived || !services.journals.is_archived(id))
                };
                let further = hits.into_iter().filter(|hit| is_wanted(&hit.slot.header.session));
                let further = further.map(|hit| found(services, asking, realm_slot(&hit.slot), hit.excerpt));
                list.sessions.extend(further.take(room));
            }
            Err(error) => absent = Some(error.to_string()),
        }
    }
    list.missing = told(absent.into_iter().chain(faults));
    Ok(list)
}

/// What is wrong with the file of a session that was found.
fn faults_of(hit: &Hit) -> impl Iterator<Item = String> {
    let session = &hit.info.header.session;
    hit.faults.iter().map(move |fault| format!("The session {session}: {fault}"))
}

/// What is told where those of this machine are as many as are wanted.
const NO_ROOM: &str =
    "This machine has as many sessions with these words as are listed; other hosts were not asked.";

/// A session that a search found; a live one with its current state.
fn found(
    services: &Services,
    asking: &SessionFacts,
    listed: ListedSession,
    excerpt: String,
) -> ListedSession {
    let excerpt = Some(excerpt);
    match services.tree.get(&listed.slot.id) {
        Ok(live) => {
            ListedSession { modified: listed.modified, excerpt, ..live_slot(&live.snapshot(), asking) }
        }
        Err(_) => ListedSession { excerpt, ..listed },
    }
}

fn live_slot(snapshot: &SessionSnapshot, asking: &SessionFacts) -> ListedSession {
    let is_active = snapshot.facts.id == asking.id;
    let slot = Slot::new(&snapshot.facts);
    ListedSession { slot, is_active, modified: None, excerpt: None, recent: recent(snapshot) }
}

/// What happened last in a live session.
fn recent(snapshot: &SessionSnapshot) -> Recent {
    let mut recent = Recent::default();
    for message in snapshot.messages().rev() {
        if recent.at.is_none() {
            recent.at = Some(message.timestamp.clone());
            recent.turn = message.turn_id.clone();
        }
        if message.role == Role::User {
            recent.user_text = Some(start_of(&message.text()));
            break;
        }
    }
    recent
}

/// The start of a message, on one line.
fn start_of(text: &str) -> Arc<str> {
    let start: String = text.chars().take(RECENT_CHARS).collect();
    start.replace('\n', " ").into()
}

/// A stored session with its host, if it is of a realm.
fn owned(services: &Services, mut listed: ListedSession) -> ListedSession {
    let slot = services.federation.get().and_then(|federation| federation.slot(&listed.slot.id));
    if let Some(slot) = slot {
        (listed.slot.host, listed.slot.owner_lost) = host_of(&slot);
    }
    listed
}

/// The owner of a session of the realm, and whether it is lost.
fn host_of(slot: &RealmSlot) -> (Option<Arc<str>>, bool) {
    match &slot.owner {
        Some(owner) => (Some(owner.host.as_str().into()), owner.is_lost),
        None => (Some("".into()), true),
    }
}

pub(super) fn realm_slot(listed: &RealmSlot) -> ListedSession {
    let text = SlotText::read(&listed.text);
    let (host, owner_lost) = host_of(listed);
    let slot = Slot {
        id: listed.header.session.clone(),
        name: text.name,
        first_message: text.first_message,
        cwd: listed.cwd.clone(),
        is_streaming: text.is_streaming && !owner_lost,
        parent: listed.header.parent.as_ref().map(|parent| parent.session.clone()),
        created_at: listed.header.created_at.clone(),
        message_count: Some(text.messages),
        location: None,
        archived: false,
        host,
        owner_lost,
    };
    let modified = jiff::Timestamp::from_millisecond(listed.changed_ms).ok().map(rfc3339);
    ListedSession { slot, is_active: false, modified, excerpt: None, recent: Recent::default() }
}

fn disk_slot(info: StoredSession) -> ListedSession {
    let recent = Recent { user_text: info.last_message.as_deref().map(start_of), ..Recent::default() };
    let slot = Slot {
        location: Some(info.location().into()),
        name: info.name.map(Arc::from),
        first_message: info.first_message.map(Arc::from),
        cwd: info.header.cwd,
        is_streaming: false,
        parent: info.header.parent.map(|parent| parent.session),
        created_at: info.header.created_at,
        message_count: info.messages,
        archived: info.archived,
        host: info.header.replica_of,
        owner_lost: false,
        id: info.header.session,
    };
    let modified = jiff::Timestamp::try_from(info.modified).ok().map(rfc3339);
    ListedSession { slot, is_active: false, modified, excerpt: None, recent }
}
