//! `:psi.prompt-part/*`, `:psi.skill/*` and `:psi.rule/*`: a session's system prompt and the permissions of
//! its tools. Does not read the files that these come from.

use crate::context::Problem;
use crate::context::skill::Skill;
use crate::message::count;
use crate::query::graph::Resolver;
use crate::query::plan::Cost;
use crate::query::table::{join, out, table, text};
use crate::query::world::PromptPart;
use crate::tool::permission::Rule;
use crate::value::{Map, Value};

table! {
    PROMPT_PART of PromptPart {
        "psi.prompt-part/kind" "Its kind: :base, :tools, :instructions, :skills, :memory or :servers." => |part| Value::keyword(part.kind);
        "psi.prompt-part/source" "Its source: a file's path, `edn-bridge`, or `mcp:` and a server." => |part| text(&part.source);
        "psi.prompt-part/bytes" "Its size in bytes." => |part| part.text.len();
        "psi.prompt-part/tokens" "Its size in tokens, by the rule of thumb that a token is four bytes."
            => |part| count(u64::try_from(part.text.len().div_ceil(4)).unwrap_or(u64::MAX));
        "psi.prompt-part/cut" "Whether it was cut for lack of room." => |part| part.cut;
        "psi.prompt-part/modified-ms" "When its file was changed last, in milliseconds since the epoch; nil for none."
            => |part| modified(std::path::Path::new(&part.source));
        "psi.prompt-part/text" "Its text in the prompt." => |part| text(&part.text);
    }
}

table! {
    SKILL of Skill {
        "psi.skill/name" "The skill's name." => |skill| text(&skill.name);
        "psi.skill/description" "What it does, and when to use it." => |skill| text(&skill.description);
        "psi.skill/path" "Its SKILL.md." => |skill| text(&skill.path.to_string_lossy());
        "psi.skill/folder" "Its folder." => |skill| text(&skill.folder.to_string_lossy());
        "psi.skill/modified-ms" "When its SKILL.md was changed last, in milliseconds since the epoch; nil for a lost one."
            => |skill| modified(&skill.path);
        "psi.skill/scope" "Its owner: user or project." => |skill| skill.scope.as_str();
        "psi.skill/for-model" "Whether the prompt names it to the model." => |skill| skill.for_model;
    }
}

table! {
    RULE of (Rule, &'static str) {
        "psi.rule/decision" "Its decision: :allow, :ask or :deny." => |(rule, _)| Value::keyword(rule.decision.as_str());
        "psi.rule/tool" "Its tool, or nil for any." => |(rule, _)| rule.tool.clone();
        "psi.rule/path" "Its paths, as a glob, or nil for any." => |(rule, _)| rule.path.clone();
        "psi.rule/command" "The first words of its commands, or nil for any." => |(rule, _)| rule.command.clone();
        "psi.rule/exact" "Whether the words are the whole command." => |(rule, _)| rule.exact;
        "psi.rule/source" "Its source: :configured (including kept rules), or :answered (for this session only)."
            => |(_, source)| Value::keyword(*source);
    }
}

/// When a file was changed last, in milliseconds since the epoch.
fn modified(path: &std::path::Path) -> Option<i64> {
    let at = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.modified().ok()?;
    jiff::Timestamp::try_from(at).ok().map(|at| at.as_millisecond())
}

pub(super) const PART: &[Resolver] = &[
    Resolver::session(
        "psi.agent-session/prompt-parts",
        &[join(
            "psi.agent-session/prompt-parts",
            "The parts of the system prompt, in order.",
            PROMPT_PART.outputs,
        )],
        |_, session| PROMPT_PART.list("psi.agent-session/prompt-parts", &session.prompt_parts()),
    )
    .costing(Cost::Slow),
    Resolver::session(
        "psi.agent-session/skills",
        &[join("psi.agent-session/skills", "The skills of the project and the user.", SKILL.outputs)],
        |_, session| SKILL.list("psi.agent-session/skills", session.project().skills.values()),
    )
    .costing(Cost::Slow),
    Resolver::session(
        "psi.agent-session/rules",
        &[join(
            "psi.agent-session/rules",
            "The permission rules: those of the configuration, then those from answers.",
            RULE.outputs,
        )],
        |_, session| RULE.list("psi.agent-session/rules", &session.rules()),
    ),
    Resolver::session(
        "psi.agent-session/context-problems",
        &[out("psi.agent-session/context-problems", "The files that cannot be used: {:path :message}.")],
        |_, session| {
            let problem = |problem: &Problem| {
                let path = problem.path.to_string_lossy().into_owned();
                Value::from(Map::new().with("path", path).with("message", problem.message.clone()))
            };
            let problems = Value::vector(session.project().problems.iter().map(problem));
            Ok(vec![("psi.agent-session/context-problems", problems.into())])
        },
    )
    .costing(Cost::Slow),
];
