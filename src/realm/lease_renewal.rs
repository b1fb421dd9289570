//! Keeps this host's lease, and says what the host may do. Knows no engine.
//!
//! A renewal whose answer does not come holds nothing up: what may be done is said in time all the same.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::clock::since_boot;
use crate::realm::calls::Realm;
use crate::realm::error::RealmError;
use crate::realm::rules::{Lease, LeaseStanding, LeaseTerms};

/// The longest time between two looks at the clock: the timer stands still while the machine sleeps.
const LOOK: Duration = Duration::from_millis(250);

/// What this host may do, and why not more.
#[derive(Debug, Clone)]
pub struct LeaseState {
    /// What it might do when this was written. [`LeaseState::standing`] says what it may do now.
    told: LeaseStanding,
    margin_at: Option<Duration>,
    ends_at: Option<Duration>,
    /// How often its lease was over. A claim from before the last time must be made again.
    pub lapses: u64,
    /// Why the last renewal failed, if it did. After [`RealmError::NameTaken`] and [`RealmError::Unfit`] there is no other.
    pub error: Option<RealmError>,
}

impl LeaseState {
    /// When the lease is over, on the clock that goes on in sleep; `None` if it was never granted.
    pub fn ends_at(&self) -> Option<Duration> {
        self.ends_at
    }

    /// What this host may do now, by the clock: a process that was paused finds out before anybody tells it.
    pub fn standing(&self) -> LeaseStanding {
        let now = since_boot();
        let is_before = |at: Option<Duration>| at.is_some_and(|at| now < at);
        if is_before(self.margin_at) {
            LeaseStanding::Held
        } else if is_before(self.ends_at) {
            LeaseStanding::Margin
        } else {
            LeaseStanding::Over
        }
    }
}

/// Renews the lease until the receiver is dropped. The receiver is told when what the host may do changes, and for how long. Runs on the runtime that this is called in.
pub fn keep(realm: Arc<dyn Realm>, terms: LeaseTerms) -> watch::Receiver<LeaseState> {
    let (to, kept) = watch::channel(LeaseState {
        told: LeaseStanding::Over,
        margin_at: None,
        ends_at: None,
        lapses: 0,
        error: None,
    });
    tokio::spawn(async move {
        tokio::select! {
            () = run(realm, Lease::new(terms), &to) => {}
            () = to.closed() => {}
        }
    });
    kept
}

async fn run(realm: Arc<dyn Realm>, mut lease: Lease, to: &watch::Sender<LeaseState>) {
    let mut error: Option<RealmError> = None;
    let mut is_replaced = false;
    loop {
        let sent = since_boot();
        if !is_replaced && sent >= lease.renew_at() {
            lease.sending(sent);
            let mut renewal = realm.renew();
            let answer = loop {
                tokio::select! {
                    answer = &mut renewal => break answer,
                    () = sleep(LOOK) => say(to, &mut lease, error.as_ref()),
                }
            };
            let now = since_boot();
            match answer {
                Ok(()) => {
                    lease.renewed(sent, now);
                    error = None;
                }
                Err(failed) => {
                    lease.failed(now);
                    // What else the engine refuses with, a person may mend there.
                    is_replaced = matches!(failed, RealmError::NameTaken { .. });
                    error = Some(failed);
                }
            }
        }
        say(to, &mut lease, error.as_ref());
        let now = since_boot();
        let ahead = [Some(lease.renew_at()).filter(|_| !is_replaced), lease.margin_at(), lease.ends_at()];
        let next = ahead.into_iter().flatten().filter(|at| *at > now).min();
        sleep(next.map_or(LOOK, |at| at.saturating_sub(now)).min(LOOK)).await;
    }
}

fn say(to: &watch::Sender<LeaseState>, lease: &mut Lease, error: Option<&RealmError>) {
    let (told, lapses) = (lease.standing(since_boot()), lease.lapses());
    let (margin_at, ends_at) = (lease.margin_at(), lease.ends_at());
    let fails = |error: Option<&RealmError>| error.map(std::mem::discriminant);
    to.send_if_modified(|kept| {
        let is_new = (kept.told, kept.lapses, kept.ends_at) != (told, lapses, ends_at)
            || fails(kept.error.as_ref()) != fails(error);
        *kept = LeaseState { told, margin_at, ends_at, lapses, error: error.cloned() };
        is_new
    });
}
