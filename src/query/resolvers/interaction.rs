//! `:psi.interaction/*`: the questions that wait for a person, approvals among them.

use crate::message::TurnId;
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{answers, join, out};
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
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        (
            "psi.interaction/list",
            "The questions that wait for a person, in all sessions, oldest first; :kind takes those of one kind.",
        ),
        ("psi.interaction/count", "How many questions wait for a person."),
        (
            "psi.agent-session/interactions",
            "The session's questions that wait for a person, oldest first; :kind takes those of one kind.",
        ),
        (
            "psi.interaction/id",
            "The question's id, for `interaction_respond` and the mutations psi.interaction/grant and psi.interaction/refuse.",
        ),
        ("psi.interaction/kind", "Its kind, such as :approve."),
        ("psi.interaction/correlation-id", "What threads the question's events and audit record together."),
        ("psi.interaction/asked-at", "When it was asked, RFC 3339 in UTC."),
        ("psi.interaction/payload", "What it carries; nil for questions about credentials."),
        ("psi.interaction/shown-to", "How many connections can answer it."),
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
            ],
            cost: Cost::Ready,
            run: Run::One(by_id),
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

/// The questions are looked through once for all sessions that are asked about.
fn of_sessions(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let questions = of_kind(env);
    let answer = |inputs: &Inputs<'_>| {
        let session = inputs.text("psi.agent-session/session-id");
        let mine = questions.iter().filter(|question| Some(question.session.as_str()) == session);
        let mine = Value::vector(mine.map(|question| Value::from(entity(question))));
        Ok(vec![("psi.agent-session/interactions", mine.into())])
    };
    inputs.iter().map(answer).collect()
}

fn by_id(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let id = inputs.text("psi.interaction/id");
    let question = env.world.questions().into_iter().find(|question| Some(question.id.as_str()) == id);
    Ok(question.map(|question| answers(entity(&question), QUESTION)).unwrap_or_default())
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
    map
}
