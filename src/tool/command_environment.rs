//! The variables of a model's commands: nobody can answer an editor, a pager or a question there.
//!
//! Knows names and values. Does not know who starts a command.

/// The variables, with the reason of each group.
const VARIABLES: &[(&str, &str)] = &[
    // Keeps the message of an amended commit and the list of a rebase. A commit without a message fails, and says so.
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    // Any other program that opens an editor fails at once.
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GH_PROMPT_DISABLED", "1"),
    ("PIP_NO_INPUT", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("TERM", "dumb"),
];

/// The variables with those of the configuration, where `None` takes one back.
pub fn variables(configured: &[(String, Option<String>)]) -> Vec<(String, String)> {
    let is_set = |name: &str| configured.iter().any(|(known, _)| known == name);
    let usual = VARIABLES.iter().filter(|(name, _)| !is_set(name));
    let usual = usual.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let own = configured.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
    usual.chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_changes_and_takes_back_variables() {
        let of = |name: &str, configured: &[(String, Option<String>)]| {
            variables(configured).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
        };
        assert_eq!(of("GIT_EDITOR", &[]).as_deref(), Some("true"));
        let own = [
            ("TERM".to_owned(), None),
            ("EDITOR".to_owned(), Some("ed".to_owned())),
            ("CI".to_owned(), Some("1".to_owned())),
        ];
        assert_eq!(of("TERM", &own), None);
        assert_eq!((of("EDITOR", &own).as_deref(), of("CI", &own).as_deref()), (Some("ed"), Some("1")));
        for name in ["CI", "NO_COLOR"] {
            assert_eq!(of(name, &[]), None, "it changes what tests do");
        }
    }
}
