//! Shows a run to frontends: a widget with a line per stage, a status, notifications. Runs nothing.

use std::sync::Arc;

use super::{Ended, Run};
use crate::event::{Body, Level, Notification, StatusText, Widget, WidgetSpec};
use crate::workflow::{FAILED, Step};

/// The source of the runtime's widgets and notifications.
const EXTENSION: &str = "edn-bridge";

/// The widget that shows a run.
pub(super) const SPEC: WidgetSpec =
    WidgetSpec { extension: EXTENSION, id: "workflow", placement: "bottom", title: "Workflow" };

/// A step in the widget.
#[derive(Clone)]
pub(super) struct Line {
    id: Arc<str>,
    depth: usize,
    state: String,
}

/// The progress of a session's newest run, for frontends.
pub struct Progress {
    /// The widgets with their content.
    pub widgets: Arc<[Widget]>,
    /// The definitions of the widgets.
    pub specs: Arc<[WidgetSpec]>,
    /// The status texts.
    pub statuses: Arc<[StatusText]>,
}

impl Run {
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut line =
            |id: &Arc<str>, depth| lines.push(Line { id: id.clone(), depth, state: String::new() });
        for step in &self.workflow.stages {
            line(step.id(), 0);
            if let Step::Parallel { siblings, join, .. } = step {
                for stage in siblings.iter().chain(join) {
                    line(&stage.id, 1);
                }
            }
        }
        lines
    }

    /// Shows the progress of the run.
    pub(super) async fn show(&self, lines: &[Line], status: &str) {
        let title = format!("Workflow {}", self.workflow.name);
        let shown = lines.iter().map(|line| {
            let mark = match line.state.as_str() {
                "" => "○",
                "running" => "●",
                state if state.starts_with(FAILED) || state.starts_with("aborted") => "✗",
                _ => "✓",
            };
            let state = if line.state.is_empty() { String::new() } else { format!("  {}", line.state) };
            format!("{}{mark} {}{state}", "  ".repeat(line.depth.saturating_add(1)), line.id)
        });
        let widget = Widget { spec: SPEC, lines: std::iter::once(title).chain(shown).collect() };
        let text = || StatusText { extension: EXTENSION, text: status.to_owned() };
        let widgets: Arc<[Widget]> = [widget].into();
        let statuses: Arc<[StatusText]> = (!status.is_empty()).then(text).into_iter().collect();
        let progress =
            Progress { widgets: widgets.clone(), specs: [SPEC].into(), statuses: statuses.clone() };
        self.session.progress.store(Some(Arc::new(progress)));
        self.publish(Body::WidgetsUpdated(widgets)).await;
        self.publish(Body::StatusUpdated(statuses)).await;
    }

    pub(super) async fn notify(&self, level: Level, message: &str) {
        self.publish(Body::Notification(notification(self.shared.clock.id("n-"), level, message))).await;
    }
}

impl Ended {
    /// The text in the widget.
    pub(super) fn shown(&self) -> String {
        let mut shown = self.outcome.to_string();
        if self.attempts > 1 {
            shown.push_str(&format!(" after {} attempts", self.attempts));
        }
        if self.cap_hit {
            shown.push_str(", turn cap hit");
        }
        if let Some(why) = &self.why {
            shown.push_str(&format!(": {}", crate::tool::one_line(why, 100)));
        }
        shown
    }
}

/// A notification from the runtime to a person.
pub(in crate::runtime) fn notification(id: String, level: Level, message: &str) -> Arc<Notification> {
    Arc::new(Notification { id, level, message: message.to_owned(), extension: Some(EXTENSION) })
}

pub(super) fn mark(lines: &mut [Line], id: &str, state: &str) {
    for line in lines.iter_mut().filter(|line| *line.id == *id) {
        state.clone_into(&mut line.state);
    }
}
