//! `:psi.store/*`: counts of the writes to journals.

use crate::message::count;
use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::out;
use crate::value::Value;

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.store/root", "The folder of all sessions."),
        (
            "psi.store/durability",
            "When an append is acknowledged: :full once it is on the disk, :relaxed once the system has it.",
        ),
        ("psi.store/append-count", "Acknowledged appends since the process started."),
        ("psi.store/failure-count", "Failed appends."),
        ("psi.store/byte-count", "Acknowledged bytes."),
        ("psi.store/sync-count", "The number of syncs. Concurrent appends share one."),
        ("psi.store/sync-micros", "The total time of all syncs, in microseconds."),
        ("psi.store/slowest-sync-micros", "The time of the slowest sync, in microseconds."),
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
