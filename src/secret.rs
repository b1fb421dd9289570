//! Secret text: keys and tokens.
//!
//! A [`Secret`] has no `Display` and no conversion into a value or an event. Its `Debug` output hides it, and
//! its memory is wiped when it is dropped. A search for `expose` finds every place where a secret leaves the
//! process.

use std::borrow::Cow;
use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

/// The replacement for a secret.
const MASK: &str = "[secret]";

/// Shorter secrets are not searched for in texts, because ordinary words would contain them.
const SHORTEST: usize = 6;

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a text and owns its memory.
    pub fn new(text: String) -> Self {
        Self(SecretString::from(text))
    }

    /// The text, only for code that sends or stores it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }

    /// A foreign text, such as a server's error, without this secret.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let secret = self.expose();
        if secret.len() < SHORTEST || !text.contains(secret) {
            return text.into();
        }
        text.replace(secret, MASK).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_debug_shows_nothing() {
        let secret = Secret::new("sk-1234567".into());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "[secret] Some([secret])");
        assert_eq!(secret.redact("the key sk-1234567 is wrong"), "the key [secret] is wrong");
        assert_eq!(secret.expose(), "sk-1234567");
        assert_eq!(Secret::new("a".into()).redact("a b"), "a b");
        assert_eq!(Secret::new(String::new()).redact("a b"), "a b");
    }
}
