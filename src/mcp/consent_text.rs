//! What a person is shown of a server before it may start: all that decides what it does.

use super::settings::Server;
use crate::http;
use crate::peer::{self, short_line, source_of};

impl Server {
    /// What it gets and may do beside its command line or address: what it is (`variable LD_PRELOAD`), and its value or
    /// where that comes from. Each is one line and bounded. A value that looks like a key is left out.
    pub fn details(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (kind, values) in [("variable", &self.environment), ("header", &self.headers)] {
            all.extend(
                values
                    .iter()
                    .map(|(name, value)| (format!("{kind} {}", short_line(name)), source_of(name, value))),
            );
        }
        if let Some(cwd) = &self.cwd {
            all.push(("folder".to_owned(), short_line(&cwd.display().to_string())));
        }
        if self.sampling {
            all.push(("sampling".to_owned(), "it may ask for texts of your model".to_owned()));
        }
        if let Some(id) = &self.client.id {
            all.push(("client of its login".to_owned(), short_line(id)));
        }
        if let Some(redirect) = &self.client.redirect {
            all.push(("page after its login".to_owned(), short_line(http::shown(redirect).as_str())));
        }
        if !self.client.scopes.is_empty() {
            all.push(("scopes of its login".to_owned(), short_line(&self.client.scopes.join(" "))));
        }
        all
    }

    /// Its command line or address, and under it a line for each of its details.
    pub fn described(&self) -> String {
        peer::described(&self.shown(), &self.details(), &self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;
    use crate::limits::MCP_DETAILS;
    use crate::peer::Source;

    fn described(text: &str) -> String {
        let value = edn::read_one(text.as_bytes()).unwrap();
        Server::read("s", &value, Source::User("/u".into())).unwrap().described()
    }

    #[test]
    fn description_names_all_that_decides_what_runs() {
        let text = described(
            r#"{:command ["python3" "a\nb"] :cwd "/else" :sampling true :client-id "me" :scopes ["all"]
                :env {"LD_PRELOAD" "/x/evil.so" "A" {:variable "HOME"} "B" {:key-of "anthropic" :prefix "k "}
                      "L" "one\u001b[2Jtwo"}}"#,
        );
        for expected in [
            "python3 'a\\u{A}b'\n",
            "\nvariable LD_PRELOAD: \"/x/evil.so\"\n",
            "\nvariable A: the variable HOME\n",
            "\nvariable B: \"k \" and the key of anthropic\n",
            "\nvariable L: \"one\\u{1B}[2Jtwo\"\n",
            "\nfolder: /else\n",
            "\nsampling: ",
            "\nclient of its login: me\n",
            "\nscopes of its login: all",
        ] {
            assert!(text.contains(expected), "{expected:?}: {text}");
        }
    }

    #[test]
    fn description_is_bounded_and_shows_no_key() {
        let text = described(
            r#"{:url "https://h.example" :headers {"Authorization" "Bearer canary-12345" "X-Api-Key" "canary"}
                :env {"MY_TOKEN" "canary" "U" "https://u:canary@h.example/?k=canary" "P" "--password canary-1"}}"#,
        );
        assert!(!text.contains("canary"), "{text}");
        let many: String =
            (0..MCP_DETAILS + 2).map(|n| format!("\"V{n}\" \"{}\" ", "x".repeat(9_999))).collect();
        let text = described(&format!("{{:command [\"a\"] :env {{{many}}}}}"));
        assert!(
            text.contains("… (10001 characters)") && text.ends_with("and 2 more, which /u lists"),
            "{text}"
        );
        assert!(text.len() < MCP_DETAILS * (crate::limits::PEER_DETAIL_CHARS + 60), "{}", text.len());
    }
}
