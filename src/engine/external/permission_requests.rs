//! What an agent asks, as questions of ours: judged first by our rules and mode, asked once for one act, and never answered
//! wider than what was chosen.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::approvals::Permits;
use super::requested::{self, Requested};
use super::turn_context::ExternalTurn;
use crate::acp::{CallKind, PermissionKind};
use crate::agent::{AgentAsk, AgentReply, OfferedAnswer, Responder};
use crate::engine::mcp::SessionAnswerer;
use crate::event::ToolCall;
use crate::event::question::{Answer, ApprovalScope, QuestionContent};
use crate::interaction::Resolution;
use crate::mcp::{self, Answerer as _};
use crate::tool;
use crate::tool::permission::{Access, Act, Run, Verdict};

/// A request, with what is known of the call that it belongs to.
pub(super) enum PermissionRequest {
    /// For a permission.
    Permission(Box<Wanted>),
    /// Anything else.
    Other(AgentAsk),
}

/// A permission that an agent wants.
pub(super) struct Wanted {
    call: Arc<ToolCall>,
    kind: CallKind,
    requested: Requested,
    diff: Option<String>,
    answers: Vec<OfferedAnswer>,
}

impl ExternalTurn<'_> {
    pub(super) fn permits(&self) -> MutexGuard<'_, Permits> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up what a request needs.
    pub(super) async fn prepared(&self, ask: AgentAsk) -> PermissionRequest {
        let AgentAsk::Permission { call: news, answers } = ask else { return PermissionRequest::Other(ask) };
        // Some agents tell of a call first in this way.
        let id = self.call_told(&news, true).await;
        let telling = self.telling.lock().await;
        let known = id.and_then(|id| telling.calls.iter().find(|call| call.call.id == id));
        let Some(known) = known else {
            return PermissionRequest::Other(AgentAsk::Permission { call: news, answers });
        };
        let requested = requested::of(known, &self.attached.setup.name);
        let (call, kind, diff) = (known.whole(), known.kind, known.diff());
        PermissionRequest::Permission(Box::new(Wanted { call, kind, requested, diff, answers }))
    }

    /// Answers a request.
    pub(super) async fn answer(&self, asked: PermissionRequest, responder: Responder) {
        let withdrawn = responder.withdrawn.clone();
        let answered = async {
            match asked {
                PermissionRequest::Permission(wanted) => {
                    Ok(AgentReply::Chosen(self.permitted(*wanted).await))
                }
                PermissionRequest::Other(AgentAsk::Permission { .. }) => Ok(AgentReply::Chosen(None)),
                PermissionRequest::Other(AgentAsk::Form(question)) => Ok(self.formed(question).await),
                PermissionRequest::Other(ask) => self.serve(ask).await,
            }
        };
        let answered = tokio::select! {
            biased;
            // Whoever is asked is asked no more.
            () = withdrawn.cancelled() => return drop(responder),
            answered = answered => answered,
        };
        responder.respond(answered).await;
    }

    async fn formed(&self, question: Box<mcp::Question>) -> AgentReply {
        let turn = self.turn;
        let answerer = SessionAnswerer::of_agent(
            turn.shared.clone(),
            turn.session.clone(),
            turn.id.clone(),
            turn.cause.clone(),
            turn.stop.clone(),
        );
        let ask = mcp::Ask {
            server: self.attached.setup.name.clone(),
            subject: "its turn".into(),
            call: None,
            question: (*question).clone(),
        };
        let answer = answerer.ask(ask).await;
        AgentReply::Form(question, answer)
    }

    /// The answer to a request for a permission: the id of one that was offered; `None` if it is cancelled.
    async fn permitted(&self, wanted: Wanted) -> Option<Arc<str>> {
        let Wanted { call, kind, requested, diff, answers } = wanted;
        let Requested { act, permits, is_too_much } = requested;
        let of = |kind: PermissionKind| {
            let mut those = answers.iter().filter(|answer| answer.kind == Some(kind));
            those.next().filter(|_| those.next().is_none()).map(|answer| answer.id.clone())
        };
        let no = || of(PermissionKind::RejectOnce);
        if is_too_much || self.is_denied(&call, kind, &act) {
            return no();
        }
        if !is_plain(&answers) {
            // A yes by its name decides nothing that a guard, or the grant of a stage, is there for.
            let admitted = match self.batch.is_outside_of_stage(&act) {
                true => self.batch.admit(&call, &act, diff.as_deref()).await.map(drop),
                false => self.batch.voted_on(&call, &act).await,
            };
            if admitted.is_err() {
                return no();
            }
            return self.selected(&call, &act, diff.as_deref(), &answers).await;
        }
        match self.batch.admit(&call, &act, diff.as_deref()).await {
            Ok(admitted) => {
                // What nobody was asked about is judged again when it is done.
                if admitted.scope.is_some() {
                    self.permits().add(&call.id, permits);
                }
                let always = of(PermissionKind::AllowAlways);
                match admitted.scope {
                    Some(ApprovalScope::Session) => always.or_else(|| of(PermissionKind::AllowOnce)),
                    _ => of(PermissionKind::AllowOnce),
                }
            }
            // The turn is to end: its questions are cancelled, and not answered.
            Err(_) if self.turn.ended().is_some() => None,
            Err(_) => no(),
        }
    }

    /// Whether a rule or the mode denies an act, under any of the names that our rules may have for it.
    fn is_denied(&self, call: &ToolCall, kind: CallKind, act: &Act) -> bool {
        let denies = |act: &Act| matches!(self.batch.judge_act(call, act), Verdict::Deny(_));
        // A new file is written, a changed one edited: the agent does not say which rule it means.
        let mut as_write = act.clone();
        for part in as_write.parts.iter_mut().filter(|part| *part.tool == *tool::EDIT) {
            part.tool = tool::WRITE.into();
        }
        // What its title says may be the command: no reason to allow it, but one to deny it.
        let is_titled = kind == CallKind::Execute && act.commands().is_none();
        let titled = || Act::of(tool::BASH, Access::Run(Run::line(&*call.summary)));
        denies(act) || denies(&as_write) || (is_titled && denies(&titled()))
    }

    /// Lets the person choose among answers of another shape than yes, always and no: by their names, with all of the act.
    async fn selected(
        &self,
        call: &ToolCall,
        act: &Act,
        diff: Option<&str>,
        answers: &[OfferedAnswer],
    ) -> Option<Arc<str>> {
        let head = format!("The agent {} asks", self.attached.setup.name);
        let (prompt, warnings) = self.batch.described(&head, call, act, diff).await;
        let options = answers.iter().map(|answer| answer.name.clone()).collect();
        match self.batch.ask(call, QuestionContent::Select { prompt, options }, warnings).await {
            Resolution::Accepted { answer: Answer::Option(place), .. } => {
                answers.get(place).map(|answer| answer.id.clone())
            }
            _ => None,
        }
    }
}

/// Whether the answers are a yes for now, at most one for good, and at most one no of each kind.
fn is_plain(answers: &[OfferedAnswer]) -> bool {
    let count = |kind| answers.iter().filter(|answer| answer.kind == Some(kind)).count();
    count(PermissionKind::AllowOnce) == 1
        && count(PermissionKind::AllowAlways) <= 1
        && count(PermissionKind::RejectOnce) <= 1
        && count(PermissionKind::RejectAlways) <= 1
        && answers.iter().all(|answer| answer.kind.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(kinds: &[Option<PermissionKind>]) -> Vec<OfferedAnswer> {
        let offered = kinds.iter().enumerate().map(|(at, kind)| OfferedAnswer {
            id: at.to_string().into(),
            name: String::new(),
            kind: *kind,
        });
        offered.collect()
    }

    #[test]
    fn answers_of_another_shape_are_chosen_by_name() {
        use PermissionKind::{AllowAlways, AllowOnce, RejectOnce};
        let plain = |kinds: &[PermissionKind]| {
            is_plain(&offered(&kinds.iter().map(|kind| Some(*kind)).collect::<Vec<_>>()))
        };
        assert!(plain(&[AllowOnce, RejectOnce]));
        assert!(plain(&[AllowAlways, AllowOnce, RejectOnce]), "in another order");
        assert!(!plain(&[AllowAlways, RejectOnce]), "no yes for now");
        assert!(!plain(&[AllowOnce, AllowOnce, RejectOnce]), "two of a kind");
        assert!(!is_plain(&offered(&[Some(AllowOnce), None])), "one of an unknown kind");
        assert!(!is_plain(&[]));
    }
}
