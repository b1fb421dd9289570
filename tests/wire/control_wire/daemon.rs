//! The types by which clients of the agent-team-mail daemon read answers: the same names, and the same keys may be
//! missing. What serde refuses here, they refuse.

#![allow(dead_code, reason = "they are read, not used")]

use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Debug, Deserialize)]
pub struct SocketResponse {
    pub version: u32,
    pub request_id: String,
    pub status: String,
    pub payload: Option<Json>,
    pub error: Option<SocketError>,
}

#[derive(Debug, Deserialize)]
pub struct SocketError {
    pub code: String,
    pub message: String,
}

#[derive(Debug, Deserialize)]
pub struct ControlAck {
    pub request_id: String,
    pub result: ControlResult,
    pub duplicate: bool,
    pub detail: Option<String>,
    pub acked_at: String,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ControlResult {
    Ok,
    NotLive,
    NotFound,
    Busy,
    Timeout,
    Rejected,
    InternalError,
}

#[derive(Debug, Deserialize)]
pub struct AgentSummary {
    pub agent: String,
    pub state: String,
}

#[derive(Debug, Deserialize)]
pub struct CanonicalMemberState {
    pub agent: String,
    pub state: String,
    #[serde(default)]
    pub activity: String,
    #[serde(default)]
    pub session_id: Option<String>,
    #[serde(default)]
    pub process_id: Option<u32>,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub source: String,
    #[serde(default = "yes")]
    pub in_config: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
pub struct AgentStateInfo {
    pub state: String,
    pub last_transition: Option<String>,
}

/// Reads an answer as the daemon's clients do.
pub fn read<T: serde::de::DeserializeOwned>(answer: impl Into<Json>) -> T {
    let answer = answer.into();
    serde_json::from_value(answer.clone()).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
