//! What the user's file says of OpenTelemetry: `{:telemetry {:endpoint "http://localhost:4318" :content false :headers
//! {"authorization" "Bearer …"}}}`.

use crate::http::Url;
use crate::limits::TELEMETRY_HEADERS;
use crate::value::Value;

/// Where spans and metrics are sent, and what of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TelemetryPolicy {
    /// The address of a receiver of OTLP over HTTP, without the path of a signal; `None` unless the person wants it.
    pub endpoint: Option<String>,
    /// Whether texts of conversations are sent as well.
    pub has_texts: bool,
    /// Headers of each request, which may be keys.
    pub headers: Vec<(String, String)>,
}

impl std::fmt::Debug for TelemetryPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("TelemetryPolicy")
            .field("has_texts", &self.has_texts)
            .field("headers", &names)
            .finish()
    }
}

impl TelemetryPolicy {
    /// Reads what the file says; every key is optional.
    ///
    /// # Errors
    /// What the value must be.
    pub(super) fn read(value: &Value<'_>) -> Result<Self, &'static str> {
        const HEADERS: &str = "a map with :headers {name text …}, with at most 20 of them";
        let map = value.as_map().ok_or("a map")?;
        let mut policy = Self::default();
        for (key, value) in map.iter() {
            match key.as_keyword() {
                Some("endpoint") => {
                    const SHAPE: &str = "a map with :endpoint \"http://host:4318\" or an address with https";
                    let text = value.as_str().ok_or(SHAPE)?;
                    let url = Url::parse(text).map_err(|_| SHAPE)?;
                    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
                        return Err(SHAPE);
                    }
                    policy.endpoint = Some(text.to_owned());
                }
                Some("content") => {
                    policy.has_texts = value.as_bool().ok_or("a map with :content true or :content false")?;
                }
                Some("headers") => {
                    let headers = value.as_map().filter(|all| all.len() <= TELEMETRY_HEADERS);
                    for (name, value) in headers.ok_or(HEADERS)?.iter() {
                        let name = name.as_str().or_else(|| name.as_keyword()).ok_or(HEADERS)?;
                        let value = value.as_str().ok_or(HEADERS)?;
                        policy.headers.push((name.to_owned(), value.to_owned()));
                    }
                }
                _ => return Err("a map with no other keys than :endpoint, :content and :headers"),
            }
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::layers::Layers;
    use super::super::source_position::FileText;
    use super::*;
    use crate::edn;

    #[test]
    fn telemetry_is_the_users_alone() {
        let text =
            br#"{:telemetry {:endpoint "http://localhost:4318" :content true :headers {"x-key" "sesame"}}}"#;
        let value = edn::read_one(text).unwrap().into_owned();
        let map = value.as_map().unwrap();
        let file = FileText { path: Path::new("/config.edn"), bytes: text };
        let (mut user, mut project) = (Layers::default(), Layers::default());
        assert!(user.take_user(file, map).is_empty());
        assert_eq!(user.telemetry.endpoint.as_deref(), Some("http://localhost:4318"));
        assert!(user.telemetry.has_texts && user.passed_over.is_empty());
        assert!(!format!("{:?}", user.telemetry).contains("sesame"), "{:?}", user.telemetry);
        for trusted in [false, true] {
            project.take_project(file, map, trusted);
            assert_eq!(project.telemetry, TelemetryPolicy::default());
        }
        assert!(project.passed_over[0].contains("only the user's own"), "{:?}", project.passed_over);
        for wrong in [
            "{:endpoint 1}",
            "{:endpoint \"file:///x\"}",
            "{:content 1}",
            "{:headers []}",
            "{:url \"\"}",
            "[]",
        ] {
            let value = edn::read_one(wrong.as_bytes()).unwrap();
            assert!(TelemetryPolicy::read(&value).is_err(), "{wrong}");
        }
    }
}
