//! Secret text: keys and tokens.
//!
//! A [`Secret`] has no `Display` and no conversion into a value or an event. Its `Debug` output hides it, and
//! its memory is wiped when it is dropped. A search for `expose` finds every place where a secret leaves the
//! process.
//!
//! [`mask`] finds secrets that the process does not know, by their form, in texts that only describe something.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use secrecy::{ExposeSecret as _, SecretString};

/// The replacement for a secret.
const MASK: &str = "[secret]";

/// Shorter secrets are not searched for in texts, because ordinary words would contain them.
const SHORTEST: usize = 6;

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a text and owns its memory.
    pub fn new(text: String) -> Self {
        Self(SecretString::from(text))
    }

    /// The text, only for code that sends or stores it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }

    /// A foreign text, such as a server's error, without this secret.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let secret = self.expose();
        if secret.len() < SHORTEST || !text.contains(secret) {
            return text.into();
        }
        text.replace(secret, MASK).into()
    }
}

/// The forms of a secret. The first group of each is what is masked. A text is also masked where a person allows it, so none
/// but those of [`KEY_LINES`] goes beyond a line, or hides a word that a shell would run: `PASSWORD= x` and `TOKEN=bearer x` run
/// x.
const FORMS: &[&str] = &[
    // password=…, "api_key": "…", GITHUB_TOKEN=…, --secret …, "the password is …", Authorization: Bearer …
    r"(?i)(?:\b|_|-)(?:authorization|passw(?:or)?d|passphrase|pwd|secret|token|credentials?|(?:api|access|private|secret)[-_ ]?key)(?:[-_](?:key|id))?\b[\x22\x27]?(?:(?:[ \t]*:[ \t]*|[ \t]+=[ \t]*|[ \t]+(?:is|was)[ \t]+)[\x22\x27]?(?:(?:bearer|basic|token)[ \t]+)?|=(?:[\x22\x27](?:(?:bearer|basic|token)[ \t]+)?)?)([^\s\x22\x27\x60,;&|()$<>]{3,})",
    r"(?i)--(?:[a-z]+-)*(?:password|passphrase|secret|token|key)[ \t]+[\x22\x27]?([^\s\x22\x27\x60;&|()$<>-][^\s\x22\x27\x60;&|()$<>]{2,})",
    r"(?i)(?:^|[^\w=])(?:bearer|basic)[ \t]+([a-z0-9._~+/=-]{8,})",
    // The user's password in a URL.
    r"://[^/\s:@]*:([^/\s@$\x22\x27\x60;|&()<>]+)@",
    // The prefixes that services give their keys, and a JSON web token.
    r"\b((?:sk|rk|pk)[-_][A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|glpat-[A-Za-z0-9_-]{8,}|xox[abeprs]-[A-Za-z0-9-]{8,}|A[KS]IA[0-9A-Z]{12,}|AIza[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{16,}|hf_[A-Za-z0-9]{16,}|pypi-[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
];

/// The forms of the lines of a private key. In a command, such a line may be the path of a program.
const KEY_LINES: &[&str] = &[
    // Up to its end, or as far as they go. No other text between them, such as a command.
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----((?:\s|\\[nr])*(?:(?:Proc-Type|DEK-Info): [A-Za-z0-9,-]+(?:\s|\\[nr])+)*[A-Za-z0-9+/=]{40,}(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{40,})*(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{1,76})?)(?:\s|\\[nr])*-----END",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----((?:\s|\\[nr])*(?:(?:Proc-Type|DEK-Info): [A-Za-z0-9,-]+(?:\s|\\[nr])+)*[A-Za-z0-9+/=]{40,}(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{40,})*)",
];

/// The warning of a question about a masked text: all of it is allowed.
pub const IS_MASKED: &str =
    "What has the form of a key or a password is shown as [secret]. It is in what you allow.";

/// The forms as one set; `None` only if a form is no regular expression, which a test excludes.
static SECRETS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new_many(&[FORMS, KEY_LINES].concat()).ok());

/// The forms that hide nothing of a command that would run.
static SECRETS_OF_COMMANDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new_many(FORMS).ok());

/// A description without what has the form of a key, token or password. It finds the usual forms and no others:
/// no boundary, only less to be read over a shoulder.
pub fn mask(text: &str) -> Cow<'_, str> {
    masked_by(SECRETS.as_ref(), text)
}

/// A command that a person is asked about, masked so that all that would run is seen.
pub fn mask_command(text: &str) -> Cow<'_, str> {
    masked_by(SECRETS_OF_COMMANDS.as_ref(), text)
}

fn masked_by<'t>(secrets: Option<&Regex>, text: &'t str) -> Cow<'t, str> {
    let Some(secrets) = secrets else { return text.into() };
    let mut masked = String::new();
    let mut end = 0;
    for found in secrets.captures_iter(text) {
        let Some(secret) = found.get_group(1) else { continue };
        // The scheme of a header whose value comes from a variable.
        let scheme = text.get(secret.range()).unwrap_or_default();
        if ["bearer", "basic", "token"].iter().any(|name| scheme.eq_ignore_ascii_case(name)) {
            continue;
        }
        masked.push_str(text.get(end..secret.start).unwrap_or_default());
        masked.push_str(MASK);
        end = secret.end;
    }
    if end == 0 {
        return text.into();
    }
    masked.push_str(text.get(end..).unwrap_or_default());
    masked.into()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_hides_secrets_of_every_form() {
        for (text, masked) in [
            ("curl -H 'Authorization: Bearer abc.def-123' x", "curl -H 'Authorization: Bearer [secret]' x"),
            ("curl -H \"X-Api-Key: 12345\" x", "curl -H \"X-Api-Key: [secret]\" x"),
            ("say bearer abcdefgh12 loud", "say bearer [secret] loud"),
            ("DB_PASSWORD=hunter2 ./run", "DB_PASSWORD=[secret] ./run"),
            ("AWS_SECRET_ACCESS_KEY=abc/def+g ls", "AWS_SECRET_ACCESS_KEY=[secret] ls"),
            ("mysql --password hunter2 -u me", "mysql --password [secret] -u me"),
            ("tool --api-key=k-123", "tool --api-key=[secret]"),
            ("Log in: the password is hunter2.", "Log in: the password is [secret]"),
            ("{\"token\": \"abc\"}", "{\"token\": \"[secret]\"}"),
            ("git clone https://me:pass@host/x", "git clone https://me:[secret]@host/x"),
            ("use sk-ant-REDACTED now", "use [secret] now"),
            ("ghp_abcdefghijklmnop and AKIAABCDEFGHIJKLMNOP", "[secret] and [secret]"),
        ] {
            assert_eq!(mask(text), masked, "{text}");
        }
    }

    #[test]
    fn mask_hides_the_lines_of_a_private_key_and_no_command() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let (begin, end) = ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----");
        for (key, masked) in [
            (format!("\n{line}\n{line}\nMz8=\n"), "[secret]\n".to_owned()),
            (format!("\\n{line}\\nMz8=\\n"), "[secret]\\n".to_owned()),
            (
                format!("\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{line}\n"),
                "[secret]\n".to_owned(),
            ),
        ] {
            assert_eq!(mask(&format!("a {begin}{key}{end} b")), format!("a {begin}{masked}{end} b"));
        }
        // Without its end, as far as it goes.
        assert_eq!(mask(&format!("{begin}\n{line}\nrm -rf x")), format!("{begin}[secret]\nrm -rf x"));
        for command in ["\nrm -rf x", "; rm -rf x", "\ntouch x\n", " abc ", "\nabc\n; rm x\n"] {
            for text in [format!(": {begin}{command}"), format!(": {begin}{command}{end}")] {
                assert_eq!(mask(&text), text);
            }
        }
    }

    #[test]
    fn mask_hides_nothing_that_a_shell_would_run() {
        for text in [
            "PASSWORD=`touch${IFS}x` ls",
            "PASSWORD=$(touch${IFS}x) ls",
            "tool --password abc`touch${IFS}x`",
            "tool --password abc$(touch${IFS}x)",
            "curl https://me:ab$(touch${IFS}x)@host/",
            "curl https://me:ab`touch${IFS}x`@host/",
            "TOKEN=abc;touch${IFS}x",
            "PASSWORD= touch${IFS}x",
            "PASSWORD=bearer touch${IFS}x",
            "tool --password\ntouch${IFS}x",
        ] {
            assert!(mask(text).contains("touch${IFS}x"), "{text}: {}", mask(text));
        }
        let path = format!("/{}", "a".repeat(50));
        for text in [
            format!("PASSWORD= {path}"),
            format!("PASSWORD=\n{path}"),
            format!("TOKEN=bearer {path}"),
            format!("TOKEN=\"\"\n{path}"),
            format!("echo password:\n{path}"),
            format!("tool --key\n{path}"),
            format!("echo basic\n{path}"),
            format!(": -----BEGIN PRIVATE KEY-----\n{path}"),
            format!(": -----BEGIN PRIVATE KEY-----\n{path}\nmake\n-----END"),
        ] {
            assert_eq!(mask_command(&text), text);
        }
    }

    #[test]
    fn mask_leaves_ordinary_text_alone() {
        for text in [
            "",
            "cargo test --lib token",
            "Explain how the token bucket works and what a secret is.",
            "curl -H \"Authorization: Bearer $TOKEN\" x",
            "TOKEN=$(cat file) ./run",
            "rg 'password:' src",
            "http://localhost:8080/a@b",
            "Sort the keys; the key is in the map.",
        ] {
            assert_eq!(mask(text), text);
        }
    }

    #[test]
    fn secret_debug_shows_nothing() {
        let secret = Secret::new("sk-1234567".into());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "[secret] Some([secret])");
        assert_eq!(secret.redact("the key sk-1234567 is wrong"), "the key [secret] is wrong");
        assert_eq!(secret.expose(), "sk-1234567");
        assert_eq!(Secret::new("a".into()).redact("a b"), "a b");
        assert_eq!(Secret::new(String::new()).redact("a b"), "a b");
    }
}
