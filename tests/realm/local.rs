//! The journals of one machine as a realm.

use std::path::Path;

use edn_bridge::realm::{LocalRealm, Realm as _, RealmError, Tail};
use edn_bridge::store::{Durability, Store};

use crate::promises::{self, entries, header, host, ids, log, run};

fn realm(folder: &Path) -> LocalRealm {
    LocalRealm::new(host("laptop", "1"), Store::new(folder, Durability::Full).unwrap())
}

#[test]
fn session_is_claimed_appended_read_and_released() {
    let folder = tempfile::tempdir().unwrap();
    run(promises::owner_keeps_a_session(&realm(folder.path())));
}

#[test]
fn append_elsewhere_than_at_the_end_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    run(promises::append_fits_in_one_place(&realm(folder.path())));
}

#[test]
fn older_claim_appends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    run(promises::older_claim_is_fenced(&realm(folder.path())));
}

#[test]
fn log_without_what_is_known_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(promises::lacking_log_is_refused(&realm(folder.path())));
}

#[test]
fn session_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    run(promises::session_is_made_once(&realm(folder.path())));
}

#[test]
fn deleted_session_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    run(promises::deleted_session_is_gone(&realm(folder.path())));
}

#[test]
fn session_that_another_has_is_not_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (realm(folder.path()), realm(folder.path()));
    run(async {
        let claim = one.create(&header("s-1")).await.unwrap();
        let at = one.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        let session = claim.session.clone();
        let refused = other.claim(&session, Path::new("/project"), &at).await;
        assert!(matches!(refused, Err(RealmError::Held { .. })), "{refused:?}");
        assert_eq!(ids(&log(&other, &session).await), ["a"], "anybody reads it");
        one.release(&claim).await.unwrap();
        // The writing thread may hold the file for another moment.
        let taken = loop {
            match other.claim(&session, Path::new("/project"), &at).await {
                Err(RealmError::Held { .. }) => tokio::task::yield_now().await,
                claim => break claim.unwrap(),
            }
        };
        other.append(&taken, &at, &entries(&["b"]), None).await.unwrap();
        assert_eq!(ids(&log(&one, &session).await), ["a", "b"]);
    });
}
