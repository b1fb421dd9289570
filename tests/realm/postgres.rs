//! What PostgreSQL alone promises, and what of it is refused.

use std::path::Path;

use edn_bridge::realm::rules::LeaseTerms;
use edn_bridge::realm::{RealmError, RealmFilter, Tail, check, connect, init};
use edn_bridge::secret::Secret;

use crate::promises::{entries, entry, header, host, poll, run};
use crate::server::{Engine as _, Server};

#[test]
fn engine_that_knows_an_earlier_run_lets_the_later_one_in() {
    let Some(server) = Server::start() else { return };
    run(async {
        let later = server.realm(host("laptop", "2"));
        later.renew().await.unwrap();
        // Set back to a state that has the first run, whose lease holds.
        server.sql("UPDATE edn_bridge.host SET run = 1, incarnation = 'laptop-1'");
        later.renew().await.unwrap();
    });
}

#[test]
fn what_nobody_needs_any_more_is_removed() {
    let Some(server) = Server::start() else { return };
    server.sql(
        "INSERT INTO edn_bridge.request (id, session, host, asker, call, expires) SELECT 'old-' || n, 's-1', 'a', 'b', '', \
           clock_timestamp() - interval '2 days' FROM generate_series(1, 25000) n; \
         INSERT INTO edn_bridge.request (id, session, host, asker, call, expires) \
           VALUES ('new', 's-1', 'a', 'b', '', clock_timestamp()); \
         INSERT INTO edn_bridge.host (name, key, incarnation, build, until, run) SELECT name, 'k', 'i', 'b', \
           clock_timestamp() - days, 1 FROM (VALUES ('gone', interval '31 days'), ('owns', interval '31 days'), \
             ('away', interval '29 days')) h (name, days); \
         INSERT INTO edn_bridge.session (id, header, cwd, owner, epoch) VALUES ('s-1', '', '', 'owns', 1)",
    );
    run(async {
        let _entered = server.host("laptop").await;
        // The hosts come last.
        let hosts = || server.sql("SELECT name FROM edn_bridge.host ORDER BY name");
        poll("it is removed", async || (hosts() == ["away", "laptop", "owns"]).then_some(())).await;
    });
    assert_eq!(server.sql("SELECT id FROM edn_bridge.request"), ["new"]);
}

#[test]
fn roles_see_nothing_of_each_other() {
    let Some(server) = Server::start() else { return };
    server.sql("CREATE ROLE ann LOGIN; CREATE ROLE \"Bob \"\"b\" LOGIN; CREATE ROLE eve LOGIN");
    run(async {
        init(&server.url(), &["ann", "Bob \"b"]).await.unwrap();
        let realm = |user: &str, name: &str| {
            let url = Secret::new(format!("postgres://{user}@127.0.0.1:{}/postgres", server.port));
            connect(&url, host(name, user), "test", LeaseTerms::default()).unwrap()
        };
        let (ann, bob, eve) = (realm("ann", "laptop"), realm("Bob%20%22b", "laptop"), realm("eve", "laptop"));
        for realm in [&ann, &bob] {
            realm.renew().await.unwrap();
            let claim = realm.create(&header("s-1")).await.unwrap();
            let text = format!("of {}", realm.me().incarnation.id);
            realm.append(&claim, &Tail::default(), &[entry("a", &text)], None).await.unwrap();
        }
        for realm in [&ann, &bob] {
            assert_eq!(realm.list(&RealmFilter::default(), 10).await.unwrap().len(), 1);
            assert_eq!(realm.hosts().await.unwrap().len(), 1);
        }
        let refused = eve.renew().await.unwrap_err();
        assert!(refused.to_string().contains("--grant"), "{refused}");
    });
    for table in ["host", "session", "entry", "member"] {
        assert_eq!(
            server.sql_as("ann", &format!("SELECT DISTINCT member FROM edn_bridge.{table}")),
            ["ann"],
            "{table}"
        );
    }
    let channels = server.sql("SELECT count(DISTINCT channel) FROM edn_bridge.member");
    assert_eq!(channels, ["2"], "nobody else knows a user's channel");
}

#[test]
fn realm_is_made_once_and_a_newer_one_is_refused() {
    let Some(server) = Server::start() else { return };
    run(async {
        init(&server.url(), &[]).await.unwrap();
        let looked = check(&server.url()).await.unwrap();
        assert_eq!(looked.notes.len(), 2, "{looked:?}");
        assert!(looked.place.starts_with("127.0.0.1:") && !looked.is_encrypted);
        // One of version 1 is brought up to date, with what is in it.
        let claim = server.host("laptop").await.create(&header("s-1")).await.unwrap();
        server.sql(
            "DELETE FROM edn_bridge.version WHERE version > 1; ALTER TABLE edn_bridge.session DROP COLUMN deleted; \
             ALTER TABLE edn_bridge.request RENAME COLUMN call TO params; \
             ALTER TABLE edn_bridge.request ADD COLUMN op text, ADD COLUMN key text; CREATE TABLE edn_bridge.blob ()",
        );
        let old = check(&server.url()).await.unwrap_err();
        let old = old.to_string();
        assert!(old.contains("version 1") && old.contains("realm init"), "{old}");
        init(&server.url(), &[]).await.unwrap();
        server.host("laptop").await.open(&claim.session).await.unwrap();
        server.sql("INSERT INTO edn_bridge.version VALUES (99)");
        for refused in
            [init(&server.url(), &[]).await.unwrap_err(), check(&server.url()).await.map(drop).unwrap_err()]
        {
            assert!(refused.to_string().contains("version 99"), "{refused}");
        }
        server.sql("DROP SCHEMA edn_bridge CASCADE");
        let none = check(&server.url()).await.unwrap_err();
        assert!(none.to_string().contains("realm init"), "{none}");
    });
}

#[test]
fn engine_that_does_not_sync_is_refused() {
    let Some(mut server) = Server::start() else { return };
    for setting in ["synchronous_commit", "fsync", "full_page_writes"] {
        server.stop();
        server.configure(&format!("{setting} = off"));
        server.begin();
        run(async {
            let realm = server.realm(host("laptop", "1"));
            for refused in
                [check(&server.url()).await.map(drop).unwrap_err(), realm.renew().await.unwrap_err()]
            {
                assert!(refused.to_string().contains(&format!("{setting} = off")), "{refused}");
            }
        });
    }
}

#[test]
fn pooler_of_transactions_is_refused() {
    let Some(server) = Server::start() else { return };
    let pooler = Path::new("/usr/sbin/pgbouncer");
    if !pooler.exists() {
        eprintln!("LEFT OUT: pgbouncer (Debian: pgbouncer) is missing");
        return;
    }
    let folder = server.data().join("pooler");
    std::fs::create_dir(&folder).unwrap();
    let port = crate::server::free_port();
    let ignored = ["", "ignore_startup_parameters = options"];
    for (n, ignore) in ignored.into_iter().enumerate() {
        let settings = folder.join(format!("{n}.ini"));
        std::fs::write(&settings, format!(
            "[databases]\npostgres = host=127.0.0.1 port={} user=edn\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n{ignore}\n",
            server.port
        )).unwrap();
        let mut process = crate::server::command(pooler)
            .arg(&settings)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let refused = run(async {
            let url = server.url_at(port);
            let look = async || match check(&url).await {
                Err(RealmError::Unreachable(_)) => None,
                refused => Some(refused.unwrap_err()),
            };
            poll("the pooler answers", look).await
        });
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(refused.to_string().contains("pooler"), "{n}: {refused}");
    }
}

#[test]
fn restored_backup_is_noticed_by_who_knows_more() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let session = claim.session.clone();
        let at = a.append(&claim, &Tail::default(), &entries(&["a", "b", "c"]), None).await.unwrap();
        // A backup of the time after "a" is restored, and another host continues it.
        server.sql("DELETE FROM edn_bridge.entry WHERE seq > 1; UPDATE edn_bridge.session SET tail = 1, tail_id = 'a', epoch = 1, owner = NULL");
        let taken = b.claim(&session, Path::new("/project"), &Tail::at(1, "a".into())).await.unwrap();
        let other = b.append(&taken, &taken.tail, &entries(&["x", "y", "z"]), None).await.unwrap();
        for error in [
            a.read(&session, &at, 5).await.map(drop).unwrap_err(),
            a.settle(&claim, &at).await.map(drop).unwrap_err(),
        ] {
            assert!(matches!(error, RealmError::Diverged { seq: 3, .. }), "{error:?}");
        }
        assert!(b.append(&taken, &other, &entries(&["ä"]), None).await.is_ok());
    });
}

#[test]
fn id_of_an_entry_stands_once() {
    let Some(server) = Server::start() else { return };
    run(async {
        let a = server.host("laptop").await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let at = a.append(&claim, &Tail::default(), &entries(&["a", "b"]), None).await.unwrap();
        let twice = a.append(&claim, &at, &entries(&["a"]), None).await;
        assert!(matches!(twice, Err(RealmError::Refused(_))), "{twice:?}");
    });
}
