//! Asks the person at the terminal what the engine asks: approvals with their diffs, choices, texts. Decides nothing.

use std::io::Write as _;

use edn_bridge::client::frame;
use edn_bridge::facts::rule::Rule;
use edn_bridge::value::{Map, Owned, Value};

use crate::cli::prompt::console::Console;
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

/// Asks the question of an `interaction/requested` and passes the answer on.
pub(super) fn answer(console: &Console, asked: &Owned, painter: Painter) {
    let payload = asked.get("payload").unwrap_or(&Value::Nil);
    let text = |key| frame::text(payload, key);
    for warning in texts(payload, "warnings") {
        show(painter, Meaning::Bad, warning);
    }
    let (answer, note) = match frame::text(asked, "kind") {
        "approve" => approve(payload, painter),
        "ask" => (line(painter, text("prompt")).map(|said| Map::new().with("text", said)), None),
        "confirm" => {
            let usual = payload.get("default").and_then(Value::as_bool).unwrap_or(false);
            let choices = if usual { "[Y/n]" } else { "[y/N]" };
            let ok =
                line(painter, &format!("{} {choices}", text("prompt"))).map(|said| match said.as_str() {
                    "" => usual,
                    said => is_yes(said),
                });
            (ok.map(|ok| Map::new().with("ok", ok)), None)
        }
        "select" => {
            let options = payload.get("options").and_then(Value::as_slice).unwrap_or_default();
            let labels: Vec<&str> = options.iter().map(|option| frame::text(option, "label")).collect();
            let index = pick(text("prompt"), &labels, painter).and_then(|index| i64::try_from(index).ok());
            (index.map(|index| Map::new().with("index", index)), None)
        }
        "grant-stage-tool" => {
            show(painter, Meaning::Name, &format!("{}: {}", text("tool"), text("args-summary")));
            outcome(line(painter, &format!("{} Allow it once? [y/N]", text("reason"))))
        }
        "approve-subagent-envelope" => {
            show(painter, Meaning::Name, text("prompt-summary"));
            let tools: Vec<&str> = texts(payload, "requested-envelope").collect();
            let who = match text("agent") {
                "" => "a subagent".to_owned(),
                agent => format!("the agent {agent}"),
            };
            outcome(line(painter, &format!("Start {who} for this, with {}? [y/N]", tools.join(", "))))
        }
        // A login, or a kind that a newer bridge knows.
        _ => {
            show(painter, Meaning::Note, "A login is asked for: run edn-bridge login in another terminal.");
            (None, None)
        }
    };
    let mut response = Map::new().with("interaction-id", frame::text(asked, "interaction-id").to_owned());
    response.put("status", if answer.is_some() { "accepted" } else { "cancelled" });
    response.put_some("value", answer);
    response.put_some("note", note);
    console.tell("interaction_respond", response);
}

/// The texts of a vector.
fn texts<'v>(value: &'v Value<'_>, key: &str) -> impl Iterator<Item = &'v str> {
    value.get(key).and_then(Value::as_slice).unwrap_or_default().iter().filter_map(Value::as_str)
}

type Said = (Option<Map<'static>>, Option<String>);

fn is_yes(said: &str) -> bool {
    matches!(said.to_lowercase().as_str(), "y" | "yes")
}

fn outcome(said: Option<String>) -> Said {
    let outcome = if said.is_some_and(|said| is_yes(&said)) { "approve" } else { "deny" };
    (Some(Map::new().with("outcome", outcome)), None)
}

/// Shows a call with its diff, and asks how far it is allowed.
fn approve(approval: &Value<'_>, painter: Painter) -> Said {
    let text = |key| frame::text(approval, key);
    show(painter, Meaning::Name, &format!("{}: {}", text("tool"), text("call-summary")));
    text("command").lines().for_each(|line| show(painter, Meaning::Heading, &format!("  $ {line}")));
    let diff = text("diff");
    if !diff.is_empty() {
        for line in diff.lines().take(DIFF_LINES) {
            let meaning = match line.chars().next() {
                Some('+') => Meaning::Well,
                Some('-') => Meaning::Bad,
                Some('@') => Meaning::Note,
                _ => Meaning::Faint,
            };
            show(painter, meaning, line);
        }
        if approval.get("diff-size").is_some() || diff.lines().count() > DIFF_LINES {
            show(painter, Meaning::Note, "(the change goes on)");
        }
    }
    let rule = approval.get("suggested-rule").and_then(|rule| Rule::from_value(rule).ok());
    let always = match &rule {
        Some(rule) => {
            show(painter, Meaning::Faint, &format!("always would allow: {}", rule.text()));
            ", [a]lways"
        }
        None => "",
    };
    let question = format!("Allow it? [y]es, for this [s]ession{always}, [n]o and why:");
    loop {
        let Some(said) = line(painter, &question) else { return (None, None) };
        let approve = |scope: &'static str| Map::new().with("outcome", "approve").with("scope", scope);
        match said.to_lowercase().as_str() {
            "y" | "yes" => return (Some(approve("once")), None),
            "s" | "session" => return (Some(approve("session")), None),
            "a" | "always" if rule.is_some() => return (Some(approve("rule")), None),
            "" | "a" | "always" => {}
            other => {
                if !other.starts_with('n') {
                    continue;
                }
                let why = reason(&said).to_owned();
                return (Some(Map::new().with("outcome", "deny")), Some(why).filter(|why| !why.is_empty()));
            }
        }
    }
}

/// Why a person refuses: what comes after "n" or "no", or all of it where that is the beginning of another word.
fn reason(said: &str) -> &str {
    let words = said.trim();
    let first = words.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    if !["n", "no"].contains(&first.to_lowercase().as_str()) {
        return words;
    }
    words.get(first.len()..).unwrap_or_default().trim_start_matches([' ', ',', ':', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_whole_words() {
        for (said, why) in [
            ("n", ""),
            ("No", ""),
            ("no, use the other file", "use the other file"),
            ("n: later", "later"),
            ("not now, it is late", "not now, it is late"),
            ("never", "never"),
            ("nö", "nö"),
        ] {
            assert_eq!(reason(said), why, "{said}");
        }
    }
}
