//! What a configuration and a state folder hold, as queries see it: never a secret.

use std::sync::Arc;

use crate::hook::Hook;
use crate::http;
use crate::memory::Note;
use crate::message::{SessionId, count};
use crate::tool::permission::Rule;
use crate::value::{Map, Value};
use crate::workflow::{Next, Stage, Step, Workflow};

fn texts<'t, T: AsRef<str> + 't>(texts: impl IntoIterator<Item = &'t T>) -> Value<'static> {
    Value::vector(texts.into_iter().map(|text| Value::from(text.as_ref().to_owned())))
}

/// A hook, with the keys that `World::hooks` names.
pub(super) fn hook(hook: &Hook) -> Value<'static> {
    let mut map = Map::new();
    map.put("id", hook.id.to_string());
    map.put("stage", Value::keyword(hook.stage.as_str()));
    map.put("point", Value::keyword(hook.point.as_str()));
    map.put("kind", Value::keyword(hook.kind.as_str()));
    map.put("command", texts(&hook.command));
    map.put("timeout-ms", u64::try_from(hook.timeout.as_millis()).map_or(Value::Nil, count));
    map.put_some("tools", hook.tools.as_ref().map(texts));
    Value::from(map)
}

/// A workflow, or why it cannot be used, as a map of `:psi.workflow/*`.
pub(super) fn workflow(name: &str, read: &Result<Arc<Workflow>, String>) -> Value<'static> {
    let mut map = Map::new();
    map.put("psi.workflow/name", name.to_owned());
    map.put("psi.workflow/doc", read.as_ref().ok().map(|workflow| Value::from(workflow.doc.clone())));
    map.put("psi.workflow/problem", read.as_ref().err().map(|problem| Value::from(problem.clone())));
    let steps = read.iter().flat_map(|workflow| &workflow.stages);
    map.put("psi.workflow/stages", Value::vector(steps.flat_map(stages)));
    Value::from(map)
}

/// The stages of a step: those of a group with the group's name, and where the group goes on.
fn stages(step: &Step) -> Vec<Value<'static>> {
    match step {
        Step::Stage(one) => vec![stage(one, None, &one.next)],
        Step::Parallel { id, siblings, join, next } => {
            siblings.iter().chain(join).map(|one| stage(one, Some(id), next)).collect()
        }
    }
}

fn stage(stage: &Stage, group: Option<&Arc<str>>, next: &Next) -> Value<'static> {
    let mut ways = Map::new();
    for (outcome, target) in &next.by_outcome {
        ways.insert(Value::keyword(outcome.to_string()), target.to_string());
    }
    if let Some(target) = &next.otherwise {
        ways.put("otherwise", target.to_string());
    }
    let mut completion = Map::new();
    for (key, kind) in &stage.completion {
        completion.insert(Value::keyword(key.to_string()), Value::keyword(kind.as_str()));
    }
    let mut map = Map::new();
    map.put("psi.workflow-stage/id", stage.id.to_string());
    map.put("psi.workflow-stage/group", group.map(|group| Value::from(group.to_string())));
    map.put("psi.workflow-stage/body", stage.body.clone());
    map.put("psi.workflow-stage/tools", texts(&stage.tools));
    map.put("psi.workflow-stage/turn-cap", stage.turn_cap);
    map.put("psi.workflow-stage/max-attempts", stage.attempts);
    map.put("psi.workflow-stage/outcomes", texts(&stage.outcomes));
    map.put("psi.workflow-stage/completion", Value::from(completion));
    map.put("psi.workflow-stage/next", Value::from(ways));
    Value::from(map)
}

/// A rule, as a map of `:psi.rule/*`.
pub(super) fn rule(rule: &Rule, source: &'static str) -> Value<'static> {
    let as_written = rule.to_value();
    let part = |key: &str| Value::from(as_written.get(key).cloned());
    let mut map = Map::new();
    map.put("psi.rule/decision", part("decision"));
    map.put("psi.rule/tool", part("tool"));
    map.put("psi.rule/path", part("path"));
    map.put("psi.rule/command", part("command"));
    map.put("psi.rule/exact", rule.exact);
    map.put("psi.rule/source", Value::keyword(source));
    Value::from(map)
}

/// A note.
pub(super) fn note(note: &Note) -> Value<'static> {
    let mut map = Map::new();
    map.put("id", note.id.to_string());
    map.put("text", note.text.to_string());
    map.put("created-at", note.ts.to_string());
    map.put_some("session-id", note.session.as_ref().map(SessionId::to_value));
    Value::from(map)
}

/// A value of a configuration file with everything hidden whose name says that it may be a secret, and addresses
/// without what may be a key in them.
pub(super) fn without_secrets(value: Value<'static>) -> Value<'static> {
    const SECRET: [&str; 6] = ["key", "token", "secret", "password", "authorization", "header"];
    match value {
        Value::Map(map) => {
            let hidden = |key: &Value<'_>| {
                let name = key.as_keyword().or_else(|| key.as_str()).unwrap_or_default().to_lowercase();
                SECRET.iter().any(|secret| name.contains(secret))
            };
            let entries = map.into_iter().map(|(key, value)| match hidden(&key) {
                true => (key, Value::keyword("hidden")),
                false => (key, without_secrets(value)),
            });
            Value::from(entries.collect::<Map<'static>>())
        }
        Value::Vector(items) | Value::List(items) => Value::vector(items.into_iter().map(without_secrets)),
        Value::Str(text) => Value::from(http::without_keys(&text).into_owned()),
        other => other,
    }
}
