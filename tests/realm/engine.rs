//! What an engine promises, to one host and to several.

use std::path::Path;
use std::sync::Arc;

use edn_bridge::realm::{Realm, RealmError, RealmFilter, RealmHint, RealmRequest, Tail};
use edn_bridge::store::{Entry, EntryBody};

use crate::engines::Engine;
use crate::on_each_engine;
use crate::promises::{self, PATIENCE, entries, entry, header, host, ids, log, poll, run};

const PLACE: &str = "/project";

on_each_engine! {
    owner_keeps_a_session
    append_elsewhere_than_at_the_end_changes_nothing
    older_claim_appends_nothing
    log_without_what_is_known_is_refused
    session_is_made_once
    session_changes_hands_between_living_hosts
    owner_that_is_lost_loses_its_session_to_who_asks
    later_run_of_a_host_takes_its_sessions_at_once
    later_run_is_displaced_by_no_earlier_one
    two_hosts_with_one_name_are_refused
    request_is_answered_once_by_the_owner
    deleted_session_is_gone
    deleted_session_is_made_by_no_late_call
    what_an_owner_says_is_heard_piece_by_piece
    sessions_are_found_by_owner_and_words
    settled_session_keeps_its_place_in_lists
    long_entries_are_read_page_by_page
    lost_hints_are_told_as_anything
    answer_counts_of_the_owner_that_is_asked_alone
    renewal_tells_what_no_hint_told
}

/// Runs a test at a host of a server of its own.
fn at_one_host<E: Engine>(test: impl AsyncFnOnce(&dyn Realm)) {
    let Some(server) = E::start() else { return };
    run(async { test(&*server.host("laptop").await).await });
}

fn owner_keeps_a_session<E: Engine>() {
    at_one_host::<E>(async |realm| promises::owner_keeps_a_session(realm).await);
}

fn append_elsewhere_than_at_the_end_changes_nothing<E: Engine>() {
    at_one_host::<E>(async |realm| promises::append_fits_in_one_place(realm).await);
}

fn older_claim_appends_nothing<E: Engine>() {
    at_one_host::<E>(async |realm| promises::older_claim_is_fenced(realm).await);
}

fn log_without_what_is_known_is_refused<E: Engine>() {
    at_one_host::<E>(async |realm| promises::lacking_log_is_refused(realm).await);
}

fn session_is_made_once<E: Engine>() {
    at_one_host::<E>(async |realm| promises::session_is_made_once(realm).await);
}

fn session_changes_hands_between_living_hosts<E: Engine>() {
    let Some(server) = E::start() else { return };
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

fn owner_that_is_lost_loses_its_session_to_who_asks<E: Engine>() {
    let Some(server) = E::start() else { return };
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

fn later_run_of_a_host_takes_its_sessions_at_once<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let first = server.host("laptop").await;
        let claim = first.create(&header("s-1")).await.unwrap();
        let at = first.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        let again = server.realm(host("laptop", "2"));
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

fn later_run_is_displaced_by_no_earlier_one<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let of_run = |run| server.realm(host("laptop", run));
        let later = of_run("2");
        later.renew().await.unwrap();
        // The first renewal of a run that was killed is carried out only now.
        assert!(matches!(of_run("1").renew().await, Err(RealmError::NameTaken { .. })));
        later.renew().await.unwrap();
    });
}

fn two_hosts_with_one_name_are_refused<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let first = server.host("laptop").await;
        let mut other = host("laptop", "2");
        other.key = "another state folder".into();
        let other = server.realm(other);
        let refused = other.renew().await.unwrap_err();
        assert!(refused.to_string().contains("name laptop"), "{refused}");
        first.renew().await.unwrap();
        first.leave().await.unwrap();
        other.renew().await.unwrap();
    });
}

fn request_is_answered_once_by_the_owner<E: Engine>() {
    let Some(server) = E::start() else { return };
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

fn deleted_session_is_gone<E: Engine>() {
    at_one_host::<E>(async |realm| promises::deleted_session_is_gone(realm).await);
}

fn deleted_session_is_made_by_no_late_call<E: Engine>() {
    let Some(server) = E::start() else { return };
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
        // Nothing of what it said is left, sooner or later, and the other session is as it was.
        poll("it is removed", async || server.is_gone(&session).then_some(())).await;
        assert_eq!(ids(&log(&*a, &kept.session).await), ["a"]);
    });
}

fn what_an_owner_says_is_heard_piece_by_piece<E: Engine>() {
    let Some(server) = E::start() else { return };
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

fn sessions_are_found_by_owner_and_words<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let one = a.create(&header("s-1")).await.unwrap();
        let two = b.create(&header("s-2")).await.unwrap();
        let named = Entry { body: EntryBody::Name("Hay in an ävenü".into()), ..(*entry("n", "")).clone() };
        let said = [entry("a", "Look:\nwhere is the Needle?"), entry("b", "In the barn"), Arc::new(named)];
        a.append(&one, &Tail::default(), &said, Some("{}")).await.unwrap();
        let said = [entry("a", "50% _x \\d+ (\"quoted\") $1.00")];
        b.append(&two, &Tail::default(), &said, Some("{}")).await.unwrap();
        let listed = async |host: Option<&str>| {
            let filter = RealmFilter { host: host.map(|name| promises::host(name, "1").name) };
            let slots = a.list(&filter, 10).await.unwrap();
            slots.iter().map(|slot| slot.header.session.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(listed(None).await, ["s-2", "s-1"]);
        assert_eq!(listed(Some("laptop")).await, ["s-1"]);

        let found = async |text: &str, besides: Option<&str>, most: usize| {
            let besides = besides.map(|name| promises::host(name, "1").name);
            let hits = a.find(text, besides.as_ref(), most).await.unwrap();
            hits.iter().map(|hit| format!("{} {}", hit.slot.header.session, hit.excerpt)).collect::<Vec<_>>()
        };
        let all = async |text: &str| found(text, None, 10).await;
        for words in ["needle", "Where the", "need", "hay", "ävenü", "barn"] {
            let hits = all(words).await;
            assert!(hits.len() == 1 && hits[0].starts_with("s-1 "), "{words}: {hits:?}");
        }
        assert_eq!(all("needle").await, ["s-1 where is the Needle?"]);
        for words in ["50%", "_x", "\\d+", "(\"quoted\")", "\"quoted", "$1.00"] {
            let hits = all(words).await;
            assert!(hits.len() == 1 && hits[0].starts_with("s-2 "), "{words}: {hits:?}");
        }
        // Nothing that a line has beside what was said; no words of two messages; no character has a meaning.
        for words in ["message", "user", "role", "text", "2026", "needle barn", "5_%", "\\w", ""] {
            assert_eq!(all(words).await, [""; 0], "{words}");
        }
        assert_eq!(found("the", Some("desk"), 10).await.len(), 1);
        assert_eq!(found("the", Some("laptop"), 10).await, [""; 0]);
        let both = [entry("z", "barn")];
        b.append(&two, &Tail::at(1, "a".into()), &both, None).await.unwrap();
        assert_eq!(all("barn").await.len(), 2);
        assert_eq!(found("barn", None, 1).await, ["s-2 barn"], "the last changed first");
        // A word that every line has beside what was said hides none that was said long ago.
        let said: Vec<_> = ["A message", "b", "c", "d", "e", "f", "g"].map(|text| entry(text, text)).into();
        b.append(&two, &Tail::at(2, "z".into()), &said, None).await.unwrap();
        assert_eq!(all("message").await, ["s-2 A message"]);
        b.release(&two).await.unwrap();
        assert_eq!(all("message").await, ["s-2 A message"], "one that nobody owns");
    });
}

fn settled_session_keeps_its_place_in_lists<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let first = a.create(&header("s-1")).await.unwrap();
        let at = a.append(&first, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        b.create(&header("s-2")).await.unwrap();
        let listed = async || {
            let slots = b.list(&RealmFilter::default(), 10).await.unwrap();
            slots.iter().map(|slot| (slot.header.session.to_string(), slot.changed_ms)).collect::<Vec<_>>()
        };
        let before = listed().await;
        assert_eq!(before[0].0, "s-2");
        for _ in 0..2 {
            a.settle(&first, &at).await.unwrap();
            assert_eq!(listed().await, before, "settling changes nothing");
        }
        a.append(&first, &at, &entries(&["b"]), None).await.unwrap();
        let after = listed().await;
        assert!(after[0].0 == "s-1" && after[0].1 > before[1].1, "{after:?}");
    });
}

fn long_entries_are_read_page_by_page<E: Engine>() {
    let Some(server) = E::start() else { return };
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
        let many: Vec<_> = (0..513).map(|n| entry(&format!("m{n}"), "x")).collect();
        assert!(matches!(a.append(&claim, &at, &many, None).await, Err(RealmError::TooLong { .. })));
        let at = a.append(&claim, &at, &many[..512], None).await.unwrap();
        assert_eq!(at.seq, 517);
    });
}

fn lost_hints_are_told_as_anything<E: Engine>() {
    let Some(mut server) = E::start() else { return };
    run(async {
        let b = server.host("desk").await;
        let mut hints = b.watch(Some(&"s-1".into())).await.unwrap();
        while hints.try_recv().is_ok() {}
        // Whoever listens is cut off. It listens again, and may have missed something.
        server.kill();
        server.begin();
        while hints.recv().await.unwrap() != RealmHint::Anything {}
    });
}

fn answer_counts_of_the_owner_that_is_asked_alone<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        a.create(&header("s-1")).await.unwrap();
        // Its answer may have been lost: made again, it is its answer still.
        server.put_request("r-1", "laptop");
        assert!(a.answer("r-1", ":begun").await.unwrap());
        assert!(a.answer("r-1", ":begun").await.unwrap());
        assert!(!a.answer("r-1", ":other").await.unwrap());
        // It was posted again, and is another owner's meanwhile.
        server.put_request("r-2", "laptop");
        server.put_request("r-2", "desk");
        assert!(!a.answer("r-2", ":late").await.unwrap());
        assert_eq!(server.answer_of("r-2"), "");
        assert!(b.answer("r-2", ":done").await.unwrap());
        // A later run of the host has entered.
        server.put_request("r-3", "laptop");
        let later = server.realm(host("laptop", "2"));
        later.renew().await.unwrap();
        assert!(!a.answer("r-3", ":begun").await.unwrap());
        assert!(later.answer("r-3", ":begun").await.unwrap());
        assert_eq!([server.answer_of("r-2"), server.answer_of("r-3")], [":done", ":begun"]);
        assert!(!a.answer("r-9", ":x").await.unwrap(), "nobody has asked");
    });
}

fn renewal_tells_what_no_hint_told<E: Engine>() {
    let Some(server) = E::start() else { return };
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
        server.change("s-1");
        assert!(told().await, "a session has changed");
        assert!(!told().await, "nothing has changed");
        server.end_lease("laptop");
        assert!(told().await, "a host is lost");
        server.put_request("r", "desk");
        b.renew().await.unwrap();
        assert_eq!(&*requests.recv().await.unwrap().request.call, ":x");
    });
}
