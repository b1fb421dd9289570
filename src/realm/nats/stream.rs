//! The stream of a realm: how it is made, and what of a server and a stream is refused.

use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::http::{self, Http};
use crate::limits::{REALM_CALL_WAIT, REALM_LOOK};
use crate::realm::check::{RealmCheck, RealmNote};
use crate::realm::error::RealmError;
use crate::realm::nats::address::Address;
use crate::realm::nats::link::{Check, Kind, Line, OutgoingMessage};
use crate::realm::nats::records::{STREAM, SUBJECTS, VERSION};

/// Bytes of the server's page about itself.
const PAGE_BYTES: usize = 1024 * 1024;

/// The oldest version that takes messages as a unit.
const OLDEST: (u64, u64) = (2, 12);

/// What the server says of the stream.
#[derive(Debug, Deserialize)]
struct Info {
    config: Config,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    metadata: Metadata,
    subjects: Vec<String>,
    storage: String,
    retention: String,
    discard: String,
    num_replicas: u64,
    max_msgs_per_subject: i64,
    max_msgs: i64,
    max_bytes: i64,
    max_msg_size: i64,
    max_age: i64,
    /// A message takes the place of one whose time is over.
    subject_delete_marker_ttl: i64,
    allow_atomic: bool,
    allow_msg_ttl: bool,
    allow_direct: bool,
    /// Takes nothing but numbers.
    allow_msg_counter: bool,
    no_ack: bool,
    sealed: bool,
    deny_purge: bool,
    mirror: Option<IgnoredAny>,
    sources: Vec<IgnoredAny>,
    subject_transform: Option<IgnoredAny>,
    republish: Option<IgnoredAny>,
    persist_mode: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    edn_bridge: Option<String>,
}

impl Config {
    /// Why a realm cannot be kept in a stream like this.
    fn refusal(&self) -> Option<String> {
        let version: Option<u32> = self.metadata.edn_bridge.as_ref().and_then(|text| text.parse().ok());
        match version {
            None => return Some(format!("The stream {STREAM} of the realm's engine is none of edn-bridge.")),
            Some(newer) if newer > VERSION => {
                return Some(format!(
                    "The realm has version {newer}; this program knows {VERSION}. A newer edn-bridge can use it."
                ));
            }
            Some(_) => {}
        }
        if self.num_replicas == 2 {
            return Some(format!(
                "The stream {STREAM} has two copies: without either of them nothing can be written. Use one or three."
            ));
        }
        let wrong = [
            (self.storage != "file", "is not kept on disk"),
            (
                self.persist_mode.as_deref() == Some("async"),
                "is written to disk later (persist_mode = async)",
            ),
            (self.retention != "limits", "forgets what somebody has read (retention)"),
            (self.max_msgs_per_subject != 1, "keeps another number of messages in a subject than one"),
            (
                self.max_msgs > 0 || self.max_bytes > 0 || self.max_age > 0,
                "forgets its oldest messages (a limit)",
            ),
            (self.discard != "old", "refuses messages where it has one (discard)"),
            (self.max_msg_size > 0, "refuses long messages (max_msg_size)"),
            (self.no_ack, "does not say what it has taken (no_ack)"),
            (self.sealed || self.mirror.is_some(), "cannot be written (sealed or a mirror)"),
            (self.deny_purge, "keeps what is deleted (deny_purge)"),
            (self.allow_msg_counter, "takes numbers alone (allow_msg_counter)"),
            (self.subject_delete_marker_ttl > 0, "writes messages of its own (subject_delete_marker_ttl)"),
            (
                self.subjects != [SUBJECTS] || !self.sources.is_empty() || self.subject_transform.is_some(),
                "has other messages than the realm's (subjects, sources, subject_transform)",
            ),
            (self.republish.is_some(), "tells others of messages before they are acknowledged (republish)"),
            (
                !self.allow_atomic || !self.allow_msg_ttl || !self.allow_direct,
                "lacks a setting that is needed (allow_atomic, allow_msg_ttl, allow_direct)",
            ),
        ];
        let (_, what) = wrong.iter().find(|(is_wrong, _)| *is_wrong)?;
        Some(format!(
            "The stream {STREAM} of the realm {what}. Run `edn-bridge realm init` on an empty server."
        ))
    }
}

/// The stream as it has to be.
fn wanted(replicas: usize) -> serde_json::Value {
    json!({
        "name": STREAM,
        "description": "The realm of edn-bridge",
        "subjects": [SUBJECTS],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "num_replicas": replicas,
        "max_msgs_per_subject": 1,
        "allow_atomic": true,
        "allow_msg_ttl": true,
        "allow_direct": true,
        "metadata": { "edn_bridge": VERSION.to_string() },
    })
}

/// Why a server of that version is refused.
fn version_refusal(version: &str) -> Option<String> {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u64>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (found < OLDEST).then(|| {
        format!(
            "The realm's engine is NATS {version}; 2.12 is the oldest that is used. Older ones do not write entries as a \
             unit, and some lose what they have acknowledged."
        )
    })
}

/// Refuses a server that is too old.
fn is_new_enough(line: &Line) -> Result<(), RealmError> {
    match version_refusal(&line.client.server_info().version) {
        Some(refusal) => Err(RealmError::Unfit(refusal.into())),
        None => Ok(()),
    }
}

/// Refuses a server without a realm, with one of a newer program, or with one that may lose something. Whether it syncs is
/// looked at where the address says how.
pub(super) async fn is_fit(address: &Address, line: &Line) -> Result<(), RealmError> {
    is_new_enough(line)?;
    if address.monitor.is_some() {
        is_synced(address, line).await?;
    }
    let info = line.info::<Info>().await?;
    let info = info.ok_or_else(|| {
        RealmError::Unfit("The realm's engine has no realm yet. Run `edn-bridge realm init`.".into())
    })?;
    info.config.refusal().map_or(Ok(()), |refusal| Err(RealmError::Unfit(refusal.into())))
}

/// Makes the stream, if it is not there.
pub(super) async fn init(address: &Address) -> Result<(), RealmError> {
    let line = Line::connect(address).await?;
    is_new_enough(&line)?;
    is_synced(address, &line).await?;
    if address.replicas == 2 || address.replicas == 0 || address.replicas > 5 {
        return Err(RealmError::Unfit(
            "A stream has one copy, or three or five in a cluster (replicas).".into(),
        ));
    }
    if line.info::<Info>().await?.is_none() {
        let made = line
            .api::<serde_json::Value>(
                Kind::Write,
                &format!("STREAM.CREATE.{STREAM}"),
                &wanted(address.replicas),
            )
            .await;
        // Another host may just have made it.
        match made {
            Err(RealmError::Refused(_)) if line.info::<Info>().await?.is_some() => {}
            made => drop(made?),
        }
    }
    is_fit(address, &line).await
}

/// Whether the server syncs before it acknowledges, as far as it can be seen: `None` if it cannot.
///
/// # Errors
/// [`RealmError::Unfit`] if it does not.
pub(super) async fn is_synced(address: &Address, line: &Line) -> Result<Option<()>, RealmError> {
    let guessed = || address.servers.first().map(|server| format!("http://{}:8222", server.host()));
    let Some(monitor) = address.monitor.as_deref().map(str::to_owned).or_else(guessed) else {
        return Ok(None);
    };
    let Ok(page) = http::Url::parse(&format!("{}/varz", monitor.trim_end_matches('/'))) else {
        return Err(RealmError::Unfit("The `monitor` of the realm's engine is no address of a page.".into()));
    };
    let clients = Http::default();
    let Ok(client) = clients.client(&page) else { return Ok(None) };
    let asked = async {
        let mut answer = http::send(client.get(page), REALM_LOOK).await.ok()?;
        let text = http::whole(&mut answer, PAGE_BYTES, REALM_LOOK).await.ok()?;
        serde_json::from_slice::<Varz>(&text).ok()
    };
    let Ok(Some(varz)) = tokio::time::timeout(REALM_LOOK, asked).await else { return Ok(None) };
    if varz.server_id != line.client.server_info().server_id {
        return Ok(None);
    }
    if varz.jetstream.config.is_some_and(|config| config.sync_always) {
        return Ok(Some(()));
    }
    Err(RealmError::Unfit(
        "The realm's engine acknowledges what is not on its disk yet. Set `sync_interval: always` in the `jetstream` \
         part of its configuration."
            .into(),
    ))
}

#[derive(Deserialize)]
struct Varz {
    server_id: String,
    #[serde(default)]
    jetstream: JetStream,
}

#[derive(Default, Deserialize)]
struct JetStream {
    config: Option<JetStreamConfig>,
}

#[derive(Deserialize)]
struct JetStreamConfig {
    #[serde(default)]
    sync_always: bool,
}

/// Looks at a server that has a realm, and measures it.
pub(super) async fn check(address: &Address) -> Result<RealmCheck, RealmError> {
    let line = Line::connect(address).await?;
    is_fit(address, &line).await?;
    let seen = is_synced(address, &line).await?;
    let (mut round_trip, mut append) = (REALM_CALL_WAIT, REALM_CALL_WAIT);
    for _ in 0..5 {
        let begin = Instant::now();
        line.now_ms().await?;
        round_trip = round_trip.min(begin.elapsed());
        let begin = Instant::now();
        line.commit(vec![OutgoingMessage::new("edn_bridge.check".to_owned(), Vec::new(), Check::Free)])
            .await?;
        append = append.min(begin.elapsed());
    }
    let mut notes = Vec::new();
    if seen.is_none() {
        notes.push(RealmNote {
            what: "Whether the server syncs before it acknowledges cannot be seen from here: its configuration needs \
                   `sync_interval: always` in the `jetstream` part.",
            advice: match address.monitor {
                Some(_) => "The page that `monitor` in the address names cannot be read, or is another server's.",
                None => "`?monitor=http://HOST:8222` in the address lets this look.",
            },
        });
    }
    let copies = u64::try_from(address.replicas).unwrap_or(u64::MAX);
    if copies > 1 && line.info::<Info>().await?.is_some_and(|info| info.config.num_replicas != copies) {
        notes.push(RealmNote {
            what: "The stream has another number of copies than `replicas` in the address says.",
            advice: "Change the stream's (`nats stream edit EDN_BRIDGE --replicas N`), or the address.",
        });
    }
    let info = line.client.server_info();
    Ok(RealmCheck {
        place: address.name(),
        engine: "NATS",
        version: Arc::from(info.version.as_str()),
        is_encrypted: address.is_encrypted,
        round_trip,
        append,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_refused() {
        for version in ["2.9.10", "2.11.99", "1.0", "", "dev"] {
            assert!(version_refusal(version).is_some(), "{version}");
        }
        for version in ["2.12.0", "2.12.0-RC.1", "2.15.1", "3.0.0"] {
            assert_eq!(version_refusal(version), None, "{version}");
        }
    }

    #[test]
    fn stream_that_may_lose_something_is_refused() {
        let config = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut config = wanted(1);
            change(&mut config);
            let config: Config = serde_json::from_value(config).unwrap();
            config.refusal().unwrap_or_default()
        };
        assert_eq!(config(&|_| ()), "");
        for (key, value, said) in [
            ("metadata", json!({}), "none of edn-bridge"),
            ("metadata", json!({ "edn_bridge": "99" }), "version 99"),
            ("storage", json!("memory"), "on disk"),
            ("persist_mode", json!("async"), "persist_mode"),
            ("retention", json!("interest"), "retention"),
            ("num_replicas", json!(2), "two copies"),
            ("max_msgs_per_subject", json!(5), "than one"),
            ("max_age", json!(1), "a limit"),
            ("discard", json!("new"), "(discard)"),
            ("max_msg_size", json!(1024), "max_msg_size"),
            ("no_ack", json!(true), "no_ack"),
            ("sealed", json!(true), "sealed"),
            ("mirror", json!({ "name": "OTHER" }), "mirror"),
            ("deny_purge", json!(true), "deny_purge"),
            ("allow_msg_counter", json!(true), "numbers"),
            ("subject_delete_marker_ttl", json!(1_000_000_000), "of its own"),
            ("subjects", json!(["edn_bridge.c.*"]), "other messages"),
            ("subjects", json!([SUBJECTS, "edn_bridge_hint.>"]), "other messages"),
            ("sources", json!([{ "name": "OTHER" }]), "other messages"),
            ("subject_transform", json!({ "src": ">", "dest": "x.>" }), "other messages"),
            ("republish", json!({ "src": ">", "dest": "x.>" }), "republish"),
            ("allow_atomic", json!(false), "is needed"),
            ("allow_msg_ttl", json!(false), "is needed"),
            ("allow_direct", json!(false), "is needed"),
        ] {
            let refusal = config(&|config| {
                if let Some(object) = config.as_object_mut() {
                    object.insert(key.to_owned(), value.clone());
                }
            });
            assert!(refusal.contains(said), "{key}: {refusal:?} has no {said:?}");
        }
    }
}
