//! The sessions at work, on disk: the daemon that follows a killed one opens them by itself.
//!
//! A note stands for as long as its session works. It names the session and the options of its engine, and no text and no
//! variables. Opens nothing itself.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use edn_bridge::claims::{Claim, Claims};
use edn_bridge::edn;
use edn_bridge::engine::working_sessions::AT_WORK;
use edn_bridge::limits::{KILLS_AT_WORK, LEFT_AT_WORK};
use serde::{Deserialize, Serialize};

use super::line::Handover;

/// A session at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct AtWorkEntry {
    pub(super) session_id: String,
    pub(super) given: Handover,
    /// How many daemons in a row were killed while it worked.
    #[serde(default)]
    pub(super) kills: u32,
    /// Whether its daemon has left it to the next one, which is no kill.
    #[serde(default)]
    pub(super) is_left: bool,
}

/// The notes of this daemon.
#[derive(Debug)]
pub(super) struct AtWorkList {
    claims: Claims,
    held: Mutex<HashMap<String, Held>>,
}

/// A note that this daemon has.
#[derive(Debug)]
struct Held {
    claim: Claim,
    note: AtWorkEntry,
    /// Why its session is not opened by itself, if so.
    refusal: Option<String>,
}

impl AtWorkList {
    /// The notes of a state folder. Touches nothing on disk.
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { claims: Claims::new(state_dir.join(AT_WORK), LEFT_AT_WORK), held: Mutex::default() }
    }

    /// A session works in an engine with these options. What cannot be noted goes on all the same.
    pub(super) fn works(&self, session: &str, given: &Handover) {
        if !is_name(session) {
            return;
        }
        let mut held = self.held();
        match held.get(session) {
            // It continues what the daemon before left.
            Some(there) if there.refusal.is_none() => return,
            _ => drop(held.remove(session)),
        }
        let note =
            AtWorkEntry { session_id: session.to_owned(), given: given.clone(), kills: 0, is_left: false };
        match edn::to_vec(&note)
            .map_err(std::io::Error::other)
            .and_then(|text| self.claims.claim(session, &text))
        {
            Ok(claim) => drop(held.insert(session.to_owned(), Held { claim, note, refusal: None })),
            Err(error) => tracing::warn!(%error, session, "a session at work could not be noted"),
        }
    }

    /// A session rests.
    pub(super) fn rests(&self, session: &str) {
        if let Some(held) = self.held().remove(session) {
            held.claim.remove();
        }
    }

    /// Whether there are notes that this daemon does not have.
    pub(super) fn are_others(&self) -> bool {
        // Those of a session that begins or ends at this moment do not matter.
        let mut held = self.held();
        drop_deleted(&mut held);
        self.claims.count() > held.len()
    }

    /// The notes that daemons before this one have left, for sessions to be opened. That of one that was at work at too
    /// many kills in a row is kept for [`AtWorkList::refused`].
    pub(super) fn left(&self) -> Vec<AtWorkEntry> {
        let mut left = Vec::new();
        for (mut claim, text) in self.claims.left() {
            // Under another name, it would not be found again.
            let note =
                edn::from_slice::<AtWorkEntry>(&text).ok().filter(|note| claim.is_of(&note.session_id));
            let Some(mut note) = note else {
                tracing::warn!("a note of a session at work is not understood");
                claim.remove();
                continue;
            };
            let mut refusal = None;
            if !note.is_left {
                note.kills = note.kills.saturating_add(1);
            }
            // Of one that is not opened, no daemon is killed.
            note.is_left = note.kills >= KILLS_AT_WORK;
            if note.is_left {
                let why = format!("{} daemons in a row were killed while it worked", note.kills);
                tracing::warn!(session = note.session_id, "the session is not opened by itself: {why}");
                refusal = Some(why);
            } else {
                left.push(note.clone());
            }
            // Before it is opened, which may be what ends the daemon.
            save(&mut claim, &note);
            self.held().insert(note.session_id.clone(), Held { claim, note, refusal });
        }
        left
    }

    /// A session was not opened.
    pub(super) fn refuse(&self, session: &str, why: String) {
        tracing::warn!(session, "the session is not opened by itself: {why}");
        if let Some(held) = self.held().get_mut(session) {
            // Nothing was killed by it.
            held.note.is_left = true;
            save(&mut held.claim, &held.note);
            held.refusal = Some(why);
        }
    }

    /// The sessions that are not opened by themselves, with the reasons.
    pub(super) fn refused(&self) -> Vec<(AtWorkEntry, String)> {
        let mut held = self.held();
        drop_deleted(&mut held);
        held.values().filter_map(|held| Some((held.note.clone(), held.refusal.clone()?))).collect()
    }

    /// The note of a session that leaves. Whoever lets it go leaves the session to the next daemon.
    pub(super) fn departs(&self, session: &str, given: &Handover) -> Option<Claim> {
        self.works(session, given);
        let mut held = self.held().remove(session)?;
        (held.note.is_left, held.note.kills) = (true, 0);
        save(&mut held.claim, &held.note);
        Some(held.claim)
    }

    /// A session comes from another daemon, with its note, so that it never has none.
    pub(super) fn comes(&self, session: &str, given: &Handover, note: Option<OwnedFd>) {
        let shared = note.filter(|_| is_name(session)).and_then(|note| self.claims.shared(session, note));
        let Some(mut claim) = shared else { return self.works(session, given) };
        let note =
            AtWorkEntry { session_id: session.to_owned(), given: given.clone(), kills: 0, is_left: false };
        // Before it is opened, which may be what ends the daemon.
        save(&mut claim, &note);
        self.held().insert(session.to_owned(), Held { claim, note, refusal: None });
    }

    /// Leaves all to the next daemon, which has them when this process ends: until then, their sessions are locked too.
    pub(super) fn leave(&self) {
        for held in self.held().values_mut() {
            if held.refusal.is_none() {
                // An orderly end ends the row of kills.
                (held.note.is_left, held.note.kills) = (true, 0);
            }
            save(&mut held.claim, &held.note);
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the note of a session that leaves says what [`AtWorkList::departs`] wrote: nobody has begun to open the session.
pub(super) fn is_untouched(claim: &Claim) -> bool {
    let note = claim.read().ok().and_then(|text| edn::from_slice::<AtWorkEntry>(&text).ok());
    note.is_some_and(|note| note.is_left)
}

/// Lets those notes go whose sessions were deleted, by whatever process.
fn drop_deleted(held: &mut HashMap<String, Held>) {
    held.retain(|_, held| held.claim.is_there());
}

/// Whether an id can be the name of a file. That of a foreign file may be any text.
fn is_name(session: &str) -> bool {
    session.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn save(claim: &mut Claim, note: &AtWorkEntry) {
    let saved = edn::to_vec(note).map_err(std::io::Error::other).and_then(|text| claim.write(&text));
    if let Err(error) = saved {
        tracing::warn!(%error, session = note.session_id, "a session at work could not be noted");
    }
}
