//! The environment variables that an engine's programs get and its keys are read from.
//!
//! An engine that runs in the process of its client uses that process's own. In the daemon, each client brings its
//! environment along: what it begins has its variables to the end; what nobody began who brought some has the newest
//! ones. Values may be keys, so nothing here shows them. Knows no process that is started with it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

/// Variables and their values, of a process to start.
pub type Pairs = Vec<(OsString, OsString)>;

/// What a client brought. A copy is cheap.
#[derive(Clone, PartialEq, Eq)]
pub struct Variables(Arc<Pairs>);

impl From<Pairs> for Variables {
    fn from(pairs: Pairs) -> Self {
        Self(Arc::new(pairs))
    }
}

impl Variables {
    /// The variables, secret ones too.
    pub fn pairs(&self) -> &[(OsString, OsString)] {
        &self.0
    }
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} variables", self.0.len())
    }
}

/// An environment that all its clones share, and the variables that programs do not inherit from it.
#[derive(Clone, Default)]
pub struct Environment {
    brought: Arc<Brought>,
    /// The variables of what a client began; `None` for the newest.
    own: Option<Variables>,
    /// Variables that hold keys.
    hidden: Arc<[String]>,
}

/// What clients brought.
#[derive(Default)]
struct Brought {
    /// The newest; `None` for the process's own variables.
    newest: ArcSwapOption<Variables>,
    /// Those of each client that is there.
    clients: Mutex<HashMap<u64, Variables>>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("brought", &self.variables())
            .field("hidden", &self.hidden)
            .finish()
    }
}

impl Environment {
    /// Notes the variables of a client, which are the newest now.
    pub fn bring(&self, client: u64, variables: Variables) {
        self.clients().insert(client, variables.clone());
        self.brought.newest.store(Some(Arc::new(variables)));
    }

    /// Forgets the variables of a client that has left. What it began keeps them.
    pub fn forget(&self, client: u64) {
        self.clients().remove(&client);
    }

    /// The variables that a client brought.
    pub fn of_client(&self, client: u64) -> Option<Variables> {
        self.clients().get(&client).cloned()
    }

    /// The same environment with these variables, whatever is brought later; with `None`, the newest.
    #[must_use]
    pub fn with(&self, own: Option<Variables>) -> Self {
        Self { own, ..self.clone() }
    }

    /// The same without these variables for programs, because they hold keys.
    #[must_use]
    pub fn hiding(&self, hidden: impl Into<Arc<[String]>>) -> Self {
        Self { hidden: hidden.into(), ..self.clone() }
    }

    /// A variable's value, hidden or not, if it is text.
    pub fn get(&self, name: &str) -> Option<String> {
        match self.variables() {
            None => std::env::var(name).ok(),
            Some(variables) => {
                let (_, value) = variables.pairs().iter().find(|(known, _)| known == OsStr::new(name))?;
                value.to_str().map(str::to_owned)
            }
        }
    }

    /// Those of the variables that `names` lists, without hidden ones.
    pub fn only(&self, names: &[&str]) -> Pairs {
        let wanted = |(name, _): &(OsString, OsString)| {
            name.to_str().is_some_and(|name| names.contains(&name)) && !self.hides(name)
        };
        match self.variables() {
            None => std::env::vars_os().filter(wanted).collect(),
            Some(variables) => {
                variables.pairs().iter().filter(|variable| wanted(variable)).cloned().collect()
            }
        }
    }

    /// What a client brought, without hidden variables; `None` if programs inherit the process's own.
    pub fn brought(&self) -> Option<Pairs> {
        let variables = self.variables()?;
        Some(variables.pairs().iter().filter(|(name, _)| !self.hides(name)).cloned().collect())
    }

    /// All that a client brought; `None` for the process's own variables.
    pub fn variables(&self) -> Option<Variables> {
        self.own.clone().or_else(|| self.brought.newest.load().as_deref().cloned())
    }

    /// The variables that programs do not inherit.
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    fn hides(&self, name: &OsStr) -> bool {
        self.hidden.iter().any(|hidden| OsStr::new(hidden) == name)
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Variables>> {
        self.brought.clients.lock().unwrap_or_else(PoisonError::into_inner)
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
        let brought = vec![("KEY".into(), "secret".into()), ("TERM".into(), "dumb".into())];
        environment.bring(1, brought.into());
        assert_eq!(view.get("KEY").as_deref(), Some("secret"));
        assert_eq!(view.get("PATH"), None);
        assert_eq!(view.brought(), Some(vec![("TERM".into(), "dumb".into())]));
        assert_eq!(view.only(&["TERM", "KEY", "HOME"]), vec![("TERM".into(), "dumb".into())]);
        assert!(!format!("{view:?}").contains("secret"));
    }

    #[test]
    fn what_a_client_began_keeps_its_variables() {
        let environment = Environment::default();
        environment.bring(1, vec![("A".into(), "one".into())].into());
        let first = environment.with(environment.of_client(1));
        environment.bring(2, vec![("A".into(), "two".into())].into());
        assert_eq!(environment.get("A").as_deref(), Some("two"));
        assert_eq!(first.get("A").as_deref(), Some("one"));
        environment.forget(1);
        assert_eq!(environment.of_client(1), None);
        assert_eq!(first.hiding(["B".to_owned()]).get("A").as_deref(), Some("one"));
        // A guest brings none.
        assert_eq!(environment.with(environment.of_client(3)).get("A").as_deref(), Some("two"));
    }
}
