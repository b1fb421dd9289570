//! A run as frontends show it: a widget with a line a stage, a status, notifications.

use std::sync::Arc;

use super::{Ended, Run};
use crate::catalogue::Topic;
use crate::value::{Map, Value};
use crate::workflow::{FAILED, Step};

/// The widget that shows a run.
const WIDGET: &str = "workflow";

/// What widgets and notifications of the runtime are from.
const EXTENSION: &str = "edn-bridge";

/// What a widget shows of a step.
#[derive(Clone)]
pub(super) struct Line {
    id: Arc<str>,
    depth: usize,
    state: String,
}

/// What frontends show of a session's newest run.
#[derive(Default)]
pub struct Progress {
    /// The payload of `ui/widgets-updated`.
    pub widgets: Arc<Map<'static>>,
    /// The payload of `ui/widget-specs-updated`.
    pub specs: Arc<Map<'static>>,
    /// The payload of `ui/status-updated`.
    pub statuses: Arc<Map<'static>>,
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

    /// Shows how far the run is.
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
            Value::from(format!("{}{mark} {}{state}", "  ".repeat(line.depth.saturating_add(1)), line.id))
        });
        let mut widget = Map::new();
        widget.put("placement", "bottom");
        widget.put("extension-id", EXTENSION);
        widget.put("widget-id", WIDGET);
        widget.put("content-lines", Value::vector(std::iter::once(Value::from(title)).chain(shown)));
        let widgets = Map::new().with("widgets", Value::vector([Value::from(widget)]));
        let mut statuses = Vec::new();
        if !status.is_empty() {
            let status = Map::new().with("extension-id", EXTENSION).with("text", status.to_owned());
            statuses.push(Value::from(status));
        }
        let statuses = Map::new().with("statuses", Value::vector(statuses));
        let progress = Progress {
            widgets: Arc::new(widgets.clone()),
            specs: Arc::new(specs()),
            statuses: Arc::new(statuses.clone()),
        };
        self.session.progress.store(Some(Arc::new(progress)));
        self.publish(Topic::WidgetsUpdated, widgets).await;
        self.publish(Topic::StatusUpdated, statuses).await;
    }

    pub(super) async fn notify(&self, level: &str, message: &str) {
        self.publish(Topic::Notification, notification(self.shared.clock.id("n-"), level, message)).await;
    }
}

impl Ended {
    /// What the widget says of it.
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

/// What a person is told, as the payload of `ui/notification`.
pub(in crate::runtime) fn notification(id: String, level: &str, message: &str) -> Map<'static> {
    let mut payload = Map::new();
    payload.put("id", id);
    payload.put("message", message.to_owned());
    payload.put("level", level.to_owned());
    payload.put("extension-id", EXTENSION);
    payload
}

pub(super) fn specs() -> Map<'static> {
    let mut spec = Map::new();
    spec.put("extension-id", EXTENSION);
    spec.put("widget-id", WIDGET);
    spec.put("placement", "bottom");
    spec.put("title", "Workflow");
    Map::new().with("widget-specs", Value::vector([Value::from(spec)]))
}

pub(super) fn mark(lines: &mut [Line], id: &str, state: &str) {
    for line in lines.iter_mut().filter(|line| *line.id == *id) {
        state.clone_into(&mut line.state);
    }
}
