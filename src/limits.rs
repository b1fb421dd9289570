//! Every bound of the program, with the reason for each number.
//!
//! Knows nothing else of the house but the codec's own bounds: plain numbers, so that a reader can see in one
//! place how much the process may hold, and a test can show that each bound is kept.

use std::time::Duration;

/// Longest line, in bytes without its line feed, that the wire takes (16 MiB). From the wire
/// contract: what the codec reads at once, so that every line that is taken can be read.
pub const MAX_LINE_BYTES: usize = crate::edn::limits::MAX_BYTES;

/// Deepest nesting of collections, tags and discards in one form. From the wire contract, and the codec's.
pub use crate::edn::limits::MAX_DEPTH;

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

/// Bytes of answers and events that wait in an outbox before no further request is read (32 MiB): two
/// of the longest lines, so that even a client that pipelines large answers never makes more wait.
pub const OUTBOX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of answers that the reading thread gathers before it writes them, in the middle of a batch:
/// half a pipe buffer of Linux, so that the client reads the first half while the second is made.
pub const OUTBOX_FLUSH_BYTES: usize = 32 * 1024;

/// Events that a client with `flow-credit` may be sent beyond what it said that it has shown. Some
/// screens full; four times what the Emacs package lets come together before it says so.
pub const FLOW_WINDOW_EVENTS: u64 = 256;

/// Longest that a question may be told to wait for somebody when nobody is left (a day): a person comes back on
/// the same day or begins anew.
pub const ORPHAN_GRACE_MAX_MS: u64 = 86_400_000;

/// Events waiting in an outbox from which on adjacent deltas are merged. Below it the client keeps up
/// and sees each delta as it came.
pub const OUTBOX_MERGE_FROM: usize = 64;

/// How long a turn waits for a client whose outbox is full while others have room, before that one is
/// left behind and shown the session anew later. Far longer than a healthy client takes to read what
/// fills an outbox, and short enough for the person who watches another client.
pub const SLOW_CLIENT: Duration = Duration::from_secs(1);

/// Bytes that all clients on the socket together may have sent of lines that have not ended (64 MiB): four of the
/// longest lines at the same time. A line that would take more is refused.
pub const UNFINISHED_BYTES: usize = 4 * MAX_LINE_BYTES;

/// How often a connection that reads no further request, since its answers pile up, looks whether its
/// client has closed its side.
pub const CROWDED_LOOK: Duration = Duration::from_millis(250);

/// How long a client that has closed its side may take nothing of what it is owed, or less than
/// [`OUTBOX_READY_BYTES`].
pub const STALLED: Duration = Duration::from_secs(10);

/// Milliseconds between two diagnostics that tell a slow client what was merged and replaced. What says that
/// it is slow must not make it slower; a person reads no faster.
pub const COALESCED_PAUSE_MS: i64 = 1000;

/// Sessions that live in one process before those that were used longest ago are put away, where nothing
/// runs in them and nobody looks at them: the goal for one process, with a little room.
pub const LIVE_SESSIONS: usize = 1024;

/// Most sessions that live in one process, those at work and looked at among them.
pub const MAX_LIVE_SESSIONS: usize = 2048;

/// How long after something large was let go of the allocator is asked to give pages back: once for all that is let
/// go of meanwhile, since it looks at the whole heap.
pub const GIVE_BACK_AFTER: Duration = Duration::from_secs(1);

/// From how many bytes on a line that is read is large: what it took goes back to the system.
pub const LARGE_LINE_BYTES: usize = 1024 * 1024;

/// Files of one process that may be open, where the system allows as many: those of the most live sessions,
/// and as many again for connections, commands and servers.
pub const DESCRIPTORS: u64 = 8192;

/// Files that a live session holds open once something was said in it: its journal and its lock.
pub const SESSION_DESCRIPTORS: u64 = 2;

/// Sessions that are asked at once to let go of their files where none is left.
pub const LET_GO: usize = 4;

/// How long the first of them is waited for. All may be waiting for a descriptor themselves.
pub const LET_GO_WAIT: Duration = Duration::from_millis(1000);

/// How often something is tried again after a session has let go of its files: what came free may be gone to a
/// new connection.
pub const LET_GO_TRIES: usize = 4;

/// Messages that a session's mailbox holds. Senders are the connections' pending requests and the
/// session's own turn.
pub const MAILBOX: usize = 1024;

/// Messages that `session/rehydrated` and `get_messages` without `:limit` carry: some screens full.
pub const PAGE_MESSAGES: usize = 200;

/// Most messages that one `get_messages` carries.
pub const MAX_PAGE_MESSAGES: usize = 10_000;

/// Longest answer of a model, in bytes of text (4 MiB): `assistant/message` carries it twice, as blocks
/// and as text, and that has to fit into one frame with room for escapes.
pub const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a kept output that one `read_output` answers with (1 MiB).
pub const OUTPUT_PART_BYTES: usize = 1024 * 1024;
/// Window of the embedded model, in tokens: what it was trained on. Larger ones would only cost
/// memory (about 23 KB a token).
pub const EMBEDDED_WINDOW_TOKENS: u32 = 8_192;

/// Longest answer of the embedded model, in tokens, unless the caller says otherwise. A model of
/// this size says nothing new after that, and two cores need half a minute for it.
pub const EMBEDDED_OUTPUT_TOKENS: u32 = 2_048;

/// Prompt tokens that the embedded model takes in one step. A cancelled call stops at the next
/// step, a quarter of a second later on two cores; smaller steps make long prompts slower.
pub const EMBEDDED_STEP_TOKENS: u32 = 128;

/// Most threads of the embedded model. A small model gains nothing from more, and an editor runs on
/// the same machine.
pub const EMBEDDED_THREADS: usize = 8;

/// How often the load is looked at before the embedded model takes its threads: the middle look
/// counts, so that a process that comes and goes does not.
pub const EMBEDDED_LOAD_LOOKS: usize = 5;

/// Pause between two of those looks.
pub const EMBEDDED_LOAD_PAUSE: Duration = Duration::from_millis(2);

/// Tokens over which the embedded model's pace is taken.
pub const EMBEDDED_PACE_TOKENS: u32 = 8;

/// How many times slower than its best pace the embedded model may get before it looks for free
/// processors again.
pub const EMBEDDED_PACE_DROP: u32 = 3;

/// Model calls that may wait for the embedded model. More sessions than that at once are told to
/// come again.
pub const EMBEDDED_QUEUE: usize = 64;

/// Pieces of an answer that wait for a slow reader: a whole window, so that one reader's pause
/// never holds up the model for another. A piece is a few bytes.
pub const EMBEDDED_PIECES: usize = 8_192;

/// Bytes of prompt per token of window above which a prompt cannot fit, so that it is refused
/// without being cut into tokens. No vocabulary has a token as long as that.
pub const EMBEDDED_BYTES_PER_TOKEN: usize = 256;

/// How long the embedded model stays in memory without a call (five minutes). Loading it again
/// takes less than a second.
pub const EMBEDDED_IDLE: Duration = Duration::from_secs(300);

/// Bytes read at a time while a model file is copied and checked (1 MiB).
pub const FETCH_COPY_BYTES: usize = 1024 * 1024;

/// Pause between two looks at a running download: smooth to the eye, no load.
pub const FETCH_PROGRESS_PAUSE: Duration = Duration::from_millis(200);

/// How deep the download's folder is looked through for its size. pip nests three.
pub const FETCH_FOLDER_DEPTH: u32 = 6;

/// Largest script of the scripted provider, in bytes (16 MiB, as a line on the wire).
pub const SCRIPT_BYTES: u64 = 16 * 1024 * 1024;

/// Most deltas that one step of a script may ask for. Enough for a load test of a minute.
pub const SCRIPT_DELTAS: u64 = 100_000_000;

/// Longest pause that one step of a script may ask for, in milliseconds (one hour).
pub const SCRIPT_SLEEP_MS: u64 = 3_600_000;

/// Chunks that the scripted provider yields before it lets other tasks run.
pub const SCRIPT_BURST: u32 = 256;

/// Appends that wait for the writing thread: two batches. Each holds a request or a turn up, so that
/// there is seldom more than one for a session that works. The queue is allocated as a whole: a larger
/// one would be felt at the start.
pub const COMMIT_QUEUE: usize = 1024;

/// Appends that are written and synced together. More would only make the first one wait.
pub const COMMIT_BATCH: usize = 512;

/// Pause after which relaxed durability puts on disk what it acknowledged: what a power failure may
/// cost, at most.
pub const RELAXED_SYNC: Duration = Duration::from_secs(1);

/// Largest file of a session that is opened (4 GiB). A year of the busiest session is far smaller; the
/// whole of it is held while it is read.
pub const JOURNAL_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Bytes that a fork writes at a time (1 MiB).
pub const FORK_PART_BYTES: usize = 1024 * 1024;

/// Threads that read one session's file. More would only wait for memory.
pub const READING_THREADS: usize = 4;

/// Bytes of lines from which on a thread of its own is worth its start (256 KiB, about a millisecond).
pub const READING_PART_BYTES: usize = 256 * 1024;

/// Bytes at either end of a session's file that a listing reads (16 KiB): the header and the first
/// exchange, and what was last said and named.
pub const LISTING_BYTES: u64 = 16 * 1024;

/// Characters of a first message that a listing keeps.
pub const LISTING_TEXT: usize = 200;

/// Characters of a session's name: a line on a screen.
pub const NAME_CHARS: usize = 200;

/// Longest text that sessions are searched for, in bytes: what a person types. Each word costs a look into the index.
pub const SEARCH_QUERY_BYTES: usize = 1024;

/// Most sessions that a search answers with.
pub const SEARCH_HITS: usize = 200;

/// Bytes of one message's text that are searched (256 KiB). What is longer is a tool's output.
pub const SEARCH_TEXT_BYTES: usize = 256 * 1024;

/// Bytes of messages that one page carries, from its second message on (1 MiB): what a frontend draws
/// at once, and far below the longest line.
pub const PAGE_BYTES: usize = 1024 * 1024;

/// Bytes of messages that a page carries where the client named its length (8 MiB): half the longest
/// line.
pub const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Longest note that is remembered, in bytes (16 KiB). It is shown to a model whole or not at all.
pub const NOTE_BYTES: usize = 16 * 1024;

/// Notes that are kept for one project. A search reads all of them.
pub const NOTES: usize = 10_000;

/// Bytes of a project's notes that are read (256 MiB): as many notes as may be kept, and what was removed.
pub const NOTES_BYTES: u64 = 256 * 1024 * 1024;

/// Bytes of notes that a system prompt holds, at most (8 KiB, about 2,000 tokens).
pub const PROMPT_NOTES_BYTES: usize = 8 * 1024;

/// Part of a model's window that notes may take: of 10 tokens, one byte, which is a fortieth.
pub const PROMPT_NOTES_SHARE: u64 = 10;

/// Idempotency keys that a session remembers. A client repeats a request within moments, not after
/// hundreds of others.
pub const IDEMPOTENCY_KEYS: usize = 256;

/// Most values in one line of a client's. The longest requests in use have some hundreds: a prompt of
/// megabytes, an image, a query are one string each. A value takes 24 bytes and what it points at, so that
/// the most that a line can be made to take, beside its own length, is some 10 MB.
pub const MAX_FRAME_VALUES: usize = 100_000;

/// Longest EQL query, in bytes (256 KiB). A query that a person or a program writes has a few KiB.
pub const MAX_QUERY_BYTES: usize = 256 * 1024;

/// Deepest nesting of joins in a query, and of what recursion may unfold. Deeper data than this is asked
/// for in steps.
pub const MAX_QUERY_DEPTH: usize = 64;

/// Values that one query may gather before it is ended: some hundred MB at most.
pub const MAX_QUERY_VALUES: usize = 2_000_000;

/// Memory that the answer of one query may take (64 MiB): four of the longest lines, since a value takes more room
/// in memory than on the wire.
pub const QUERY_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Memory that the answers of all queries may take together (256 MiB): those of four clients that ask for the most
/// at the same time.
pub const QUERIES_BYTES: usize = 4 * QUERY_BYTES;

/// How long one query may take, in milliseconds. A frontend that asks on every keystroke has given up
/// long before.
pub const QUERY_MILLIS: u64 = 5_000;

/// Parsed queries that are kept for the next time, with their plans. A frontend has some dozens.
pub const QUERY_CACHE: usize = 256;

/// Longest query that is kept for the next time, in bytes (8 KiB).
pub const QUERY_CACHE_BYTES: usize = 8 * 1024;

/// Plans that one level of a query keeps: one for each kind of entity that it meets.
pub const QUERY_PLANS: usize = 16;

/// Most entries under `:missing` and `:errors` of one answer: enough to see what is wrong.
pub const QUERY_FAILURES: usize = 256;

/// Sessions on disk that a query lists unless it says `:limit`.
pub const QUERY_SESSIONS: usize = 10_000;

/// Records of answered questions that a query lists unless it says `:limit`: some screens.
pub const AUDIT_RECORDS: usize = 100;

/// Characters of a client's name that an audit record keeps: any real name, and no line of a megabyte.
pub const AUDIT_NAME_CHARS: usize = 100;

/// How far back into the audit file a query reads, in bytes (4 MiB): some ten thousand records.
pub const AUDIT_READ_BYTES: u64 = 4 * 1024 * 1024;

/// How long after a signal that asks for the end another one is the same wish: a terminal that is closed sends
/// one, and so does its shell.
pub const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Lines of the log that wait for standard error to be read. What comes beyond is counted and left out.
pub const LOG_LINES: usize = 1024;

/// How long the end of the program waits for the log to be read.
pub const LOG_END_WAIT: Duration = Duration::from_millis(200);

/// Pause before a further connection is taken, where the process or the system is out of what one needs.
/// Others must be able to end meanwhile.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a client's name, and of its version, that are kept for the graph. What a person reads in a list;
/// a client may send a line of any length.
pub const CLIENT_NAME_BYTES: usize = 128;

/// Sessions in a list whose length the client did not name: some 300 KB, more than a person looks through.
pub const LISTED_SESSIONS: usize = 1_000;

/// Most clients on one process's socket, beside the editor. Each costs two threads; the goal is two hundred.
pub const MAX_CONNECTIONS: usize = 256;

/// Inputs that the REPL keeps across runs.
pub const REPL_HISTORY: usize = 2_000;

/// Events that wait in the REPL to be shown. What comes faster than a terminal shows it is left out.
pub const REPL_EVENTS: usize = 1_024;

/// Largest file of a configuration, of its rules or of its trusted folders (1 MiB). Those in use have a few KB.
pub const CONFIG_BYTES: u64 = 1024 * 1024;

/// Rules that one file may have. Each is tried for every call.
pub const RULES: usize = 1000;

/// Bytes of a repository's `HEAD`, or of a file that says where the repository is, that are read.
pub const GIT_FILE_BYTES: u64 = 4 * 1024;

/// Symbolic links that one path may go through: what Linux itself follows.
pub const PATH_LINKS: usize = 40;

/// Bytes of a tool's output that its result shows, to the person and to the model (48 KiB): about 12,000
/// tokens. The rest is kept under a handle.
pub const TOOL_RESULT_BYTES: usize = 48 * 1024;

/// Bytes of a running tool's output that a `tool/update` shows. From the wire contract.
pub const TOOL_EXCERPT_BYTES: usize = 8 * 1024;

/// Pause between two `tool/update` of one call: ten a second, from the wire contract.
pub const TOOL_UPDATE_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of one output that are kept on disk (256 MiB). More is a runaway, and would fill the disk.
pub const KEPT_OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// Bytes that are read from a command at a time: what a pipe holds.
pub const PROCESS_READ_BYTES: usize = 64 * 1024;

/// How long a command that is ended may take to end by itself.
pub const PROCESS_GRACE: Duration = Duration::from_millis(300);

/// How long a runner kills what is below it, which may start others meanwhile, or be another user's.
pub const RUNNER_PATIENCE: Duration = Duration::from_secs(2);

/// Pause between two rounds of that: a process that was killed takes a moment to go.
pub const RUNNER_PAUSE: Duration = Duration::from_millis(2);

/// Entries of one folder that a sandbox names one by one, because something in it is kept from commands.
/// What is beyond is kept from them too.
pub const SANDBOX_ENTRIES: usize = 4096;

/// How many parents of a process are looked at. Few have more than twenty.
pub const LINEAGE_DEPTH: usize = 4096;

/// How often the parents of a process are looked at anew because one of them has ended meanwhile.
pub const LINEAGE_LOOKS: usize = 8;

/// How long a command of the model's may take without a time-out of its own, in seconds.
pub const BASH_SECONDS: u64 = 120;

/// The longest time-out that a command may ask for, in seconds (one hour). What takes longer runs in the
/// background.
pub const BASH_MAX_SECONDS: u64 = 3600;

/// Largest file that the tools read or change as a whole, in bytes (16 MiB).
pub const TOOL_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Replacements that one `edit` may hold. A change of more places is a program's work, and each place costs two looks
/// through the whole file.
pub const EDITS: usize = 1000;

/// How often `edit` begins anew because somebody else has changed the file between its reading and its replacing.
pub const EDIT_ATTEMPTS: u32 = 5;

/// How long a file that is to be replaced waits for the one name that new contents have in its folder. Another process
/// holds it for as long as its disk takes to write.
pub const FILE_NAME_PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two looks whether that name is free: what a rename takes.
pub const FILE_NAME_PAUSE: Duration = Duration::from_millis(1);

/// How long a call that is ended while its file is put in place waits for the outcome. Below the 100 ms in which an
/// abort is heard.
pub const PLACING_GRACE: Duration = Duration::from_millis(50);

/// Largest image that `read` shows to the model, in bytes (5 MiB): what hosted models take.
pub const TOOL_IMAGE_BYTES: u64 = 5 * 1024 * 1024;

/// Lines that `read` shows without a `:limit`.
pub const READ_LINES: usize = 2000;

/// Longest line that `read`, `search` and a diff show, in bytes. Longer ones are data, not text.
pub const TOOL_LINE_BYTES: usize = 2000;

/// Matches that one `search` or `find` returns. A person or a model that needs more needs a narrower one.
pub const SEARCH_MATCHES: usize = 1000;

/// Longest glob, in bytes, and longest line of an ignore file that is used: what a path may have on Linux.
pub const GLOB_BYTES: usize = 4 * 1024;

/// Groups in braces that one glob may have. Reading a glob recurses for each that is open; a person writes two.
pub const GLOB_GROUPS: usize = 16;

/// Bytes of one ignore file that are read (256 KiB), by whole lines. The longest in use have some 20 KB.
pub const IGNORE_BYTES: u64 = 256 * 1024;

/// Lines of one ignore file that are used: each becomes a part of one automaton.
pub const IGNORE_LINES: usize = 5_000;

/// Entries of one folder that a walk looks at. They are sorted, so all their names are held.
pub const FOLDER_ENTRIES: usize = 100_000;

/// How deep a walk goes: it holds a descriptor for each folder on the way.
pub const WALK_DEPTH: usize = 64;

/// Largest file that `search` looks into (256 MiB). A larger one is data, and takes seconds.
pub const SEARCH_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Memory that `search` takes for the lines of one file (8 MiB). A file with a longer line is left out.
pub const SEARCH_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Memory of the automaton of one search's pattern (2 MiB). A larger one takes longer for a part of a file than an
/// abort may wait.
pub const SEARCH_PATTERN_BYTES: usize = 2 * 1024 * 1024;

/// Nesting of a search's pattern: reading it recurses.
pub const SEARCH_PATTERN_DEPTH: u32 = 64;

/// Tool calls of one answer that run side by side. From the execution model.
pub const PARALLEL_TOOLS: usize = 4;

/// Tool calls that one answer may hold. More is a model that has lost its way.
pub const ANSWER_TOOL_CALLS: usize = 128;

/// Model calls of one turn. A turn that needs more goes in circles.
pub const TURN_ROUNDS: u32 = 500;

/// Messages that wait for a session's turn, or for its end.
pub const QUEUED_MESSAGES: usize = 64;

/// How often a failed model call is tried again.
pub const RETRY_ATTEMPTS: u32 = 5;

/// The pause before the first retry, in milliseconds; it doubles with each.
pub const RETRY_FIRST_MS: u64 = 1000;

/// The longest pause before a retry, in milliseconds. A provider that asks for more is not waited for.
pub const RETRY_MAX_MS: u64 = 120_000;

/// Tokens that are kept free for the answer, or a quarter of the window if that is less. From the runtime's
/// design.
pub const COMPACT_RESERVE_TOKENS: u64 = 16_384;

/// Tokens of the newest messages that a compaction keeps, or a quarter of the window if that is less.
pub const COMPACT_KEEP_TOKENS: u64 = 20_000;

/// Bytes of one message that the model that summarises is shown. A tool's output is rarely worth more.
pub const COMPACT_MESSAGE_BYTES: usize = 4000;

/// Questions of a process that wait for an answer. Each holds a turn up, which asks one at a time.
pub const OPEN_QUESTIONS: usize = 1024;

/// Questions whose end is remembered, so that a late answer is told so.
pub const CLOSED_QUESTIONS: usize = 1024;

/// Hooks of a configuration. Each costs a process at its boundary.
pub const HOOKS: usize = 64;

/// How long a hook may take without a time-out of its own, in milliseconds. A person waits for it.
pub const HOOK_MS: u64 = 10_000;

/// The longest time-out that a hook may ask for, in milliseconds (ten minutes).
pub const HOOK_MAX_MS: u64 = 600_000;

/// Bytes of a hook's answer that are taken (4 MiB): the longest answer of a model, which it may rewrite.
pub const HOOK_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of what a hook writes to standard error that are kept for the message (4 KiB).
pub const HOOK_STDERR_BYTES: usize = 4 * 1024;

/// Sessions that may stand above each other: a subagent's subagent's subagent is the last.
pub const SUBAGENT_DEPTH: u32 = 3;

/// Bytes of a task that is delegated (64 KiB): it is written by a model.
pub const MAX_CHILD_TASK_BYTES: usize = 64 * 1024;

/// Largest file of a workflow, in bytes (256 KiB).
pub const WORKFLOW_BYTES: usize = 256 * 1024;

/// Files of workflows that are read from one folder.
pub const WORKFLOWS: usize = 200;

/// Stages of a workflow, a group counting as one.
pub const WORKFLOW_STAGES: usize = 64;

/// Stages of one group. Each is a session that asks a model.
pub const WORKFLOW_SIBLINGS: usize = 8;

/// Steps that one run takes. One that takes more goes in circles.
pub const WORKFLOW_STEPS: u32 = 200;

/// Bytes of a stage's body before its places are filled in (64 KiB).
pub const STAGE_TEMPLATE_BYTES: usize = 64 * 1024;

/// Attempts that a stage may make.
pub const STAGE_ATTEMPTS: u32 = 10;

/// Model calls of one act, unless its stage says less.
pub const STAGE_TURNS: u32 = 50;

/// How long a gate's or an assertion's command may take without a time-out of its own, in milliseconds: a
/// project's tests take minutes.
pub const WORKFLOW_CHECK_MS: u64 = 300_000;

/// Bytes of what a stage's gate wrote that the stage is told (48 KiB), from its beginning: as much as a tool's
/// result.
pub const STAGE_GATE_BYTES: usize = TOOL_RESULT_BYTES;

/// Bytes of a failed assertion's output that the next attempt is told (4 KiB), from its end.
pub const STAGE_OUTPUT_BYTES: usize = 4 * 1024;

/// Files that trust in a project covers: its configuration, workflows and what its hooks name.
pub const TRUSTED_FILES: usize = 1000;

/// Bytes of a file that trust covers (16 MiB): a script or a small program. Each is read whole, to be compared.
pub const TRUSTED_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Background jobs of a session that run at the same time.
pub const RUNNING_JOBS: usize = 16;

/// Background jobs of a session that are remembered after their end.
pub const ENDED_JOBS: usize = 100;
/// Choices that frontends were asked for and have not answered. A person makes one at a time.
pub const MAX_FRONTEND_ACTIONS: usize = 64;

/// Messages that `/history` shows: a page of a terminal or two.
pub const HISTORY_MESSAGES: usize = 100;

/// How long a connection to a server may take to be made.
pub const HTTP_CONNECT: Duration = Duration::from_secs(30);

/// How long a connection that nobody uses is kept for the next call.
pub const HTTP_KEEP: Duration = Duration::from_secs(90);

/// How long a server may say nothing before it counts as lost (five minutes). Models that think without showing
/// it, and small machines that read a long prompt, are silent for minutes.
pub const HTTP_IDLE: Duration = Duration::from_secs(300);

/// How many times as long a server may give nothing but signs of life (half an hour): a model may think for
/// long, and a queue may be long.
pub const HTTP_QUIET_TIMES: u32 = 6;

/// Bytes of signs of life that are taken (20 MiB): two of the longest events, which say nothing before they
/// are there in full.
pub const HTTP_QUIET_BYTES: usize = 2 * SSE_EVENT_BYTES;

/// How long what follows an answer's end is waited for, so that its connection can be used again.
pub const HTTP_DRAIN: Duration = Duration::from_secs(2);

/// Bytes of a refusal, or of an answer with tokens, that are read (64 KiB).
pub const HTTP_ERROR_BYTES: usize = 64 * 1024;

/// Longest event of a stream, in bytes (10 MiB): the longest answer, with room for escapes.
pub const SSE_EVENT_BYTES: usize = 10 * 1024 * 1024;

/// Longest answer that a hosted model is asked for beside its thinking, in tokens. What it could say beyond
/// that would have to fit into the window beside the conversation.
pub const HOSTED_ANSWER_TOKENS: u32 = 32_000;

/// How long a command that prints a key may take, in seconds: a person may have to unlock something.
pub const KEY_COMMAND_SECONDS: u64 = 60;

/// Bytes that a command which prints a key is read for.
pub const KEY_BYTES: u64 = 64 * 1024;

/// Bytes of the file of credentials that are read (1 MiB): a few hundred logins.
pub const CREDENTIALS_BYTES: u64 = 1024 * 1024;

/// How long before its end a login's token is renewed: longer than a call takes to begin.
pub const TOKEN_EARLY: Duration = Duration::from_secs(60);

/// How long a server that gives tokens may take to answer.
pub const TOKEN_PATIENCE: Duration = Duration::from_secs(30);

/// How long a person may take to log in (ten minutes, which most servers give too).
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(600);

/// How long a browser may take to ask for the page after a login.
pub const CALLBACK_PATIENCE: Duration = Duration::from_secs(10);

/// Browsers that are served at once after a login. Browsers open a few connections ahead and say nothing on them;
/// when there are more, the oldest is hung up on, so that idle ones of another program hold nobody up.
pub const CALLBACK_BROWSERS: usize = 32;

/// Longest head of a browser's request, in bytes.
pub const CALLBACK_HEAD_BYTES: usize = 16 * 1024;

/// Folders whose instructions, skills and templates are kept in memory. A process serves a few.
pub const CONTEXT_PROJECTS: usize = 64;

/// Bytes of one file of instructions that are read (32 KiB, about 8,000 tokens).
pub const INSTRUCTIONS_BYTES: u64 = 32 * 1024;

/// Bytes of all instructions that a system prompt holds (64 KiB), or a quarter of the model's window if that
/// is less.
pub const PROMPT_INSTRUCTIONS_BYTES: usize = 64 * 1024;

/// Skills that are found for one folder. The model is told of each in a line.
pub const SKILLS: usize = 200;

/// Largest `SKILL.md`, in bytes (64 KiB). The long part of a skill stands in files beside it.
pub const SKILL_BYTES: u64 = 64 * 1024;

/// Longest description of a skill, in bytes. From the format's specification.
pub const SKILL_DESCRIPTION_BYTES: usize = 1024;

/// Bytes of the list of skills that a system prompt holds (16 KiB).
pub const PROMPT_SKILLS_BYTES: usize = 16 * 1024;

/// Prompt templates that are found for one folder.
pub const TEMPLATES: usize = 200;

/// Largest prompt template, in bytes (64 KiB).
pub const TEMPLATE_BYTES: u64 = 64 * 1024;

/// Longest text that a template may become with its arguments (1 MiB).
pub const EXPANSION_BYTES: usize = 1024 * 1024;

/// Files that one message may refer to. A person names a few.
pub const REFERENCES: usize = 20;

/// Names that are looked up on the disk for one message. A text may have an `@` in every word, and a name may have
/// to be tried without the punctuation behind it.
pub const REFERENCE_LOOKUPS: usize = 200;

/// Bytes of all those names together (64 KiB): each folder in a name is a look at the disk.
pub const REFERENCE_LOOKUP_BYTES: usize = 64 * 1024;

/// Longest name behind an `@`, in bytes: what Linux takes for a path.
pub const REFERENCE_BYTES: usize = 4096;

/// Bytes of files that are attached to one message (192 KiB), or a quarter of the model's window if that is
/// less.
pub const REFERENCES_BYTES: usize = 192 * 1024;

/// Longest path that an editor tells, in bytes: what Linux takes.
pub const EDITOR_PATH_BYTES: usize = 4096;

/// Bytes of a selection that the model is shown (8 KiB): some screens full. It can read the rest.
pub const EDITOR_TEXT_BYTES: usize = 8 * 1024;
