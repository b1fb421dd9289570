//! The versions of the protocol, and which one an editor gets. Knows no shape.

/// A version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// The stable one.
    #[default]
    One,
    /// The draft.
    Two,
}

impl Version {
    /// All of ours, oldest first.
    pub const ALL: [Self; 2] = [Self::One, Self::Two];

    /// Its number on the wire.
    pub const fn number(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// Whether a prompt is answered once its message is in the conversation, and updates of the session's state say
    /// when its turn ends. Otherwise the answer says that.
    pub const fn tells_states(self) -> bool {
        matches!(self, Self::Two)
    }

    /// The newest version of ours that is no newer than the one that an editor asks for.
    pub fn at_most(asked: i64) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|version| i64::from(version.number()) <= asked)
    }
}
