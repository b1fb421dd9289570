//! `:psi.prompt-part/*`, `:psi.skill/*` and `:psi.rule/*`: a session's system prompt and the permissions of
//! its tools.

use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::{join, out};
use crate::value::Value;

/// The keys of a part.
const PARTS: &[&str] = &[
    "psi.prompt-part/kind",
    "psi.prompt-part/source",
    "psi.prompt-part/bytes",
    "psi.prompt-part/tokens",
    "psi.prompt-part/cut",
    "psi.prompt-part/text",
];

/// The keys of a skill.
const SKILLS: &[&str] =
    &["psi.skill/name", "psi.skill/description", "psi.skill/path", "psi.skill/scope", "psi.skill/for-model"];

/// The keys of a rule.
const RULES: &[&str] = &[
    "psi.rule/decision",
    "psi.rule/tool",
    "psi.rule/path",
    "psi.rule/command",
    "psi.rule/exact",
    "psi.rule/source",
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.agent-session/prompt-parts", "The parts of the system prompt, in order."),
        ("psi.agent-session/skills", "The skills of the project and the user."),
        ("psi.agent-session/context-problems", "The files that cannot be used: {:path :message}."),
        (
            "psi.agent-session/rules",
            "The permission rules: those of the configuration, then those from answers.",
        ),
        ("psi.rule/decision", "Its decision: :allow, :ask or :deny."),
        ("psi.rule/tool", "Its tool, or nil for any."),
        ("psi.rule/path", "Its paths, as a glob, or nil for any."),
        ("psi.rule/command", "The first words of its commands, or nil for any."),
        ("psi.rule/exact", "Whether the words are the whole command."),
        (
            "psi.rule/source",
            "Its source: :configured (including kept rules), or :answered (for this session only).",
        ),
        ("psi.prompt-part/kind", "Its kind: :base, :tools, :instructions, :skills or :memory."),
        ("psi.prompt-part/source", "Its source: a file's path, or `edn-bridge`."),
        ("psi.prompt-part/bytes", "Its size in bytes."),
        ("psi.prompt-part/tokens", "Its size in tokens, by the rule of thumb that a token is four bytes."),
        ("psi.prompt-part/cut", "Whether it was cut for lack of room."),
        ("psi.prompt-part/text", "Its text in the prompt."),
        ("psi.skill/name", "The skill's name."),
        ("psi.skill/description", "What it does, and when to use it."),
        ("psi.skill/path", "Its SKILL.md."),
        ("psi.skill/scope", "Its owner: user or project."),
        ("psi.skill/for-model", "Whether the prompt names it to the model."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.agent-session/prompt-parts",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/prompt-parts", PARTS)],
            cost: Cost::Slow,
            run: Run::One(parts),
        },
        Resolver {
            name: "psi.agent-session/skills",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/skills", SKILLS)],
            cost: Cost::Slow,
            run: Run::One(skills),
        },
        Resolver {
            name: "psi.agent-session/rules",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/rules", RULES)],
            cost: Cost::Ready,
            run: Run::One(rules),
        },
        Resolver {
            name: "psi.agent-session/context-problems",
            input: &[Input::Required(SESSION)],
            output: &[out("psi.agent-session/context-problems")],
            cost: Cost::Slow,
            run: Run::One(problems),
        },
    ],
    mutations: &[],
};

fn parts(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    Ok(vec![("psi.agent-session/prompt-parts", Value::vector(session.prompt_parts()).into())])
}

fn skills(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    Ok(vec![("psi.agent-session/skills", Value::vector(session.skills()).into())])
}

fn rules(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    Ok(vec![("psi.agent-session/rules", Value::vector(session.rules()).into())])
}

fn problems(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    Ok(vec![("psi.agent-session/context-problems", Value::vector(session.context_problems()).into())])
}
