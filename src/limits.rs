//! Every bound of the program, with the reason for each number.
//!
//! Knows nothing else of the house: plain numbers, so that a reader can see in one place how much
//! the process may hold, and a test can show that each bound is kept.

/// Longest line, in bytes without its line feed, that the wire takes (16 MiB). From the wire
/// contract: large enough for a pasted image, small enough to be held whole.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Deepest nesting of collections, tags and discards in one form. From the wire contract.
pub const MAX_DEPTH: usize = 256;

/// Longest `:id` of a request, in bytes. An id is held and echoed for as long as its request is
/// pending; a name that a program makes up is never longer.
pub const MAX_ID_BYTES: usize = 4096;

/// Most requests of one connection that may be unanswered. From the wire contract.
pub const MAX_PENDING: usize = 256;

/// Bytes of encoded frames that an outbox gathers before further events wait, unencoded, to be merged.
/// One pipe buffer of Linux: more would only age there.
pub const OUTBOX_READY_BYTES: usize = 64 * 1024;

/// Events that wait unencoded in an outbox before those who make them wait too. A second's worth of
/// a fast turn, far more than a healthy client is ever behind.
pub const OUTBOX_EVENTS: usize = 4096;

/// Bytes of text that wait in an outbox before those who make it wait too (8 MiB): half the longest
/// line, so that a merged delta always fits in one.
pub const OUTBOX_TEXT_BYTES: usize = 8 * 1024 * 1024;

/// Events waiting in an outbox from which on adjacent deltas are merged. Below it the client keeps up
/// and sees each delta as it came.
pub const OUTBOX_MERGE_FROM: usize = 64;

/// Messages that a session's mailbox holds. Senders are the connections' pending requests and the
/// session's own turn.
pub const MAILBOX: usize = 1024;

/// Messages that `session/rehydrated` and `get_messages` without `:limit` carry: some screens full.
pub const PAGE_MESSAGES: usize = 200;

/// Most messages that one `get_messages` carries.
pub const MAX_PAGE_MESSAGES: usize = 10_000;

/// Longest answer of a model, in bytes of text (8 MiB): what fits into one frame with room for escapes.
pub const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of a kept output that one `read_output` answers with (1 MiB).
pub const OUTPUT_PART_BYTES: usize = 1024 * 1024;
