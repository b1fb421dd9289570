//! `:psi.store/*`: counts of the writes to journals. Knows no journal.

use crate::message::count;
use crate::query::graph::Resolver;
use crate::query::table::{table, text};
use crate::query::world::StoreFacts;
use crate::value::Value;

table! {
    STORE of StoreFacts {
        "psi.store/root" "The folder of all sessions." => |store| text(&store.root);
        "psi.store/durability" "When an append is acknowledged: :full once it is on the disk, :relaxed once the system has it."
            => |store| Value::keyword(store.durability);
        "psi.store/append-count" "Acknowledged appends since the process started." => |store| count(store.appends);
        "psi.store/failure-count" "Failed appends." => |store| count(store.failures);
        "psi.store/byte-count" "Acknowledged bytes." => |store| count(store.bytes);
        "psi.store/sync-count" "The number of syncs. Concurrent appends share one." => |store| count(store.syncs);
        "psi.store/sync-micros" "The total time of all syncs, in microseconds." => |store| count(store.sync_micros);
        "psi.store/slowest-sync-micros" "The time of the slowest sync, in microseconds." => |store| count(store.slowest_sync_micros);
    }
}

pub(super) const PART: &[Resolver] =
    &[Resolver::one("psi.store/facts", &[], STORE.outputs, |env, _| Ok(STORE.answer(&env.world.store())))];
