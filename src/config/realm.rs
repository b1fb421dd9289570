//! What the user's file says of other machines: `{:realm {:engine "postgres://…" :host "laptop"}}`.
//!
//! Only the user's own file has it: whoever names the engine sees the sessions, and may drive them.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{REALM_HOST_NAME_BYTES, REALM_LEASE, REALM_LEASES};
use crate::secret::Secret;
use crate::value::Value;

/// How this machine takes part in a realm.
#[derive(Debug, Clone)]
pub struct RealmPolicy {
    /// Where the engine is.
    pub engine: EngineAddress,
    /// The name of this machine, one of its own in the realm.
    pub host: Arc<str>,
    /// Which sessions of this machine the others see.
    pub share: Share,
    /// Who decides that a session is taken whose machine is lost.
    pub takeover: Takeover,
    /// Where the folders of the sessions are.
    pub workspace: Workspace,
    /// How long this machine owns its sessions without a word to the engine.
    pub lease: Duration,
}

/// Where the engine is. Its text may hold a password, and is never shown.
#[derive(Debug, Clone)]
pub enum EngineAddress {
    /// Its URL.
    Url(Secret),
    /// The program that prints the URL, with its arguments.
    Command(Vec<String>),
}

/// Which sessions of this machine the others see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// None.
    None,
    /// Those of which a person says so, with `/share`.
    #[default]
    Ask,
    /// Those too that begin in a folder in which one is shared.
    Project,
    /// All.
    All,
}

impl Share {
    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ask => "ask",
            Self::Project => "project",
            Self::All => "all",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Ask, Self::Project, Self::All].into_iter().find(|share| share.as_str() == name)
    }
}

/// Who decides that a session is taken whose machine is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Takeover {
    /// A person.
    #[default]
    Ask,
    /// This machine, if the session's folder is one that machines share.
    Auto,
}

/// Where the folders of a machine's sessions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workspace {
    /// On the machine.
    #[default]
    Own,
    /// On a file system that the other machines have too, in the same place.
    Shared,
}

impl RealmPolicy {
    /// Reads the value of `:realm`.
    ///
    /// # Errors
    /// What the value must be.
    pub(super) fn read(value: &Value<'_>) -> Result<Self, &'static str> {
        let map = value.as_map().ok_or("a map")?;
        let (mut engine, mut host) = (None, None);
        let (mut share, mut lease) = (Share::default(), REALM_LEASE);
        let (mut takeover, mut workspace) = (Takeover::default(), Workspace::default());
        for (key, value) in map.iter() {
            match key.as_keyword().ok_or("a map with keywords as keys")? {
                "engine" => {
                    let url = value.as_str().filter(|url| is_engine(url));
                    let url = url.ok_or("a map with :engine \"postgres://…\" or \"nats://…\"")?;
                    engine = Some(EngineAddress::Url(Secret::new(url.to_owned())));
                }
                "engine-command" => {
                    let words = value.as_slice().unwrap_or_default();
                    let command: Option<Vec<String>> =
                        words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
                    let command = command.filter(|command| !command.is_empty());
                    let expected = "a map with :engine-command [\"program\" \"argument\" …]";
                    engine = Some(EngineAddress::Command(command.ok_or(expected)?));
                }
                "host" => {
                    let name = value.as_str().filter(|name| is_host(name));
                    let expected =
                        "a map with :host, at most 63 letters, digits, dots, hyphens and underscores";
                    host = Some(name.ok_or(expected)?.into());
                }
                "share" => {
                    let wanted = value.as_keyword().and_then(Share::parse);
                    share = wanted.ok_or("a map with :share :none, :ask, :project or :all")?;
                }
                "takeover" => {
                    takeover = match value.as_keyword() {
                        Some("ask") => Takeover::Ask,
                        Some("auto") => Takeover::Auto,
                        _ => return Err("a map with :takeover :ask or :auto"),
                    };
                }
                "workspace" => {
                    workspace = match value.as_keyword() {
                        Some("own") => Workspace::Own,
                        Some("shared") => Workspace::Shared,
                        _ => return Err("a map with :workspace :own or :shared"),
                    };
                }
                "lease-ms" => {
                    let millis = value.as_i64().and_then(|millis| u64::try_from(millis).ok());
                    let wanted = millis.map(Duration::from_millis);
                    let (least, most) = REALM_LEASES;
                    let wanted = wanted.filter(|wanted| (least..=most).contains(wanted));
                    lease = wanted.ok_or("a map with :lease-ms from 3,000 to 600,000")?;
                }
                _ => {
                    return Err(
                        "a map with no other keys than :engine, :engine-command, :host, :share, :takeover, :workspace \
                         and :lease-ms",
                    );
                }
            }
        }
        if takeover == Takeover::Auto && workspace == Workspace::Own {
            return Err("a map with :workspace :shared, if :takeover is :auto: the folder must be here");
        }
        Ok(Self {
            engine: engine.ok_or("a map with :engine or :engine-command")?,
            host: host.ok_or("a map with :host, the name of this machine")?,
            share,
            takeover,
            workspace,
            lease,
        })
    }
}

fn is_engine(url: &str) -> bool {
    ["postgres://", "postgresql://", "nats://"].iter().any(|scheme| url.starts_with(scheme))
}

fn is_host(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
    (1..=REALM_HOST_NAME_BYTES).contains(&name.len()) && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;

    fn read(text: &str) -> Result<RealmPolicy, &'static str> {
        RealmPolicy::read(&edn::read_one(text.as_bytes()).unwrap())
    }

    #[test]
    fn realm_is_read_and_its_url_is_not_shown() {
        let policy = read(r#"{:engine "postgres://me:pass-word@db/x" :host "laptop"}"#).unwrap();
        assert!(!format!("{policy:?}").contains("pass-word"), "{policy:?}");
        assert_eq!((&*policy.host, policy.share, policy.lease.as_millis()), ("laptop", Share::Ask, 15_000));
        let EngineAddress::Url(url) = policy.engine else { panic!("no URL") };
        assert_eq!(url.expose(), "postgres://me:pass-word@db/x");
        let policy =
            read(r#"{:engine-command ["pass" "realm"] :host "b.1" :share :all :lease-ms 3000}"#).unwrap();
        assert_eq!((policy.share, policy.lease.as_millis()), (Share::All, 3000));
        assert_eq!((policy.takeover, policy.workspace), (Takeover::Ask, Workspace::Own));
        assert!(read(r#"{:engine "nats://x" :host "a"}"#).is_ok());
        let auto = read(r#"{:engine "postgres://x" :host "a" :takeover :auto :workspace :shared}"#).unwrap();
        assert_eq!((auto.takeover, auto.workspace), (Takeover::Auto, Workspace::Shared));
        assert!(matches!(policy.engine, EngineAddress::Command(command) if command == ["pass", "realm"]));
    }

    #[test]
    fn realm_of_another_shape_is_refused() {
        for (text, expected) in [
            ("[]", "a map"),
            (r#"{:host "a"}"#, ":engine"),
            (r#"{:engine "postgres://x"}"#, ":host"),
            (r#"{:engine "mysql://x" :host "a"}"#, "postgres"),
            (r#"{:engine "postgres://x" :host "a b"}"#, ":host"),
            (r#"{:engine "postgres://x" :host ""}"#, ":host"),
            (r#"{:engine-command [] :host "a"}"#, ":engine-command"),
            (r#"{:engine "postgres://x" :host "a" :share :some}"#, ":share"),
            (r#"{:engine "postgres://x" :host "a" :lease-ms 10}"#, ":lease-ms"),
            (r#"{:engine "postgres://x" :host "a" :takeover :now}"#, ":takeover"),
            (r#"{:engine "postgres://x" :host "a" :workspace :here}"#, ":workspace"),
            (r#"{:engine "postgres://x" :host "a" :takeover :auto}"#, ":workspace :shared"),
            (r#"{:engine "postgres://x" :host "a" :colour 1}"#, "no other keys"),
        ] {
            assert!(read(text).is_err_and(|told| told.contains(expected)), "{text}: {:?}", read(text));
        }
    }
}
