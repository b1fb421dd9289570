//! A cluster of three NATS servers, each with a copy of the stream, that loses whoever leads it again and again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use edn_bridge::message::SessionId;
use edn_bridge::realm::rules::LeaseTerms;
use edn_bridge::realm::{
    Claim, Realm, RealmError, RealmRequest, RealmWriter, Tail, Written, connect, init, keep,
};
use edn_bridge::secret::Secret;
use edn_bridge::store::Entry;
use tokio::runtime::Runtime;

use crate::engines::Engine;
use crate::faults::{Dice, assert_whole, kills};
use crate::nats_server::NatsServer;
use crate::promises::{entry, header, host, ids, log, poll, run};

/// The pause of a writer that nothing came through for: an election takes seconds.
const PAUSE: Duration = Duration::from_millis(20);

/// What a writer that claims a session from others writes before it claims it again.
const TURN: u64 = 4;

/// Longer than one message.
const LONG: usize = 700 * 1024;

struct Cluster {
    servers: [NatsServer; 3],
}

impl Cluster {
    /// One with a realm; `None` if the program is not installed, which is said.
    fn start() -> Option<Self> {
        let cluster = Self { servers: NatsServer::three()? };
        run(async {
            let made = async || match init(&cluster.url(), &[]).await {
                Ok(()) => Some(()),
                Err(error) => {
                    assert!(error.may_pass(), "{error:?}");
                    None
                }
            };
            poll("the servers have found each other", made).await;
        });
        Some(cluster)
    }

    /// Its address: all servers.
    fn url(&self) -> Secret {
        let servers = self.servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port()));
        Secret::new(format!("nats://{}?replicas=3", servers.join(",")))
    }

    fn realm(&self, name: &str) -> Arc<dyn Realm> {
        connect(&self.url(), host(name, "1"), "test", LeaseTerms::default()).unwrap()
    }

    /// Who leads the stream, if the servers besides one have elected somebody of them.
    fn leader(&self, besides: Option<usize>) -> Option<usize> {
        let asked = (0..3).find(|n| Some(*n) != besides)?;
        let most = Duration::from_secs(2);
        let info = self.servers[asked].ask_within(most, "$JS.API.STREAM.INFO.EDN_BRIDGE", "")?;
        let leader: usize = info["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse().ok()?;
        (Some(leader) != besides).then_some(leader)
    }

    fn elected(&self, besides: Option<usize>) -> usize {
        run(async { poll("somebody leads the stream", async || self.leader(besides)).await })
    }

    /// Waits until all servers have all of the stream.
    fn settle(&self) {
        let is_current = || {
            let leader = self.leader(None)?;
            let most = Duration::from_secs(2);
            let info = self.servers[leader].ask_within(most, "$JS.API.STREAM.INFO.EDN_BRIDGE", "")?;
            let others = info["cluster"]["replicas"].as_array()?;
            (others.len() == 2 && others.iter().all(|other| other["current"] == true)).then_some(())
        };
        run(async { poll("all servers have the stream", async || is_current()).await });
    }
}

/// What a writer was acknowledged: the number, the entry's id, and the epoch of its claim.
type Saved = (u64, String, u64);

/// What the writers have come to, and whether they are to end.
#[derive(Default)]
struct Course {
    saved: AtomicU64,
    is_over: AtomicBool,
}

impl Course {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst)
    }
}

/// Claims `s-1`, whoever else does, again and again, and writes.
async fn fight(realm: Arc<dyn Realm>, n: usize, course: Arc<Course>) -> (Vec<Saved>, Vec<u64>) {
    let session = SessionId::from("s-1");
    let (mut saved, mut epochs) = (Vec::new(), Vec::new());
    let (mut known, mut count) = (Tail::default(), 0);
    while course.goes_on() {
        let claim = match realm.claim(&session, Path::new("/project"), &known).await {
            Ok(claim) => claim,
            Err(error) => {
                assert!(error.may_pass(), "{error:?}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        known = claim.tail.clone();
        epochs.push(claim.epoch);
        let epoch = claim.epoch;
        let mut writer = RealmWriter::new(realm.clone(), claim, &known).unwrap();
        let end = count + TURN;
        while count < end && course.goes_on() {
            let wanted = [entry(&format!("f{n}-{count}"), &format!("{n} wants {count}"))];
            match writer.write(&wanted, None).await {
                Ok(Written::Saved(tail)) => {
                    saved.push((tail.seq, wanted[0].id.to_string(), epoch));
                    known = tail;
                    count += 1;
                    course.saved.fetch_add(1, Ordering::SeqCst);
                }
                Ok(Written::DecideAnew(_)) => known = writer.tail().clone(),
                Err(RealmError::Fenced { .. }) => break,
                Err(error) => {
                    assert!(error.may_pass(), "{error:?}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        // What was in doubt is in the log or not.
        let in_doubt = format!("f{n}-{count}");
        let found = follow(&*realm, &session, &mut known).await;
        if found.iter().any(|entry| entry.id.as_str() == in_doubt) {
            count += 1;
        }
    }
    (saved, epochs)
}

/// Writes `s-2`, alone.
async fn write_alone(realm: Arc<dyn Realm>, claim: Claim, course: Arc<Course>) -> Vec<Saved> {
    let epoch = claim.epoch;
    let mut writer = RealmWriter::new(realm, claim, &Tail::default()).unwrap();
    let (mut saved, mut count) = (Vec::new(), 0);
    while course.goes_on() {
        let text = if count % 8 == 7 { "x".repeat(LONG) } else { String::new() };
        let wanted = [entry(&format!("alone-{count}"), &format!("{count} {text}"))];
        match writer.write(&wanted, None).await {
            Ok(Written::Saved(tail)) => {
                saved.push((tail.seq, wanted[0].id.to_string(), epoch));
                count += 1;
                course.saved.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Written::DecideAnew(found)) => {
                assert!(found.is_empty(), "nobody else writes: {:?}", ids(&found))
            }
            Err(error) => {
                assert!(error.may_pass(), "{error:?}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    saved
}

/// What a session has beyond a place, up to where its log ended when this was asked.
async fn follow(realm: &dyn Realm, session: &SessionId, known: &mut Tail) -> Vec<Arc<Entry>> {
    let mut found: Vec<Arc<Entry>> = Vec::new();
    loop {
        match realm.read(session, known, 64).await {
            Ok(page) => {
                *known = known.after(page.entries.iter().map(|entry| &entry.id));
                found.extend(page.entries);
                if known.seq >= page.tail.seq {
                    return found;
                }
            }
            Err(error) => {
                assert!(error.may_pass(), "{error:?}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Follows a session as a copy does: returns all that it has seen.
async fn copy(realm: Arc<dyn Realm>, session: SessionId, course: Arc<Course>) -> Vec<Arc<Entry>> {
    let (mut all, mut known) = (Vec::new(), Tail::default());
    while course.goes_on() {
        all.extend(follow(&*realm, &session, &mut known).await);
        tokio::time::sleep(PAUSE).await;
    }
    all
}

#[test]
fn cluster_that_loses_its_leader_loses_and_doubles_nothing() {
    let Some(mut cluster) = Cluster::start() else { return };
    let runtime = Runtime::new().unwrap();
    let course: Arc<Course> = Arc::default();
    let (owner, alone, claim) = runtime.block_on(async {
        let (owner, alone) = (cluster.realm("laptop"), cluster.realm("desk"));
        owner.renew().await.unwrap();
        alone.renew().await.unwrap();
        owner.create(&header("s-1")).await.unwrap();
        let claim = alone.create(&header("s-2")).await.unwrap();
        (owner, alone, claim)
    });
    let _kept = runtime.block_on(async {
        let terms = LeaseTerms::default();
        [keep(owner.clone(), terms), keep(alone.clone(), terms)]
    });
    let fighters: Vec<_> = (0..6)
        // Each has connections of its own, and believes that it owns the session.
        .map(|n| {
            let _inside = runtime.enter();
            runtime.spawn(fight(cluster.realm("laptop"), n, course.clone()))
        })
        .collect();
    let writer = runtime.spawn(write_alone(alone, claim, course.clone()));
    let copies = ["s-1", "s-2"].map(|session| {
        let _inside = runtime.enter();
        runtime.spawn(copy(cluster.realm("reader"), session.into(), course.clone()))
    });
    let mut dice = Dice::new();
    let mut until_saved = |cluster: &Cluster| {
        let wanted = course.saved.load(Ordering::SeqCst) + dice.some() as u64;
        let has = async || (course.saved.load(Ordering::SeqCst) >= wanted).then_some(());
        run(async { poll("they go on", has).await });
        cluster.leader(None)
    };
    // An election takes some five seconds.
    let faults = kills() / 3;
    for fault in 0..faults {
        until_saved(&cluster);
        let leader = cluster.elected(None);
        if fault % 2 == 0 {
            cluster.servers[leader].kill();
            cluster.elected(Some(leader));
            until_saved(&cluster);
            cluster.servers[leader].begin();
        } else {
            // It believes that it leads when it goes on.
            let paused = cluster.servers[leader].pause();
            cluster.elected(Some(leader));
            drop(paused);
        }
    }
    until_saved(&cluster);
    course.is_over.store(true, Ordering::SeqCst);
    let (mut saved, mut epochs) = (Vec::new(), Vec::new());
    for fighter in fighters {
        let (its_saved, its_epochs) = runtime.block_on(fighter).unwrap();
        saved.extend(its_saved);
        epochs.extend(its_epochs);
    }
    let alone = runtime.block_on(writer).unwrap();
    let copies = copies.map(|copy| runtime.block_on(copy).unwrap());
    drop(runtime);
    cluster.settle();
    saved.sort();
    assert!(
        saved.is_sorted_by_key(|(_, _, epoch)| epoch),
        "an older claim has written after a newer one: {saved:?}"
    );
    assert_eq!(epochs.iter().collect::<BTreeSet<_>>().len(), epochs.len(), "two claims have one epoch");
    for (session, saved, copy) in [("s-1", &saved, &copies[0]), ("s-2", &alone, &copies[1])] {
        let saved: Vec<_> = saved.iter().map(|(seq, id, _)| (*seq, id.clone())).collect();
        let mut logs = cluster.servers.iter().map(|server| {
            server.assert_whole(session);
            run(async { log(&*server.realm(host("reader", "1")), &session.into()).await })
        });
        let all = logs.next().unwrap();
        assert_whole(&all, &saved);
        assert!(logs.all(|other| other == all), "the servers have different logs");
        assert_eq!(&all[..copy.len()], &copy[..], "the copy is another log");
        let (acknowledged, all) = (saved.len(), all.len());
        eprintln!(
            "{faults} leaders lost, {session}: {acknowledged} acknowledged, {all} in the log, 0 lost, 0 doubled"
        );
    }
    eprintln!("{} claims, each with an epoch of its own", epochs.len());
}

#[test]
fn host_does_many_things_at_once_in_a_cluster() {
    let Some(cluster) = Cluster::start() else { return };
    run(async {
        let (a, b) = (cluster.realm("laptop"), cluster.realm("desk"));
        a.renew().await.unwrap();
        b.renew().await.unwrap();
        for round in 0..5 {
            // All of these look at which run of the host has entered, while others of them are under way.
            let made = (0..16).map(|n| {
                let a = a.clone();
                tokio::spawn(async move {
                    let claim = a.create(&header(&format!("s-{round}-{n}"))).await.unwrap();
                    a.claim(&claim.session, Path::new("/project"), &Tail::default()).await.unwrap()
                })
            });
            let made: Vec<_> = made.collect();
            a.renew().await.unwrap();
            for made in made {
                assert_eq!(made.await.unwrap().epoch, 2);
            }
        }
        let session = SessionId::from("s-0-0");
        let mut requests = a.requests().await.unwrap();
        let answering = async {
            let posted = requests.recv().await.unwrap();
            assert!(a.answer(&posted.request.id, ":done").await.unwrap());
        };
        let request = RealmRequest { id: "r-1".into(), call: ":x".into() };
        let (answer, ()) = tokio::join!(b.post(&session, &request), answering);
        assert_eq!(&*answer.unwrap(), ":done");
    });
}
