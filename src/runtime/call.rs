//! The tool calls of one answer: judged and asked about in order, run side by side, answered in order.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use tokio::sync::{Mutex, MutexGuard, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::event::{Body, ToolCall, ToolOutput};
use crate::interaction::grant::{self, Binding};
use crate::interaction::{Kind, Origin, Question, Resolution};
use crate::limits::{PARALLEL_TOOLS, TOOL_RESULT_BYTES};
use crate::message::{Block, EntryId, Message, Mode, Role};
use crate::runtime::execution::{self, Execution, Given};
use crate::runtime::stage::{Point, Stage};
use crate::runtime::turn::{Turn, proposed};
use crate::runtime::{jobs, subagent};
use crate::store::EntryBody;
use crate::tool::output::Outputs;
use crate::tool::permission::{self, Access, Rule, Verdict};
use crate::tool::sandbox::Sandbox;
use crate::tool::{self, Context, Outcome, Plan, Tool};
use crate::value::{Map, Value};

/// How the calls of an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Calls {
    /// All have a result; the model is asked again.
    Answered,
    /// A decision of a person was needed, and nobody is there: the turn ends with this message.
    Halted(String),
    /// The results could not be written.
    Lost(String),
}

/// What the calls of one answer share.
pub(super) struct Batch<'t> {
    pub(super) turn: &'t Turn,
    cwd: Arc<Path>,
    /// Who asks the person: one call at a time.
    asking: Mutex<()>,
    places: Semaphore,
    /// Why no further call is started, if so.
    halted: OnceLock<String>,
    /// Cancelled when a call halts the turn.
    halt: CancellationToken,
}

/// Runs the calls, writes and shows each result in the order of the calls.
pub async fn run(turn: &Turn, calls: Vec<ToolCall>) -> Calls {
    let cwd = turn.session.snapshot().facts.cwd.clone();
    let cwd = Path::new(&*cwd);
    let batch = Batch {
        turn,
        // What is judged and what runs must mean the same folder.
        cwd: cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned()).into(),
        asking: Mutex::new(()),
        places: Semaphore::new(PARALLEL_TOOLS),
        halted: OnceLock::new(),
        halt: turn.stop.child_token(),
    };
    // Looked at all at once, so that it is known who has to ask before the first one does.
    let looked_at = calls.into_iter().map(|call| async {
        let call = Arc::new(batch.transformed(call).await);
        let plan = match tool::find(&call.name) {
            Some(tool) => Some(batch.plan(tool, &call).await),
            None => None,
        };
        (call, plan)
    });
    let looked_at = futures_util::future::join_all(looked_at).await;
    let mut before = None;
    let mut results = FuturesOrdered::new();
    for (call, plan) in looked_at {
        let asks = match &plan {
            _ if !batch.is_of_stage(&call) => true,
            Some(Ok(plan)) => matches!(batch.judge(&call, plan), Verdict::Ask(_)),
            Some(Err(_)) => false,
            None => matches!(&*call.name, tool::ASK_USER | tool::DELEGATE),
        };
        let place = asks.then(|| {
            let (done, next) = oneshot::channel();
            Place { before: before.replace(next), _done: done }
        });
        results.push_back(batch.one(call, plan, place));
    }
    let mut lost = None;
    while let Some((call, outcome)) = results.next().await {
        if let Err(error) = settle(turn, call, outcome).await {
            lost.get_or_insert(error);
        }
    }
    drop(results);
    match (lost, batch.halted.into_inner()) {
        (Some(error), _) => Calls::Lost(error),
        (None, Some(why)) => Calls::Halted(why),
        (None, None) => Calls::Answered,
    }
}

/// Writes a result, then shows it.
async fn settle(turn: &Turn, call: Arc<ToolCall>, outcome: Outcome) -> Result<(), String> {
    let mut content = vec![Block::Text(outcome.text.as_str().into())];
    content.extend(outcome.images);
    let mut message = Message::new(EntryId::from(""), Role::Tool, content, Arc::from(""));
    message.turn_id = Some(turn.id.clone());
    message.tool_call_id = Some(call.id.clone());
    message.tool_name = Some(call.name.clone());
    message.is_error = Some(outcome.is_error);
    let written = turn.write(vec![EntryBody::Message(Arc::new(message))]).await;
    let details = if outcome.details.is_empty() { Value::Nil } else { Value::from(outcome.details) };
    let output = ToolOutput { call, text: outcome.text.into(), is_error: outcome.is_error, details };
    let mut event = turn.event(Body::ToolResult(Arc::new(output)));
    event.entry = written.as_ref().ok().and_then(|entries| entries.first().map(|entry| entry.id.clone()));
    turn.deliver(event).await;
    written.map(|_| ())
}

/// A call's place among those that have to ask: after the one before, and before the next, which is let
/// go when this is dropped.
pub(super) struct Place {
    before: Option<oneshot::Receiver<()>>,
    _done: oneshot::Sender<()>,
}

impl Place {
    /// Waits for the call before.
    async fn come_up(&mut self) {
        if let Some(before) = self.before.take() {
            // It never says anything: it is gone when it is done.
            let _ = before.await;
        }
    }
}

impl Batch<'_> {
    async fn one(
        &self,
        call: Arc<ToolCall>,
        plan: Option<Result<Plan, String>>,
        place: Option<Place>,
    ) -> (Arc<ToolCall>, Outcome) {
        let outcome = self.outcome(&call, plan, place).await;
        (call, outcome)
    }

    /// A call as the transforms want it: before it is judged, so that what is allowed is what runs.
    async fn transformed(&self, call: ToolCall) -> ToolCall {
        if !self.turn.manifest().hooks.any_at(Stage::ToolCall, Point::Pre) {
            return call;
        }
        let payload = self.turn.transforms(Stage::ToolCall, Point::Pre, Some(&call), about(&call)).await;
        match payload.get_keyword("arguments") {
            Some(arguments) if *arguments != call.parsed => proposed(call.id, call.name, arguments.clone()),
            _ => call,
        }
    }

    /// Lets guards vote on a call that is otherwise allowed, and observers see it.
    pub(super) async fn guarded(&self, call: &ToolCall) -> Result<(), Outcome> {
        if !self.turn.manifest().hooks.any_at(Stage::ToolCall, Point::Pre) {
            return Ok(());
        }
        let payload = about(call);
        match self.turn.guards(Stage::ToolCall, Some(call), &payload).await {
            Ok(()) => {
                self.turn.observers(Stage::ToolCall, Point::Pre, Some(call), &payload).await;
                Ok(())
            }
            Err(_) if self.turn.stop.is_cancelled() => Err(self.not_run()),
            Err(guard) => {
                let mut outcome = denied(&format!("{guard}."));
                outcome.details.put("hook", guard.hook.to_string());
                Err(outcome)
            }
        }
    }

    /// Lets the hooks after a call have its result.
    async fn followed(&self, call: &ToolCall, mut outcome: Outcome) -> Outcome {
        if !self.turn.manifest().hooks.any_at(Stage::ToolCall, Point::Post) {
            return outcome;
        }
        let payload = about(call).with("result", outcome.text.clone()).with("is-error", outcome.is_error);
        let payload = self.turn.rewrite(Stage::ToolCall, Point::Post, Some(call), payload).await;
        if let Some(text) = payload.get_keyword("result").and_then(Value::as_str) {
            outcome.text = text.to_owned();
        }
        outcome
    }

    async fn outcome(
        &self,
        call: &Arc<ToolCall>,
        plan: Option<Result<Plan, String>>,
        mut place: Option<Place>,
    ) -> Outcome {
        let granted = match self.grant(call, plan.as_ref(), &mut place).await {
            Ok(granted) => granted,
            Err(refused) => return refused,
        };
        match (&*call.name, &self.turn.execution) {
            (execution::COMPLETE, Some(stage)) => {
                return match stage.complete(&call.parsed) {
                    Ok(()) => Outcome::ok("The stage is completed."),
                    Err(wrong) => Outcome::failed(wrong),
                };
            }
            (tool::ASK_USER | tool::DELEGATE, _) => {
                if let Err(refused) = self.use_grant(call, granted) {
                    return refused;
                }
                return match &*call.name {
                    tool::DELEGATE => {
                        let outcome = subagent::delegate(self, call, &mut place).await;
                        self.followed(call, outcome).await
                    }
                    _ => self.ask_user(call, &mut place).await,
                };
            }
            _ => {}
        }
        let (Some(tool), Some(plan)) = (tool::find(&call.name), plan) else {
            let names: Vec<String> = tool::specs().into_iter().map(|spec| spec.name).collect();
            return Outcome::failed(format!(
                "There is no tool {:?}; there are {}.",
                call.name,
                names.join(", ")
            ));
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => return Outcome::failed(error),
        };
        let plan = match self.allow(tool, call, plan, &mut place).await {
            Ok(plan) => plan,
            Err(refused) => return refused,
        };
        if let Err(refused) = self.guarded(call).await {
            return refused;
        }
        // The next one in line may be asked about while this one runs.
        drop(place);
        let Some(_place) = self.place().await else { return self.not_run() };
        // While the person was asked, or another call ran, the path may have come to lead elsewhere.
        let plan = match self.plan(tool, call).await {
            Ok(again) if again.access == plan.access => again,
            Ok(_) => {
                return Outcome::failed(
                    "The path leads elsewhere since the call was allowed; it was not run.",
                );
            }
            Err(error) => return Outcome::failed(error),
        };
        if let Err(refused) = self.use_grant(call, granted) {
            return refused;
        }
        let outcome = self.run(tool, call, &plan).await;
        self.followed(call, outcome).await
    }

    /// One of the places of calls that run side by side; `None` where no call is started any more.
    pub(super) async fn place(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            () = self.ended() => None,
            place = self.places.acquire() => place.ok(),
        }
    }

    /// Whether a call needs no grant: there is no stage, or its tool is the stage's own.
    fn is_of_stage(&self, call: &ToolCall) -> bool {
        self.turn.execution.as_ref().is_none_or(|stage| stage.allows(&call.name))
    }

    /// Asks for a grant where a call is outside its stage's tools: before anything else is asked or judged.
    /// What is returned has to be used when the call is about to run.
    async fn grant(
        &self,
        call: &ToolCall,
        plan: Option<&Result<Plan, String>>,
        place: &mut Option<Place>,
    ) -> Result<Option<String>, Outcome> {
        let Some(stage) = self.turn.execution.as_ref().filter(|_| !self.is_of_stage(call)) else {
            return Ok(None);
        };
        let runs = matches!(&*call.name, tool::ASK_USER | tool::DELEGATE);
        match plan {
            // What cannot run is not worth a question.
            Some(Err(_)) => return Ok(None),
            None if !runs => return Ok(None),
            Some(Ok(plan)) => {
                if let Verdict::Deny(reason) = self.judge(call, plan) {
                    return Err(denied(&reason));
                }
            }
            None => {}
        }
        let Some(_asking) = self.turn_to_ask(place).await else { return Err(self.not_run()) };
        let proposal = self.turn.shared.clock.id("p-");
        let binding = binding(stage, &proposal, call);
        let mut payload = Map::new();
        payload.put("stage-execution-id", stage.id.clone());
        payload.put("attempt", i64::from(stage.attempt));
        payload.put("proposal-id", proposal.clone());
        payload.put("tool", call.name.to_string());
        payload.put("args-digest", binding.args_digest.clone());
        payload.put("args-summary", call.summary.to_string());
        payload.put(
            "reason",
            format!("The stage {} has only {}.", stage.stage.id, stage.stage.tools.join(", ")),
        );
        let (outcome, note) = match self.ask(Kind::GrantStageTool, payload).await {
            Resolution::Accepted { value, note } => {
                let outcome = value.get_keyword("outcome").and_then(Value::as_str).unwrap_or("deny");
                (outcome.to_owned(), note)
            }
            Resolution::Cancelled { note } => ("deny".to_owned(), note),
            Resolution::TimedOut => ("deny".to_owned(), Some("Nobody answered in time.".to_owned())),
            Resolution::Headless => ("deny".to_owned(), Some("Nobody is there to grant it.".to_owned())),
            Resolution::Withdrawn => return Err(self.not_run()),
        };
        stage.answered(Given { binding, outcome: outcome.clone(), note: note.clone() });
        match outcome.as_str() {
            "approve" => Ok(Some(proposal)),
            _ => Err(denied(note.as_deref().unwrap_or("It is outside this stage's tools."))),
        }
    }

    /// Uses the grant of a call that is about to run, if it needed one.
    fn use_grant(&self, call: &ToolCall, proposal: Option<String>) -> Result<(), Outcome> {
        let Some(stage) = self.turn.execution.as_ref().filter(|_| !self.is_of_stage(call)) else {
            return Ok(());
        };
        match proposal {
            Some(proposal) if stage.consume(&binding(stage, &proposal, call)) => Ok(()),
            _ => Err(denied("There is no grant for this call.")),
        }
    }

    /// What a call would do. Reads files, so away from the session's threads.
    async fn plan(&self, tool: &'static dyn Tool, call: &Arc<ToolCall>) -> Result<Plan, String> {
        let (cwd, call) = (self.cwd.clone(), call.clone());
        let planned = tokio::task::spawn_blocking(move || tool.plan(&cwd, &call.parsed)).await;
        planned.unwrap_or_else(|_| Err("The tool failed inside.".to_owned()))
    }

    /// Waits until it is this call's turn to ask, and nobody else asks. `None` where no call is started
    /// any more.
    pub(super) async fn turn_to_ask(&self, place: &mut Option<Place>) -> Option<MutexGuard<'_, ()>> {
        let asking = async {
            if let Some(place) = place {
                place.come_up().await;
            }
            self.asking.lock().await
        };
        tokio::select! {
            biased;
            () = self.ended() => None,
            asking = asking => Some(asking),
        }
    }

    /// Lets a call pass, with the plan that was allowed, or says what the model is told instead of a
    /// result.
    async fn allow(
        &self,
        tool: &'static dyn Tool,
        call: &Arc<ToolCall>,
        plan: Plan,
        place: &mut Option<Place>,
    ) -> Result<Plan, Outcome> {
        match self.judge(call, &plan) {
            Verdict::Allow => return Ok(plan),
            Verdict::Deny(reason) => return Err(denied(&reason)),
            Verdict::Ask(_) => {}
        }
        let Some(_asking) = self.turn_to_ask(place).await else { return Err(self.not_run()) };
        // What is shown is what would happen now, and an answer to an earlier call may have settled it.
        let plan = &self.plan(tool, call).await.map_err(Outcome::failed)?;
        let suggested = match self.judge(call, plan) {
            Verdict::Allow => return Ok(plan.clone()),
            Verdict::Deny(reason) => return Err(denied(&reason)),
            Verdict::Ask(suggested) => suggested,
        };
        match self.ask(Kind::Approve, approval(call, plan, suggested.as_ref())).await {
            Resolution::Accepted { value, note } => {
                let text = |key| value.get_keyword(key).and_then(Value::as_str);
                if text("outcome") != Some("approve") {
                    return Err(denied(note.as_deref().unwrap_or("The user gave no reason.")));
                }
                self.remember(call, plan, &value, suggested);
                Ok(plan.clone())
            }
            Resolution::Cancelled { note } => {
                Err(denied(note.as_deref().unwrap_or("The user dismissed the question.")))
            }
            Resolution::TimedOut => Err(denied("Nobody answered in time.")),
            Resolution::Withdrawn => Err(self.not_run()),
            Resolution::Headless => Err(self.halt_for(Kind::Approve, &call.summary)),
        }
    }

    fn judge(&self, call: &ToolCall, plan: &Plan) -> Verdict {
        let facts = self.turn.session.snapshot().facts.clone();
        // A stage's tools, what was granted, and what a person gave to a subagent pass the mode's gate.
        // Rules that deny still do, and where nothing may be changed, nothing is.
        let mode = match facts.mode {
            Mode::Ask | Mode::AcceptEdits
                if self.turn.execution.is_some()
                    || self.turn.session.kin.as_ref().is_some_and(|kin| kin.covers(&call.name)) =>
            {
                Mode::Yolo
            }
            mode => mode,
        };
        let rules = self.turn.shared.rules_for(&self.turn.manifest().rules, &self.turn.session);
        permission::judge(mode, &rules, &self.cwd, &call.name, &plan.access)
    }

    /// Keeps what the person allowed beyond this call.
    fn remember(&self, call: &ToolCall, plan: &Plan, answer: &Map<'static>, suggested: Option<Rule>) {
        let scope = answer.get_keyword("scope").and_then(Value::as_str);
        let given = answer.get_keyword("rule").and_then(|rule| Rule::from_value(rule).ok());
        let rule = match scope {
            Some("session" | "rule") => given.or(suggested).or_else(|| exact(call, plan)),
            _ => None,
        };
        let Some(rule) = rule else { return };
        if scope == Some("rule")
            && let Err(error) = self.turn.shared.keep_rule(&rule, &self.cwd)
        {
            tracing::warn!(%error, "the rule could not be kept; it holds for this session");
        }
        self.turn.session.rules.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    pub(super) async fn ask(&self, kind: Kind, payload: Map<'static>) -> Resolution {
        let snapshot = self.turn.session.snapshot();
        let question = Question {
            kind,
            payload,
            origin: Origin {
                session: self.turn.session.id.clone(),
                offset: snapshot.offset,
                turn: Some(self.turn.id.clone()),
                correlation: self.turn.id.as_str().into(),
                child_of: self.turn.session.child_of(),
            },
            timeout: self.turn.execution.as_ref().and_then(|execution| execution.stage.patience),
            unattended: snapshot.facts.mode == Mode::Yolo,
        };
        let ended = self.halt.child_token();
        let asked = async {
            // One question at a time, of this session and of all that work for it or it works for.
            let asking = self.turn.session.asking.lock();
            tokio::select! {
                biased;
                () = ended.cancelled() => Resolution::Withdrawn,
                _asking = asking => self.turn.shared.board.ask(question, &ended).await,
            }
        };
        tokio::pin!(asked);
        tokio::select! {
            biased;
            resolution = &mut asked => resolution,
            () = self.turn.control.interrupt.cancelled() => {
                ended.cancel();
                asked.await
            }
        }
    }

    async fn ask_user(&self, call: &Arc<ToolCall>, place: &mut Option<Place>) -> Outcome {
        let Some(question) = call.parsed.get("question").and_then(Value::as_str) else {
            return Outcome::failed("The argument question must be a string.");
        };
        let options: Vec<&str> = call
            .parsed
            .get("options")
            .and_then(Value::as_slice)
            .map(|options| options.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let mut payload = Map::new().with("prompt", question.to_owned());
        let kind = if options.is_empty() { Kind::Ask } else { Kind::Select };
        if kind == Kind::Select {
            let option = |option: &&str| {
                Value::from(
                    Map::new().with("label", (*option).to_owned()).with("value", (*option).to_owned()),
                )
            };
            payload.put("options", Value::vector(options.iter().map(option)));
        }
        let Some(_asking) = self.turn_to_ask(place).await else { return self.not_run() };
        if let Err(refused) = self.guarded(call).await {
            return refused;
        }
        self.turn.publish(Body::ToolExecuting(call.clone())).await;
        let outcome = match self.ask(kind, payload).await {
            Resolution::Accepted { value, .. } => {
                let place = value.get_keyword("index").and_then(Value::as_i64);
                let chosen =
                    place.and_then(|place| usize::try_from(place).ok()).and_then(|place| options.get(place));
                let text = value.get_keyword("text").and_then(Value::as_str).or(chosen.copied());
                Outcome::ok(text.unwrap_or_default())
            }
            Resolution::Cancelled { note } => {
                Outcome::failed(note.unwrap_or_else(|| "The user does not want to answer.".to_owned()))
            }
            Resolution::TimedOut => Outcome::failed("Nobody answered in time."),
            Resolution::Withdrawn => return self.not_run(),
            Resolution::Headless => return self.halt_for(kind, &call.summary),
        };
        self.followed(call, outcome).await
    }

    async fn run(&self, tool: &'static dyn Tool, call: &Arc<ToolCall>, plan: &Plan) -> Outcome {
        let turn = self.turn;
        let facts = turn.session.snapshot().facts.clone();
        let manifest = turn.manifest();
        let sandbox = (facts.mode != Mode::Yolo).then(|| {
            let allowed = manifest.settings.writable.iter().cloned();
            Sandbox::new(allowed.chain([self.cwd.to_path_buf()]))
        });
        let event = turn.event(Body::ToolExecuting(call.clone()));
        turn.deliver(event.clone()).await;
        let _running = Running::new(&turn.control.running_tools);
        if call.name.as_ref() == tool::BASH
            && call.parsed.get("background").and_then(Value::as_bool) == Some(true)
            && let Access::Run(command) = &plan.access
        {
            return jobs::start(turn, command.clone(), self.cwd.to_path_buf(), sandbox).await;
        }
        let progress = {
            let (shared, session, call) = (turn.shared.clone(), turn.session.clone(), call.clone());
            move |newest: &str| {
                let output = ToolOutput {
                    call: call.clone(),
                    text: newest.into(),
                    is_error: false,
                    details: Value::Nil,
                };
                // The newest replaces what a slow client has not been sent, so nobody waits for it.
                let update =
                    crate::event::Event { body: Body::ToolUpdate(Arc::new(output)), ..event.clone() };
                let _ = session.show(&shared.hub, update);
            }
        };
        let context = Context {
            cwd: self.cwd.clone(),
            outputs: Outputs::new(&turn.shared.settings.state_dir, turn.session.id.as_str()),
            handle: turn.shared.clock.id("o-"),
            sandbox,
            hidden: manifest.hidden.clone(),
            stop: turn.stop.child_token(),
            progress: Arc::new(progress),
        };
        tool.run(&context, plan, &call.parsed).await
    }

    /// The turn is stopped, interrupted or halted: no further call starts.
    async fn ended(&self) {
        tokio::select! {
            () = self.halt.cancelled() => {}
            () = self.turn.control.interrupt.cancelled() => {}
        }
    }

    /// What the model is told of a call that did not run because of that.
    pub(super) fn not_run(&self) -> Outcome {
        let why = match (self.turn.stop.is_cancelled(), self.halted.get()) {
            (true, _) => "the user aborted the turn",
            (false, Some(_)) => "the turn had to end before it",
            (false, None) => "the user interrupted the turn",
        };
        Outcome::failed(format!("The call was not run: {why}."))
    }

    /// Ends the turn because a decision is needed that nobody is there for.
    pub(super) fn halt_for(&self, kind: Kind, what: &str) -> Outcome {
        let message = format!(
            "permission-required: {} for {what:?} (correlation id {}), and nobody is there to answer. Attach a \
             frontend that answers interactions, add a rule that allows it, or run with --yolo.",
            kind.as_str(),
            self.turn.id
        );
        let _ = self.halted.set(message.clone());
        self.halt.cancel();
        Outcome::failed(message)
    }
}

/// Counts a running tool for as long as it lives.
pub(super) struct Running<'c>(&'c AtomicUsize);

impl<'c> Running<'c> {
    pub(super) fn new(count: &'c AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a grant for this call is bound to.
fn binding(stage: &Execution, proposal: &str, call: &ToolCall) -> Binding {
    Binding {
        stage_execution: stage.id.clone(),
        attempt: stage.attempt,
        proposal: proposal.to_owned(),
        tool: call.name.to_string(),
        args_digest: grant::digest(&call.parsed),
    }
}

/// What hooks are told of a call.
fn about(call: &ToolCall) -> Map<'static> {
    let mut payload = Map::new();
    payload.put("tool-id", call.id.to_string());
    payload.put("tool", call.name.to_string());
    payload.put("call-summary", call.summary.to_string());
    payload.put("arguments", call.parsed.clone());
    payload
}

/// What the model is told of a call that was refused.
pub(super) fn denied(reason: &str) -> Outcome {
    let mut outcome = Outcome::failed(format!("The call was denied. {reason}"));
    outcome.details.put("code", "denied-tool-call");
    outcome.details.put("denied", true);
    outcome
}

/// What the person is shown of a call before it runs.
fn approval(call: &ToolCall, plan: &Plan, suggested: Option<&Rule>) -> Map<'static> {
    let mut payload = Map::new();
    payload.put("tool", call.name.to_string());
    payload.put("tool-id", call.id.to_string());
    payload.put("call-summary", call.summary.to_string());
    match &plan.access {
        Access::Run(command) => {
            payload.put("command", command.clone());
        }
        Access::Read(path) | Access::Write(path) => {
            payload.put("paths", Value::vector([Value::from(path.to_string_lossy().into_owned())]));
        }
        Access::Nothing => {}
    }
    if let Some(diff) = &plan.diff {
        let end = (0..=diff.len().min(TOOL_RESULT_BYTES)).rev().find(|end| diff.is_char_boundary(*end));
        let shown = diff.get(..end.unwrap_or(0)).unwrap_or_default();
        let cut = if shown.len() < diff.len() { "\n[… the diff goes on …]\n" } else { "" };
        payload.put("diff", format!("{shown}{cut}"));
    }
    payload.put_some("suggested-rule", suggested.map(Rule::to_value));
    payload
}

/// The rule that allows this call again, where no wider one was suggested.
fn exact(call: &ToolCall, plan: &Plan) -> Option<Rule> {
    let (path, command) = match &plan.access {
        Access::Read(path) | Access::Write(path) => (Some(globset::escape(&path.to_string_lossy())), None),
        Access::Run(command) => (None, Some(command.clone())),
        Access::Nothing => return None,
    };
    let tool = Some(call.name.to_string());
    Some(Rule { decision: permission::Decision::Allow, tool, path, exact: command.is_some(), command })
}
