//! Several machines on one engine, simulated: the program's own rules for owners, leases and copies, on hosts, an engine
//! and a network that fail in every way that `docs/realm.md` names. A seed determines everything that happens.
//!
//! - `sound_*`: over many seeds no invariant is violated.
//! - `planted_*`: each mistake that is planted is found.
//!
//! `EDN_BRIDGE_SIMULATION_SEEDS` (from:count, or a count) selects more seeds; `make simulate SEEDS=…` sets it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

mod engine;
mod entry;
mod host;
mod mistakes;
mod network;
mod owning;
mod plan;
mod random;
mod search;
mod time;
mod trace;
mod truth;
mod users;
mod world;

use std::time::Instant;

use mistakes::Mistake;
use plan::{Mode, Plan};
use search::{Sum, run_all, shorten};
use world::World;

/// The seeds to run: `usual` many, unless the variable says something else.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let given = std::env::var("EDN_BRIDGE_SIMULATION_SEEDS").unwrap_or_default();
    let number =
        |text: &str| text.parse::<u64>().expect("EDN_BRIDGE_SIMULATION_SEEDS is COUNT or FROM:COUNT");
    match given.split_once(':') {
        Some((from, count)) => number(from)..number(from) + number(count),
        None if given.is_empty() => 0..usual,
        None => 0..number(&given),
    }
}

/// Nothing is violated with rules that are followed.
fn sound(mode: Mode, usual: u64) -> Sum {
    let began = Instant::now();
    let sum = run_all(seeds(usual), mode, None);
    if let Some((plan, violation)) = sum.violation {
        panic!("{}", shorten(plan, violation, None).report(100));
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = sum.steps as f64 / seconds;
    println!("{mode:?}: {} runs, {} steps in {seconds:.1} s, {rate:.0} a second", sum.runs, sum.steps);
    println!("  {}", sum.counts);
    assert_eq!(sum.counts.locked_out, 0, "an earlier run of a host shut a later one out");
    sum
}

#[test]
fn sound_rules_keep_what_a_durable_engine_keeps() {
    let Sum { counts, .. } = sound(Mode::Durable, 60);
    if seeds(60).start == 0 {
        // What is not tried is not shown.
        for (what, count) in [
            ("appends without a row", counts.no_rows),
            ("late appends", counts.late_appends),
            ("doubts that end as saved", counts.found_saved),
            ("decisions made anew", counts.decided_anew),
            ("fenced owners", counts.fenced),
            ("lapses", counts.lapses),
        ] {
            assert!(count > 0, "no {what} in these runs: {counts}");
        }
    }
}

#[test]
fn sound_rules_stop_where_an_engine_is_set_back() {
    let Sum { counts, .. } = sound(Mode::SetBack, 40);
    assert!(counts.said_stopped > 0, "no engine was set back in these runs: {counts}");
}

#[test]
fn same_seed_gives_same_history() {
    for mode in [Mode::Durable, Mode::SetBack] {
        let plan = Plan::new(7, mode);
        let [one, other] = [(); 2].map(|()| World::new(&plan, None, true).run().trace);
        assert!(one.len() > 100 && one == other);
    }
}

/// The simulation finds a mistake within so many seeds. `first` is tried before the others: there it was found when this
/// was written.
fn planted(mistake: Mistake, first: u64) {
    const SEEDS: u64 = 6_000;
    let mode = if mistake.needs_set_back() { Mode::SetBack } else { Mode::Durable };
    let found = run_all(first..first + 1, mode, Some(mistake)).violation;
    let found = found.or_else(|| run_all(seeds(SEEDS), mode, Some(mistake)).violation);
    let (plan, violation) = found.unwrap_or_else(|| panic!("{mistake:?} is not found with {SEEDS} seeds"));
    println!("{mistake:?}\n{}", shorten(plan, violation, Some(mistake)).report(60));
}

macro_rules! planted {
    ($($test:ident: $mistake:ident, $first:literal;)*) => {
        $(#[test]
        fn $test() {
            planted(Mistake::$mistake, $first);
        })*

        #[test]
        fn every_mistake_is_planted() {
            assert_eq!([$(Mistake::$mistake),*], Mistake::ALL);
        }
    };
}

planted! {
    retry_without_settle_is_found: RetryWithoutSettle, 44;
    new_ids_on_retry_are_found: NewIdsOnRetry, 48;
    old_decision_after_settle_is_found: NoNewDecision, 7282;
    hint_as_answer_is_found: HintAsAnswer, 155;
    append_during_settle_is_found: AppendDuringSettle, 0;
    answer_of_old_claim_is_found: AnswerOfOldClaim, 34879;
    lease_from_answer_is_found: LeaseFromAnswer, 697;
    monotonic_lease_is_found: MonotonicLease, 67;
    wall_clock_lease_is_found: WallClockLease, 68;
    tool_in_margin_is_found: ToolInMargin, 23;
    tool_beyond_lease_is_found: NoKillAtEnd, 93;
    claim_over_lapse_is_found: ClaimOverLapse, 699;
    claim_after_doubtful_hand_over_is_found: GoOnAfterHandOver, 2422;
    owner_that_does_not_watch_is_found: OwnerDoesNotWatch, 10;
    decision_before_reading_is_found: DecideBeforeReading, 252;
    call_that_is_run_again_is_found: CallRunAgain, 0;
    copy_over_gap_is_found: CopyOverGap, 0;
    stale_length_is_found: StaleLength, 0;
    write_after_set_back_is_found: WriteAfterSetBack, 1;
    claim_without_epoch_is_found: ClaimWithoutEpoch, 0;
    append_without_fence_is_found: AppendNotFenced, 271;
    place_by_number_is_found: PlaceByNumber, 8;
    claim_of_held_session_is_found: ClaimOfHeld, 7;
    append_in_parts_is_found: AppendInParts, 92;
    acknowledgement_before_sync_is_found: NoSync, 8;
}
