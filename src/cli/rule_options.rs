//! Rules for the calls of tools that hold for one run of a command: `--allow RULE` and `--deny RULE`.

use clap::Args;
use edn_bridge::config::RuleValue;
use edn_bridge::similar;
use edn_bridge::tool::permission::{Decision, Rule};
use edn_bridge::tool::toolbox::Toolbox;
use edn_bridge::tool::{ASK_USER, DELEGATE};

use super::failure::{Failure, USAGE};

/// Rules for one run.
#[derive(Args, Clone, Default)]
pub(super) struct RuleOptions {
    /// Allow calls in this run: a tool (edit), a command's first words (bash:npm test), a whole command (bash=LINE), paths
    /// (write:src/**) or a host (fetch:docs.rs). May be given several times.
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Refuse calls in this run; the same forms. May be given several times.
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
}

impl RuleOptions {
    /// Fails if there are rules and another process has the session: its rules hold there.
    pub(super) fn must_hold(&self, is_own_session: bool) -> Result<(), Failure> {
        if is_own_session || (self.allow.is_empty() && self.deny.is_empty()) {
            return Ok(());
        }
        let message = "another process has this session open, and its rules hold there: --allow and --deny would do nothing";
        Err(Failure::Status { code: USAGE, message: message.to_owned() })
    }

    /// The rules, as the configuration would have them.
    ///
    /// # Errors
    /// The first one that is no rule, or whose tool is probably misspelt.
    pub(super) fn rules(&self) -> Result<Vec<RuleValue>, Failure> {
        let allowed = self.allow.iter().map(|text| (Decision::Allow, text));
        let denied = self.deny.iter().map(|text| (Decision::Deny, text));
        denied.chain(allowed).map(|(decision, text)| rule(decision, text)).collect()
    }
}

fn rule(decision: Decision, text: &str) -> Result<RuleValue, Failure> {
    let place = format!("--{} {text}", decision.as_str());
    let wrong = |why: String| Failure::Status { code: USAGE, message: format!("{place}: {why}") };
    let rule = Rule::from_short(decision, text).map_err(|error| wrong(error.to_string()))?;
    if let Some(tool) = rule.tool.as_deref().filter(|tool| !tool.contains('*')) {
        let specs = Toolbox::builtin().specs();
        let names: Vec<&str> = specs.iter().map(|spec| &*spec.name).chain([ASK_USER, DELEGATE]).collect();
        // Servers and clients bring tools of other names.
        let near = if names.contains(&tool) { Vec::new() } else { similar::names(tool, names) };
        if let Some(near) = near.first() {
            return Err(wrong(format!("there is no tool {tool:?}. Did you mean {near:?}?")));
        }
    }
    Ok(RuleValue { value: rule.to_value(), place })
}
