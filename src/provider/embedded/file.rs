//! The file of the embedded model: which it is, and whether it can be loaded.
//!
//! Knows names, sizes and digests. Does not know how a model runs.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::private;
use crate::provider::downloads::{self, FileState, KnownModel};
use crate::provider::{ErrorKind, ProviderError, fetch};

/// The file of the embedded model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFile {
    /// A model that the program downloads into a state folder. Checked by size and SHA-256.
    Known {
        /// The model.
        model: &'static KnownModel,
        /// The state folder.
        state_dir: PathBuf,
    },
    /// A GGUF file that the user named.
    Given(PathBuf),
}

impl ModelFile {
    /// The file of `--model-file`, or else the default model of a state folder.
    pub fn choose(chosen: Option<PathBuf>, state_dir: &Path) -> Self {
        match chosen {
            Some(path) => Self::Given(path),
            None => Self::Known { model: &downloads::SMOLLM2, state_dir: state_dir.to_owned() },
        }
    }

    /// Whether there is a file to load, judged by its name and size alone.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Known { model, state_dir } => {
                downloads::status(model, state_dir).state == FileState::Installed
            }
            Self::Given(path) => path.is_file(),
        }
    }

    /// Checks the file and returns its path.
    ///
    /// # Errors
    /// `NotConfigured` if the file is missing; `Fatal` if it is damaged, not a GGUF file or unreadable. The
    /// message says what to do.
    pub fn check(&self) -> Result<PathBuf, ProviderError> {
        match self {
            Self::Known { model, state_dir } => check_known(model, state_dir),
            Self::Given(path) => check_given(path),
        }
    }
}

fn check_known(model: &'static KnownModel, state_dir: &Path) -> Result<PathBuf, ProviderError> {
    let downloads::ModelOnDisk { path, state, .. } = downloads::status(model, state_dir);
    match state {
        FileState::Missing => Err(ProviderError::new(
            ErrorKind::NotConfigured,
            format!(
                "the embedded model is not there ({}); run `edn-bridge models fetch` once, \
                 name a GGUF file with --model-file FILE, or choose another model with --provider and --model",
                path.display()
            ),
        )),
        FileState::WrongSize { found } => Err(ProviderError::new(
            ErrorKind::Fatal,
            format!(
                "the model file {} is damaged ({found} bytes instead of {}); \
                 run `edn-bridge models fetch` to get it again",
                path.display(),
                model.size
            ),
        )),
        FileState::Installed => match fetch::verify(model, &path) {
            Ok(()) => Ok(path),
            Err(error @ fetch::FetchError::Damaged { .. }) => {
                Err(ProviderError::new(ErrorKind::Fatal, error.to_string()))
            }
            Err(error) => Err(unreadable(&path, &error.to_string())),
        },
    }
}

fn check_given(path: &Path) -> Result<PathBuf, ProviderError> {
    const MAGIC: [u8; 4] = *b"GGUF";
    let mut start = [0; MAGIC.len()];
    match private::open_to_read(path).and_then(|mut file| file.read_exact(&mut start)) {
        Ok(()) if start == MAGIC => Ok(path.to_owned()),
        Ok(()) => Err(not_gguf(path)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(not_gguf(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ProviderError::new(
            ErrorKind::NotConfigured,
            format!(
                "the model file {} does not exist; name another with --model-file FILE, \
                 or run `edn-bridge models fetch` and leave the option out",
                path.display()
            ),
        )),
        Err(error) => Err(unreadable(path, &error.to_string())),
    }
}

fn not_gguf(path: &Path) -> ProviderError {
    ProviderError::new(
        ErrorKind::Fatal,
        format!(
            "the model file {} is no GGUF file; name another with --model-file FILE, \
             or run `edn-bridge models fetch` and leave the option out",
            path.display()
        ),
    )
}

fn unreadable(path: &Path, reason: &str) -> ProviderError {
    ProviderError::new(
        ErrorKind::Fatal,
        format!(
            "the model file {} cannot be read ({reason}); name another with --model-file FILE",
            path.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::provider::downloads::TINY;

    #[test]
    fn unusable_model_file_error_says_what_to_do() {
        let state = tempfile::tempdir().unwrap();
        let models = downloads::models_folder(state.path());
        fs::create_dir_all(&models).unwrap();
        let known_file = models.join(TINY.file);
        let given = state.path().join("other.gguf");
        let check = |given: Option<&Path>| {
            let known = ModelFile::Known { model: &TINY, state_dir: state.path().to_owned() };
            given.map_or(known, |path| ModelFile::Given(path.to_owned())).check().unwrap_err()
        };

        let error = check(None);
        assert_eq!(error.kind, ErrorKind::NotConfigured);
        assert!(error.message.contains("`edn-bridge models fetch`"), "{error}");
        assert!(error.message.contains("--model-file FILE"), "{error}");

        fs::write(&known_file, "half a model").unwrap();
        let error = check(None);
        assert_eq!(error.kind, ErrorKind::Fatal);
        assert!(error.message.contains("12 bytes instead of 6"), "{error}");

        fs::write(&known_file, "wrong!").unwrap();
        let error = check(None);
        assert_eq!(error.kind, ErrorKind::Fatal);
        assert!(error.message.contains("SHA-256"), "{error}");

        assert_eq!(check(Some(&given)).kind, ErrorKind::NotConfigured);
        for content in ["", "GG", "#!/bin/sh"] {
            fs::write(&given, content).unwrap();
            let error = check(Some(&given));
            assert_eq!(error.kind, ErrorKind::Fatal, "{content:?}");
            assert!(error.message.contains("no GGUF file"), "{error}");
        }
        fs::write(&given, "GGUF and more").unwrap();
        assert_eq!(ModelFile::Given(given.clone()).check(), Ok(given));
    }
}
