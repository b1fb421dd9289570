//! Lists of sessions, live and stored, for people. Opens none of them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::clock::rfc3339;
use crate::engine::handle::Handle;
use crate::engine::services::{Services, refused};
use crate::facts::{ListedSession, SessionFacts, Slot};
use crate::limits::{LISTED_SESSIONS, SEARCH_HITS};
use crate::message::SessionId;
use crate::session::{ApiError, Scope};
use crate::store::{SessionInfo, StoreError};

/// A session of a list.
pub(super) enum Listed {
    Live(Handle),
    Stored(SessionInfo),
}

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
        let folder = (scope == Scope::Project).then_some(&*asking.cwd);
        let limit = limit.unwrap_or(LISTED_SESSIONS);
        let found = self.sessions(folder, limit).map_err(|error| refused(&error))?;
        let slot = |listed| match listed {
            Listed::Live(handle) => live_slot(&handle.snapshot().facts, asking),
            Listed::Stored(info) => disk_slot(info),
        };
        Ok(found.into_iter().map(slot).collect())
    }

    /// The sessions of a folder, or all, at most `limit`: the live ones, newest first, then the stored ones.
    ///
    /// # Errors
    /// If the list would be incomplete.
    pub(super) fn sessions(&self, folder: Option<&str>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let live = self.tree.all();
        let known: HashSet<SessionId> = live.iter().map(|handle| handle.id.clone()).collect();
        let here = |handle: &Handle| folder.is_none_or(|folder| *handle.snapshot().facts.cwd == *folder);
        let here = live.into_iter().rev().filter(here);
        let mut listed: Vec<Listed> = here.take(limit).map(Listed::Live).collect();
        if listed.len() < limit {
            let stored = self.read_journals(|journals| journals.list(folder.map(Path::new)))?;
            let stored = stored.into_iter().filter(|info| !known.contains(&info.header.session));
            listed.extend(stored.take(limit.saturating_sub(listed.len())).map(Listed::Stored));
        }
        Ok(listed)
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
        let hits = self.read_journals(|journals| journals.search(project, text, limit));
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
        location: Some(info.location().into()),
        name: info.name.map(Arc::from),
        first_message: info.first_message.map(Arc::from),
        cwd: info.header.cwd,
        is_streaming: false,
        parent: info.header.parent.map(|parent| parent.session),
        created_at: info.header.created_at,
        message_count: info.messages,
        id: info.header.session,
    };
    let modified = jiff::Timestamp::try_from(info.modified).ok().map(rfc3339);
    ListedSession { slot, is_active: false, modified, excerpt: None }
}
