//! What happens to an event when a client is slow. Knows no event and no wire.

/// The delivery class of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Neither dropped nor merged, except for a client that has fallen behind and can be shown it anew.
    Lossless,
    /// Adjacent deltas of one stream are merged. No text is lost, except for a client that has fallen behind.
    Coalescible,
    /// A newer event replaces an older one that was not sent yet.
    Latest,
}

impl Class {
    /// The name in documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Coalescible => "coalescible",
            Self::Latest => "latest",
        }
    }
}
