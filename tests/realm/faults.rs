//! What fails in a realm, and what comes of it: the rows of docs/realm.md.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use edn_bridge::clock::since_boot;
use edn_bridge::limits::REALM_CALL_WAIT;
use edn_bridge::message::SessionId;
use edn_bridge::realm::rules::LeaseTerms;
use edn_bridge::realm::{Claim, Realm, RealmError, RealmRequest, RealmWriter, Tail, Written, connect};
use edn_bridge::store::Entry;
use rustix::process::Signal;

use crate::believer::{Believer, Tool};
use crate::engines::Engine;
use crate::on_each_engine;
use crate::promises::{PATIENCE, entries, entry, header, ids, log, poll, run};
use crate::proxy::{FAIR, Proxy, Weather};

on_each_engine! {
    killed_owners_lose_and_double_nothing
    killed_engine_loses_and_doubles_nothing
    six_believers_leave_one_whole_log
    paused_owner_starts_no_tool_and_appends_nothing
    owner_that_is_cut_off_starts_no_tool_in_the_last_third
    engine_that_is_away_refuses_and_comes_back
    silent_cut_is_noticed_in_bounded_time
    lost_answer_is_looked_up
    late_statement_is_carried_out_once
    late_statement_before_the_retry_is_found
    late_answer_harms_no_other_call
    question_that_may_have_come_is_not_refused
    hints_that_fail_are_told_once_in_the_log
    clock_that_jumps_ahead_harms_nothing
    engine_that_was_set_back_stops_the_owner
}

/// Kills in the ordinary run: some seconds.
const KILLS: usize = 6;

/// What each of the six writes.
const WRITES: u64 = 15;

pub fn kills() -> usize {
    std::env::var("EDN_BRIDGE_REALM_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// Random choices that a seed repeats.
pub struct Dice(u64);

impl Dice {
    pub fn new() -> Self {
        let seed = std::env::var("EDN_BRIDGE_REALM_SEED").ok().and_then(|text| text.parse().ok());
        Self(seed.unwrap_or(4711) | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    pub fn some(&mut self) -> usize {
        1 + usize::try_from(self.roll(40)).unwrap()
    }
}

/// A server with the session `s-1`, which nobody owns.
fn with_session(server: &impl Engine) {
    run(async {
        let maker = server.host("maker").await;
        let claim = maker.create(&header("s-1")).await.unwrap();
        maker.release(&claim).await.unwrap();
    });
}

/// The log, in which everything that was acknowledged is there, at its number, and nothing twice.
fn whole(server: &impl Engine, saved: &[(u64, String)]) -> Vec<Arc<Entry>> {
    let all = run(async { log(&*server.host("reader").await, &"s-1".into()).await });
    assert_whole(&all, saved);
    all
}

/// Asserts that a log has everything that was acknowledged, at its number, and nothing twice.
pub fn assert_whole(all: &[Arc<Entry>], saved: &[(u64, String)]) {
    let places: BTreeMap<&str, u64> =
        (1..).zip(all).map(|(place, entry)| (entry.id.as_str(), place)).collect();
    assert_eq!(places.len(), all.len(), "an id stands twice");
    for (seq, id) in saved {
        assert_eq!(places.get(id.as_str()), Some(seq), "{id} was acknowledged at {seq}");
    }
    let wishes: BTreeSet<String> =
        all.iter().map(|entry| entry.body.message().unwrap().text().to_string()).collect();
    assert_eq!(wishes.len(), all.len(), "something was written twice");
    // Of each run, everything up to its last is there, in its order.
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in all {
        let (run, count) = entry.id.as_str().rsplit_once('-').unwrap();
        let next = counts.entry(run).or_default();
        assert_eq!(count.parse::<u64>().unwrap(), *next, "of run {run}");
        *next += 1;
    }
}

fn killed_owners_lose_and_double_nothing<E: Engine>() {
    let Some(server) = E::start() else { return };
    with_session(&server);
    let mut dice = Dice::new();
    let mut saved = Vec::new();
    for kill in 0..kills() {
        let owner = Believer::start(&server.url(), "laptop", &format!("r{kill}"), false);
        saved.extend(owner.saved(dice.some()));
        saved.extend(owner.kill());
    }
    let all = whole(&server, &saved);
    assert!(saved.len() >= kills() && all.len() <= saved.len() + kills(), "{} of {}", saved.len(), all.len());
    eprintln!(
        "{} kills of owners: {} acknowledged, {} in the log, 0 lost, 0 doubled",
        kills(),
        saved.len(),
        all.len()
    );
}

fn killed_engine_loses_and_doubles_nothing<E: Engine>() {
    let Some(mut server) = E::start() else { return };
    with_session(&server);
    let mut dice = Dice::new();
    let owner = Believer::start(&server.url(), "laptop", "r0", false);
    let mut saved = Vec::new();
    for _ in 0..kills() {
        saved.extend(owner.saved(dice.some()));
        server.kill();
        server.begin();
    }
    saved.extend(owner.saved(1));
    saved.extend(owner.kill());
    let all = whole(&server, &saved);
    eprintln!(
        "{} kills of the engine: {} acknowledged, {} in the log, 0 lost, 0 doubled",
        kills(),
        saved.len(),
        all.len()
    );
}

fn six_believers_leave_one_whole_log<E: Engine>() {
    let Some(mut server) = E::start() else { return };
    let saved = run(async {
        let proxy = Proxy::to(server.port()).await;
        let failed: Arc<AtomicU64> = Arc::default();
        let first = server.host("laptop").await;
        let claim = first.create(&header("s-1")).await.unwrap();
        let writers = (0..6).map(|n| {
            // Each has connections of its own, and the one claim: none of them is told that there are others.
            let (claim, failed) = (claim.clone(), failed.clone());
            // Three of them go through a network that is cut.
            let url = server.url_at(if n % 2 == 0 { server.port() } else { proxy.port });
            tokio::spawn(async move {
                let me = crate::promises::host("laptop", "1");
                let realm = connect(&url, me, "test", LeaseTerms::default()).unwrap();
                let mut writer = RealmWriter::new(realm, claim, &Tail::default()).unwrap();
                let (mut saved, mut count) = (Vec::new(), 0);
                while count < WRITES {
                    let wanted = [entry(&format!("r{n}-{count}"), &format!("{n} wants {count}"))];
                    match writer.write(&wanted, None).await {
                        Ok(Written::Saved(tail)) => {
                            saved.push((tail.seq, wanted[0].id.to_string()));
                            count += 1;
                        }
                        Ok(Written::DecideAnew(_)) => {}
                        Err(error) => {
                            assert!(error.may_pass(), "{error:?}");
                            failed.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
                saved
            })
        });
        let writers: Vec<_> = writers.collect();
        let session = SessionId::from("s-1");
        let has = async |count: u64| {
            while !first.open(&session).await.is_ok_and(|opened| opened.tail.seq >= count) {
                tokio::task::yield_now().await;
            }
        };
        // One of them does not come through: the fault is there.
        let fails = async || {
            let before = failed.load(Ordering::SeqCst);
            while failed.load(Ordering::SeqCst) == before {
                tokio::task::yield_now().await;
            }
        };
        has(WRITES).await;
        server.kill();
        server.begin();
        has(2 * WRITES).await;
        let paused = server.pause();
        fails().await;
        drop(paused);
        has(3 * WRITES).await;
        proxy.set(Weather { holds_questions: true, holds_answers: true, ..FAIR });
        proxy.until_held().await;
        fails().await;
        proxy.set(FAIR);
        let mut saved = Vec::new();
        for writer in writers {
            saved.extend(writer.await.unwrap());
        }
        saved
    });
    let all = whole(&server, &saved);
    assert_eq!(all.len() as u64, 6 * WRITES);
    eprintln!("six believers: {} entries, {} acknowledged, 0 lost, 0 doubled", all.len(), saved.len());
}

/// Takes `s-1` once its owner's lease is over; returns the claim, and when it was there, on the clock since boot.
async fn take(other: &dyn Realm) -> (Claim, Duration) {
    let session = SessionId::from("s-1");
    let take = async || match other.claim(&session, Path::new("/project"), &Tail::default()).await {
        Ok(claim) => Some((claim, since_boot())),
        Err(RealmError::Held { host }) => {
            assert_eq!(host.as_str(), "laptop");
            None
        }
        Err(error) => panic!("{error:?}"),
    };
    poll("its lease ends", take).await
}

/// Asserts that each tool was started before the last third of a lease: of the one that its owner counted, and of the one
/// that was over when the session was taken. Returns when the last one was.
fn assert_early(lines: &[String], taken_at: Duration) -> Duration {
    let tools: Vec<Tool> = lines.iter().filter_map(|line| crate::believer::tool(line)).collect();
    for tool in &tools {
        let in_margin = tool.started + crate::believer::terms().margin;
        assert!(in_margin <= tool.lease_ends, "in the last third: {tool:?}");
        assert!(
            tool.lease_ends <= taken_at,
            "it counts on more than the engine: {tool:?}, taken at {taken_at:?}"
        );
    }
    tools.last().unwrap().started
}

fn paused_owner_starts_no_tool_and_appends_nothing<E: Engine>() {
    let Some(server) = E::start() else { return };
    with_session(&server);
    let owner = Believer::start(&server.url(), "laptop", "r0", true);
    let mut lines = owner.until("saved 3 ");
    owner.signal(Signal::STOP);
    let (taken_at, all) = run(async {
        let other = server.host("desk").await;
        let (claim, taken_at) = take(&*other).await;
        owner.signal(Signal::CONT);
        lines.extend(owner.until("fenced"));
        let saved = lines.iter().filter_map(|line| crate::believer::acknowledged(line));
        assert!(
            saved.into_iter().all(|(seq, _)| seq <= claim.tail.seq),
            "acknowledged after it was taken: {lines:?}"
        );
        other.append(&claim, &claim.tail, &entries(&["taken-0"]), None).await.unwrap();
        (taken_at, log(&*other, &"s-1".into()).await)
    });
    // What it starts from now on would be after a new claim, which it does not get.
    assert_early(&lines, taken_at);
    assert_eq!(all.last().unwrap().id.as_str(), "taken-0");
    owner.kill();
}

fn owner_that_is_cut_off_starts_no_tool_in_the_last_third<E: Engine>() {
    let Some(server) = E::start() else { return };
    with_session(&server);
    run(async {
        let proxy = Proxy::to(server.port()).await;
        let owner = Believer::start(&server.url_at(proxy.port), "laptop", "r0", true);
        let mut lines = owner.until("saved 3 ");
        // It runs on, and no renewal comes through.
        proxy.set(Weather { holds_questions: true, holds_answers: true, ..FAIR });
        let cut_at = since_boot();
        let (_, taken_at) = take(&*server.host("desk").await).await;
        lines.extend(owner.until("lapsed"));
        let last = assert_early(&lines, taken_at);
        assert!(last > cut_at, "it started nothing after the cut: {last:?}, {cut_at:?}");
        owner.kill();
    });
}

fn engine_that_is_away_refuses_and_comes_back<E: Engine>() {
    let Some(mut server) = E::start() else { return };
    let realm = run(async { server.host("laptop").await });
    drop(realm);
    run(async {
        let realm = server.host("laptop").await;
        let claim = realm.create(&header("s-1")).await.unwrap();
        let session = claim.session.clone();
        let mut writer = RealmWriter::new(realm.clone(), claim, &Tail::default()).unwrap();
        writer.write(&entries(&["a"]), None).await.unwrap();
        server.stop();
        let refused = writer.write(&entries(&["b"]), None).await.unwrap_err();
        assert!(refused.may_pass(), "{refused:?}");
        assert!(matches!(realm.open(&session).await, Err(RealmError::Unreachable(_))));
        server.begin();
        loop {
            match writer.write(&entries(&["b"]), None).await {
                Ok(Written::Saved(_)) => break,
                Ok(Written::DecideAnew(found)) => assert!(found.is_empty()),
                Err(error) => assert!(error.may_pass(), "{error:?}"),
            }
        }
        assert_eq!(ids(&log(&*realm, &session).await), ["a", "b"]);
    });
}

/// A session of a host that is reached through a network that the test holds.
async fn through(proxy: &Proxy, server: &impl Engine) -> (Arc<dyn Realm>, RealmWriter) {
    let realm = server.host_at("laptop", proxy.port).await;
    let claim = realm.create(&header("s-1")).await.unwrap();
    let mut writer = RealmWriter::new(realm.clone(), claim, &Tail::default()).unwrap();
    writer.write(&entries(&["a"]), None).await.unwrap();
    (realm, writer)
}

fn silent_cut_is_noticed_in_bounded_time<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let proxy = Proxy::to(server.port()).await;
        let (realm, mut writer) = through(&proxy, &server).await;
        proxy.set(Weather { holds_questions: true, holds_answers: true, ..FAIR });
        let session = SessionId::from("s-1");
        let unreached =
            tokio::time::timeout(PATIENCE, realm.open(&session)).await.expect("it waits for ever");
        assert!(matches!(unreached, Err(RealmError::Unreachable(_))));
        let doubt = tokio::time::timeout(PATIENCE, writer.write(&entries(&["b"]), None)).await;
        assert!(matches!(
            doubt.expect("it waits for ever"),
            Err(RealmError::InDoubt(_) | RealmError::Unreachable(_))
        ));
        proxy.set(FAIR);
        let mut saved = writer.write(&entries(&["b"]), None).await;
        while !matches!(saved, Ok(Written::Saved(_))) {
            saved = writer.write(&entries(&["b"]), None).await;
        }
        assert_eq!(ids(&log(&*realm, &session).await), ["a", "b"]);
    });
}

fn lost_answer_is_looked_up<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let proxy = Proxy::to(server.port()).await;
        let (realm, mut writer) = through(&proxy, &server).await;
        proxy.set(Weather { swallows_answers: true, ..FAIR });
        let reader = server.host("desk").await;
        let session = SessionId::from("s-1");
        let wanted = entries(&["b"]);
        let write = writer.write(&wanted, None);
        let carried_out = async {
            // It is carried out, and nobody hears of it. Then the network is there again.
            while reader.open(&session).await.unwrap().tail.seq < 2 {
                tokio::task::yield_now().await;
            }
            proxy.set(FAIR);
        };
        let (written, ()) = tokio::join!(write, carried_out);
        assert_eq!(written.unwrap(), Written::Saved(Tail::at(2, "b".into())));
        assert_eq!(ids(&log(&*realm, &session).await), ["a", "b"]);
    });
}

fn question_that_may_have_come_is_not_refused<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let owner = server.host("laptop").await;
        let claim = owner.create(&header("s-1")).await.unwrap();
        let proxy = Proxy::to(server.port()).await;
        let asker = server.host_at("desk", proxy.port).await;
        let text = "nobody hears of this";
        proxy.set_from(text, Weather { swallows_answers: true, ..FAIR });
        let request = RealmRequest { id: "r".into(), call: format!("{text:?}").into() };
        let released = async {
            poll("it comes", async || {
                let mut requests = owner.requests().await.unwrap();
                tokio::time::timeout(Duration::from_millis(100), requests.recv()).await.ok().flatten()
            })
            .await;
            // Whoever asks again finds no owner.
            owner.release(&claim).await.unwrap();
            proxy.set(FAIR);
        };
        let (answer, ()) = tokio::join!(asker.post(&claim.session, &request), released);
        assert!(matches!(answer, Err(RealmError::InDoubt(_) | RealmError::Unanswered)), "{answer:?}");
    });
}

fn late_statement_is_carried_out_once<E: Engine>() {
    // What is wanted after the doubt: the same, or something else.
    for (wanted_then, expected) in [("b", vec!["a", "b", "c"]), ("x", vec!["a", "x", "c"])] {
        let Some(server) = E::start() else { return };
        run(async {
            let proxy = Proxy::to(server.port()).await;
            let (realm, mut writer) = through(&proxy, &server).await;
            let direct = server.host_at("laptop", server.port()).await;
            let session = SessionId::from("s-1");
            proxy.set(Weather { holds_questions: true, ..FAIR });
            // The append is under way when its caller gives up; the connection is closed, and its bytes are held.
            let wanted = entries(&["b"]);
            let _ = writer.write(&wanted, None).await.unwrap_err();
            proxy.until_held().await;
            // Another way to the engine, for the same owner: nothing is there.
            let known = writer.tail().clone();
            let claim = Claim { tail: known.clone(), ..writer.claim().clone() };
            assert!(direct.settle(&claim, &known).await.unwrap().entries.is_empty());
            let mut again = RealmWriter::new(direct.clone(), claim, &known).unwrap();
            again.write(&entries(&[wanted_then]), None).await.unwrap();
            // Now the held bytes go, all of them, to the connections that were given up.
            proxy.set(FAIR);
            again.write(&entries(&["c"]), None).await.unwrap();
            proxy.until_answered().await;
            assert_eq!(ids(&log(&*realm, &session).await), expected);
        });
    }
}

fn late_statement_before_the_retry_is_found<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let proxy = Proxy::to(server.port()).await;
        let (realm, mut writer) = through(&proxy, &server).await;
        let session = SessionId::from("s-1");
        proxy.set(Weather { holds_questions: true, ..FAIR });
        let wanted = entries(&["b"]);
        let _ = writer.write(&wanted, None).await.unwrap_err();
        proxy.until_held().await;
        proxy.set(FAIR);
        // The held append and what settles it race; whoever comes first, one of them decides.
        loop {
            match writer.write(&wanted, None).await {
                Ok(Written::Saved(_)) => break,
                Ok(Written::DecideAnew(_)) => {}
                Err(error) => assert!(error.may_pass(), "{error:?}"),
            }
        }
        proxy.until_answered().await;
        assert_eq!(ids(&log(&*realm, &session).await), ["a", "b"]);
    });
}

fn late_answer_harms_no_other_call<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        // Again where this machine stood still for longer than a call may take.
        poll("the other call has its answer", async || late_answer_beside_an_append(&server).await).await;
    });
}

/// Has an answer come too late while an append is under way on the same connection. Returns whether that has its own.
async fn late_answer_beside_an_append(server: &impl Engine) -> Option<()> {
    let proxy = Proxy::to(server.port()).await;
    let realm = server.host_at("laptop", proxy.port).await;
    let claim = realm.create(&header(&format!("s-{}", proxy.port))).await.unwrap();
    proxy.set(Weather { swallows_answers: true, ..FAIR });
    let mut late = realm.open(&claim.session);
    // It has not come in half of the time that a call takes at most.
    tokio::time::timeout(REALM_CALL_WAIT / 2, &mut late).await.err()?;
    proxy.set(Weather { holds_answers: true, ..FAIR });
    let (wanted, after) = (entries(&["a"]), Tail::default());
    let mut append = realm.append(&claim, &after, &wanted, None);
    let late = tokio::select! {
        biased;
        late = late => late,
        appended = &mut append => {
            assert!(appended.is_err(), "it is held: {appended:?}");
            return None;
        }
    };
    assert!(matches!(late, Err(RealmError::Unreachable(_))), "{late:?}");
    proxy.set(FAIR);
    let appended = append.await.ok()?;
    assert_eq!(appended, Tail::at(1, "a".into()));
    Some(())
}

fn clock_that_jumps_ahead_harms_nothing<E: Engine>() {
    let Some(server) = E::start() else { return };
    run(async {
        let (a, b) = server.two_hosts().await;
        let claim = a.create(&header("s-1")).await.unwrap();
        let session = claim.session.clone();
        let at = a.append(&claim, &Tail::default(), &entries(&["a"]), None).await.unwrap();
        // The lease is over although its owner has just renewed it.
        server.end_lease("laptop");
        let at = a.append(&claim, &at, &entries(&["b"]), None).await.unwrap();
        let taken = b.claim(&session, Path::new("/project"), &Tail::default()).await.unwrap();
        assert!(matches!(a.append(&claim, &at, &entries(&["c"]), None).await, Err(RealmError::InDoubt(_))));
        assert!(matches!(a.settle(&claim, &at).await, Err(RealmError::Fenced { .. })));
        b.append(&taken, &at, &entries(&["d"]), None).await.unwrap();
        assert_eq!(ids(&log(&*a, &session).await), ["a", "b", "d"]);
    });
}

fn engine_that_was_set_back_stops_the_owner<E: Engine>() {
    let Some(mut server) = E::start() else { return };
    let (session, older) = (SessionId::from("s-1"), tempfile::tempdir_in("/tmp").unwrap());
    let older = older.path().join("older");
    run(async {
        let realm = server.host("laptop").await;
        let claim = realm.create(&header("s-1")).await.unwrap();
        let mut writer = RealmWriter::new(realm.clone(), claim, &Tail::default()).unwrap();
        writer.write(&entries(&["a"]), None).await.unwrap();
        server.stop();
        let copied = std::process::Command::new("cp").arg("-a").arg(server.store()).arg(&older).status();
        assert!(copied.unwrap().success());
        server.begin();
        while !matches!(writer.write(&entries(&["b", "c"]), None).await, Ok(Written::Saved(_))) {}
        server.stop();
        // What lacks the newest entries takes the place of what has them.
        std::fs::remove_dir_all(server.store()).unwrap();
        let copied = std::process::Command::new("cp").arg("-a").arg(&older).arg(server.store()).status();
        assert!(copied.unwrap().success());
        server.begin();
        let stopped = loop {
            match writer.write(&entries(&["d"]), None).await {
                Err(error) if error.may_pass() => {}
                Ok(Written::DecideAnew(_)) => {}
                other => break other.unwrap_err(),
            }
        };
        assert!(matches!(stopped, RealmError::Behind { found: 1, .. }), "{stopped:?}");
        let again = writer.write(&entries(&["d"]), None).await.unwrap_err();
        assert!(matches!(again, RealmError::Behind { .. }), "it stays so: {again:?}");
        let claimed = loop {
            match realm.claim(&session, Path::new("/project"), writer.tail()).await {
                Err(error) if error.may_pass() => realm.renew().await.unwrap_or_default(),
                claimed => break claimed,
            }
        };
        assert!(matches!(claimed, Err(RealmError::Behind { .. })), "{claimed:?}");
        let reader = server.host("desk").await;
        assert_eq!(ids(&log(&*reader, &session).await), ["a"], "nothing is written");
    });
}

thread_local! {
    /// What the log says in this thread.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct LogHere;

impl std::io::Write for LogHere {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Has each thread of this process keep its log. One log for all of them: what is logged is decided once.
fn keep_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::fmt().with_writer(|| LogHere).init());
}

fn hints_that_fail_are_told_once_in_the_log<E: Engine>() {
    let Some(mut server) = E::start() else { return };
    keep_logs();
    // All of its tasks are in this thread, whose log that is.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let says = |text: &str| LOG.with_borrow(|log| String::from_utf8_lossy(log).matches(text).count());
    let (not_heard, heard) = ("hints of the realm are not heard", "hints of the realm are heard again");
    runtime.block_on(async {
        let realm = server.host("laptop").await;
        server.stop();
        poll("the log says it", async || (says(not_heard) > 0).then_some(())).await;
        // It is tried again and again.
        let away = tokio::net::TcpListener::bind(("127.0.0.1", server.port())).await.unwrap();
        for _ in 0..4 {
            tokio::time::timeout(PATIENCE, away.accept()).await.unwrap().unwrap();
        }
        drop(away);
        server.begin();
        poll("the log says that they come", async || (says(heard) > 0).then_some(())).await;
        drop(realm);
    });
    assert_eq!((says(not_heard), says(heard)), (1, 1));
}
