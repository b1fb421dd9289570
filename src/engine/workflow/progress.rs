//! How frontends see a run: a widget with a line per stage, and a status. Shows nothing itself.

use std::sync::Arc;

use crate::engine::progress::{EXTENSION, Progress};
use crate::event::{StatusText, Widget, WidgetSpec};
use crate::workflow::{FAILED, Step, Workflow};

/// The widget that shows a run.
pub(super) const SPEC: WidgetSpec =
    WidgetSpec { extension: EXTENSION, id: "workflow", placement: "bottom", title: "Workflow" };

/// The lines of the widget, in the order of the file.
pub(super) struct Lines {
    title: String,
    lines: Vec<StepLine>,
}

/// A step in the widget.
struct StepLine {
    id: Arc<str>,
    depth: usize,
    state: String,
}

impl Lines {
    /// No step has begun.
    pub(super) fn new(workflow: &Workflow) -> Self {
        let mut lines = Vec::new();
        let mut line =
            |id: &Arc<str>, depth| lines.push(StepLine { id: id.clone(), depth, state: String::new() });
        for step in &workflow.stages {
            line(step.id(), 0);
            if let Step::Parallel { siblings, join, .. } = step {
                for stage in siblings.iter().chain(join) {
                    line(&stage.id, 1);
                }
            }
        }
        Self { title: format!("Workflow {}", workflow.name), lines }
    }

    /// Sets the state of a step.
    pub(super) fn mark(&mut self, id: &str, state: &str) {
        for line in self.lines.iter_mut().filter(|line| *line.id == *id) {
            state.clone_into(&mut line.state);
        }
    }

    /// What is shown of them, with a status unless it is empty.
    pub(super) fn progress(&self, status: &str) -> Progress {
        let shown = self.lines.iter().map(|line| {
            let mark = match line.state.as_str() {
                "" => "○",
                "running" => "●",
                state if state.starts_with(FAILED) || state.starts_with("aborted") => "✗",
                _ => "✓",
            };
            let state = if line.state.is_empty() { String::new() } else { format!("  {}", line.state) };
            format!("{}{mark} {}{state}", "  ".repeat(line.depth.saturating_add(1)), line.id)
        });
        let widget = Widget { spec: SPEC, lines: std::iter::once(self.title.clone()).chain(shown).collect() };
        let text = || StatusText { extension: EXTENSION, text: status.to_owned() };
        Progress {
            widgets: [widget].into(),
            specs: [SPEC].into(),
            statuses: (!status.is_empty()).then(text).into_iter().collect(),
        }
    }
}
