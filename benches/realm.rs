//! What sessions on several machines cost, on a PostgreSQL and a NATS server of the benchmark's own.
//!
//! `cargo bench --features postgres,nats --bench realm`. Each figure stands beside one of the same minute: an append beside
//! a bare INSERT or message and an `fdatasync`, sixteen sessions beside sixteen whose appends notify.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    dead_code,
    reason = "a benchmark"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use edn_bridge::config::{Share, Takeover, Workspace};
use edn_bridge::federation::{Federation, Terms};
use edn_bridge::limits::REALM_WATCH;
use edn_bridge::realm::rules::LeaseTerms;
use edn_bridge::realm::{Claim, Realm, RealmError, Tail, connect};
use edn_bridge::store::Entry;
use nats_server::NatsServer;
use promises::{entry, header, host};
use server::{Engine, Server};

#[path = "../tests/realm/engines.rs"]
mod engines;
#[path = "../tests/realm/nats_server.rs"]
mod nats_server;
#[path = "../tests/realm/promises.rs"]
mod promises;
#[path = "../tests/realm/server.rs"]
mod server;

/// Appends of one session.
const APPENDS: usize = 400;
/// Appends of each of sixteen sessions.
const EACH: usize = 60;
const SESSIONS: usize = 16;

/// An append as it is, and a notification in it: what the design avoids.
const NOTIFYING: &str = "WITH s AS (UPDATE edn_bridge.session SET tail = tail + 1, tail_id = $2, \
     changed = clock_timestamp() WHERE member = current_user AND id = $1 RETURNING tail), \
     e AS (INSERT INTO edn_bridge.entry (session, seq, id, epoch, line) SELECT $1, tail, $2, 1, $3 FROM s) \
     SELECT pg_notify('bench', $1)";

fn main() {
    // Tests run every target once; a benchmark is measured where it is asked for.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let Some(server) = Server::start() else { return };
    promises::run(async {
        one_session_in_postgres(&server).await;
        sixteen(&server).await;
        second_client(&server).await;
        takeover(&server).await;
    });
    idle(&server);
    let bytes = server.sql(
        "SELECT (pg_total_relation_size('edn_bridge.entry') / (SELECT count(*) FROM edn_bridge.entry))::int",
    );
    println!("bytes on disk for an entry of 600 bytes, indexes included: {}", bytes[0]);
    let Some(server) = NatsServer::start() else { return };
    println!("NATS:");
    promises::run(async {
        one_session_in_nats(&server).await;
        let rate = appends_of_sixteen(&server.host("laptop").await).await;
        println!("16 sessions, the best of three: {rate:.0} appends/s");
        second_client(&server).await;
        takeover(&server).await;
    });
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0
}

fn six_hundred(id: &str) -> Arc<Entry> {
    let short = entry(id, "");
    entry(id, &"x".repeat(600usize.saturating_sub(short.line().len())))
}

async fn raw(server: &Server) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(server.url().expose(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Appends of one session, each right before what it stands beside.
async fn one_session<const N: usize>(
    server: &impl Engine,
    names: [&str; N],
    mut beside: impl AsyncFnMut(usize) -> [Duration; N],
) {
    let realm = server.host("laptop").await;
    let claim = realm.create(&header("one")).await.unwrap();
    let (mut appends, mut others) = (Vec::new(), [const { Vec::new() }; N]);
    let mut at = Tail::default();
    for n in 0..APPENDS {
        let one = [six_hundred(&format!("e{n}"))];
        let begin = Instant::now();
        at = realm.append(&claim, &at, &one, None).await.unwrap();
        appends.push(begin.elapsed());
        for (times, took) in others.iter_mut().zip(beside(n).await) {
            times.push(took);
        }
    }
    println!(
        "append: p50 {:.2} ms, p90 {:.2} ms",
        percentile(&mut appends, 50),
        percentile(&mut appends, 90)
    );
    for (what, times) in names.iter().zip(&mut others) {
        println!("{what}: p50 {:.2} ms, p90 {:.2} ms", percentile(times, 50), percentile(times, 90));
        println!("append / {what}, p50: {:.2}", percentile(&mut appends, 50) / percentile(times, 50));
    }
}

async fn one_session_in_postgres(server: &Server) {
    let client = raw(server).await;
    client.batch_execute("CREATE TABLE bare (n bigserial PRIMARY KEY, line text)").await.unwrap();
    let insert = client.prepare("INSERT INTO bare (line) VALUES ($1)").await.unwrap();
    let line = String::from_utf8(six_hundred("bare").line()).unwrap();
    let file = std::fs::File::create(server.data().join("bench")).unwrap();
    let beside = async |_| {
        let begin = Instant::now();
        client.execute(&insert, &[&line]).await.unwrap();
        let inserted = begin.elapsed();
        let begin = Instant::now();
        std::io::Write::write_all(&mut &file, line.as_bytes()).unwrap();
        file.sync_data().unwrap();
        [inserted, begin.elapsed()]
    };
    one_session(server, ["bare INSERT", "fdatasync"], beside).await;
}

async fn one_session_in_nats(server: &NatsServer) {
    let client = async_nats::connect(format!("127.0.0.1:{}", server.port())).await.unwrap();
    let line = six_hundred("bare").line();
    let beside = async |n| {
        let begin = Instant::now();
        client.request(format!("edn_bridge.bench.{n}"), line.clone().into()).await.unwrap();
        [begin.elapsed()]
    };
    one_session(server, ["bare message"], beside).await;
}

/// Appends a second of sixteen sessions at once, the best of three rounds.
async fn appends_of_sixteen(realm: &Arc<dyn Realm>) -> f64 {
    let mut claims: Vec<(Claim, Tail)> = Vec::new();
    for n in 0..SESSIONS {
        claims.push((realm.create(&header(&format!("many-{n}"))).await.unwrap(), Tail::default()));
    }
    let mut best = 0.0_f64;
    for round in 0..3 {
        let begin = Instant::now();
        let tasks: Vec<_> = claims
            .drain(..)
            .map(|(claim, mut at)| {
                let realm = realm.clone();
                tokio::spawn(async move {
                    for n in 0..EACH {
                        let one = [six_hundred(&format!("e{round}-{n}"))];
                        at = realm.append(&claim, &at, &one, None).await.unwrap();
                    }
                    (claim, at)
                })
            })
            .collect();
        for task in tasks {
            claims.push(task.await.unwrap());
        }
        best = best.max((SESSIONS * EACH) as f64 / begin.elapsed().as_secs_f64());
    }
    best
}

async fn sixteen(server: &Server) {
    let realm = server.host("laptop").await;
    for n in 0..SESSIONS {
        realm.create(&header(&format!("notifying-{n}"))).await.unwrap();
    }
    let ours = appends_of_sixteen(&realm).await;
    let mut theirs = 0.0_f64;
    for round in 0..3 {
        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            let client = raw(server).await;
            let statement = client.prepare(NOTIFYING).await.unwrap();
            clients.push((client, statement));
        }
        let begin = Instant::now();
        let tasks: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(session, (client, statement))| {
                tokio::spawn(async move {
                    let session = format!("notifying-{session}");
                    for n in 0..EACH {
                        let id = format!("e{round}-{n}");
                        let line = String::from_utf8(six_hundred(&id).line()).unwrap();
                        client.execute(&statement, &[&session, &id, &line]).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        theirs = theirs.max((SESSIONS * EACH) as f64 / begin.elapsed().as_secs_f64());
    }
    println!(
        "16 sessions, the best of three: {ours:.0} appends/s on 4 connections; {theirs:.0} with NOTIFY in the append, on 16: \
         {:.1} times",
        ours / theirs
    );
}

async fn second_client(server: &impl Engine) {
    let (a, b) = (server.host("laptop").await, server.host("desk").await);
    let claim = a.create(&header("followed")).await.unwrap();
    let mut hints = b.watch(Some(&claim.session)).await.unwrap();
    let (mut seen, mut at, mut delays, mut appends) =
        (Tail::default(), Tail::default(), Vec::new(), Vec::new());
    for n in 0..200 {
        let one = [six_hundred(&format!("e{n}"))];
        let begin = Instant::now();
        at = a.append(&claim, &at, &one, None).await.unwrap();
        appends.push(begin.elapsed());
        while seen != at {
            let _ = tokio::time::timeout(REALM_WATCH, hints.recv()).await;
            let page = b.read(&claim.session, &seen, 512).await.unwrap();
            seen = seen.after(page.entries.iter().map(|entry| &entry.id));
        }
        delays.push(begin.elapsed());
    }
    println!(
        "at a second client, from before the append: p50 {:.2} ms, p90 {:.2} ms (the append itself {:.2} ms)",
        percentile(&mut delays, 50),
        percentile(&mut delays, 90),
        percentile(&mut appends, 50)
    );
}

/// Statements of a host with nothing to do, which has entered a realm as a program does.
fn idle(server: &Server) {
    let (url, me) = (server.url(), host("idle", "1"));
    let terms = Terms {
        share: Share::Ask,
        takeover: Takeover::Ask,
        workspace: Workspace::Own,
        lease: LeaseTerms::default(),
        state_dir: server.data(),
    };
    let connected = move |executor: &tokio::runtime::Handle, lease| {
        let _executor = executor.enter();
        connect(&url, me, "bench", lease)
    };
    let federation = Federation::enter(connected, terms).unwrap();
    let count = || {
        server.sql("SELECT pg_sleep(1.1)");
        let sum =
            server.sql("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'");
        sum[0].parse::<f64>().unwrap()
    };
    // The other hosts of this benchmark are gone, and what the first renewal begins is done.
    std::thread::sleep(Duration::from_secs(10));
    let (begin, before) = (Instant::now(), count());
    std::thread::sleep(Duration::from_secs(60));
    // Two statements are the count's own.
    let made = count() - before - 2.0;
    println!("an idle host: {:.2} statements a second", made / begin.elapsed().as_secs_f64());
    federation.leave();
}

async fn takeover(server: &impl Engine) {
    let lost = host("gone", "1");
    let lost = connect(&server.url(), lost, "bench", LeaseTerms::new(Duration::from_secs(3))).unwrap();
    let taker = server.host("desk").await;
    let begin = Instant::now();
    lost.renew().await.unwrap();
    let claim = lost.create(&header("taken")).await.unwrap();
    let session = claim.session.clone();
    loop {
        match taker.claim(&session, Path::new("/project"), &Tail::default()).await {
            Ok(_) => break,
            Err(RealmError::Held { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
    println!(
        "takeover after the last sign of an owner with a lease of 3 s: {:.2} s",
        begin.elapsed().as_secs_f64()
    );
    let begin = Instant::now();
    taker.claim(&session, Path::new("/project"), &Tail::default()).await.unwrap();
    println!("a claim itself: {:.2} ms", begin.elapsed().as_secs_f64() * 1000.0);
}
