//! What the session knows of the agent that answers its turns. Talks to no agent.

use std::sync::Arc;

use super::durable::DurableState;
use crate::engine::progress::{EXTENSION, Progress};
use crate::event::{Body, Widget, WidgetSpec};
use crate::facts::agent::{AgentFacts, AgentStep};
use crate::store::EntryBody;

/// The widget that shows a plan.
const PLAN: WidgetSpec = WidgetSpec { extension: EXTENSION, id: "plan", placement: "bottom", title: "Plan" };

/// A plan for frontends, marked as the steps of a workflow are.
fn progress(plan: &[AgentStep]) -> Progress {
    let line = |step: &AgentStep| {
        let mark = match step.state {
            "completed" => "✓",
            "in-progress" => "●",
            _ => "○",
        };
        format!("  {mark} {}", step.text)
    };
    let lines = std::iter::once("Plan".to_owned()).chain(plan.iter().map(line)).collect();
    let widgets = (!plan.is_empty()).then_some(Widget { spec: PLAN, lines });
    Progress { widgets: widgets.into_iter().collect(), specs: [PLAN].into(), statuses: Arc::new([]) }
}

impl DurableState {
    /// Takes in what the agent told of its session, unless something newer is known.
    pub(super) async fn agent_told(&mut self, told: AgentFacts) {
        let Some(known) = &self.state.facts.agent else { return };
        if known.name != told.name || known.version >= told.version {
            return;
        }
        let known_plan = known.plan.clone();
        // The journal says which session it is, and what the person chose.
        let told = AgentFacts { session: known.session.clone(), chosen: known.chosen.clone(), ..told };
        if let (Some(title), None) = (&told.title, &self.state.facts.name)
            && let Err(error) = self.append(vec![EntryBody::Name(title.clone())]).await
        {
            tracing::debug!(%error, "the name that an agent gave could not be written");
        }
        let plan = (told.plan != known_plan).then(|| told.plan.clone());
        self.state.facts.answered_by(told);
        self.changed(None);
        if let Some(plan) = plan {
            let progress = Arc::new(progress(&plan));
            self.handle.progress.store(Some(progress.clone()));
            self.show(Body::WidgetSpecsUpdated(progress.specs.clone()), None);
            self.show(Body::WidgetsUpdated(progress.widgets.clone()), None);
        }
    }

    /// The name of the session's agent, if it is not this program.
    pub(super) fn foreign(&self) -> Option<Arc<str>> {
        self.state.facts.agent.as_ref().map(|agent| agent.name.clone())
    }
}
