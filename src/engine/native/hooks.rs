//! Runs the hooks of a turn in order at each boundary, reports their outcomes, and applies them.
//!
//! Before a stage, guards vote, transforms rewrite the input, and observers watch; after it, transforms
//! rewrite the output, and observers watch. A failing hook is reported as a diagnostic: a failing guard
//! denies, a transform is skipped, an observer is ignored. Does not know how a command runs.

use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;

use crate::engine::native::turn::Turn;
use crate::engine::stage::{self, Point, Stage};
use crate::event::{Body, Diagnostic};
use crate::hook::{self, Hook, HookFailure, HookKind};
use crate::limits::PARALLEL_TOOLS;
use crate::value::{Map, Value};

/// A guard's deny.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The guard.
    pub hook: Arc<str>,
    /// The blocked stage.
    pub stage: Stage,
    /// The reason.
    pub reason: String,
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "The hook {:?} denied {}: {}", self.hook, self.stage.as_str(), self.reason)
    }
}

/// The boundaries of a turn's stages, with the hooks that run there.
pub struct Boundaries<'t>(pub &'t Turn);

impl Boundaries<'_> {
    /// Passes the boundary before a stage: guards may block it, and transforms may change `payload`, which is
    /// built only if there is a hook.
    pub async fn enter(
        &self,
        stage: Stage,
        payload: impl FnOnce() -> Map<'static>,
    ) -> Result<Option<Map<'static>>, Denied> {
        self.0.adopt_configuration().await;
        let payload = match self.0.config().hooks.any_at(stage, Point::Pre) {
            false => None,
            true => {
                let payload = payload();
                self.guards(stage, None, &payload).await?;
                Some(payload)
            }
        };
        self.0.publish(stage::passed(stage, Point::Pre)).await;
        Ok(match payload {
            Some(payload) => Some(self.rewrite(stage, Point::Pre, None, payload).await),
            None => None,
        })
    }

    /// Runs the hooks before a model call that is no stage of its own, the summary of a compaction: guards may deny it.
    /// No boundary is reported.
    ///
    /// # Errors
    /// The first deny.
    pub async fn before(
        &self,
        stage: Stage,
        payload: impl FnOnce() -> Map<'static>,
    ) -> Result<Option<Map<'static>>, Denied> {
        if !self.0.config().hooks.any_at(stage, Point::Pre) {
            return Ok(None);
        }
        let payload = payload();
        self.guards(stage, None, &payload).await?;
        Ok(Some(self.rewrite(stage, Point::Pre, None, payload).await))
    }

    /// Runs the hooks after such a call. No boundary is reported.
    pub async fn after(&self, stage: Stage, payload: impl FnOnce() -> Map<'static>) -> Option<Map<'static>> {
        match self.0.config().hooks.any_at(stage, Point::Post) {
            false => None,
            true => Some(self.rewrite(stage, Point::Post, None, payload()).await),
        }
    }

    /// Passes the boundary after a stage that has run: transforms may change `payload`.
    pub async fn leave(&self, stage: Stage, payload: impl FnOnce() -> Map<'static>) -> Option<Map<'static>> {
        let changed = self.after(stage, payload).await;
        self.0.publish(stage::passed(stage, Point::Post)).await;
        changed
    }

    /// Asks the guards of a stage in order; the first deny ends the vote.
    pub async fn guards(
        &self,
        stage: Stage,
        call: Option<&crate::event::ToolCall>,
        payload: &Map<'static>,
    ) -> Result<(), Denied> {
        let tool = call.map(|call| &*call.name);
        for hook in self.0.config().hooks.at(stage, Point::Pre, HookKind::Guard, tool) {
            let answer = hook::call(
                &hook,
                &self.folder(),
                &self.0.environment(),
                &self.input(&hook, payload),
                &self.0.stop,
            )
            .await;
            let reason = match answer {
                Ok(answer) => match decision(&answer) {
                    Some(Ok(())) => None,
                    Some(Err(reason)) => Some(reason),
                    None => {
                        let wrong = "its answer has no :decision that is :allow or :deny".to_owned();
                        self.report(&hook, &wrong).await;
                        Some(format!("the hook failed: {wrong}"))
                    }
                },
                // Nothing was denied: the turn ends.
                Err(HookFailure::Stopped) => {
                    let reason = "the turn was ended".to_owned();
                    return Err(Denied { hook: hook.id.clone(), stage, reason });
                }
                Err(failure) => {
                    self.report(&hook, &failure.to_string()).await;
                    Some(format!("the hook failed: {failure}"))
                }
            };
            let id = call.map(|call| &*call.id);
            let outcome = if reason.is_some() { "denied" } else { "allowed" };
            self.0.publish(stage::hooked(&hook, outcome, reason.as_deref(), id)).await;
            if let Some(reason) = reason {
                return Err(Denied { hook: hook.id.clone(), stage, reason });
            }
        }
        Ok(())
    }

    /// Runs transforms in order, each on the output of the previous one, then the observers in parallel.
    pub async fn rewrite(
        &self,
        stage: Stage,
        point: Point,
        call: Option<&crate::event::ToolCall>,
        payload: Map<'static>,
    ) -> Map<'static> {
        let payload = self.transforms(stage, point, call, payload).await;
        self.observers(stage, point, call, &payload).await;
        payload
    }

    /// Runs transforms in order, each on the output of the previous one.
    pub async fn transforms(
        &self,
        stage: Stage,
        point: Point,
        call: Option<&crate::event::ToolCall>,
        mut payload: Map<'static>,
    ) -> Map<'static> {
        let (tool, id) = (call.map(|call| &*call.name), call.map(|call| &*call.id));
        for hook in self.0.config().hooks.at(stage, point, HookKind::Transform, tool) {
            let answer = hook::call(
                &hook,
                &self.folder(),
                &self.0.environment(),
                &self.input(&hook, &payload),
                &self.0.stop,
            )
            .await;
            let changed = match answer {
                Ok(answer) => changed(&payload, &answer, stage.rewritable(point)),
                Err(HookFailure::Stopped) => return payload,
                Err(failure) => Err(failure.to_string()),
            };
            let outcome = match changed {
                Ok(None) => "unchanged",
                Ok(Some(new)) => {
                    payload = new;
                    "rewritten"
                }
                Err(wrong) => {
                    self.report(&hook, &wrong).await;
                    "failed"
                }
            };
            self.0.publish(stage::hooked(&hook, outcome, None, id)).await;
        }
        payload
    }

    /// Runs observers in parallel, as many as tools, and reports them in their order. Their output has no effect.
    pub async fn observers(
        &self,
        stage: Stage,
        point: Point,
        call: Option<&crate::event::ToolCall>,
        payload: &Map<'static>,
    ) {
        let (tool, id) = (call.map(|call| &*call.name), call.map(|call| &*call.id));
        let folder = self.folder();
        let observing =
            self.0.config().hooks.at(stage, point, HookKind::Observer, tool).into_iter().map(|hook| {
                let (input, folder, stop) = (self.input(&hook, payload), folder.clone(), &self.0.stop);
                let environment = self.0.environment();
                async move {
                    let observed = hook::command::tell(&hook, &folder, &environment, &input, stop).await;
                    (hook, observed)
                }
            });
        let mut observing = futures_util::stream::iter(observing).buffered(PARALLEL_TOOLS);
        while let Some((hook, observed)) = observing.next().await {
            let outcome = match observed {
                Ok(()) => "observed",
                Err(HookFailure::Stopped) => continue,
                Err(failure) => {
                    self.report(&hook, &failure.to_string()).await;
                    "failed"
                }
            };
            self.0.publish(stage::hooked(&hook, outcome, None, id)).await;
        }
    }

    /// The input of a hook.
    fn input(&self, hook: &Hook, payload: &Map<'static>) -> Map<'static> {
        let facts = self.0.session.snapshot().facts.clone();
        let mut input = Map::new();
        input.put("hook", hook.id.to_string());
        input.put("kind", Value::keyword(hook.kind.as_str()));
        input.put("stage", Value::keyword(hook.stage.as_str()));
        input.put("point", Value::keyword(hook.point.as_str()));
        input.put("session-id", facts.id.to_value());
        input.put("turn-id", self.0.id.to_value());
        input.put("cwd", facts.cwd.to_string());
        input.put("mode", facts.mode.to_string());
        input.put("payload", Value::from(payload.clone()));
        input
    }

    fn folder(&self) -> Arc<Path> {
        Path::new(&*self.0.session.snapshot().facts.cwd).into()
    }

    /// Reports a hook's failure.
    async fn report(&self, hook: &Hook, wrong: &str) {
        let what = match hook.kind {
            HookKind::Guard => "it denies",
            HookKind::Transform => "it is skipped",
            HookKind::Observer => "it is ignored",
        };
        let failed = Diagnostic::HookFailed {
            hook: hook.id.clone(),
            kind: hook.kind.as_str(),
            stage: hook.stage,
            point: hook.point,
            message: format!("The hook {:?} failed and {what}: {wrong}.", hook.id),
        };
        self.0.publish(Body::Diagnostic(Arc::new(failed))).await;
    }
}

/// A text of a hook's payload.
pub fn text_of<'p>(payload: &'p Map<'static>, key: &str) -> Option<&'p str> {
    payload.get_keyword(key).and_then(Value::as_str)
}

/// A guard's vote, with its reason against, which is the hook's own text; `None` if the answer is not a vote.
fn decision(answer: &Map<'_>) -> Option<Result<(), String>> {
    let vote = answer.get_keyword("decision")?;
    match vote.as_keyword().or_else(|| vote.as_str())? {
        "allow" => Some(Ok(())),
        "deny" => {
            let reason = answer.get_keyword("reason").and_then(Value::as_str).filter(|text| !text.is_empty());
            Some(Err(reason.unwrap_or("no reason was given").to_owned()))
        }
        _ => None,
    }
}

/// The payload after a transform's answer; `None` if nothing changes.
///
/// # Errors
/// The error in the answer, for the author of the hook: a hook that errs is passed over, whatever the error is.
fn changed(
    payload: &Map<'static>,
    answer: &Map<'static>,
    rewritable: &[&str],
) -> Result<Option<Map<'static>>, String> {
    let Some(new) = answer.get_keyword("payload") else {
        return match answer.is_empty() {
            true => Ok(None),
            false => Err("its answer has no :payload".to_owned()),
        };
    };
    let new = new.as_map().ok_or("its :payload is no map")?;
    let mut result = payload.clone();
    let mut any = false;
    for (key, value) in new.iter() {
        let name = key.as_keyword().unwrap_or_default();
        let old = payload.get_keyword(name);
        if old == Some(value) {
            continue;
        }
        let Some(name) = rewritable.iter().find(|known| **known == name) else {
            return Err(format!(
                "it changes {key}; only :{} can be changed there",
                rewritable.join(" and :")
            ));
        };
        if !fits(name, old, value) {
            return Err(format!("its {key} has another shape than before"));
        }
        result.insert(Value::keyword((*name).to_owned()), value.clone().into_owned());
        any = true;
    }
    Ok(any.then_some(result))
}

/// Whether a value has the right shape to replace another.
fn fits(key: &str, old: Option<&Value<'_>>, new: &Value<'_>) -> bool {
    match key {
        "arguments" => new.as_map().is_some(),
        "max-output-tokens" => new.as_i64().is_some_and(|tokens| u32::try_from(tokens).is_ok_and(|t| t > 0)),
        // Fewer tools, never others.
        "tools" => {
            let before = old.and_then(Value::as_slice).unwrap_or_default();
            new.as_slice().is_some_and(|tools| tools.iter().all(|tool| before.contains(tool)))
        }
        _ => new.as_str().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Map<'static> {
        crate::edn::read_one(text.as_bytes()).unwrap().as_map().unwrap().clone().into_owned()
    }

    #[test]
    fn a_vote_is_a_plain_yes_or_no() {
        for (answer, expected) in [
            ("{:decision :allow}", Some(Ok(()))),
            ("{:decision \"allow\"}", Some(Ok(()))),
            ("{:decision :deny :reason \"no\"}", Some(Err("no".to_owned()))),
            ("{:decision :deny}", Some(Err("no reason was given".to_owned()))),
            ("{:decision :perhaps}", None),
            ("{:allow true}", None),
            ("{}", None),
        ] {
            assert_eq!(decision(&map(answer)), expected, "{answer}");
        }
    }

    #[test]
    fn a_transform_changes_what_may_be_changed_and_nothing_else() {
        let payload = map("{:text \"a\" :tools [\"read\" \"bash\"] :n 1}");
        for (answer, expected) in [
            ("{}", Ok(None)),
            ("{:payload {}}", Ok(None)),
            ("{:payload {:text \"a\" :n 1}}", Ok(None)),
            ("{:payload {:text \"b\"}}", Ok(Some("{:text \"b\" :tools [\"read\" \"bash\"] :n 1}"))),
            ("{:payload {:tools [\"read\"]}}", Ok(Some("{:text \"a\" :tools [\"read\"] :n 1}"))),
            ("{:payload {:tools [\"write\"]}}", Err("another shape")),
            ("{:payload {:text 7}}", Err("another shape")),
            ("{:payload {:n 2}}", Err("only :text and :tools")),
            ("{:payload {:new 2}}", Err("only :text and :tools")),
            ("{:payload 1}", Err("no map")),
            ("{:text \"b\"}", Err("no :payload")),
        ] {
            let found = changed(&payload, &map(answer), &["text", "tools"]);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected.map(map), "{answer}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{answer}: {found}"),
                (found, expected) => panic!("{answer}: {found:?}, not {expected:?}"),
            }
        }
    }
}
