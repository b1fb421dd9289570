//! Sends each call to the module of the agreed version, and reads `initialize`, which comes before there is one.

use crate::jsonrpc::at;
use crate::message::SessionId;
use crate::value::{Map, Value};
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::questions::EditorRequest;
use crate::wire::acp::request::{AcpRequest, AcpResponse, EditorNotice};
use crate::wire::acp::update::{EditorAnswer, Update};
use crate::wire::acp::version::Version;
use crate::wire::acp::{v1, v2};

impl Version {
    /// Reads a request. `agreed` is the version that the editor and the program have agreed on.
    ///
    /// # Errors
    /// For an unknown method, params of another shape, and a version that is older than ours.
    pub fn read_request(agreed: Option<Self>, method: &str, params: &Value<'_>) -> Result<AcpRequest, Fault> {
        if method == "initialize" {
            return initialize(params);
        }
        match agreed.unwrap_or_default() {
            Self::One => v1::read_request(method, params),
            Self::Two => v2::read_request(method, params),
        }
    }

    /// Reads a notification; `None` for one that is unknown or malformed.
    pub fn notice(self, method: &str, params: &Value<'_>) -> Option<EditorNotice> {
        match method {
            // The same in both.
            "session/cancel" | "$/cancel_request" => v1::notice(method, params),
            _ => None,
        }
    }

    /// What the editor answered to a request. What cannot be read is a dismissal.
    pub fn said(self, as_form: bool, result: Result<Value<'_>, String>) -> EditorAnswer {
        match self {
            Self::One => v1::said(as_form, result),
            Self::Two => v2::said(as_form, result),
        }
    }

    /// Appends an answer. `id` is JSON, as it came.
    pub fn answer(self, out: &mut Vec<u8>, id: &str, answer: &AcpResponse) {
        match self {
            Self::One => v1::answer(out, id, answer),
            Self::Two => v2::answer(out, id, answer),
        }
    }

    /// Appends an error, which is the same in both. `id` is JSON, as it came, or `null`.
    pub fn error(self, out: &mut Vec<u8>, id: &str, fault: &Fault) {
        v1::error(out, id, fault);
    }

    /// Appends an update of a session.
    pub fn update(self, out: &mut Vec<u8>, session: &SessionId, update: &Update<'_>) {
        match self {
            Self::One => v1::update(out, session, update),
            Self::Two => v2::update(out, session, update),
        }
    }

    /// Appends a request to the editor, of an open session.
    pub fn request(self, out: &mut Vec<u8>, id: &str, home: &SessionId, request: &EditorRequest) {
        match self {
            Self::One => v1::request(out, id, home, request),
            Self::Two => v2::request(out, id, home, request),
        }
    }

    /// Appends that a request to the editor needs no answer any more, which is the same in both.
    pub fn withdraw(self, out: &mut Vec<u8>, id: &str) {
        v1::withdraw(out, id);
    }

    /// Appends that what a page was opened for has ended, which is the same in both.
    pub fn page_over(self, out: &mut Vec<u8>, id: &str) {
        v1::page_over(out, id);
    }
}

/// Reads `initialize`, by the version that it asks for.
fn initialize(params: &Value<'_>) -> Result<AcpRequest, Fault> {
    let asked = at(params, "protocolVersion").and_then(Value::as_i64);
    let Some(asked) = asked.filter(|asked| u16::try_from(*asked).is_ok()) else {
        let message = "params.protocolVersion must be a whole number from 0 to 65535.";
        return Err(Fault::new(Code::InvalidParams, message));
    };
    match Version::at_most(asked) {
        Some(Version::One) => v1::read_request("initialize", params),
        Some(version) => {
            let read = v2::read_request("initialize", params);
            // A client of a newer version may write it in a shape that version 2 does not know.
            if asked > i64::from(version.number()) {
                Ok(read.unwrap_or_else(|_| v2::unknown()))
            } else {
                read
            }
        }
        None => {
            let supported = Version::ALL.map(|version| Value::from(i64::from(version.number())));
            let data = Map::new().with("requested", asked).with("supported", Value::vector(supported));
            let message = format!("There is no version {asked} of the protocol here.");
            Err(Fault::new(Code::UnsupportedVersion, message).with_data(data))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn editor_gets_the_newest_version_up_to_its_own() {
        for (asked, expected) in [("1", 1), ("2", 2), ("3", 2), ("65535", 2)] {
            let rest = r#""info":{"name":"e","version":"1"},"clientInfo":{"name":"e","version":"1"}"#;
            let params = format!(r#"{{"protocolVersion":{asked},{rest}}}"#);
            let params = json::read(params.as_bytes()).unwrap();
            match Version::read_request(None, "initialize", &params) {
                Ok(AcpRequest::Initialize { version, client, .. }) => {
                    assert_eq!(version.number(), expected, "{asked}");
                    assert_eq!(client, Some(("e".to_owned(), "1".to_owned())));
                }
                other => panic!("{asked}: {other:?}"),
            }
        }
        for (asked, code) in
            [("0", Code::UnsupportedVersion), ("-1", Code::InvalidParams), ("\"1\"", Code::InvalidParams)]
        {
            let params = format!(r#"{{"protocolVersion":{asked}}}"#);
            let read = Version::read_request(None, "initialize", &json::read(params.as_bytes()).unwrap());
            assert_eq!(read.unwrap_err().code, code, "{asked}");
        }
        // Version 2 is read strictly, a newer one is not.
        let read = |asked: u16| {
            let params = format!(r#"{{"protocolVersion":{asked},"clientInfo":{{}}}}"#);
            Version::read_request(None, "initialize", &json::read(params.as_bytes()).unwrap())
        };
        assert!(read(2).is_err() && read(3).is_ok());
    }
}
