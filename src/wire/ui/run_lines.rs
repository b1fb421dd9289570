//! Lines of the run that goes on: an event with its number, and its state. Decides nothing.

use crate::facts::SessionFacts;
use crate::value::Map;
use crate::wire::ui::connection_state::{RunStatus, UiStateInner};
use crate::wire::ui::frames;

/// Tells an event of the run.
pub fn agent(state: &mut UiStateInner, out: &mut Vec<u8>, event: Map<'_>) {
    let Some(run) = &mut state.run else { return };
    frames::event(out, &run.id, run.seq, &event);
    run.seq = run.seq.saturating_add(1);
}

/// Tells the state of the run.
pub fn status(state: &UiStateInner, out: &mut Vec<u8>, status: RunStatus, message: Option<&str>) {
    let Some(run) = &state.run else { return };
    let mut params = Map::new().with("run_id", run.id.as_ref()).with("status", status.as_str());
    params.put_some("message", message);
    frames::notify(out, "run.status", &params);
}

/// What the wire keeps of a session's facts.
pub fn note_facts(state: &mut UiStateInner, facts: &SessionFacts) {
    state.window = facts.context_window;
    state.model = (facts.model_provider.clone(), facts.model_id.clone());
}
