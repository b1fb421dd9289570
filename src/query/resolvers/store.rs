//! `:psi.store/*`: how sessions are written, counted.

use crate::message::count;
use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::out;
use crate::value::Value;

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.store/root", "The folder of all sessions."),
        (
            "psi.store/durability",
            "When an append is acknowledged: :full when it is on the disk, :relaxed when the system has it.",
        ),
        ("psi.store/append-count", "Appends that were acknowledged since the process was started."),
        ("psi.store/failure-count", "Appends that failed."),
        ("psi.store/byte-count", "Bytes that were acknowledged."),
        (
            "psi.store/sync-count",
            "How often a file was synced: less often than appended, where appends came together.",
        ),
        ("psi.store/sync-micros", "How long the syncs took together, in microseconds."),
        ("psi.store/slowest-sync-micros", "How long the slowest sync took, in microseconds."),
    ],
    resolvers: &[Resolver {
        name: "psi.store/facts",
        input: &[],
        output: &[
            out("psi.store/root"),
            out("psi.store/durability"),
            out("psi.store/append-count"),
            out("psi.store/failure-count"),
            out("psi.store/byte-count"),
            out("psi.store/sync-count"),
            out("psi.store/sync-micros"),
            out("psi.store/slowest-sync-micros"),
        ],
        cost: Cost::Ready,
        run: Run::One(facts),
    }],
    mutations: &[],
};

fn facts(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let store = env.world.store();
    Ok(vec![
        ("psi.store/root", store.root.into()),
        ("psi.store/durability", Value::keyword(store.durability).into()),
        ("psi.store/append-count", count(store.appends).into()),
        ("psi.store/failure-count", count(store.failures).into()),
        ("psi.store/byte-count", count(store.bytes).into()),
        ("psi.store/sync-count", count(store.syncs).into()),
        ("psi.store/sync-micros", count(store.sync_micros).into()),
        ("psi.store/slowest-sync-micros", count(store.slowest_sync_micros).into()),
    ])
}
