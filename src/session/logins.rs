//! Logins to providers. Carries no key and no token.

use crate::facts::{LoginFacts, ProviderName};
use crate::session::call::{Call, Reply};

/// The logins. A connection has at most one pending login. No secret is in an answer.
pub trait Logins: Send + Sync {
    /// Starts a login.
    fn login_begin(&self, call: Call, provider: Option<String>, reply: Reply<LoginFacts>);

    /// Completes the pending login; returns the provider.
    fn login_complete(&self, call: Call, input: Option<String>, reply: Reply<ProviderName>);

    /// Deletes a provider's credentials.
    fn logout(&self, call: Call, provider: String, reply: Reply<bool>);
}
