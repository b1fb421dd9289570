//! The environment variables that an engine's programs get and its keys are read from.
//!
//! An engine that runs in the process of its client uses that process's own. In the daemon, a client brings its
//! environment along; the newest one counts. Values may be keys, so nothing here shows them. Knows no process that is
//! started with it.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use arc_swap::ArcSwapOption;

/// Variables and their values.
pub type Variables = Vec<(OsString, OsString)>;

/// An environment that all its clones share, and the variables that programs do not inherit from it.
#[derive(Clone, Default)]
pub struct Environment {
    /// What a client brought; `None` for the process's own variables.
    brought: Arc<ArcSwapOption<Variables>>,
    /// Variables that hold keys.
    hidden: Arc<[String]>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.brought.load().as_ref().map(|variables| variables.len());
        f.debug_struct("Environment").field("brought", &count).field("hidden", &self.hidden).finish()
    }
}

impl Environment {
    /// Replaces the variables for all clones.
    pub fn bring(&self, variables: Variables) {
        self.brought.store(Some(Arc::new(variables)));
    }

    /// The same without these variables for programs, because they hold keys.
    #[must_use]
    pub fn hiding(&self, hidden: impl Into<Arc<[String]>>) -> Self {
        Self { brought: self.brought.clone(), hidden: hidden.into() }
    }

    /// A variable's value, hidden or not, if it is text.
    pub fn get(&self, name: &str) -> Option<String> {
        match self.brought.load().as_ref() {
            None => std::env::var(name).ok(),
            Some(variables) => {
                let (_, value) = variables.iter().find(|(known, _)| known == OsStr::new(name))?;
                value.to_str().map(str::to_owned)
            }
        }
    }

    /// Those of the variables that `names` lists, without hidden ones.
    pub fn only(&self, names: &[&str]) -> Variables {
        let wanted = |(name, _): &(OsString, OsString)| {
            name.to_str().is_some_and(|name| names.contains(&name)) && !self.hides(name)
        };
        match self.brought.load().as_ref() {
            None => std::env::vars_os().filter(wanted).collect(),
            Some(variables) => variables.iter().filter(|variable| wanted(variable)).cloned().collect(),
        }
    }

    /// What a client brought, without hidden variables; `None` if programs inherit the process's own.
    pub fn brought(&self) -> Option<Variables> {
        let brought = self.brought.load();
        let variables = brought.as_ref()?.iter();
        Some(variables.filter(|(name, _)| !self.hides(name)).cloned().collect())
    }

    /// The variables that programs do not inherit.
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    fn hides(&self, name: &OsStr) -> bool {
        self.hidden.iter().any(|hidden| OsStr::new(hidden) == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brought_variables_replace_own_ones_without_hidden() {
        let environment = Environment::default();
        let view = environment.hiding(["KEY".to_owned()]);
        assert_eq!(view.brought(), None);
        assert_eq!(view.get("PATH"), std::env::var("PATH").ok());
        environment.bring(vec![("KEY".into(), "secret".into()), ("TERM".into(), "dumb".into())]);
        assert_eq!(view.get("KEY").as_deref(), Some("secret"));
        assert_eq!(view.get("PATH"), None);
        assert_eq!(view.brought(), Some(vec![("TERM".into(), "dumb".into())]));
        assert_eq!(view.only(&["TERM", "KEY", "HOME"]), vec![("TERM".into(), "dumb".into())]);
        assert!(!format!("{view:?}").contains("secret"));
    }
}
