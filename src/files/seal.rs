//! The code of a command that must be as it was when somebody looked at it.
//!
//! Knows files and digests; does not know commands or configurations.

use std::path::{Path, PathBuf};

use crate::limits::TRUSTED_FILE_BYTES;
use crate::sha256;

/// Files, each with the SHA-256 of the content that it must have when a command runs. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seal {
    files: Vec<(PathBuf, String)>,
    is_trusted: bool,
}

/// A file of a command is not as it was, or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenSeal {
    /// One that a project was trusted with.
    #[error("{} has changed since the project was trusted (/trust)", .0.display())]
    Trusted(PathBuf),
    /// One of the user's own configuration, in a folder that commands may write to: a command may have changed it.
    #[error("{} has changed since the configuration was read (/reload takes it as it is)", .0.display())]
    Own(PathBuf),
}

impl BrokenSeal {
    /// The file.
    pub fn path(&self) -> &Path {
        let (Self::Trusted(path) | Self::Own(path)) = self;
        path
    }
}

impl Seal {
    /// Files of a project, with the digests that it was trusted with.
    pub const fn trusted(files: Vec<(PathBuf, String)>) -> Self {
        Self { files, is_trusted: true }
    }

    /// Files as they are now. Nobody was shown them, and a file that cannot be read whole is left out. Reads the disk.
    pub fn now(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let digest = |path: PathBuf| {
            let bytes = whole(&path)?;
            Some((path, sha256::hex(bytes)))
        };
        Self { files: paths.into_iter().filter_map(digest).collect(), is_trusted: false }
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Looks whether each file is as it was. Links are followed: what runs follows them too. Reads the disk.
    ///
    /// # Errors
    /// The first file that is not.
    pub fn check(&self) -> Result<(), BrokenSeal> {
        let holds = |path: &Path, digest: &str| whole(path).is_some_and(|bytes| sha256::hex(bytes) == digest);
        let changed = self.files.iter().find(|(path, digest)| !holds(path, digest));
        changed.map_or(Ok(()), |(path, _)| Err(self.broken_at(path)))
    }

    /// The same on a thread that may block.
    ///
    /// # Errors
    /// See [`Seal::check`].
    pub async fn verify(&self) -> Result<(), BrokenSeal> {
        let Some((first, _)) = self.files.first() else { return Ok(()) };
        let seal = self.clone();
        // Nobody has looked if the look ended without an answer.
        let looked = tokio::task::spawn_blocking(move || seal.check()).await;
        looked.unwrap_or_else(|_| Err(self.broken_at(first)))
    }

    fn broken_at(&self, path: &Path) -> BrokenSeal {
        if self.is_trusted { BrokenSeal::Trusted(path.to_owned()) } else { BrokenSeal::Own(path.to_owned()) }
    }
}

/// The content of a file that can be read whole.
pub fn whole(path: &Path) -> Option<Vec<u8>> {
    let bytes = path.canonicalize().and_then(|real| super::read(&real, TRUSTED_FILE_BYTES)).ok()?;
    u64::try_from(bytes.len()).is_ok_and(|length| length < TRUSTED_FILE_BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn file_that_is_changed_exchanged_or_gone_breaks_the_seal() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.sh"), folder.path().join("b.sh"));
        std::fs::write(&path, "1").unwrap();
        std::fs::write(&other, "2").unwrap();
        let own = Seal::now([path.clone(), folder.path().join("missing")]);
        let trusted = Seal::trusted(vec![(path.clone(), sha256::hex("1"))]);
        assert_eq!(own.paths().collect::<Vec<_>>(), [&path]);
        assert_eq!((own.verify().await, trusted.verify().await), (Ok(()), Ok(())));
        let broken = [BrokenSeal::Own(path.clone()), BrokenSeal::Trusted(path.clone())];
        let change: [&dyn Fn(); 3] = [
            &|| std::fs::write(&path, "2").unwrap(),
            &|| {
                std::fs::remove_file(&path).unwrap();
                std::os::unix::fs::symlink(&other, &path).unwrap();
            },
            &|| std::fs::remove_file(&path).unwrap(),
        ];
        for change in change {
            change();
            let found = [own.verify().await.unwrap_err(), trusted.verify().await.unwrap_err()];
            assert_eq!(found, broken);
        }
        assert_eq!(Seal::default().verify().await, Ok(()));
    }
}
