//! The rules of a session as people see them: where each comes from, and how it is taken back. Does not judge calls.

use std::path::Path;

use crate::edn;
use crate::engine::handle::Handle;
use crate::engine::services::Services;
use crate::facts::permissions::{ListedRule, RuleSource};
use crate::session::ApiError;
use crate::sha256;
use crate::tool::permission::Rule;

/// Why a kept rule is not used.
const TOO_WIDE: &str = "it is wider than what is suggested now";

/// The rules of a session, and those that were kept for its folder and are not used.
pub(super) fn listed(services: &Services, session: &Handle) -> Vec<ListedRule> {
    let config = session.config();
    let facts = session.snapshot().facts.clone();
    let cwd = Path::new(&*facts.cwd);
    let answered = session.rules.all();
    let mut listed: Vec<ListedRule> = Vec::new();
    let mut add = |rule: &Rule, source, idle| {
        let rule = ListedRule { id: id(rule, source), rule: rule.clone(), source, idle };
        if !listed.iter().any(|known| known.id == rule.id) {
            listed.push(rule);
        }
    };
    config.option_rules.iter().for_each(|rule| add(rule, RuleSource::Option, None));
    config.rules.iter().for_each(|rule| add(rule, RuleSource::Configuration, None));
    let kept = services.kept_rules.of(cwd);
    for (rule, is_used) in &kept {
        let holds = *is_used || answered.contains(rule);
        add(rule, RuleSource::Kept, (!holds).then_some(TOO_WIDE));
    }
    let only_here = answered.iter().filter(|rule| !kept.iter().any(|(other, _)| other == *rule));
    only_here.for_each(|rule| add(rule, RuleSource::Session, None));
    listed
}

/// Takes a rule back that came from an answer.
///
/// # Errors
/// If there is no such rule, it is the configuration's, or the system refuses.
pub(super) fn take_back(services: &Services, session: &Handle, id: &str) -> Result<(), ApiError> {
    let listed = listed(services, session).into_iter().find(|rule| rule.id == id);
    let ListedRule { rule, source, .. } = listed.ok_or_else(|| ApiError::not_found("rule", id))?;
    let facts = session.snapshot().facts.clone();
    let cwd = Path::new(&*facts.cwd);
    match source {
        RuleSource::Configuration => {
            let expected = "a rule from an answer; this one stands in a file of the configuration";
            return Err(ApiError::invalid_param("rule-id", expected));
        }
        RuleSource::Option => {
            let expected = "a rule from an answer; this one is an option of the command and ends with it";
            return Err(ApiError::invalid_param("rule-id", expected));
        }
        RuleSource::Kept => {
            let taken = services.kept_rules.take_out(&rule, cwd);
            taken.map_err(|error| ApiError::failed(format!("The rule cannot be taken back: {error}.")))?;
        }
        RuleSource::Session => {}
    }
    session.rules.remove(&rule);
    Ok(())
}

/// The name of a rule of a source.
fn id(rule: &Rule, source: RuleSource) -> String {
    let mut text = source.as_str().as_bytes().to_vec();
    edn::write_canonical(&rule.to_value(), &mut text);
    let mut id = sha256::hex(&text);
    id.truncate(16);
    format!("r-{id}")
}
