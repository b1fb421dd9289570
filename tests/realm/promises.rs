//! What every realm promises to the owner of a session, whatever keeps its entries.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use edn_bridge::message::{Block, EntryId, Message, Role, SessionId};
use edn_bridge::realm::{
    Claim, HostId, HostName, Incarnation, Realm, RealmError, RealmFilter, RealmHint, Tail,
};
use edn_bridge::store::{Entry, EntryBody, Header};

/// How long anything may take that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test, which ends in bounded time: whatever it waits for, it does not wait for ever.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE * 3, test).await.expect("the test waits for ever") })
}

/// What a look finds at last. Only for what nothing tells of, such as the rows of a database.
pub async fn poll<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < until, "it takes too long until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A host. The number of its run is the one in `run`, such as 3 in `r3`.
pub fn host(name: &str, run: &str) -> HostId {
    let number = run.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(1);
    let incarnation = Incarnation { run: number, id: format!("{name}-{run}").into() };
    HostId { name: HostName::parse(name).unwrap(), key: format!("key of {name}").into(), incarnation }
}

pub fn header(session: &str) -> Header {
    Header {
        session: session.into(),
        created_at: "2026-11-27T00:00:00.000Z".into(),
        cwd: "/project".into(),
        parent: None,
        request: None,
        replica_of: None,
    }
}

pub fn entry(id: &str, text: &str) -> Arc<Entry> {
    let message = Message::new(
        id.into(),
        Role::User,
        vec![Block::Text(text.into())],
        "2026-11-27T00:00:00.000Z".into(),
    );
    Arc::new(Entry {
        id: id.into(),
        parent: None,
        ts: "2026-11-27T00:00:00.000Z".into(),
        request: None,
        body: EntryBody::Message(Arc::new(message)),
    })
}

pub fn entries(ids: &[&str]) -> Vec<Arc<Entry>> {
    ids.iter().map(|id| entry(id, &format!("text of {id}"))).collect()
}

pub fn ids(entries: &[Arc<Entry>]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

pub fn tail(seq: u64, id: &str) -> Tail {
    Tail::at(seq, EntryId::from(id))
}

/// A session's whole log, page by page.
pub async fn log(realm: &dyn Realm, session: &SessionId) -> Vec<Arc<Entry>> {
    let mut all: Vec<Arc<Entry>> = Vec::new();
    loop {
        let after = Tail::default().after(all.iter().map(|entry| &entry.id));
        let page = realm.read(session, &after, 3).await.unwrap();
        all.extend(page.entries);
        if all.len() as u64 == page.tail.seq {
            return all;
        }
    }
}

/// A session is claimed, appended to, read and released by its owner.
pub async fn owner_keeps_a_session(realm: &dyn Realm) {
    let session = SessionId::from("s-1");
    assert!(matches!(realm.open(&session).await, Err(RealmError::NoSession { .. })));
    let claim = realm.create(&header("s-1")).await.unwrap();
    assert_eq!(claim.tail, Tail::default());
    let mut hints = realm.watch(Some(&session)).await.unwrap();

    let four = entries(&["a", "b", "c", "d"]);
    let at = realm.append(&claim, &Tail::default(), &four[..1], Some("{:name \"x\"}")).await.unwrap();
    assert_eq!(at, tail(1, "a"));
    let at = realm.append(&claim, &at, &four[1..], None).await.unwrap();
    assert_eq!(at, tail(4, "d"));
    assert_eq!(ids(&log(realm, &session).await), ["a", "b", "c", "d"]);
    assert_eq!(log(realm, &session).await, four);
    let hinted =
        tokio::time::timeout(std::time::Duration::from_secs(20), hints.recv()).await.unwrap().unwrap();
    // Whoever has just begun to listen may have missed something, and is told that.
    assert!(match hinted {
        RealmHint::Session { session: of, .. } => of == session,
        RealmHint::Anything => true,
    });

    let page = realm.read(&session, &tail(2, "b"), 1).await.unwrap();
    assert_eq!((ids(&page.entries), page.tail), (vec!["c"], tail(4, "d")));
    assert!(realm.read(&session, &tail(4, "d"), 5).await.unwrap().entries.is_empty());
    let slots = realm.list(&RealmFilter::default(), 10).await.unwrap();
    assert_eq!((slots.len(), &*slots[0].text, slots[0].tail), (1, "{:name \"x\"}", 4));
    realm.slot(&claim, "{:name \"y\"}").await.unwrap();
    assert_eq!(&*realm.list(&RealmFilter::default(), 10).await.unwrap()[0].text, "{:name \"y\"}");
    let other = RealmFilter { host: HostName::parse("nobody") };
    assert!(realm.list(&other, 10).await.unwrap().is_empty());

    let opened = realm.open(&session).await.unwrap();
    assert_eq!((opened.header, opened.tail), (header("s-1"), tail(4, "d")));
    assert_eq!(opened.owner.unwrap().host, realm.me().name);
    let again = realm.claim(&session, Path::new("/project"), &tail(4, "d")).await.unwrap();
    assert!(again.epoch > claim.epoch);
    assert_eq!(again.tail, tail(4, "d"));
    realm.release(&again).await.unwrap();
    assert!(
        matches!(realm.append(&again, &at, &entries(&["e"]), None).await, Err(fenced) if is_fenced(realm, &again, &fenced).await)
    );
    assert_eq!(ids(&log(realm, &session).await), ["a", "b", "c", "d"]);
}

/// An append says after which entry it belongs; anywhere else it changes nothing, and settling says what there is.
pub async fn append_fits_in_one_place(realm: &dyn Realm) {
    let session = SessionId::from("s-1");
    let claim = realm.create(&header("s-1")).await.unwrap();
    let at = realm.append(&claim, &Tail::default(), &entries(&["a", "b"]), None).await.unwrap();
    for wrong in [Tail::default(), tail(1, "a"), tail(3, "c")] {
        let refused = realm.append(&claim, &wrong, &entries(&["x"]), None).await;
        assert!(matches!(refused, Err(RealmError::InDoubt(_))), "{wrong}: {refused:?}");
    }
    let page = realm.settle(&claim, &tail(1, "a")).await.unwrap();
    assert_eq!((ids(&page.entries), page.tail), (vec!["b"], at.clone()));
    assert!(realm.settle(&claim, &at).await.unwrap().entries.is_empty());
    assert_eq!(ids(&log(realm, &session).await), ["a", "b"]);
}

/// Only the newest claim counts.
pub async fn older_claim_is_fenced(realm: &dyn Realm) {
    let session = SessionId::from("s-1");
    let old = realm.create(&header("s-1")).await.unwrap();
    let at = realm.append(&old, &Tail::default(), &entries(&["a"]), None).await.unwrap();
    let new = realm.claim(&session, Path::new("/project"), &at).await.unwrap();
    let refused = realm.append(&old, &at, &entries(&["b"]), None).await.unwrap_err();
    assert!(is_fenced(realm, &old, &refused).await);
    assert!(matches!(realm.slot(&old, "{}").await, Err(RealmError::Fenced { .. })));
    realm.append(&new, &at, &entries(&["c"]), None).await.unwrap();
    realm.release(&old).await.unwrap();
    assert!(realm.settle(&new, &at).await.is_ok(), "what is fenced releases nothing");
    assert_eq!(ids(&log(realm, &session).await), ["a", "c"]);
}

/// What is known to be saved must be there.
pub async fn lacking_log_is_refused(realm: &dyn Realm) {
    let session = SessionId::from("s-1");
    let claim = realm.create(&header("s-1")).await.unwrap();
    let at = realm.append(&claim, &Tail::default(), &entries(&["a", "b"]), None).await.unwrap();
    let place = Path::new("/project");
    for known in [tail(3, "c"), tail(2, "x"), tail(1, "x")] {
        let behind = known.seq > 2;
        let refused = [
            realm.read(&session, &known, 5).await.map(drop),
            realm.claim(&session, place, &known).await.map(drop),
            realm.settle(&claim, &known).await.map(drop),
        ];
        for refused in refused {
            match refused.unwrap_err() {
                RealmError::Behind { known: said, found } => assert!(behind && said == known && found == 2),
                RealmError::Diverged { seq, known: said, .. } => {
                    assert!(!behind && Some(said) == known.id && seq == known.seq);
                }
                error => panic!("{known}: {error:?}"),
            }
        }
    }
    assert!(realm.append(&claim, &at, &entries(&["c"]), None).await.is_ok(), "the owner is as before");
}

/// A session is made once.
pub async fn session_is_made_once(realm: &dyn Realm) {
    let claim = realm.create(&header("s-1")).await.unwrap();
    let at = realm.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
    let mut other = header("s-1");
    other.cwd = "/elsewhere".into();
    assert!(matches!(realm.create(&other).await, Err(RealmError::Taken { .. })));
    let again = realm.create(&header("s-1")).await.unwrap();
    assert_eq!(again.tail, at);
    assert!(again.epoch > claim.epoch);
}

/// A session is deleted by its owner, once.
pub async fn deleted_session_is_gone(realm: &dyn Realm) {
    let session = SessionId::from("s-1");
    let old = realm.create(&header("s-1")).await.unwrap();
    let at = realm.append(&old, &Tail::default(), &entries(&["a"]), None).await.unwrap();
    let claim = realm.claim(&session, Path::new("/project"), &at).await.unwrap();
    assert!(matches!(realm.delete(&old).await, Err(RealmError::Fenced { .. })));
    assert_eq!(ids(&log(realm, &session).await), ["a"], "it is there as before");
    realm.delete(&claim).await.unwrap();
    realm.delete(&claim).await.unwrap();
    let is_gone = |error| matches!(error, RealmError::Deleted { .. } | RealmError::NoSession { .. });
    assert!(is_gone(realm.open(&session).await.unwrap_err()));
    assert!(is_gone(realm.read(&session, &Tail::default(), 5).await.unwrap_err()));
    let refused = realm.append(&claim, &at, &entries(&["b"]), None).await.unwrap_err();
    assert!(is_fenced(realm, &claim, &refused).await);
    assert!(realm.list(&RealmFilter::default(), 10).await.unwrap().is_empty());
}

/// Whether a refused append was refused because of the claim: at once, or when it is settled.
async fn is_fenced(realm: &dyn Realm, claim: &Claim, error: &RealmError) -> bool {
    match error {
        RealmError::Fenced { .. } => true,
        RealmError::InDoubt(_) => {
            matches!(realm.settle(claim, &Tail::default()).await, Err(RealmError::Fenced { .. }))
        }
        _ => false,
    }
}
