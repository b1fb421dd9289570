//! The meaning of a server's refusal: retry, compact, or give up, and what the person can do.
//!
//! Providers report the same failures in many shapes: a status, a header, a code, a type, or only a sentence. The shapes
//! are read here; what they mean is data, in `provider/failures.edn`. The runtime decides what to do about a failure.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::http::header::HeaderMap;
use crate::limits::RETRY_MAX_MS;
use crate::provider::ErrorKind;
use crate::value::Value;

/// Longest part of a server's message that is shown, in characters.
const SHOWN: usize = 500;

/// Longest part of a body without a message that is shown, in characters.
const SHOWN_BODY: usize = 200;

/// A server's report of a failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FailureReport {
    /// Its message, or the start of a body without one.
    pub message: String,
    /// Its codes and types, joined by blanks.
    pub codes: String,
    /// A status in the body.
    pub status: Option<u16>,
    /// The pause that it requests.
    pub wait: Option<Duration>,
    /// The most tokens that it takes, where a field of its own says so.
    pub limit: Option<u64>,
    /// The field of the request that it is about, where it stands apart.
    pub field: Option<String>,
}

/// The kind of a refusal. Several kinds may have one consequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Larger than all that the account may send in a minute: waiting never helps.
    TooLargeForRate,
    /// The conversation exceeds the window.
    Overflow,
    /// Data that the server gave to be sent again was refused.
    Replay,
    /// A field of the request was refused.
    Field,
    /// The model wrote a call that cannot be used.
    Malformed,
    /// The account has no credit.
    NoCredit,
    /// The model takes no tools.
    NoTools,
    /// The server can never do this, whatever its status says.
    Permanent,
    /// Not allowed: by region, moderation, organisation or right.
    Denied,
    /// The key is wrong.
    KeyRefused,
    /// The model or the address is not there.
    NoModel,
    /// The quota of the day is used up.
    DayQuota,
    /// Too many calls.
    RateLimited,
    /// The server has too much to do.
    Overloaded,
    /// The server failed.
    Failed,
    /// Anything else.
    Refused,
}

/// The meaning of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Its kind.
    pub kind: FailureKind,
    /// Advice for the person; empty for none.
    pub advice: &'static str,
    /// The most tokens that the server takes.
    pub limit: Option<u64>,
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    kind: FailureKind,
    statuses: Vec<Status>,
    codes: Vec<String>,
    words: Vec<String>,
    limit: Vec<String>,
    advice: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Is(u16),
    Server,
    None,
}

/// The table. A test reads it, because it is a part of the program.
static FAILURES: LazyLock<Vec<Row>> = LazyLock::new(|| rows(include_str!("../failures.edn")));

fn rows(text: &str) -> Vec<Row> {
    let table = crate::edn::read_one(text.as_bytes()).unwrap_or(Value::Nil);
    table.as_slice().unwrap_or_default().iter().filter_map(row).collect()
}

fn row(row: &Value<'_>) -> Option<Row> {
    let list = |key: &str| row.get(key).and_then(Value::as_slice).unwrap_or_default().iter();
    let texts = |key: &str| list(key).filter_map(Value::as_str).map(str::to_owned).collect();
    let status = |status: &Value<'_>| match status.as_keyword() {
        Some("5xx") => Some(Status::Server),
        Some("none") => Some(Status::None),
        _ => status.as_i64().and_then(|status| u16::try_from(status).ok()).map(Status::Is),
    };
    Some(Row {
        kind: FailureKind::parse(row.get("kind")?.as_keyword()?)?,
        statuses: list("status").map(status).collect::<Option<_>>()?,
        codes: texts("codes"),
        words: texts("words"),
        limit: texts("limit"),
        advice: row.get("advice").and_then(Value::as_str).unwrap_or_default().to_owned(),
    })
}

impl Row {
    fn fits(&self, status: Option<u16>, words: &str, codes: &str) -> bool {
        let is_status = |listed: &Status| match (*listed, status) {
            (Status::Is(listed), Some(status)) => listed == status,
            (Status::Server, Some(status)) => (500..600).contains(&status),
            (Status::None, None) => true,
            _ => false,
        };
        let says = (self.codes.is_empty() && self.words.is_empty())
            || self.codes.iter().any(|code| codes.split(' ').any(|found| found == code))
            || self.words.iter().any(|known| words.contains(known) || codes.contains(known));
        says && (self.statuses.is_empty() || self.statuses.iter().any(is_status))
    }
}

impl FailureKind {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "too-large-for-rate" => Self::TooLargeForRate,
            "overflow" => Self::Overflow,
            "replay" => Self::Replay,
            "field" => Self::Field,
            "malformed" => Self::Malformed,
            "no-credit" => Self::NoCredit,
            "no-tools" => Self::NoTools,
            "permanent" => Self::Permanent,
            "denied" => Self::Denied,
            "key-refused" => Self::KeyRefused,
            "no-model" => Self::NoModel,
            "day-quota" => Self::DayQuota,
            "rate-limited" => Self::RateLimited,
            "overloaded" => Self::Overloaded,
            "failed" => Self::Failed,
            _ => return None,
        })
    }

    /// The failure for a caller, given the pause that the server requests.
    pub fn error_kind(self, retry_after: Option<Duration>) -> ErrorKind {
        match self {
            // A shorter conversation helps in both cases.
            Self::TooLargeForRate | Self::Overflow => ErrorKind::ContextOverflow,
            Self::Malformed => ErrorKind::Malformed,
            Self::KeyRefused | Self::NoModel => ErrorKind::NotConfigured,
            Self::RateLimited => ErrorKind::RateLimited { retry_after },
            Self::Overloaded | Self::Failed if retry_after.is_some() => {
                ErrorKind::RateLimited { retry_after }
            }
            Self::Overloaded | Self::Failed => ErrorKind::Overloaded,
            Self::NoCredit
            | Self::NoTools
            | Self::Replay
            | Self::Field
            | Self::Permanent
            | Self::Denied
            | Self::DayQuota
            | Self::Refused => ErrorKind::Fatal,
        }
    }

    /// The predicate of a sentence for people. A pause that is longer than a turn waits is a part of it.
    pub fn predicate(self, retry_after: Option<Duration>) -> String {
        let long = retry_after.filter(|pause| *pause > Duration::from_millis(RETRY_MAX_MS)).map(span);
        let text = match (self, long) {
            (Self::RateLimited | Self::Overloaded | Self::Failed, Some(span)) => {
                return format!("asks to wait for {span}");
            }
            (Self::TooLargeForRate, _) => "takes no request that large in one minute",
            (Self::Overflow, _) => "cannot take a conversation that long",
            (Self::Malformed, _) => "could not use the model's call",
            (Self::NoCredit, _) => "finds no credit in the account",
            (Self::NoTools, _) => "has no tools for this model",
            (Self::Permanent, _) => "cannot do this",
            (Self::Denied, _) => "does not allow this",
            (Self::KeyRefused, _) => "did not accept the key",
            (Self::NoModel, _) => "has no such model or address",
            (Self::DayQuota, _) => "allows no more calls today",
            (Self::RateLimited, None) => "asks to wait",
            (Self::Overloaded, None) => "has too much to do",
            (Self::Failed, None) => "failed",
            (Self::Replay | Self::Field | Self::Refused, _) => "refused",
        };
        text.to_owned()
    }
}

impl FailureReport {
    /// Reads a response's body. The start of one without a message is its message, without the tags of a page.
    pub fn body(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let mut report =
            serde_json::from_str::<Json>(&text).map(|json| Self::json(&json)).unwrap_or_default();
        if report.message.is_empty() {
            report.message = one_line(&without_tags(&text)).chars().take(SHOWN_BODY).collect();
        }
        report
    }

    /// Reads an error as JSON, or the object that contains it.
    pub fn json(json: &Json) -> Self {
        let json = json.as_array().and_then(|errors| errors.first()).unwrap_or(json);
        // The Responses protocol puts it into the response, most others below `error`.
        let error = json.pointer("/response/error").or_else(|| json.get("error")).unwrap_or(json);
        let error = if error.is_null() { json } else { error };
        if let Some(text) = error.as_str() {
            let codes = json.get("code").and_then(Json::as_str).unwrap_or_default().to_owned();
            return Self { message: one_line(text), codes, ..Self::default() };
        }
        let text = |key: &str| error.get(key).and_then(Json::as_str);
        let details = || error.get("details").and_then(Json::as_array).into_iter().flatten();
        let quotas = details().filter_map(|detail| detail.get("violations")?.as_array()).flatten();
        let quotas = quotas.filter_map(|violation| violation.get("quotaId")?.as_str());
        let codes = ["type", "code", "status", "error_type"].into_iter().filter_map(text).chain(quotas);
        let shown = |detail: &Json| detail.as_str().map_or(detail.to_string(), str::to_owned);
        // Mistral's message may be an object.
        let message = error.get("message").filter(|message| !message.is_null()).map(shown);
        let message = message.or_else(|| json.get("detail").map(shown));
        // OpenRouter quotes the provider behind it.
        let behind = error.pointer("/metadata/raw").and_then(Json::as_str);
        let message = match (message, behind) {
            (Some(message), Some(behind)) => format!("{message}: {behind}"),
            (message, behind) => message.or_else(|| behind.map(str::to_owned)).unwrap_or_default(),
        };
        let mut delays = details().filter_map(|detail| detail.get("retryDelay")?.as_str());
        let status = error.get("code").and_then(Json::as_u64).and_then(|code| u16::try_from(code).ok());
        Self {
            message: one_line(&message),
            codes: codes.collect::<Vec<_>>().join(" "),
            status,
            wait: delays.next().and_then(pause),
            // llama.cpp says its window.
            limit: error.get("n_ctx").and_then(Json::as_u64),
            field: field(error).or_else(|| field(json)),
        }
    }

    /// Its meaning, given the response's status.
    pub fn judge(&self, status: Option<u16>) -> Judgement {
        let words = self.message.to_lowercase();
        let codes = self.codes.to_lowercase();
        let status = status.filter(|status| *status >= 400).or(self.status.filter(|status| *status >= 400));
        let Some(row) = FAILURES.iter().find(|row| row.fits(status, &words, &codes)) else {
            return Judgement { kind: FailureKind::Refused, advice: "", limit: None };
        };
        let said = row.limit.iter().find_map(|before| number_after(&words, before));
        let limit = self.limit.filter(|_| !row.limit.is_empty()).or(said);
        Judgement { kind: row.kind, advice: &row.advice, limit: limit.filter(|limit| *limit > 0) }
    }

    /// The pause that the message asks for: "Please try again in 7m12.5s."
    pub fn said_wait(&self) -> Option<Duration> {
        let words = self.message.to_lowercase();
        let after = ["try again in ", "retry in ", "retry after "].into_iter();
        after.filter_map(|before| words.split_once(before)).find_map(|(_, after)| leading_pause(after).0)
    }
}

/// The field that an error is about: OpenAI's `param`, or the place in the details of servers that check with pydantic.
fn field(error: &Json) -> Option<String> {
    let place = error.pointer("/detail/0/loc").and_then(Json::as_array);
    let place = place.map(|steps| steps.iter().filter_map(Json::as_str).collect::<Vec<_>>().join("."));
    error.get("param").and_then(Json::as_str).map(str::to_owned).or(place)
}

/// The number that stands right behind these words, with or without commas.
fn number_after(words: &str, before: &str) -> Option<u64> {
    let found = words.match_indices(before).map(|(at, _)| words.get(at.saturating_add(before.len())..));
    found.flatten().find_map(|after| {
        let figures = after.split(|c: char| !c.is_ascii_digit() && c != ',').next()?;
        figures.replace(',', "").parse().ok()
    })
}

/// The pause that a response's head requests. Without a word of its own, it is that of the budgets that are used up.
pub fn retry_after(head: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| head.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let left = |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
    let time = |text: &str| {
        let read = text.parse::<Timestamp>().ok();
        read.or_else(|| jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp()))
    };
    if let Some(millis) = text("retry-after-ms").and_then(|millis| millis.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    if let Some(asked) = text("retry-after") {
        return pause(asked).or_else(|| time(asked).map(left));
    }
    let used_up = head.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix("x-").unwrap_or(name.as_str());
        let is_reset = name.contains("ratelimit") && name.contains("reset");
        let full_name = |name: &str| [name.to_owned(), format!("x-{name}")];
        let remaining = full_name(&name.replace("reset", "remaining"));
        let is_used_up = remaining.iter().any(|name| text(name) == Some("0"));
        let value = value.to_str().ok().filter(|_| is_reset && is_used_up)?.trim();
        match value.parse::<i64>() {
            // A moment in milliseconds, or seconds, since 1970.
            Ok(moment @ 100_000_000_000..) => Timestamp::from_millisecond(moment).ok().map(left),
            Ok(moment @ 1_000_000_000..) => Timestamp::from_second(moment).ok().map(left),
            _ => pause(value).or_else(|| time(value).map(left)),
        }
    });
    used_up.max()
}

/// Whether a response's head says that the same call may succeed, or never will.
pub fn should_retry(head: &HeaderMap) -> Option<bool> {
    head.get("x-should-retry")?.to_str().ok()?.trim().parse().ok()
}

/// A pause that is all of a text: `20`, `1.5`, `2s`, `6m0s`.
fn pause(text: &str) -> Option<Duration> {
    let (pause, rest) = leading_pause(text.trim());
    pause.filter(|_| rest.is_empty())
}

/// The pause at the start of a text, and the rest: `7m12.5s`, `20 seconds`, `34`.
fn leading_pause(text: &str) -> (Option<Duration>, &str) {
    let (mut sum, mut rest) = (None::<Duration>, text);
    loop {
        let start = rest.trim_start();
        let end = start.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(start.len());
        let (figure, after) = start.split_at_checked(end).unwrap_or((start, ""));
        let Ok(figure) = figure.trim_end_matches('.').parse::<f64>() else { return (sum, rest) };
        let word = after.trim_start();
        let end = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (unit, after_unit) = word.split_at_checked(end).unwrap_or((word, ""));
        let (seconds, left) = match unit {
            "ms" | "millisecond" | "milliseconds" => (0.001, after_unit),
            "s" | "sec" | "second" | "seconds" => (1.0, after_unit),
            "m" | "min" | "minute" | "minutes" => (60.0, after_unit),
            "h" | "hour" | "hours" => (3600.0, after_unit),
            "d" | "day" | "days" => (86_400.0, after_unit),
            // A figure alone is seconds; a second one is none of the pause.
            _ if sum.is_none() => return (Duration::try_from_secs_f64(figure).ok(), after),
            _ => return (sum, rest),
        };
        let Ok(part) = Duration::try_from_secs_f64(figure * seconds) else { return (sum, rest) };
        sum = Some(sum.unwrap_or_default().saturating_add(part));
        rest = left;
    }
}

/// A pause for a person, in the two largest units.
fn span(pause: Duration) -> String {
    let seconds = pause.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// A page's text.
fn without_tags(text: &str) -> String {
    if !text.trim_start().starts_with('<') {
        return text.to_owned();
    }
    text.split('<')
        .map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text))
        .collect::<Vec<_>>()
        .join(" ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The part of a server's message that a person sees.
pub fn shown(line: &str) -> std::borrow::Cow<'_, str> {
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()).into(),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_failures_fits_its_examples() {
        let text = include_str!("../failures.edn");
        let table = crate::edn::read_one(text.as_bytes()).unwrap();
        let table = table.as_slice().unwrap();
        assert_eq!(table.len(), FAILURES.len());
        for (place, row) in table.iter().enumerate() {
            let examples = row.get("examples").unwrap().as_slice().unwrap();
            assert!(!examples.is_empty(), "{row}");
            for example in examples {
                let example = example.as_slice().unwrap();
                let status = example[0].as_i64().and_then(|status| u16::try_from(status).ok());
                let status = status.filter(|status| *status > 0);
                let report = FailureReport::body(example[1].as_str().unwrap().as_bytes());
                let (words, codes) = (report.message.to_lowercase(), report.codes.to_lowercase());
                let fits = |row: &Row| row.fits(status.or(report.status), &words, &codes);
                assert_eq!(FAILURES.iter().position(fits), Some(place), "{example:?}");
                let limit =
                    example.get(2).and_then(Value::as_i64).and_then(|limit| u64::try_from(limit).ok());
                assert_eq!(report.judge(status).limit, limit, "{example:?}");
            }
        }
    }

    #[test]
    fn words_of_server_are_found_in_every_shape() {
        for (body, expected) in [
            (r#"{"error":{"message":"a\n b"}}"#, "a b"),
            (r#"{"response":{"error":{"message":"in a response"}}}"#, "in a response"),
            (r#"[{"error":{"message":"in a list"}}]"#, "in a list"),
            (r#"{"error":"a text"}"#, "a text"),
            (
                r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
                r#"[{"loc":["body"],"msg":"field required"}]"#,
            ),
            (r#"{"object":"error","message":{"detail":"d"}}"#, r#"{"detail":"d"}"#),
            (r#"{"error":{"message":"p","metadata":{"raw":"behind"}}}"#, "p: behind"),
            (r#"{"reason":7}"#, r#"{"reason":7}"#),
            (
                "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
                "502 Bad Gateway nginx",
            ),
            ("plain\n words", "plain words"),
            ("", ""),
        ] {
            assert_eq!(FailureReport::body(body.as_bytes()).message, expected, "{body}");
        }
        assert_eq!(FailureReport::body("é".repeat(900).as_bytes()).message.chars().count(), SHOWN_BODY);
    }

    #[test]
    fn kinds_have_their_consequences() {
        let second = Some(Duration::from_secs(1));
        for (kind, expected) in [
            (FailureKind::TooLargeForRate, ErrorKind::ContextOverflow),
            (FailureKind::DayQuota, ErrorKind::Fatal),
            (FailureKind::Denied, ErrorKind::Fatal),
            (FailureKind::Failed, ErrorKind::RateLimited { retry_after: second }),
            (FailureKind::RateLimited, ErrorKind::RateLimited { retry_after: second }),
        ] {
            assert_eq!(kind.error_kind(second), expected, "{kind:?}");
        }
        assert_eq!(FailureKind::Failed.error_kind(None), ErrorKind::Overloaded);
        assert_eq!(FailureKind::Failed.predicate(None), "failed");
        assert_eq!(FailureKind::RateLimited.predicate(second), "asks to wait");
        let day = Some(Duration::from_secs(86_340));
        assert_eq!(FailureKind::RateLimited.predicate(day), "asks to wait for 23 h 59 min");
    }

    #[test]
    fn retry_pause_is_read_in_every_form() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (lines, expected) in [
            (&[("retry-after", "20")][..], Some(20_000)),
            (&[("retry-after", "1.5")], Some(1500)),
            (&[("retry-after", "1m30s")], Some(90_000)),
            (&[("retry-after-ms", "250")], Some(250)),
            (&[("retry-after", "Fri, 02 Jan 2026 03:05:05 GMT")], Some(60_000)),
            (&[("retry-after", "Fri, 02 Jan 2026 03:00:00 GMT")], Some(0)),
            (&[("retry-after", "2026-01-02T03:04:15Z")], Some(10_000)),
            (&[("retry-after", "-3")], None),
            (&[("retry-after", "soon")], None),
            (&[("x", "1")], None),
            (&[("x-ratelimit-reset-tokens", "6m0s"), ("x-ratelimit-remaining-tokens", "0")], Some(360_000)),
            (&[("x-ratelimit-reset-requests", "17ms"), ("x-ratelimit-remaining-requests", "0")], Some(17)),
            (&[("x-ratelimit-reset-tokens", "6m0s"), ("x-ratelimit-remaining-tokens", "9")], None),
            (&[("x-ratelimit-reset", "1767323055000"), ("x-ratelimit-remaining", "0")], Some(10_000)),
            (&[("x-ratelimit-reset", "1767323055"), ("x-ratelimit-remaining", "0")], Some(10_000)),
            (
                &[
                    ("anthropic-ratelimit-tokens-reset", "2026-01-02T03:04:35Z"),
                    ("anthropic-ratelimit-tokens-remaining", "0"),
                ],
                Some(30_000),
            ),
            (
                &[("retry-after", "2"), ("x-ratelimit-reset", "9s"), ("x-ratelimit-remaining", "0")],
                Some(2000),
            ),
        ] {
            let mut head = HeaderMap::new();
            for (name, value) in lines {
                head.insert(*name, value.parse().unwrap());
            }
            assert_eq!(retry_after(&head, now), expected.map(Duration::from_millis), "{lines:?}");
        }
    }

    #[test]
    fn retry_pause_is_read_from_words() {
        for (message, expected) in [
            ("Please try again in 2s.", Some(2000)),
            ("Please try again in 7m12.5s. Visit", Some(432_500)),
            ("try again in 340ms", Some(340)),
            ("Please retry in 34.07s.", Some(34_070)),
            ("Try again in 20 seconds.", Some(20_000)),
            ("retry after 1 minute 5 seconds", Some(65_000)),
            ("Retry after 20", Some(20_000)),
            ("try again in a while", None),
            ("slow down", None),
        ] {
            let report = FailureReport { message: message.to_owned(), ..FailureReport::default() };
            assert_eq!(report.said_wait(), expected.map(Duration::from_millis), "{message}");
        }
    }
}
