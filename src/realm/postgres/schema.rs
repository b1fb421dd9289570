//! The tables of a realm, by version, and whether an engine is one that keeps what it says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::REALM_INIT_WAIT;
use crate::realm::check::{RealmCheck, RealmNote};
use crate::realm::error::RealmError;
use crate::realm::postgres::config::Address;
use crate::realm::postgres::link::{Kind, Link, Purpose};

/// The version of the tables that this program uses.
const VERSION: i32 = 2;

/// What makes each version of the one before it.
const STEPS: &[&str] = &[
    "
CREATE TABLE edn_bridge.member (
  member name PRIMARY KEY DEFAULT current_user,
  -- Any role may listen to any channel, so its name is a secret between a user's hosts.
  channel text NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''));
CREATE TABLE edn_bridge.host (
  member name NOT NULL DEFAULT current_user, name text NOT NULL,
  key text NOT NULL, incarnation text NOT NULL, run bigint NOT NULL,
  build text NOT NULL, until timestamptz NOT NULL,
  PRIMARY KEY (member, name));
CREATE TABLE edn_bridge.session (
  member name NOT NULL DEFAULT current_user, id text NOT NULL,
  header text NOT NULL, cwd text NOT NULL, owner text, epoch bigint NOT NULL,
  tail bigint NOT NULL DEFAULT 0, tail_id text, slot text NOT NULL DEFAULT '',
  changed timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (member, id))
  -- Each append writes the row again: with room on its page, no index is touched.
  WITH (fillfactor = 50);
CREATE TABLE edn_bridge.entry (
  member name NOT NULL DEFAULT current_user, session text NOT NULL, seq bigint NOT NULL,
  id text NOT NULL, epoch bigint NOT NULL, line text NOT NULL,
  PRIMARY KEY (member, session, seq), UNIQUE (member, session, id));
CREATE TABLE edn_bridge.request (
  member name NOT NULL DEFAULT current_user, id text NOT NULL, session text NOT NULL,
  host text NOT NULL, asker text NOT NULL, op text NOT NULL, params text NOT NULL, key text,
  at timestamptz NOT NULL DEFAULT clock_timestamp(), expires timestamptz NOT NULL, answer text,
  PRIMARY KEY (member, id));
CREATE INDEX request_open ON edn_bridge.request (member, host) WHERE answer IS NULL;
CREATE TABLE edn_bridge.blob (
  member name NOT NULL DEFAULT current_user, digest text NOT NULL, bytes bytea NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (member, digest));
DO $$ DECLARE one text; BEGIN
  FOREACH one IN ARRAY ARRAY['member', 'host', 'session', 'entry', 'request', 'blob'] LOOP
    EXECUTE format('ALTER TABLE edn_bridge.%I ENABLE ROW LEVEL SECURITY', one);
    EXECUTE format('ALTER TABLE edn_bridge.%I FORCE ROW LEVEL SECURITY', one);
    EXECUTE format('CREATE POLICY own ON edn_bridge.%I USING (member = current_user)', one);
  END LOOP;
END $$;
",
    "
-- A deleted session stays as a row that says so.
ALTER TABLE edn_bridge.session ADD COLUMN deleted boolean NOT NULL DEFAULT false;
ALTER TABLE edn_bridge.request DROP COLUMN op, DROP COLUMN key;
ALTER TABLE edn_bridge.request RENAME COLUMN params TO call;
DROP TABLE edn_bridge.blob;
",
];

const BEGIN: &str = "
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('edn_bridge'));
CREATE SCHEMA IF NOT EXISTS edn_bridge;
CREATE TABLE IF NOT EXISTS edn_bridge.version (version int NOT NULL);
";

const LOOK: &str = "SELECT current_setting('server_version_num')::int, current_setting('fsync'), \
    current_setting('full_page_writes'), current_setting('synchronous_commit'), \
    current_setting('server_encoding'), pg_is_in_recovery(), current_setting('synchronous_standby_names'), \
    (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user), \
    to_regclass('edn_bridge.version') IS NOT NULL, current_setting('server_version')";

/// What an engine says of itself.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) version: Arc<str>,
    pub(super) standbys: Arc<str>,
    pub(super) bypasses: bool,
    has_realm: bool,
}

/// Asks an engine whether it keeps what it acknowledges.
///
/// # Errors
/// [`RealmError::Unfit`] with the reason if it does not.
pub(super) async fn look(link: &mut Link) -> Result<Look, RealmError> {
    let rows = link.rows(Kind::Read, LOOK, &[]).await?;
    let row = rows.first().ok_or_else(|| RealmError::Damaged("no answer about its settings".into()))?;
    let text = |place: usize| row.try_get::<_, &str>(place).unwrap_or_default().to_owned();
    let number: i32 = row.try_get(0).unwrap_or_default();
    let settings = Settings {
        number,
        fsync: text(1),
        full_page_writes: text(2),
        synchronous_commit: text(3),
        encoding: text(4),
    };
    if let Some(reason) = settings.refusal() {
        return Err(RealmError::Unfit(reason.into()));
    }
    if row.try_get(5).unwrap_or_default() {
        // It may become one that takes something in.
        return Err(RealmError::Unreachable("it is a standby, which takes nothing in".into()));
    }
    Ok(Look {
        version: text(9).into(),
        standbys: text(6).into(),
        bypasses: row.try_get(7).unwrap_or_default(),
        has_realm: row.try_get(8).unwrap_or_default(),
    })
}

struct Settings {
    number: i32,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    encoding: String,
}

impl Settings {
    /// Why an engine with these settings is refused.
    fn refusal(&self) -> Option<String> {
        if self.number < 130_000 {
            let major = self.number / 10_000;
            return Some(format!("The realm's engine is PostgreSQL {major}; 13 is the oldest that is used."));
        }
        for (name, value) in [("fsync", &self.fsync), ("full_page_writes", &self.full_page_writes)] {
            if value != "on" {
                return Some(format!(
                    "The realm's engine has {name} = {value}: a crash of its machine would lose what it has \
                     acknowledged. Set it to on."
                ));
            }
        }
        if self.synchronous_commit == "off" {
            return Some(
                "The realm's engine has synchronous_commit = off for this user: a crash would lose what it has \
                 acknowledged. Set it to on, for the server, the database or the role."
                    .to_owned(),
            );
        }
        if self.encoding != "UTF8" {
            return Some(format!(
                "The database of the realm has the encoding {}; it must be UTF8.",
                self.encoding
            ));
        }
        None
    }
}

/// Refuses an engine without a realm, or with one of a newer program.
pub(super) async fn is_ready(link: &mut Link) -> Result<Look, RealmError> {
    let looked = look(link).await?;
    let found = if looked.has_realm { version(link).await? } else { None };
    match found {
        Some(VERSION) => Ok(looked),
        Some(newer) if newer > VERSION => Err(newer_one(newer)),
        Some(older) => Err(older_one(older)),
        None => {
            Err(RealmError::Unfit("The realm's engine has no realm yet. Run `edn-bridge realm init`.".into()))
        }
    }
}

fn older_one(found: i32) -> RealmError {
    let text = format!(
        "The realm has version {found}; this program needs {VERSION}. Run `edn-bridge realm init`, which brings it up to \
         date."
    );
    RealmError::Unfit(text.into())
}

fn newer_one(found: i32) -> RealmError {
    let text = format!(
        "The realm has version {found}; this program knows {VERSION}. A newer edn-bridge can use it."
    );
    RealmError::Unfit(text.into())
}

async fn version(link: &mut Link) -> Result<Option<i32>, RealmError> {
    let rows = link.rows(Kind::Read, "SELECT max(version) FROM edn_bridge.version", &[]).await?;
    Ok(rows.first().and_then(|row| row.try_get(0).ok().flatten()))
}

/// Makes the realm's tables, or brings older ones up to date, and lets roles use them.
pub(super) async fn init(address: &Address, grant: &[&str]) -> Result<Look, RealmError> {
    let mut link = Link::connect(address, Purpose::Keep, None, ()).await?;
    let looked = look(&mut link).await?;
    link.script(REALM_INIT_WAIT, BEGIN).await?;
    let found = version(&mut link).await?.unwrap_or(0);
    if found > VERSION {
        return Err(newer_one(found));
    }
    let done = usize::try_from(found).unwrap_or(0);
    for (number, step) in STEPS.iter().enumerate().skip(done) {
        link.script(REALM_INIT_WAIT, step).await?;
        let number = number.saturating_add(1);
        link.script(REALM_INIT_WAIT, &format!("INSERT INTO edn_bridge.version VALUES ({number})")).await?;
    }
    for role in grant {
        let role = format!("\"{}\"", role.replace('"', "\"\""));
        link.script(
            REALM_INIT_WAIT,
            &format!(
                "GRANT USAGE ON SCHEMA edn_bridge TO {role};
                 GRANT SELECT ON edn_bridge.version TO {role};
                 GRANT SELECT, INSERT, UPDATE, DELETE ON edn_bridge.member, edn_bridge.host, edn_bridge.session,
                   edn_bridge.entry, edn_bridge.request TO {role};"
            ),
        )
        .await?;
    }
    link.script(REALM_INIT_WAIT, "COMMIT").await?;
    Ok(looked)
}

/// Looks at an engine that has a realm, and measures it.
pub(super) async fn check(address: &Address) -> Result<RealmCheck, RealmError> {
    let mut link = Link::connect(address, Purpose::Keep, None, ()).await?;
    let looked = is_ready(&mut link).await?;
    let (mut round_trip, mut append) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        let begin = Instant::now();
        link.rows(Kind::Read, "SELECT 1", &[]).await?;
        round_trip = round_trip.min(begin.elapsed());
        let begin = Instant::now();
        let write = "INSERT INTO edn_bridge.member AS m DEFAULT VALUES ON CONFLICT (member) DO UPDATE SET channel = m.channel";
        link.count(Kind::Write, write, &[]).await?;
        append = append.min(begin.elapsed());
    }
    let mut notes = Vec::new();
    if looked.standbys.is_empty() {
        notes.push(RealmNote {
            what: "No standby is synchronous (synchronous_standby_names is empty): after a failover to a standby, the \
                   newest entries may be missing. Sessions that notice it stop and say so.",
            advice: "With one server alone there is nothing to do.",
        });
    }
    if looked.bypasses {
        notes.push(RealmNote {
            what: "This role is not bound by row security, so its programs are trusted with every user's sessions.",
            advice: "Give each user a role of its own.",
        });
    }
    Ok(RealmCheck {
        place: address.name(),
        engine: "PostgreSQL",
        version: looked.version,
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
    fn engine_that_may_lose_something_is_refused() {
        let good = || Settings {
            number: 130_000,
            fsync: "on".to_owned(),
            full_page_writes: "on".to_owned(),
            synchronous_commit: "on".to_owned(),
            encoding: "UTF8".to_owned(),
        };
        assert_eq!(good().refusal(), None);
        let refused = |change: fn(&mut Settings)| {
            let mut settings = good();
            change(&mut settings);
            settings.refusal().unwrap_or_default()
        };
        for (change, expected) in [
            ((|it| it.number = 120_019) as fn(&mut Settings), "PostgreSQL 12; 13 is the oldest"),
            (|it| it.fsync = "off".to_owned(), "fsync = off"),
            (|it| it.full_page_writes = "off".to_owned(), "full_page_writes = off"),
            (|it| it.synchronous_commit = "off".to_owned(), "synchronous_commit = off"),
            (|it| it.encoding = "SQL_ASCII".to_owned(), "SQL_ASCII"),
        ] {
            let text = refused(change);
            assert!(text.contains(expected), "{text:?} has no {expected:?}");
        }
    }
}
