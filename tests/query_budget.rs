//! What queries hold while they run, measured at the allocator: never more than twice their budget, which counts neither
//! the allocator's own bytes nor what a growing list has spare.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unsafe_code,
    reason = "tests, and the trait of allocators"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use edn_bridge::edn;
use edn_bridge::facts::SessionFacts;
use edn_bridge::limits::{QUERY_BYTES, QUERY_MILLIS};
use edn_bridge::message::{Block, Message, Role};
use edn_bridge::query::compile::Level;
use edn_bridge::query::graph;
use edn_bridge::query::parse::parse;
use edn_bridge::query::run::run;
use edn_bridge::value::Map;
use query_support::Process;

mod query_support;

/// The system's allocator, with the most bytes that were allocated at once.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: each call is the system's allocator's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A session with messages of so many bytes.
fn talk(messages: usize, bytes: usize) -> Process {
    let message = |n: usize| {
        let text = Block::Text("x".repeat(bytes).into());
        let mut message = Message::new(format!("e-{n}").into(), Role::User, vec![text], "".into());
        message.turn_id = Some("t-1".into());
        Arc::new(message)
    };
    Process::new((0..messages).map(message).collect(), SessionFacts::empty("s-1".into()))
}

/// Runs a query, and returns the bytes that it held at most and whether it was answered.
fn peak(process: &Process, query: &str, entity: &str) -> (usize, bool) {
    let entity = edn::read_one(entity.as_bytes()).unwrap().into_owned();
    let entity: Map<'static> = entity.as_map().unwrap().clone();
    let level = Level::new(&parse(query).unwrap(), &|name| graph().attr(name));
    // Its plans are kept, and are no part of what it holds.
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let begun = Instant::now();
    let answered = run(graph(), process, &level, entity, Vec::new());
    let most = Duration::from_millis(QUERY_MILLIS) + Duration::from_secs(2);
    assert!(begun.elapsed() < most, "{query:.200}: {:?}", begun.elapsed());
    (PEAK.load(Ordering::Relaxed) - before, answered.is_ok())
}

/// One test, because others would allocate beside it.
#[test]
fn query_holds_no_more_than_its_budget() {
    let attributes = ":psi.graph/attributes";
    let messages = ":psi.agent-session/messages";
    let wide: String = (0..2000).map(|n| format!(":unknown/n{n} ")).collect();
    let idents: String =
        (0..1500).map(|n| format!("{{[:psi.message/id {n}] [{{{messages} [*]}}]}} ")).collect();
    let copies: String =
        (0..400).map(|n| format!("({{:>/p{n} [{{{messages} [*]}}]}} {{:a {n}}}) ")).collect();
    let links: String = (0..3000).map(|n| format!("([:big _] {{:n {n} :pathom/as :b{n}}}) ")).collect();
    let turns = "{:psi.turn/id \"t-1\"} ".repeat(20_000);
    let key = "k".repeat(200_000);
    let names = "{:psi.attribute/name :psi.turn/text} ".repeat(20_000);
    let (empty, many, large) = (talk(0, 0), talk(50_000, 10), talk(300, 100_000));
    let none = "{}";
    let queries = [
        (
            &empty,
            format!("[{{{attributes} [{{{attributes} [{{{attributes} [:psi.attribute/name]}}]}}]}}]"),
            none,
            Some(false),
        ),
        (&empty, format!("[{{{attributes} [:psi.attribute/name {{{attributes} ...}}]}}]"), none, Some(false)),
        (&empty, format!("[{{{attributes} [{{{attributes} 2}}]}}]"), none, Some(false)),
        (&empty, format!("[{{{attributes} [{wide}]}}]"), none, Some(true)),
        (
            &empty,
            format!("[{{{attributes} {{:psi.attribute/name [{{{attributes} [*]}}]}}}}]"),
            none,
            Some(false),
        ),
        (
            &empty,
            "[{:psi.graph/nodes [* {:psi.graph/nodes [* {:psi.graph/nodes [*]}]}]}]".to_owned(),
            none,
            Some(false),
        ),
        (
            &empty,
            "[{:psi.catalog/ops [* {:psi.catalog/ops [* {:psi.catalog/ops [*]}]}]}]".to_owned(),
            none,
            Some(false),
        ),
        (&many, format!("[{{{messages} [:psi.message/id]}}]"), none, Some(true)),
        (&many, format!("[{{{messages} [{wide}]}}]"), none, Some(false)),
        (&many, format!("[{{{messages} [* {{{messages} [*]}}]}}]"), none, Some(false)),
        (&many, format!("[{{{messages} [{{{messages} [:psi.message/id]}}]}}]"), none, Some(false)),
        (&many, format!("[{idents}]"), none, Some(false)),
        (&many, format!("[{copies}]"), none, Some(false)),
        (
            &large,
            format!("[{{{messages} [:psi.message/text {{:>/again [:psi.message/text {{:>/again [*]}}]}}]}}]"),
            none,
            Some(false),
        ),
        (&large, "[{:turns [:psi.turn/text]}]".to_owned(), &*format!("{{:turns [{turns}]}}"), None),
        (&large, "[{:names [*]}]".to_owned(), &*format!("{{:names [{names}]}}"), Some(true)),
        (&many, format!("[{{{messages} [(:psi.message/id {{:pathom/as \"{key}\"}})]}}]"), none, Some(false)),
        (&empty, format!("[{links}]"), &*format!("{{:big [{}]}}", "\"x\" ".repeat(100_000)), Some(false)),
    ];
    for (process, query, entity, is_answered) in queries {
        let (peak, answered) = peak(process, &query, entity);
        println!("{:>9} KiB {answered} {query:.100}", peak / 1024);
        assert!(peak < 2 * QUERY_BYTES, "{} MiB: {query:.200}", peak / (1024 * 1024));
        assert!(is_answered.is_none_or(|is_answered| answered == is_answered), "{answered}: {query:.200}");
    }
}
