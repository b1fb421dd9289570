//! Decides whether a failed model call is retried, and after which pause. Waits for nothing.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use crate::limits::{RETRY_ATTEMPTS, RETRY_FIRST_MS, RETRY_MAX_MS};
use crate::message::TurnId;
use crate::provider::{ErrorKind, ProviderError};

/// The pause before retry number `attempt`, from 1; `None` for no retry: the failure is permanent, the limit
/// of retries is reached, or the provider requests too long a pause.
pub fn pause(error: &ProviderError, attempt: u32, turn: &TurnId) -> Option<Duration> {
    if !error.is_passing() || attempt > RETRY_ATTEMPTS {
        return None;
    }
    if let ErrorKind::RateLimited { retry_after: Some(asked) } = error.kind {
        return (asked <= Duration::from_millis(RETRY_MAX_MS)).then_some(asked);
    }
    // The model wrote something unusable, which no pause mends. If it does so again, the retries are spread as usual.
    let attempt = match error.kind {
        ErrorKind::Malformed if attempt <= 1 => return Some(Duration::ZERO),
        ErrorKind::Malformed => attempt.saturating_sub(1),
        _ => attempt,
    };
    let doubled = RETRY_FIRST_MS.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(RETRY_MAX_MS);
    // Up to a quarter less, so that sessions that failed together do not return together. Derived from the
    // turn's id, so that the same run has the same pauses.
    let mut hasher = DefaultHasher::new();
    (turn.as_str(), attempt).hash(&mut hasher);
    let less = (doubled / 4).saturating_mul(hasher.finish() % 1000) / 1000;
    Some(Duration::from_millis(doubled.saturating_sub(less)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_some_play_and_end() {
        let turn = TurnId::from("t-1");
        let error = ProviderError::new(ErrorKind::Overloaded, "busy");
        let mut most = RETRY_FIRST_MS;
        for attempt in 1..=RETRY_ATTEMPTS {
            let pause = u64::try_from(pause(&error, attempt, &turn).unwrap().as_millis()).unwrap();
            assert!(pause <= most && pause >= most * 3 / 4, "{attempt}: {pause}");
            most *= 2;
        }
        assert_eq!(pause(&error, RETRY_ATTEMPTS + 1, &turn), None);
        assert_ne!(pause(&error, 3, &turn), pause(&error, 3, &TurnId::from("t-2")));
        let malformed = ProviderError::new(ErrorKind::Malformed, "bad call");
        assert_eq!(pause(&malformed, 1, &turn), Some(Duration::ZERO));
        assert!(pause(&malformed, 2, &turn).unwrap() >= Duration::from_millis(RETRY_FIRST_MS * 3 / 4));
        assert_eq!(pause(&malformed, RETRY_ATTEMPTS + 1, &turn), None);
    }

    #[test]
    fn what_the_provider_asks_for_is_done_or_refused() {
        let limited = |millis| {
            let retry_after = Some(Duration::from_millis(millis));
            pause(&ProviderError::new(ErrorKind::RateLimited { retry_after }, "wait"), 1, &TurnId::from("t"))
        };
        assert_eq!(limited(10), Some(Duration::from_millis(10)));
        assert_eq!(limited(RETRY_MAX_MS + 1), None);
        for kind in [ErrorKind::Fatal, ErrorKind::ContextOverflow, ErrorKind::NotConfigured] {
            assert_eq!(pause(&ProviderError::new(kind, "no"), 1, &TurnId::from("t")), None);
        }
    }
}
