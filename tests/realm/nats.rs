//! What NATS alone promises, and what of it is refused.

use std::path::Path;
use std::sync::Arc;

use edn_bridge::realm::{RealmError, RealmRequest, Tail, check, init};
use edn_bridge::secret::Secret;

use crate::engines::Engine as _;
use crate::nats_server::NatsServer;
use crate::promises::{entries, entry, header, host, ids, log, poll, run};
use crate::proxy::{FAIR, Proxy, Weather};

#[test]
fn realm_in_nats_is_made_once_and_a_newer_one_is_refused() {
    let Some(server) = NatsServer::with("") else { return };
    run(async {
        let none = check(&server.url()).await.unwrap_err();
        assert!(none.to_string().contains("realm init"), "{none}");
        init(&server.url(), &[]).await.unwrap();
        init(&server.url(), &[]).await.unwrap();
        let granted = init(&server.url(), &["ann"]).await.unwrap_err();
        assert!(granted.to_string().contains("accounts"), "{granted}");
        let looked = check(&server.url()).await.unwrap();
        assert!(looked.notes.is_empty() && looked.engine == "NATS" && !looked.is_encrypted, "{looked:?}");
        let unseen = Secret::new(format!("nats://127.0.0.1:{}?monitor=http://127.0.0.1:1", server.port()));
        let unseen = check(&unseen).await.unwrap();
        assert!(unseen.notes[0].what.contains("sync_interval: always"), "{unseen:?}");
    });
    let mut config = server.ask("$JS.API.STREAM.INFO.EDN_BRIDGE", "")["config"].clone();
    for (key, value, said) in [
        ("metadata", serde_json::json!({ "edn_bridge": "99" }), "version 99"),
        ("max_age", serde_json::json!(3_600_000_000_000_u64), "a limit"),
        ("discard", serde_json::json!("new"), "discard"),
        ("max_msg_size", serde_json::json!(1024), "max_msg_size"),
        ("no_ack", serde_json::json!(true), "no_ack"),
        ("subject_delete_marker_ttl", serde_json::json!(1_000_000_000), "subject_delete_marker_ttl"),
        ("subjects", serde_json::json!(["edn_bridge.>", "other"]), "subjects"),
        ("allow_direct", serde_json::json!(false), "allow_direct"),
        ("republish", serde_json::json!({ "src": "edn_bridge.>", "dest": "told.>" }), "republish"),
        ("deny_purge", serde_json::json!(true), "deny_purge"),
    ] {
        let before = config[key].clone();
        config[key] = value;
        server.ask("$JS.API.STREAM.UPDATE.EDN_BRIDGE", &config.to_string());
        run(async {
            for refused in [
                init(&server.url(), &[]).await.unwrap_err(),
                check(&server.url()).await.map(drop).unwrap_err(),
                server.realm(host("laptop", "1")).renew().await.unwrap_err(),
            ] {
                assert!(refused.to_string().contains(said), "{refused}");
            }
        });
        config[key] = before;
    }
}

#[test]
fn server_that_does_not_sync_is_refused() {
    let Some(server) = NatsServer::hasty() else { return };
    run(async {
        // Made by who could not see it, it is refused by who can.
        let unseen = format!("nats://127.0.0.1:{}?monitor=http://127.0.0.1:1", server.port());
        init(&Secret::new(unseen), &[]).await.unwrap();
        for refused in [
            init(&server.url(), &[]).await.unwrap_err(),
            check(&server.url()).await.map(drop).unwrap_err(),
            server.realm(host("laptop", "1")).renew().await.unwrap_err(),
        ] {
            assert!(refused.to_string().contains("sync_interval: always"), "{refused}");
        }
    });
}

#[test]
fn server_that_is_too_old_is_refused() {
    let Some(server) = crate::nats_server::old_one() else { return };
    run(async {
        for refused in [
            init(&server.url(), &[]).await.unwrap_err(),
            check(&server.url()).await.map(drop).unwrap_err(),
            server.realm(host("laptop", "1")).renew().await.unwrap_err(),
        ] {
            assert!(refused.to_string().contains("2.12 is the oldest"), "{refused}");
        }
    });
}

#[test]
fn accounts_see_nothing_of_each_other() {
    let Some(server) = NatsServer::with(
        "accounts { A: { jetstream: enabled, users: [{ user: ann, password: secret }] }, \
           B: { jetstream: enabled, users: [{ user: \"Bob b\", password: \"p@:s\" }] } }",
    ) else {
        return;
    };
    run(async {
        let realm = async |login: &str| {
            let url = Secret::new(format!("nats://{login}@127.0.0.1:{}", server.port()));
            init(&url, &[]).await?;
            let realm =
                edn_bridge::realm::connect(&url, host("laptop", login), "test", Default::default()).unwrap();
            realm.renew().await.map(|()| realm)
        };
        let (ann, bob) = (realm("ann:secret").await.unwrap(), realm("Bob%20b:p%40%3As").await.unwrap());
        for realm in [&ann, &bob] {
            let claim = realm.create(&header("s-1")).await.unwrap();
            realm.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
            assert_eq!(realm.list(&Default::default(), 10).await.unwrap().len(), 1);
            assert_eq!(realm.hosts().await.unwrap().len(), 1);
        }
        let refused = realm("ann:wrong").await.unwrap_err();
        assert!(refused.to_string().contains("does not let this user in"), "{refused}");
    });
}

#[test]
fn request_that_is_answered_comes_to_no_later_run() {
    let Some(server) = NatsServer::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let mut requests = a.requests().await.unwrap();
        let request = |id: &str| RealmRequest { id: id.into(), call: ":x".into() };
        let answering = async {
            let posted = requests.recv().await.unwrap();
            a.answer(&posted.request.id, ":done").await.unwrap();
        };
        let first = request("r-1");
        let (answer, ()) = tokio::join!(b.post(&claim.session, &first), answering);
        assert_eq!(&*answer.unwrap(), ":done");
        // The call is still in the stream.
        assert_eq!(server.subjects("edn_bridge.q.>"), ["edn_bridge.q.s-1.laptop.r-1"]);
        let later = server.realm(host("laptop", "2"));
        later.renew().await.unwrap();
        let mut requests = later.requests().await.unwrap();
        let second = request("r-2");
        let received = async {
            let posted = requests.recv().await.unwrap();
            later.answer(&posted.request.id, ":done").await.unwrap();
            posted.request.id
        };
        let (_, received) = tokio::join!(b.post(&claim.session, &second), received);
        assert_eq!(&*received, "r-2");
    });
}

#[test]
fn entry_of_many_messages_is_whole_or_not_there() {
    let Some(server) = NatsServer::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let long: Vec<Arc<_>> =
            vec![entry("a", "short"), entry("b", &"\u{fc}1234567".repeat(600_000)), entry("c", "end")];
        let at = a.append(&claim, &Tail::default(), &long, None).await.unwrap();
        assert!(!server.subjects("edn_bridge.p.e.s-1.2.>").is_empty());
        assert_eq!(log(&*b, &claim.session).await, long);
        // Between entries, in the middle of the log.
        let page = b.read(&claim.session, &Tail::at(1, "a".into()), 1).await.unwrap();
        assert_eq!(ids(&page.entries), ["b"]);
        let page = b.read(&claim.session, &Tail::at(2, "b".into()), 5).await.unwrap();
        assert_eq!(ids(&page.entries), ["c"]);
        // An append that fits nowhere leaves no piece.
        let refused = a.append(&claim, &Tail::at(2, "b".into()), &long[1..2], None).await;
        assert!(matches!(refused, Err(RealmError::InDoubt(_))));
        a.append(&claim, &at, &entries(&["d"]), None).await.unwrap();
        assert_eq!(log(&*b, &claim.session).await.len(), 4);
        // It is deleted with its pieces.
        let claim = a.claim(&claim.session, Path::new("/project"), &Tail::default()).await.unwrap();
        a.delete(&claim).await.unwrap();
        poll("it is removed", async || server.is_gone(&claim.session).then_some(())).await;
        assert!(server.subjects("edn_bridge.p.>").is_empty());
    });
}

#[test]
fn message_of_another_program_deletes_and_hides_nothing() {
    let Some(server) = NatsServer::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        for session in ["s-1", "s-2"] {
            let claim = a.create(&header(session)).await.unwrap();
            a.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        }
        let row = server.last("edn_bridge.c.s-1").unwrap();
        server.ask("edn_bridge.c.other", &row.replace("\"is_deleted\":false", "\"is_deleted\":true"));
        server.ask("edn_bridge.c.worse", "\u{0}");
        // This one was deleted, and its entries are left.
        server.rewrite("edn_bridge.c.s-2", "\"is_deleted\":false", "\"is_deleted\":true");
        server.ask("edn_bridge.h.other", "{\"host\":\"laptop\",\"lease_ms\":0}");
        let later = server.host("later").await;
        poll("it is removed", async || server.subjects("edn_bridge.e.s-2.>").is_empty().then_some(())).await;
        assert_eq!(ids(&log(&*later, &"s-1".into()).await), ["a"]);
        let listed = later.list(&Default::default(), 10).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert!(!listed[0].owner.as_ref().unwrap().is_lost);

        let mut requests = b.requests().await.unwrap();
        server.ask("edn_bridge.q.s-1.desk.r-1", "no record");
        server.ask("edn_bridge.a.s-1.r-2", "no record");
        for id in ["r-2", "r-3"] {
            let call = format!("{{\"id\":{id:?},\"session\":\"s-1\",\"asker\":\"laptop\",\"call\":\":x\"}}");
            server.ask(&format!("edn_bridge.q.s-1.desk.{id}"), &call);
        }
        server.ask("edn_bridge.a.s-1.r-3", "{\"host\":\"desk\",\"answer\":null}");
        b.renew().await.unwrap();
        assert_eq!(&*requests.recv().await.unwrap().request.id, "r-3");

        // Nothing can be written where it stands, and that is said instead of tried for ever.
        let claim = a.create(&header("s-1")).await.unwrap();
        server.ask("edn_bridge.e.s-1.2", "no entry");
        let refused = a.append(&claim, &claim.tail, &entries(&["b"]), None).await.unwrap_err();
        assert!(matches!(&refused, RealmError::Damaged(_)), "{refused:?}");
    });
}

#[test]
fn host_that_has_entered_anew_makes_a_session() {
    let Some(server) = NatsServer::start() else { return };
    run(async {
        let a = server.host("laptop").await;
        a.create(&header("s-1")).await.unwrap();
        // What it knows of its entry into the realm is not so any more.
        server.rewrite("edn_bridge.i.laptop", "laptop", "laptop");
        a.create(&header("s-2")).await.unwrap();
    });
}

#[test]
fn claim_needs_no_entry_after_what_is_known() {
    let Some(server) = NatsServer::start() else { return };
    run(async {
        let a = server.host("laptop").await;
        let claim = a.create(&header("s-1")).await.unwrap();
        a.append(&claim, &Tail::default(), &entries(&["a", "b", "c"]), None).await.unwrap();
        server.ask("edn_bridge.e.s-1.2", "no entry");
        let known = Tail::at(1, "a".into());
        let claim = a.claim(&claim.session, Path::new("/project"), &known).await.unwrap();
        assert_eq!(claim.tail.seq, 3);
    });
}

#[test]
fn request_that_comes_after_a_deletion_leaves_nothing() {
    let Some(server) = NatsServer::start() else { return };
    run(async {
        let proxy = Proxy::to(server.port()).await;
        let (a, b) = (server.host("laptop").await, server.host_at("desk", proxy.port).await);
        let claim = a.create(&header("s-1")).await.unwrap();
        let session = claim.session.clone();
        // It has seen the session, and is not written yet.
        proxy.set_from("edn_bridge.q.s-1", Weather { holds_questions: true, ..FAIR });
        let request = RealmRequest { id: "r-1".into(), call: ":x".into() };
        let posting = b.post(&session, &request);
        let deleting = async {
            proxy.until_held().await;
            a.delete(&claim).await.unwrap();
            poll("it is removed", async || server.is_gone(&session).then_some(())).await;
            proxy.set(FAIR);
        };
        let (refused, ()) = tokio::join!(posting, deleting);
        assert!(matches!(refused, Err(RealmError::Deleted { .. })), "{refused:?}");
        poll("the request is removed", async || server.is_gone(&session).then_some(())).await;
    });
}
