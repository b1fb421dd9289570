//! The model catalogue: the facts about each model before it is called.
//!
//! Reads the program's list and adds that of the user's configuration. Knows plain data and figures; does not
//! know whether a model's provider is usable.

use std::collections::HashMap;
use std::sync::Arc;

use super::learned_limits::LearnedLimits;
use super::takes::{self, Fact};
use super::{ThinkingBy, embedded};
use crate::edn;
use crate::facts::{ModelFacts, Price};
use crate::message::ThinkingLevel;
use crate::similar;
use crate::value::Value;

/// The program's own list.
const BUILT_IN: &str = include_str!("models.edn");

/// The window of an unlisted model: most models have at least that.
const USUAL_WINDOW: u64 = 128_000;

/// The smallest limit that a server is believed, in tokens: a smaller figure is one of something else.
const LEAST_LIMIT: u64 = 1024;

/// One model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The model's id at the provider.
    pub id: Arc<str>,
    /// The name for people.
    pub name: Arc<str>,
    /// The window, in tokens.
    pub context_window: u64,
    /// The most tokens that a request may have, where that is less than the window.
    pub max_input: Option<u64>,
    /// The maximum answer, in tokens, if it is known.
    pub max_output: Option<u32>,
    /// Its thinking levels; empty for a model that cannot think.
    pub thinking: Arc<[ThinkingLevel]>,
    /// How to request a thinking level; `None` for a model that cannot think.
    pub thinking_by: Option<ThinkingBy>,
    /// Whether it writes its thinking into its text, between `<think>` and `</think>`.
    pub thinking_tags: bool,
    /// Whether it can call tools.
    pub tools: bool,
    /// Whether messages may contain images.
    pub images: bool,
    /// Facts about its requests, from this row.
    pub takes: Arc<[Fact]>,
    /// US dollars per million tokens, if the price is known.
    pub price: Option<Price>,
}

/// Why a configured model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A required key is missing or has the wrong shape.
    #[error("a model needs :{0}")]
    Missing(&'static str),
    /// An optional key has the wrong shape.
    #[error("a model's :{key} must be {expected}")]
    Shape {
        /// The key.
        key: &'static str,
        /// The right shape.
        expected: &'static str,
    },
    /// Something is wrong with what it takes.
    #[error("a model has a :takes that {0}")]
    Takes(String),
}

impl Model {
    /// Reads a model.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn from_value(value: &Value<'_>) -> Result<Self, ModelError> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let flag = |key: &str, usual| value.get(key).and_then(Value::as_bool).unwrap_or(usual);
        let provider = text("provider").ok_or(ModelError::Missing("provider"))?;
        let id = text("id").ok_or(ModelError::Missing("id"))?;
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
        let input = value.get("input").and_then(Value::as_slice);
        let images = input.map(|kinds| kinds.iter().any(|kind| kind.as_keyword() == Some("image")));
        let own = takes::configured(value.get("takes")).map_err(ModelError::Takes)?;
        // A row without :input says nothing of images.
        let takes = images.map(takes::images).into_iter().chain(own.iter().cloned()).collect();
        let by = match value.get("thinking-by").map(|by| by.as_keyword().or_else(|| by.as_str())) {
            None => ThinkingBy::Budget,
            Some(Some("budget")) => ThinkingBy::Budget,
            Some(Some("effort")) => ThinkingBy::Effort,
            Some(_) => {
                return Err(ModelError::Shape { key: "thinking-by", expected: ":budget or :effort" });
            }
        };
        Ok(Self {
            provider: provider.into(),
            id: id.into(),
            name: text("name").unwrap_or(id).into(),
            context_window: window
                .filter(|window| *window > 0)
                .ok_or(ModelError::Missing("context-window"))?,
            max_input: figure("max-input")
                .and_then(|tokens| u64::try_from(tokens).ok())
                .filter(|most| *most > 0),
            max_output: figure("max-output").and_then(|tokens| u32::try_from(tokens).ok()),
            thinking_tags: flag("thinking-tags", false),
            thinking_by: (!levels.is_empty()).then_some(by),
            thinking: levels,
            tools: flag("tools", true),
            images: images.unwrap_or(false),
            takes,
            price,
        })
    }

    /// Its facts. Whether it is usable, the catalogue does not know.
    pub fn facts(&self, usable: bool) -> ModelFacts {
        ModelFacts {
            provider: self.provider.clone(),
            id: self.id.clone(),
            name: self.name.clone(),
            context_window: self.context_window,
            max_output: self.max_output,
            thinking: self.thinking.clone(),
            tools: self.tools,
            images: self.images,
            price: self.price,
            usable,
        }
    }
}

/// The levels of a model: all for `true`, or the listed ones.
fn levels(value: Option<&Value<'_>>) -> Result<Arc<[ThinkingLevel]>, ModelError> {
    const SHAPE: ModelError =
        ModelError::Shape { key: "thinking", expected: "true, false or a vector of levels" };
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

/// The family of a model: its id without versions and dates, such as `claude-sonnet`.
fn family(id: &str) -> String {
    id.split('-').filter(|part| !part.starts_with(|c: char| c.is_ascii_digit())).collect::<Vec<_>>().join("-")
}

/// The numbers of a model's version, without dates.
fn version(id: &str) -> Vec<u32> {
    let parts = id.split(['-', '.']);
    let number = |part: &str| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().ok().filter(|number| *number < 1000)
    };
    parts.filter_map(number).collect()
}

/// The known models.
#[derive(Debug, Clone, Default)]
pub struct Models {
    rows: Vec<Model>,
    /// The most tokens that servers have said they take. All clones share it.
    limits: Arc<LearnedLimits>,
    /// The servers' addresses, by the names of their providers.
    addresses: Arc<HashMap<String, String>>,
}

impl Models {
    /// The program's models and those of a configuration, which override them. Also returns the errors of
    /// configured ones, for a person.
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
        (Self { rows: models, ..Self::default() }, problems)
    }

    /// Adds a model that the user named without listing it, so that it can be chosen again.
    #[must_use]
    pub fn with(mut self, provider: &str, id: &str) -> Self {
        if self.find(provider, id).is_none() {
            let model = self.describe(provider, id);
            self.rows.push(model);
        }
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Model> {
        self.rows.iter()
    }

    /// One of them.
    pub fn find(&self, provider: &str, id: &str) -> Option<&Model> {
        self.rows.iter().find(|model| &*model.provider == provider && &*model.id == id)
    }

    /// The model of a provider that a name stands for: the one with that id, else the newest of that family.
    pub fn resolve(&self, provider: &str, name: &str) -> Option<&Model> {
        self.find(provider, name).or_else(|| self.newest(provider, name))
    }

    /// The newest model of a provider's family that can call tools.
    fn newest(&self, provider: &str, wanted: &str) -> Option<&Model> {
        let is_of = |model: &&Model| {
            &*model.provider == provider && model.tools && !wanted.is_empty() && family(&model.id) == wanted
        };
        // Of equals, the first is taken.
        self.rows.iter().filter(is_of).reduce(|best, next| match version(&next.id) > version(&best.id) {
            true => next,
            false => best,
        })
    }

    /// The model of a provider that is taken where none is named: the newest of the first of the families that has one, else
    /// the first of all. One that cannot call tools and a preview come after all others.
    pub fn usual(&self, provider: &str, families: &[String]) -> Option<&Model> {
        let its = || self.rows.iter().filter(|model| &*model.provider == provider);
        let usable = || its().filter(|model| model.tools && !model.id.contains("preview"));
        families
            .iter()
            .find_map(|wanted| self.newest(provider, wanted))
            .or_else(|| usable().next())
            .or_else(|| its().next())
    }

    /// The same with limits that servers have told, and with the servers' addresses by the names of their providers.
    #[must_use]
    pub fn with_limits(mut self, limits: LearnedLimits, addresses: HashMap<String, String>) -> Self {
        (self.limits, self.addresses) = (Arc::new(limits), Arc::new(addresses));
        self
    }

    /// Notes what a model's server has said that it takes at most. Less than [`LEAST_LIMIT`] is a mistake. May wait for the
    /// disk.
    pub fn learn_limit(&self, provider: &str, id: &str, tokens: u64) {
        if tokens >= LEAST_LIMIT {
            self.limits.learn(provider, self.address(provider), id, tokens);
        }
    }

    fn address(&self, provider: &str) -> &str {
        self.addresses.get(provider).map(String::as_str).unwrap_or_default()
    }

    /// The facts about a model, or assumptions about an unlisted one. Its window is no larger than the largest request that
    /// its row allows, and than its server has said.
    pub fn describe(&self, provider: &str, id: &str) -> Model {
        let mut model = self.listed_or_assumed(provider, id);
        let learned = self.limits.find(provider, self.address(provider), id);
        for limit in model.max_input.into_iter().chain(learned) {
            model.context_window = model.context_window.min(limit);
        }
        model
    }

    fn listed_or_assumed(&self, provider: &str, id: &str) -> Model {
        self.find(provider, id).cloned().unwrap_or_else(|| Model {
            provider: provider.into(),
            id: id.into(),
            name: id.into(),
            context_window: USUAL_WINDOW,
            max_input: None,
            max_output: None,
            thinking: Arc::from([]),
            thinking_by: None,
            thinking_tags: false,
            tools: provider != embedded::NAME,
            images: false,
            takes: Arc::from([]),
            price: None,
        })
    }

    /// The id of a provider's model that may be meant by an unknown one.
    pub fn similar(&self, provider: &str, id: &str) -> Option<&str> {
        let its = self.rows.iter().filter(|model| &*model.provider == provider);
        similar::names(id, its.map(|model| &*model.id)).first().copied()
    }

    /// The models with the most similar names to an unknown one, most similar first.
    pub fn nearest(&self, provider: &str, id: &str) -> Vec<&Model> {
        let likeness = |model: &Model| {
            let same = if &*model.provider == provider { 0.2 } else { 0.0 };
            let id_part = similar::likeness(&model.id.to_lowercase(), &id.to_lowercase());
            let provider_part = similar::likeness(&model.provider, &provider.to_lowercase());
            id_part + same + 0.1 * provider_part
        };
        let mut models: Vec<(f64, &Model)> = self.rows.iter().map(|model| (likeness(model), model)).collect();
        models.sort_by(|a, b| b.0.total_cmp(&a.0));
        models.into_iter().take(3).map(|(_, model)| model).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Usage;

    #[test]
    fn built_in_list_is_valid() {
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
    fn window_is_no_larger_than_the_largest_request() {
        let row = crate::edn::read_one(
            b"{:provider \"p\" :id \"m\" :context-window 400000 :max-input 272000 :max-output 128000}",
        );
        let (models, problems) = Models::new(&[row.unwrap()]);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(models.describe("p", "m").context_window, 272_000);
        assert_eq!(models.describe("openai", "gpt-5").context_window, 272_000);
        assert_eq!(models.describe("openai", "gpt-4.1").context_window, 1_047_576);
    }

    #[test]
    fn window_is_no_larger_than_its_server_has_said() {
        let (models, _) = Models::new(&[]);
        let configured = models.clone();
        for (limit, expected) in [(12, 200_000), (15_000, 15_000), (900_000, 200_000)] {
            models.learn_limit("anthropic", "claude-sonnet-4-5", limit);
            let window = configured.describe("anthropic", "claude-sonnet-4-5").context_window;
            assert_eq!(window, expected, "{limit}");
        }
        models.learn_limit("local", "unlisted", 4096);
        assert_eq!(models.describe("local", "unlisted").context_window, 4096);
    }

    #[test]
    fn usual_model_is_the_newest_of_its_family() {
        let model =
            |id: &str, more: &str| format!("{{:provider \"p\" :id {id:?} :context-window 1000 {more}}}");
        let listed = [
            model("cat-9-preview", ""),
            model("dog-1", ""),
            model("cat-2", ""),
            model("cat-2.10", ""),
            model("cat-2.9", ""),
            model("cat-2-20250929", ""),
            model("cat-3", ":tools false"),
            model("cat-3-mini", ""),
        ];
        let listed = format!("[{}]", listed.join(" "));
        let configured = edn::read_one(listed.as_bytes()).unwrap();
        let (models, problems) = Models::new(configured.as_slice().unwrap());
        assert_eq!(problems, Vec::<String>::new());
        for (families, expected) in [
            (&["cat"][..], "cat-2.10"),
            (&["bird", "dog"], "dog-1"),
            (&["cat-mini"], "cat-3-mini"),
            (&[], "dog-1"),
        ] {
            let families: Vec<String> = families.iter().map(|family| (*family).to_owned()).collect();
            let usual = models.usual("p", &families).map(|model| model.id.to_string());
            assert_eq!(usual.as_deref(), Some(expected), "{families:?}");
        }
        assert_eq!(models.usual("embedded", &[]).map(|model| model.tools), Some(false), "the only one");
        assert!(models.usual("nobody", &[]).is_none());
        assert!(models.with("openai", "gpt-99").find("openai", "gpt-99").is_some());
    }

    #[test]
    fn configuration_adds_and_replaces_models() {
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
    fn unknown_model_suggests_similar_names() {
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
