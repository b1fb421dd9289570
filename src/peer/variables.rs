//! The values of variables and headers, looked up when a program is started.

use super::settings::Variable;
use crate::auth::{Credential, Keys};
use crate::environment::Environment;
use crate::secret::Secret;

/// Finds the key of a provider of models, for `{:key-of "anthropic"}`.
pub type KeysOf = dyn Fn(&str) -> Option<Keys> + Send + Sync;

/// Whether the name of a variable or a header says that its value is a key.
pub fn names_key(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CRED"].iter().any(|word| name.contains(word))
}

/// The value of a variable or header of that name.
///
/// # Errors
/// What is missing, as a sentence.
pub async fn value(
    name: &str,
    variable: &Variable,
    environment: &Environment,
    keys: &KeysOf,
) -> Result<Secret, String> {
    match variable {
        Variable::Text(text) => Ok(text.clone()),
        Variable::Variable { name: source, prefix } => {
            let value = environment.get(source);
            let value = value
                .ok_or_else(|| format!("{name} is to be that of the variable {source}, which is not set"))?;
            Ok(Secret::new(format!("{prefix}{value}")))
        }
        Variable::KeyOf { provider, prefix } => {
            let keys = keys(provider);
            let keys =
                keys.ok_or_else(|| format!("{name} is to be the key of {provider}, which is no provider"))?;
            match keys.get(false, None).await {
                Ok(Credential::Key(key) | Credential::Token(key)) => {
                    Ok(Secret::new(format!("{prefix}{}", key.expose())))
                }
                Ok(Credential::None) => {
                    Err(format!("{name} is to be the key of {provider}, which needs none"))
                }
                Err(error) => Err(format!("{name} is to be the key of {provider}: {error}")),
            }
        }
    }
}
