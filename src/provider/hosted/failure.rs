//! Classifies a server's error: retry, compact, or give up.
//!
//! Providers report the same failures in many shapes: a status, a header, a code, a type, or only a sentence.
//! Knows those shapes; the runtime decides what to do about a failure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::http::header::HeaderMap;
use crate::provider::ErrorKind;

/// Longest part of a server's message that is shown, in characters.
const SHOWN: usize = 500;

/// A server's report of a failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FailureReport {
    /// Its message; empty if it has none.
    pub message: String,
    /// Its codes and types, joined by blanks.
    pub codes: String,
    /// A status in the body.
    pub status: Option<u16>,
    /// The pause that it requests.
    pub wait: Option<Duration>,
}

impl FailureReport {
    /// Reads a response's body. Text that is not JSON is kept if it is short, and dropped if it is a page.
    pub fn body(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str::<Json>(&text) {
            Ok(json) => Self::json(&json),
            Err(_) if text.trim_start().starts_with('<') => Self::default(),
            Err(_) => Self { message: one_line(&text), ..Self::default() },
        }
    }

    /// Reads an error as JSON, or the object that contains it.
    pub fn json(json: &Json) -> Self {
        let json = json.as_array().and_then(|errors| errors.first()).unwrap_or(json);
        // The Responses protocol puts it into the response, most others below `error`.
        let error = json.pointer("/response/error").or_else(|| json.get("error")).unwrap_or(json);
        let error = if error.is_null() { json } else { error };
        if let Some(text) = error.as_str() {
            return Self { message: one_line(text), ..Self::default() };
        }
        let text = |key: &str| error.get(key).and_then(Json::as_str);
        let codes = ["type", "code", "status", "error_type"].into_iter().filter_map(text);
        let detail =
            json.get("detail").map(|detail| detail.as_str().map_or(detail.to_string(), str::to_owned));
        let message = text("message").map(str::to_owned).or(detail);
        // OpenRouter quotes the provider behind it.
        let behind = error.pointer("/metadata/raw").and_then(Json::as_str);
        let message = match (message, behind) {
            (Some(message), Some(behind)) => format!("{message}: {behind}"),
            (message, behind) => message.or_else(|| behind.map(str::to_owned)).unwrap_or_default(),
        };
        let wait = error.get("details").and_then(Json::as_array).and_then(|details| {
            let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
            seconds(delay.strip_suffix('s')?)
        });
        let status = error.get("code").and_then(Json::as_u64).and_then(|code| u16::try_from(code).ok());
        Self { message: one_line(&message), codes: codes.collect::<Vec<_>>().join(" "), status, wait }
    }

    /// Whether the model or the address is not there.
    pub fn is_missing(&self, status: Option<u16>) -> bool {
        let is_coded = |code| ["model_not_found", "not_found_error"].contains(&code);
        status.or(self.status) == Some(404) || self.codes.to_lowercase().split(' ').any(is_coded)
    }

    /// The kind of the failure, given the response's status and the pause that its head requests.
    pub fn kind(&self, status: Option<u16>, wait: Option<Duration>) -> ErrorKind {
        let words = self.message.to_lowercase();
        let codes = self.codes.to_lowercase();
        let coded = |known: &[&str]| known.iter().any(|known| codes.split(' ').any(|code| code == *known));
        let retry_after = wait.or(self.wait);
        let status = status.filter(|status| *status >= 400).or(self.status);
        if is_overflow(&words, &codes) {
            return ErrorKind::ContextOverflow;
        }
        // Groq checks the model's call, and reports a wrong one as a wrong request.
        if coded(&["tool_use_failed"]) {
            return ErrorKind::Malformed;
        }
        // Waiting does not help an account without credit.
        if coded(&["insufficient_quota", "billing_error", "billing_hard_limit_reached"])
            || words.contains("credit balance is too low")
        {
            return ErrorKind::Fatal;
        }
        if matches!(status, Some(401 | 403 | 407))
            || coded(&[
                "authentication_error",
                "permission_error",
                "invalid_api_key",
                "unauthenticated",
                "permission_denied",
            ])
            || words.contains("api key not valid")
        {
            return ErrorKind::NotConfigured;
        }
        if self.is_missing(status) {
            return ErrorKind::NotConfigured;
        }
        if status == Some(429)
            || coded(&["rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "too_many_requests"])
        {
            return ErrorKind::RateLimited { retry_after };
        }
        if matches!(status, Some(408 | 425 | 500..=599))
            || coded(&[
                "overloaded_error",
                "api_error",
                "timeout_error",
                "server_error",
                "internal_server_error",
                "server_is_overloaded",
                "slow_down",
                "unavailable",
                "internal",
                "deadline_exceeded",
            ])
        {
            return match retry_after {
                Some(_) => ErrorKind::RateLimited { retry_after },
                None => ErrorKind::Overloaded,
            };
        }
        ErrorKind::Fatal
    }
}

/// Whether the message says that the conversation exceeds the window. The sentences come from Anthropic,
/// OpenAI, Gemini, xAI, Groq, OpenRouter, vLLM, Ollama, and llama.cpp's two servers.
fn is_overflow(words: &str, codes: &str) -> bool {
    const CODES: [&str; 3] = ["context_length_exceeded", "exceed_context_size_error", "request_too_large"];
    const SENTENCES: [&str; 12] = [
        "prompt is too long",
        "exceed context limit",
        "exceeds the context",
        "exceed the context",
        "exceeds the available context",
        "exceed context window",
        "maximum context length",
        "context length exceeded",
        "maximum prompt length",
        "input token count",
        "reduce the length of the messages",
        "longer than the model's context",
    ];
    CODES.iter().any(|code| codes.contains(code)) || SENTENCES.iter().any(|sentence| words.contains(sentence))
}

/// The pause that a response's head requests.
pub fn retry_after(head: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| head.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|millis| millis.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let asked = text("retry-after")?;
    if let Some(pause) = seconds(asked) {
        return Some(pause);
    }
    let until = jiff::fmt::rfc2822::parse(asked).ok()?.timestamp();
    Some(Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO))
}

fn seconds(text: &str) -> Option<Duration> {
    text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
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
    fn server_errors_are_classified() {
        let limited =
            |millis: Option<u64>| ErrorKind::RateLimited { retry_after: millis.map(Duration::from_millis) };
        for (status, body, expected, words) in [
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                ErrorKind::Overloaded,
                "Overloaded",
            ),
            (
                200,
                r#"{"type":"error","error":{"type":"api_error","message":"Internal"}}"#,
                ErrorKind::Overloaded,
                "Internal",
            ),
            (
                401,
                r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
                ErrorKind::NotConfigured,
                "invalid x-api-key",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205000 tokens > 200000 maximum"}}"#,
                ErrorKind::ContextOverflow,
                "prompt is too long: 205000 tokens > 200000 maximum",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
                ErrorKind::Fatal,
                "Your credit balance is too low to access the API",
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                ErrorKind::ContextOverflow,
                "This model's maximum context length is 8192 tokens.",
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                ErrorKind::Fatal,
                "You exceeded your current quota",
            ),
            (
                400,
                r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=bash{"}}"#,
                ErrorKind::Malformed,
                "Failed to call a function.",
            ),
            (
                429,
                r#"{"error":{"message":"Slow down","type":"requests","code":"rate_limit_exceeded"}}"#,
                limited(None),
                "Slow down",
            ),
            (
                429,
                r#"[{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"a"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}]"#,
                limited(Some(34_500)),
                "Quota",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
                ErrorKind::NotConfigured,
                "API key not valid. Please pass a valid API key.",
            ),
            (
                503,
                r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
                ErrorKind::Overloaded,
                "The model is overloaded.",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing it","type":"exceed_context_size_error","n_ctx":2048}}"#,
                ErrorKind::ContextOverflow,
                "the request exceeds the available context size. try increasing it",
            ),
            (
                200,
                r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"upstream"}}}"#,
                ErrorKind::Overloaded,
                "Provider returned error: upstream",
            ),
            (404, r#"{"error":"model 'x' not found"}"#, ErrorKind::NotConfigured, "model 'x' not found"),
            (
                200,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
                ErrorKind::NotConfigured,
                "model: x",
            ),
            (
                422,
                r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
                ErrorKind::Fatal,
                r#"[{"loc":["body"],"msg":"field required"}]"#,
            ),
            (502, "<html><body>Bad Gateway</body></html>", ErrorKind::Overloaded, ""),
            (500, "upstream\n failed", ErrorKind::Overloaded, "upstream failed"),
            (
                200,
                r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"oops"}}}"#,
                ErrorKind::Overloaded,
                "oops",
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                ErrorKind::ContextOverflow,
                "Request exceeds the maximum size",
            ),
        ] {
            let report = FailureReport::body(body.as_bytes());
            assert_eq!(
                (report.kind(Some(status), None), report.message.as_str()),
                (expected, words),
                "{body}"
            );
        }
    }

    #[test]
    fn retry_pause_is_read_in_every_form() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (name, value, expected) in [
            ("retry-after", "20", Some(20_000)),
            ("retry-after", "1.5", Some(1500)),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after", "Fri, 02 Jan 2026 03:05:05 GMT", Some(60_000)),
            ("retry-after", "Fri, 02 Jan 2026 03:00:00 GMT", Some(0)),
            ("retry-after", "-3", None),
            ("retry-after", "soon", None),
            ("x", "1", None),
        ] {
            let mut head = HeaderMap::new();
            head.insert(name, value.parse().unwrap());
            assert_eq!(retry_after(&head, now), expected.map(Duration::from_millis), "{name}: {value}");
        }
    }
}
