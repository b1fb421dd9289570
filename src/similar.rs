//! "Did you mean": the names that are most similar to an unknown one. Does not know what the names are for.

use crate::limits::SIMILAR_NAME_BYTES;

/// Up to `most` of those whose name is similar to `name`, most similar first, then by name.
pub fn nearest<N: AsRef<str> + Ord, T>(
    name: &str,
    most: usize,
    all: impl IntoIterator<Item = (N, T)>,
) -> Vec<T> {
    // The distance costs the product of both lengths.
    if name.len() > SIMILAR_NAME_BYTES {
        return Vec::new();
    }
    let distance = |other: &N| strsim::damerau_levenshtein(name, other.as_ref());
    let mut found: Vec<(usize, N, T)> = all
        .into_iter()
        .map(|(other, it)| (distance(&other), other, it))
        // With more than half of its letters wrong it is a different name.
        .filter(|(distance, other, _)| *distance <= other.as_ref().len().max(name.len()) / 2)
        .collect();
    found.sort_by(|(distance, name, _), (other, other_name, _)| (distance, name).cmp(&(other, other_name)));
    found.into_iter().take(most).map(|(.., it)| it).collect()
}

/// How alike two names are, from 0 to 1: a common beginning counts most.
pub fn likeness(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(one, other)
}

/// Up to three names that are similar to `name`.
pub fn names<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    nearest(name, 3, names.into_iter().map(|name| (name, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_too_long_to_compare_is_like_no_other() {
        let longest = "a".repeat(SIMILAR_NAME_BYTES);
        assert_eq!(names(&longest, [longest.as_str()]), [longest.as_str()]);
        let longer = format!("{longest}a");
        assert_eq!(names(&longer, [longer.as_str()]), [""; 0]);
    }
}
