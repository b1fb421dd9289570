//! Which engine an address names.

use std::sync::Arc;

use crate::realm::calls::Realm;
use crate::realm::check::RealmCheck;
use crate::realm::error::RealmError;
#[cfg(feature = "nats")]
use crate::realm::nats::NatsRealm;
#[cfg(feature = "postgres")]
use crate::realm::postgres::PostgresRealm;
use crate::realm::rules::LeaseTerms;
use crate::realm::types::HostId;
use crate::secret::Secret;

/// The engines, by the beginnings of their addresses.
enum Engine {
    #[cfg(feature = "postgres")]
    Postgres,
    #[cfg(feature = "nats")]
    Nats,
}

impl Engine {
    fn of(url: &Secret) -> Result<Self, RealmError> {
        match url.expose().split_once("://").map_or("", |(scheme, _)| scheme) {
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => Ok(Self::Postgres),
            #[cfg(not(feature = "postgres"))]
            "postgres" | "postgresql" => Err(not_built("PostgreSQL", "postgres")),
            #[cfg(feature = "nats")]
            "nats" => Ok(Self::Nats),
            #[cfg(not(feature = "nats"))]
            "nats" => Err(not_built("NATS", "nats")),
            _ => Err(RealmError::Unfit(
                "The engine of a realm is an address like postgres://user@host/database or nats://user@host."
                    .into(),
            )),
        }
    }
}

#[cfg(not(all(feature = "postgres", feature = "nats")))]
fn not_built(name: &str, feature: &str) -> RealmError {
    RealmError::Unfit(
        format!("This program was built without {name}: build it with the feature `{feature}`.").into(),
    )
}

/// A host of the realm at an address. Connects when the first call is made, and runs on the runtime that this is called in.
///
/// # Errors
/// [`RealmError::Unfit`] if the address cannot be used.
pub fn connect(
    url: &Secret,
    me: HostId,
    build: &str,
    terms: LeaseTerms,
) -> Result<Arc<dyn Realm>, RealmError> {
    Ok(match Engine::of(url)? {
        #[cfg(feature = "postgres")]
        Engine::Postgres => Arc::new(PostgresRealm::new(url, me, build, terms)?),
        #[cfg(feature = "nats")]
        Engine::Nats => Arc::new(NatsRealm::new(url, me, build, terms)?),
    })
}

/// Makes what a realm needs at its engine, or brings it up to date, and lets further roles of a database use it, each for its
/// own sessions. Made again, it changes nothing.
///
/// # Errors
/// [`RealmError::Unfit`] if the engine is one that does not keep what it acknowledges.
pub async fn init(url: &Secret, grant: &[&str]) -> Result<(), RealmError> {
    match Engine::of(url)? {
        #[cfg(feature = "postgres")]
        Engine::Postgres => PostgresRealm::init(url, grant).await,
        #[cfg(feature = "nats")]
        Engine::Nats if grant.is_empty() => NatsRealm::init(url).await,
        #[cfg(feature = "nats")]
        Engine::Nats => Err(RealmError::Unfit(
            "NATS keeps its users apart by accounts, which its own configuration has: there are no roles to grant.".into(),
        )),
    }
}

/// Looks whether an engine can be trusted with a realm and has one, and measures it.
///
/// # Errors
/// Why it cannot be used.
pub async fn check(url: &Secret) -> Result<RealmCheck, RealmError> {
    match Engine::of(url)? {
        #[cfg(feature = "postgres")]
        Engine::Postgres => PostgresRealm::check(url).await,
        #[cfg(feature = "nats")]
        Engine::Nats => NatsRealm::check(url).await,
    }
}
