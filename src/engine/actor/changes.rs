//! Applies each change to the session. The order of the match is that of the list of changes. Holds no rules: the
//! files beside it do, one for each subject.

use super::SessionActor;
use crate::engine::change::Change;
use crate::session::ApiError;
use crate::value::Value;

impl SessionActor {
    /// Applies a change. The session's task does so, one at a time.
    pub(super) async fn apply(&mut self, change: Change) {
        match change {
            Change::Prompt { call, incoming, reply } => self.prompt(call, incoming, reply).await,
            Change::Enqueue { call, incoming, until, reply } => {
                self.enqueue(call, incoming, until, reply).await;
            }
            Change::Invoke { call, name, arguments, incoming, reply } => {
                self.invoke(call, name, arguments, incoming, reply).await;
            }
            Change::Inject { call, incoming, interrupts, reply } => {
                self.inject(call, incoming, interrupts, reply).await;
            }
            Change::Claim { request, reply } => self.claim(request, reply).await,
            Change::Answer { call, request, given, reply } => {
                self.answer(call, request, given, reply).await;
            }
            Change::BeginWorkflow { call, workflow, arguments, reply } => {
                self.begin_workflow(call, workflow, arguments, reply).await;
            }
            Change::Compact { call, wishes, reply } => self.compact(call, wishes, reply),
            Change::CallTool { call, asked, reply } => self.call_tool(call, *asked, reply),
            Change::Abort { request, reply } => self.abort_for(request, reply).await,
            Change::Interrupt { call, request, before, reply } => {
                self.interrupt(call, request, before, reply).await;
            }
            Change::AbortRetry { reply } => {
                reply.ok(());
                self.abort_retry();
            }
            Change::AskAgain { call, how, request, reply } => self.ask_again(call, how, request, reply).await,
            Change::Undo { call, wish, reply } => self.undo(call, wish, reply).await,
            Change::EditPending { call, entry, content, reply } => {
                self.edit_pending(call, entry, *content, reply).await;
            }
            Change::RemovePending { call, entry, reply } => self.remove_pending(call, entry, reply).await,
            Change::MovePending { call, entry, before, reply } => {
                self.move_pending(call, entry, before, reply).await;
            }
            Change::ResumeQueue { call, reply } => self.resume_queue(call, reply).await,

            Change::SetName { call, name, reply } => self.set_name(call, name, reply).await,
            Change::SetModel { call, provider, model, reply } => {
                self.set_model(call, provider, model, reply).await;
            }
            Change::SetThinking { call, level, reply } => {
                let level = level.unwrap_or_else(|| self.facts.next_thinking());
                self.set(call, "thinking", Value::from(level.as_str()), level, reply).await;
            }
            Change::SetMode { call, mode, reply } => {
                self.set(call, "mode", Value::from(mode.as_str()), mode, reply).await;
            }
            Change::SetAutoCompaction { call, enabled, reply } => {
                self.set(call, "auto-compaction", Value::from(enabled), enabled, reply).await;
            }
            Change::SetAutoRetry { call, enabled, reply } => {
                self.set(call, "auto-retry", Value::from(enabled), enabled, reply).await;
            }
            Change::SetMcp { call, name, enabled, reply } => {
                let mut off = (*self.facts.mcp_off).clone();
                let _ = if enabled { off.remove(&name) } else { off.insert(name) };
                let off = off.iter().map(|name| Value::from(name.to_string()));
                self.set(call, "mcp-off", Value::vector(off), (), reply).await;
            }
            Change::ShowEditor { editor, reply } => {
                self.set_editor(*editor);
                reply.ok(());
            }

            Change::Bash { command, timeout_seconds, reply } => {
                self.user_bash(command, timeout_seconds, reply);
            }
            Change::AbortBash { reply } => {
                self.abort_bash();
                reply.ok(());
            }
            Change::BashEnded { ack } => {
                self.bash = None;
                self.check_idle();
                let _ = ack.send(());
            }
            Change::StartJob { id, turn, job, ack } => {
                let _ = ack.send(self.start_job(id, turn, *job));
            }
            Change::JobOutput { id, newest } => self.job_output(&id, newest),
            Change::JobEnded { id, ended, ack } => {
                self.job_ended(&id, *ended);
                let _ = ack.send(());
            }
            Change::ListJobs { statuses, reply } => reply.ok(self.jobs.list(statuses.as_deref())),
            Change::GetJob { id, reply } => {
                reply.send(self.jobs.get(&id).ok_or_else(|| ApiError::not_found("job", &id)));
            }
            Change::WaitJob { id, reply } => self.jobs.wait(&id, reply),
            Change::CancelJob { id, reply } => reply.send(self.jobs.cancel(&id)),

            Change::Append { entries, ack } => {
                let _ = ack.send(self.append(entries).await);
            }
            Change::AppendLast { turn, entries, ack } => {
                let written = self.append(entries).await;
                let last = written.as_ref().ok().and_then(|entries| entries.last().cloned());
                self.ending(&turn, last);
                let _ = ack.send(written);
            }
            Change::HasSteering { ack } => drop(ack.send(self.has_steering())),
            Change::DeliverSteering { turn, ack } => drop(ack.send(self.deliver_steering(&turn).await)),
            Change::Retrying { retry, ack } => {
                self.retrying(retry);
                let _ = ack.send(());
            }
            Change::RetryOver { ack } => {
                self.retry_over();
                let _ = ack.send(());
            }
            Change::CompactionStarted { asked, ack } => {
                self.compaction_started(asked);
                let _ = ack.send(());
            }
            Change::CompactionEnded { phase, ended, ack } => {
                self.compaction_ended(phase, ended);
                let _ = ack.send(());
            }
            Change::Adopt { ack } => {
                self.adopt().await;
                let _ = ack.send(());
            }
            Change::TurnEnded { turn, end, ack } => {
                self.turn_ended(&turn, end).await;
                let _ = ack.send(());
            }
            Change::BeginStage { turn, message, cause, ack } => {
                let _ = ack.send(self.begin_stage(turn, message, cause).await);
            }

            Change::Work { task, execution, cause, variables, ack } => {
                let _ = ack.send(self.work(task, execution, cause, variables).await);
            }
            Change::InterruptWork => self.interrupt_work(),
            Change::EndWork => self.stop_all(),

            Change::Stop { reply } => {
                self.stop_all();
                self.when_idle(reply);
            }
            Change::ConfigurationChanged => self.adopt_between_turns().await,
            Change::ContextFound { project, ack } => {
                self.found(&project);
                let _ = ack.map(|ack| ack.send(()));
            }
            Change::Recover { ack } => {
                self.recover().await;
                let _ = ack.send(());
            }
            Change::TakeUp { variables } => self.take_up(variables).await,
            Change::HandOver => self.hand_over(),
            Change::Archived { archived, ack } => {
                self.set_archived(archived);
                let _ = ack.send(());
            }
            // It is not at rest, and stays.
            Change::Unload(_) => {}
            Change::Stats { reply } => {
                reply.ok(self.handle.snapshot().stats());
            }
            Change::PathTo { entry, ack } => drop(ack.send(self.entries.up_to(&entry))),
        }
    }
}
