//! The model catalogue: what is known of each model before it is asked.
//!
//! Reads the list that comes with the program, and adds what the user's configuration has. Knows plain
//! data and figures; whether a model's provider can be reached, it does not know.

use std::sync::Arc;

use super::{ThinkingBy, embedded};
use crate::edn;
use crate::message::{ThinkingLevel, Usage};
use crate::value::{Map, Value};

/// The list that comes with the program.
const BUILT_IN: &str = include_str!("models.edn");

/// A window for models that nobody described: what most have at least.
const USUAL_WINDOW: u64 = 128_000;

/// One model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The model's id there.
    pub id: Arc<str>,
    /// The name that a person reads.
    pub name: Arc<str>,
    /// The window, in tokens.
    pub context_window: u64,
    /// The longest answer, in tokens, where it is known.
    pub max_output: Option<u32>,
    /// The thinking levels that it has; none for one that cannot think.
    pub thinking: Arc<[ThinkingLevel]>,
    /// How it is told how much to think; `None` for one that cannot.
    pub thinking_by: Option<ThinkingBy>,
    /// Whether it can call tools.
    pub tools: bool,
    /// Whether messages may hold images.
    pub images: bool,
    /// US dollars for a million tokens, where a price is known.
    pub price: Option<Price>,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Price {
    /// Of the prompt.
    pub input: f64,
    /// Of the answer.
    pub output: f64,
    /// Of the prompt's part that was read from a cache.
    pub cache_read: f64,
    /// Of the prompt's part that was written to a cache.
    pub cache_write: f64,
}

impl Price {
    /// What a call cost, in US dollars.
    pub fn of(&self, usage: &Usage) -> f64 {
        // Counts beyond 2^32 do not happen, and would only make the sum less exact.
        let tokens = |count: u64| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        let sum = tokens(usage.input) * self.input
            + tokens(usage.output) * self.output
            + tokens(usage.cache_read) * self.cache_read
            + tokens(usage.cache_write) * self.cache_write;
        sum / 1_000_000.0
    }
}

impl Model {
    /// Reads a model; says what is wrong with it.
    ///
    /// # Errors
    /// Which key is missing or has another shape.
    pub fn from_value(value: &Value<'_>) -> Result<Self, String> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let flag = |key: &str, usual| value.get(key).and_then(Value::as_bool).unwrap_or(usual);
        let missing = |key: &str| format!("a model needs :{key}");
        let provider = text("provider").ok_or_else(|| missing("provider"))?;
        let id = text("id").ok_or_else(|| missing("id"))?;
        let figure = |key: &str| value.get(key).and_then(Value::as_i64);
        let window = figure("context-window").and_then(|window| u64::try_from(window).ok());
        let price = value.get("price").map(|price| {
            let dollars = |key: &str| {
                let number = price.get(key);
                number
                    .and_then(|n| n.as_f64().or_else(|| n.as_i64()?.to_string().parse().ok()))
                    .unwrap_or(0.0)
            };
            let input = dollars("input");
            let cached = |key: &str| if price.get(key).is_some() { dollars(key) } else { input };
            Price {
                input,
                output: dollars("output"),
                cache_read: cached("cache-read"),
                cache_write: cached("cache-write"),
            }
        });
        let levels = levels(value.get("thinking"))?;
        let by = match value.get("thinking-by").map(|by| by.as_keyword().or_else(|| by.as_str())) {
            None => ThinkingBy::Budget,
            Some(Some("budget")) => ThinkingBy::Budget,
            Some(Some("effort")) => ThinkingBy::Effort,
            Some(_) => return Err("a model's :thinking-by must be :budget or :effort".to_owned()),
        };
        Ok(Self {
            provider: provider.into(),
            id: id.into(),
            name: text("name").unwrap_or(id).into(),
            context_window: window.filter(|window| *window > 0).ok_or_else(|| missing("context-window"))?,
            max_output: figure("max-output").and_then(|tokens| u32::try_from(tokens).ok()),
            thinking_by: (!levels.is_empty()).then_some(by),
            thinking: levels,
            tools: flag("tools", true),
            images: value
                .get("input")
                .and_then(Value::as_slice)
                .is_some_and(|kinds| kinds.iter().any(|kind| kind.as_keyword() == Some("image"))),
            price,
        })
    }

    /// The model as `get_available_models` shows it.
    pub fn to_value(&self, usable: bool) -> Value<'static> {
        let mut map = Map::new();
        map.put("provider", self.provider.to_string());
        map.put("id", self.id.to_string());
        map.put("name", self.name.to_string());
        map.put("context-window", Value::from(self.context_window));
        map.put_some("max-output", self.max_output);
        map.put("reasoning", self.thinking_by.is_some());
        if self.thinking_by.is_some() {
            let levels = self.thinking.iter().map(|level| Value::from(level.as_str()));
            map.put("thinking-levels", Value::vector(levels));
        }
        map.put("tools", self.tools);
        map.put("images", self.images);
        if let Some(price) = self.price {
            let mut dollars = Map::new();
            dollars.put("input", price.input);
            dollars.put("output", price.output);
            dollars.put("cache-read", price.cache_read);
            dollars.put("cache-write", price.cache_write);
            map.put("price", Value::from(dollars));
        }
        map.put("usable", usable);
        Value::from(map)
    }
}

/// The levels of a model: all for `true`, or those that are listed.
fn levels(value: Option<&Value<'_>>) -> Result<Arc<[ThinkingLevel]>, String> {
    const SHAPE: &str = "a model's :thinking must be true, false or a vector of levels";
    match value {
        None | Some(Value::Nil | Value::Bool(false)) => Ok(Arc::from([])),
        Some(Value::Bool(true)) => Ok(Arc::from(ThinkingLevel::ALL)),
        Some(listed) => {
            let name = |level: &Value<'_>| {
                level.as_keyword().or_else(|| level.as_str()).and_then(ThinkingLevel::parse).ok_or(SHAPE)
            };
            let mut levels =
                listed.as_slice().ok_or(SHAPE)?.iter().map(name).collect::<Result<Vec<_>, _>>()?;
            levels.sort();
            levels.dedup();
            Ok(levels.into())
        }
    }
}

/// The models that are known.
#[derive(Debug, Clone, Default)]
pub struct Models(Vec<Model>);

impl Models {
    /// Those that come with the program, and those of a configuration, which win over the former. What
    /// is wrong with a configured one is returned, for a person.
    pub fn new(configured: &[Value<'_>]) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let built_in = edn::read_one(BUILT_IN.as_bytes());
        let built_in = built_in.as_ref().ok().and_then(Value::as_slice).unwrap_or_default();
        let mut models: Vec<Model> = Vec::new();
        for value in built_in.iter().chain(configured) {
            match Model::from_value(value) {
                Ok(model) => {
                    models.retain(|known| (&known.provider, &known.id) != (&model.provider, &model.id));
                    models.push(model);
                }
                Err(problem) => problems.push(format!("{problem}: {value}")),
            }
        }
        (Self(models), problems)
    }

    /// With a model that the user chose by its name alone, so that it can be chosen again.
    #[must_use]
    pub fn with(mut self, provider: &str, id: &str) -> Self {
        if self.find(provider, id).is_none() {
            let model = self.describe(provider, id);
            self.0.push(model);
        }
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Model> {
        self.0.iter()
    }

    /// One of them.
    pub fn find(&self, provider: &str, id: &str) -> Option<&Model> {
        self.0.iter().find(|model| &*model.provider == provider && &*model.id == id)
    }

    /// What is known of a model, or what can be supposed of one that is not listed.
    pub fn describe(&self, provider: &str, id: &str) -> Model {
        self.find(provider, id).cloned().unwrap_or_else(|| Model {
            provider: provider.into(),
            id: id.into(),
            name: id.into(),
            context_window: USUAL_WINDOW,
            max_output: None,
            thinking: Arc::from([]),
            thinking_by: None,
            tools: provider != embedded::NAME,
            images: false,
            price: None,
        })
    }

    /// The models whose names are most like one that is not there, most like it first.
    pub fn nearest(&self, provider: &str, id: &str) -> Vec<&Model> {
        let likeness = |model: &Model| {
            let same = if &*model.provider == provider { 0.2 } else { 0.0 };
            let id_part = strsim::jaro_winkler(&model.id.to_lowercase(), &id.to_lowercase());
            let provider_part = strsim::jaro_winkler(&model.provider, &provider.to_lowercase());
            id_part + same + 0.1 * provider_part
        };
        let mut models: Vec<(f64, &Model)> = self.0.iter().map(|model| (likeness(model), model)).collect();
        models.sort_by(|a, b| b.0.total_cmp(&a.0));
        models.into_iter().take(3).map(|(_, model)| model).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_comes_with_the_program_is_right() {
        let (models, problems) = Models::new(&[]);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            models.find("embedded", "smollm2-135m-instruct").map(|m| (m.context_window, m.tools)),
            Some((8192, false))
        );
        let sonnet = models.find("anthropic", "claude-sonnet-4-5").unwrap();
        let usage =
            Usage { input: 1_000_000, output: 100_000, cache_read: 1_000_000, cache_write: 0, cost: 0.0 };
        assert!((sonnet.price.unwrap().of(&usage) - 4.8).abs() < 1e-9);
        for model in models.iter() {
            assert_eq!(
                models.iter().filter(|m| (&m.id, &m.provider) == (&model.id, &model.provider)).count(),
                1
            );
        }
    }

    #[test]
    fn configuration_adds_and_replaces() {
        let configured = edn::read_one(
            br#"[{:provider "local" :id "q" :context-window 4096 :tools false :price {:input 1 :output 2}}
                 {:provider "openai" :id "gpt-5" :context-window 10} {:provider "x"} {:provider "x" :id "y"}]"#,
        )
        .unwrap();
        let (models, problems) = Models::new(configured.as_slice().unwrap());
        assert_eq!(models.find("openai", "gpt-5").unwrap().context_window, 10);
        assert_eq!(models.find("local", "q").unwrap().price.unwrap().cache_read, 1.0);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn a_wrong_name_finds_its_neighbours() {
        let (models, _) = Models::new(&[]);
        for (provider, id, expected) in [
            ("anthropic", "claude-sonet-4-5", "claude-sonnet-4-5"),
            ("openai", "GPT-5", "gpt-5"),
            ("anthropc", "claude-haiku", "claude-haiku-4-5"),
        ] {
            assert_eq!(&*models.nearest(provider, id)[0].id, expected);
        }
    }
}
