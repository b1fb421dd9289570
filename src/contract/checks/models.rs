//! Checks of models and thinking levels: lists and choices.

use super::super::check::{Check, Need, Stop, ensure, text};
use super::super::peer::Answer;
use super::sessions::state;
use crate::value::Value;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "models.list",
        about: "`get_available_models` returns the models as maps.",
        needs: &[Need::Op("get_available_models")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("get_available_models", "{}")?;
            let models = data.get("models").and_then(Value::as_slice);
            ensure(models.is_some_and(|models| models.iter().all(|model| model.as_map().is_some())), || {
                ":models is not a vector of maps".to_owned()
            })
        },
    },
    Check {
        name: "models.set",
        about: "`set_model` sets a listed model, given as string or keyword, and session/updated reports it.",
        needs: &[Need::Op("set_model"), Need::Op("get_available_models")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            let data = peer.ask_ok("get_available_models", "{}")?;
            let models = data.get("models").and_then(Value::as_slice).unwrap_or_default();
            let Some(model) = models.first() else {
                return Err(Stop::NotApplicable("the server has no models".to_owned()));
            };
            let (provider, id) = (text(model, "provider").to_owned(), text(model, "id").to_owned());
            for written in [format!("{provider:?}"), format!(":{provider}")] {
                let data = peer.ask_ok("set_model", &format!("{{:provider {written} :model-id {id:?}}}"))?;
                let told = data.get("model").map(|model| (text(model, "provider"), text(model, "id")));
                ensure(told == Some((provider.as_str(), id.as_str())), || {
                    format!("the model is told as {told:?}")
                })?;
            }
            let state = state(&mut peer)?;
            ensure(text(&state, "model-id") == id, || "the state tells another model".to_owned())
        },
    },
    Check {
        name: "models.unknown",
        about: "`set_model` with an unknown model is request/unknown-model.",
        needs: &[Need::Op("set_model")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let params = "{:provider \"no-such-provider\" :model-id \"no-such-model\"}";
            peer.ask_error("set_model", params, "request/unknown-model").map(|_| ())
        },
    },
    Check {
        name: "models.cycle",
        about: "`cycle_model` returns the new model, in either direction.",
        needs: &[Need::Op("cycle_model")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for params in ["{}", "{:direction \"next\"}", "{:direction \"prev\"}"] {
                let data = match peer.ask("cycle_model", params)? {
                    Answer::Ok(data) => data,
                    Answer::Error(error) if error.code == "request/unknown-model" => {
                        return Err(Stop::NotApplicable("the server has no model to go to".to_owned()));
                    }
                    Answer::Error(error) => return Err(Stop::failed(format!("{} came", error.code))),
                };
                let model = data.get("model");
                ensure(model.is_some_and(|model| !text(model, "id").is_empty()), || {
                    ":model has no :id".to_owned()
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "thinking.set",
        about: "A thinking level can be a name, as string or keyword, or an index in the list.",
        needs: &[Need::Op("set_thinking_level"), Need::Op("get_state")],
        run: |probe| {
            let mut peer = probe.ready()?;
            for (level, due) in [
                ("\"high\"", "high"),
                (":low", "low"),
                ("0", "off"),
                ("5", "xhigh"),
                ("\"medium\"", "medium"),
            ] {
                let data = peer.ask_ok("set_thinking_level", &format!("{{:level {level}}}"))?;
                let told = data.get("thinking-level");
                let told =
                    told.and_then(|told| told.as_str().or_else(|| told.as_keyword())).unwrap_or_default();
                ensure(told == due, || format!("{level} is told as {told:?}"))?;
            }
            let state = state(&mut peer)?;
            ensure(text(&state, "thinking-level") == "medium", || "the state tells another level".to_owned())
        },
    },
    Check {
        name: "thinking.cycle",
        about: "`cycle_thinking_level` goes through all levels and starts again.",
        needs: &[Need::Op("cycle_thinking_level"), Need::Op("set_thinking_level")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_ok("set_thinking_level", "{:level \"off\"}")?;
            let mut told = Vec::new();
            for _ in 0..6 {
                let data = peer.ask_ok("cycle_thinking_level", "{}")?;
                let level = data.get("thinking-level");
                told.push(
                    level.and_then(|l| l.as_str().or_else(|| l.as_keyword())).unwrap_or_default().to_owned(),
                );
            }
            if told != ["minimal", "low", "medium", "high", "xhigh", "off"] {
                probe.note(format!("The thinking levels come round as {told:?}."));
            }
            ensure(told.iter().all(|level| !level.is_empty()), || "a level has no name".to_owned())
        },
    },
];
