//! What the engines of one process share, for as long as one of them uses it: one thing for each model file.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::file::ModelFile;

/// One thing for each file.
pub(super) struct PerFile<T>(Mutex<Vec<(ModelFile, Weak<T>)>>);

impl<T> PerFile<T> {
    /// Nothing yet.
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The thing of a file, which is made unless somebody uses it already.
    pub(super) fn get(&self, file: &ModelFile, make: impl FnOnce(ModelFile) -> T) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, used)| used.strong_count() > 0);
        if let Some(used) = all.iter().find(|(known, _)| known == file).and_then(|(_, used)| used.upgrade()) {
            return used;
        }
        let made = Arc::new(make(file.clone()));
        all.push((file.clone(), Arc::downgrade(&made)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_with_one_file_share_what_they_use() {
        let (all, file) = (PerFile::new(), |name: &str| ModelFile::Given(name.into()));
        let one = all.get(&file("a"), |_| 1);
        let again = all.get(&file("a"), |_| 2);
        assert!(Arc::ptr_eq(&one, &again));
        assert_eq!(*all.get(&file("b"), |_| 3), 3);
        drop(one);
        assert_eq!(*all.get(&file("a"), |_| 4), 1, "the other one uses it still");
        drop(again);
        assert_eq!(*all.get(&file("a"), |_| 5), 5);
    }
}
