//! The language model inside the process.
//!
//! [`file`] knows which file to load; [`engine`] (with the feature `embedded-model`) loads it and runs it on its
//! own thread. The first call loads the model, and it is unloaded after a while without calls. The engines of a
//! process share it: a daemon has several.

#[cfg(feature = "embedded-model")]
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream;

#[cfg(not(feature = "embedded-model"))]
use super::ErrorKind;
use super::{ChunkStream, ModelRequest, Provider, ProviderError};

#[cfg(feature = "embedded-model")]
mod engine;
mod file;
#[cfg(any(feature = "embedded-model", test))]
mod pieces;
#[cfg(any(feature = "embedded-model", test))]
mod processors;
#[cfg(any(feature = "embedded-model", test))]
mod shared;

pub use file::ModelFile;

/// The name of the provider.
pub const NAME: &str = "embedded";

/// Whether this program was built with the embedded model.
pub const COMPILED_IN: bool = cfg!(feature = "embedded-model");

/// The embedded model as a provider.
pub struct Embedded {
    /// `None` after the end.
    #[cfg(feature = "embedded-model")]
    engine: Mutex<Option<Arc<engine::Engine>>>,
    file: ModelFile,
}

/// The models that are in use in this process.
#[cfg(feature = "embedded-model")]
static IN_USE: shared::PerFile<engine::Engine> = shared::PerFile::new();

impl Embedded {
    /// A provider that loads that file on the first call. Touches nothing yet.
    pub fn new(file: ModelFile) -> Self {
        #[cfg(feature = "embedded-model")]
        return Self { engine: Mutex::new(Some(IN_USE.get(&file, engine::Engine::new))), file };
        #[cfg(not(feature = "embedded-model"))]
        Self { file }
    }
}

impl Provider for Embedded {
    fn name(&self) -> &str {
        NAME
    }

    fn is_ready(&self) -> bool {
        COMPILED_IN && self.file.is_there()
    }

    #[cfg(feature = "embedded-model")]
    fn stream(&self, request: ModelRequest) -> ChunkStream {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match engine {
            Some(engine) => engine.ask(request).unwrap_or_else(failed),
            None => failed(engine::ended()),
        }
    }

    #[cfg(feature = "embedded-model")]
    fn end(&self) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last one that uses it ends it.
        if let Some(engine) = engine.and_then(Arc::into_inner) {
            engine.end();
        }
    }

    #[cfg(not(feature = "embedded-model"))]
    fn stream(&self, _request: ModelRequest) -> ChunkStream {
        // Reported after a missing feature, because a missing file is easier to fix than the build.
        failed(ProviderError::new(
            ErrorKind::NotConfigured,
            "this program was built without the embedded model; build it with the feature \
             `embedded-model` (`make build` does), or choose another provider with --provider",
        ))
    }
}

fn failed(error: ProviderError) -> ChunkStream {
    Box::pin(stream::iter([Err(error)]))
}

#[cfg(all(test, not(feature = "embedded-model")))]
mod tests {
    use super::*;

    #[test]
    fn program_without_model_reports_it() {
        use futures_util::{FutureExt, StreamExt};
        let mut answer = Embedded::new(ModelFile::Given("any".into())).stream(ModelRequest::default());
        let error = answer.next().now_or_never().unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotConfigured);
        assert!(error.message.contains("`embedded-model`"), "{error}");
    }
}
