//! A model as people write it: `provider/model`, `provider model`, an id, or a family such as `claude-sonnet`. One reader for
//! every door. Knows names only; does not know whether a provider can be asked.

use std::sync::Arc;

use super::models::Models;
use super::{embedded, scripted};

/// A model that a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRef {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// The model's id at the provider.
    pub id: Arc<str>,
    /// The family that the name is, where it is no id.
    pub family: Option<Arc<str>>,
    /// Whether the catalogue has the model. Facts about another one are assumed.
    pub is_listed: bool,
}

/// A name that leads to no model: its provider is not known, or has other models only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchModel {
    /// The provider; empty if none is named and none is meant.
    pub provider: Arc<str>,
    /// The model.
    pub id: Arc<str>,
}

/// The catalogue and the providers that names are read against.
pub struct ModelNames<'n> {
    /// The catalogue.
    pub models: &'n Models,
    /// The providers by their names, the preferred ones first.
    pub providers: Vec<&'n str>,
}

impl ModelNames<'_> {
    /// Reads a name. With a provider the name is one of its models; without one, `current` is the provider that is asked
    /// anyway, and may be empty.
    ///
    /// # Errors
    /// See [`NoSuchModel`].
    pub fn parse(&self, provider: Option<&str>, name: &str, current: &str) -> Result<ModelRef, NoSuchModel> {
        let name = name.trim();
        let (provider, name) = match provider {
            Some(provider) => (provider, self.without(provider, name)),
            None => match self.split(name, current) {
                Some(both) => both,
                None => (self.holder(name, current).unwrap_or(current), name),
            },
        };
        let wrong = || NoSuchModel { provider: provider.into(), id: name.into() };
        // A server may have models that nobody has listed. What runs in this process has no others.
        let is_open =
            !matches!(provider, embedded::NAME | scripted::NAME) && self.providers.contains(&provider);
        let found = self.models.resolve(provider, name);
        match found {
            None if name.is_empty() || name.contains(char::is_whitespace) || !is_open => Err(wrong()),
            found => Ok(ModelRef {
                provider: provider.into(),
                id: found.map_or_else(|| name.into(), |model| model.id.clone()),
                family: found.filter(|model| &*model.id != name).map(|_| name.into()),
                is_listed: found.is_some(),
            }),
        }
    }

    /// The provider and the model of `provider/model` or `provider model`. No slash parts an id of the current provider.
    pub fn split<'t>(&self, name: &'t str, current: &str) -> Option<(&'t str, &'t str)> {
        if self.models.find(current, name).is_some() {
            return None;
        }
        let (provider, id) = name.split_once(|c: char| c == '/' || c.is_whitespace())?;
        (self.providers.contains(&provider) && !id.trim().is_empty()).then(|| (provider, id.trim()))
    }

    /// A model's name without its provider's before it.
    pub fn without<'t>(&self, provider: &str, name: &'t str) -> &'t str {
        let is_whole = self.models.find(provider, name).is_some();
        let rest = name.strip_prefix(provider).and_then(|rest| rest.strip_prefix('/'));
        rest.filter(|rest| !is_whole && !rest.is_empty()).unwrap_or(name)
    }

    /// The provider that has a model of this name: the current one before others.
    fn holder(&self, name: &str, current: &str) -> Option<&str> {
        let has = |provider: &&&str| self.models.resolve(provider, name).is_some();
        let all = || [embedded::NAME, scripted::NAME];
        if self.models.resolve(current, name).is_some() {
            return None;
        }
        let others = self.providers.iter().find(has).copied();
        others.or_else(|| all().into_iter().find(|own| self.models.find(own, name).is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;

    #[test]
    fn each_spelling_leads_to_its_model() {
        let rows = br#"[{:provider "anthropic" :id "claude-sonnet-99" :context-window 1000}
                        {:provider "openrouter" :id "anthropic/claude-sonnet-98" :context-window 1000}
                        {:provider "openai" :id "gpt-99" :context-window 1000}
                        {:provider "gate" :id "openai/gpt-99" :context-window 1000}]"#;
        let rows = edn::read_one(rows).unwrap();
        let (models, problems) = Models::new(rows.as_slice().unwrap());
        assert_eq!(problems, Vec::<String>::new());
        let names = ModelNames {
            models: &models,
            providers: vec!["anthropic", "openai", "openrouter", "gate", "ollama"],
        };
        for (provider, name, current, expected) in [
            (None, "anthropic/claude-sonnet-99", "ollama", "anthropic claude-sonnet-99"),
            (None, " anthropic  claude-sonnet-99", "", "anthropic claude-sonnet-99"),
            (None, "anthropic/claude-sonnet", "ollama", "anthropic claude-sonnet-99 (claude-sonnet)"),
            (None, "claude-sonnet", "ollama", "anthropic claude-sonnet-99 (claude-sonnet)"),
            (None, "claude-sonnet-99", "openai", "anthropic claude-sonnet-99"),
            (Some("anthropic"), "claude-sonnet", "ollama", "anthropic claude-sonnet-99 (claude-sonnet)"),
            (Some("anthropic"), "anthropic/claude-sonnet-99", "", "anthropic claude-sonnet-99"),
            // Ids with slashes: an id of the provider that is asked anyway comes before another provider.
            (None, "openai/gpt-99", "gate", "gate openai/gpt-99"),
            (None, "openai/gpt-99", "ollama", "openai gpt-99"),
            (None, "gate/openai/gpt-99", "ollama", "gate openai/gpt-99"),
            (Some("gate"), "openai/gpt-99", "ollama", "gate openai/gpt-99"),
            (Some("gate"), "openai/gpt-98", "ollama", "gate openai/gpt-98?"),
            (None, "openrouter/anthropic/claude-sonnet-98", "gate", "openrouter anthropic/claude-sonnet-98"),
            // Nobody lists these.
            (None, "qwen3:8b", "ollama", "ollama qwen3:8b?"),
            (None, "hf.co/a/b", "ollama", "ollama hf.co/a/b?"),
            (None, "ollama/qwen3:8b", "anthropic", "ollama qwen3:8b?"),
            (Some("openai"), "gpt-100", "", "openai gpt-100?"),
            // A model inside this process has no others beside it.
            (None, "smollm2-135m-instruct", "openai", "embedded smollm2-135m-instruct"),
            (Some("embedded"), "gpt-99", "", "none of embedded"),
            (Some("antropic"), "claude-sonnet", "", "none of antropic"),
            (None, "antropic claude-sonnet", "anthropic", "none of anthropic"),
            (None, "nothing", "", "none of "),
            (None, "", "ollama", "none of ollama"),
        ] {
            let read = match names.parse(provider, name, current) {
                Ok(read) => {
                    let family = read.family.map(|family| format!(" ({family})")).unwrap_or_default();
                    let mark = if read.is_listed { "" } else { "?" };
                    format!("{} {}{family}{mark}", read.provider, read.id)
                }
                Err(none) => format!("none of {}", none.provider),
            };
            assert_eq!(read, expected, "{provider:?} {name:?} at {current:?}");
        }
    }
}
