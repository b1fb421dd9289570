//! What an agent asks, as questions of ours: judged first by our rules and mode, asked once for one act, and never answered
//! wider than what was chosen.

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::parts::ForeignTurn;
use super::permits::{Act, Permits};
use crate::acp::{CallKind, PermissionKind};
use crate::agent::{AgentAsk, AgentReply, CallPart, OfferedAnswer, Responder};
use crate::engine::mcp::SessionAnswerer;
use crate::event::ToolCall;
use crate::event::question::{Answer, ApprovalScope, QuestionContent};
use crate::http::Url;
use crate::interaction::Resolution;
use crate::mcp::{self, Answerer as _};
use crate::sha256;
use crate::tool::permission::{Access, Verdict};
use crate::tool::{Plan, path};

/// A request, with what is known of the call that it belongs to.
pub(super) enum Asked {
    /// For a permission.
    Permission(Box<Wanted>),
    /// Anything else.
    Other(AgentAsk),
}

/// A permission that an agent wants.
pub(super) struct Wanted {
    call: Arc<ToolCall>,
    kind: CallKind,
    plans: Vec<Plan>,
    acts: Vec<Act>,
    answers: Vec<OfferedAnswer>,
}

impl ForeignTurn<'_> {
    pub(super) fn permits(&self) -> MutexGuard<'_, Permits> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up what a request needs.
    pub(super) async fn prepared(&self, ask: AgentAsk) -> Asked {
        let AgentAsk::Permission { call: news, answers } = ask else { return Asked::Other(ask) };
        // Some agents tell of a call first in this way.
        let id = self.call_told(&news).await;
        let telling = self.telling.lock().await;
        let known = id.and_then(|id| telling.calls.iter().find(|call| call.call.id == id));
        let Some(known) = known else { return Asked::Other(AgentAsk::Permission { call: news, answers }) };
        let (call, kind) = (known.call.clone(), known.kind);
        let cwd = self.turn.session.snapshot().facts.cwd.clone();
        let resolve = |path: &Path| path::resolve(Path::new(&*cwd), &path.to_string_lossy()).ok();
        let text = |key: &str| known.input.as_ref()?.get(key)?.as_str().map(str::to_owned);
        let mut changes: Vec<(PathBuf, Option<String>)> = Vec::new();
        for part in &known.content {
            if let CallPart::Diff { path, new, .. } = part
                && let Some(path) = resolve(path)
            {
                changes.push((path, Some(sha256::hex(new))));
            }
        }
        if changes.is_empty() && kind == CallKind::Edit {
            changes.extend(known.places.iter().filter_map(|place| resolve(place)).map(|path| (path, None)));
        }
        let plan = |access| Plan { access, diff: None };
        let mut acts = Vec::new();
        let plans = match (kind, text("command"), changes.is_empty()) {
            (_, _, false) => {
                acts.extend(changes.iter().map(|(path, digest)| Act::Write(path.clone(), digest.clone())));
                let mut plans: Vec<Plan> =
                    changes.into_iter().map(|(path, _)| plan(Access::Write(path))).collect();
                let diff = known.diff();
                plans.iter_mut().for_each(|plan| plan.diff.clone_from(&diff));
                plans
            }
            (CallKind::Execute, Some(command), _) => {
                acts.push(Act::Run(command.clone()));
                vec![plan(Access::Run(command))]
            }
            (CallKind::Read | CallKind::Search, ..) if !known.places.is_empty() => known
                .places
                .iter()
                .filter_map(|place| resolve(place))
                .map(|path| plan(Access::Read(path)))
                .collect(),
            (CallKind::Fetch, ..) if text("url").is_some() => {
                let url = text("url").and_then(|url| Url::parse(&url).ok());
                url.map(|url| plan(Access::Fetch(url))).into_iter().collect()
            }
            _ => Vec::new(),
        };
        Asked::Permission(Box::new(Wanted { call, kind, plans, acts, answers }))
    }

    /// Answers a request.
    pub(super) async fn answer(&self, asked: Asked, responder: Responder) {
        let withdrawn = responder.withdrawn.clone();
        let answered = async {
            match asked {
                Asked::Permission(wanted) => Ok(AgentReply::Chosen(self.permitted(*wanted).await)),
                Asked::Other(AgentAsk::Permission { .. }) => Ok(AgentReply::Chosen(None)),
                Asked::Other(AgentAsk::Form(question)) => Ok(self.formed(question).await),
                Asked::Other(ask) => self.serve(ask).await,
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
        let Wanted { call, kind, plans, acts, answers } = wanted;
        let of = |kind: PermissionKind| {
            let mut those = answers.iter().filter(|answer| answer.kind == Some(kind));
            those.next().filter(|_| those.next().is_none()).map(|answer| answer.id.clone())
        };
        let no = || of(PermissionKind::RejectOnce);
        // What an agent asks about nothing that is known may be anything: it is always asked about.
        let is_known = !plans.is_empty();
        let plans = match is_known {
            true => plans,
            false => {
                let server = self.attached.setup.name.to_string();
                let access = Access::Call { server, tool: call.summary.to_string(), read_only: false };
                vec![Plan { access, diff: None }]
            }
        };
        // What its title says may be the command: no reason to allow it, but one to deny it.
        let titled = Plan { access: Access::Run(call.summary.to_string()), diff: None };
        let is_titled = !is_known && kind == CallKind::Execute;
        if self.is_denied(&call, kind, &plans) || (is_titled && self.is_denied(&call, kind, &[titled])) {
            return no();
        }
        if !is_plain(&answers) {
            return self.selected(&call, &answers).await;
        }
        match self.batch.admit(&call, &plans, is_known).await {
            Ok(admitted) => {
                self.permits().add(&call.id, acts);
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

    /// Whether a rule or the mode denies a call, under any of the names that our rules may have for it.
    fn is_denied(&self, call: &ToolCall, kind: CallKind, plans: &[Plan]) -> bool {
        let denies = |call: &ToolCall| {
            plans.iter().any(|plan| matches!(self.batch.judge(call, plan), Verdict::Deny(_)))
        };
        // A new file is written, a changed one edited: the agent does not say which rule it means.
        let as_write = || ToolCall { name: "write".into(), ..call.clone() };
        denies(call) || (kind == CallKind::Edit && denies(&as_write()))
    }

    /// Lets the person choose among answers of another shape than yes, always and no: by their names.
    async fn selected(&self, call: &ToolCall, answers: &[OfferedAnswer]) -> Option<Arc<str>> {
        let prompt = format!("The agent {} asks: {}", self.attached.setup.name, call.summary);
        let options = answers.iter().map(|answer| answer.name.clone()).collect();
        match self.batch.ask(call, QuestionContent::Select { prompt, options }, Vec::new()).await {
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
