//! Calls of `job`: what a background job has written since the model's last look, its end, and a wait for either. Does not
//! run jobs.

use std::sync::Arc;

use regex_automata::meta::Regex;
use tokio::time::{Instant, timeout_at};

use crate::engine::change::Change;
use crate::engine::jobs::{JobLook, job_state};
use crate::engine::native::turn::Turn;
use crate::facts::JobStatus;
use crate::limits::{JOB_LINE_BYTES, JOB_MATCH_STEPS, JOB_STOP_WAIT, TOOL_RESULT_BYTES};
use crate::meter::{Exhausted, Meter};
use crate::session::{ApiError, Reply};
use crate::tool::job::{JobCall, JobWait};
use crate::tool::output::Outputs;
use crate::tool::{self, Outcome};
use crate::value::Value;

/// Carries a call out.
pub(super) async fn carry_out(turn: &Turn, arguments: &Value<'_>, outputs: &Outputs) -> Outcome {
    let done = match JobCall::of(arguments) {
        Ok(JobCall::List) => Ok(list(turn).await),
        Ok(JobCall::Read(id)) => read(turn, &id, outputs, "").await,
        Ok(JobCall::Wait(id, wait)) => self::wait(turn, &id, wait, outputs).await,
        Ok(JobCall::Stop(id)) => stop(turn, &id, outputs).await,
        Err(error) => return Outcome::failed(error),
    };
    match done {
        Ok(outcome) => outcome,
        Err(error) => Outcome::failed(format!("{}\n{}", error.message, list(turn).await.text)),
    }
}

async fn look(turn: &Turn, id: &str) -> Result<JobLook, ApiError> {
    let id: Arc<str> = id.into();
    turn.session.request(|ack| Change::LookAtJob { id, ack }).await
}

/// All jobs, the newest first.
async fn list(turn: &Turn) -> Outcome {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let reply = Reply::new(|jobs| drop(sender.send(jobs)));
    turn.session.tell(Change::ListJobs { statuses: None, reply });
    let jobs = receiver.await.ok().and_then(Result::ok).unwrap_or_default();
    let lines: Vec<String> = jobs
        .iter()
        .map(|job| format!("{} {}: {}", job.id, job_state(job), tool::one_line(&job.command, 200)))
        .collect();
    Outcome::ok(if lines.is_empty() { "There are no background jobs.".to_owned() } else { lines.join("\n") })
}

/// The output since the last look, and the state. `about` says how a wait ended.
async fn read(turn: &Turn, id: &str, outputs: &Outputs, about: &str) -> Result<Outcome, ApiError> {
    let JobLook { facts, output, seen, .. } = look(turn, id).await?;
    let (new, until) = since(outputs, &output, seen).await;
    let path = outputs.path(&output).unwrap_or_default();
    let running = facts.status == JobStatus::Running;
    let mut text = if new.is_empty() { "[nothing new]\n".to_owned() } else { new };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("[{about}job {id} {}; all of its output: {}]", job_state(&facts), path.display()));
    turn.session.tell(Change::JobShown { id: facts.id.clone(), until, ended: !running });
    let mut outcome = Outcome::ok(text);
    outcome.details.put(tool::JOB_ID, id.to_owned());
    outcome.details.put(tool::JOB_STATUS, facts.status.as_str());
    if let Some(code) = facts.exit_code {
        outcome.details.put("exit-code", Value::from(code));
    }
    Ok(outcome)
}

/// The output from a byte on, and the byte up to which that is. Of a long one, its start and its end.
async fn since(outputs: &Outputs, handle: &Arc<str>, from: u64) -> (String, u64) {
    let (outputs, handle) = (outputs.clone(), handle.clone());
    let work = move || {
        let part = |from: u64, limit: usize| outputs.read(&handle, from, limit).ok().flatten();
        let whole = u64::try_from(TOOL_RESULT_BYTES).unwrap_or(u64::MAX);
        let Some(first) = part(from, TOOL_RESULT_BYTES) else { return (String::new(), from) };
        let until = |offset: u64, text: &str| offset.saturating_add(u64::try_from(text.len()).unwrap_or(0));
        if first.size.saturating_sub(from) <= whole {
            return (first.text.clone(), until(first.offset, &first.text));
        }
        let half = TOOL_RESULT_BYTES / 2;
        let Some(head) = part(from, half) else { return (String::new(), from) };
        let last = first.size.saturating_sub(whole / 2);
        let Some(tail) = part(last, half) else { return (String::new(), from) };
        let left_out = tail.offset.saturating_sub(until(head.offset, &head.text));
        let end = until(tail.offset, &tail.text);
        (format!("{}\n[… {left_out} bytes left out …]\n{}", head.text, tail.text), end)
    };
    tokio::task::spawn_blocking(work).await.unwrap_or((String::new(), from))
}

/// Whether a line matches. A step is a byte, since the search is linear. Takes a while.
fn any_matches(pattern: &Regex, text: &str, meter: &mut Meter) -> Result<bool, Exhausted> {
    for line in text.lines() {
        meter.spend(line.len().saturating_add(1), 0)?;
        if pattern.is_match(line) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn wait(turn: &Turn, id: &str, wait: JobWait, outputs: &Outputs) -> Result<Outcome, ApiError> {
    let mut job = look(turn, id).await?;
    let deadline = Instant::now().checked_add(wait.patience).unwrap_or_else(Instant::now);
    let (mut read_until, mut line) = (job.seen, String::new());
    let mut meter = Meter::new(JOB_MATCH_STEPS, usize::MAX).stopped_by(&turn.stop);
    let ended = loop {
        if let Some(pattern) = &wait.pattern {
            let (new, until) = growth(outputs, &job.output, read_until).await;
            read_until = until;
            line.push_str(&new);
            // A pattern of the model's holds up no other session.
            let pattern = pattern.clone();
            let look = tokio::task::spawn_blocking(move || {
                let found = any_matches(&pattern, &line, &mut meter);
                (found, line, meter)
            });
            let Ok(looked) = look.await else { break "the wait was ended; ".to_owned() };
            let found;
            (found, line, meter) = looked;
            match found {
                Ok(true) => break "a line matches; ".to_owned(),
                Err(_) if turn.stop.is_cancelled() => break "the wait was ended; ".to_owned(),
                Err(_) => break "there is too much output to look for a line; ".to_owned(),
                Ok(false) => {}
            }
            // The last line may go on.
            let begin = line.rfind('\n').map_or(0, |end| end.saturating_add(1));
            let begin = begin.max(line.len().saturating_sub(JOB_LINE_BYTES));
            let begin = (begin..=line.len()).find(|at| line.is_char_boundary(*at)).unwrap_or(line.len());
            line.drain(..begin);
            if !new.is_empty() {
                continue;
            }
        }
        if job.facts.status != JobStatus::Running {
            break String::new();
        }
        let changed = tokio::select! {
            biased;
            () = turn.stop.cancelled() => break "the wait was ended; ".to_owned(),
            () = turn.control.interrupt.cancelled() => break "the wait was ended; ".to_owned(),
            () = turn.handing_over() => break "the wait was ended; ".to_owned(),
            changed = timeout_at(deadline, job.changes.changed()) => changed,
        };
        if changed.is_err() {
            break format!("after {} seconds, ", wait.patience.as_secs());
        }
        job = look(turn, id).await?;
    };
    read(turn, id, outputs, &ended).await
}

/// The next piece of the output from a byte on.
async fn growth(outputs: &Outputs, handle: &Arc<str>, from: u64) -> (String, u64) {
    let (outputs, handle) = (outputs.clone(), handle.clone());
    let work = move || {
        let part = outputs.read(&handle, from, JOB_LINE_BYTES).ok().flatten();
        part.map_or((String::new(), from), |part| {
            let until = part.offset.saturating_add(u64::try_from(part.text.len()).unwrap_or(0));
            (part.text, until)
        })
    };
    tokio::task::spawn_blocking(work).await.unwrap_or((String::new(), from))
}

async fn stop(turn: &Turn, id: &str, outputs: &Outputs) -> Result<Outcome, ApiError> {
    let mut job = look(turn, id).await?;
    job.stop.cancel();
    let deadline = Instant::now().checked_add(JOB_STOP_WAIT).unwrap_or_else(Instant::now);
    while job.facts.status == JobStatus::Running {
        if timeout_at(deadline, job.changes.changed()).await.is_err() {
            break;
        }
        job = look(turn, id).await?;
    }
    read(turn, id, outputs, "").await
}
