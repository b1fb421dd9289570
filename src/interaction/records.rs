//! What the audit file says of a question: the record of an open one, and what its end adds.
//!
//! Knows neither the file ([`super::audit`]) nor the queues.

use super::question::{EndedBy, Question, Resolution};
use crate::event::Subagent;
use crate::event::question::{Answer, ApprovalScope, QuestionContent, QuestionKind};
use crate::limits::{AUDIT_NAME_CHARS, AUDIT_REQUEST_CHARS};
use crate::secret;
use crate::session::Peer;
use crate::sha256;
use crate::value::{Map, Value};

/// The outcome of a question whose process was killed.
pub(super) const CUT_OFF: &str = "cut-off";

/// The record of an open question. It is completed if its process is killed.
pub(super) fn open(id: &str, question: &Question, asked_at: &str) -> Map<'static> {
    about(id, question, asked_at).with("record", record_name(question.kind(), CUT_OFF))
}

/// Completes the record of a question that was open when its process was killed.
pub(super) fn cut_off(record: &mut Map<'static>, at: &str) {
    record.put("ext-id", EndedBy::Core.to_string());
    record.put("outcome", CUT_OFF);
    record.put("answered-at", at.to_owned());
}

/// The record of a question that has ended; `peer` is the client that ended it, if it is still there.
pub(super) fn ended(
    id: &str,
    question: &Question,
    asked_at: &str,
    by: &EndedBy,
    resolution: &Resolution,
    peer: Option<Peer>,
    at: &str,
) -> Map<'static> {
    let kind = question.kind();
    let mut record = about(id, question, asked_at);
    record.put("record", record_name(kind, outcome(resolution)));
    if let Resolution::Accepted { answer, .. } = resolution {
        let scope = match answer {
            Answer::Approve { scope, .. } => *scope,
            Answer::Forbid { scope, .. } => Some(*scope),
            _ => None,
        };
        record.put_some("scope", scope.map(ApprovalScope::as_str));
        if let (Answer::Approve { content: Some(content), .. }, QuestionContent::Approve(approval)) =
            (answer, question.content.as_ref())
            && let Some(proposed) = &approval.proposal
        {
            record.put("edited", true);
            record.put("proposal-sha256", sha256::hex(&*proposed.text));
            record.put("content-sha256", sha256::hex(&**content));
        }
    }
    if kind == QuestionKind::ApproveSubagentEnvelope
        && let Resolution::Accepted { note: Some(note), .. } | Resolution::Cancelled { note: Some(note) } =
            resolution
    {
        record.put("note", note.clone());
    }
    record.put("ext-id", by.to_string());
    if let Some(peer) = peer {
        // The connection's number means nothing once the process has ended.
        record.put("transport", peer.transport);
        let name = peer.agreed.map(|agreed| agreed.name.chars().take(AUDIT_NAME_CHARS).collect::<String>());
        record.put_some("client", name);
    }
    record.put("outcome", outcome(resolution));
    record.put("answered-at", at.to_owned());
    record
}

/// What a record says of a question whatever its end.
fn about(id: &str, question: &Question, asked_at: &str) -> Map<'static> {
    let Question { content, origin, .. } = question;
    let mut record = Map::new();
    record.put("kind", content.kind().as_str());
    record.put("interaction-id", id.to_owned());
    record.put("correlation-id", origin.correlation.to_string());
    record.put("session-id", origin.session.to_value());
    if let Some(Subagent { parent, id: subagent, .. }) = &origin.subagent {
        record.put("parent-session-id", parent.to_value());
        record.put("subagent-id", subagent.to_string());
    }
    record.put_some("tool", content.tool().map(ToString::to_string));
    if let QuestionContent::Approve(approval) = content.as_ref() {
        // Masked before it is cut: half a secret has no form that is known.
        let asked = approval.command.as_deref().or(approval.path.as_deref()).unwrap_or(&approval.summary);
        let masked = secret::mask(asked);
        let words: Vec<&str> = masked.split_whitespace().take(AUDIT_REQUEST_CHARS).collect();
        record.put("request", words.join(" ").chars().take(AUDIT_REQUEST_CHARS).collect::<String>());
    }
    if let QuestionContent::ApproveSubagentEnvelope(request) = content.as_ref() {
        let (provider, id) = &request.model;
        let model = Map::new().with("provider", provider.to_string()).with("id", id.to_string());
        record.put("child-session-id", request.subagent.to_value());
        record.put("tools", Value::vector(request.tools.iter().map(|tool| Value::from(tool.clone()))));
        record.put("model", Value::from(model));
    }
    record.put("requested-at", asked_at.to_owned());
    record
}

/// The outcome as one word, without the answer.
pub(super) fn outcome(resolution: &Resolution) -> &'static str {
    match resolution {
        Resolution::Accepted { answer, .. } => answer.outcome().unwrap_or("accepted"),
        Resolution::Cancelled { .. } => "cancelled",
        Resolution::Headless => "headless",
        Resolution::TimedOut => "timed-out",
        Resolution::Withdrawn => "withdrawn",
    }
}

fn record_name(kind: QuestionKind, outcome: &str) -> &'static str {
    match (kind, outcome) {
        (QuestionKind::ApproveSubagentEnvelope, "approve") => "SubagentEnvelopeApproved",
        (QuestionKind::ApproveSubagentEnvelope, _) => "SubagentEnvelopeDenied",
        _ => "Interaction",
    }
}
