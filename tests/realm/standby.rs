//! Two servers, one the standby of the other: what a failover does to each promise.

use std::sync::Arc;
use std::time::Instant;

use edn_bridge::message::SessionId;
use edn_bridge::realm::rules::LeaseTerms;
use edn_bridge::realm::{Realm, RealmError, RealmWriter, Tail, Written, connect};
use edn_bridge::secret::Secret;

use crate::promises::{entries, header, host, ids, log, run};
use crate::server::{Engine as _, PATIENCE, Server, command, open_to_others, programs};

/// A server with a realm, and its standby, which follows it.
fn pair() -> Option<(Server, Server)> {
    let primary = Server::start()?;
    let folder = tempfile::Builder::new().prefix("edn-bridge-pg").tempdir_in("/tmp").unwrap();
    open_to_others(folder.path());
    crate::server::give(folder.path());
    let copy = folder.path().join("copy");
    let port = primary.port.to_string();
    let copied = command(&programs().unwrap().join("pg_basebackup"))
        .args(["-h", "127.0.0.1", "-U", "edn", "-c", "fast", "-R", "--no-sync", "-p", &port, "-D"])
        .arg(&copy)
        .output()
        .unwrap();
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let follows = format!(
        "primary_conninfo = 'host=127.0.0.1 user=edn port={port}'\nwal_retrieve_retry_interval = '100ms'"
    );
    let standby = Server::of(&copy, &follows);
    until(&primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", "1");
    Some((primary, standby))
}

fn until(server: &Server, sql: &str, expected: &str) {
    let end = Instant::now() + PATIENCE;
    while server.sql(sql) != [expected] {
        assert!(Instant::now() < end, "{sql} is {:?}", server.sql(sql));
    }
}

/// From now on an append waits for the standby.
fn is_synchronous(primary: &Server) {
    primary.configure("synchronous_standby_names = '*'");
    primary.sql("SELECT pg_reload_conf()");
    until(primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", "1");
}

/// A host that knows both addresses.
async fn of_both(primary: &Server, standby: &Server) -> Arc<dyn Realm> {
    let url = format!(
        "postgres://edn@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port, standby.port
    );
    let realm = connect(&Secret::new(url), host("laptop", "1"), "test", LeaseTerms::default()).unwrap();
    realm.renew().await.unwrap();
    realm
}

async fn writer_of(realm: &Arc<dyn Realm>) -> RealmWriter {
    let claim = realm.create(&header("s-1")).await.unwrap();
    RealmWriter::new(realm.clone(), claim, &Tail::default()).unwrap()
}

/// Writes an entry for as long as nothing says that this is in vain.
async fn write(writer: &mut RealmWriter, id: &str) -> Result<(), RealmError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match writer.write(&entries(&[id]), None).await {
            Ok(Written::Saved(_)) => return Ok(()),
            Ok(Written::DecideAnew(_)) => {}
            Err(error) if error.may_pass() && Instant::now() < end => {}
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn failover_to_a_synchronous_standby_loses_nothing() {
    let Some((mut primary, standby)) = pair() else { return };
    is_synchronous(&primary);
    let session = SessionId::from("s-1");
    run(async {
        let realm = of_both(&primary, &standby).await;
        let mut writer = writer_of(&realm).await;
        let names: Vec<String> = (0..30).map(|n| format!("e{n}")).collect();
        for name in &names[..20] {
            write(&mut writer, name).await.unwrap();
        }
        primary.kill();
        standby.sql("SELECT pg_promote()");
        for name in &names[20..] {
            write(&mut writer, name).await.unwrap();
        }
        assert_eq!(ids(&log(&*realm, &session).await), names, "nothing is lost, nothing doubled");
        realm.renew().await.unwrap();
    });
}

#[test]
fn append_waits_for_a_synchronous_standby_that_is_away() {
    let Some((primary, mut standby)) = pair() else { return };
    is_synchronous(&primary);
    let session = SessionId::from("s-1");
    run(async {
        let realm = of_both(&primary, &standby).await;
        let mut writer = writer_of(&realm).await;
        write(&mut writer, "a").await.unwrap();
        standby.kill();
        // Nobody may acknowledge it, and nobody may find it saved, while one server alone has it.
        let refused = writer.write(&entries(&["b"]), None).await;
        assert!(matches!(refused, Err(RealmError::InDoubt(_))), "{refused:?}");
        standby.begin();
        write(&mut writer, "b").await.unwrap();
        assert_eq!(ids(&log(&*realm, &session).await), ["a", "b"]);
    });
}

#[test]
fn failover_to_a_standby_that_lacks_entries_is_noticed() {
    let Some((mut primary, mut standby)) = pair() else { return };
    run(async {
        let realm = of_both(&primary, &standby).await;
        let mut writer = writer_of(&realm).await;
        write(&mut writer, "a").await.unwrap();
        until(&standby, "SELECT count(*) FROM edn_bridge.entry", "1");
        standby.kill();
        write(&mut writer, "b").await.unwrap();
        primary.kill();
        standby.begin();
        standby.sql("SELECT pg_promote()");
        let stopped = write(&mut writer, "c").await.unwrap_err();
        assert!(matches!(stopped, RealmError::Behind { found: 1, .. }), "{stopped:?}");
    });
    assert_eq!(standby.sql("SELECT tail FROM edn_bridge.session"), ["1"], "nothing is written");
}
