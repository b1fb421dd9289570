//! A turn of a workflow's stage at an external agent, which has no tool to complete it with: it is told the task, and says at
//! the end of its last message what the stage came to. Runs nothing.

use crate::engine::execution::{COMPLETE, Execution};
use crate::json;
use crate::limits::AGENT_ARGUMENTS_BYTES;
use crate::value::{Map, Value};

/// The message that begins a stage, with its task.
pub(super) fn prompt(execution: &Execution, message: &str) -> String {
    let stage = &execution.stage;
    let mut text = format!("{message}\n\n{}", execution.prompt);
    if !stage.tools.is_empty() {
        let tools = stage.tools.join(", ");
        text.push_str(&format!("\n\nDo nothing else here than what these tools do: {tools}."));
    }
    if must_be_told(execution) {
        let outcomes: Vec<String> = execution.outcomes().iter().map(|name| format!("{name:?}")).collect();
        let mut lines = vec![format!("  \"outcome\": {}", outcomes.join(" or "))];
        lines.extend(stage.completion.iter().map(|(key, kind)| format!("  {key:?}: {}", kind.as_str())));
        text.push_str(&format!(
            "\n\nWhen the task is done, end your last message with this block, as JSON with your own values:\n\n\
             ```{COMPLETE}\n{{\n{}\n}}\n```",
            lines.join(",\n")
        ));
    }
    text
}

/// Whether a stage needs more than the end of its turn.
fn must_be_told(execution: &Execution) -> bool {
    !execution.stage.completion.is_empty() || !execution.stage.outcomes.is_empty()
}

/// Completes a stage by what an agent said last.
pub(super) fn complete(execution: &Execution, said: &str) {
    if !must_be_told(execution) {
        return;
    }
    let Some(block) = block(said) else {
        // A stage without a completion has ended with its turn, as with our own agent.
        if !execution.stage.completion.is_empty() {
            execution.set_unfit(format!("its last message has no block {COMPLETE}"));
        }
        return;
    };
    let completed = match json::read(block.as_bytes()) {
        Ok(arguments) => execution.complete(&keyed(&arguments)).map_err(|fault| fault.to_string()),
        Err(error) => Err(format!("its block {COMPLETE} is no JSON: {error}")),
    };
    if let Err(why) = completed {
        execution.set_unfit(why);
    }
}

/// An object of JSON as the arguments of a tool of ours.
fn keyed(object: &Value<'_>) -> Value<'static> {
    let mut arguments = Map::new();
    for (key, value) in object.as_map().into_iter().flat_map(Map::iter) {
        if let Some(key) = key.as_str() {
            arguments.insert(Value::keyword(key.to_owned()), value.clone().into_owned());
        }
    }
    Value::from(arguments)
}

/// The last block that completes a stage.
fn block(said: &str) -> Option<&str> {
    let mark = format!("```{COMPLETE}");
    let (_, after) = said.rsplit_once(&mark)?;
    let block = after.split("```").next()?.trim();
    (block.len() <= AGENT_ARGUMENTS_BYTES).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_block_is_read() {
        let said = "```complete-stage\n{\"a\": 1}\n```\nNo:\n```complete-stage\n{\"a\": 2}\n```\n";
        assert_eq!(block(said), Some("{\"a\": 2}"));
        assert_eq!(block("```complete-stage {\"a\": 3}"), Some("{\"a\": 3}"), "without an end");
        assert_eq!(block("none"), None);
    }
}
