//! Lists of sessions, live and stored, for people. Opens none of them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::clock::rfc3339;
use crate::facts::{ListedSession, SessionFacts, Slot};
use crate::limits::{LISTED_SESSIONS, SEARCH_HITS};
use crate::message::SessionId;
use crate::runtime::services::{Services, refused};
use crate::session::{ApiError, Scope};
use crate::store::SessionInfo;

impl Services {
    /// The sessions of a list, newest first: live ones with their state, stored ones with the facts from both
    /// ends of their files.
    ///
    /// # Errors
    /// If the list would be incomplete.
    pub(super) fn list(
        &self,
        asking: &SessionFacts,
        limit: Option<usize>,
        scope: Scope,
    ) -> Result<Vec<ListedSession>, ApiError> {
        let project = (scope == Scope::Project).then(|| Path::new(&*asking.cwd));
        let mut slots: Vec<ListedSession> = Vec::new();
        let live = self.tree.all();
        for handle in live.iter().rev() {
            let facts = handle.snapshot().facts.clone();
            if scope == Scope::All || facts.cwd == asking.cwd {
                slots.push(live_slot(&facts, asking));
            }
        }
        let known: HashSet<&SessionId> = live.iter().map(|handle| &handle.id).collect();
        let limit = limit.unwrap_or(LISTED_SESSIONS);
        let room = limit.saturating_sub(slots.len());
        if room > 0 {
            let on_disk = self.read_store(|store| store.list(project)).map_err(|error| refused(&error))?;
            let on_disk = on_disk.into_iter().filter(|info| !known.contains(&info.header.session));
            slots.extend(on_disk.take(room).map(disk_slot));
        }
        slots.truncate(limit);
        Ok(slots)
    }

    /// The sessions with a text in a message or in their name, best first, each with an `excerpt`.
    ///
    /// # Errors
    /// Those of [`Services::list`].
    pub(super) fn search(
        &self,
        asking: &SessionFacts,
        text: &str,
        limit: Option<usize>,
        scope: Scope,
    ) -> Result<Vec<ListedSession>, ApiError> {
        let project = (scope == Scope::Project).then(|| Path::new(&*asking.cwd));
        let limit = limit.unwrap_or(SEARCH_HITS).min(SEARCH_HITS);
        let hits = self.read_store(|store| store.search(project, text, limit));
        let hits = hits.map_err(|error| refused(&error))?.into_iter().map(|hit| {
            let mut listed = disk_slot(hit.info);
            // A live session is shown with its current state.
            if let Ok(live) = self.tree.get(&listed.slot.id) {
                listed =
                    ListedSession { modified: listed.modified, ..live_slot(&live.snapshot().facts, asking) };
            }
            listed.excerpt = Some(hit.excerpt);
            listed
        });
        Ok(hits.collect())
    }
}

fn live_slot(facts: &SessionFacts, asking: &SessionFacts) -> ListedSession {
    let is_active = facts.id == asking.id;
    ListedSession { slot: Slot::new(facts), is_active, modified: None, excerpt: None }
}

fn disk_slot(info: SessionInfo) -> ListedSession {
    let slot = Slot {
        name: info.name.map(Arc::from),
        first_message: info.first_message.map(Arc::from),
        cwd: info.header.cwd,
        is_streaming: false,
        parent: info.header.parent.map(|parent| parent.session),
        created_at: info.header.created_at,
        message_count: info.messages,
        file: Some(info.path.to_string_lossy().into()),
        id: info.header.session,
    };
    let modified = jiff::Timestamp::try_from(info.modified).ok().map(rfc3339);
    ListedSession { slot, is_active: false, modified, excerpt: None }
}
