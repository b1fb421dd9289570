//! `:psi.interaction/*` and `:psi.audit/*`: open questions to people, such as approvals, and records of ended
//! ones. Answers nothing: a question is answered by an op.

use std::collections::HashMap;

use crate::limits::AUDIT_RECORDS;
use crate::message::TurnId;
use crate::projection;
use crate::query::graph::{Env, Input, Inputs, Resolver, ResolverResult};
use crate::query::plan::Cost;
use crate::query::table::{join, out, rest, table, text};
use crate::query::world::QuestionFacts;
use crate::value::{Map, Value};

table! {
    QUESTION of QuestionFacts {
        "psi.interaction/id"
            "The question's id, for `interaction_respond` and the mutations psi.interaction/grant and psi.interaction/refuse."
            => |question| text(&question.id);
        "psi.interaction/kind" "Its kind, such as :approve." => |question| Value::keyword(question.kind.as_str());
        "psi.agent-session/session-id" => |question| question.session.to_value();
        "psi.turn/id" => |question| question.turn.as_ref().map(TurnId::to_value);
        "psi.interaction/correlation-id" "The id that links the question's events and its audit record."
            => |question| text(&question.correlation);
        "psi.interaction/asked-at" "When it was asked, RFC 3339 in UTC." => |question| text(&question.asked_at);
        "psi.interaction/payload" "Its content; nil for questions about credentials." => |question| question.payload();
        "psi.interaction/shown-to" "The number of connections that can answer it." => |question| question.shown_to;
        "psi.interaction/parent-session-id"
            "For a question of a subagent: the session that it works for; otherwise nil."
            => |question| question.subagent.as_ref().map(|subagent| subagent.parent.to_value());
        "psi.interaction/subagent-id" "For a question of a subagent: its name; otherwise nil."
            => |question| question.subagent.as_ref().map(|subagent| text(&subagent.id));
    }
}

table! {
    /// The keys are those of the audit file.
    RECORD of Map<'static> {
        "psi.audit/record" "The type of the record, such as Approval." => |record| record.get_keyword("record").cloned();
        "psi.audit/kind" "The kind of the question, such as approve." => |record| record.get_keyword("kind").cloned();
        "psi.audit/outcome" "Its outcome." => |record| record.get_keyword("outcome").cloned();
        "psi.audit/answered-by" "Who answered." => |record| record.get_keyword("ext-id").cloned();
        "psi.audit/note" "The note to the model, or nil." => |record| record.get_keyword("note").cloned();
        "psi.audit/requested-at" "When it was asked, RFC 3339 in UTC." => |record| record.get_keyword("requested-at").cloned();
        "psi.audit/answered-at" "When it was answered, RFC 3339 in UTC." => |record| record.get_keyword("answered-at").cloned();
        "psi.interaction/id" => |record| record.get_keyword("interaction-id").cloned();
        "psi.interaction/correlation-id" => |record| record.get_keyword("correlation-id").cloned();
        "psi.interaction/parent-session-id" => |record| record.get_keyword("parent-session-id").cloned();
        "psi.interaction/subagent-id" => |record| record.get_keyword("subagent-id").cloned();
        "psi.agent-session/session-id" => |record| record.get_keyword("session-id").cloned();
    }
}

impl QuestionFacts {
    fn payload(&self) -> Option<Map<'static>> {
        let (content, warnings) = self.content.as_ref()?;
        Some(projection::question(content, warnings).into_owned())
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.interaction/list",
        &[],
        &[
            join(
                "psi.interaction/list",
                "The open questions of all sessions, oldest first; :kind selects one kind.",
                QUESTION.outputs,
            ),
            out("psi.interaction/count", "The number of open questions."),
        ],
        |env, _| {
            let questions = of_kind(env);
            Ok(vec![
                ("psi.interaction/count", questions.len().into()),
                ("psi.interaction/list", QUESTION.entities(&questions).into()),
            ])
        },
    ),
    Resolver::batch(
        "psi.agent-session/interactions",
        &[Input::Required("psi.agent-session/session-id")],
        &[join(
            "psi.agent-session/interactions",
            "The session's open questions, oldest first; :kind selects one kind.",
            QUESTION.outputs,
        )],
        of_sessions,
    ),
    Resolver::batch(
        "psi.interaction/by-id",
        &[Input::Required("psi.interaction/id")],
        rest(QUESTION.outputs),
        |env, inputs| QUESTION.lookup(inputs, &env.world.questions()),
    ),
    Resolver::one(
        "psi.audit/list",
        &[],
        &[join(
            "psi.audit/list",
            "The ended questions of all sessions, oldest first; :limit sets how many of the newest (100 by default).",
            RECORD.outputs,
        )],
        |env, _| RECORD.list("psi.audit/list", &env.world.audit(env.count("limit")?.unwrap_or(AUDIT_RECORDS))),
    )
    .costing(Cost::Slow),
];

fn of_kind(env: &Env<'_>) -> Vec<QuestionFacts> {
    let kind = env.params.get_keyword("kind").and_then(|kind| kind.as_keyword().or_else(|| kind.as_str()));
    let mut questions = env.world.questions();
    questions.retain(|question| kind.is_none_or(|kind| question.kind.as_str() == kind));
    questions
}

/// Goes through the questions once for all requested sessions.
fn of_sessions(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<ResolverResult> {
    let questions = of_kind(env);
    let mut by_session: HashMap<&str, Vec<&QuestionFacts>> = HashMap::new();
    for question in &questions {
        by_session.entry(question.session.as_str()).or_default().push(question);
    }
    let answer = |inputs: &Inputs<'_>| {
        let mine = inputs.text("psi.agent-session/session-id").and_then(|session| by_session.get(session));
        QUESTION.list("psi.agent-session/interactions", mine.into_iter().flatten().copied())
    };
    inputs.iter().map(answer).collect()
}
