//! The account of a request, so that data of one account never goes to another. Journals keep a digest alone.

use std::fmt;
use std::sync::Arc;

use crate::message::Message;
use crate::sha256;
use crate::value::Value;

/// An account at an address.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    base: &'a str,
    /// Its mark among others: a key, or words for where the key comes from.
    who: &'a str,
}

/// Without the key and the address, which may have one.
impl fmt::Debug for Account<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Account")
    }
}

/// Digits of a mark's salt, and of its digest.
const SALT: usize = 16;
const DIGEST: usize = 32;

impl<'a> Account<'a> {
    /// The account behind a key, or behind words for a source of keys, at a base address.
    pub fn new(base: &'a str, who: &'a str) -> Self {
        Self { base, who }
    }

    /// The mark of the account in a conversation: `SALT:DIGEST`. One conversation has one salt, so that the marks of two
    /// cannot be compared, and those of one answer are computed once.
    pub fn mark(&self, conversation: &[Arc<Message>]) -> String {
        let known = conversation.iter().rev().flat_map(|message| &message.replays);
        let salt = known
            .filter_map(|replay| replay.data.get("account")?.as_str())
            .find_map(|mark| mark.split_once(':'));
        let salt = match salt {
            Some((salt, _)) => salt.to_owned(),
            None => uuid::Uuid::new_v4().simple().to_string().chars().take(SALT).collect(),
        };
        let digest = self.digest(&salt);
        format!("{salt}:{digest}")
    }

    /// Whether a mark is that of this account.
    pub fn is(&self, mark: &Value<'_>) -> bool {
        let mark = mark.as_str().and_then(|mark| mark.split_once(':'));
        mark.is_some_and(|(salt, digest)| self.digest(salt) == digest)
    }

    fn digest(&self, salt: &str) -> String {
        let digest = sha256::hex(format!("{salt}\n{}\n{}", self.base, self.who));
        digest.get(..DIGEST).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_tells_accounts_and_shows_no_key() {
        let account = Account::new("http://a", "key sk-canary");
        let mark = account.mark(&[]);
        assert!(account.is(&Value::from(mark.clone())));
        for (base, who) in [("http://b", "key sk-canary"), ("http://a", "key other"), ("http://a", "login")] {
            assert!(!Account::new(base, who).is(&Value::from(mark.clone())), "{base} {who}");
        }
        assert!(
            !account.is(&Value::from("no mark")) && mark != account.mark(&[]),
            "each conversation has its salt"
        );
        assert!(!format!("{account:?} {mark}").contains("canary"), "{account:?} {mark}");
    }
}
