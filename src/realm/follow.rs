//! Follows a session's log from a place on, by hints and by looking. Knows no engine, and not what the entries are for.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::limits::{REALM_PAGE, REALM_WATCH};
use crate::message::SessionId;
use crate::realm::calls::Realm;
use crate::realm::error::RealmError;
use crate::realm::rules::{Offer, Replica, Stop};
use crate::realm::types::{RealmHint, Tail};
use crate::store::Entry;

/// Pages that wait for who follows.
const PAGES: usize = 4;

/// What is known of a log.
#[derive(Debug, Clone)]
pub enum Followed {
    /// The next entries, each once, in order, none left out.
    Entries(Vec<Arc<Entry>>),
    /// That is all there was when the engine was last asked. Comes after the first entries, and after an [`Away`](Self::Away).
    Level(Tail),
    /// The engine cannot be reached; what came before stays as it is.
    Away(RealmError),
    /// The log is not the one that was followed. Nothing comes any more.
    Stopped(Stop),
    /// There is no such session any more. Nothing comes any more.
    Gone(RealmError),
}

/// Follows a session after a place, until the receiver is dropped. Runs on the runtime that this is called in.
pub fn follow(realm: Arc<dyn Realm>, session: SessionId, after: Tail) -> mpsc::Receiver<Followed> {
    let (to, followed) = mpsc::channel(PAGES);
    tokio::spawn(async move {
        // The receiver may be gone.
        let _ = run(realm, session, Replica::new(after), to).await;
    });
    followed
}

async fn run(
    realm: Arc<dyn Realm>,
    session: SessionId,
    mut replica: Replica,
    to: mpsc::Sender<Followed>,
) -> Result<(), mpsc::error::SendError<Followed>> {
    let mut hints = realm.watch(Some(&session)).await.ok();
    let mut is_level = false;
    while !to.is_closed() {
        match realm.read(&session, replica.tail(), REALM_PAGE).await {
            Ok(page) => {
                let mut next = Vec::with_capacity(page.entries.len());
                for entry in page.entries {
                    match replica.offer(replica.tail().seq.saturating_add(1), &entry.id) {
                        Offer::Apply => next.push(entry),
                        Offer::Known | Offer::Gap => {}
                        Offer::Stop(stop) => return to.send(Followed::Stopped(stop)).await,
                    }
                }
                if !next.is_empty() {
                    to.send(Followed::Entries(next)).await?;
                }
                if replica.tail().seq < page.tail.seq {
                    continue;
                }
                if !std::mem::replace(&mut is_level, true) {
                    to.send(Followed::Level(replica.tail().clone())).await?;
                }
            }
            Err(error) if error.may_pass() => {
                if std::mem::replace(&mut is_level, false) {
                    to.send(Followed::Away(error)).await?;
                }
            }
            Err(error) => {
                let last = Stop::of(&error).map_or(Followed::Gone(error), Followed::Stopped);
                return to.send(last).await;
            }
        }
        let hint = async {
            match &mut hints {
                Some(hints) => loop {
                    match hints.recv().await {
                        Some(RealmHint::Session { seq: Some(seq), .. }) if !replica.heard(seq) => {}
                        Some(_) => return,
                        None => std::future::pending().await,
                    }
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = timeout(REALM_WATCH, hint) => {}
            () = to.closed() => {}
        }
    }
    Ok(())
}
