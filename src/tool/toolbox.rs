//! The tools of a session: what its model is told of, and what runs a call.

use std::sync::Arc;

use super::{ASK_USER, DELEGATE, Tool, bash, edit, find, one_line, read, search, spec, write};
use crate::provider::ToolSpec;
use crate::value::Value;

/// Tools by name, in the order in which a model is told of them. A copy shares them.
#[derive(Clone)]
pub struct Toolbox(Arc<[Arc<dyn Tool>]>);

impl Toolbox {
    /// A toolbox of those tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self(tools.into())
    }

    /// The program's own tools.
    pub fn builtin() -> Self {
        Self::new(vec![
            Arc::new(read::Read),
            Arc::new(write::Write),
            Arc::new(edit::Edit),
            Arc::new(bash::Bash),
            Arc::new(search::Search),
            Arc::new(find::Find),
        ])
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name)
    }

    /// What the model is told of every tool, with those that the engine answers.
    pub fn specs(&self) -> Vec<ToolSpec> {
        let mut specs: Vec<ToolSpec> = self.0.iter().map(|tool| tool.spec()).collect();
        specs.push(spec(
            ASK_USER,
            "Asks the user a question and waits for the answer. Only for what the user alone can decide.",
            &[
                ("question", "string", "The question.", true),
                ("options", "strings", "Answers to choose from; without them the user writes one.", false),
            ],
        ));
        specs.push(spec(
            DELEGATE,
            "Gives a task to a subagent: a model with a conversation of its own and only the tools that you \
             name. It knows nothing of this conversation, so the task must say everything. Returns what it says \
             last. Several in one answer work side by side. The user is asked once before it starts.",
            &[
                ("task", "string", "What it is to do, and what it is to report.", true),
                ("tools", "strings", "Names of your tools that it may use: only those that it needs.", true),
                ("model", "string", "Another model, as provider/id; yours without it.", false),
            ],
        ));
        specs
    }

    /// What a call does, in one line, whether or not there is such a tool.
    pub fn summary(&self, name: &str, arguments: &Value<'_>) -> String {
        let text = match self.find(name) {
            Some(tool) => tool.summary(arguments),
            None => match arguments.get("question").or(arguments.get("task")).and_then(Value::as_str) {
                Some(text) => format!("{name} {text}"),
                None => name.to_owned(),
            },
        };
        one_line(&text, 200)
    }
}
