//! How long a host may count itself alive.
//!
//! The engine's clock judges the lease; the host must never think that it is longer. It counts from before it sent the
//! renewal, on a clock that goes on while the machine sleeps (`CLOCK_BOOTTIME`). Times are durations since any fixed moment
//! of this machine; who asks brings them.

use std::time::Duration;

use crate::limits::{REALM_LEASE, REALM_LEASES};

/// The times of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long the engine takes the host for alive after a renewal.
    pub lease: Duration,
    /// How often it is renewed: a third.
    pub renew: Duration,
    /// How long before the end nothing new is started: a third.
    pub margin: Duration,
}

impl LeaseTerms {
    /// The terms for a lease, brought within the [bounds](REALM_LEASES).
    pub fn new(lease: Duration) -> Self {
        let lease = lease.clamp(REALM_LEASES.0, REALM_LEASES.1);
        let third = lease.checked_div(3).unwrap_or(lease);
        Self { lease, renew: third, margin: third }
    }
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self::new(REALM_LEASE)
    }
}

/// What a host may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStanding {
    /// Anything.
    Held,
    /// Start no tool and no model call. What runs goes on.
    Margin,
    /// End what runs, and write nothing: others may own the sessions.
    Over,
}

/// The lease of this host, as far as it may be trusted.
#[derive(Debug, Clone)]
pub struct Lease {
    terms: LeaseTerms,
    /// When the last renewal that was answered had been sent; `None` before the first.
    counts_from: Option<Duration>,
    /// When the next renewal is due.
    due: Duration,
    /// How often it was over.
    lapses: u64,
    /// Whether the last standing that was asked for was over.
    was_over: bool,
}

impl Lease {
    /// A lease that was never granted.
    pub fn new(terms: LeaseTerms) -> Self {
        Self { terms, counts_from: None, due: Duration::ZERO, lapses: 0, was_over: false }
    }

    /// Its terms.
    pub fn terms(&self) -> LeaseTerms {
        self.terms
    }

    /// A renewal is about to be sent.
    pub fn sending(&mut self, now: Duration) {
        self.due = now.saturating_add(self.terms.renew);
    }

    /// A renewal has failed, or its answer did not come.
    pub fn failed(&mut self, now: Duration) {
        self.due = now.saturating_add(self.terms.renew.checked_div(5).unwrap_or_default());
    }

    /// The engine has carried out the renewal that was sent at that time. Answers may come late and in any order.
    ///
    /// A lease that was over meanwhile is over all the same: it counts as a lapse, also if nobody asked in between.
    pub fn renewed(&mut self, sent: Duration, now: Duration) {
        // Asked before the renewal counts, so that a pause that nobody has noticed is noticed here.
        let _ = self.standing(now);
        if self.counts_from.is_none_or(|from| from < sent) {
            self.counts_from = Some(sent);
        }
        self.was_over &= self.ends_at().is_none_or(|end| end <= now);
    }

    /// What this host may do now.
    pub fn standing(&mut self, now: Duration) -> LeaseStanding {
        let standing = match self.ends_at() {
            Some(end) if now < end.saturating_sub(self.terms.margin) => LeaseStanding::Held,
            Some(end) if now < end => LeaseStanding::Margin,
            _ => LeaseStanding::Over,
        };
        let is_over = standing == LeaseStanding::Over;
        if is_over && !self.was_over && self.counts_from.is_some() {
            self.lapses = self.lapses.saturating_add(1);
        }
        self.was_over = is_over;
        standing
    }

    /// When it is over; `None` if it was never granted.
    pub fn ends_at(&self) -> Option<Duration> {
        self.counts_from.map(|from| from.saturating_add(self.terms.lease))
    }

    /// When nothing new may be started any more; `None` if it was never granted.
    pub fn margin_at(&self) -> Option<Duration> {
        self.ends_at().map(|end| end.saturating_sub(self.terms.margin))
    }

    /// When to send the next renewal: a third of the lease after the last one was sent, or a fifteenth after one failed.
    pub fn renew_at(&self) -> Duration {
        self.due
    }

    /// How often it was over. A claim that was made before the last time must be made again.
    pub fn lapses(&self) -> u64 {
        self.lapses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease() -> Lease {
        let mut lease = Lease::new(LeaseTerms::default());
        assert_eq!(lease.standing(s(100)), LeaseStanding::Over, "never granted");
        lease.sending(s(100));
        // The answer took a second, which does not count for us.
        lease.renewed(s(100), s(101));
        lease
    }

    #[test]
    fn lease_counts_from_before_it_was_sent() {
        let mut lease = lease();
        assert_eq!(lease.ends_at(), Some(s(115)));
        assert_eq!(lease.renew_at(), s(105));
        for (now, expected) in [
            (109, LeaseStanding::Held),
            (110, LeaseStanding::Margin),
            (114, LeaseStanding::Margin),
            (115, LeaseStanding::Over),
        ] {
            assert_eq!(lease.standing(s(now)), expected, "at {now}");
        }
    }

    #[test]
    fn late_answer_does_not_shorten_the_lease() {
        let mut lease = lease();
        lease.renewed(s(105), s(106));
        lease.renewed(s(102), s(107));
        assert_eq!(lease.ends_at(), Some(s(120)));
        assert_eq!(lease.lapses(), 0);
    }

    #[test]
    fn pause_past_the_end_is_a_lapse_despite_a_renewal() {
        let mut asked = lease();
        assert_eq!(asked.standing(s(200)), LeaseStanding::Over);
        assert_eq!(asked.standing(s(201)), LeaseStanding::Over);
        asked.renewed(s(201), s(202));
        assert_eq!((asked.standing(s(203)), asked.lapses()), (LeaseStanding::Held, 1));

        let mut unasked = lease();
        unasked.renewed(s(201), s(202));
        assert_eq!((unasked.standing(s(203)), unasked.lapses()), (LeaseStanding::Held, 1));
    }

    #[test]
    fn failed_renewal_is_tried_again_soon() {
        let mut lease = lease();
        lease.sending(s(105));
        assert_eq!(lease.renew_at(), s(110));
        lease.failed(s(107));
        assert_eq!(lease.renew_at(), s(108));
        assert_eq!(lease.ends_at(), Some(s(115)), "not answered, so nothing is gained");
    }

    #[test]
    fn terms_stay_within_the_bounds() {
        assert_eq!(LeaseTerms::new(Duration::ZERO).lease, REALM_LEASES.0);
        assert_eq!(LeaseTerms::new(s(1_000_000)).lease, REALM_LEASES.1);
        let terms = LeaseTerms::default();
        assert_eq!((terms.renew, terms.margin), (s(5), s(5)));
    }
}
