//! Mistakes that the simulation can be told to make, to show that it would find them. None of them is in the program: each
//! is a place in this folder's host or engine that looks at the switch.

/// A mistake. What it is called in a report is its name here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// An append without an answer is sent again at once. If that finds no row, the first one is taken for carried out.
    RetryWithoutSettle,
    /// What is appended again gets other ids.
    NewIdsOnRetry,
    /// After a settle, what was in doubt is sent again as it was, whatever the log says by now.
    NoNewDecision,
    /// While an append is in doubt, a hint that the log is as long as expected counts as its answer.
    HintAsAnswer,
    /// A settle and an append are under way at the same time.
    AppendDuringSettle,
    /// The answer to a call of an earlier claim counts for the claim that the host has now.
    AnswerOfOldClaim,
    /// The lease counts from when its renewal was answered.
    LeaseFromAnswer,
    /// The lease is counted on a clock that stands still while the machine sleeps.
    MonotonicLease,
    /// The lease is counted on the time of day.
    WallClockLease,
    /// A tool is started shortly before the lease is over.
    ToolInMargin,
    /// A tool goes on when the lease is over.
    NoKillAtEnd,
    /// A claim outlives a lease that was over for a while.
    ClaimOverLapse,
    /// After a hand-over without an answer, the owner continues the same claim.
    GoOnAfterHandOver,
    /// The owner looks at its own session only when it appends.
    OwnerDoesNotWatch,
    /// A new owner begins before it has read up to the place of its claim.
    DecideBeforeReading,
    /// A new owner runs a tool again whose call has no result.
    CallRunAgain,
    /// A copy takes in what comes without looking at the numbers.
    CopyOverGap,
    /// The answer to a read that began earlier counts as the log's newest length.
    StaleLength,
    /// An owner or a copy whose log was set back goes on from where the log ends now.
    WriteAfterSetBack,
    /// Engine: a claim does not raise the epoch.
    ClaimWithoutEpoch,
    /// Engine: an append is not held against the claim.
    AppendNotFenced,
    /// Engine: a place in the log is compared by its number, not by the id of its entry.
    PlaceByNumber,
    /// Engine: a claim is not held against the owner's lease.
    ClaimOfHeld,
    /// Engine: an append is carried out in parts.
    AppendInParts,
    /// Engine: what is acknowledged is not on the disk yet, so that a kill loses it.
    NoSync,
}

impl Mistake {
    pub const ALL: [Self; 25] = [
        Self::RetryWithoutSettle,
        Self::NewIdsOnRetry,
        Self::NoNewDecision,
        Self::HintAsAnswer,
        Self::AppendDuringSettle,
        Self::AnswerOfOldClaim,
        Self::LeaseFromAnswer,
        Self::MonotonicLease,
        Self::WallClockLease,
        Self::ToolInMargin,
        Self::NoKillAtEnd,
        Self::ClaimOverLapse,
        Self::GoOnAfterHandOver,
        Self::OwnerDoesNotWatch,
        Self::DecideBeforeReading,
        Self::CallRunAgain,
        Self::CopyOverGap,
        Self::StaleLength,
        Self::WriteAfterSetBack,
        Self::ClaimWithoutEpoch,
        Self::AppendNotFenced,
        Self::PlaceByNumber,
        Self::ClaimOfHeld,
        Self::AppendInParts,
        Self::NoSync,
    ];

    /// Whether only an engine that is set back shows it.
    pub fn needs_set_back(self) -> bool {
        matches!(self, Self::WriteAfterSetBack | Self::PlaceByNumber)
    }
}
