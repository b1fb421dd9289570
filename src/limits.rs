//! Every bound of the program, with the reason for each number.
//!
//! Plain numbers in one place, so that a reader sees how much the process may use, and a test can check each bound.
//! Knows no room but the codec's bounds.

use std::time::Duration;

/// The longest line on the wire, in bytes without its line feed (16 MiB). From the wire contract: the codec reads
/// as much at once, so every accepted line can be read.
pub const MAX_LINE_BYTES: usize = crate::edn::limits::MAX_BYTES;

/// Deepest nesting of collections, tags and discards in one form. From the wire contract, and the codec's.
pub use crate::edn::limits::MAX_DEPTH;

/// Threads that run the tasks of an executor, which never block.
pub const EXECUTOR_THREADS: usize = 2;

/// How long the start of an executor may take, which takes a millisecond where the system gives threads.
pub const EXECUTOR_WAIT: Duration = Duration::from_secs(10);

/// Threads of an executor for work that blocks, which are there before the system can refuse them. Not one, because a tool
/// may wait for an editor meanwhile.
pub const BLOCKING_THREADS: usize = 3;

/// How long a thread for work that blocks stays without any.
pub const BLOCKING_THREAD_KEPT: Duration = Duration::from_secs(60);

/// The longest `:id` of a request, in bytes. The id is kept while its request is pending, and sent back. A program
/// that generates ids never needs more.
pub const MAX_ID_BYTES: usize = 4096;

/// Unanswered requests per connection. From the wire contract.
pub const MAX_PENDING: usize = 256;

/// Bytes of encoded frames that an outbox collects. Further events stay unencoded, so that they can be merged. One
/// pipe buffer of Linux: more would only grow old there.
pub const OUTBOX_READY_BYTES: usize = 64 * 1024;

/// Unencoded events in an outbox before their producers wait. A fast turn makes as many in a second; a healthy
/// client is never that far behind.
pub const OUTBOX_EVENTS: usize = 4096;

/// Entries of a replay between two looks at what else there is to do, and those that may be sent while the session's
/// events wait: an eighth of an outbox, some milliseconds of work.
pub const REPLAY_PAGE: usize = 512;

/// Bytes of text in an outbox before its producers wait (8 MiB): half the longest line, so that a merged delta fits
/// into one.
pub const OUTBOX_TEXT_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of answers and events in an outbox before the connection reads no further request (32 MiB): two of the
/// longest lines, so that a client that pipelines large answers never causes more.
pub const OUTBOX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of answers that the reading thread collects within a batch before it writes them: half a pipe buffer of
/// Linux, so that the client reads the first half while the second is produced.
pub const OUTBOX_FLUSH_BYTES: usize = 32 * 1024;

/// Events that a client with `flow-credit` receives beyond the last one that it has reported as shown: some screens
/// full, and four times the batch after which the Emacs package reports.
pub const FLOW_WINDOW_EVENTS: u64 = 256;

/// The longest configurable wait of a question without a client (one day): a person returns on the same day or
/// starts again.
pub const ORPHAN_GRACE_MAX_MS: u64 = 86_400_000;

/// Waiting events from which on adjacent deltas are merged. Below it the client keeps up and receives each delta as
/// it was.
pub const OUTBOX_MERGE_FROM: usize = 64;

/// How long a turn waits for a client with a full outbox while other clients have room. Then that client is marked
/// as behind, and receives the session anew later. A healthy client reads a full outbox much faster; the person at
/// another client hardly notices the wait.
pub const SLOW_CLIENT: Duration = Duration::from_secs(1);

/// How long a turn in a daemon waits for a client that has stopped reading while nobody else is there. The turn is to go on
/// when an editor's machine sleeps; a reader that is only slow has room again by then.
pub const SLEEPING_CLIENT: Duration = Duration::from_secs(10);

/// Bytes of unfinished lines that all clients of the socket together may have sent (64 MiB): four of the longest
/// lines at once. A line that would exceed it is refused.
pub const UNFINISHED_BYTES: usize = 4 * MAX_LINE_BYTES;

/// How often a connection that has paused reading checks whether its client has closed its side.
pub const CROWDED_LOOK: Duration = Duration::from_millis(250);

/// How long a client that has closed its side may read nothing, or less than [`OUTBOX_READY_BYTES`].
pub const STALLED: Duration = Duration::from_secs(10);

/// Milliseconds between two diagnostics about merged and replaced events. A report of slowness must not cause more
/// of it, and a person reads no faster.
pub const COALESCED_PAUSE_MS: i64 = 1000;

/// Live sessions in one process before idle ones without a client are unloaded, least recently used first: the goal
/// for one process, with some room.
pub const LIVE_SESSIONS: usize = 1024;

/// Live sessions in one process, including busy and watched ones.
pub const MAX_LIVE_SESSIONS: usize = 2048;

/// Live sessions that one `context/updated` lists, besides those that clients show. It is sent several times a turn; a
/// person looks at a screen of them, and `list_sessions` has all.
pub const CONTEXT_SESSIONS: usize = 50;

/// Delay between work and the look at the heap for pages to return to the system: one look covers all work in between,
/// because it locks the whole heap.
pub const GIVE_BACK_AFTER: Duration = Duration::from_secs(1);

/// Newly free bytes of the heap from which their pages are returned: fewer are soon used again.
pub const GIVE_BACK_BYTES: usize = 1024 * 1024;

/// Open files of one process, if the system permits: those of the maximum of live sessions, and as many again for
/// connections, commands and servers.
pub const DESCRIPTORS: u64 = 8192;

/// Open files of a live session after its first message: its journal and its lock.
pub const SESSION_DESCRIPTORS: u64 = 2;

/// Sessions that are asked at once to release their files when none is free.
pub const LET_GO: usize = 4;

/// How long the first of them is awaited. All of them may be waiting for a descriptor themselves.
pub const LET_GO_WAIT: Duration = Duration::from_millis(1000);

/// Attempts after a session has released its files: a new connection may have taken the free ones.
pub const LET_GO_TRIES: usize = 4;

/// Messages in a session's mailbox. The senders are the pending requests of its connections and its own turn.
pub const MAILBOX: usize = 1024;

/// Messages in `session/rehydrated`, and in `get_messages` without `:limit`: some screens full.
pub const PAGE_MESSAGES: usize = 200;

/// Messages in one `get_messages`.
pub const MAX_PAGE_MESSAGES: usize = 10_000;

/// The longest answer of a model, in bytes of text (4 MiB): `assistant/message` contains it twice, as blocks and as
/// text, and must fit into one frame with room for escapes.
pub const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a stored output in one answer of `read_output` (1 MiB).
pub const OUTPUT_PART_BYTES: usize = 1024 * 1024;
/// The window of the embedded model, in tokens, as in its training. A larger one would only need memory (about 23
/// KB per token).
pub const EMBEDDED_WINDOW_TOKENS: u32 = 8_192;

/// The longest answer of the embedded model, in tokens, unless the caller sets another. A model of this size says
/// nothing new after that, and two cores need half a minute for it.
pub const EMBEDDED_OUTPUT_TOKENS: u32 = 2_048;

/// Prompt tokens per step of the embedded model. A cancelled call stops at the next step, after a quarter of a
/// second on two cores; smaller steps slow down long prompts.
pub const EMBEDDED_STEP_TOKENS: u32 = 128;

/// Threads of the embedded model. A small model gains nothing from more, and an editor runs on the same machine.
pub const EMBEDDED_THREADS: usize = 8;

/// Samples of the machine's load before the embedded model chooses its threads. The median counts, so that a
/// short-lived process does not.
pub const EMBEDDED_LOAD_LOOKS: usize = 5;

/// Pause between two of those samples.
pub const EMBEDDED_LOAD_PAUSE: Duration = Duration::from_millis(2);

/// Tokens over which the embedded model's pace is measured.
pub const EMBEDDED_PACE_TOKENS: u32 = 8;

/// How many times slower than its best pace the embedded model may become before it looks for free processors
/// again.
pub const EMBEDDED_PACE_DROP: u32 = 3;

/// Waiting calls of the embedded model. Further ones are refused as retryable.
pub const EMBEDDED_QUEUE: usize = 64;

/// Pieces of an answer that wait for a slow reader: a whole window, so that a pause of one reader never delays
/// another. A piece has a few bytes.
pub const EMBEDDED_PIECES: usize = 8_192;

/// Bytes of prompt per token of the window. A longer prompt cannot fit and is refused before it is tokenized,
/// because no vocabulary has a token of that length.
pub const EMBEDDED_BYTES_PER_TOKEN: usize = 256;

/// How long the unused embedded model stays in memory (five minutes). To load it again takes less than a second.
pub const EMBEDDED_IDLE: Duration = Duration::from_secs(300);

/// Bytes per read while a model file is copied and verified (1 MiB).
pub const FETCH_COPY_BYTES: usize = 1024 * 1024;

/// Pause between two progress reports of a download: smooth to the eye, no load.
pub const FETCH_PROGRESS_PAUSE: Duration = Duration::from_millis(200);

/// Depth to which the size of a download's folder is measured. pip nests three.
pub const FETCH_FOLDER_DEPTH: u32 = 6;

/// The largest script of the scripted provider, in bytes (16 MiB, as a line on the wire).
pub const SCRIPT_BYTES: u64 = 16 * 1024 * 1024;

/// Deltas in one step of a script: enough for a load test of a minute.
pub const SCRIPT_DELTAS: u64 = 100_000_000;

/// The longest pause in one step of a script, in milliseconds (one hour).
pub const SCRIPT_SLEEP_MS: u64 = 3_600_000;

/// Chunks that the scripted provider yields before it lets other tasks run.
pub const SCRIPT_BURST: u32 = 256;

/// Appends that wait for the writing thread: two batches. Each one delays a request or a turn, so a busy session
/// rarely has two. The queue is allocated as a whole, so a larger one would slow down the start.
pub const COMMIT_QUEUE: usize = 1024;

/// Appends that are written and synced together. More would only delay the first one.
pub const COMMIT_BATCH: usize = 512;

/// Interval at which relaxed durability syncs acknowledged entries: a power failure loses no more than that.
pub const RELAXED_SYNC: Duration = Duration::from_secs(1);

/// The largest journal that is opened (4 GiB). A year of the busiest session is far smaller. Reading takes the
/// file's size in memory.
pub const JOURNAL_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// The longest line of a journal that is written: reading takes [`MAX_LINE_BYTES`], and a message has to fit into an
/// event as well, with an envelope (256 KiB) around it.
pub const JOURNAL_LINE_BYTES: usize = MAX_LINE_BYTES - 256 * 1024;

/// How much shorter the line of a queued message must be (64 KiB): delivered, it has further keys.
pub const QUEUED_LINE_ROOM: usize = 64 * 1024;

/// The longest text of a message that an event has a second time, as one string (1 MiB).
pub const EVENT_TEXT_BYTES: usize = 1024 * 1024;

/// The part of a journal that is read at a time to see whether somebody has written over it (1 MiB).
pub const JOURNAL_CHECK_BYTES: u64 = 1024 * 1024;

/// Bytes per write of a fork (1 MiB).
pub const FORK_PART_BYTES: usize = 1024 * 1024;

/// Threads that read one journal. More would only wait for memory.
pub const READING_THREADS: usize = 4;

/// Bytes of lines that are worth another thread (256 KiB, about a millisecond).
pub const READING_PART_BYTES: usize = 256 * 1024;

/// Bytes at either end of a journal that a listing reads (16 KiB): the header, the first exchange, the last message
/// and the name.
pub const LISTING_BYTES: u64 = 16 * 1024;

/// Characters of a first message in a listing.
pub const LISTING_TEXT: usize = 200;

/// Characters of a session's name: a line on a screen.
pub const NAME_CHARS: usize = 200;

/// The longest search text, in bytes: a person types less. Each word is one lookup in the index.
pub const SEARCH_QUERY_BYTES: usize = 1024;

/// Sessions in one search result.
pub const SEARCH_HITS: usize = 200;

/// Bytes of journals that one search checks for faults, those of the best hits first (16 MiB): a tenth of a second. The
/// others tell theirs when they are opened.
pub const SEARCH_CHECK_BYTES: u64 = 16 * 1024 * 1024;

/// Faults of one journal that are told when it is opened or found; `edn-bridge sessions verify` has all.
pub const TOLD_FAULTS: usize = 50;

/// Searched bytes of one message (256 KiB). A longer text is a tool's output.
pub const SEARCH_TEXT_BYTES: usize = 256 * 1024;

/// Bytes of messages on one page, from its second message on (1 MiB): what a frontend draws at once, and far less
/// than the longest line.
pub const PAGE_BYTES: usize = 1024 * 1024;

/// Bytes of messages on a page with a `:limit` (8 MiB): half the longest line.
pub const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// The longest note, in bytes (16 KiB). A prompt contains it whole or not at all.
pub const NOTE_BYTES: usize = 16 * 1024;

/// Notes per project. A search reads all of them.
pub const NOTES: usize = 10_000;

/// The largest file of notes that is read (256 MiB): the maximum of notes, and the removed ones.
pub const NOTES_BYTES: u64 = 256 * 1024 * 1024;

/// Bytes of notes in a system prompt (8 KiB, about 2,000 tokens).
pub const PROMPT_NOTES_BYTES: usize = 8 * 1024;

/// Tokens of a model's window per byte of notes: notes take a fortieth of the window.
pub const PROMPT_NOTES_SHARE: u64 = 10;

/// Keys of requests that a session knows. None that is younger than its window is forgotten: the next request
/// with a key is refused for then. A key with its answer takes some 300 bytes.
pub const IDEMPOTENCY_KEYS: usize = 4096;

/// The window in which a request's key is known, in milliseconds (10 minutes).
pub const IDEMPOTENCY_WINDOW_MS: u64 = 10 * 60 * 1000;

/// The size in bytes of a text from which senders warn (64 KiB, as the document says).
pub const CONTROL_SOFT_BYTES: u64 = 64 * 1024;

/// The largest text in a control request, in bytes, unless it is in a file (1 MiB, as the document says).
pub const CONTROL_TEXT_BYTES: u64 = 1024 * 1024;

/// The greatest value of that limit that can be configured (4 MiB): half of a line.
pub const CONTROL_TEXT_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The largest file with a text for a session (8 MiB): half of a line of the EDN wire, which shows it.
pub const CONTROL_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The oldest control request that is taken, in milliseconds, unless configured.
pub const CONTROL_AGE_MS: u64 = 300_000;

/// How far in the future the time of a control request may be, in milliseconds, unless configured.
pub const CONTROL_SKEW_MS: u64 = 60_000;

/// How long a session has for an acknowledgement, in milliseconds, unless configured (2 s, as the document says).
pub const CONTROL_ACK_MS: u64 = 2_000;

/// Refused control requests that are written into the audit in one second; more are counted.
pub const CONTROL_AUDIT_REFUSALS: u64 = 100;

/// Control requests that wait to be written into the audit, and that are written together at most.
pub const CONTROL_AUDIT_WAITING: usize = 1024;

/// How long the end of the process waits for the audit of control requests: a batch takes some 10 ms, on a slow disk a
/// second.
pub const CONTROL_AUDIT_DRAIN: Duration = Duration::from_secs(3);

/// The longest key of a request, and the longest name in a control request, in bytes.
pub const CONTROL_ID_BYTES: usize = 256;

/// The pause before a control request is sent again.
pub const CONTROL_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The longest answer to a control request that the program's sender reads, in bytes (1 MiB): many times the longest.
pub const CONTROL_ANSWER_BYTES: usize = 1024 * 1024;

/// How many stored sessions are read at once for control requests. Each may take the memory of a long line.
pub const CONTROL_STORED_READS: usize = 4;

/// How long a file with the text of a control request stays that was never acknowledged, in milliseconds (2 hours):
/// longer than any request may be old.
pub const CONTROL_PARKED_MS: i64 = 2 * 3_600_000;

/// How long a program waits for a place in the queue of another one's socket. A healthy process takes connections in
/// microseconds.
pub const CONNECT_WAIT: Duration = Duration::from_secs(1);

/// The longest line on the control wire, in bytes (8 MiB): a text of the usual bound in its longest spelling, where each
/// byte takes six, and its envelope.
pub const CONTROL_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Connections of the control wire. Senders connect for one request; each connection takes a thread.
pub const CONTROL_CONNECTIONS: usize = 64;

/// How long a connection of the control wire may take for a line, including silence before it.
pub const CONTROL_SILENCE: Duration = Duration::from_secs(60);

/// How much longer than a session may take for an acknowledgement the control wire waits for it. Then the wire itself
/// acknowledges with a timeout, so that no request stays without an answer.
pub const CONTROL_GRACE: Duration = Duration::from_secs(1);

/// Values in one line of a client. The longest real requests have some hundreds: a prompt of megabytes, an image
/// and a query are one string each. A value takes 24 bytes plus its content, so a line takes at most its own length
/// and some 10 MB.
pub const MAX_FRAME_VALUES: usize = 100_000;

/// Deepest nesting of arrays and objects in a line of JSON. Real messages nest four levels.
pub const JSON_DEPTH: usize = 64;

/// Digits in a row in a number of JSON. A float that is written out in full has some fifty.
pub const JSON_DIGITS: usize = 64;

/// The longest id of a request on a wire of JSON-RPC, in bytes. It is kept while its request is pending, and sent back.
pub const RPC_ID_BYTES: usize = 256;

/// The longest line on the UI wire, in bytes (32 MiB): three images of 5 MiB in base64, which its interfaces allow,
/// are 21 MiB.
pub const UI_LINE_BYTES: usize = 32 * 1024 * 1024;

/// The longest line on the ACP wire, in bytes (32 MiB): as on the UI wire, a prompt may have several images.
pub const ACP_LINE_BYTES: usize = UI_LINE_BYTES;

/// Parts of one prompt on the ACP wire. An editor sends some ten.
pub const ACP_PARTS: usize = 1000;

/// Tool calls without a result, and replayed entries, that the ACP wire knows of a session. A turn has some hundred.
pub const ACP_KNOWN_ENTRIES: usize = 100_000;

/// Sessions that one connection of the ACP wire may have open: as many clients as an engine takes in all.
pub const ACP_SESSIONS: usize = 64;

/// Further folders of a session. An editor's workspace has some five; each is a rule of the kernel's for every command.
pub const SESSION_ROOTS: usize = 32;

/// Sessions in one answer to `session/list`.
pub const ACP_LISTED: usize = 50;

/// How many sessions may stand above a subagent, for the place of its questions: more than subagents may nest.
pub const ACP_DEPTH: usize = 16;

/// Ended runs of which a connection of the UI wire knows how they ended. An interface cancels only its newest.
pub const UI_KEPT_RUNS: usize = 64;

/// How long a command of `shell.exec` may take whose request says nothing, in seconds. From the protocol.
pub const UI_SHELL_SECONDS: u64 = 120;

/// How long such a command may take at most, in seconds. From the protocol.
pub const UI_SHELL_MAX_SECONDS: u64 = 300;

/// Messages and results of one run that the UI wire knows to have told. A run has at most some hundred.
pub const UI_TOLD_ENTRIES: usize = 4096;

/// Sessions in a list of the UI wire whose request says no number. From the protocol.
pub const UI_SESSIONS: usize = 50;

/// Runs of a replayed history whose request says no number. From the protocol.
pub const UI_HISTORY_RUNS: usize = 20;

/// Events of a replayed history whose request says no number. From the protocol.
pub const UI_HISTORY_EVENTS: usize = 1500;

/// Bytes of a replayed history beyond its newest run (8 MiB): more than a terminal keeps.
pub const UI_HISTORY_BYTES: usize = 8 * 1024 * 1024;

/// The longest EQL query, in bytes (256 KiB). Real ones have a few KiB.
pub const MAX_QUERY_BYTES: usize = 256 * 1024;

/// The deepest nesting of joins in a query, including recursion. Deeper data needs several queries.
pub const MAX_QUERY_DEPTH: usize = 64;

/// Steps of one query: each requested value, each entity that a join makes, and each 256 bytes that are copied. The
/// largest real answers have some hundred thousand values.
pub const MAX_QUERY_VALUES: usize = 2_000_000;

/// Memory for all that one query holds (64 MiB): four of the longest lines, because a value is larger in memory than
/// on the wire.
pub const QUERY_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Memory for all that all queries hold together (256 MiB): four of the largest at once.
pub const QUERIES_BYTES: usize = 4 * QUERY_BYTES;

/// Entities of a join that are answered at once. Enough for resolvers that take lists, and some MB of entities.
pub const QUERY_PART: usize = 4_096;

/// Entities that a resolver of lists gets before it is known how large one of its answers is (each at most some 100 KB).
pub const QUERY_FIRST_BATCH: usize = 64;

/// Time limit of one query, in milliseconds. A frontend that queries on every keystroke gives up much earlier.
pub const QUERY_MILLIS: u64 = 5_000;

/// Cached parsed queries with their plans. A frontend has some dozens.
pub const QUERY_CACHE: usize = 256;

/// The longest cached query, in bytes (8 KiB).
pub const QUERY_CACHE_BYTES: usize = 8 * 1024;

/// Cached plans per level of a query: one per kind of entity.
pub const QUERY_PLANS: usize = 16;

/// Entries under `:missing` and `:errors` of one answer: enough to see the cause.
pub const QUERY_FAILURES: usize = 256;

/// Sessions on disk in a query without `:limit`.
pub const QUERY_SESSIONS: usize = 10_000;

/// Audit records in a query without `:limit`: some screens full.
pub const AUDIT_RECORDS: usize = 100;

/// Characters of a client's name in an audit record: enough for any real name, but no line of a megabyte.
pub const AUDIT_NAME_CHARS: usize = 100;

/// Characters of what was asked for in an audit record: a command or a path is known again by them.
pub const AUDIT_REQUEST_CHARS: usize = 200;

/// Records in one answer of `list_audit`. A record has some hundred bytes, so that such an answer stays far below a line.
pub const AUDIT_PAGE: usize = 500;

/// Things in one answer of `trust_preview`: more than a person reads, and far below a line's values.
pub const TRUST_RUNS: usize = 1_000;

/// Characters of one of them. The file itself shows the rest.
pub const PREVIEW_TEXT_CHARS: usize = 1_000;

/// Bytes at the end of the audit file that a query reads (4 MiB): some ten thousand records.
pub const AUDIT_READ_BYTES: u64 = 4 * 1024 * 1024;

/// Time within which a second signal to end is the same request: a closing terminal sends one, and so does its
/// shell.
pub const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Time after a question was drawn in which what is typed was not meant for it: nobody reads and answers so fast.
pub const QUESTION_SETTLES: Duration = Duration::from_millis(500);

/// Bytes that may be typed ahead at a terminal (64 KiB), which itself keeps at most 4 KiB of a line. Further ones are lost.
pub const TYPED_BYTES: usize = 64 * 1024;

/// Log lines that wait for the reader of standard error. Further ones are counted and dropped.
pub const LOG_LINES: usize = 1024;

/// How long the end of the program waits until the log is read.
pub const LOG_END_WAIT: Duration = Duration::from_millis(200);

/// Pause before the next connection when descriptors or threads are exhausted, so that others can end.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a line of the daemon's socket. One has the whole environment of a client, of which Linux allows a process
/// some 2 MiB.
pub const DAEMON_LINE_BYTES: usize = 3 << 20;

/// Bytes of a line of the daemon's socket that may be read while others are: those of usual clients have some 10 KB. Of
/// longer ones, whose values may take a hundred times their bytes, one is read at a time.
pub const DAEMON_SHORT_LINE_BYTES: usize = 64 * 1024;

/// Bytes of the variables of waiting messages that a session takes along to another daemon: they stand in a line with
/// those of its turn. An environment has some 10 KB, and messages of one client share one.
pub const HANDED_WAITING_BYTES: usize = 512 * 1024;

/// How long a command waits for the socket of a daemon that holds its lock: the daemon looks each second whether it stands.
pub const DAEMON_BINDS_AGAIN: Duration = Duration::from_secs(3);

/// How long the start of a daemon may take, and the wait for another program that starts it.
pub const DAEMON_START: Duration = Duration::from_secs(10);

/// How long replaced daemons may take to answer what a person asks, all together. An answer takes milliseconds; one that
/// takes longer than this on a busy machine is asked again by the person.
pub const REPLACED_ANSWER: Duration = Duration::from_secs(3);

/// Replaced daemons that are asked at the same time. There are seldom two; anything may listen under such a name.
pub const REPLACED_AT_ONCE: usize = 32;

/// How long the end of a daemon is waited for: its engines end at the same time, each within some ten seconds.
pub const DAEMON_END: Duration = Duration::from_secs(30);

/// How long a client of the daemon's socket may take to say what it wants.
pub const DAEMON_ASK: Duration = Duration::from_secs(5);

/// Sessions that a killed daemon leaves and the next one opens by itself. One has that many questions open at most.
pub const LEFT_AT_WORK: usize = OPEN_QUESTIONS;

/// How many times in a row a daemon may be killed while a session works that the next one opens by itself: what that
/// session does may be what ends it.
pub const KILLS_AT_WORK: u32 = 2;

/// The keys of a provider that are remembered from its command: one for each environment, of the newest clients.
pub const OBTAINED_KEYS: usize = 8;

/// Clients of the daemon's socket that are listened to at the same time. Editors that are served do not count, but those
/// that wait for the start of their engine do: a person may open many at once. Their lines are bounded together
/// ([`UNFINISHED_BYTES`]), so that each takes a thread and little more.
pub const DAEMON_ASKING: usize = 256;

/// How long a daemon stays without a client and without work.
pub const DAEMON_IDLE: Duration = Duration::from_secs(10 * 60);

/// Bytes of the daemon's log at which the next daemon begins a new one.
pub const DAEMON_LOG_BYTES: u64 = 1 << 20;

/// Bytes of a client's name, and of its version, in the graph: a client may send a line of any length.
pub const CLIENT_NAME_BYTES: usize = 128;

/// Sessions in a list without `:limit`: some 300 KB, more than a person reads.
pub const LISTED_SESSIONS: usize = 1_000;

/// Clients of one process's socket, in addition to the editor. Each takes two threads; the goal is two hundred.
pub const MAX_CONNECTIONS: usize = 256;

/// How long a connection of a socket may be there without a handshake. A client sends it at once; silent connections would
/// take all places.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Inputs in the history file of the REPL.
pub const REPL_HISTORY: usize = 2_000;

/// Events that wait for the terminal of the REPL. Further ones are dropped.
pub const REPL_EVENTS: usize = 1_024;

/// How long a command waits until a bridge that it finds shakes hands and says what it has open. A loaded one needs
/// seconds; one that is stopped must not stop the command.
pub const BRIDGE_PATIENCE: Duration = Duration::from_secs(10);

/// How long `top` waits for a bridge's answer, beyond the pause between two looks or [`TOP_PAUSE`]. A stopped process must
/// not stop the view.
pub const TOP_PATIENCE: Duration = Duration::from_secs(3);

/// The longest pause between two looks that a connection of `top` outlives; after a longer one, it is opened anew.
pub const TOP_PAUSE: Duration = Duration::from_secs(5);

/// The largest file of configuration, rules or trusted folders (1 MiB). Real ones have a few KB.
pub const CONFIG_BYTES: u64 = 1024 * 1024;

/// Words of a rule's command. Real ones have two or three.
pub const RULE_WORDS: usize = 8;

/// Bytes of a command that are looked through for the words of rules (64 KiB). A longer one is opaque: a person may see
/// it, and no rule allows it.
pub const SHELL_BYTES: usize = 64 * 1024;

/// Steps of judging one call by all rules: some 50 ms. A thousand rules and a command of kilobytes need a hundredth.
pub const RULE_STEPS: usize = 16_000_000;

/// Lists of compiled globs that are kept: those of the rules of a few projects.
pub const GLOB_LISTS: usize = 16;

/// Rules in one file. Every call is matched against each.
pub const RULES: usize = 1000;

/// Bytes that are read of a repository's `HEAD` and of a file that names the repository.
pub const GIT_FILE_BYTES: u64 = 4 * 1024;

/// Bytes of a repository's `packed-refs` that are read. A branch beyond them shows no commit.
pub const GIT_REFS_BYTES: u64 = 1024 * 1024;

/// Bytes of a path that is looked up, as in Linux.
pub const PATH_BYTES: usize = 4096;

/// Bytes of a name for which similar ones are looked for.
pub const SIMILAR_NAME_BYTES: usize = 256;

/// Symbolic links in one path, as in Linux.
pub const PATH_LINKS: usize = 40;

/// Bytes of a tool's output in its result, for the person and the model (48 KiB, about 12,000 tokens). The rest is
/// stored under a handle.
pub const TOOL_RESULT_BYTES: usize = 48 * 1024;

/// Bytes of all results of one round where the model's window is not known, and at most: eight results that are as long as they
/// may be, some 96,000 tokens. A known window gives a quarter of it.
pub const ROUND_RESULT_BYTES: usize = 8 * TOOL_RESULT_BYTES;

/// Bytes that each result of a round may have, however many there are: enough to say what came, and where the rest is.
pub const ROUND_RESULT_SHARE_BYTES: usize = 1024;

/// Characters of the line of a command's output that can still be redrawn: more than any terminal is wide. What stands further
/// before the end of a longer line stays as it is.
pub const TERMINAL_LINE_CHARS: usize = 4096;

/// Bytes of a control sequence's parameters that are looked at. Those with an effect on text have one number.
pub const TERMINAL_SEQUENCE_BYTES: usize = 64;

/// Bytes of a running tool's output in a `tool/update`. From the wire contract.
pub const TOOL_EXCERPT_BYTES: usize = 8 * 1024;

/// Pause between two `tool/update` of one call: ten per second, from the wire contract.
pub const TOOL_UPDATE_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of one output on disk (256 MiB). More comes from a runaway command and would fill the disk.
pub const KEPT_OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// Bytes per read of a command's output: one pipe buffer.
pub const PROCESS_READ_BYTES: usize = 64 * 1024;

/// How long an ended command may take to exit by itself.
pub const PROCESS_GRACE: Duration = Duration::from_millis(300);

/// How often a runner looks at the clock while its program has a deadline: the timer stands still while the machine sleeps.
pub const RUNNER_LOOK: Duration = Duration::from_millis(250);

/// How long a runner kills its descendants, which may start others meanwhile or belong to another user.
pub const RUNNER_PATIENCE: Duration = Duration::from_secs(2);

/// How long a runner kills what comes new to it before it looks through all processes again.
pub const RUNNER_ROUND: Duration = Duration::from_millis(20);

/// Pause where nothing new has come: a killed process takes a moment to exit.
pub const RUNNER_PAUSE: Duration = Duration::from_millis(2);

/// Entries of a folder that a sandbox lists one by one, because commands may not access one of them. Further
/// entries are inaccessible too.
pub const SANDBOX_ENTRIES: usize = 4096;

/// Ancestors of a process that are checked. Few processes have more than twenty.
pub const LINEAGE_DEPTH: usize = 4096;

/// Repetitions of that check when an ancestor ends meanwhile.
pub const LINEAGE_LOOKS: usize = 8;

/// Default time-out of a command of the model, in seconds.
pub const BASH_SECONDS: u64 = 120;

/// The longest time-out of a command, in seconds (one hour). Longer work runs in the background.
pub const BASH_MAX_SECONDS: u64 = 3600;

/// How far into a file `read` looks for a line, in bytes (256 MiB). A file of nothing but a hole can have terabytes.
pub const READ_BYTES: u64 = 256 * 1024 * 1024;

/// The largest file that tools read or change as a whole, in bytes (16 MiB).
pub const TOOL_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of a file before or after a change that a person can edit in its question (4 MiB). An open question holds both.
pub const PROPOSAL_BYTES: usize = 4 * 1024 * 1024;

/// Files of which a session notes the text that its model was shown last (10,000). Beyond it all are forgotten, and are
/// read again before they are replaced.
pub const KNOWN_TEXTS: usize = 10_000;

/// Bytes of changed files that editors are sent after one call (64 MiB). The others follow after the next call.
pub const FOLLOW_BYTES: usize = 64 * 1024 * 1024;

/// Replacements in one `edit`. A program should make a change of more places; each one takes two scans of the file.
pub const EDITS: usize = 1000;

/// Nesting of the arguments of a call that is compared with their schema. No tool has deeper ones.
pub const ARGUMENT_DEPTH: usize = 16;

/// Bytes of a call's arguments that a refusal quotes: from their start and from their end.
pub const QUOTED_ARGUMENTS: (usize, usize) = (200, 100);

/// Lines of the places of an old text, or of edits, that a result names (10). More say no more to a model.
pub const EDIT_LINES_SHOWN: usize = 10;

/// Lines of a file that the result of an edit shows: those that are nearest to an old text, or new ones of a looser match.
pub const NEAR_LINES: usize = 12;

/// Places of a file that are compared, character by character, with an old text that has no place.
pub const NEAR_PLACES: usize = 12;

/// Files of a project that are looked through for the name of one that does not exist: some tenths of a second.
pub const NEAR_FILES: usize = 20_000;

/// Places of one line that vote for where an old text would stand. Of a line that stands oftener each says little.
pub const NEAR_TIMES: usize = 200;

/// Characters of a text that are compared with an old text. Its nearest lines are known from fewer.
pub const NEAR_CHARS: usize = 4_000;

/// Bytes of a file from which its encoding is guessed (64 KiB): some pages of text.
pub const GUESS_BYTES: usize = 64 * 1024;

/// Attempts of an `edit` when somebody else changes the file between its reading and its replacement.
pub const EDIT_ATTEMPTS: u32 = 5;

/// How long a replacement waits for the single temporary name in the file's folder. Another process holds that name
/// while its disk writes.
pub const FILE_NAME_PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two attempts to get that name: the time of a rename.
pub const FILE_NAME_PAUSE: Duration = Duration::from_millis(1);

/// How long an ended call waits for the outcome of its replacement. Less than the 100 ms within which an abort
/// takes effect.
pub const PLACING_GRACE: Duration = Duration::from_millis(50);

/// Bytes of an address that `fetch` takes: what browsers and servers agree on.
pub const FETCH_URL_BYTES: usize = 2048;

/// Bytes of a page that are fetched (4 MiB). The longest specifications of the web are as long; the rest is left out.
pub const FETCH_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of the text that is made of a page (4 MiB): a short link may stand for a long address.
pub const FETCH_TEXT_BYTES: usize = FETCH_BYTES;

/// Bytes of the text of a page that says why there is no other, such as an error 404.
pub const FETCH_ERROR_BYTES: usize = 2048;

/// Bytes at the start of a page in which it may name its encoding. From the standard of HTML.
pub const FETCH_META_BYTES: usize = 1024;

/// Bytes of a link's address in the text of a page. Longer ones carry data, which no model can use.
pub const FETCH_LINK_BYTES: usize = 1024;

/// How deep quotes, lists and tables of a page are told apart. Pages of people have fewer than ten.
pub const FETCH_NESTING: usize = 64;

/// How many quotes, items and marks around one text are written: each of its lines repeats them.
pub const FETCH_PREFIXES: usize = 8;

/// Cells in a row of a page's table; further ones are joined with the last.
pub const FETCH_CELLS: usize = 64;

/// Redirects that are followed for one page. Sites need two or three.
pub const FETCH_REDIRECTS: usize = 5;

/// How long a connection to a server of a page takes at most: a person waits.
pub const FETCH_CONNECT: Duration = Duration::from_secs(10);

/// How long a server of a page may be silent.
pub const FETCH_SILENCE: Duration = Duration::from_secs(30);

/// How long a page takes at most, with its redirects.
pub const FETCH_TIME: Duration = Duration::from_secs(60);

/// Hosts that the configuration may name as private ones. They are compared one by one.
pub const FETCH_PRIVATE_HOSTS: usize = 100;

/// The largest image for a model, in bytes (5 MiB): hosted models accept as much.
pub const IMAGE_BYTES: u64 = 5 * 1024 * 1024;

/// Lines of a `read` without a `:limit`.
pub const READ_LINES: usize = 2000;

/// The longest line in a `read`, a `search` and a diff, in bytes. A longer one is data, not text.
pub const TOOL_LINE_BYTES: usize = 2000;

/// Bytes of one output of a notebook's cell in a `read` (8 KiB). A longer one is data.
pub const NOTEBOOK_OUTPUT_BYTES: usize = 8 * 1024;

/// Matches of one `search` or `find`. If more are needed, the pattern is too wide.
pub const SEARCH_MATCHES: usize = 1000;

/// Files that one `find` sorts by their time; it shows [`SEARCH_MATCHES`] of them. The kernel's sources have as many.
pub const FOUND_FILES: usize = 100_000;

/// Lines around a match that a `search` shows at most. More is what `read` is for.
pub const SEARCH_CONTEXT: usize = 50;

/// The longest glob, and the longest line of an ignore file, in bytes: the longest path of Linux.
pub const GLOB_BYTES: usize = 4 * 1024;

/// Groups in braces in one glob. The parser recurses for each open one; a person writes two.
pub const GLOB_GROUPS: usize = 16;

/// Bytes of an ignore file that are read (256 KiB), in whole lines. The longest real ones have some 20 KB.
pub const IGNORE_BYTES: u64 = 256 * 1024;

/// Lines of an ignore file that are used: each becomes a part of one automaton.
pub const IGNORE_LINES: usize = 5_000;

/// Entries of a folder that a walk visits. It sorts them, so all their names are in memory.
pub const FOLDER_ENTRIES: usize = 100_000;

/// Depth of a walk, which keeps a descriptor for each folder on its path.
pub const WALK_DEPTH: usize = 64;

/// The largest file that `search` reads (256 MiB). A larger one is data, and takes seconds.
pub const SEARCH_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Memory of `search` for the lines of one file (8 MiB). A file with a longer line is skipped.
pub const SEARCH_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Memory of the automaton of one pattern (2 MiB). With a larger one, a part of a file takes longer than an abort
/// may wait.
pub const SEARCH_PATTERN_BYTES: usize = 2 * 1024 * 1024;

/// Nesting of a pattern: its parser recurses.
pub const SEARCH_PATTERN_DEPTH: u32 = 64;

/// The longest pattern of a search, in bytes. Parsing takes some 10 KB of memory for each `\w`, before the bound on
/// the automaton counts.
pub const SEARCH_PATTERN_LENGTH: usize = 4 * 1024;

/// Tool calls of one answer that run concurrently. From the execution model.
pub const PARALLEL_TOOLS: usize = 4;

/// Tool calls in one answer. A model with more has lost its way.
pub const ANSWER_TOOL_CALLS: usize = 128;

/// Calls among which a turn's repeated ones are looked for.
pub const LOOP_CALLS: usize = 20;

/// The number of an equal call whose result says that it is one.
pub const LOOP_HINT: usize = 3;

/// The number of an equal call about which a person is asked.
pub const LOOP_ASK: usize = 6;

/// Model calls of one turn. A turn with more goes in circles.
pub const TURN_ROUNDS: u32 = 500;

/// Pauses of a provider in one answer. A provider that pauses more often does not finish.
pub const MODEL_PAUSES: u32 = 5;

/// Characters of a name or a path that an error repeats to its sender.
pub const ERROR_NAME_CHARS: usize = 400;

/// Messages in a session's queue.
pub const QUEUED_MESSAGES: usize = 64;

/// The content of all messages in a session's queue (2 MiB): the answer to an interrupt may give back all of their
/// texts in one line. A longer message waits if nothing else does.
pub const QUEUED_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of a waiting message's text in an event or a list (16 KiB): more than anybody types, and 64 of them fit into a
/// frame. The whole text is read by its entry.
pub const QUEUE_TEXT_BYTES: usize = 16 * 1024;

/// Texts of one session's files that are kept so that edits can be undone (64 MiB): four of the largest files that a tool
/// changes, and months of usual edits. The oldest go first.
pub const UNDO_BYTES: u64 = 64 * 1024 * 1024;

/// How long a change of a file waits for the note in the journal that it begins.
pub const NOTING: Duration = Duration::from_secs(10);

/// How long an undo waits for calls that change its files: its session does nothing else meanwhile.
pub const UNDO_PATIENCE: Duration = Duration::from_secs(1);

/// Turns whose changes of files can be undone, and as many redone.
pub const UNDO_TURNS: usize = 100;

/// Retries of a failed model call.
pub const RETRY_ATTEMPTS: u32 = 5;

/// The pause before the first retry, in milliseconds; it doubles with each.
pub const RETRY_FIRST_MS: u64 = 1000;

/// The longest pause before a retry, in milliseconds. If a provider demands more, there is no retry.
pub const RETRY_MAX_MS: u64 = 120_000;

/// Bytes of the block about the environment in the system prompt (about 300 tokens).
pub const ENVIRONMENT_BYTES: usize = 1200;

/// Lines of the git status in it.
pub const ENVIRONMENT_LINES: usize = 20;

/// How long git may take for it: a turn waits. In a repository where that is too little, the model asks itself.
pub const ENVIRONMENT_WAIT: Duration = Duration::from_secs(2);

/// Tokens reserved for the answer, or a quarter of the window if that is less. From the engine's design.
pub const COMPACT_RESERVE_TOKENS: u64 = 16_384;

/// Tokens of the newest messages that a compaction keeps, or a quarter of the window if that is less.
pub const COMPACT_KEEP_TOKENS: u64 = 20_000;

/// Bytes of a tool's result, or of a call's arguments, in the request for a summary: its start and its end. The user's
/// messages and the previous summary are there whole.
pub const COMPACT_RESULT_BYTES: usize = 4000;

/// The same where the summary before was as long as the model may write.
pub const COMPACT_SHORT_RESULT_BYTES: usize = 800;

/// Tokens of the user's own messages that a compacted conversation keeps, or an eighth of the window if that is less.
pub const COMPACT_USER_TOKENS: u64 = 20_000;

/// Bytes below which a message of the user is left out and not shortened.
pub const COMPACT_SHORTEST_BYTES: usize = 200;

/// Files that a compacted conversation names, of those that were read and of those that were changed.
pub const COMPACT_FILES: usize = 50;

/// Failed compactions in a row after which a turn tries no more.
pub const COMPACT_FAILURES: u32 = 3;

/// Compactions of one answer whose model calls find the conversation too long. Each keeps half as much, the last only the
/// newest message: what is still too long then cannot be made shorter.
pub const COMPACT_TRIES: u32 = 5;

/// Open questions of a process. Each one blocks a turn, which asks one at a time.
pub const OPEN_QUESTIONS: usize = 1024;

/// Closed questions that are remembered, so that a late answer gets the right error.
pub const CLOSED_QUESTIONS: usize = 1024;

/// How often a field of a server's form is asked for while the answer does not fit.
pub const MCP_FIELD_TRIES: usize = 3;

/// How long a message waits for a resource that it refers to: longer than a page of the web takes.
pub const MCP_RESOURCE_WAIT: Duration = Duration::from_secs(20);

/// Bytes of what a server says of a tool, a prompt or a resource in a list for people: a line.
pub const MCP_LISTED_TEXT_BYTES: usize = 200;

/// Resources of one server in a list for people; completion finds the others.
pub const MCP_LISTED_RESOURCES: usize = 100;

/// Bytes of what all servers say of their use in a system prompt (16 KiB), or a quarter of the model's window if that is
/// less. One server has 4 KiB.
pub const PROMPT_SERVERS_BYTES: usize = 16 * 1024;

/// Folders whose MCP servers are known by their command lines: a person has some hundred projects.
pub const KNOWN_SERVER_FOLDERS: usize = 512;

/// Hooks of a configuration. Each one starts a process at its boundary.
pub const HOOKS: usize = 64;

/// Default time-out of a hook, in milliseconds. A person waits for it.
pub const HOOK_MS: u64 = 10_000;

/// The longest time-out of a hook, in milliseconds (ten minutes).
pub const HOOK_MAX_MS: u64 = 600_000;

/// Bytes of a hook's answer (4 MiB): the longest answer of a model, which a hook may rewrite.
pub const HOOK_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a hook's standard error in its error message (4 KiB).
pub const HOOK_STDERR_BYTES: usize = 4 * 1024;

/// Depth of subagents: a subagent's subagent's subagent is the last.
pub const SUBAGENT_DEPTH: u32 = 3;

/// Bytes of a delegated task (64 KiB): a model writes it.
pub const MAX_CHILD_TASK_BYTES: usize = 64 * 1024;

/// The largest file of a workflow, in bytes (256 KiB).
pub const WORKFLOW_BYTES: usize = 256 * 1024;

/// Workflow files that are read from one folder.
pub const WORKFLOWS: usize = 200;

/// Stages of a workflow; a group counts as one.
pub const WORKFLOW_STAGES: usize = 64;

/// Stages of one group. Each is a session that calls a model.
pub const WORKFLOW_SIBLINGS: usize = 8;

/// Steps of one run. A run with more goes in circles.
pub const WORKFLOW_STEPS: u32 = 200;

/// Bytes of a stage's body before its placeholders are replaced (64 KiB).
pub const STAGE_TEMPLATE_BYTES: usize = 64 * 1024;

/// Attempts of a stage.
pub const STAGE_ATTEMPTS: u32 = 10;

/// Model calls of one act, unless its stage sets fewer.
pub const STAGE_TURNS: u32 = 50;

/// Default time-out of a gate's or an assertion's command, in milliseconds: a project's tests take minutes.
pub const WORKFLOW_CHECK_MS: u64 = 300_000;

/// Bytes of a gate's output in the prompt of its stage (48 KiB), from its start: as much as a tool's result.
pub const STAGE_GATE_BYTES: usize = TOOL_RESULT_BYTES;

/// Bytes of a failed assertion's output in the prompt of the next attempt (4 KiB), from its end.
pub const STAGE_OUTPUT_BYTES: usize = 4 * 1024;

/// Files that trust in a project covers: its configuration, its workflows and the files that its hooks name.
pub const TRUSTED_FILES: usize = 1000;

/// Folders in which a word of one hook or MCP server is looked for: the project's, its `:cwd`, and those that are words. A
/// command names few; each costs some looks at the disk for each word.
pub const TRUSTED_FOLDERS: usize = 8;

/// Files and folders that are looked through for the globs at `:watch`: a project with its builds has fewer.
pub const WATCHED_ENTRIES: usize = 100_000;

/// Steps of matching their paths with the globs at `:watch`: less than a second.
pub const WATCHED_STEPS: usize = 1_000_000_000;

/// The largest file that trust covers (16 MiB): a script or a small program. Each is read whole for its digest.
pub const TRUSTED_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Running background jobs of a session.
pub const RUNNING_JOBS: usize = 16;

/// How long a model waits for a background job, in seconds, if it does not say.
pub const JOB_WAIT_SECONDS: u64 = 60;

/// The longest such wait, in seconds (ten minutes): the end of the job reaches the model by itself.
pub const JOB_WAIT_MAX_SECONDS: u64 = 600;

/// How long a model's `stop` waits until the job has ended. A command that is stopped is killed within.
pub const JOB_STOP_WAIT: Duration = Duration::from_secs(10);

/// Bytes of a job's output in which one wait looks for a line (64 MiB).
pub const JOB_MATCH_STEPS: usize = 64 * 1024 * 1024;

/// Bytes of a line of a job's output that a pattern is looked for in. A line without an end is not kept any longer.
pub const JOB_LINE_BYTES: usize = 64 * 1024;

/// Lines of a job's output in the update that says that it has ended.
pub const JOB_END_LINES: usize = 10;

/// Bytes of those lines.
pub const JOB_END_BYTES: usize = 2000;

/// Steps and bytes of a compiled pattern for a job's output.
pub const JOB_PATTERN_BYTES: usize = 1024 * 1024;

/// Ended background jobs that a session remembers.
pub const ENDED_JOBS: usize = 100;

/// Files that one client has open. An editor of a long day has some hundreds.
pub const CLIENT_FILES: usize = 1000;

/// How long an open file waits for its client: an editor answers in milliseconds, unless it is stuck.
pub const CLIENT_FILE_TIME: Duration = Duration::from_secs(10);

/// How long the edits of one answer wait for what an editor's checkers say of them, in all. Most checkers take less. One that
/// takes longer must not hold up a turn; what it finds comes with the next edit.
pub const DIAGNOSTICS_TIME: Duration = Duration::from_secs(2);

/// Diagnostics in the result of an edit. The first errors explain most of the others.
pub const DIAGNOSTICS: usize = 20;

/// Bytes of one of them: a compiler's first sentence, not its explanation.
pub const DIAGNOSTIC_BYTES: usize = 300;

/// Tools that one client offers in a session. An editor has some ten; each is in every request to the model.
pub const CLIENT_TOOLS: usize = 64;

/// Tools in a session that were brought by all clients together.
pub const BROUGHT_TOOLS: usize = 128;

/// Tools in a request to a model, of all kinds: some servers of models take no more, and each is paid for.
pub const OFFERED_TOOLS: usize = 512;

/// Bytes of a brought tool's name: what hosted models take.
pub const CLIENT_TOOL_NAME_BYTES: usize = 64;

/// Bytes of a client's tool's description (4 KiB): it is in every request to the model.
pub const CLIENT_TOOL_DESCRIPTION_BYTES: usize = 4 * 1024;

/// Bytes of a client's tool's schema (16 KiB), for the same reason.
pub const CLIENT_TOOL_SCHEMA_BYTES: usize = 16 * 1024;

/// The time that a client's tool has, unless it says otherwise: an editor answers in seconds, a build in minutes.
pub const CLIENT_TOOL_TIME: Duration = Duration::from_secs(120);

/// The longest time that it may say: a person may have to act.
pub const CLIENT_TOOL_LONGEST: Duration = Duration::from_secs(3600);

/// Bytes of a client's further facts about a result (16 KiB). They are in an event to every frontend.
pub const CLIENT_DETAILS_BYTES: usize = 16 * 1024;

/// Bytes of the arguments of a client's tool in the question that approves it (4 KiB): what a person reads.
pub const APPROVAL_ARGUMENTS_BYTES: usize = 4 * 1024;

/// Unanswered choices at frontends. A person makes one at a time.
pub const MAX_FRONTEND_ACTIONS: usize = 64;

/// Messages in `/history`: a page of a terminal or two.
pub const HISTORY_MESSAGES: usize = 100;

/// Time limit for a connection to a server.
pub const HTTP_CONNECT: Duration = Duration::from_secs(30);

/// How long an idle connection stays open for the next call.
pub const HTTP_KEEP: Duration = Duration::from_secs(90);

/// Silence after which a server counts as lost (five minutes). Models that hide their thinking, and small machines
/// that read a long prompt, are silent for minutes.
pub const HTTP_IDLE: Duration = Duration::from_secs(300);

/// How many times that long a server may send only keep-alive signals (half an hour): a model may think for long,
/// and a queue may be long.
pub const HTTP_QUIET_TIMES: u32 = 6;

/// Bytes of keep-alive signals (20 MiB): two of the longest events, because an unfinished event looks the same.
pub const HTTP_QUIET_BYTES: usize = 2 * SSE_EVENT_BYTES;

/// How long the rest after an answer's end is read, so that the connection can be used again.
pub const HTTP_DRAIN: Duration = Duration::from_secs(2);

/// Bytes that are read of a server's list of models (8 MiB): the longest known one, with prices and descriptions, has
/// about one.
pub const MODEL_LIST_BYTES: usize = 8 * 1024 * 1024;

/// How long the doctor waits for a server's list of models: a person waits for it.
pub const MODEL_LIST_WAIT: Duration = Duration::from_secs(10);

/// How long a server of this machine has to list its models when nothing else leads to a model. One that runs answers in
/// milliseconds; a person who waits does not notice a fifth of a second.
pub const LOCAL_SERVER_WAIT: Duration = Duration::from_millis(200);

/// Fields that one model's requests do without, because its server refuses them. No server refuses more of what is sent.
pub const FIELDS_REFUSED: usize = 8;

/// Limits of models that servers have told and that are kept. Nobody uses more models.
pub const LEARNED_LIMITS: usize = 128;

/// The largest file of these limits that is read, in bytes: an address and an id are short.
pub const LEARNED_LIMITS_BYTES: u64 = 128 * 1024;

/// Parts of a conversation that are left out because its server refused them. Each costs a request once.
pub const PARTS_WITHHELD: usize = 128;

/// Sources of one answer: a model cites some ten pages, each a few times. A client gets them in one frame.
pub const ANSWER_SOURCES: usize = 256;

/// Searches of one answer that are shown: providers stop a model earlier.
pub const ANSWER_SEARCHES: usize = 64;

/// The longest address of a source, in bytes: browsers and servers take no longer ones.
pub const SOURCE_URL_BYTES: usize = 2048;

/// The longest title of a source, and the longest search that is shown, in characters: a line or two.
pub const SOURCE_TITLE_CHARS: usize = 200;

/// Fields, and conversations whose replays were refused, that are kept in mind for a server.
pub const REFUSED_KEPT: usize = 256;

/// Bytes that are read of an error response, or of a response with tokens (64 KiB).
pub const HTTP_ERROR_BYTES: usize = 64 * 1024;

/// The longest event of a stream, in bytes (10 MiB): the longest answer, with room for escapes.
pub const SSE_EVENT_BYTES: usize = 10 * 1024 * 1024;

/// The longest requested answer of a hosted model without its thinking, in tokens. A longer one would have to fit
/// into the window next to the conversation.
pub const HOSTED_ANSWER_TOKENS: u32 = 32_000;

/// Time limit of a command that prints a key, in seconds: a person may have to unlock something.
pub const KEY_COMMAND_SECONDS: u64 = 60;

/// Bytes that are read of such a command's output.
pub const KEY_BYTES: u64 = 64 * 1024;

/// Bytes of the file of credentials (1 MiB): a few hundred logins.
pub const CREDENTIALS_BYTES: u64 = 1024 * 1024;

/// How long before its expiry a login's token is renewed: longer than a call takes to begin.
pub const TOKEN_EARLY: Duration = Duration::from_secs(60);

/// Time limit of a request for tokens.
pub const TOKEN_PATIENCE: Duration = Duration::from_secs(30);

/// Time limit of a login by a person (ten minutes, as at most servers).
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(600);

/// Time limit of a browser's request after a login.
pub const CALLBACK_PATIENCE: Duration = Duration::from_secs(10);

/// Concurrent connections of browsers after a login. Browsers open a few in advance and send nothing on them. One
/// more closes the oldest, so that idle connections of another program block nobody.
pub const CALLBACK_BROWSERS: usize = 32;

/// The longest head of a browser's request, in bytes.
pub const CALLBACK_HEAD_BYTES: usize = 16 * 1024;

/// Cached folders with instructions, skills and templates. A process serves a few.
pub const CONTEXT_PROJECTS: usize = 64;

/// Bytes that are read of one file of instructions (32 KiB, about 8,000 tokens).
pub const INSTRUCTIONS_BYTES: u64 = 32 * 1024;

/// Files of instructions below the session's folder that a model is told of, up to a compaction.
pub const NESTED_INSTRUCTIONS: usize = 32;

/// Bytes of all instructions in a system prompt (64 KiB), or a quarter of the model's window if that is less.
pub const PROMPT_INSTRUCTIONS_BYTES: usize = 64 * 1024;

/// Skills of one folder. The system prompt has a line for each.
pub const SKILLS: usize = 200;

/// The largest `SKILL.md`, in bytes (64 KiB). Longer parts of a skill belong into files next to it.
pub const SKILL_BYTES: u64 = 64 * 1024;

/// The longest description of a skill, in bytes. From the format's specification.
pub const SKILL_DESCRIPTION_BYTES: usize = 1024;

/// Bytes of the list of skills in a system prompt (16 KiB).
pub const PROMPT_SKILLS_BYTES: usize = 16 * 1024;

/// Prompt templates of one folder.
pub const TEMPLATES: usize = 200;

/// The largest prompt template, in bytes (64 KiB).
pub const TEMPLATE_BYTES: u64 = 64 * 1024;

/// The longest text of a template with its arguments (1 MiB).
pub const EXPANSION_BYTES: usize = 1024 * 1024;

/// Files that one message attaches. A person names a few.
pub const REFERENCES: usize = 20;

/// Lookups on disk for one message. A text may have an `@` in every word, and a name may have to be tried without
/// the punctuation after it.
pub const REFERENCE_LOOKUPS: usize = 200;

/// Bytes of all those names together (64 KiB): each folder in a name is an access to the disk.
pub const REFERENCE_LOOKUP_BYTES: usize = 64 * 1024;

/// The longest name after an `@`, in bytes: the longest path of Linux.
pub const REFERENCE_BYTES: usize = 4096;

/// Bytes of attached files in one message (192 KiB), or a quarter of the model's window if that is less.
pub const REFERENCES_BYTES: usize = 192 * 1024;

/// The longest path from an editor, in bytes: the longest of Linux.
pub const EDITOR_PATH_BYTES: usize = 4096;

/// Bytes of a selection in a prompt (8 KiB): some screens full. The model can read the rest.
pub const EDITOR_TEXT_BYTES: usize = 8 * 1024;

/// MCP servers that a project uses. A person has some five.
pub const MCP_SERVERS: usize = 32;

/// Lines of a question about a server that say what it gets and may do: more than a server has. The rest are counted.
pub const MCP_DETAILS: usize = 50;

/// Characters of a name or a value in such a line: a path, or a long name.
pub const PEER_DETAIL_CHARS: usize = 200;

/// Bytes of a server's name: with a tool's it stands in a name of 64 bytes.
pub const MCP_SERVER_NAME_BYTES: usize = 32;

/// Bytes of the name by which models call a server's tool: what hosted models take.
pub const MCP_NAME_BYTES: usize = 64;

/// How long a call of a server may take without progress: builds and crawls take minutes.
pub const MCP_CALL_TIME: Duration = Duration::from_secs(120);

/// How long a call of a server may take with progress: no person waits longer.
pub const MCP_CALL_LONGEST: Duration = Duration::from_secs(3600);

/// How long a turn, a list of commands or a completion waits for servers that start: a person looks at it. Later ones
/// join at the next round.
pub const MCP_READY_WAIT: Duration = Duration::from_secs(5);

/// Starts of a server within a minute before it is left alone until somebody asks: a crash may pass, a loop does not.
pub const MCP_STARTS: usize = 3;

/// The longest line of an MCP server, in bytes (16 MiB): the longest on our own wire.
pub const MCP_LINE_BYTES: usize = MAX_LINE_BYTES;

/// How long `mcp serve` waits for a bridge's answer to what is no prompt. A query may take five seconds, and a list of very
/// many sessions longer.
pub const MCP_SERVED_PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of an answer over HTTP that is JSON and no stream (4 MiB): the longest result. It is read as a whole, and each of its
/// values costs some hundred bytes of memory; the messages of a stream are counted first.
pub const MCP_JSON_BYTES: usize = MCP_RESULT_BYTES;

/// Lines of a program's standard error that are shown with why it cannot be used: a trace has some ten.
pub const MCP_LAST_LINES: usize = 12;

/// Streams that a server over HTTP is asked for at once: one for each of a few calls whose stream broke off.
pub const MCP_STREAMS: u32 = 8;

/// Pause before each further one: a server that ends them at once is not asked all the time.
pub const MCP_STREAM_PAUSE: Duration = Duration::from_secs(1);

/// Notifications and requests of one server that are read at once. A call that tells its progress by the file has
/// thousands of them.
pub const MCP_TOLD: u32 = 32_768;

/// Pause before each further one: a server that floods costs its own answers time, and this process nearly none.
pub const MCP_TOLD_PAUSE: Duration = Duration::from_micros(500);

/// Requests of one server, and calls of one, that are open at the same time. Further ones wait.
pub const MCP_OPEN_REQUESTS: usize = 64;

/// Lines of a server's output that are no messages. Some print a greeting there, or a warning of their runtime.
pub const MCP_NOISE_LINES: usize = 1000;

/// Bytes of such lines (1 MiB).
pub const MCP_NOISE_BYTES: usize = 1024 * 1024;

/// How long a server may take to answer what it supports, before it counts as one that does not know the question. The
/// slowest runtime starts within, also on a busy machine.
pub const MCP_DISCOVER_WAIT: Duration = Duration::from_secs(6);

/// How long a server may leave its input unread while the pipe is full.
pub const MCP_WRITE_WAIT: Duration = Duration::from_secs(30);

/// How long a server's start may take, with what is downloaded for it, to the end of its greeting.
pub const MCP_START_WAIT: Duration = Duration::from_secs(30);

/// How long a server may take from its start until its lists are read: one start and what is tried for an older era.
pub const MCP_START_LONGEST: Duration = Duration::from_secs(60);

/// Characters of a program's words in an error: a sentence or two.
pub const PEER_ERROR_CHARS: usize = 400;

/// Bytes of a program's standard error that are kept for a person (64 KiB): its last words.
pub const PEER_STDERR_BYTES: usize = 64 * 1024;

/// Bytes of a line of a program's standard error in the log.
pub const PEER_STDERR_LINE_BYTES: usize = 1024;

/// Lines of a program's standard error in the log within a second. A program that floods it is named once.
pub const PEER_STDERR_LINES: usize = 20;

/// How long a program is given to end by itself when its input was closed.
pub const PEER_END_WAIT: Duration = Duration::from_secs(2);

/// How long a server stays without a call.
pub const MCP_IDLE: Duration = Duration::from_secs(10 * 60);

/// The time within which starts of a server are counted.
pub const MCP_STARTS_TIME: Duration = Duration::from_secs(60);

/// Tools of one server that are offered. Each is in every request to the model.
pub const MCP_SERVER_TOOLS: usize = 128;

/// Tools of all servers together.
pub const MCP_TOOLS: usize = 512;

/// Items of one page of a server's list that are named where they do not fit the protocol; of more, the count is told. A
/// person reads these, to mend the server.
pub const MCP_LEFT_OUT: usize = 50;

/// Prompts, and resources, and templates of one server: what a list for a person may have.
pub const MCP_LISTED: usize = 1000;

/// Bytes of the texts that are kept of one list of a server (1 MiB). Tools of so many are in no model's window; a list
/// that a person reads is shorter.
pub const MCP_LIST_BYTES: usize = 1024 * 1024;

/// Pages of one list of a server: enough for the longest with pages of ten.
pub const MCP_PAGES: usize = 100;

/// Bytes of a description (2 KiB): it is in every request to the model.
pub const MCP_DESCRIPTION_BYTES: usize = 2 * 1024;

/// Bytes of a title, a name or an address in a list.
pub const MCP_TITLE_BYTES: usize = 512;

/// Bytes of a tool's schema (32 KiB), for the same reason. A cut one would be none.
pub const MCP_SCHEMA_BYTES: usize = 32 * 1024;

/// Bytes of a server's instructions (4 KiB): they are in every request to the model.
pub const MCP_INSTRUCTIONS_BYTES: usize = 4 * 1024;

/// Times that a call may ask for input and be repeated.
pub const MCP_ROUNDS: usize = 10;

/// Questions to a person in the course of one call.
pub const MCP_QUESTIONS: usize = 5;

/// Fields of a form, and choices in one.
pub const MCP_FIELDS: usize = 32;

/// Choices in a field of a form.
pub const MCP_CHOICES: usize = 100;

/// Bytes of a question's text (4 KiB): what a person reads.
pub const MCP_QUESTION_BYTES: usize = 4 * 1024;

/// Bytes of the conversation for which a server asks an answer of a model (256 KiB).
pub const MCP_SAMPLE_BYTES: usize = 256 * 1024;

/// Messages of it.
pub const MCP_SAMPLE_MESSAGES: usize = 100;

/// Images in one result. Each is in the conversation from then on.
pub const MCP_IMAGES: usize = 8;

/// Bytes of a result's text (4 MiB), as of a message of the protocol of agents; of it, an excerpt is shown.
pub const MCP_RESULT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a structured result among the further facts of a call (16 KiB), as of a client's tool.
pub const MCP_DETAILS_BYTES: usize = CLIENT_DETAILS_BYTES;

/// How long a completion may take: a person types meanwhile.
pub const MCP_COMPLETE_WAIT: Duration = Duration::from_secs(5);

/// Values of a completion. From the protocol.
pub const MCP_COMPLETIONS: usize = 100;

/// Templates of a server that are completed at once for what was typed. Few begin alike.
pub const MCP_TEMPLATES: usize = 8;

/// How long the era of a server is remembered (7 days): servers learn the newer one.
pub const MCP_ERA_SECONDS: i64 = 7 * 24 * 3600;

/// Servers whose era is remembered.
pub const MCP_ERAS: usize = 256;

/// Pause before a server is listened to again whose stream of changes has ended.
pub const MCP_LISTEN_PAUSE: Duration = Duration::from_secs(5);

/// The longest such pause: what has changed meanwhile is heard after it.
pub const MCP_LISTEN_LONGEST: Duration = Duration::from_secs(300);

/// Pause between two readings of a server's lists: one that tells of changes all the time is not read all the time.
pub const MCP_LIST_PAUSE: Duration = Duration::from_secs(1);

/// Times that a request of a login at an MCP server may be moved, as within one site.
pub const MCP_LOGIN_REDIRECTS: usize = 3;

/// Tokens of one server's logins that are taken out of what it says: those of its last renewals.
pub const PEER_TOKENS: usize = 16;

/// Calls of one client that this program answers at once as a server. A model makes a few side by side.
pub const MCP_SERVED_CALLS: usize = 8;

/// Bytes of one answer of this program as a server (1 MiB): more is in no model's window.
pub const MCP_SERVED_BYTES: usize = 1024 * 1024;

/// Bytes of one message in such an answer (16 KiB): a person writes less, and an output is longer than it is useful.
pub const MCP_SERVED_TEXT_BYTES: usize = 16 * 1024;

/// Messages in such an answer.
pub const MCP_SERVED_MESSAGES: usize = 500;

/// Sessions in such an answer, and in the list of resources.
pub const MCP_SERVED_SESSIONS: usize = 100;

/// Agents of a configuration.
pub const AGENTS: usize = 16;

/// Bytes of a title, a name or a step that an agent gives: a line on a screen.
pub const AGENT_TITLE_BYTES: usize = 512;

/// Answers that an agent offers to one request for a permission, and logins that it names.
pub const AGENT_ANSWERS: usize = 32;

/// Options of an agent.
pub const AGENT_OPTIONS: usize = 64;

/// Values of one option of an agent: some list every model of a provider.
pub const AGENT_CHOICES: usize = 500;

/// Slash commands of an agent.
pub const AGENT_COMMANDS: usize = 300;

/// Steps of an agent's plan, and places of a tool call.
pub const AGENT_STEPS: usize = 200;

/// The longest line of an agent (16 MiB): it may hold an image or a large file.
pub const AGENT_LINE_BYTES: usize = MAX_LINE_BYTES;

/// Lines that wait to be written to an agent.
pub const AGENT_LINES: usize = 256;

/// Lines of an agent that are no messages: more is no mishap.
pub const AGENT_NOISE_LINES: usize = 1000;

/// Questions of an agent that wait for answers. Its lines are not read while there are more.
pub const AGENT_OPEN_REQUESTS: usize = 64;

/// Updates of an agent that its turn has not taken in yet. Its lines are not read while there are more.
pub const AGENT_UPDATES: usize = 64;

/// How long an agent may leave its input unread while the pipe is full.
pub const AGENT_WRITE_WAIT: Duration = Duration::from_secs(30);

/// How long an agent's start may take, with what is downloaded for it, to the answer to its greeting.
pub const AGENT_HELLO_WAIT: Duration = Duration::from_secs(30);

/// How long an agent may take to open a session, or to choose an option.
pub const AGENT_SESSION_WAIT: Duration = Duration::from_secs(60);

/// What an agent tells of sessions before it is known whose they are.
pub const AGENT_EARLY_NEWS: usize = 32;

/// Starts of an agent within [`AGENT_STARTS_TIME`]: after that it is not started for a while.
pub const AGENT_STARTS: usize = 3;

/// The time within which starts of an agent are counted.
pub const AGENT_STARTS_TIME: Duration = Duration::from_secs(60);

/// How long an agent stays without an open session.
pub const AGENT_IDLE: Duration = Duration::from_secs(10 * 60);

/// How often it is looked whether an agent has sessions.
pub const AGENT_LOOK: Duration = Duration::from_secs(60);

/// How long an agent may take to end a turn that was cancelled. Then its process is ended.
pub const AGENT_CANCEL_WAIT: Duration = Duration::from_secs(10);

/// Tool calls of one turn of an agent. Further ones are not shown.
pub const AGENT_TURN_CALLS: usize = 2000;

/// Bytes of the arguments of an agent's tool call that are kept (256 KiB).
pub const AGENT_ARGUMENTS_BYTES: usize = 256 * 1024;

/// Bytes of the output of an agent's tool call that are read (4 MiB).
pub const AGENT_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of one piece of an agent's message as it is shown (64 KiB): a long one is shown in several.
pub const AGENT_PIECE_BYTES: usize = 64 * 1024;

/// The shortest time between two updates of one running tool call.
pub const AGENT_CALL_PAUSE: Duration = Duration::from_millis(100);

/// Files, addresses and commands that one request of an agent may name. Each is resolved on the disk, judged and shown;
/// whoever has more to ask asks several times.
pub const AGENT_ACT_PARTS: usize = 200;

/// Commands that an agent has started and not released.
pub const AGENT_TERMINALS: usize = 32;

/// Bytes of the output of such a command that are kept (1 MiB): the newest.
pub const AGENT_TERMINAL_BYTES: usize = 1024 * 1024;

/// Bytes of a file that an agent may read or write at once (16 MiB).
pub const AGENT_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The longest name of a host in a realm: a name of the domain name system has no longer label.
pub const REALM_HOST_NAME_BYTES: usize = 63;

/// How long a host of a realm is taken for alive after its last sign (15 s), by the engine's clock. A person waits as long
/// before a dead machine's sessions can be taken; a network may be away for two thirds of it without harm.
pub const REALM_LEASE: Duration = Duration::from_secs(15);

/// The shortest and the longest lease that can be configured. Below it the renewals themselves are a load; above it a
/// person takes the engine for stuck.
pub const REALM_LEASES: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(600));

/// How long one statement to a realm's engine may take to be answered. A person waits no longer for an answer; one that
/// is slower is looked up.
pub const REALM_CALL_WAIT: Duration = Duration::from_secs(2);

/// How often a follower of a session in a realm reads from its place without a hint.
pub const REALM_WATCH: Duration = Duration::from_secs(1);

/// How old the list of a realm's sessions, or of the requests to this host, may be where no hint and no renewal says that
/// there is something new. An idle host costs its engine next to nothing.
pub const REALM_REST: Duration = Duration::from_secs(30);

/// How often a host looks whether its connection for hints is still there, while it hears no session.
pub const REALM_BEAT: Duration = Duration::from_secs(5);

/// How long the owner of a session may take to answer another host's request. A frontend's own wait is shorter.
pub const REALM_ANSWER_WAIT: Duration = Duration::from_secs(30);

/// How long the start of an engine waits for its realm. Without an answer it goes on: what is this machine's alone needs
/// none.
pub const REALM_ENTER: Duration = Duration::from_secs(3);

/// How long the opening of a shared session waits for a journal of the same process that is being closed.
pub const REALM_CLOSE: Duration = Duration::from_secs(2);

/// How often a wait for a host's lease looks again, and the shortest time between two lists of a realm. A person does
/// not notice it.
pub const REALM_LOOK: Duration = Duration::from_millis(250);

/// How many times as long as its list of all sessions took a host rests before the next one: every append of any host is a
/// reason to list, and it shall take no more than a fifth of the time.
pub const REALM_LIST_RESTS: u32 = 4;

/// How long pieces of a running answer are merged before they go to other hosts. A person sees no difference, and an
/// engine has a thirtieth of the work.
pub const REALM_SAY: Duration = Duration::from_millis(30);

/// How long a host follows a session after its last word. It says so every third of it.
pub const REALM_FOLLOWER: Duration = Duration::from_secs(60);

/// Bytes of one hint or one piece of a running answer in a realm: PostgreSQL takes less than 8,000 in a notification.
pub const REALM_HINT_BYTES: usize = 7_900;

/// Hints, requests or pieces that wait for a reader in a realm. A hint beyond it is replaced by one that says that some
/// are missing.
pub const REALM_WAITING: usize = 1024;

/// Long calls of other hosts whose ends a host keeps until they are asked for: a person waits for few at once.
pub const REALM_ENDS: usize = 256;

/// Entries that are read from a realm at once, and those of one append.
pub const REALM_PAGE: usize = 512;

/// Bytes of entries that are read from a realm at once (4 MiB), or one entry where that is longer.
pub const REALM_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of what lists show of a session in a realm (16 KiB).
pub const REALM_SLOT_BYTES: usize = 16 * 1024;

/// Hosts of a realm that are listed. A person has some machines.
pub const REALM_HOSTS: usize = 256;

/// Folders of a host that are looked at for the repository of a session that is taken.
pub const REALM_FOLDERS: usize = 256;

/// Sessions of lost hosts that a host takes at once without being asked: each is opened, and goes on.
pub const REALM_TAKEOVERS: usize = 16;

/// Rows that one statement removes from a realm, of what nobody needs any more: an engine is done with them in a moment.
pub const REALM_SWEEP: usize = 10_000;

/// How often a host removes from its realm what nobody needs any more. Nobody waits for it.
pub const REALM_SWEEP_PAUSE: Duration = Duration::from_secs(60 * 60);

/// How long a search in a realm may take. A person waits for it, and has what is on this machine all the same. PostgreSQL
/// reads every entry, some hundred megabytes of them in that time; those in NATS are read here, session after session.
pub const REALM_FIND_WAIT: Duration = Duration::from_secs(5);

/// The longest entry that a search in a realm reads (64 KiB). A longer one is a tool's output or an image.
pub const REALM_FIND_BYTES: usize = 64 * 1024;

/// Entries of one session that a search in a realm looks at, the newest that have the words: some have them elsewhere than
/// in what was said.
pub const REALM_FIND_ENTRIES: usize = 4;

/// Entries that a search in a realm brings here, of all sessions.
pub const REALM_FIND_ROWS: usize = 256;

/// Sessions of a realm that are listed.
pub const REALM_SESSIONS: usize = 10_000;

/// Models whose calls are counted apart; those beyond count together. A client may name any model.
pub const TELEMETRY_MODELS: usize = 100;

/// Bytes of one text of a conversation that is exported, if the person wants texts (64 KiB).
pub const TELEMETRY_TEXT_BYTES: usize = 64 * 1024;

/// Headers of the requests to a receiver of telemetry.
pub const TELEMETRY_HEADERS: usize = 20;

/// Spans that wait for the receiver of telemetry. Further ones are dropped: OpenTelemetry's usual number.
pub const TELEMETRY_QUEUE: u64 = 2_048;

/// Spans of one request to it.
pub const TELEMETRY_BATCH: u64 = 512;

/// How long a span waits for others before they are sent.
pub const TELEMETRY_PAUSE: Duration = Duration::from_secs(5);

/// How long the receiver may take for a request.
pub const TELEMETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of the process waits for the last spans. A receiver that hangs must not hold it up.
pub const TELEMETRY_END_WAIT: Duration = Duration::from_secs(2);

/// Bytes of the receiver's answer that are read (16 KiB).
pub const TELEMETRY_ANSWER_BYTES: usize = 16 * 1024;

/// Rows of bars in one image. More are only in its table: an image of hundreds is not read.
pub const PLOT_ROWS: usize = 60;

/// Connections of a host to a realm's engine for statements: with four, 16 sessions at once append as fast as with more,
/// and a thousand hosts still fit on one engine. Two more are for hints, and one for the lease where all are in use.
pub const REALM_CONNECTIONS: usize = 4;

/// How long a connection to a realm's engine stays without being needed. A host with nothing to do keeps two: one for its
/// lease and one that listens.
pub const REALM_IDLE: Duration = Duration::from_secs(30);

/// How long the engine of a realm works on a statement before it gives it up by itself. Longer than
/// [`REALM_CALL_WAIT`], because a large entry may take longer than a person waits; bounded, so that a statement that
/// was given up here does not come much later.
pub const REALM_STATEMENT_WAIT: Duration = Duration::from_secs(10);

/// How long one step of making a realm's tables may take.
pub const REALM_INIT_WAIT: Duration = Duration::from_secs(60);

/// How long after the loss of its connection for hints a host of a realm tries again.
pub const REALM_RECONNECT: Duration = Duration::from_millis(500);

/// How often a writer asks a realm what became of an append before it says that this is unknown.
pub const REALM_SETTLES: usize = 3;
