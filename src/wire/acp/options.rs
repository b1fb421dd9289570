//! The settings of a session as an editor shows them. Pure.

use std::collections::BTreeMap;

use crate::facts::{ModelFacts, SessionFacts};
use crate::message::Mode;
use crate::wire::acp::update::{Category, ChoiceGroup, ChoiceValue, OptionValue, ShownOption};

/// The permission mode.
pub const MODE: &str = "mode";
/// The model.
pub const MODEL: &str = "model";
/// How much the model thinks.
pub const THINKING: &str = "thought_level";
/// Whether a full conversation is summarised by itself.
pub const COMPACTION: &str = "auto_compaction";
/// Whether a failed model call is made again by itself.
pub const RETRY: &str = "auto_retry";

/// The modes: id, name, and what may be done without asking.
pub const MODES: [(&str, &str, &str); 4] = [
    (Mode::Ask.as_str(), "Ask", "Reading inside the workspace is free, anything else asks."),
    (Mode::AcceptEdits.as_str(), "Accept edits", "Changing files inside the workspace is free too."),
    (Mode::ReadOnly.as_str(), "Read only", "Nothing may be changed or run."),
    (Mode::Yolo.as_str(), "Yolo", "Nothing asks."),
];

/// The settings of a session. `switches` if the editor shows those that are on or off.
pub fn shown(facts: &SessionFacts, models: &[ModelFacts], switches: bool) -> Vec<ShownOption> {
    let modes = MODES.iter().map(|(id, name, about)| value(id, name, Some(about))).collect();
    let mut shown = vec![ShownOption {
        id: MODE,
        name: "Permission mode",
        about: "What tools may do without asking.",
        category: Category::Mode,
        value: choice(facts.mode.as_str(), modes),
    }];
    let groups = by_provider(facts, models);
    if !groups.is_empty() {
        shown.push(ShownOption {
            id: MODEL,
            name: "Model",
            about: "The model that answers.",
            category: Category::Model,
            value: OptionValue::Choice { current: model(&facts.model_provider, &facts.model_id), groups },
        });
    }
    if facts.model_reasoning {
        let mut levels: Vec<_> = facts.thinking_levels.to_vec();
        let current = facts.effective_thinking();
        if !levels.contains(&current) {
            levels.push(current);
        }
        levels.sort();
        let levels = levels.iter().map(|level| value(level.as_str(), level.as_str(), None)).collect();
        shown.push(ShownOption {
            id: THINKING,
            name: "Thinking",
            about: "How much the model may think before it answers.",
            category: Category::Thinking,
            value: choice(current.as_str(), levels),
        });
    }
    if switches {
        for (id, name, about, on) in [
            (
                COMPACTION,
                "Automatic compaction",
                "Summarise the older part when the window is full.",
                facts.auto_compaction,
            ),
            (RETRY, "Automatic retries", "Make a failed model call again.", facts.auto_retry),
        ] {
            let value = OptionValue::Switch(on);
            shown.push(ShownOption { id, name, about, category: Category::Use, value });
        }
    }
    shown
}

fn value(id: &str, name: &str, about: Option<&str>) -> ChoiceValue {
    (id.to_owned(), name.to_owned(), about.map(str::to_owned))
}

fn choice(current: &str, values: Vec<ChoiceValue>) -> OptionValue {
    OptionValue::Choice { current: current.to_owned(), groups: vec![ChoiceGroup { name: None, values }] }
}

/// The models that can be used now, and the current one, by provider.
fn by_provider(facts: &SessionFacts, models: &[ModelFacts]) -> Vec<ChoiceGroup> {
    let is_current = |of: &ModelFacts| of.provider == facts.model_provider && of.id == facts.model_id;
    let mut groups: BTreeMap<&str, Vec<ChoiceValue>> = BTreeMap::new();
    for of in models.iter().filter(|of| of.usable || is_current(of)) {
        let shown = value(&model(&of.provider, &of.id), &of.name, None);
        groups.entry(&of.provider).or_default().push(shown);
    }
    // An editor shows a current value only if it can be chosen.
    if !facts.has_model() && !groups.is_empty() {
        groups.insert("", vec![value(&model("", ""), "No model yet", None)]);
    }
    if !models.iter().any(is_current) && !facts.model_id.is_empty() {
        let shown = value(&model(&facts.model_provider, &facts.model_id), &facts.model_id, None);
        groups.entry(&facts.model_provider).or_default().push(shown);
    }
    groups.into_iter().map(|(name, values)| ChoiceGroup { name: Some(name.to_owned()), values }).collect()
}

/// The id of a model among all providers.
fn model(provider: &str, id: &str) -> String {
    format!("{provider}/{id}")
}
