//! Runs a workflow: its stages in sequence, each as a turn; its groups in parallel.
//!
//! A run owns its session from start to end. A stage passes its phases: setup, init, check-gate, act, assert,
//! exit, next; an act is a turn with the stage's tools. The siblings of a group work in child sessions, and
//! one failure ends the group. The session's journal records the run, so that an interrupted run is known;
//! nothing is repeated until the person asks for it. Does not know the wire.

mod progress;
mod record;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use crate::engine::agent::{self, TurnTask};
use crate::engine::answer_records;
use crate::engine::change::{Change, HeldRun};
use crate::engine::execution::{Completed, Execution};
use crate::engine::handle::Handle;
use crate::engine::interrupted::UnendedQuestion;
use crate::engine::open::Opener;
use crate::engine::progress::notification;
use crate::engine::run_record::RunRecord;
use crate::engine::services::Services;
use crate::engine::subagent::Child;
use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::event::question::{Answer, QuestionContent, QuestionKind};
use crate::event::{Body, Cause, Event, NoticeLevel};
use crate::hook::command::{self, HookFailure};
use crate::interaction::{Origin, Question, Resolution, digest};
use crate::limits::{STAGE_GATE_BYTES, STAGE_OUTPUT_BYTES, WORKFLOW_STEPS};
use crate::message::{Role, SessionId, TurnId};
use crate::store::EntryBody;
use crate::store::record::{QuestionRecord, RunEvent, WorkflowRecord};
use crate::value::{Map, Value};
use crate::workflow::{self, Check, DONE, END, FAILED, SKIPPED, Stage, Step, Workflow};
use progress::{Lines, SPEC};

/// Starts a run in the session that waits for it.
pub fn start(opener: Opener, session: Handle, workflow: Arc<Workflow>, cause: Cause, held: HeldRun) {
    let (tasks, turn) = (opener.shared.tasks.clone(), TurnId::from(&*held.id));
    let hub = opener.shared.hub.clone();
    let run = run(opener, session.clone(), workflow, Some(cause.clone()), held);
    agent::spawn((&tasks, hub), session, turn, Some(&cause), &tracing::Span::none(), run);
}

/// Runs a workflow to its end in the session that waits for it.
pub async fn run(
    opener: Opener,
    session: Handle,
    workflow: Arc<Workflow>,
    cause: Option<Cause>,
    held: HeldRun,
) -> TurnEnd {
    let HeldRun { id, arguments, stop, control, from } = held;
    let (shared, is_leaving) = (opener.shared.clone(), AtomicBool::new(false));
    let run =
        Run { shared, opener, session, id, workflow, arguments, cause, stop, control, from, is_leaving };
    run.run().await
}

/// A run.
struct Run {
    shared: Arc<Services>,
    /// Opens the sessions of a group, and knows what answers the turns.
    opener: Opener,
    session: Handle,
    id: Arc<str>,
    workflow: Arc<Workflow>,
    arguments: String,
    cause: Option<Cause>,
    stop: CancellationToken,
    control: Arc<TurnControl>,
    /// The first stage and earlier results, for a resumed run.
    from: Option<RunRecord>,
    /// Whether it was stopped so that another process continues it.
    is_leaving: AtomicBool,
}

/// The end of a stage.
#[derive(Debug, Clone, PartialEq)]
struct StageEnd {
    outcome: Arc<str>,
    result: Value<'static>,
    attempts: u32,
    cap_hit: bool,
    /// Why it was skipped or failed.
    why: Option<String>,
}

impl StageEnd {
    fn bad(outcome: &str, attempts: u32, why: String) -> Self {
        Self { outcome: outcome.into(), result: Value::Nil, attempts, cap_hit: false, why: Some(why) }
    }

    /// The text in the widget.
    fn shown(&self) -> String {
        let mut shown = self.outcome.to_string();
        if self.attempts > 1 {
            shown.push_str(&format!(" after {} attempts", self.attempts));
        }
        if self.cap_hit {
            shown.push_str(", turn cap hit");
        }
        if let Some(why) = &self.why {
            shown.push_str(&format!(": {}", crate::tool::one_line(why, 100)));
        }
        shown
    }
}

/// The run was aborted or interrupted.
struct Stopped;

impl Run {
    /// Runs to the end.
    async fn run(self) -> TurnEnd {
        let name = self.workflow.name.clone();
        let mut lines = Lines::new(&self.workflow);
        let mut results: Vec<(String, Value<'static>)> = Vec::new();
        let mut at: Arc<str> = self.workflow.stages.first().map_or(END.into(), |step| step.id().clone());
        if let Some(begun) = &self.from {
            at = begun.step.as_str().into();
            results.clone_from(&begun.results);
            for (id, _) in &results {
                lines.mark(id, "done before");
            }
        }
        let arguments = Some(self.arguments.clone());
        let resumes = self.from.as_ref().map(|begun| begun.id.clone());
        self.write(WorkflowRecord { arguments, resumes, ..self.record(RunEvent::Started) }).await;
        self.publish(Body::WidgetSpecsUpdated([SPEC].into())).await;
        let (mut outcome, mut why) = (Arc::<str>::from(DONE), None);
        for taken in 0.. {
            let Some(step) = self.workflow.step(&at).filter(|_| *at != *END) else { break };
            if taken >= WORKFLOW_STEPS {
                outcome = FAILED.into();
                why = Some(format!("it took {WORKFLOW_STEPS} steps and was ended"));
                break;
            }
            let stage = Some(at.to_string());
            self.write(WorkflowRecord { stage, ..self.record(RunEvent::StageStarted) }).await;
            if self.control.hand_over.is_cancelled() {
                return self.hand_over().await;
            }
            lines.mark(&at, "running");
            self.show(&lines, &format!("workflow {name}: {at}")).await;
            let ended = match step {
                Step::Stage(stage) => self.stage(stage, None, &results, &self.stop).await,
                Step::Parallel { siblings, join, .. } => {
                    self.group(siblings, join.as_ref(), &mut results, &mut lines).await
                }
            };
            let Ok(ended) = ended else {
                if self.is_leaving.load(Ordering::Acquire) {
                    return self.hand_over().await;
                }
                outcome = if self.stop.is_cancelled() { "aborted".into() } else { "interrupted".into() };
                lines.mark(&at, &outcome);
                break;
            };
            lines.mark(&at, &ended.shown());
            self.write(self.ended(&at, &ended)).await;
            results.retain(|(id, _)| **id != *at);
            results.push((at.to_string(), ended.result));
            (outcome, why) = (ended.outcome, ended.why);
            at = step.next().after(&outcome).into();
        }
        let ended = Some(outcome.to_string());
        self.write(WorkflowRecord { outcome: ended, why: why.clone(), ..self.record(RunEvent::Ended) }).await;
        self.show(&lines, "").await;
        let level = if matches!(&*outcome, FAILED | "aborted" | "interrupted") {
            NoticeLevel::Warning
        } else {
            NoticeLevel::Info
        };
        let reason = why.map(|why| format!(" ({why})")).unwrap_or_default();
        self.notify(level, &format!("Workflow {name} ended: {outcome}{reason}.")).await;
        if matches!(&*outcome, "aborted" | "interrupted") { TurnEnd::Stopped } else { TurnEnd::Finished }
    }

    /// Leaves the process before a step that has done nothing.
    async fn hand_over(&self) -> TurnEnd {
        self.write(self.record(RunEvent::HandedOver)).await;
        TurnEnd::HandedOver
    }

    /// Runs a stage through its phases, in the run's own session or in a child.
    async fn stage(
        &self,
        stage: &Arc<Stage>,
        child: Option<&Handle>,
        results: &[(String, Value<'static>)],
        stop: &CancellationToken,
    ) -> Result<StageEnd, Stopped> {
        let execution = self.shared.clock.id("x-");
        let is_of_group = self.workflow.step(&stage.id).is_none();
        let mut facts = self.facts(stage, &execution, results);
        facts.put("phase", "check-gate");
        let mut gate = String::new();
        for check in &stage.gate {
            match self.holds(stage, check, &facts, child, stop).await? {
                Ok(wrote) => gate.push_str(&wrote),
                Err(why) => return Ok(StageEnd::bad(SKIPPED, 0, why)),
            }
        }
        let prompt = self.fill(&stage.body, results, &gate);
        let (mut wrong, mut cap_hit, mut earlier) = (String::new(), false, Vec::new());
        for attempt in 0..stage.attempts {
            let made = attempt.saturating_add(1);
            let mut run = Execution::new(execution.clone(), attempt, stage.clone(), prompt.clone());
            run.is_of_group = is_of_group;
            let run = Arc::new(run);
            let what = if is_of_group && child.is_none() { "join" } else { "stage" };
            let mut message = format!("Workflow {}, {what} {}", self.workflow.name, stage.id);
            if stage.attempts > 1 {
                message.push_str(&format!(", attempt {made} of {}", stage.attempts));
            }
            message.push_str(": begin.");
            if !wrong.is_empty() {
                message.push_str(&format!("\n\nThe attempt before is not accepted: {wrong}"));
            }
            let (text, failed) = self.act(&run, message, child, stop).await?;
            cap_hit = run.is_cap_hit();
            if let Some(failed) = failed {
                return Ok(StageEnd { cap_hit, ..StageEnd::bad(FAILED, made, failed) });
            }
            let completed = match run.completed() {
                Some(completed) => Ok(completed),
                // At its cap the act ends as if done; the assertions judge what it came to.
                None if run.is_cap_hit() || (stage.completion.is_empty() && !run.has_unfit()) => {
                    Ok(Completed { outcome: DONE.into(), result: Map::new().with("text", text) })
                }
                None => Err(run.why_incomplete()),
            };
            let mut seen = facts.clone();
            seen.extend(run.facts());
            seen.put("phase", "assert");
            seen.put("attempts", Value::vector(earlier.iter().cloned()));
            earlier.push(Value::from(run.facts()));
            if let Ok(completed) = &completed {
                seen.put("outcome", completed.outcome.to_string());
                seen.put("result", Value::from(completed.result.clone()));
            }
            let checked = match &completed {
                Ok(_) => self.all_hold(stage, &seen, child, stop).await?,
                Err(missing) => Err(missing.clone()),
            };
            match (completed, checked) {
                (Ok(completed), Ok(())) => {
                    return Ok(StageEnd {
                        outcome: completed.outcome,
                        result: Value::from(completed.result),
                        attempts: made,
                        cap_hit,
                        why: None,
                    });
                }
                (_, Err(why)) | (Err(why), _) => wrong = why,
            }
        }
        Ok(StageEnd { cap_hit, ..StageEnd::bad(FAILED, stage.attempts, wrong) })
    }

    /// Whether all of a stage's checks pass. The error says why not: the model and the person read it, and the engine
    /// acts on the failure alone.
    async fn all_hold(
        &self,
        stage: &Stage,
        facts: &Map<'static>,
        child: Option<&Handle>,
        stop: &CancellationToken,
    ) -> Result<Result<(), String>, Stopped> {
        for check in &stage.asserts {
            if let Err(why) = self.holds(stage, check, facts, child, stop).await? {
                return Ok(Err(why));
            }
        }
        Ok(Ok(()))
    }

    /// The stage's turn: returns the model's last text, or the failure.
    async fn act(
        &self,
        run: &Arc<Execution>,
        message: String,
        child: Option<&Handle>,
        stop: &CancellationToken,
    ) -> Result<(String, Option<String>), Stopped> {
        if stop.is_cancelled() || self.control.interrupt.is_cancelled() {
            return Err(Stopped);
        }
        if let Some(child) = child {
            let interrupt = &self.control.interrupt;
            let worked = self
                .opener
                .work(child, message, Some(run.clone()), self.cause.clone(), stop, &self.control)
                .await;
            return match worked {
                Err(error) => Ok((String::new(), Some(error.message))),
                Ok(_) if stop.is_cancelled() || interrupt.is_cancelled() => Err(Stopped),
                Ok((TurnEnd::Finished, worked)) => Ok((worked.text, None)),
                Ok((TurnEnd::Stopped | TurnEnd::HandedOver, worked)) => {
                    let why = worked.error.unwrap_or_else(|| "its turn was ended".to_owned());
                    Ok((worked.text, Some(why)))
                }
            };
        }
        let id = TurnId::from(self.shared.clock.id("t-"));
        let turn = id.clone();
        let cause = self.cause.clone();
        let begun = self.session.request(|ack| Change::BeginStage { turn, message, cause, ack }).await;
        if let Err(error) = begun {
            return Ok((String::new(), Some(error.message)));
        }
        let task = TurnTask {
            agent: self.opener.agent.clone(),
            session: self.session.clone(),
            id: id.clone(),
            cause: self.cause.clone(),
            stop: stop.clone(),
            control: self.control.clone(),
            execution: Some(run.clone()),
            unended: None,
        };
        let end = self.opener.agent.clone().answer(task).await;
        if stop.is_cancelled() || self.control.interrupt.is_cancelled() {
            return Err(Stopped);
        }
        let snapshot = self.session.snapshot();
        let last = snapshot.messages().rev().find(|message| message.role == Role::Assistant);
        let text = last.map(|message| message.text()).unwrap_or_default();
        let failed = (end == TurnEnd::Stopped).then(|| {
            let error = last.and_then(|message| message.error_message.as_deref());
            error.unwrap_or("its turn was ended").to_owned()
        });
        Ok((text, failed))
    }

    /// Runs stages in parallel, each in a child; the first failure ends the others.
    async fn group(
        &self,
        siblings: &[Arc<Stage>],
        join: Option<&Arc<Stage>>,
        results: &mut Vec<(String, Value<'static>)>,
        lines: &mut Lines,
    ) -> Result<StageEnd, Stopped> {
        let group = self.stop.child_token();
        let before = results.clone();
        let mut running: FuturesUnordered<_> =
            siblings.iter().map(|stage| self.sibling(stage, &before, &group)).collect();
        for stage in siblings {
            lines.mark(&stage.id, "running");
        }
        self.show(lines, &format!("workflow {}: {} stages side by side", self.workflow.name, siblings.len()))
            .await;
        let mut failed: Option<(Arc<str>, StageEnd)> = None;
        let mut found = Vec::new();
        while let Some((stage, ended)) = running.next().await {
            match ended {
                Ok(ended) => {
                    lines.mark(&stage.id, &ended.shown());
                    self.write(self.ended(&stage.id, &ended)).await;
                    if matches!(&*ended.outcome, FAILED | SKIPPED) && failed.is_none() {
                        group.cancel();
                        failed = Some((stage.id.clone(), ended));
                    } else {
                        found.push((stage.id.to_string(), ended.result));
                    }
                }
                Err(Stopped) => lines.mark(&stage.id, "ended with its group"),
            }
            self.show(lines, &format!("workflow {}: side by side", self.workflow.name)).await;
        }
        if self.stop.is_cancelled() || self.control.interrupt.is_cancelled() {
            return Err(Stopped);
        }
        if let Some((id, ended)) = failed {
            let why = ended.why.unwrap_or_default();
            return Ok(StageEnd::bad(FAILED, 1, format!("{id} {}: {why}", ended.outcome)));
        }
        // In the order of the file, whichever ended first.
        found.sort_by_key(|(id, _)| siblings.iter().position(|stage| *stage.id == **id));
        let mut all = Map::new();
        for (id, result) in &found {
            all.insert(Value::keyword(id.clone()), result.clone());
            results.retain(|(known, _)| known != id);
        }
        results.extend(found);
        match join {
            None => Ok(StageEnd {
                outcome: DONE.into(),
                result: Value::from(all),
                attempts: 1,
                cap_hit: false,
                why: None,
            }),
            Some(join) => {
                lines.mark(&join.id, "running");
                self.show(lines, &format!("workflow {}: {}", self.workflow.name, join.id)).await;
                let ended = self.stage(join, None, results, &self.stop).await?;
                lines.mark(&join.id, &ended.shown());
                Ok(ended)
            }
        }
    }

    /// One stage of a group, in a separate session.
    async fn sibling<'s>(
        &self,
        stage: &'s Arc<Stage>,
        results: &[(String, Value<'static>)],
        stop: &CancellationToken,
    ) -> (&'s Arc<Stage>, Result<StageEnd, Stopped>) {
        let facts = self.session.snapshot().facts.clone();
        let child = Child {
            id: SessionId::from(self.shared.clock.id(SessionId::PREFIX)),
            name: format!("{}: {}", self.workflow.name, stage.id),
            envelope: stage.tools.clone(),
            model: (facts.model_provider.clone(), facts.model_id.clone()),
            agent: facts.agent.as_ref().map(|agent| agent.name.clone()),
        };
        let ended = match self.opener.open_child(&self.session, child).await {
            Err(error) => Ok(StageEnd::bad(FAILED, 0, error.message)),
            Ok(child) => {
                let ended = self.stage(stage, Some(&child), results, stop).await;
                self.opener.retire_child(&child);
                ended
            }
        };
        (stage, ended)
    }

    /// The output of a passing check, or the reason for a failure, as in [`Self::all_hold`].
    async fn holds(
        &self,
        stage: &Stage,
        check: &Check,
        facts: &Map<'static>,
        child: Option<&Handle>,
        stop: &CancellationToken,
    ) -> Result<Result<String, String>, Stopped> {
        match check {
            Check::Command { command, timeout } => {
                // `$1` holds the workflow's arguments verbatim.
                let words =
                    ["bash", "-c", command.as_str(), "workflow", self.arguments.as_str()].map(str::to_owned);
                let session = self.session.snapshot().facts.clone();
                let cwd = PathBuf::from(&*session.cwd);
                // A check runs what the stage has written: the sandbox of the stage's commands holds for it too.
                let config = self.session.config();
                let sandbox = config.sandbox(session.mode, &cwd, &self.session.roots());
                let environment = config.environment.with(self.control.variables());
                match command::execute(&words, &cwd, &environment, sandbox, *timeout, facts, stop).await {
                    Ok(wrote) => Ok(Ok(String::from_utf8_lossy(&wrote).into_owned())),
                    Err(HookFailure::Stopped) => Err(Stopped),
                    Err(failure) => {
                        let output = failure.output(STAGE_OUTPUT_BYTES);
                        Ok(Err(format!("{command:?} does not hold: {failure}\n{output}")
                            .trim_end()
                            .to_owned()))
                    }
                }
            }
            Check::Result(wanted) => {
                let result = facts.get_keyword("result");
                let missing = wanted.iter().find(|(key, value)| {
                    let key = key.as_keyword().unwrap_or_default();
                    result.and_then(|result| result.get(key)) != Some(*value)
                });
                Ok(missing.map_or(Ok(String::new()), |(key, value)| {
                    Err(format!("its result must have {key} {value}"))
                }))
            }
            Check::Outcome(wanted) => {
                let outcome = facts.get_keyword("outcome").and_then(Value::as_str).unwrap_or_default();
                Ok(if outcome == &**wanted {
                    Ok(String::new())
                } else {
                    Err(format!("it came to :{outcome}, not to :{wanted}"))
                })
            }
            Check::Confirm(question) => {
                // At the gate of a step of its own, nothing would have to be done again.
                let is_gate = facts.get_keyword("phase").and_then(Value::as_str) == Some("check-gate");
                let is_first = is_gate && child.is_none() && self.workflow.step(&stage.id).is_some();
                let confirmed = match is_first {
                    true => self.confirm_first(question, stage).await?,
                    false => self.confirm(question, stage.patience, child, stop).await?,
                };
                Ok(confirmed.map(|()| String::new()))
            }
        }
    }

    /// Asks the person whether to continue. The error is the reason, as in [`Self::all_hold`].
    async fn confirm(
        &self,
        prompt: &str,
        timeout: Option<Duration>,
        child: Option<&Handle>,
        stop: &CancellationToken,
    ) -> Result<Result<(), String>, Stopped> {
        let question = self.confirmation(child.unwrap_or(&self.session), prompt, timeout);
        let id = self.shared.questions.new_id();
        self.ask(id, question, prompt, child.unwrap_or(&self.session), stop).await
    }

    /// The same before a step of the run has done anything: the question is in the journal, and so another process can continue
    /// with it. What was asked in the process before is asked again under its id, or has its answer already.
    async fn confirm_first(&self, prompt: &str, stage: &Stage) -> Result<Result<(), String>, Stopped> {
        let mut question = self.confirmation(&self.session, prompt, stage.patience);
        let digest = digest::of(&question.content);
        let before = self.from.iter().filter(|from| *from.step == *stage.id).flat_map(|from| &from.asked);
        let earlier = before.rev().find(|asked| *asked.question.digest == *digest);
        let questions = &self.shared.questions;
        if let Some(UnendedQuestion { question: known, at, answer: Some(answer) }) = earlier
            && let Some(resolution) = answer_records::resolution(answer)
        {
            let by = answer.by.clone();
            questions.record_earlier(&known.question_id, question, at.clone(), by, &resolution);
            return resolved(resolution, prompt);
        }
        let id = earlier.map_or_else(|| questions.new_id(), |asked| asked.question.question_id.clone());
        if questions.would_be_open(&self.session.id, self.session.subagent().as_ref(), QuestionKind::Confirm)
        {
            let record = QuestionRecord {
                session_id: self.session.id.clone(),
                question_id: id.clone(),
                kind: QuestionKind::Confirm.as_str().into(),
                digest: digest.into(),
                turn_id: TurnId::from(&*self.id),
                call_id: stage.id.clone(),
                subagent_id: None,
                works_for: None,
            };
            question.journalled = true;
            let entries = vec![EntryBody::Question(Box::new(record))];
            if let Err(error) = self.session.request(|ack| Change::Append { entries, ack }).await {
                tracing::warn!(%error, "the journal does not have a question");
            }
        }
        let asked = self.ask(id, question, prompt, &self.session, &self.stop);
        tokio::select! {
            biased;
            asked = asked => asked,
            () = self.control.hand_over.cancelled() => {
                questions.hand_over(&self.session.id);
                self.is_leaving.store(true, Ordering::Release);
                Err(Stopped)
            }
        }
    }

    fn confirmation(&self, session: &Handle, prompt: &str, timeout: Option<Duration>) -> Question {
        let snapshot = session.snapshot();
        Question {
            content: Arc::new(QuestionContent::Confirm { prompt: prompt.to_owned(), default: false }),
            warnings: Arc::default(),
            origin: Origin {
                session: session.id.clone(),
                offset: snapshot.offset,
                turn: Some(TurnId::from(&*self.id)),
                cause: self.cause.clone(),
                correlation: self.id.clone(),
                subagent: session.subagent(),
            },
            timeout,
            // Only a person can confirm, in every mode.
            unattended: false,
            journalled: false,
        }
    }

    async fn ask(
        &self,
        id: Arc<str>,
        question: Question,
        prompt: &str,
        session: &Handle,
        stop: &CancellationToken,
    ) -> Result<Result<(), String>, Stopped> {
        let ended = stop.child_token();
        let asking = async {
            let _one_at_a_time = session.asking.lock().await;
            self.shared.questions.ask_as(id, question, &ended).await
        };
        tokio::pin!(asking);
        let resolution = tokio::select! {
            biased;
            resolution = &mut asking => resolution,
            () = self.control.interrupt.cancelled() => {
                ended.cancel();
                return Err(Stopped);
            }
            () = stop.cancelled() => {
                let _ = asking.await;
                return Err(Stopped);
            }
        };
        resolved(resolution, prompt)
    }

    fn facts(&self, stage: &Stage, execution: &str, results: &[(String, Value<'static>)]) -> Map<'static> {
        let mut facts = Map::new();
        facts.put("workflow", self.workflow.name.to_string());
        facts.put("run-id", self.id.to_string());
        facts.put("stage", stage.id.to_string());
        facts.put("stage-execution-id", execution.to_owned());
        facts.put("arguments", self.arguments.clone());
        facts.put("results", Value::from(as_map(results)));
        facts
    }

    /// A body with its placeholders filled in.
    fn fill(&self, body: &str, results: &[(String, Value<'static>)], gate: &str) -> String {
        workflow::render(body, |place| match place {
            "args" => self.arguments.clone(),
            "gate" => beginning(gate),
            "results" => Value::from(as_map(results)).to_string(),
            place => {
                let id = place.strip_prefix("results.").unwrap_or_default();
                let found = results.iter().find(|(known, _)| known == id);
                found.map(|(_, result)| result.to_string()).unwrap_or_default()
            }
        })
    }

    /// Shows the progress of the run.
    async fn show(&self, lines: &Lines, status: &str) {
        let progress = Arc::new(lines.progress(status));
        self.session.progress.store(Some(progress.clone()));
        self.publish(Body::WidgetsUpdated(progress.widgets.clone())).await;
        self.publish(Body::StatusUpdated(progress.statuses.clone())).await;
    }

    async fn notify(&self, level: NoticeLevel, message: &str) {
        self.publish(Body::Notification(notification(self.shared.clock.id("n-"), level, message))).await;
    }

    async fn publish(&self, body: Body) {
        let event = Event {
            session: Some(self.session.id.clone()),
            offset: self.session.snapshot().offset,
            turn: None,
            entry: None,
            cause: self.cause.clone(),
            piece: None,
            body,
        };
        let full = self.session.show(&self.shared.hub, event);
        tokio::select! {
            biased;
            () = self.shared.hub.room(full) => {}
            () = self.stop.cancelled() => {}
        }
    }
}

/// Whether to continue. The error is the reason why not.
fn resolved(resolution: Resolution, prompt: &str) -> Result<Result<(), String>, Stopped> {
    Ok(match resolution {
        Resolution::Accepted { answer: Answer::Confirm(true), .. } => Ok(()),
        Resolution::Accepted { .. } => Err(format!("the user said no to {prompt:?}")),
        Resolution::Cancelled { .. } => Err(format!("the user dismissed {prompt:?}")),
        Resolution::TimedOut => Err(format!("nobody answered {prompt:?} in time")),
        Resolution::Headless => Err(format!("nobody is there to answer {prompt:?}")),
        Resolution::Withdrawn => return Err(Stopped),
    })
}

/// The start of a gate's output, with a note if it is truncated.
fn beginning(wrote: &str) -> String {
    let end = (0..=wrote.len().min(STAGE_GATE_BYTES)).rev().find(|end| wrote.is_char_boundary(*end));
    let shown = wrote.get(..end.unwrap_or(0)).unwrap_or_default();
    match wrote.len().saturating_sub(shown.len()) {
        0 => shown.to_owned(),
        left => format!("{shown}\n[… {left} more bytes, which are not shown …]\n"),
    }
}

fn as_map(results: &[(String, Value<'static>)]) -> Map<'static> {
    let mut map = Map::new();
    for (id, result) in results {
        map.insert(Value::keyword(id.clone()), result.clone());
    }
    map
}
