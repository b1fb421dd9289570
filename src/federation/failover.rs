//! Which sessions a host takes without being asked, and when. Makes no calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::slot::SlotText;
use crate::limits::REALM_TAKEOVERS;
use crate::message::SessionId;
use crate::realm::{HostName, RealmSlot};

/// A session to be taken.
#[derive(Debug, PartialEq, Eq)]
pub struct FailoverCandidate {
    /// The session.
    pub session: SessionId,
    /// Its folder, which this host has too.
    pub cwd: Arc<str>,
}

/// The sessions whose hosts are lost.
#[derive(Debug, Default)]
pub(super) struct LostSessions(HashMap<SessionId, Seen>);

#[derive(Debug)]
struct Seen {
    first: Instant,
    tried: Option<Instant>,
}

impl LostSessions {
    /// Whether there are any that may be taken later.
    pub(super) fn is_waiting(&self) -> bool {
        !self.0.is_empty()
    }

    /// The sessions to take now, of those that are listed: in a folder that the hosts share, and lost. One in which a turn
    /// ran is taken at once; one that somebody here has open after a further lease, so that a daemon that is restarted
    /// keeps its sessions. All others can wait until somebody wants them. Each is tried once in a lease.
    pub(super) fn due<'a>(
        &mut self,
        slots: impl Iterator<Item = &'a RealmSlot>,
        me: &HostName,
        lease: Duration,
        now: Instant,
        is_open: impl Fn(&SessionId) -> bool,
    ) -> Vec<FailoverCandidate> {
        let mut before = std::mem::take(&mut self.0);
        let mut due = Vec::new();
        let since = |then: Instant| now.saturating_duration_since(then);
        for slot in slots {
            let session = &slot.header.session;
            if slot.owner.as_ref().is_none_or(|owner| !owner.is_lost || owner.host == *me) {
                continue;
            }
            let text = SlotText::read(&slot.text);
            if !text.is_folder_shared || !(text.is_streaming || is_open(session)) {
                continue;
            }
            let mut seen = before.remove(session).unwrap_or(Seen { first: now, tried: None });
            let is_due = text.is_streaming || since(seen.first) >= lease;
            let is_tried = seen.tried.is_some_and(|tried| since(tried) < lease);
            if is_due && !is_tried && due.len() < REALM_TAKEOVERS {
                seen.tried = Some(now);
                due.push(FailoverCandidate { session: session.clone(), cwd: slot.cwd.clone() });
            }
            self.0.insert(session.clone(), seen);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::realm::OwnedBy;
    use crate::store::Header;

    const LEASE: Duration = Duration::from_secs(15);

    fn slot(session: &str, text: &str, is_lost: bool) -> RealmSlot {
        let header = Header {
            session: session.into(),
            created_at: "2026-11-27T00:00:00.000Z".into(),
            cwd: "/there".into(),
            parent: None,
            request: None,
            replica_of: None,
        };
        let host = HostName::parse("alpha").unwrap();
        let owner = Some(OwnedBy { host, is_lost });
        RealmSlot { header, owner, cwd: "/shared".into(), tail: 1, text: text.into(), changed_ms: 0 }
    }

    fn taken(lost: &mut LostSessions, slots: &[RealmSlot], now: Instant, open: &str) -> Vec<String> {
        let me = HostName::parse("beta").unwrap();
        let due = lost.due(slots.iter(), &me, LEASE, now, |session| session.as_str() == open);
        due.into_iter().map(|lost| format!("{} {}", lost.session, lost.cwd)).collect()
    }

    const AT_WORK: &str = "{:streaming true :folder-shared true}";
    const IDLE: &str = "{:streaming false :folder-shared true}";

    #[test]
    fn lost_session_at_work_is_taken_at_once_and_again_later() {
        let (mut lost, begin) = (LostSessions::default(), Instant::now());
        let slots = [slot("s", AT_WORK, true)];
        assert_eq!(taken(&mut lost, &slots, begin, ""), ["s /shared"]);
        assert!(taken(&mut lost, &slots, begin + LEASE / 2, "").is_empty(), "it is under way");
        assert_eq!(taken(&mut lost, &slots, begin + LEASE, ""), ["s /shared"], "nobody has taken it");
        assert!(taken(&mut lost, &[slot("s", AT_WORK, false)], begin + LEASE * 2, "").is_empty());
        assert!(!lost.is_waiting());
    }

    #[test]
    fn idle_lost_session_is_taken_later_where_it_is_shown() {
        let (mut lost, begin) = (LostSessions::default(), Instant::now());
        let slots = [slot("s", IDLE, true), slot("t", IDLE, true)];
        assert!(taken(&mut lost, &slots, begin, "s").is_empty(), "its host may be restarting");
        assert!(lost.is_waiting());
        assert_eq!(taken(&mut lost, &slots, begin + LEASE, "s"), ["s /shared"]);
    }

    #[test]
    fn session_in_a_folder_of_its_host_is_left_to_people() {
        let (mut lost, begin) = (LostSessions::default(), Instant::now());
        let mut own = slot("u", AT_WORK, true);
        own.owner = Some(OwnedBy { host: HostName::parse("beta").unwrap(), is_lost: true });
        let slots = [slot("s", "{:streaming true}", true), slot("t", AT_WORK, false), own];
        assert!(taken(&mut lost, &slots, begin, "s").is_empty());
        assert!(!lost.is_waiting());
    }
}
