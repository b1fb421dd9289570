//! Which call of the session API each call of another host is.

use super::call::RemoteCall;
use super::questions::open_questions;
use super::reply::PendingReply;
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::query;
use crate::session::{
    ApiError, Call, Jobs as _, Prompt, Queries as _, Questions as _, Queues as _, Reach,
    SessionSettings as _, Sessions as _, Turns as _, Undos as _,
};
use crate::slash::{self, UserInput};

/// Makes the call at the session's owner, for the asker.
pub(super) fn carry_out(asked: RemoteCall, engine: &Engine, call: Call, handle: &Handle, owed: PendingReply) {
    match asked {
        // What is answered where requests are taken asks no session.
        RemoteCall::End(_) | RemoteCall::Control(_) => {
            owed.send::<()>(Err(ApiError::failed("It is no call of a session.")));
        }
        RemoteCall::Follow { answers } => {
            if engine.followers.has_people(&engine.shared, call.connection, answers)
                && let Some(client) = engine.shared.hub.client(call.connection)
            {
                // It asks for open questions itself.
                let _ = engine.joined(call.connection, &client);
            }
            engine.attend(&call, handle);
            owed.send(Ok(if answers { open_questions(engine, handle) } else { Vec::new() }));
        }
        RemoteCall::Respond(given) => engine.respond(call, given.read(), owed.reply()),
        RemoteCall::Prompt(Prompt { ref message, .. }) if is_command(message) => {
            let expected = "text for the model: a slash command runs at the host where it is typed";
            owed.send::<()>(Err(ApiError::invalid_param("message", expected)));
        }
        RemoteCall::Prompt(prompt) => engine.prompt(call, prompt, owed.reply()),
        RemoteCall::Steer(prompt) => engine.steer(call, prompt, owed.reply()),
        RemoteCall::FollowUp(prompt) => engine.follow_up(call, prompt, owed.reply()),
        RemoteCall::AskAgain(how, key) => engine.ask_again(call, how, key, owed.reply()),
        RemoteCall::Abort(given) => engine.abort(call, given, owed.reply()),
        RemoteCall::Interrupt(given) => engine.interrupt(call, given, owed.reply()),
        RemoteCall::AbortRetry => engine.abort_retry(call, owed.reply()),
        RemoteCall::Compact(wishes) => engine.compact(call, wishes, owed.reply()),
        RemoteCall::EditPending(entry, content) => engine.edit_pending(call, entry, content, owed.reply()),
        RemoteCall::RemovePending(entry) => engine.remove_pending(call, entry, owed.reply()),
        RemoteCall::MovePending(entry, before) => engine.move_pending(call, entry, before, owed.reply()),
        RemoteCall::ResumeQueue => engine.resume_queue(call, owed.reply()),
        RemoteCall::Undo(wish) => engine.undo(call, wish, owed.reply()),
        RemoteCall::SetName(name) => engine.set_name(call, name, owed.reply()),
        RemoteCall::SetModel(provider, model) => {
            engine.set_model(call, provider, model, Reach::Session, owed.reply());
        }
        RemoteCall::CycleModel(forward) => engine.cycle_model(call, forward, owed.reply()),
        RemoteCall::SetThinking(level) => {
            engine.set_thinking_level(call, level, Reach::Session, owed.reply());
        }
        RemoteCall::SetMode(mode) => engine.set_mode(call, mode, owed.reply()),
        RemoteCall::SetAutoCompaction(enabled) => engine.set_auto_compaction(call, enabled, owed.reply()),
        RemoteCall::SetAutoRetry(enabled) => engine.set_auto_retry(call, enabled, owed.reply()),
        RemoteCall::SetOption(option, value) => engine.set_option(call, option, value, owed.reply()),
        RemoteCall::AgentOptions => engine.agent_options(call, owed.reply()),
        RemoteCall::Bash(command, seconds) => engine.bash(call, command, seconds, owed.reply()),
        RemoteCall::AbortBash => engine.abort_bash(call, owed.reply()),
        RemoteCall::Jobs(statuses) => engine.jobs(call, statuses, owed.reply()),
        RemoteCall::Job(id) => engine.job(call, id, owed.reply()),
        RemoteCall::JobWait(id) => engine.job_wait(call, id, owed.reply()),
        RemoteCall::CancelJob(id) => engine.cancel_job(call, id, owed.reply()),
        RemoteCall::CallTool(tool, arguments) => engine.call_tool(call, tool, arguments, owed.reply()),
        RemoteCall::ReadOutput(output, offset, limit) => {
            engine.read_output(call, output, offset, limit, owed.reply());
        }
        RemoteCall::Query(query) if !query::is_of_host(&query) => {
            let expected = "a query of what the session's host alone knows";
            owed.send::<()>(Err(ApiError::invalid_param("query", expected)));
        }
        RemoteCall::Query(query) => engine.query(call, query, owed.reply()),
    }
}

/// Whether a message is a slash command of this program.
fn is_command(message: &str) -> bool {
    matches!(slash::read(message), UserInput::Command(_) | UserInput::Usage(_))
}
