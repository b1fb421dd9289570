//! The tool calls of one answer: judged and asked about in order, run side by side, answered in order. What a
//! person is asked about them is in `asking`.

mod asking;
mod delegate;
mod diagnostics;
mod jobs;
pub mod web_search;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::catalogue::tools::ToolRow;
use crate::crash;
use crate::engine::change::Change;
use crate::engine::client_files::{Closed, Seen};
use crate::engine::execution;
use crate::engine::interrupted::UnendedTurn;
use crate::engine::native::gate;
use crate::engine::native::hooks::Boundaries;
use crate::engine::native::loops;
use crate::engine::native::proposal::proposed;
use crate::engine::native::texts;
use crate::engine::native::turn::Turn;
use crate::engine::stage::{Point, Stage};
use crate::event::question::QuestionKind;
use crate::event::{Body, Event, FileEdit, ToolCall, ToolOutput};
use crate::limits::{DIAGNOSTICS_TIME, NOTING, PARALLEL_TOOLS};
use crate::message::{Block, EntryId, Message, Role, SessionId, TurnId, image};
use crate::runner::sandbox::Sandbox;
use crate::secret;
use crate::session::{ApiError, ToolOutcome};
use crate::sha256;
use crate::store::EntryBody;
use crate::store::record::{CallRecord, FileChange, FilesEvent, FilesRecord};
use crate::telemetry::Work;
use crate::tool::command_environment;
use crate::tool::output::Outputs;
use crate::tool::permission::{Access, Verdict};
use crate::tool::process;
use crate::tool::round_budget::{self, RoundBudget};
use crate::tool::undo::Texts;
use crate::tool::{
    self, CallError, Changing, Context, Outcome, Plan, Proposal, Revision, Site, Telling, Tool, UNKNOWN,
    Writer,
};
use crate::value::{Map, Value};

/// The last change that a call has noted.
type LastEdit = Arc<std::sync::Mutex<Option<Arc<FileEdit>>>>;

/// How the calls of an answer ended.
#[derive(Debug, Clone)]
pub enum CallsEnd {
    /// All have a result; the model is asked again.
    Answered,
    /// Those that ran have one. The others have not begun: another process continues them.
    HandedOver,
    /// A decision of a person was needed, and nobody is there: the turn ends with this message.
    Halted(String),
    /// The results could not be written.
    Lost(ApiError),
}

/// What the calls of one answer share.
pub struct Batch<'t> {
    pub(super) turn: &'t Turn,
    cwd: Arc<Path>,
    /// Who asks the person: one call at a time.
    asking: Mutex<()>,
    /// Those that run.
    slots: Semaphore,
    /// Those that are looked at: each may wait for a client on a thread of its own.
    looks: Semaphore,
    /// Why no further call is started, if so.
    halted: OnceLock<String>,
    /// Cancelled when a call halts the turn.
    halt: CancellationToken,
    /// Whether the journal says what becomes of its calls.
    is_journalled: bool,
    /// What is known of the calls from the process before this one, if that was killed.
    unended: Option<Arc<UnendedTurn>>,
    /// Whether clients see its calls: those that serve somebody else's call are not shown beside it.
    is_shown: bool,
    /// What a person has allowed already, as part of what somebody else asked.
    permitted: Option<Plan>,
    /// Who replaces texts.
    writer: Writer,
    /// The editors that each call need not ask again.
    closed: std::sync::Mutex<HashMap<Arc<str>, Arc<Closed>>>,
    /// How long its calls may still wait for diagnostics, in all.
    diagnostics_time: std::sync::Mutex<Duration>,
}

/// Runs one call that no model has made: judged and asked about like any, and shown, but not written.
pub async fn alone(turn: &Turn, call: ToolCall) -> ToolOutcome {
    let (call, outcome) = single(turn, Batch::new(turn, false, None), call).await;
    let output = output_of(call, outcome);
    let told = ToolOutcome {
        text: output.text.to_string(),
        is_error: output.is_error,
        details: output.details.clone(),
    };
    turn.publish(Body::ToolResult(Arc::new(output))).await;
    told
}

/// Runs one call of ours that serves an agent's: judged and asked about like any, but neither shown nor written. A
/// person has allowed what is `permitted` as part of the agent's call.
pub async fn served(turn: &Turn, call: ToolCall, permitted: Option<Plan>) -> Outcome {
    let writer = if permitted.is_some() { Writer::PermittedAgent } else { Writer::Agent };
    let batch = Batch { is_shown: false, permitted, writer, ..Batch::new(turn, false, None) };
    single(turn, batch, call).await.1
}

/// Runs the only call of a batch, as the transforms leave it.
async fn single(turn: &Turn, mut batch: Batch<'_>, call: ToolCall) -> (Arc<ToolCall>, Outcome) {
    let call = Arc::new(batch.transformed(call).await);
    let (mut tool, mut plan) = batch.looked_at(&call).await;
    // It would do something else than was permitted: it is a call like any.
    if batch.permitted.is_some()
        && batch.permitted.as_ref() != plan.as_ref().and_then(|plan| plan.as_ref().ok())
    {
        (batch.permitted, batch.writer) = (None, Writer::Agent);
        (tool, plan) = batch.looked_at(&call).await;
    }
    let (call, outcome) = batch.one(call, tool, plan, Places { asking: None, file: None }).await;
    note_files(turn, &call, &outcome).await;
    (call, outcome)
}

/// Notes what became of a call's change of a file, where nothing else in the journal tells how the call ended.
async fn note_files(turn: &Turn, call: &Arc<ToolCall>, outcome: &Outcome) {
    let event = match outcome.is_error {
        _ if is_uncertain(outcome) => FilesEvent::Unknown,
        true => FilesEvent::Unchanged,
        false => FilesEvent::Changed,
    };
    if let Some(edit) = &outcome.edit
        && let Err(error) = turn.write(vec![files_entry(turn, call, event, edit)]).await
    {
        tracing::warn!(%error, "the journal does not say how a call ended");
    }
}

/// A result, for events.
fn output_of(call: Arc<ToolCall>, outcome: Outcome) -> ToolOutput {
    let duration_ms = millis(&outcome);
    let details = if outcome.details.is_empty() { Value::Nil } else { Value::from(outcome.details) };
    let edit = outcome.edit.filter(|_| !outcome.is_error);
    ToolOutput { call, text: outcome.text.into(), is_error: outcome.is_error, details, duration_ms, edit }
}

/// How long a call ran.
fn millis(outcome: &Outcome) -> Option<u64> {
    outcome.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}

/// Runs the calls, writes and shows each result in the order of the calls.
pub async fn run_calls(turn: &Turn, calls: Vec<ToolCall>, unended: Option<Arc<UnendedTurn>>) -> CallsEnd {
    let batch = Batch::new(turn, true, unended);
    turn.recent_calls().begin_answer();
    // Looked at all at once, so that it is known who has to ask before the first one does.
    let looked_at = calls.into_iter().map(|call| async {
        let call = Arc::new(batch.transformed(call).await);
        let (tool, plan) = batch.looked_at(&call).await;
        (call, tool, plan)
    });
    let looked_at = futures_util::future::join_all(looked_at).await;
    let mut before = None;
    let mut changes: HashMap<PathBuf, oneshot::Receiver<()>> = HashMap::new();
    let mut results = FuturesUnordered::new();
    for (number, (call, tool, plan)) in looked_at.into_iter().enumerate() {
        let asks = match &plan {
            _ if !batch.is_of_stage(&call) => true,
            Some(Ok(plan)) => matches!(batch.judge(&call, plan), Verdict::Ask(_)),
            Some(Err(_)) => false,
            None => matches!(&*call.name, tool::ASK_USER | tool::DELEGATE),
        };
        let place = asks.then(|| {
            let (done, next) = oneshot::channel();
            QueuePlace { before: before.replace(next), _done: done }
        });
        // Calls that change one file do so in the order of the calls.
        let file = match &plan {
            Some(Ok(Plan { access: Access::Write(path), .. })) => {
                let (done, next) = oneshot::channel();
                Some(QueuePlace { before: changes.insert(path.clone(), next), _done: done })
            }
            _ => None,
        };
        let result = batch.one(call, tool, plan, Places { asking: place, file });
        results.push(result.map(move |result| (number, result)));
    }
    let (mut lost, mut is_handed_over) = (None, false);
    let window = turn.session.snapshot().facts.context_window;
    let mut budget = RoundBudget::new(window, results.len());
    // The results that came before their turn.
    let (mut ended, mut next) = (BTreeMap::new(), 0usize);
    loop {
        tokio::select! {
            biased;
            result = results.next() => {
                let Some((number, result)) = result else { break };
                ended.insert(number, result);
            }
            () = batch.handed_over() => {
                is_handed_over = true;
                break;
            }
        }
        while let Some((call, outcome)) = ended.remove(&next) {
            next = next.saturating_add(1);
            let outcome = within(turn, &mut budget, outcome).await;
            if let Err(error) = settle(turn, call, outcome).await {
                lost.get_or_insert(error);
            }
        }
    }
    // Those that are asked about or wait have done nothing.
    drop(results);
    if is_handed_over {
        for (call, outcome) in ended.into_values() {
            let outcome = within(turn, &mut budget, outcome).await;
            if let Err(error) = settle(turn, call, outcome).await {
                lost.get_or_insert(error);
            }
        }
        turn.shared.questions.hand_over(&turn.session.id);
    }
    if lost.is_none() && !is_handed_over && batch.halted.get().is_none() {
        batch.asks_about_loop().await;
    }
    match (lost, batch.halted.into_inner()) {
        (Some(error), _) => CallsEnd::Lost(error),
        (None, Some(why)) => CallsEnd::Halted(why),
        (None, None) if is_handed_over => CallsEnd::HandedOver,
        (None, None) => CallsEnd::Answered,
    }
}

/// The outcome with what the round's budget leaves of its text.
async fn within(turn: &Turn, budget: &mut RoundBudget, outcome: Outcome) -> Outcome {
    let Some(share) = budget.limit_for(&outcome) else { return outcome };
    let outputs = Outputs::new(&turn.shared.settings.state_dir, turn.session.id.as_str());
    let handle = turn.shared.clock.id("o-");
    let shorten = move || round_budget::shorten(outcome, share, &outputs, handle);
    tokio::task::spawn_blocking(shorten).await.unwrap_or_else(|_| Outcome::failed(CallError::Broken))
}

/// Whether a session's folder is where it was. A command may exchange it for a link where the folder above is the
/// temporary one, or another session's: what lies behind the link is no workspace.
fn stands(cwd: &Path) -> Result<(), CallError> {
    match cwd.canonicalize() {
        Ok(real) if real != cwd => Err(CallError::Moved { folder: cwd.to_owned(), leads_to: real }),
        _ => Ok(()),
    }
}

/// Takes out the images of a result that no model could read: in the conversation they would make it be refused.
fn check_images(outcome: &mut Outcome) {
    let images = std::mem::take(&mut outcome.images);
    for image in images {
        match image {
            Block::Image { data, .. } => match image::checked(&data) {
                Ok(found) => outcome.images.push(Block::Image { mime_type: found.into(), data }),
                Err(error) => {
                    outcome.is_error = true;
                    outcome.text.push_str(&format!("\n[an image is left out: {error}]"));
                }
            },
            other => outcome.images.push(other),
        }
    }
}

/// Writes a result, then shows it.
pub async fn settle(turn: &Turn, call: Arc<ToolCall>, mut outcome: Outcome) -> Result<(), ApiError> {
    check_images(&mut outcome);
    if ToolRow::of(&call.name).is_some_and(ToolRow::shows_file)
        && let Some(path) = outcome.details.get_keyword("path").and_then(Value::as_str)
    {
        turn.touches(path);
    }
    if turn.recent_calls().note(&call, &outcome) {
        outcome.add_line(loops::HINT);
    }
    let mut content = vec![Block::Text(outcome.text.as_str().into())];
    content.append(&mut outcome.images);
    let mut message = Message::new(EntryId::from(""), Role::Tool, content, Arc::from(""));
    message.turn_id = Some(turn.id.clone());
    message.tool_call_id = Some(call.id.clone());
    message.tool_name = Some(call.name.clone());
    message.is_error = Some(outcome.is_error);
    crash::point("result-made");
    // So that a history shows what was shown when the call ended.
    message.details = (!outcome.details.is_empty()).then(|| Value::from(outcome.details.clone()));
    message.duration_ms = millis(&outcome);
    let mut entries = Vec::new();
    // Before the message, which says of a success that the file is changed.
    if let Some(edit) = outcome.edit.as_ref().filter(|_| is_uncertain(&outcome)) {
        entries.push(files_entry(turn, &call, FilesEvent::Unknown, edit));
    }
    entries.push(EntryBody::Message(Arc::new(message)));
    let written = turn.write(entries).await;
    let mut event = turn.event(Body::ToolResult(Arc::new(output_of(call, outcome))));
    event.entry = written.as_ref().ok().and_then(|entries| entries.last().map(|entry| entry.id.clone()));
    turn.deliver(event).await;
    written.map(|_| ())
}

/// Whether nobody knows if the file on disk is changed.
fn is_uncertain(outcome: &Outcome) -> bool {
    outcome.details.get_keyword(UNKNOWN).is_some()
}

/// The entry of a change whose outcome no result tells.
fn files_entry(turn: &Turn, call: &ToolCall, event: FilesEvent, edit: &FileEdit) -> EntryBody {
    let digest = |bytes: &[u8]| sha256::hex(bytes);
    file_change(&turn.session.id, &turn.id, &call.id, event, edit, digest)
}

/// The entry of a call's change of a file, which names the contents by their digests.
fn file_change(
    session: &SessionId,
    turn: &TurnId,
    call: &Arc<str>,
    event: FilesEvent,
    edit: &FileEdit,
    digest: impl Fn(&[u8]) -> String,
) -> EntryBody {
    let change = FileChange {
        path: edit.path.to_string_lossy().into_owned(),
        before: edit.old_bytes().map(&digest),
        after: Some(digest(edit.new_bytes())),
        mode: None,
    };
    EntryBody::Files(Box::new(FilesRecord {
        session_id: session.clone(),
        turn_id: turn.clone(),
        call_id: Some(call.clone()),
        event,
        files: vec![change],
    }))
}

/// Notes the change of a file before it is made, so that it can be undone however the process ends. Keeps the texts. For
/// a thread that may block.
fn changing(turn: &Turn, call: &ToolCall, outputs: &Outputs, noted: LastEdit) -> Arc<Changing> {
    let (session, turn, call) = (turn.session.clone(), turn.id.clone(), call.id.clone());
    let texts = Texts::beside(outputs);
    let runtime = tokio::runtime::Handle::current();
    Arc::new(move |edit| {
        let failed = |why: String| CallError::File { path: edit.path.clone(), action: "written", why };
        // A path that is no UTF-8 cannot be named by a model either.
        if edit.path.to_str().is_none() {
            return Ok(());
        }
        let keep = |bytes: &[u8]| texts.keep(bytes);
        let entries = vec![file_change(&session.id, &turn, &call, FilesEvent::Changing, edit, keep)];
        let written = session.request(|ack| Change::Append { entries, ack });
        // Bounded, since an undo in the session may wait for the file.
        match runtime.block_on(tokio::time::timeout(NOTING, written)) {
            Ok(written) => drop(written.map_err(|error| failed(error.message))?),
            Err(_) => return Err(failed("the session was busy for too long".to_owned())),
        }
        crash::point("call-journalled");
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(edit.clone()));
        Ok(())
    })
}

/// Passes on events of a call that go to single clients.
fn telling(turn: &Turn, call: &Arc<ToolCall>) -> Arc<Telling> {
    turn.session.telling(turn.event(Body::ToolExecuting(call.clone())))
}

/// Whether the guards have voted on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vote {
    /// They have, before a question about it.
    Heard,
    /// They have not.
    ToCome,
}

/// A call that may run.
pub(super) struct Allowed {
    pub(super) plan: Plan,
    /// The text that the person put in place of the proposed one.
    pub(super) revision: Option<Revision>,
    /// Whether a person was asked, which is after the guards have voted.
    pub(super) asked: bool,
}

impl Allowed {
    /// Without a question.
    fn at_once(plan: Plan) -> Self {
        Self { plan, revision: None, asked: false }
    }
}

/// A call's place among those that have to ask, or that change the same file: after the one before, and before the
/// next, which is let go when this is dropped.
pub(super) struct QueuePlace {
    before: Option<oneshot::Receiver<()>>,
    _done: oneshot::Sender<()>,
}

/// The places of one call.
struct Places {
    /// Among those that have to ask.
    asking: Option<QueuePlace>,
    /// Among those that change the same file.
    file: Option<QueuePlace>,
}

impl QueuePlace {
    /// Waits for the call before.
    async fn come_up(&mut self) {
        if let Some(before) = self.before.take() {
            // It never says anything: it is gone when it is done.
            let _ = before.await;
        }
    }
}

impl<'t> Batch<'t> {
    pub fn new(turn: &'t Turn, is_journalled: bool, unended: Option<Arc<UnendedTurn>>) -> Self {
        let cwd = turn.session.snapshot().facts.cwd.clone();
        Self {
            turn,
            cwd: Path::new(&*cwd).into(),
            asking: Mutex::new(()),
            slots: Semaphore::new(PARALLEL_TOOLS),
            looks: Semaphore::new(PARALLEL_TOOLS),
            halted: OnceLock::new(),
            halt: turn.stop.child_token(),
            is_journalled,
            unended,
            is_shown: true,
            permitted: None,
            writer: Writer::Model,
            closed: std::sync::Mutex::default(),
            diagnostics_time: std::sync::Mutex::new(DIAGNOSTICS_TIME),
        }
    }

    /// The files that clients have open, for a call of the turn.
    fn open_files(&self, call: &Arc<ToolCall>, stop: CancellationToken) -> Seen {
        let turn = self.turn;
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        Seen {
            files: turn.shared.client_files.clone(),
            known: turn.session.known.clone(),
            writer: self.writer,
            closed: closed.entry(call.id.clone()).or_default().clone(),
            event: telling(turn, call),
            stop,
            runtime: tokio::runtime::Handle::current(),
        }
    }

    /// Sends clients what a call has changed of the files that they have open.
    async fn followed_by_editors(&self, call: &Arc<ToolCall>, plan: &Plan) {
        let only = match &plan.access {
            Access::Write(path) => Some(path.clone()),
            Access::Run(_) | Access::AtClient { read_only: false } | Access::Call { .. } => None,
            _ => return,
        };
        let event = self.turn.event(Body::ToolExecuting(call.clone()));
        self.turn.session.followed_by_editors(&self.turn.shared.client_files, only, event).await;
    }
}

impl Batch<'_> {
    async fn one(
        &self,
        call: Arc<ToolCall>,
        tool: Option<Arc<dyn Tool>>,
        plan: Option<Result<Plan, CallError>>,
        places: Places,
    ) -> (Arc<ToolCall>, Outcome) {
        let work = Work::tool_call(&call.name, &call.id);
        work.tell("gen_ai.tool.call.arguments", || texts::value(&call.parsed));
        let mut outcome = work.run(self.carry_out(&call, tool, plan, places)).await;
        if let Some(repaired) = self.turn.take_repair(&call.id) {
            outcome.add_line(&format!("[{repaired}]"));
        }
        work.tell("gen_ai.tool.call.result", || outcome.text.clone());
        work.end(outcome.is_error.then_some("tool_error"));
        (call, outcome)
    }

    /// A call as the transforms want it: before it is judged, so that what is allowed is what runs.
    async fn transformed(&self, call: ToolCall) -> ToolCall {
        // A hook cannot change unreadable arguments: a part of them would run.
        if call.parsed.unreadable().is_some() || !self.turn.config().hooks.any_at(Stage::ToolCall, Point::Pre)
        {
            return call;
        }
        let payload =
            Boundaries(self.turn).transforms(Stage::ToolCall, Point::Pre, Some(&call), about(&call)).await;
        match payload.get_keyword("arguments") {
            Some(arguments) if *arguments != *call.parsed => {
                proposed(&self.turn.tools(), call.id, call.name, arguments.clone())
            }
            _ => call,
        }
    }

    /// Lets guards vote on a call, before anybody is asked about it.
    pub(super) async fn voted(&self, call: &ToolCall) -> Result<(), Outcome> {
        if !self.turn.config().hooks.any_at(Stage::ToolCall, Point::Pre) {
            return Ok(());
        }
        match Boundaries(self.turn).guards(Stage::ToolCall, Some(call), &about(call)).await {
            Ok(()) => Ok(()),
            Err(_) if self.turn.stop.is_cancelled() => Err(self.not_run()),
            Err(guard) => {
                let mut outcome = denied(&format!("{guard}."));
                outcome.details.put("hook", guard.hook.to_string());
                Err(outcome)
            }
        }
    }

    /// Lets guards vote on a call that is otherwise allowed, unless they have, and observers see it.
    pub(super) async fn guarded(&self, call: &ToolCall, vote: Vote) -> Result<(), Outcome> {
        if vote == Vote::ToCome {
            self.voted(call).await?;
        }
        if self.turn.config().hooks.any_at(Stage::ToolCall, Point::Pre) {
            Boundaries(self.turn).observers(Stage::ToolCall, Point::Pre, Some(call), &about(call)).await;
        }
        Ok(())
    }

    /// Lets the hooks after a call have its result.
    async fn followed(&self, call: &ToolCall, mut outcome: Outcome) -> Outcome {
        if !self.turn.config().hooks.any_at(Stage::ToolCall, Point::Post) {
            return outcome;
        }
        let payload = about(call).with("result", outcome.text.clone()).with("is-error", outcome.is_error);
        let payload = Boundaries(self.turn).rewrite(Stage::ToolCall, Point::Post, Some(call), payload).await;
        if let Some(text) = payload.get_keyword("result").and_then(Value::as_str) {
            outcome.text = text.to_owned();
        }
        outcome
    }

    async fn carry_out(
        &self,
        call: &Arc<ToolCall>,
        tool: Option<Arc<dyn Tool>>,
        plan: Option<Result<Plan, CallError>>,
        mut places: Places,
    ) -> Outcome {
        // Checked before anybody is asked, and for every kind of tool: a call without known arguments never runs.
        if let Some(unreadable) = call.parsed.unreadable() {
            return Outcome::failed(unreadable.reply());
        }
        if let Some(why) = gate::refusal(self.turn, call) {
            return Outcome::failed(why);
        }
        let granted = match self.grant(call, plan.as_ref(), Vec::new(), &mut places.asking).await {
            Ok(granted) => granted,
            Err(refused) => return refused,
        };
        if let Some(outcome) = self.of_the_engine(call, granted.as_deref(), &mut places.asking).await {
            return outcome;
        }
        let (Some(tool), Some(plan)) = (&tool, plan) else {
            return Outcome::failed(gate::unknown(self.turn, &call.name));
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => return Outcome::failed(self.explained(error).await),
        };
        let Allowed { plan, revision, asked } = match self.allow(tool, call, plan, &mut places).await {
            Ok(allowed) => allowed,
            Err(refused) => return refused,
        };
        let revision = revision.map(Arc::new);
        let vote = match &revision {
            Some(_) => Vote::ToCome,
            None if asked => Vote::Heard,
            None => Vote::ToCome,
        };
        // Hooks see what is written, which may be a person's text.
        let seen = match &revision {
            Some(revision) => &Arc::new(self.revised(tool, call, revision)),
            None => call,
        };
        if let Err(refused) = self.guarded(seen, vote).await {
            return refused;
        }
        let Places { asking, mut file } = places;
        // The next one in line may be asked about while this one runs.
        drop(asking);
        // Before a slot is taken: a call that waits here for another one must not hold the slot that it needs.
        if let Some(file) = &mut file {
            file.come_up().await;
        }
        let Some(_slot) = self.free_slot().await else { return self.not_run() };
        let plan = match self.planned_again(tool, call, plan, revision.is_some()).await {
            Ok(plan) => plan,
            Err(refused) => return refused,
        };
        if let Err(refused) = self.use_grant(call, granted.as_deref()) {
            return refused;
        }
        // A change of a file is noted when it is made.
        if matches!(plan.access, Access::Run(_) | Access::AtClient { read_only: false } | Access::Call { .. })
            && let Err(refused) = self.begins(call).await
        {
            return refused;
        }
        let outcome = self.execute(tool, call, &plan, revision).await;
        self.followed(seen, outcome).await
    }

    /// Why a call cannot be made; of a file that does not exist, with those that may be meant.
    async fn explained(&self, error: CallError) -> CallError {
        let CallError::Missing { path, .. } = &error else { return error };
        let barred = self.barred(tool::READ, &Plan { access: Access::Read(path.clone()), diff: None });
        let (cwd, stop) = (self.cwd.clone(), self.turn.stop.clone());
        let explained = move || tool::explained(error, &cwd, &barred, &stop);
        tokio::task::spawn_blocking(explained).await.unwrap_or(CallError::Broken)
    }

    /// Carries out a call of a tool that the engine is itself; `None` for any other.
    async fn of_the_engine(
        &self,
        call: &Arc<ToolCall>,
        granted: Option<&str>,
        place: &mut Option<QueuePlace>,
    ) -> Option<Outcome> {
        match (&*call.name, &self.turn.execution) {
            (execution::COMPLETE, Some(stage)) => {
                if let Err(refused) = self.guarded(call, Vote::ToCome).await {
                    return Some(refused);
                }
                let outcome = match stage.complete(&call.parsed) {
                    Ok(()) => Outcome::ok("The stage is completed."),
                    Err(wrong) => Outcome::failed(wrong.to_string()),
                };
                Some(self.followed(call, outcome).await)
            }
            (tool::ASK_USER | tool::DELEGATE, _) => {
                if let Err(refused) = self.use_grant(call, granted) {
                    return Some(refused);
                }
                if &*call.name == tool::ASK_USER {
                    return Some(self.ask_user(call, place).await);
                }
                let outcome = self.delegate(call, place).await;
                Some(self.followed(call, outcome).await)
            }
            _ => None,
        }
    }

    /// The plan of a call that was allowed, made again: while the person was asked, or another call ran, the path may have
    /// come to lead elsewhere.
    async fn planned_again(
        &self,
        tool: &Arc<dyn Tool>,
        call: &Arc<ToolCall>,
        allowed: Plan,
        is_revised: bool,
    ) -> Result<Plan, Outcome> {
        let again = self.plan(tool, call).await.map_err(|error| match error {
            // The person's text is not of this file any more.
            CallError::Unread(_) if is_revised => Outcome::failed(CallError::Stale),
            error => Outcome::failed(error),
        })?;
        if again.access == allowed.access {
            return Ok(again);
        }
        Err(Outcome::failed("The path leads elsewhere since the call was allowed; it was not run."))
    }

    /// Notes that a call begins, which may have effects: if the process is killed, it is not run again.
    pub(super) async fn begins(&self, call: &ToolCall) -> Result<(), Outcome> {
        self.turn.may_begin().await;
        if self.turn.stop.is_cancelled() {
            return Err(self.not_run());
        }
        if !self.is_journalled {
            return Ok(());
        }
        let record = CallRecord {
            session_id: self.turn.session.id.clone(),
            turn_id: self.turn.id.clone(),
            call_id: call.id.clone(),
        };
        let written = self.turn.write(vec![EntryBody::Call(record)]).await;
        crash::point("call-journalled");
        written.map(drop).map_err(|error| Outcome::failed(format!("The call was not run: {}", error.message)))
    }

    /// A call with the arguments that would write a person's text.
    fn revised(&self, tool: &Arc<dyn Tool>, call: &ToolCall, revision: &Revision) -> ToolCall {
        let arguments = tool.revised(&call.parsed, revision);
        proposed(&self.turn.tools(), call.id.clone(), call.name.clone(), arguments)
    }

    /// A slot of the calls that run side by side; `None` where no call is started any more.
    pub(super) async fn free_slot(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        let slot = async {
            let slot = self.slots.acquire().await;
            if self.turn.is_handing_over() {
                drop(slot);
                // Until it is dropped with its batch: it begins in another process.
                return std::future::pending().await;
            }
            slot.ok()
        };
        tokio::select! {
            biased;
            () = self.ended() => None,
            slot = slot => slot,
        }
    }

    /// Waits until another process is to continue the turn and none of the calls runs. None begins from then on.
    async fn handed_over(&self) {
        self.turn.handing_over().await;
        let all = u32::try_from(PARALLEL_TOOLS).unwrap_or(u32::MAX);
        if let Ok(slots) = self.slots.acquire_many(all).await {
            slots.forget();
        }
    }

    /// Whether a call needs no grant: there is no stage, its tool is the stage's own, or a person has allowed just this.
    fn is_of_stage(&self, call: &ToolCall) -> bool {
        self.permitted.is_some() || self.turn.execution.as_ref().is_none_or(|stage| stage.allows(&call.name))
    }

    /// The tool of a call, if there is one of its name, and what the call would do.
    async fn looked_at(
        &self,
        call: &Arc<ToolCall>,
    ) -> (Option<Arc<dyn Tool>>, Option<Result<Plan, CallError>>) {
        let Some(tool) = self.turn.tools().find(&call.name) else { return (None, None) };
        if call.parsed.unreadable().is_some() {
            return (Some(tool), None);
        }
        let plan = self.plan(&tool, call).await;
        (Some(tool), Some(plan))
    }

    /// What a call would do. Reads files, so away from the session's threads, and not waited for when the turn is ended.
    async fn plan(&self, tool: &Arc<dyn Tool>, call: &Arc<ToolCall>) -> Result<Plan, CallError> {
        let access = self.access(tool, call).await?;
        if let Some(plan) = access.clone()
            && matches!(self.judge(call, &plan), Verdict::Deny(_))
        {
            return Ok(plan);
        }
        let look = |tool: &dyn Tool, site: Site<'_>, call: &ToolCall| tool.plan(site, &call.parsed);
        let planned = self.look_at(tool, call, access.as_ref(), look).await;
        planned.or_else(|error| self.plan_despite(call, access, error))
    }

    /// The same, with the whole text that the call would give a file.
    async fn propose(
        &self,
        tool: &Arc<dyn Tool>,
        call: &Arc<ToolCall>,
    ) -> Result<(Plan, Option<Proposal>), CallError> {
        let access = self.access(tool, call).await?;
        let look = |tool: &dyn Tool, site: Site<'_>, call: &ToolCall| tool.propose(site, &call.parsed);
        let proposed = self.look_at(tool, call, access.as_ref(), look).await;
        proposed.or_else(|error| Ok((self.plan_despite(call, access, error)?, None)))
    }

    /// What a call would touch, as far as that is known without a look at a file's content.
    async fn access(&self, tool: &Arc<dyn Tool>, call: &Arc<ToolCall>) -> Result<Option<Plan>, CallError> {
        let look =
            |tool: &dyn Tool, site: Site<'_>, call: &ToolCall| tool.access(site, &call.parsed).transpose();
        let access = self.look_at(tool, call, None, look);
        Ok(access.await?.map(|access| Plan { access, diff: None }))
    }

    /// The plan of a call that fails on the file as it is. The error tells what is in the file, so it is returned only to a model
    /// that may read the file unasked; for another one the plan is asked about first.
    fn plan_despite(&self, call: &ToolCall, plan: Option<Plan>, error: CallError) -> Result<Plan, CallError> {
        let Some(Plan { access: Access::Write(path), .. }) = &plan else { return Err(error) };
        let read = ToolCall { name: tool::READ.into(), ..call.clone() };
        match self.judge(&read, &Plan { access: Access::Read(path.clone()), diff: None }) {
            Verdict::Allow => Err(error),
            _ => plan.ok_or(error),
        }
    }

    async fn look_at<T: Send + 'static>(
        &self,
        tool: &Arc<dyn Tool>,
        call: &Arc<ToolCall>,
        judged: Option<&Plan>,
        look: fn(&dyn Tool, Site<'_>, &ToolCall) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let judged = match judged {
            Some(Plan { access: Access::Write(path), .. }) => Some(path.clone()),
            _ => None,
        };
        let (tool, cwd, call, stop) = (tool.clone(), self.cwd.clone(), call.clone(), self.turn.stop.clone());
        let open = self.open_files(&call, stop.clone());
        let Ok(_look) = self.looks.acquire().await else { return Err(CallError::Ended) };
        let planned = tokio::task::spawn_blocking(move || {
            stands(&cwd)?;
            look(
                tool.as_ref(),
                Site { cwd: &cwd, open: &open, stop: &stop, judged: judged.as_deref() },
                &call,
            )
        });
        // A plan may take long, such as that of many edits of a large file.
        tokio::select! {
            biased;
            () = self.turn.stop.cancelled() => Err(CallError::Ended),
            planned = planned => planned.unwrap_or(Err(CallError::Broken)),
        }
    }

    async fn execute(
        &self,
        tool: &Arc<dyn Tool>,
        call: &Arc<ToolCall>,
        plan: &Plan,
        revision: Option<Arc<Revision>>,
    ) -> Outcome {
        let turn = self.turn;
        let facts = turn.session.snapshot().facts.clone();
        let config = turn.config();
        let outputs = Outputs::new(&turn.shared.settings.state_dir, turn.session.id.as_str());
        let sandbox = config.sandbox(facts.mode, &self.cwd, &turn.session.roots());
        let sandbox = sandbox.map(|sandbox| sandbox.showing([outputs.folder().to_owned()]));
        let event = turn.event(Body::ToolExecuting(call.clone()));
        if self.is_shown {
            turn.deliver(event.clone()).await;
        }
        let _running = turn.control.runs(&call.id);
        if call.name.as_ref() == tool::BASH
            && call.parsed.get("background").and_then(Value::as_bool) == Some(true)
            && let Access::Run(run) = &plan.access
        {
            return self.timed(start_job(turn, run.line.clone(), self.cwd.to_path_buf(), sandbox)).await;
        }
        if call.name.as_ref() == tool::JOB {
            return self.timed(jobs::carry_out(turn, &call.parsed, &outputs)).await;
        }
        let progress = {
            let (shared, session, call) = (turn.shared.clone(), turn.session.clone(), call.clone());
            let (event, is_shown) = (event.clone(), self.is_shown);
            move |newest: &str| {
                if !is_shown {
                    return;
                }
                let output = ToolOutput {
                    call: call.clone(),
                    text: newest.into(),
                    is_error: false,
                    details: Value::Nil,
                    duration_ms: None,
                    edit: None,
                };
                // The newest replaces what a slow client has not been sent, so nobody waits for it.
                let update = Event { body: Body::ToolUpdate(Arc::new(output)), ..event.clone() };
                let _ = session.show(&shared.hub, update);
            }
        };
        let stop = turn.stop.child_token();
        let noted = LastEdit::default();
        let context = Context {
            cwd: self.cwd.clone(),
            changing: changing(turn, call, &outputs, noted.clone()),
            open: Arc::new(self.open_files(call, stop.clone())),
            outputs,
            handle: turn.shared.clock.id("o-"),
            sandbox,
            environment: turn.environment(),
            variables: command_environment::variables(&config.settings.commands),
            lifeline: turn.lifeline(),
            barred: self.barred(&call.name, plan).into(),
            revision,
            stop,
            call: call.clone(),
            event: telling(turn, call),
            progress: Arc::new(progress),
            redirects: matches!(plan.access, Access::Fetch(_)).then(|| Arc::new(self.may(call))),
        };
        let mut outcome = self.timed(tool.run(&context, plan, &call.parsed)).await;
        if outcome.is_error && outcome.edit.is_none() {
            outcome.edit = noted.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        self.followed_by_editors(call, plan).await;
        self.add_diagnostics(call, plan, &mut outcome).await;
        outcome
    }

    /// Measures how long a call runs: without the questions and the calls that it waited for.
    pub(super) async fn timed(&self, run: impl Future<Output = Outcome>) -> Outcome {
        let clock = &self.turn.shared.clock;
        let since = clock.passed();
        let mut outcome = run.await;
        outcome.took = Some(clock.passed().saturating_sub(since));
        outcome
    }

    /// The turn is stopped, interrupted or halted: no further call starts.
    async fn ended(&self) {
        tokio::select! {
            () = self.halt.cancelled() => {}
            () = self.turn.control.interrupt.cancelled() => {}
        }
    }

    /// What the model gets about a call that did not run because of that.
    pub(super) fn not_run(&self) -> Outcome {
        let why = match (self.turn.stop.is_cancelled(), self.halted.get()) {
            (true, _) => "the user aborted the turn",
            (false, Some(_)) => "the turn had to end before it",
            (false, None) => "the user interrupted the turn",
        };
        Outcome::failed(format!("The call was not run: {why}."))
    }

    /// Why no further call is started, if a decision was needed that nobody was there for.
    pub fn halted(&self) -> Option<&str> {
        self.halted.get().map(String::as_str)
    }

    /// Ends the turn because a decision is needed that nobody is there for.
    pub(super) fn halt_for(&self, kind: QuestionKind, what: &str) -> Outcome {
        let what = secret::mask(what);
        let message = format!(
            "permission-required: {} for {what:?} (correlation id {}), and nobody is there to answer. Attach a \
             frontend that answers interactions, add a rule that allows it, or choose a mode that does.",
            kind.as_str(),
            self.turn.id
        );
        self.halt(message.clone());
        Outcome::failed(message)
    }

    /// Ends the turn with that message: no further call is started.
    fn halt(&self, message: String) {
        let _ = self.halted.set(message);
        self.halt.cancel();
    }
}

/// Starts a command that outlives its call.
async fn start_job(turn: &Turn, command: String, cwd: PathBuf, sandbox: Option<Sandbox>) -> Outcome {
    let id: Arc<str> = turn.shared.clock.id("j-").into();
    let environment = turn.environment();
    let job = process::ProcessRequest {
        command,
        cwd,
        timeout: None,
        sandbox,
        environment,
        variables: command_environment::variables(&turn.config().settings.commands),
        lifeline: turn.lifeline(),
    };
    let (name, turn_id, job) = (id.clone(), turn.id.clone(), Box::new(job));
    match turn.session.request(|ack| Change::StartJob { id: name, turn: turn_id, job, ack }).await {
        Ok(()) => {
            let mut outcome = Outcome::ok(format!(
                "Started as background job {id}. You are informed when it ends; job reads its output, waits and stops it."
            ));
            outcome.details.put(tool::JOB_ID, id.to_string());
            outcome
        }
        Err(error) => Outcome::failed(error.message),
    }
}

/// What hooks are told of a call.
fn about(call: &ToolCall) -> Map<'static> {
    let mut payload = Map::new();
    payload.put("tool-id", call.id.to_string());
    payload.put("tool", call.name.to_string());
    payload.put("call-summary", call.summary.to_string());
    payload.put("arguments", (*call.parsed).clone());
    payload
}

/// What the model gets about a call that was refused.
pub(super) fn denied(reason: &str) -> Outcome {
    let mut outcome = Outcome::failed(format!("The call was denied. {reason}"));
    outcome.details.put("code", "denied-tool-call");
    outcome.details.put("denied", true);
    outcome
}
