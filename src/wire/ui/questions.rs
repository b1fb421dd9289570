//! Questions both ways: what the interface is asked, and what its answer means. Decides nothing.

use std::sync::Arc;

use crate::catalogue::tools::ToolRow;
use crate::event::question::{Approval, QuestionContent, QuestionKind};
use crate::event::{Choice, Event, QuestionAsked};
use crate::secret::Secret;
use crate::session::AnswerFields;
use crate::value::{Map, Value};
use crate::wire::jsonrpc::{at, flag, text};
use crate::wire::ui::connection_state::{OpenQuestion, OpenRequest, RunStatus, UiStateInner};
use crate::wire::ui::frames;
use crate::wire::ui::run_lines::{agent, status};

/// What follows this line of a message is shown as what would be remembered.
const REMEMBER: &str = "Remember (don't ask again):";

/// Asks a question of the engine, which comes from that request of the client, if from one. `whose` is the session of one that
/// the interface does not show, for a person.
pub fn question(
    state: &mut UiStateInner,
    out: &mut Vec<u8>,
    event: &Event,
    asked: &QuestionAsked,
    own: Option<Arc<str>>,
    whose: Option<&str>,
) {
    let Some(session) = event.session.clone() else { return };
    if !state.can.answers(asked.content.kind()) {
        return;
    }
    displace(state, out);
    if let QuestionContent::Approve(approval) = asked.content.as_ref()
        && state.can.preflight
        && whose.is_none()
        && state.run.as_ref().is_some_and(|run| run.steps.contains_key(&approval.call))
    {
        preview(state, out, approval);
    }
    let (method, mut params) = request(asked, whose);
    if whose.is_none() {
        let run = state.running().map(ToString::to_string);
        params.put_some("run_id", run);
        status(state, out, RunStatus::AwaitingUi, None);
    }
    frames::ask(out, &asked.id, method, &params);
    let tool = asked.content.tool().map(ToString::to_string);
    let (kind, is_elsewhere) = (asked.content.kind(), whose.is_some());
    let about = OpenRequest::Question { kind, session, tool, request: own, is_elsewhere };
    state.question = Some(OpenQuestion { id: asked.id.clone(), asked: about });
}

/// A further dialog replaces the open one on the screen of an interface: the open one is answered for it.
fn displace(state: &mut UiStateInner, out: &mut Vec<u8>) {
    if let Some(OpenQuestion { asked: OpenRequest::Logout { request, .. }, .. }) = state.question.take() {
        frames::answer(out, &request, &logged_out(false, false, true));
    }
}

/// The result of `auth.logout`.
pub fn logged_out(auth: bool, session: bool, cancelled: bool) -> Map<'static> {
    let mut result = Map::new().with("ok", !cancelled);
    result.put("auth_cleared", auth);
    result.put("session_cleared", session);
    result.put_some("cancelled", cancelled.then_some(true));
    result
}

fn preview(state: &mut UiStateInner, out: &mut Vec<u8>, approval: &Approval) {
    if approval.diff.is_some() || approval.path.is_some() || approval.command.is_some() {
        let mut event = Map::new().with("type", "permission.preview").with("tool", approval.tool.to_string());
        event.put("tool_call_id", approval.call.to_string());
        event.put_some("file_path", approval.path.clone());
        event.put_some("diff", approval.diff.as_ref().map(|diff| diff.text.clone()));
        event.put("summary", approval.summary.to_string());
        event.put_some(
            "truncated",
            approval.diff.as_ref().is_some_and(|diff| diff.cut.is_some()).then_some(true),
        );
        agent(state, out, event);
    }
    let ready = Map::new().with("type", "permission.ready").with("tool", approval.tool.to_string());
    agent(state, out, ready.with("tool_call_id", approval.call.to_string()));
}

/// The method and the params of a question.
fn request(asked: &QuestionAsked, whose: Option<&str>) -> (&'static str, Map<'static>) {
    let by = |title: String| {
        let title = match &asked.subagent {
            Some(subagent) => format!("{title} ({})", subagent.label),
            None => title,
        };
        match whose {
            Some(whose) => format!("Another session asks ({whose}): {title}"),
            None => title,
        }
    };
    let mut warned = String::new();
    for warning in asked.warnings.iter() {
        warned.push_str("\n\nWarning: ");
        warned.push_str(warning);
    }
    let danger = !asked.warnings.is_empty();
    let confirm = |title: String, message: String, reason: bool| {
        let mut params = Map::new().with("title", by(title)).with("message", message);
        params.put("danger_level", if danger { "danger" } else { "normal" });
        params.put("allow_reason", reason);
        params
    };
    match asked.content.as_ref() {
        QuestionContent::Approve(approval) => {
            let mut message = match (&approval.command, approval.summary.is_empty()) {
                (Some(command), _) => command.clone(),
                (None, false) => approval.summary.to_string(),
                (None, true) => approval.tool.to_string(),
            };
            message.push_str(&warned);
            let mut params = Map::new().with("title", by(title_of(approval)));
            if let Some(rule) = &approval.suggested_rule {
                message.push_str(&format!("\n\n{REMEMBER}\n{}", rule_line(rule)));
            }
            params.put("message", message);
            params.put("confirm_label", "Allow");
            params.put("cancel_label", "Deny");
            let danger = danger || approval.is_dangerous;
            params.put("danger_level", if danger { "danger" } else { "normal" });
            params.put("allow_remember", approval.suggested_rule.is_some());
            params.put("allow_reason", true);
            ("ui.confirm.request", params)
        }
        QuestionContent::Confirm { prompt, .. } => {
            ("ui.confirm.request", confirm("Confirm".to_owned(), format!("{prompt}{warned}"), false))
        }
        QuestionContent::DeviceCode { provider, url, code, .. } => {
            let message = format!("Open {url} and enter the code {code}. Confirm when it is done.{warned}");
            ("ui.confirm.request", confirm(format!("Log in to {provider}"), message, false))
        }
        QuestionContent::GrantStageTool(grant) => {
            let message = format!("{}\n\n{}{warned}", grant.args_summary, grant.reason);
            let title = format!("Allow {} once outside its stage?", grant.tool);
            ("ui.confirm.request", confirm(title, message, true))
        }
        QuestionContent::ApproveSubagentEnvelope(envelope) => {
            let message = format!(
                "{}\n\nTools: {}\n{}{warned}",
                envelope.task_summary,
                envelope.tools.join(", "),
                envelope.who()
            );
            ("ui.confirm.request", confirm("Start a subagent?".to_owned(), message, true))
        }
        QuestionContent::Ask { prompt } => {
            let params = Map::new().with("title", by("Question".to_owned()));
            ("ui.prompt.request", params.with("message", format!("{prompt}{warned}")).with("multiline", true))
        }
        QuestionContent::Password { prompt } => {
            let params = Map::new().with("title", by("Secret".to_owned()));
            ("ui.prompt.request", params.with("message", format!("{prompt}{warned}")).with("secret", true))
        }
        QuestionContent::Select { prompt, options } => {
            let items = options
                .iter()
                .enumerate()
                .map(|(at, option)| Map::new().with("id", at.to_string()).with("label", option.clone()));
            let params = Map::new().with("title", by(format!("{prompt}{warned}")));
            ("ui.pick.request", params.with("items", Value::vector(items)).with("multi", false))
        }
    }
}

fn title_of(approval: &Approval) -> String {
    let title = ToolRow::of(&approval.tool).and_then(|row| row.title);
    title.map_or_else(|| format!("Allow {}?", approval.tool), str::to_owned)
}

/// A rule on one line.
fn rule_line(rule: &crate::facts::rule::Rule) -> String {
    let mut line = rule.tool.clone().unwrap_or_else(|| "any tool".to_owned());
    for part in [&rule.command, &rule.path, &rule.host].into_iter().flatten() {
        line.push_str(": ");
        line.push_str(part);
    }
    line
}

/// Asks for the choice of a slash command.
pub fn choice(state: &mut UiStateInner, out: &mut Vec<u8>, choice: &Arc<Choice>, request: Option<Arc<str>>) {
    let Some(request) = request else { return };
    displace(state, out);
    let items = choice.items.iter().enumerate().map(|(at, item)| {
        let mut shown = Map::new().with("id", at.to_string()).with("label", item.label.clone());
        shown.put_some("detail", item.about.excerpt.clone());
        shown
    });
    let mut params = Map::new().with("title", choice.prompt).with("items", Value::vector(items));
    params.put("multi", false);
    params.put_some("run_id", state.commands.get(&request).map(ToString::to_string));
    frames::ask(out, &choice.request, "ui.pick.request", &params);
    let picks = choice.items.iter().map(|item| item.pick.clone()).collect();
    let asked = OpenRequest::Choice { kind: choice.kind, picks, request };
    state.question = Some(OpenQuestion { id: choice.request.clone(), asked });
}

/// What a person said to a question.
pub struct QuestionReply {
    /// Whether it is an answer rather than a dismissal.
    pub accepted: bool,
    /// The answer.
    pub answer: AnswerFields,
    /// The note to the model.
    pub note: Option<String>,
    /// Whether the run ends with it.
    pub ends_run: bool,
}

/// Reads the answer to a question. What is malformed counts as a refusal; only `true` is yes.
pub fn said(kind: QuestionKind, result: &Value<'_>) -> QuestionReply {
    let ok = flag(result, "ok") == Some(true);
    let note = text(result, "reason").filter(|reason| !reason.trim().is_empty()).map(str::to_owned);
    let mut answer = AnswerFields::default();
    let dismissed =
        |answer: AnswerFields| QuestionReply { accepted: false, answer, note: None, ends_run: false };
    match kind {
        QuestionKind::Approve => {
            let remember = flag(result, "remember") == Some(true);
            answer.outcome = Some(if ok { "approve" } else { "deny" }.to_owned());
            answer.scope = Some(if remember { "rule" } else { "once" }.to_owned());
            QuestionReply { accepted: true, ends_run: !ok && note.is_none(), answer, note }
        }
        QuestionKind::GrantStageTool | QuestionKind::ApproveSubagentEnvelope => {
            answer.outcome = Some(if ok { "approve" } else { "deny" }.to_owned());
            QuestionReply { accepted: true, answer, note, ends_run: false }
        }
        QuestionKind::Confirm | QuestionKind::DeviceCode => {
            (answer.ok, answer.done) = (Some(ok), Some(ok));
            QuestionReply { accepted: true, answer, note, ends_run: false }
        }
        QuestionKind::Ask => match text(result, "value") {
            Some(value) => {
                answer.text = Some(value.to_owned());
                QuestionReply { accepted: true, answer, note: None, ends_run: false }
            }
            None => dismissed(answer),
        },
        QuestionKind::Password => match text(result, "value") {
            Some(value) => {
                answer.secret = Some(Secret::new(value.to_owned()));
                QuestionReply { accepted: true, answer, note: None, ends_run: false }
            }
            None => dismissed(answer),
        },
        QuestionKind::Select => match picked(result) {
            Some(place) => {
                answer.index = Some(place);
                QuestionReply { accepted: true, answer, note: None, ends_run: false }
            }
            None => dismissed(answer),
        },
    }
}

/// The place of the picked item, if it is the only one. Its id is the place as it was told, and no other writing of the number.
pub fn picked(result: &Value<'_>) -> Option<usize> {
    let [id] = at(result, "ids")?.as_slice()? else { return None };
    let id = id.as_str()?;
    id.parse().ok().filter(|place: &usize| place.to_string() == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn only_true_is_yes() {
        for (line, accepted, outcome, ends) in [
            (r#"{"ok":true}"#, true, "approve", false),
            (r#"{"ok":true,"remember":true,"reason":null}"#, true, "approve", false),
            (r#"{"ok":false,"reason":"no"}"#, true, "deny", false),
            (r#"{"ok":false,"reason":" "}"#, true, "deny", true),
            (r#"{"ok":"true"}"#, true, "deny", true),
            (r#"{"ok":1}"#, true, "deny", true),
            (r#"[true]"#, true, "deny", true),
            (r#"null"#, true, "deny", true),
        ] {
            let said = said(QuestionKind::Approve, &json::read(line.as_bytes()).unwrap());
            let found = (said.accepted, said.answer.outcome.as_deref(), said.ends_run);
            assert_eq!(found, (accepted, Some(outcome), ends), "{line}");
        }
        let scope = |line: &str| {
            said(QuestionKind::Approve, &json::read(line.as_bytes()).unwrap()).answer.scope.unwrap()
        };
        assert_eq!(scope(r#"{"ok":true}"#), "once");
        assert_eq!(scope(r#"{"ok":true,"remember":true}"#), "rule");
        assert_eq!(scope(r#"{"ok":false,"remember":true}"#), "rule");
    }

    #[test]
    fn text_and_pick_that_are_malformed_dismiss() {
        for (kind, line, accepted) in [
            (QuestionKind::Ask, r#"{"value":"x"}"#, true),
            (QuestionKind::Ask, r#"{"value":null}"#, false),
            (QuestionKind::Ask, r#"{"value":7}"#, false),
            (QuestionKind::Password, r#"{"value":"x"}"#, true),
            (QuestionKind::Password, r#"{}"#, false),
            (QuestionKind::Select, r#"{"ids":["1"]}"#, true),
            (QuestionKind::Select, r#"{"ids":[]}"#, false),
            (QuestionKind::Select, r#"{"ids":["1","2"]}"#, false),
            (QuestionKind::Select, r#"{"ids":["-1"]}"#, false),
            (QuestionKind::Select, r#"{"ids":["+1"]}"#, false),
            (QuestionKind::Select, r#"{"ids":["01"]}"#, false),
            (QuestionKind::Select, r#"{"ids":"1"}"#, false),
        ] {
            assert_eq!(said(kind, &json::read(line.as_bytes()).unwrap()).accepted, accepted, "{line}");
        }
    }
}
