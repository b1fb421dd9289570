//! What a server asks in the course of a call, and the answers.
//!
//! One shape for both eras: a request of the server during the call, and a result that says which input is required.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::value::{Map, Value};

/// Answers what a server asks. A call brings the one of its session.
pub trait Answerer: Send + Sync {
    /// Answers a question. Dropped when the call ends before it: then nobody waits for the answer.
    fn ask(&self, ask: Ask) -> Answering<'_>;
}

/// Says no to everything: for what nobody waits for.
pub struct Declines;

impl Answerer for Declines {
    fn ask(&self, _: Ask) -> Answering<'_> {
        Box::pin(async { ElicitReply::Declined })
    }
}

/// An answer under way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = ElicitReply> + Send + 'a>>;

/// A question of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The server, by its name in the configuration.
    pub server: Arc<str>,
    /// What is under way there: the name of a tool, a prompt or the address of a resource.
    pub subject: Arc<str>,
    /// The id of the tool call that it belongs to, as the model gave it.
    pub call: Option<Arc<str>>,
    /// What it asks.
    pub question: Question,
}

/// What a server asks. Every text is the server's: data, bounded.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// A form: what it is for, and its fields in order. Never for passwords: those that a server wants go over a page.
    Form {
        /// What it is for.
        message: Arc<str>,
        /// The fields, at most 32. Without any it asks for nothing but consent.
        fields: Vec<Field>,
    },
    /// Whether the person opens a page. The answer says nothing of what happened there.
    Page {
        /// What it is for.
        message: Arc<str>,
        /// The whole address, `http` or `https`.
        url: Arc<str>,
        /// Whether the server answers only once the person has been there: after a yes it is asked again.
        is_first: bool,
    },
    /// An answer of the session's model, without tools. Only of servers with `:sampling true`, and to be approved each
    /// time.
    Sample(Sampling),
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its key in the answer.
    pub key: Arc<str>,
    /// Its title for people; the key without one.
    pub title: Arc<str>,
    /// What it means.
    pub description: Option<Arc<str>>,
    /// Whether it must be given.
    pub required: bool,
    /// What it takes.
    pub kind: FieldKind,
}

/// What a field takes.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// Text.
    Text {
        /// Its least number of characters.
        least: Option<u64>,
        /// Its greatest number of characters.
        most: Option<u64>,
        /// What it must be.
        format: Option<Format>,
        /// What stands there.
        default: Option<Arc<str>>,
    },
    /// A number.
    Number {
        /// Whether it has no fraction.
        whole: bool,
        /// The least.
        least: Option<f64>,
        /// The greatest.
        most: Option<f64>,
        /// What stands there.
        default: Option<f64>,
    },
    /// Yes or no.
    Switch {
        /// What stands there.
        default: Option<bool>,
    },
    /// One of some, or some of them.
    Choice {
        /// What may be chosen, at most 100.
        options: Vec<Choice>,
        /// Whether several may be.
        many: bool,
        /// The least number, where several may be.
        least: Option<u64>,
        /// The greatest number, where several may be.
        most: Option<u64>,
        /// What is chosen.
        default: Vec<Arc<str>>,
    },
}

/// What may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The value of the answer.
    pub value: Arc<str>,
    /// What a person reads.
    pub title: Arc<str>,
}

/// What a text must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An address of mail.
    Email,
    /// An address of anything.
    Uri,
    /// A day, such as `2026-01-02`.
    Date,
    /// A moment, such as `2026-01-02T03:04:05Z`.
    DateTime,
}

/// A request for an answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// The system prompt that the server wishes.
    pub system: Option<Arc<str>>,
    /// The conversation, oldest first.
    pub messages: Vec<SampleMessage>,
    /// The greatest length of the answer, in tokens.
    pub most_tokens: u32,
}

/// A message of a request for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleMessage {
    /// Whether it is the model's.
    pub by_model: bool,
    /// What it says; images are named only.
    pub text: Arc<str>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitReply {
    /// The values of a form, by the keys of its fields as strings. Checked again before they are sent.
    Form(Map<'static>),
    /// The person opens the page, or agrees to a form without fields.
    Agreed,
    /// The answer of a model.
    Sampled(Sampled),
    /// No: the server is told so.
    Declined,
    /// Nobody answered, or the person went away.
    Cancelled,
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    /// The model, as provider/id.
    pub model: String,
    /// What it says.
    pub text: String,
    /// Whether the answer was cut at its greatest length.
    pub is_cut: bool,
}

impl Field {
    /// A value for the field as it is sent, out of what a person typed or chose: a text, a number, a truth, or a vector
    /// of texts.
    ///
    /// # Errors
    /// What it must be, as the end of a sentence that begins with the field's title.
    pub fn check(&self, value: &Value<'_>) -> Result<Value<'static>, String> {
        let text = || value.as_str().map(str::trim);
        match &self.kind {
            FieldKind::Text { least, most, format, .. } => {
                let text = value.as_str().ok_or("must be a text")?;
                let count = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
                if least.is_some_and(|least| count < least) {
                    return Err(format!("must have at least {} characters", least.unwrap_or_default()));
                }
                if most.is_some_and(|most| count > most) {
                    return Err(format!("must have at most {} characters", most.unwrap_or_default()));
                }
                if let Some(format) = format {
                    format.check(text)?;
                }
                Ok(Value::from(text.to_owned()))
            }
            FieldKind::Number { whole, least, most, .. } => {
                let number = match value {
                    Value::Int(number) => number.to_string().parse::<f64>().ok(),
                    Value::Float(number) => Some(*number),
                    _ => text().and_then(|text| text.parse::<f64>().ok()),
                };
                let kind = if *whole { "must be a whole number" } else { "must be a number" };
                let number = number.filter(|number| number.is_finite()).ok_or(kind)?;
                if *whole && number.fract() != 0.0 {
                    return Err(kind.to_owned());
                }
                if let Some(least) = least.filter(|least| number < *least) {
                    return Err(format!("must be at least {least}"));
                }
                if let Some(most) = most.filter(|most| number > *most) {
                    return Err(format!("must be at most {most}"));
                }
                match whole {
                    true => {
                        format!("{number:.0}").parse::<i64>().map(Value::Int).map_err(|_| kind.to_owned())
                    }
                    false => Ok(Value::Float(number)),
                }
            }
            FieldKind::Switch { .. } => match (value.as_bool(), text()) {
                (Some(truth), _) => Ok(Value::Bool(truth)),
                (None, Some("true" | "yes" | "y")) => Ok(Value::Bool(true)),
                (None, Some("false" | "no" | "n")) => Ok(Value::Bool(false)),
                _ => Err("must be yes or no".to_owned()),
            },
            FieldKind::Choice { options, many, least, most, .. } => {
                let known = |chosen: &Value<'_>| {
                    let chosen = chosen.as_str()?;
                    let named = options.iter().find(|option| *option.value == *chosen);
                    let named = named.or_else(|| options.iter().find(|option| *option.title == *chosen));
                    named.map(|option| Value::from(option.value.to_string()))
                };
                let none = || "must be one of the choices".to_owned();
                if !many {
                    return known(value).ok_or_else(none);
                }
                let chosen = value.as_slice().ok_or("must be a list of choices")?;
                let chosen: Vec<Value<'static>> =
                    chosen.iter().map(|one| known(one).ok_or_else(none)).collect::<Result<_, _>>()?;
                let count = u64::try_from(chosen.len()).unwrap_or(u64::MAX);
                if least.is_some_and(|least| count < least) {
                    return Err(format!("needs at least {} choices", least.unwrap_or_default()));
                }
                if most.is_some_and(|most| count > most) {
                    return Err(format!("takes at most {} choices", most.unwrap_or_default()));
                }
                Ok(Value::vector(chosen))
            }
        }
    }
}

impl Field {
    /// What stands in the field before a person writes into it.
    pub fn default(&self) -> Option<Value<'static>> {
        let text = |text: &Arc<str>| Value::from(text.to_string());
        match &self.kind {
            FieldKind::Text { default, .. } => default.as_ref().map(text),
            FieldKind::Number { default, .. } => default.map(Value::Float),
            FieldKind::Switch { default } => default.map(Value::Bool),
            FieldKind::Choice { many: true, default, .. } if !default.is_empty() => {
                Some(Value::vector(default.iter().map(text)))
            }
            FieldKind::Choice { default, .. } => default.first().map(text),
        }
    }
}

impl Format {
    fn check(self, text: &str) -> Result<(), String> {
        let (fits, what) = match self {
            Self::Email => {
                let parts = text.split_once('@');
                let fits = parts.is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
                (fits && !text.contains(char::is_whitespace), "must be an address of mail")
            }
            Self::Uri => (crate::http::Url::parse(text).is_ok(), "must be an address such as https://…"),
            Self::Date => (text.parse::<jiff::civil::Date>().is_ok(), "must be a day such as 2026-01-02"),
            Self::DateTime => {
                (text.parse::<jiff::Timestamp>().is_ok(), "must be a moment such as 2026-01-02T03:04:05Z")
            }
        };
        if fits { Ok(()) } else { Err(what.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: FieldKind) -> Field {
        Field { key: "k".into(), title: "K".into(), description: None, required: true, kind }
    }

    #[test]
    fn field_takes_what_fits_and_says_what_does_not() {
        let text = |format| FieldKind::Text { least: Some(2), most: Some(20), format, default: None };
        let number = |whole| FieldKind::Number { whole, least: Some(1.0), most: Some(9.0), default: None };
        let option = |value: &str, title: &str| Choice { value: value.into(), title: title.into() };
        let choice = |many| FieldKind::Choice {
            options: vec![option("r", "Red"), option("g", "Green")],
            many,
            least: Some(1),
            most: Some(1),
            default: Vec::new(),
        };
        for (kind, given, expected) in [
            (text(None), "\"ab\"", Some("\"ab\"")),
            (text(None), "\"a\"", None),
            (text(None), "1", None),
            (text(Some(Format::Email)), "\"a@b.c\"", Some("\"a@b.c\"")),
            (text(Some(Format::Email)), "\"a@ b.c\"", None),
            (text(Some(Format::Date)), "\"2026-02-30\"", None),
            (number(true), "\" 3 \"", Some("3")),
            (number(true), "7", Some("7")),
            (number(true), "3.5", None),
            (number(true), "0", None),
            (number(false), "3.5", Some("3.5")),
            (number(false), "\"NaN\"", None),
            (FieldKind::Switch { default: None }, "\"yes\"", Some("true")),
            (FieldKind::Switch { default: None }, "\"maybe\"", None),
            (choice(false), "\"Green\"", Some("\"g\"")),
            (choice(false), "\"blue\"", None),
            (choice(true), "[\"r\"]", Some("[\"r\"]")),
            (choice(true), "[]", None),
            (choice(true), "[\"r\" \"g\"]", None),
        ] {
            let value = crate::edn::read_one(given.as_bytes()).unwrap();
            let checked = field(kind.clone()).check(&value);
            let checked = checked.as_ref().ok().map(crate::edn::to_string);
            assert_eq!(checked.as_deref(), expected, "{kind:?} {given}");
        }
    }
}
