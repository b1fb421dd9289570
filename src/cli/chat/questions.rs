//! Asks the person at the terminal what the engine asks: approvals with their diffs, choices, texts. Decides nothing.

use std::io::Write as _;

use edn_bridge::client::frame;
use edn_bridge::facts::rule::Rule;
use edn_bridge::value::{Map, Owned, Value};

use crate::cli::prompt::console::Console;
use crate::cli::style::{Meaning, Painter};
use crate::cli::typed::TypedLine;

/// Lines of a diff that are shown.
const DIFF_LINES: usize = 200;

/// The terminal with the person who is asked.
#[derive(Clone, Copy)]
pub(super) struct Asker<'c> {
    pub(super) console: &'c Console,
    pub(super) painter: Painter,
}

impl Asker<'_> {
    /// A line from the terminal about a question that is drawn with this; `None` at its end, or after C-c. What was typed
    /// before is the beginning of the next message. The colon shows that an answer is read.
    fn line(self, question: &str) -> Option<String> {
        self.draw(question);
        if self.console.put_aside() {
            let _ = writeln!(std::io::stdout().lock());
            self.show(Meaning::Note, "What you typed before the question is kept for your next message.");
            self.draw(question);
        }
        self.read(question)
    }

    /// Another line, after one that does not answer the question.
    fn line_again(self, question: &str) -> Option<String> {
        self.draw(question);
        self.read(question)
    }

    fn draw(self, question: &str) {
        let mut out = std::io::stdout().lock();
        let _ = write!(out, "{}", self.painter.paint(Meaning::Heading, question));
        let _ = out.flush();
    }

    /// A line that was begun before the question is no answer, whenever it is ended.
    fn read(self, question: &str) -> Option<String> {
        loop {
            let mut out = std::io::stdout().lock();
            let _ = write!(out, ": ");
            let _ = out.flush();
            drop(out);
            match self.console.line() {
                Some(TypedLine::Answer(line)) => return Some(line),
                Some(TypedLine::Older) => {
                    let told = "That ends the line that you began before the question; it is kept for your next \
                                message. The question is still open.";
                    self.show(Meaning::Note, told);
                    self.draw(question);
                }
                None => {
                    // The cursor stands behind the question.
                    let _ = writeln!(std::io::stdout().lock());
                    return None;
                }
            }
        }
    }

    fn show(self, meaning: Meaning, text: &str) {
        let _ = writeln!(std::io::stdout().lock(), "{}", self.painter.paint(meaning, text));
    }

    /// Lets the person pick one of several by its number; `None` for none.
    pub(super) fn pick(self, question: &str, labels: &[&str]) -> Option<usize> {
        for (at, label) in labels.iter().enumerate() {
            self.show(Meaning::Name, &format!("{:>3}  {label}", at.saturating_add(1)));
        }
        let question = format!("{question} (a number, or nothing)");
        let mut said = self.line(&question)?;
        loop {
            let number = said.parse().ok().and_then(|number: usize| number.checked_sub(1));
            match number.filter(|at| *at < labels.len()) {
                None if said.is_empty() => return None,
                None => self.show(Meaning::Note, &format!("Not one of 1 to {}: {said}", labels.len())),
                picked => return picked,
            }
            said = self.line_again(&question)?;
        }
    }

    /// Asks the question of an `interaction/requested` and passes the answer on. After C-c, which ends the turn with its
    /// questions, there is none.
    pub(super) fn answer(self, asked: &Owned) {
        let payload = asked.get("payload").unwrap_or(&Value::Nil);
        let text = |key| frame::text(payload, key);
        for warning in texts(payload, "warnings") {
            self.show(Meaning::Bad, warning);
        }
        let (answer, note) = match frame::text(asked, "kind") {
            "approve" => self.approve(payload),
            "ask" => (self.line(text("prompt")).map(|said| Map::new().with("text", said)), None),
            "confirm" => {
                let usual = payload.get("default").and_then(Value::as_bool).unwrap_or(false);
                let choices = if usual { "[Y/n]" } else { "[y/N]" };
                let ok =
                    self.line(&format!("{} {choices}", text("prompt"))).map(|said| match said.as_str() {
                        "" => usual,
                        said => is_yes(said),
                    });
                (ok.map(|ok| Map::new().with("ok", ok)), None)
            }
            "select" => {
                let options = payload.get("options").and_then(Value::as_slice).unwrap_or_default();
                let labels: Vec<&str> = options.iter().map(|option| frame::text(option, "label")).collect();
                let index = self.pick(text("prompt"), &labels).and_then(|index| i64::try_from(index).ok());
                (index.map(|index| Map::new().with("index", index)), None)
            }
            "grant-stage-tool" => {
                self.show(Meaning::Name, &format!("{}: {}", text("tool"), text("args-summary")));
                outcome(self.line(&format!("{} Allow it once? [y/N]", text("reason"))))
            }
            "approve-subagent-envelope" => {
                self.show(Meaning::Name, text("prompt-summary"));
                let tools: Vec<&str> = texts(payload, "requested-envelope").collect();
                let who = match text("agent") {
                    "" => "a subagent".to_owned(),
                    agent => format!("the agent {agent}"),
                };
                outcome(self.line(&format!("Start {who} for this, with {}? [y/N]", tools.join(", "))))
            }
            kind => {
                let (told, is_cancelled) = not_asked(kind);
                self.show(Meaning::Note, &told);
                if !is_cancelled {
                    return;
                }
                (None, None)
            }
        };
        if answer.is_none() && self.console.is_interrupted() {
            return self.show(Meaning::Note, "Not answered: the turn ends.");
        }
        let mut response = Map::new().with("interaction-id", frame::text(asked, "interaction-id").to_owned());
        response.put("status", if answer.is_some() { "accepted" } else { "cancelled" });
        response.put_some("value", answer);
        response.put_some("note", note);
        if let Err(refused) = self.console.ask("interaction_respond", response) {
            self.show(Meaning::Bad, &format!("The answer was not taken: {refused}"));
        }
    }

    /// Shows a call with its diff, and asks how far it is allowed.
    fn approve(self, approval: &Value<'_>) -> Said {
        let text = |key| frame::text(approval, key);
        self.show(Meaning::Name, &format!("{}: {}", text("tool"), text("call-summary")));
        text("command").lines().for_each(|line| self.show(Meaning::Heading, &format!("  $ {line}")));
        let diff = text("diff");
        if !diff.is_empty() {
            for line in diff.lines().take(DIFF_LINES) {
                let meaning = match line.chars().next() {
                    Some('+') => Meaning::Well,
                    Some('-') => Meaning::Bad,
                    Some('@') => Meaning::Note,
                    _ => Meaning::Faint,
                };
                self.show(meaning, line);
            }
            if approval.get("diff-size").is_some() || diff.lines().count() > DIFF_LINES {
                self.show(Meaning::Note, "(the change goes on)");
            }
        }
        let rule = approval.get("suggested-rule").and_then(|rule| Rule::from_value(rule).ok());
        let always = match &rule {
            Some(rule) => {
                self.show(Meaning::Faint, &format!("always makes the rule: {}", rule.text()));
                ", [a]lways"
            }
            None => "",
        };
        let question = format!("Allow it? [y]es, for this [s]ession{always}, [n]o and why");
        let mut line = self.line(&question);
        loop {
            let Some(said) = line else { return (None, None) };
            let approve = |scope: &'static str| Map::new().with("outcome", "approve").with("scope", scope);
            match said.to_lowercase().as_str() {
                "y" | "yes" => return (Some(approve("once")), None),
                "s" | "session" => return (Some(approve("session")), None),
                "a" | "always" if rule.is_some() => return (Some(approve("rule")), None),
                other if other.starts_with('n') => {
                    let why = reason(&said).to_owned();
                    return (
                        Some(Map::new().with("outcome", "deny")),
                        Some(why).filter(|why| !why.is_empty()),
                    );
                }
                _ => line = self.line_again(&question),
            }
        }
    }
}

/// What is said of a question that is not asked here, and whether it is cancelled. One that only a newer bridge knows is
/// left to a client that knows it too.
fn not_asked(kind: &str) -> (String, bool) {
    match kind {
        "auth.device-code" | "auth.password" => {
            ("A login is asked for: run edn-bridge login in another terminal.".to_owned(), true)
        }
        _ => {
            let told = "This program cannot ask a question of the kind";
            (format!("{told} {kind}: answer it in another client, or end the turn with C-c."), false)
        }
    }
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
    let outcome = |said: String| if is_yes(&said) { "approve" } else { "deny" };
    (said.map(|said| Map::new().with("outcome", outcome(said))), None)
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
    use edn_bridge::event::question::QuestionKind;

    use super::*;

    #[test]
    fn only_logins_are_cancelled_unasked() {
        for kind in [QuestionKind::DeviceCode, QuestionKind::Password] {
            let (told, is_cancelled) = not_asked(kind.as_str());
            assert!(is_cancelled && told.contains("edn-bridge login"), "{told}");
        }
        let (told, is_cancelled) = not_asked("approve-trip");
        assert!(!is_cancelled && told.contains("approve-trip") && !told.contains("login"), "{told}");
    }

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
