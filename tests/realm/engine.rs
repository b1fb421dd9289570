//! A realm in PostgreSQL: what it promises, to one host and to several.

use std::path::Path;
use std::sync::Arc;

use edn_bridge::realm::rules::LeaseTerms;
use edn_bridge::realm::{PostgresRealm, Realm, RealmError, RealmFilter, RealmHint, RealmRequest, Tail};
use edn_bridge::secret::Secret;

use crate::promises::{self, entries, entry, header, host, ids, log, poll, run};
use crate::server::{PATIENCE, Server};

const PLACE: &str = "/project";

/// Runs a test at a host of a server of its own.
fn at_one_host(test: impl AsyncFnOnce(&PostgresRealm)) {
    let Some(server) = Server::start() else { return };
    run(async { test(&*server.host("laptop").await).await });
}

#[test]
fn owner_keeps_a_session_in_postgres() {
    at_one_host(async |realm| promises::owner_keeps_a_session(realm).await);
}

#[test]
fn append_elsewhere_than_at_the_end_changes_nothing() {
    at_one_host(async |realm| promises::append_fits_in_one_place(realm).await);
}

#[test]
fn older_claim_appends_nothing() {
    at_one_host(async |realm| promises::older_claim_is_fenced(realm).await);
}

#[test]
fn log_without_what_is_known_is_refused() {
    at_one_host(async |realm| promises::lacking_log_is_refused(realm).await);
}

#[test]
fn session_is_made_once() {
    at_one_host(async |realm| promises::session_is_made_once(realm).await);
}

#[test]
fn session_changes_hands_between_living_hosts() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let session = claim.session.clone();
        let at = a.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        match b.claim(&session, Path::new(PLACE), &Tail::default()).await {
            Err(RealmError::Held { host }) => assert_eq!(host.as_str(), "laptop"),
            other => panic!("{other:?}"),
        }
        let nobody = host("nobody", "1").name;
        assert!(matches!(a.hand_over(&claim, &nobody).await, Err(RealmError::NoHost { .. })));
        a.append(&claim, &at, &entries(&["b"]), None).await.unwrap();
        a.hand_over(&claim, &b.me().name).await.unwrap();
        let fenced = a.append(&claim, &Tail::at(2, "b".into()), &entries(&["c"]), None).await;
        assert!(matches!(fenced, Err(RealmError::InDoubt(_))));
        assert!(matches!(a.settle(&claim, &at).await, Err(RealmError::Fenced { .. })));
        assert!(matches!(a.hand_over(&claim, &b.me().name).await, Err(RealmError::Fenced { .. })));
        let taken = b.claim(&session, Path::new("/there"), &Tail::default()).await.unwrap();
        assert_eq!((taken.epoch, taken.tail.seq), (3, 2));
        b.append(&taken, &taken.tail, &entries(&["d"]), None).await.unwrap();
        assert_eq!(ids(&log(&*a, &session).await), ["a", "b", "d"]);
        let slots = a.list(&RealmFilter::default(), 10).await.unwrap();
        assert_eq!(&*slots[0].cwd, "/there");
        let alive: Vec<_> = a
            .hosts()
            .await
            .unwrap()
            .into_iter()
            .map(|it| (it.name.to_string(), it.is_alive, it.sessions))
            .collect();
        assert_eq!(alive, [("desk".to_owned(), true, 1), ("laptop".to_owned(), true, 0)]);
    });
}

#[test]
fn owner_that_is_lost_loses_its_session_to_who_asks() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let session = claim.session.clone();
        let at = a.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        a.leave().await.unwrap();
        assert!(a.open(&session).await.unwrap().owner.unwrap().is_lost);
        let request = RealmRequest { id: "r".into(), call: "{}".into() };
        assert!(
            matches!(b.post(&session, &request).await, Err(RealmError::OwnerLost { host }) if host == a.me().name)
        );
        let taken = b.claim(&session, Path::new(PLACE), &at).await.unwrap();
        a.renew().await.unwrap();
        assert!(matches!(a.settle(&claim, &at).await, Err(RealmError::Fenced { .. })));
        assert!(matches!(a.claim(&session, Path::new(PLACE), &at).await, Err(RealmError::Held { .. })));
        b.append(&taken, &at, &entries(&["b"]), None).await.unwrap();
        // A host without a lease gets nothing: it would lose it at once.
        b.release(&taken).await.unwrap();
        a.leave().await.unwrap();
        assert!(matches!(a.claim(&session, Path::new(PLACE), &at).await, Err(RealmError::Unreachable(_))));
    });
}

#[test]
fn later_run_of_a_host_takes_its_sessions_at_once() {
    let Some(server) = Server::start() else { return };
    run(async {
        let first = server.host("laptop").await;
        let claim = first.create(&header("s-1")).await.unwrap();
        let at = first.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        let again =
            PostgresRealm::new(&server.url(), host("laptop", "2"), "test", LeaseTerms::default()).unwrap();
        again.renew().await.unwrap();
        assert!(
            matches!(first.renew().await, Err(RealmError::NameTaken { .. })),
            "the first run never comes back"
        );
        again.renew().await.unwrap();
        let taken = again.claim(&claim.session, Path::new(PLACE), &at).await.unwrap();
        again.append(&taken, &at, &entries(&["b"]), None).await.unwrap();
        assert!(matches!(first.settle(&claim, &at).await, Err(RealmError::Fenced { .. })));
    });
}

#[test]
fn later_run_is_displaced_by_no_earlier_one() {
    let Some(server) = Server::start() else { return };
    run(async {
        let of_run = |run| {
            PostgresRealm::new(&server.url(), host("laptop", run), "test", LeaseTerms::default()).unwrap()
        };
        let later = of_run("2");
        later.renew().await.unwrap();
        // The first renewal of a run that was killed is carried out only now.
        assert!(matches!(of_run("1").renew().await, Err(RealmError::NameTaken { .. })));
        later.renew().await.unwrap();
    });
}

#[test]
fn engine_that_knows_an_earlier_run_lets_the_later_one_in() {
    let Some(server) = Server::start() else { return };
    run(async {
        let later =
            PostgresRealm::new(&server.url(), host("laptop", "2"), "test", LeaseTerms::default()).unwrap();
        later.renew().await.unwrap();
        // Set back to a state that has the first run, whose lease holds.
        server.sql("UPDATE edn_bridge.host SET run = 1, incarnation = 'laptop-1'");
        later.renew().await.unwrap();
    });
}

#[test]
fn two_hosts_with_one_name_are_refused() {
    let Some(server) = Server::start() else { return };
    run(async {
        let first = server.host("laptop").await;
        let mut other = host("laptop", "2");
        other.key = "another state folder".into();
        let other = PostgresRealm::new(&server.url(), other, "test", LeaseTerms::default()).unwrap();
        let refused = other.renew().await.unwrap_err();
        assert!(refused.to_string().contains("name laptop"), "{refused}");
        first.renew().await.unwrap();
        first.leave().await.unwrap();
        other.renew().await.unwrap();
    });
}

#[test]
fn request_is_answered_once_by_the_owner() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let mut requests = a.requests().await.unwrap();
        let answerer = a.clone();
        tokio::spawn(async move {
            let mut count = 0;
            while let Some(posted) = requests.recv().await {
                count += 1;
                assert_eq!(posted.from.as_str(), "desk");
                let answer = format!("{{:n {count} :call {}}}", posted.request.call);
                answerer.answer(&posted.request.id, &answer).await.unwrap();
            }
        });
        let request = |id: &str| RealmRequest { id: id.into(), call: ":prompt".into() };
        assert_eq!(&*b.post(&claim.session, &request("r-1")).await.unwrap(), "{:n 1 :call :prompt}");
        assert_eq!(
            &*b.post(&claim.session, &request("r-1")).await.unwrap(),
            "{:n 1 :call :prompt}",
            "the same request"
        );
        assert_eq!(&*b.post(&claim.session, &request("r-2")).await.unwrap(), "{:n 2 :call :prompt}");
        let unknown = "s-9".into();
        assert!(matches!(b.post(&unknown, &request("r-3")).await, Err(RealmError::NoSession { .. })));
    });
}

#[test]
fn deleted_session_is_gone_in_postgres() {
    at_one_host(async |realm| promises::deleted_session_is_gone(realm).await);
}

#[test]
fn deleted_session_is_made_by_no_late_call() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let old = a.create(&header("s-1")).await.unwrap();
        let session = old.session.clone();
        let at =
            a.append(&old, &Tail::default(), &entries(&["a", "b"]), Some("{:name \"x\"}")).await.unwrap();
        let kept = a.create(&header("s-2")).await.unwrap();
        a.append(&kept, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        let claim = a.claim(&session, Path::new(PLACE), &at).await.unwrap();
        let fenced = a.delete(&old).await;
        assert!(matches!(fenced, Err(RealmError::Fenced { .. })), "by an older claim: {fenced:?}");
        a.delete(&claim).await.unwrap();
        let known = Tail::default();
        for refused in [
            b.create(&header("s-1")).await.map(drop),
            b.claim(&session, Path::new(PLACE), &known).await.map(drop),
            b.read(&session, &at, 5).await.map(drop),
            b.open(&session).await.map(drop),
            b.post(&session, &RealmRequest { id: "r".into(), call: "{}".into() }).await.map(drop),
        ] {
            assert!(matches!(refused, Err(RealmError::Deleted { .. })), "{refused:?}");
        }
        let late = a.append(&claim, &at, &entries(&["c"]), None).await;
        assert!(matches!(late, Err(RealmError::InDoubt(_))), "{late:?}");
        assert!(matches!(a.settle(&claim, &at).await, Err(RealmError::Fenced { .. })));
        // Nothing of what it said is left, sooner or later.
        let left = "SELECT sum(tail) FROM edn_bridge.session WHERE deleted";
        poll("it is removed", async || (server.sql(left) == ["0"]).then_some(())).await;
        assert_eq!(server.sql("SELECT session, id FROM edn_bridge.entry"), ["s-2|a"]);
        let row = "SELECT header, cwd, slot, owner FROM edn_bridge.session WHERE deleted";
        assert_eq!(server.sql(row), ["|||"]);
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
fn what_an_owner_says_is_heard_piece_by_piece() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let mut heard = b.hear(&claim.session).await.unwrap();
        let mut other = b.hear(&"s-2".into()).await.unwrap();
        let long = "ü".repeat(edn_bridge::limits::REALM_HINT_BYTES / 2);
        for text in ["one", "one", long.as_str()] {
            a.say(&claim, text).await.unwrap();
        }
        for text in ["one", "one", long.as_str()] {
            let got = tokio::time::timeout(PATIENCE, heard.recv()).await.unwrap().unwrap();
            assert_eq!(&*got, text, "two like pieces are two");
        }
        assert!(other.try_recv().is_err());
        assert!(matches!(a.say(&claim, &format!("{long}xx")).await, Err(RealmError::TooLong { .. })));
    });
}

#[test]
fn sessions_are_found_by_owner_and_text() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let one = a.create(&header("s-1")).await.unwrap();
        let two = b.create(&header("s-2")).await.unwrap();
        a.append(&one, &Tail::default(), &[entry("a", "Where is the Needle?")], Some("{:name \"hay\"}"))
            .await
            .unwrap();
        b.append(&two, &Tail::default(), &[entry("a", "nothing")], Some("{:name \"50% _ \\\\\"}"))
            .await
            .unwrap();
        let found = async |host: Option<&str>, text: Option<&str>| {
            let host = host.map(|name| promises::host(name, "1").name);
            let filter = RealmFilter { host, text: text.map(Arc::from) };
            let slots = a.list(&filter, 10).await.unwrap();
            slots.iter().map(|slot| slot.header.session.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found(None, None).await, ["s-2", "s-1"]);
        assert_eq!(found(Some("laptop"), None).await, ["s-1"]);
        assert_eq!(found(None, Some("needle")).await, ["s-1"]);
        assert_eq!(found(None, Some("HAY")).await, ["s-1"]);
        assert_eq!(found(None, Some("% _")).await, ["s-2"], "no character has a meaning");
        assert!(found(Some("desk"), Some("needle")).await.is_empty());
    });
}

#[test]
fn long_entries_are_read_page_by_page() {
    let Some(server) = Server::start() else { return };
    run(async {
        let a = server.host("laptop").await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let mut at = Tail::default();
        let long = "0123456789abcdef".repeat(160 * 1024);
        for n in 0..5 {
            at = a.append(&claim, &at, &[entry(&format!("e{n}"), &long)], None).await.unwrap();
        }
        let page = a.read(&claim.session, &Tail::default(), 512).await.unwrap();
        assert_eq!((ids(&page.entries), page.tail.seq), (vec!["e0"], 5), "two are more than a page");
        assert_eq!(ids(&log(&*a, &claim.session).await), ["e0", "e1", "e2", "e3", "e4"]);
        let twice = a.append(&claim, &at, &entries(&["e4"]), None).await;
        assert!(matches!(twice, Err(RealmError::Refused(_))), "{twice:?}");
        let many: Vec<_> = (0..513).map(|n| entry(&format!("m{n}"), "x")).collect();
        assert!(matches!(a.append(&claim, &at, &many, None).await, Err(RealmError::TooLong { .. })));
        let at = a.append(&claim, &at, &many[..512], None).await.unwrap();
        assert_eq!(at.seq, 517);
    });
}

#[test]
fn roles_see_nothing_of_each_other() {
    let Some(server) = Server::start() else { return };
    server.sql("CREATE ROLE ann LOGIN; CREATE ROLE \"Bob \"\"b\" LOGIN; CREATE ROLE eve LOGIN");
    run(async {
        PostgresRealm::init(&server.url(), &["ann", "Bob \"b"]).await.unwrap();
        let realm = |user: &str, name: &str| {
            let url = Secret::new(format!("postgres://{user}@127.0.0.1:{}/postgres", server.port));
            PostgresRealm::new(&url, host(name, user), "test", LeaseTerms::default()).unwrap()
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
        PostgresRealm::init(&server.url(), &[]).await.unwrap();
        let check = PostgresRealm::check(&server.url()).await.unwrap();
        assert_eq!(check.advice.len(), 2, "{check:?}");
        assert!(check.place.starts_with("127.0.0.1:") && !check.is_encrypted);
        // One of version 1 is brought up to date, with what is in it.
        let claim = server.host("laptop").await.create(&header("s-1")).await.unwrap();
        server.sql(
            "DELETE FROM edn_bridge.version WHERE version > 1; ALTER TABLE edn_bridge.session DROP COLUMN deleted; \
             ALTER TABLE edn_bridge.request RENAME COLUMN call TO params; \
             ALTER TABLE edn_bridge.request ADD COLUMN op text, ADD COLUMN key text; CREATE TABLE edn_bridge.blob ()",
        );
        let old = PostgresRealm::check(&server.url()).await.unwrap_err();
        assert!(old.to_string().contains("realm init"), "{old}");
        PostgresRealm::init(&server.url(), &[]).await.unwrap();
        server.host("laptop").await.open(&claim.session).await.unwrap();
        server.sql("INSERT INTO edn_bridge.version VALUES (99)");
        for refused in [
            PostgresRealm::init(&server.url(), &[]).await.unwrap_err(),
            PostgresRealm::check(&server.url()).await.map(drop).unwrap_err(),
        ] {
            assert!(refused.to_string().contains("version 99"), "{refused}");
        }
        server.sql("DROP SCHEMA edn_bridge CASCADE");
        let none = PostgresRealm::check(&server.url()).await.unwrap_err();
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
            let realm = PostgresRealm::new(&server.url(), host("laptop", "1"), "test", LeaseTerms::default())
                .unwrap();
            for refused in [
                PostgresRealm::check(&server.url()).await.map(drop).unwrap_err(),
                realm.renew().await.unwrap_err(),
            ] {
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
            let check = async || match PostgresRealm::check(&url).await {
                Err(RealmError::Unreachable(_)) => None,
                refused => Some(refused.unwrap_err()),
            };
            poll("the pooler answers", check).await
        });
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(refused.to_string().contains("pooler"), "{n}: {refused}");
    }
}

#[test]
fn lost_hints_are_told_as_anything() {
    let Some(server) = Server::start() else { return };
    run(async {
        let b = server.host("desk").await;
        let mut hints = b.watch(Some(&"s-1".into())).await.unwrap();
        // Whoever listens is cut off. It listens again, and may have missed something.
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'");
        while hints.recv().await.unwrap() != RealmHint::Anything {}
    });
}

#[test]
fn answer_counts_of_the_owner_that_is_asked_alone() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        a.create(&header("s-1")).await.unwrap();
        let ask = |id: &str| {
            server.sql(&format!(
                "INSERT INTO edn_bridge.request (id, session, host, asker, call, expires) VALUES \
                   ('{id}', 's-1', 'laptop', 'desk', ':x', clock_timestamp() + interval '1 minute')"
            ));
        };
        let said = |id: &str| server.sql(&format!("SELECT answer FROM edn_bridge.request WHERE id = '{id}'"));
        // Its answer may have been lost: made again, it is its answer still.
        ask("r-1");
        assert!(a.answer("r-1", ":begun").await.unwrap());
        assert!(a.answer("r-1", ":begun").await.unwrap());
        assert!(!a.answer("r-1", ":other").await.unwrap());
        // It was posted again, and is another owner's meanwhile.
        ask("r-2");
        server.sql("UPDATE edn_bridge.request SET host = 'desk' WHERE id = 'r-2'");
        assert!(!a.answer("r-2", ":late").await.unwrap());
        assert_eq!(said("r-2"), [""]);
        assert!(b.answer("r-2", ":done").await.unwrap());
        // A later run of the host has entered.
        ask("r-3");
        let later = PostgresRealm::new(&server.url(), host("laptop", "2"), "test", LeaseTerms::default());
        let later = later.unwrap();
        later.renew().await.unwrap();
        assert!(!a.answer("r-3", ":begun").await.unwrap());
        assert!(later.answer("r-3", ":begun").await.unwrap());
        assert_eq!((said("r-2"), said("r-3")), (vec![":done".to_owned()], vec![":begun".to_owned()]));
    });
}

#[test]
fn renewal_tells_what_no_hint_told() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        a.create(&header("s-1")).await.unwrap();
        let mut requests = b.requests().await.unwrap();
        let mut hints = b.watch(None).await.unwrap();
        let mut told = async || {
            while let Ok(hint) = hints.try_recv() {
                drop(hint);
            }
            b.renew().await.unwrap();
            std::iter::from_fn(|| hints.try_recv().ok()).any(|hint| hint == RealmHint::Anything)
        };
        // The first hints of both hosts may still be under way.
        let until = tokio::time::Instant::now() + PATIENCE;
        while told().await {
            assert!(tokio::time::Instant::now() < until, "it never is as it was");
        }
        server.sql("UPDATE edn_bridge.session SET changed = clock_timestamp()");
        assert!(told().await, "a session has changed");
        assert!(!told().await, "nothing has changed");
        server.sql("UPDATE edn_bridge.host SET until = clock_timestamp() WHERE name = 'laptop'");
        assert!(told().await, "a host is lost");
        server.sql(
            "INSERT INTO edn_bridge.request (id, session, host, asker, call, expires) \
               VALUES ('r', 's-1', 'desk', 'laptop', ':x', clock_timestamp() + interval '1 minute')",
        );
        b.renew().await.unwrap();
        assert_eq!(&*requests.recv().await.unwrap().request.call, ":x");
    });
}
