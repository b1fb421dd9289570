//! What the user's file says of the daemon: `{:daemon {:use :never :idle-exit-ms 60000}}`.

use std::time::Duration;

use crate::limits::DAEMON_IDLE;
use crate::value::Value;

/// Whether editors use the daemon, and how long it stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DaemonPolicy {
    /// Each editor has a process of its own.
    pub is_never: bool,
    /// How long the daemon stays without client and work.
    pub idle: IdleExit,
}

impl DaemonPolicy {
    /// Reads `{:use :auto|:never, :idle-exit-ms n|:never}`; both keys are optional.
    ///
    /// # Errors
    /// What the value must be.
    pub(super) fn read(value: &Value<'_>) -> Result<Self, &'static str> {
        let map = value.as_map().ok_or("a map")?;
        let mut policy = Self::default();
        for (key, value) in map.iter() {
            match key.as_keyword().ok_or("a map with keywords as keys")? {
                "use" => {
                    policy.is_never = match value.as_keyword() {
                        Some("auto") => false,
                        Some("never") => true,
                        _ => return Err("a map with :use :auto or :never"),
                    }
                }
                "idle-exit-ms" => {
                    let millis = value.as_i64().and_then(|millis| u64::try_from(millis).ok());
                    policy.idle = match (value.as_keyword(), millis) {
                        (Some("never"), _) => IdleExit::Never,
                        (_, Some(millis)) => IdleExit::After(Duration::from_millis(millis)),
                        _ => return Err("a map with :idle-exit-ms n or :never"),
                    };
                }
                _ => return Err("a map with no other keys than :use and :idle-exit-ms"),
            }
        }
        Ok(policy)
    }
}

/// When a daemon without client and work ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdleExit {
    /// After [`DAEMON_IDLE`].
    #[default]
    Usual,
    /// After this time.
    After(Duration),
    /// Never.
    Never,
}

impl IdleExit {
    /// Whether the daemon ends after it was idle for so long.
    pub fn is_over(self, idle: Duration) -> bool {
        match self {
            Self::Usual => idle >= DAEMON_IDLE,
            Self::After(most) => idle >= most,
            Self::Never => false,
        }
    }
}
