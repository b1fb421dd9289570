//! Decides if the search of a model's provider is offered. The person says so before the first offer of a session, because
//! nobody can be asked when the server searches: words of the conversation go to others, and each search is billed.

use std::sync::Arc;

use super::Batch;
use crate::engine::native::turn::Turn;
use crate::event::ToolCall;
use crate::event::question::{Answer, QuestionContent};
use crate::interaction::Resolution;
use crate::message::Mode;
use crate::provider::Provider;
use crate::session::ApiError;
use crate::store::EntryBody;
use crate::tool::WEB_SEARCH;
use crate::tool::permission::{Access, Act, Decision, Verdict};
use crate::value::Value;

/// Whether a turn's next request offers the search. Asks the person if nothing has decided it, and keeps the answer.
///
/// # Errors
/// If the journal cannot be written.
pub async fn is_offered(
    turn: &Turn,
    provider: &dyn Provider,
    was_asked: &mut bool,
) -> Result<bool, ApiError> {
    let facts = turn.session.snapshot().facts.clone();
    let config = turn.config();
    let is_free = turn.execution.is_none() && turn.session.working_for().is_none();
    let chosen = facts.web_search;
    let is_wanted = chosen.unwrap_or(config.settings.web_search);
    if !is_wanted || !is_free || !provider.searches_web(&facts.model_id, &turn.model().takes) {
        return Ok(false);
    }
    let batch = Batch::new(turn, false, None);
    let call = call(&facts.model_id);
    if matches!(batch.judge_act(&call, &Act::of(WEB_SEARCH, Access::Nothing)), Verdict::Deny(_)) {
        return Ok(false);
    }
    if chosen.is_some() {
        return Ok(true);
    }
    let policy = batch.may(&call);
    let allows = policy.rules.iter().any(|rule| {
        rule.decision == Decision::Allow && rule.allows_by_name(WEB_SEARCH) && rule.host.is_none()
    });
    let decided = match policy.leave.mode {
        _ if allows => true,
        Mode::Yolo => true,
        _ if std::mem::replace(was_asked, true) => return Ok(false),
        _ => {
            let prompt = format!(
                "May {} search the web in this session? {} runs the searches: words of the conversation go to its search \
                 engine, and each search may be billed. /search changes it later.",
                facts.model_id, facts.model_provider
            );
            let question = QuestionContent::Confirm { prompt, default: false };
            match batch.ask(&call, question, Vec::new()).await {
                Resolution::Accepted { answer: Answer::Confirm(answer), .. } => answer,
                Resolution::Accepted { .. } | Resolution::Cancelled { .. } => false,
                // Nobody has decided: the next turn asks again.
                Resolution::TimedOut | Resolution::Withdrawn | Resolution::Headless => return Ok(false),
            }
        }
    };
    let entry = EntryBody::Setting { key: WEB_SEARCH.into(), value: Value::from(decided) };
    turn.write(vec![entry]).await?;
    Ok(decided)
}

/// The call that the rules judge and the question names.
fn call(model: &Arc<str>) -> ToolCall {
    ToolCall {
        id: WEB_SEARCH.into(),
        name: WEB_SEARCH.into(),
        summary: format!("{WEB_SEARCH} by {model}").into(),
        arguments: "".into(),
        parsed: Value::Nil.into(),
    }
}
