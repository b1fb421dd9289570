//! How names of Rust are written in EDN.

/// A field's or a variant's name in kebab case: `session_id` and `SessionId` are `session-id`.
pub(super) fn kebab(name: &str) -> String {
    kebab_chars(name).collect()
}

/// The characters of [`kebab`].
pub(super) fn kebab_chars(name: &str) -> impl Iterator<Item = char> {
    let before = std::iter::once('_').chain(name.chars());
    name.chars().zip(before).flat_map(|(c, before)| {
        let starts_word = c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit());
        let c = if c == '_' { '-' } else { c.to_ascii_lowercase() };
        starts_word.then_some('-').into_iter().chain([c])
    })
}
