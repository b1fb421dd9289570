//! What a person has allowed an agent, and it has not done yet.

use std::sync::Arc;

use crate::sha256;
use crate::tool::permission::Access;

/// What a person has allowed, and the agent has not done yet: each is used once, and ends with its call.
#[derive(Default)]
pub(super) struct Permits(Vec<(Arc<str>, Permit)>);

/// A part of an act that was allowed: just this, and with just this text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Permit {
    pub(super) access: Access,
    /// Of a file that is written.
    pub(super) text: Option<PermittedText>,
}

/// A change of a file that a person saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PermittedText {
    /// The digest of the text that the file is to have.
    pub(super) digest: String,
    /// The change that was shown. The agent says itself what was there before.
    pub(super) diff: String,
}

impl Permits {
    /// Forgets those of a call that is over.
    pub(super) fn forget(&mut self, call: &str) {
        self.0.retain(|(of, _)| **of != *call);
    }

    /// Adds those of a call.
    pub(super) fn add(&mut self, call: &Arc<str>, permits: Vec<Permit>) {
        self.0.extend(permits.into_iter().map(|permit| (call.clone(), permit)));
    }

    /// Uses the permit for just this, if there is one. `text` is what a file is to have.
    pub(super) fn take(&mut self, access: &Access, text: Option<&str>) -> Option<Permit> {
        let digest = text.map(sha256::hex);
        let fits = |permit: &Permit| {
            permit.access == *access && permit.text.as_ref().map(|text| &text.digest) == digest.as_ref()
        };
        let place = self.0.iter().position(|(_, permit)| fits(permit))?;
        Some(self.0.remove(place).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::permission::Run;

    #[test]
    fn permit_is_used_once_and_for_what_was_seen() {
        let mut permits = Permits::default();
        let call: Arc<str> = "c".into();
        let write = |path: &str| Access::Write(path.into());
        let text = || Some(PermittedText { digest: sha256::hex("text"), diff: "+text".to_owned() });
        permits.add(&call, vec![Permit { access: write("/w/a.txt"), text: text() }]);
        assert_eq!(permits.take(&write("/w/a.txt"), Some("other text")), None);
        assert_eq!(permits.take(&write("/w/b.txt"), Some("text")), None);
        assert!(permits.take(&write("/w/a.txt"), Some("text")).is_some());
        assert_eq!(permits.take(&write("/w/a.txt"), Some("text")), None, "used");
        let run =
            |folder: Option<&str>| Access::Run(Run { folder: folder.map(Into::into), ..Run::line("ls -l") });
        permits.add(
            &call,
            vec![
                Permit { access: write("/w/a.txt"), text: text() },
                Permit { access: run(None), text: None },
            ],
        );
        permits.forget("other");
        assert_eq!(permits.take(&run(Some("/o")), None), None, "elsewhere");
        assert!(permits.take(&run(None), None).is_some());
        assert_eq!(permits.take(&run(None), None), None, "used");
        permits.forget("c");
        assert_eq!(permits.take(&write("/w/a.txt"), Some("text")), None, "it ends with its call");
    }
}
