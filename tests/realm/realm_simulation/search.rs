//! Runs many seeds, and makes the history of what one of them finds shorter.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mistakes::Mistake;
use super::plan::{Mode, Plan};
use super::truth::{Counts, Violation};
use super::world::{Outcome, World};

/// What a seed has found.
pub struct Found {
    pub plan: Plan,
    pub violation: Violation,
    pub trace: Vec<String>,
}

pub fn run(plan: &Plan, mistake: Option<Mistake>) -> Outcome {
    World::new(plan, mistake, false).run()
}

/// What many runs came to.
#[derive(Default)]
pub struct Sum {
    pub runs: u64,
    pub steps: u64,
    pub counts: Counts,
    /// The lowest seed at which something is violated.
    pub violation: Option<(Plan, Violation)>,
}

/// Runs seeds on as many threads as there are processors, until one of them finds something.
pub fn run_all(seeds: Range<u64>, mode: Mode, mistake: Option<Mistake>) -> Sum {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let lowest = AtomicU64::new(u64::MAX);
    let work = |thread: u64| {
        let mut sum = Sum::default();
        for seed in (seeds.start + thread..seeds.end).step_by(threads as usize) {
            // A lower seed is still looked at: the same seed is found however many threads there are.
            if seed > lowest.load(Ordering::Relaxed) {
                break;
            }
            let plan = Plan::new(seed, mode);
            let outcome = run(&plan, mistake);
            sum.runs += 1;
            sum.steps += outcome.steps;
            sum.counts.add(&outcome.counts);
            if let Some(violation) = outcome.violation {
                lowest.fetch_min(seed, Ordering::Relaxed);
                sum.violation = Some((plan, violation));
                break;
            }
        }
        sum
    };
    let sums = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<Sum>>()
    });
    sums.into_iter().fold(Sum::default(), Sum::and)
}

impl Sum {
    fn and(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.steps += other.steps;
        self.counts.add(&other.counts);
        let found = [self.violation, other.violation].into_iter().flatten();
        self.violation = found.min_by_key(|(plan, _)| plan.seed);
        self
    }
}

/// A smaller plan that violates the same thing, with what happens in it.
pub fn shorten(plan: Plan, violation: Violation, mistake: Option<Mistake>) -> Found {
    let still = |plan: &Plan| run(plan, mistake).violation.filter(|found| found.kind == violation.kind);
    let mut best = (plan, violation.clone());
    loop {
        let smaller = candidates(&best.0).into_iter().find_map(|plan| Some((still(&plan)?, plan)));
        let Some((violation, plan)) = smaller else { break };
        best = (plan, violation);
    }
    let (plan, violation) = best;
    let trace = World::new(&plan, mistake, true).run().trace;
    Found { plan, violation, trace }
}

/// Plans with less: without some of the faults, without a user, with fewer prompts.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let count = plan.acts.len();
    for size in [count / 2, count / 4, 1] {
        if size == 0 || size > 1 && size * 2 > count {
            continue;
        }
        for from in (0..count).step_by(size) {
            let mut less = plan.clone();
            less.acts.drain(from..(from + size).min(count));
            all.push(less);
        }
    }
    for (user, planned) in plan.users.iter().enumerate().filter(|(_, planned)| planned.prompts > 0) {
        for prompts in [0, planned.prompts / 2, planned.prompts - 1] {
            if prompts < planned.prompts {
                let mut less = plan.clone();
                less.users[user].prompts = prompts;
                all.push(less);
            }
        }
    }
    all
}

impl Found {
    /// What to print: the seed, the plan that is left, the last events before the violation.
    pub fn report(&self, lines: usize) -> String {
        let skipped = self.trace.len().saturating_sub(lines);
        let trace = self.trace[skipped..].join("\n");
        let Violation { kind, at, what } = &self.violation;
        let at = super::time::show(*at);
        let omitted = if skipped > 0 { format!("… {skipped} lines before\n") } else { String::new() };
        format!("{}\n{omitted}{trace}\n{at:>9} VIOLATED {kind:?}: {what}\n", self.plan)
    }
}
