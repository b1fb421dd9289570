//! Appends to a session that this host owns, by the rules of an [`Owner`]. Knows no engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::limits::REALM_SETTLES;
use crate::message::EntryId;
use crate::realm::calls::Realm;
use crate::realm::error::{Doubt, RealmError};
use crate::realm::rules::{Appended, NotNow, Owner, Settled};
use crate::realm::types::{Claim, Tail};
use crate::store::Entry;

/// The pause before what was not answered is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The one writer of a session, for as long as its claim counts.
pub struct RealmWriter {
    realm: Arc<dyn Realm>,
    claim: Claim,
    owner: Owner,
}

impl fmt::Debug for RealmWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealmWriter").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// What became of entries.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// They are saved, the last of them there: acknowledge them.
    Saved(Tail),
    /// They are not saved. The log may have entries of this owner that were not known: these. Decide anew from what it says
    /// now, and write what is still wanted, with the same ids.
    DecideAnew(Vec<Arc<Entry>>),
}

impl RealmWriter {
    /// The writer by a claim. `known` is what this host knows to be saved.
    ///
    /// # Errors
    /// [`RealmError::Behind`] and [`RealmError::Diverged`] if the log lacks that.
    pub fn new(realm: Arc<dyn Realm>, claim: Claim, known: &Tail) -> Result<Self, RealmError> {
        let owner = Owner::new(&claim, known).map_err(|stop| stop.error(&claim.session))?;
        Ok(Self { realm, claim, owner })
    }

    /// The claim.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The last entry that is known to be saved.
    pub fn tail(&self) -> &Tail {
        self.owner.tail()
    }

    /// Writes entries, with what lists show from then on. Whoever gives up waiting leaves the writer in doubt, and the next
    /// call settles it.
    ///
    /// # Errors
    /// [`RealmError::InDoubt`] if it stays unknown what became of them: written again with the same ids, they are written
    /// once. [`RealmError::Fenced`], [`RealmError::Behind`] and [`RealmError::Diverged`]: this writer has ended. All others:
    /// they are not saved.
    pub async fn write(&mut self, entries: &[Arc<Entry>], slot: Option<&str>) -> Result<Written, RealmError> {
        let ids: Vec<EntryId> = entries.iter().map(|entry| entry.id.clone()).collect();
        if self.owner.is_in_doubt() {
            let before = self.owner.tail().clone();
            let found = self.settle().await?;
            if let Some(place) = place_in(&before, &found, &ids) {
                return Ok(Written::Saved(place));
            }
            if !found.is_empty() {
                return Ok(Written::DecideAnew(found));
            }
        }
        let after = match self.owner.begin(ids.clone()) {
            Ok(after) => after,
            Err(NotNow::Stopped(stop)) => return Err(stop.error(&self.claim.session)),
            Err(NotNow::UnderWay | NotNow::InDoubt) => return Err(RealmError::InDoubt(Doubt::NoAnswer)),
        };
        // Whoever gives up here has not heard the answer.
        let mut guard = Unanswered { owner: &mut self.owner, is_answered: false };
        let answer = self.realm.append(&self.claim, &after, entries, slot).await;
        guard.is_answered = true;
        let appended = guard.owner.appended(answer.as_ref());
        drop(guard);
        match (appended, answer) {
            (Appended::Acknowledge, _) => Ok(Written::Saved(self.owner.tail().clone())),
            (Appended::Refuse, Err(error)) => Err(error),
            (Appended::Stop(stop), _) => Err(stop.error(&self.claim.session)),
            (Appended::Settle | Appended::Refuse, _) => {
                let found = self.settle().await?;
                Ok(match place_in(&after, &found, &ids) {
                    Some(place) => Written::Saved(place),
                    None => Written::DecideAnew(found),
                })
            }
        }
    }

    async fn settle(&mut self) -> Result<Vec<Arc<Entry>>, RealmError> {
        for left in (0..REALM_SETTLES).rev() {
            let asked = self.owner.tail().clone();
            let (ids, found) = match self.find(&asked).await {
                Ok(found) => {
                    (Ok(found.iter().map(|entry| entry.id.clone()).collect::<Vec<EntryId>>()), found)
                }
                Err(error) => (Err(error), Vec::new()),
            };
            let settled = self.owner.settled(&asked, ids.as_ref().map(Vec::as_slice));
            match settled {
                Settled::Again if left > 0 => sleep(PAUSE).await,
                Settled::Again => break,
                Settled::Stop(stop) => return Err(stop.error(&self.claim.session)),
                Settled::Acknowledge | Settled::DecideAnew | Settled::Level => return Ok(found),
            }
        }
        Err(RealmError::InDoubt(Doubt::NoAnswer))
    }

    /// All that the log has beyond a place. An append may be longer than a page.
    async fn find(&self, known: &Tail) -> Result<Vec<Arc<Entry>>, RealmError> {
        let (mut found, mut place) = (Vec::new(), known.clone());
        loop {
            let page = self.realm.settle(&self.claim, &place).await?;
            let is_last = page.entries.is_empty();
            place = place.after(page.entries.iter().map(|entry| &entry.id));
            found.extend(page.entries);
            if is_last || place.seq >= page.tail.seq {
                return Ok(found);
            }
        }
    }
}

/// Tells the owner that no answer will come, unless one came.
struct Unanswered<'a> {
    owner: &'a mut Owner,
    is_answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.owner.appended(Err(&RealmError::InDoubt(Doubt::NoAnswer)));
        }
    }
}

/// Where the last of `ids` is among the entries after a place, if all of them are there.
fn place_in(after: &Tail, found: &[Arc<Entry>], ids: &[EntryId]) -> Option<Tail> {
    let mut rest = (1u64..).zip(found);
    let last = ids.iter().map(|id| rest.find(|(_, entry)| entry.id == *id)).last()??;
    let is_all = ids.iter().all(|id| found.iter().any(|entry| entry.id == *id));
    is_all.then(|| Tail::at(after.seq.saturating_add(last.0), last.1.id.clone()))
}
