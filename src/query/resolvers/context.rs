//! `:psi.prompt-part/*`, `:psi.skill/*` and `:psi.rule/*`: what a session's model is told beside the conversation,
//! and what its tools may do.

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
        ("psi.agent-session/context-problems", "What was found and cannot be used: {:path :message}."),
        (
            "psi.agent-session/rules",
            "What tools may do without asking, and what never: the configuration's rules, then those that answers made.",
        ),
        ("psi.rule/decision", "What it says: :allow, :ask or :deny."),
        ("psi.rule/tool", "The tool that it is about, or nil for any."),
        ("psi.rule/path", "The paths that it is about, as a glob, or nil for any."),
        ("psi.rule/command", "The words that the commands begin with that it is about, or nil for any."),
        ("psi.rule/exact", "Whether these are the whole command."),
        (
            "psi.rule/source",
            "Where it comes from: :configured, with rules that were kept, or :answered for this session alone.",
        ),
        ("psi.prompt-part/kind", "What it is: :base, :tools, :instructions, :skills or :memory."),
        ("psi.prompt-part/source", "Where it comes from: a file's path, or `edn-bridge`."),
        ("psi.prompt-part/bytes", "Its size in bytes."),
        ("psi.prompt-part/tokens", "Its size in tokens, by the rule of thumb that a token is four bytes."),
        ("psi.prompt-part/cut", "Whether something was left out because there was no room."),
        ("psi.prompt-part/text", "What the model is told."),
        ("psi.skill/name", "The skill's name."),
        ("psi.skill/description", "What it does, and when to use it."),
        ("psi.skill/path", "Its SKILL.md."),
        ("psi.skill/scope", "Whose it is: user or project."),
        ("psi.skill/for-model", "Whether the model is told of it."),
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
