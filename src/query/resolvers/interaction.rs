//! `:psi.interaction/*` and `:psi.audit/*`: open questions to people, such as approvals, and records of ended
//! ones.

use std::collections::HashMap;

use crate::limits::AUDIT_RECORDS;
use crate::message::{SessionId, TurnId};
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{answers, join, names, out, picked};
use crate::query::world::QuestionFacts;
use crate::value::{Map, Value};

const QUESTION: &[&str] = &[
    "psi.interaction/id",
    "psi.interaction/kind",
    "psi.agent-session/session-id",
    "psi.turn/id",
    "psi.interaction/correlation-id",
    "psi.interaction/asked-at",
    "psi.interaction/payload",
    "psi.interaction/shown-to",
    "psi.interaction/parent-session-id",
    "psi.interaction/subagent-id",
];

/// The attributes of a record, and their keys in the audit file.
const RECORD: &[(&str, &str)] = &[
    ("psi.audit/record", "record"),
    ("psi.audit/kind", "kind"),
    ("psi.audit/outcome", "outcome"),
    ("psi.audit/answered-by", "ext-id"),
    ("psi.audit/note", "note"),
    ("psi.audit/requested-at", "requested-at"),
    ("psi.audit/answered-at", "answered-at"),
    ("psi.interaction/id", "interaction-id"),
    ("psi.interaction/correlation-id", "correlation-id"),
    ("psi.interaction/parent-session-id", "parent-session-id"),
    ("psi.interaction/subagent-id", "subagent-id"),
    ("psi.agent-session/session-id", "session-id"),
];

const RECORDS: &[&str] = &names::<{ RECORD.len() }>(RECORD);

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.interaction/list", "The open questions of all sessions, oldest first; :kind selects one kind."),
        ("psi.interaction/count", "The number of open questions."),
        (
            "psi.agent-session/interactions",
            "The session's open questions, oldest first; :kind selects one kind.",
        ),
        (
            "psi.interaction/id",
            "The question's id, for `interaction_respond` and the mutations psi.interaction/grant and psi.interaction/refuse.",
        ),
        ("psi.interaction/kind", "Its kind, such as :approve."),
        ("psi.interaction/correlation-id", "The id that links the question's events and its audit record."),
        ("psi.interaction/asked-at", "When it was asked, RFC 3339 in UTC."),
        ("psi.interaction/payload", "Its content; nil for questions about credentials."),
        ("psi.interaction/shown-to", "The number of connections that can answer it."),
        (
            "psi.interaction/parent-session-id",
            "For a question of a subagent: the session that it works for; otherwise nil.",
        ),
        ("psi.interaction/subagent-id", "For a question of a subagent: its name; otherwise nil."),
        (
            "psi.audit/list",
            "The ended questions of all sessions, oldest first; :limit sets how many of the newest (100 by default).",
        ),
        ("psi.audit/record", "The type of the record, such as Approval."),
        ("psi.audit/kind", "The kind of the question, such as approve."),
        ("psi.audit/outcome", "Its outcome."),
        ("psi.audit/answered-by", "Who answered."),
        ("psi.audit/note", "The note to the model, or nil."),
        ("psi.audit/requested-at", "When it was asked, RFC 3339 in UTC."),
        ("psi.audit/answered-at", "When it was answered, RFC 3339 in UTC."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.interaction/list",
            input: &[],
            output: &[join("psi.interaction/list", QUESTION), out("psi.interaction/count")],
            cost: Cost::Ready,
            run: Run::One(list),
        },
        Resolver {
            name: "psi.agent-session/interactions",
            input: &[Input::Required("psi.agent-session/session-id")],
            output: &[join("psi.agent-session/interactions", QUESTION)],
            cost: Cost::Ready,
            run: Run::Batch(of_sessions),
        },
        Resolver {
            name: "psi.interaction/by-id",
            input: &[Input::Required("psi.interaction/id")],
            output: &[
                out("psi.interaction/kind"),
                out("psi.agent-session/session-id"),
                out("psi.turn/id"),
                out("psi.interaction/correlation-id"),
                out("psi.interaction/asked-at"),
                out("psi.interaction/payload"),
                out("psi.interaction/shown-to"),
                out("psi.interaction/parent-session-id"),
                out("psi.interaction/subagent-id"),
            ],
            cost: Cost::Ready,
            run: Run::One(by_id),
        },
        Resolver {
            name: "psi.audit/list",
            input: &[],
            output: &[join("psi.audit/list", RECORDS)],
            cost: Cost::Slow,
            run: Run::One(audit),
        },
    ],
    mutations: &[],
};

fn of_kind(env: &Env<'_>) -> Vec<QuestionFacts> {
    let kind = env.params.get_keyword("kind").and_then(|kind| kind.as_keyword().or_else(|| kind.as_str()));
    let mut questions = env.world.questions();
    questions.retain(|question| kind.is_none_or(|kind| question.kind == kind));
    questions
}

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let questions = of_kind(env);
    Ok(vec![
        ("psi.interaction/count", questions.len().into()),
        ("psi.interaction/list", Value::vector(questions.iter().map(|q| Value::from(entity(q)))).into()),
    ])
}

/// Goes through the questions once for all requested sessions.
fn of_sessions(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let mut questions: HashMap<String, Vec<Value<'static>>> = HashMap::new();
    for question in of_kind(env) {
        let entity = Value::from(entity(&question));
        questions.entry(question.session.as_str().to_owned()).or_default().push(entity);
    }
    let answer = |inputs: &Inputs<'_>| {
        let mine = inputs.text("psi.agent-session/session-id").and_then(|session| questions.get(session));
        let mine = Value::vector(mine.cloned().unwrap_or_default());
        Ok(vec![("psi.agent-session/interactions", mine.into())])
    };
    inputs.iter().map(answer).collect()
}

fn by_id(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let id = inputs.text("psi.interaction/id");
    let question = env.world.questions().into_iter().find(|question| Some(question.id.as_str()) == id);
    Ok(question.map(|question| answers(entity(&question), QUESTION)).unwrap_or_default())
}

fn audit(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let records = env.world.audit(env.count("limit")?.unwrap_or(AUDIT_RECORDS));
    let records = records.iter().map(|record| Value::from(picked(record, RECORD)));
    Ok(vec![("psi.audit/list", Value::vector(records).into())])
}

fn entity(question: &QuestionFacts) -> Map<'static> {
    let mut map = Map::new();
    map.put("psi.interaction/id", question.id.clone());
    map.put("psi.interaction/kind", Value::keyword(question.kind));
    map.put("psi.agent-session/session-id", question.session.to_value());
    map.put("psi.turn/id", question.turn.as_ref().map(TurnId::to_value));
    map.put("psi.interaction/correlation-id", question.correlation.clone());
    map.put("psi.interaction/asked-at", question.asked_at.clone());
    map.put("psi.interaction/payload", question.payload.clone().map(Value::from));
    map.put("psi.interaction/shown-to", question.shown_to);
    let (parent, subagent) = question.child_of.clone().unzip();
    map.put("psi.interaction/parent-session-id", parent.as_ref().map(SessionId::to_value));
    map.put("psi.interaction/subagent-id", subagent.map(|name| Value::from(name.to_string())));
    map
}
