//! What a call that fetches an address may reach beyond it. Asks no server.

use std::sync::Arc;

use super::permission::{self, Access, Act, Ground, Leave, Rule, Verdict};
use crate::http::Url;
use crate::http::web::Web;

/// What a call may reach beyond the address that was judged.
pub struct RedirectPolicy {
    /// What connects.
    pub web: Arc<Web>,
    /// The permissions of the session before any rule.
    pub leave: Leave,
    /// The rules for its calls.
    pub rules: Vec<Rule>,
    /// Its folders and private hosts.
    pub ground: Ground,
    /// Whether it goes through the proxy that the environment names.
    pub uses_proxy: bool,
}

impl RedirectPolicy {
    /// Whether a call of the tool may go on to an address without a question.
    pub(super) fn allow(&self, tool: &str, url: &Url) -> bool {
        let act = Act::of(tool, Access::Fetch(url.clone()));
        permission::judge(self.leave, &self.rules, &self.ground, &act) == Verdict::Allow
    }
}
