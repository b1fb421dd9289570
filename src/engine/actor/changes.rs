//! Applies each change to the session. The order of the match is that of the list of changes. Holds no rules: the
//! files beside it do, one for each subject.

use super::turns::Beginning;
use super::{SessionActor, settings, undo};
use crate::engine::change::Change;
use crate::session::ApiError;
use crate::store::FromElsewhere;

impl SessionActor {
    /// Applies a change. The session's task does so, one at a time.
    pub(super) async fn apply(&mut self, change: Change) {
        match change {
            Change::FromElsewhere(FromElsewhere::Entries(entries)) => self.durable.mirror(&entries),
            Change::FromElsewhere(FromElsewhere::Owner) => self.look_at_owner().await,
            Change::Taken { ack } => {
                self.look_at_owner().await;
                let _ = ack.send(());
            }
            Change::Share { reply } => {
                let shared = self.durable.share().await;
                reply.send(shared);
            }
            Change::Give { host, reply } => reply.send(self.give(host).await),

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
            Change::Interrupt { call, request, before, at_once, reply } => {
                self.interrupt(call, request, (before, at_once), reply).await;
            }
            Change::AbortRetry { reply } => {
                reply.ok(());
                self.abort_retry();
            }
            Change::AskAgain { call, how, request, reply } => self.ask_again(call, how, request, reply).await,
            Change::Undo { call, wish, reply } => reply.send(match self.turns.must_be_free() {
                Ok(()) => undo::undo(&mut self.durable, &call, &wish).await,
                Err(error) => Err(error),
            }),
            Change::EditPending { call, entry, content, reply } => {
                let decided = self.durable.state.edit_pending(entry, *content);
                self.durable.write(&call, decided, reply).await;
            }
            Change::RemovePending { call, entry, reply } => {
                let decided = self.durable.state.remove_pending(&entry);
                self.durable.write(&call, decided, reply).await;
            }
            Change::MovePending { call, entry, before, reply } => {
                match self.durable.state.move_pending(entry, before).transpose() {
                    Some(decided) => drop(self.durable.write(&call, decided, reply).await),
                    None => reply.ok(()),
                }
            }
            Change::ResumeQueue { call, reply } => self.resume_queue(call, reply).await,

            Change::SetName { call, name, reply } => {
                if self.durable.write(&call, settings::name(name), reply).await {
                    self.durable.shared.tree.announce(Some(call.cause()));
                }
            }
            Change::SetModel { call, provider, model, reply } => {
                self.durable.write(&call, Ok(settings::model(provider, model)), reply).await;
            }
            Change::SetThinking { call, level, reply } => {
                let level = level.unwrap_or_else(|| self.durable.state.facts.next_thinking());
                let decided = (settings::choice("thinking", level.as_str()), level);
                self.durable.write(&call, Ok(decided), reply).await;
            }
            Change::SetMode { call, mode, reply } => {
                self.durable.write(&call, Ok((settings::choice("mode", mode.as_str()), mode)), reply).await;
            }
            Change::SetAutoCompaction { call, enabled, reply } => {
                let decided = (settings::choice("auto-compaction", enabled), enabled);
                self.durable.write(&call, Ok(decided), reply).await;
            }
            Change::SetAutoRetry { call, enabled, reply } => {
                let decided = (settings::choice("auto-retry", enabled), enabled);
                self.durable.write(&call, Ok(decided), reply).await;
            }
            Change::SetMcp { call, name, enabled, reply } => {
                let decided = settings::mcp(&self.durable.state.facts, name, enabled);
                self.durable.write(&call, Ok((decided, ())), reply).await;
            }
            Change::ShowEditor { editor, reply } => {
                self.durable.set_editor(*editor);
                reply.ok(());
            }

            Change::Bash { command, timeout_seconds, reply } => {
                self.programs.user_bash(&self.durable, command, timeout_seconds, reply);
            }
            Change::AbortBash { reply } => {
                self.programs.abort_bash();
                reply.ok(());
            }
            Change::BashEnded { ack } => {
                self.programs.bash_ended();
                self.check_idle();
                let _ = ack.send(());
            }
            Change::StartJob { id, turn, job, ack } => {
                let _ = ack.send(self.programs.start_job(&self.durable, id, turn, *job));
            }
            Change::JobOutput { id, newest } => self.programs.job_output(&self.durable, &id, newest),
            Change::JobEnded { id, ended, ack } => {
                self.programs.job_ended(&self.durable, &id, *ended);
                if self.turns.is_free() {
                    self.programs.write_updates(&mut self.durable).await;
                }
                self.check_idle();
                let _ = ack.send(());
            }
            Change::LookAtJob { id, ack } => drop(ack.send(self.programs.jobs.look(&id))),
            Change::JobShown { id, until, ended } => self.programs.job_shown(&id, until, ended),
            Change::ListJobs { statuses, reply } => reply.ok(self.programs.jobs.list(statuses.as_deref())),
            Change::GetJob { id, reply } => {
                reply.send(self.programs.jobs.get(&id).ok_or_else(|| ApiError::not_found("job", &id)));
            }
            Change::WaitJob { id, reply } => self.programs.jobs.wait(&id, reply),
            Change::CancelJob { id, reply } => reply.send(self.programs.jobs.cancel(&id)),

            Change::Append { entries, ack } => {
                let _ = ack.send(self.durable.append(entries).await);
            }
            Change::AppendLast { turn, entries, ack } => {
                let written = self.durable.append(entries).await;
                let last = written.as_ref().ok().and_then(|entries| entries.last().cloned());
                self.turns.set_ending(&turn, last);
                let _ = ack.send(written);
            }
            Change::HasSteering { ack } => {
                let _ = ack.send(!self.durable.state.queue.steering().is_empty());
            }
            Change::DeliverSteering { turn, read, ack } => {
                // Before what the user sent meanwhile: it belongs to the round that has ended.
                self.programs.write_updates(&mut self.durable).await;
                let _ = ack.send(self.deliver_steering(&turn, read).await);
            }
            Change::Prepared { turn, resources, ack } => {
                self.prepared(&turn, resources).await;
                let _ = ack.send(());
            }
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
            Change::ModelLearned { ack } => {
                self.durable.know_model();
                let _ = ack.send(());
            }
            Change::AgentTold { told, ack } => {
                self.durable.agent_told(*told).await;
                let _ = ack.send(());
            }
            Change::Adopt { ack } => {
                self.durable.adopt(!self.turns.is_free()).await;
                let _ = ack.send(());
            }
            Change::TurnEnded { turn, end, ack } => {
                self.turn_ended(&turn, end).await;
                let _ = ack.send(());
            }
            Change::BeginStage { turn, message, cause, ack } => {
                let _ = ack.send(self.begin_with(turn, message, cause, Vec::new()).await);
            }

            Change::Work { task, execution, cause, variables, above, ack } => {
                let beginning = Beginning { variables, execution, unended: None, above: Some(above) };
                let _ = ack.send(self.work(task, cause, beginning).await);
            }
            Change::InterruptWork => drop(self.turns.interrupt()),
            Change::EndWork => self.stop_all(),

            Change::Stop { reply } => {
                self.stop_all();
                self.when_idle(reply);
            }
            Change::ConfigurationChanged => self.adopt_between_turns().await,
            Change::ContextFound { project, ack } => {
                self.durable.found(&project);
                let _ = ack.map(|ack| ack.send(()));
            }
            Change::Recover { ack } => {
                match self.durable.state.facts.is_elsewhere {
                    true => self.durable.follow_owner(),
                    false => self.cut_off.recover(&mut self.durable).await,
                }
                let _ = ack.send(());
            }
            Change::TakeUp { variables } => self.take_up(variables).await,
            Change::BringWaiting { variables } => self.durable.state.queue.set_variables(variables),
            Change::HandOver => self.hand_over(),
            Change::Archived { archived, ack } => {
                self.durable.set_archived(archived);
                let _ = ack.send(());
            }
            // It is not at rest, and stays.
            Change::Unload(_) => {}
            Change::Stats { reply } => {
                reply.ok(self.durable.handle.snapshot().stats());
            }
            Change::PathTo { entry, ack } => drop(ack.send(self.durable.state.entries.up_to(&entry))),
        }
    }
}
