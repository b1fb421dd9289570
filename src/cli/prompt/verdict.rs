//! How a prompt ended: its exit status, why there is no answer, and the calls that were refused because nobody could be asked.
//! Prints nothing.

use edn_bridge::client::frame;
use edn_bridge::tool::permission::quoted;
use edn_bridge::value::{Map, Owned, Value};

use crate::cli::failure::{FAILED, INTERRUPTED, LIMIT, NO_ANSWER, NOT_SET_UP, UNREACHABLE, USAGE};

/// The refused calls that a sentence names; the map at the end has all.
const NAMED_CALLS: usize = 5;

/// The code of a turn that was ended at a call that needs an approval.
const NEEDS_PERMISSION: &str = "permission-required";

/// A call that needed an approval.
#[derive(Debug, Clone)]
pub(in crate::cli) struct RefusedCall {
    tool: String,
    summary: String,
    /// The rule that admits it, if one rule does.
    allow: Option<String>,
}

impl RefusedCall {
    /// Reads the data of a `tool/result`, if it is the result of such a call.
    pub(super) fn of(result: &Owned) -> Option<Self> {
        let details = result.get("details")?;
        details.get("unasked").and_then(Value::as_bool).filter(|is_unasked| *is_unasked)?;
        let text = |key| frame::text(result, key).to_owned();
        let allow = details.get("allow").and_then(Value::as_str).map(str::to_owned);
        Some(Self { tool: text("tool-name"), summary: text("call-summary"), allow })
    }

    pub(super) fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put("tool", self.tool.clone());
        map.put("summary", self.summary.clone());
        map.put_some("allow", self.allow.clone());
        Value::from(map)
    }
}

/// Why there is no answer.
#[derive(Debug, Clone)]
pub(in crate::cli) struct PromptError {
    /// A word for programs.
    pub(super) code: String,
    /// A sentence for people.
    pub(super) message: String,
    /// Whether the same prompt may succeed later.
    pub(super) is_retryable: bool,
}

impl PromptError {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), is_retryable: false }
    }

    /// That of a command that failed before a turn began.
    pub(super) fn of_status(status: u8, message: String) -> Self {
        let code = match status {
            USAGE => "usage",
            NOT_SET_UP => "not-configured",
            _ => "failed",
        };
        Self::new(code, message)
    }

    pub(super) fn to_value(&self) -> Value<'static> {
        let map = Map::new().with("code", self.code.clone()).with("message", self.message.clone());
        Value::from(map.with("retryable", self.is_retryable))
    }
}

/// The end of a prompt.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Verdict {
    /// The exit status.
    pub(super) status: u8,
    /// Why there is no answer.
    pub(super) error: Option<PromptError>,
    /// The calls that were refused because nobody could be asked.
    pub(super) refused: Vec<RefusedCall>,
    /// The calls of the model.
    pub(super) calls: u32,
    /// The provider and the model.
    pub(super) model: Option<(String, String)>,
    /// How long it took.
    pub(super) duration_ms: Option<i64>,
}

impl Verdict {
    pub(super) fn failed(status: u8, error: PromptError) -> Self {
        Self { status, error: Some(error), ..Self::default() }
    }

    /// Says which calls a turn was ended for, and what admits them.
    pub(super) fn explain(&mut self) {
        if let Some(error) = &mut self.error
            && error.code == NEEDS_PERMISSION
            && !self.refused.is_empty()
        {
            let (calls, hint) = (named(&self.refused), hint(&self.refused));
            error.message = format!("the turn was ended: nobody can be asked here about {calls}. {hint}");
        }
    }

    /// A sentence for standard error, unless all is well.
    pub(super) fn sentence(&self) -> Option<String> {
        match (&self.error, self.refused.len()) {
            (Some(error), _) => Some(error.message.clone()),
            (None, 0) => None,
            (None, count) => {
                let calls = if count == 1 { "1 call was".to_owned() } else { format!("{count} calls were") };
                let why = "because nobody can be asked here";
                Some(format!("{calls} refused, {why}: {}. {}", named(&self.refused), hint(&self.refused)))
            }
        }
    }
}

fn named(refused: &[RefusedCall]) -> String {
    let named: Vec<&str> = refused.iter().take(NAMED_CALLS).map(|call| call.summary.as_str()).collect();
    let more = refused.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// The options that admit refused calls.
fn hint(refused: &[RefusedCall]) -> String {
    let mut options: Vec<String> = Vec::new();
    for rule in refused.iter().filter_map(|call| call.allow.as_deref()) {
        let option = quoted(&["--allow".to_owned(), rule.to_owned()]);
        if !options.contains(&option) {
            options.push(option);
        }
    }
    match options.is_empty() {
        true => "No rule admits them; edn-bridge chat asks you.".to_owned(),
        false => format!("To allow them: {}", options.join(" ")),
    }
}

/// The verdict on a turn that has ended.
pub(super) fn of_turn(ended: &Owned, wants_answer: bool) -> Result<(), (u8, PromptError)> {
    let outcome = frame::text(ended, "outcome");
    let stop = frame::text(ended, "stop-reason");
    let why = frame::text(ended, "error-message");
    let failed = |status, code: &str, why: &str| Err((status, PromptError::new(code, why)));
    match outcome {
        "completed" if let Some(run) = ended.get("run") => of_run(run),
        "completed" | "interrupted" if wants_answer => {
            failed(NO_ANSWER, "no-answer", "the model gave no answer that fits the schema")
        }
        "completed" if stop == "max-tokens" => {
            failed(LIMIT, "max-tokens", "the answer was cut off: it is as long as the model may write")
        }
        "completed" if stop == "refusal" => {
            failed(FAILED, "refusal", if why.is_empty() { "the model refused" } else { why })
        }
        "completed" => Ok(()),
        "aborted" | "interrupted" => failed(INTERRUPTED, "interrupted", "another client has ended the turn"),
        _ => {
            let kind = frame::text(ended, "error-kind");
            let status = match kind {
                "overloaded" | "rate-limited" | "dropped" => UNREACHABLE,
                "not-configured" => NOT_SET_UP,
                "loop" => LIMIT,
                _ => FAILED,
            };
            let (code, why) = match why.strip_prefix("permission-required: ") {
                Some(why) => (NEEDS_PERMISSION, why),
                None => (if kind.is_empty() { "failed" } else { kind }, why),
            };
            let error = PromptError::new(code, if why.is_empty() { "the turn failed" } else { why });
            Err((status, PromptError { is_retryable: status == UNREACHABLE, ..error }))
        }
    }
}

/// The verdict on a workflow's run, by the outcome of its last stage.
fn of_run(run: &Owned) -> Result<(), (u8, PromptError)> {
    let outcome = frame::text(run, "outcome");
    if !matches!(outcome, "failed" | "skipped" | "aborted" | "interrupted") {
        return Ok(());
    }
    let mut message = format!("the workflow ended: {outcome}");
    let reason = frame::text(run, "reason");
    if !reason.is_empty() {
        message.push_str(&format!(" ({reason})"));
    }
    Err((FAILED, PromptError::new("workflow-failed", message)))
}
