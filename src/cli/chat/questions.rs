//! Asks the person at the terminal what the engine asks: approvals with their diffs, choices, texts. Decides nothing.

use std::io::Write as _;

use edn_bridge::engine::Engine;
use edn_bridge::event::QuestionAsked;
use edn_bridge::event::question::{Approval, QuestionContent};
use edn_bridge::message::SessionId;
use edn_bridge::session::{AnswerFields, Questions as _, Reply, Response};

use crate::cli::prompt::call;
use crate::cli::style::{Meaning, Painter};

/// Lines of a diff that are shown.
const DIFF_LINES: usize = 200;

/// A line from the terminal; `None` at its end.
fn line(painter: Painter, question: &str) -> Option<String> {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{} ", painter.paint(Meaning::Heading, question));
    let _ = out.flush();
    drop(out);
    let mut text = String::new();
    match std::io::stdin().read_line(&mut text) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(text.trim().to_owned()),
    }
}

fn show(painter: Painter, meaning: Meaning, text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", painter.paint(meaning, text));
}

/// Lets the person pick one of several by its number; `None` for none.
pub(super) fn pick(question: &str, labels: &[&str], painter: Painter) -> Option<usize> {
    for (at, label) in labels.iter().enumerate() {
        show(painter, Meaning::Name, &format!("{:>3}  {label}", at.saturating_add(1)));
    }
    let number: usize = line(painter, &format!("{question} (a number, or nothing)"))?.parse().ok()?;
    number.checked_sub(1).filter(|at| *at < labels.len())
}

/// Asks the question and passes the answer on.
pub(super) fn answer(engine: &Engine, session: &SessionId, asked: &QuestionAsked, painter: Painter) {
    for warning in asked.warnings.iter() {
        show(painter, Meaning::Bad, warning);
    }
    let (answer, note) = match &*asked.content {
        QuestionContent::Approve(approval) => approve(approval, painter),
        QuestionContent::Ask { prompt } => (text(line(painter, prompt)), None),
        QuestionContent::Confirm { prompt, default } => {
            let usual = if *default { "[Y/n]" } else { "[y/N]" };
            let ok = line(painter, &format!("{prompt} {usual}")).map(|said| match said.as_str() {
                "" => *default,
                said => is_yes(said),
            });
            (ok.map(|ok| AnswerFields { ok: Some(ok), ..AnswerFields::default() }), None)
        }
        QuestionContent::Select { prompt, options } => {
            let labels: Vec<&str> = options.iter().map(String::as_str).collect();
            let index = pick(prompt, &labels, painter);
            (index.map(|index| AnswerFields { index: Some(index), ..AnswerFields::default() }), None)
        }
        QuestionContent::GrantStageTool(request) => {
            show(painter, Meaning::Name, &format!("{}: {}", request.tool, request.args_summary));
            outcome(line(painter, &format!("{} Allow it once? [y/N]", request.reason)))
        }
        QuestionContent::ApproveSubagentEnvelope(request) => {
            show(painter, Meaning::Name, &request.task_summary);
            let tools = request.tools.join(", ");
            let who = request.agent.as_ref().map(|agent| format!("the agent {agent}"));
            let who = who.unwrap_or_else(|| "a subagent".to_owned());
            outcome(line(painter, &format!("Start {who} for this, with {tools}? [y/N]")))
        }
        QuestionContent::DeviceCode { .. } | QuestionContent::Password { .. } => {
            show(painter, Meaning::Note, "A login is asked for: run edn-bridge login in another terminal.");
            (None, None)
        }
    };
    let response = Response {
        interaction_id: asked.id.to_string(),
        accepted: answer.is_some(),
        answer: answer.unwrap_or_default(),
        note,
    };
    engine.respond(call(session), response, Reply::new(|_| {}));
}

type Said = (Option<AnswerFields>, Option<String>);

fn text(said: Option<String>) -> Option<AnswerFields> {
    said.map(|said| AnswerFields { text: Some(said), ..AnswerFields::default() })
}

fn is_yes(said: &str) -> bool {
    matches!(said.to_lowercase().as_str(), "y" | "yes")
}

fn outcome(said: Option<String>) -> Said {
    let outcome = if said.is_some_and(|said| is_yes(&said)) { "approve" } else { "deny" };
    (Some(AnswerFields { outcome: Some(outcome.to_owned()), ..AnswerFields::default() }), None)
}

/// Shows a call with its diff, and asks how far it is allowed.
fn approve(approval: &Approval, painter: Painter) -> Said {
    show(painter, Meaning::Name, &format!("{}: {}", approval.tool, approval.summary));
    if let Some(command) = &approval.command {
        command.lines().for_each(|line| show(painter, Meaning::Heading, &format!("  $ {line}")));
    }
    if let Some(diff) = &approval.diff {
        for line in diff.text.lines().take(DIFF_LINES) {
            let meaning = match line.chars().next() {
                Some('+') => Meaning::Well,
                Some('-') => Meaning::Bad,
                Some('@') => Meaning::Note,
                _ => Meaning::Faint,
            };
            show(painter, meaning, line);
        }
        if diff.cut.is_some() || diff.text.lines().count() > DIFF_LINES {
            show(painter, Meaning::Note, "(the change goes on)");
        }
    }
    let always = match &approval.suggested_rule {
        Some(rule) => {
            show(painter, Meaning::Faint, &format!("always would allow: {}", rule.text()));
            ", [a]lways"
        }
        None => "",
    };
    let question = format!("Allow it? [y]es, for this [s]ession{always}, [n]o and why:");
    loop {
        let Some(said) = line(painter, &question) else { return (None, None) };
        let approve = |scope: &str| AnswerFields {
            outcome: Some("approve".to_owned()),
            scope: Some(scope.to_owned()),
            ..AnswerFields::default()
        };
        match said.to_lowercase().as_str() {
            "y" | "yes" => return (Some(approve("once")), None),
            "s" | "session" => return (Some(approve("session")), None),
            "a" | "always" if approval.suggested_rule.is_some() => return (Some(approve("rule")), None),
            "" | "a" | "always" => {}
            other => {
                let why = other.strip_prefix("no").or_else(|| other.strip_prefix('n')).map(|_| {
                    let cut = if other.starts_with("no") { 2 } else { 1 };
                    said.get(cut..).unwrap_or_default().trim_start_matches([' ', ',', ':']).to_owned()
                });
                let Some(why) = why else { continue };
                let denied = AnswerFields { outcome: Some("deny".to_owned()), ..AnswerFields::default() };
                return (Some(denied), Some(why).filter(|why| !why.is_empty()));
            }
        }
    }
}
