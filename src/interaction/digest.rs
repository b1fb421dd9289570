//! The digest of what a question asks: an answer counts for that, and for nothing else. Knows no session.

use super::grant;
use crate::event::question::{Approval, QuestionContent};
use crate::facts::rule::Rule;
use crate::value::{Map, Value};

/// The digest of a question. Names that are made anew each time it is asked, such as those of kept texts and of
/// subagents, are no part of it.
pub fn of(content: &QuestionContent) -> String {
    let map = Map::new().with("kind", content.kind().as_str());
    let map = match content {
        QuestionContent::Ask { prompt } | QuestionContent::Password { prompt } => {
            map.with("prompt", prompt.clone())
        }
        QuestionContent::Confirm { prompt, default } => {
            map.with("prompt", prompt.clone()).with("default", *default)
        }
        QuestionContent::Select { prompt, options } => {
            map.with("prompt", prompt.clone()).with("options", Value::vector(options.iter().cloned()))
        }
        QuestionContent::DeviceCode { provider, url, code, .. } => {
            map.with("provider", provider.clone()).with("url", url.clone()).with("code", code.clone())
        }
        QuestionContent::Approve(approval) => approve(map, approval),
        QuestionContent::GrantStageTool(request) => map
            .with("stage", request.stage_execution.clone())
            .with("attempt", i64::from(request.attempt))
            .with("tool", request.tool.to_string())
            .with("arguments", request.args_digest.clone()),
        QuestionContent::ApproveSubagentEnvelope(request) => map
            .with("parent", request.parent.to_value())
            .with("depth", i64::from(request.depth))
            .with("tools", Value::vector(request.tools.iter().cloned()))
            .with("task", request.task_summary.clone())
            .with("provider", request.model.0.to_string())
            .with("model", request.model.1.to_string())
            .with("agent", Value::from(request.agent.as_deref().map(str::to_owned))),
    };
    grant::digest(&Value::from(map))
}

fn approve(mut map: Map<'static>, approval: &Approval) -> Map<'static> {
    map.put("tool", approval.tool.to_string());
    map.put("call", approval.call.to_string());
    map.put("summary", approval.summary.to_string());
    map.put_some("command", approval.command.clone());
    map.put_some("path", approval.path.clone());
    if let Some(diff) = &approval.diff {
        map.put("diff", diff.text.clone());
    }
    if let Some(proposal) = &approval.proposal {
        map.put("text", proposal.text.to_string());
        map.put_some("base", proposal.base.clone());
    }
    map.put_some("rule", approval.suggested_rule.as_ref().map(Rule::to_value));
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::question::{CutDiff, ProposedText, ShownDiff};

    fn approval(text: &str, base: &str, handle: &str) -> QuestionContent {
        let cut = CutDiff { size: 9, handle: Some(handle.to_owned()) };
        QuestionContent::Approve(Approval {
            path: Some("/a".to_owned()),
            diff: Some(ShownDiff { text: "+".to_owned(), cut: Some(cut) }),
            proposal: Some(ProposedText {
                old: None,
                text: text.into(),
                base: Some(base.to_owned()),
                handle: Some(handle.to_owned()),
            }),
            ..Approval::default()
        })
    }

    #[test]
    fn digest_follows_the_change_and_not_the_names() {
        let first = of(&approval("x", "b", "o-1"));
        assert_eq!(first, of(&approval("x", "b", "o-2")));
        assert_ne!(first, of(&approval("y", "b", "o-1")));
        assert_ne!(first, of(&approval("x", "c", "o-1")));
        assert_ne!(first, of(&QuestionContent::Ask { prompt: String::new() }));
    }
}
