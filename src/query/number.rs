//! The numbers of attributes and resolvers, and sets of them, so that planning and running compare no text.

/// An attribute, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attr(pub(super) u16);

/// A resolver, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResolverId(pub(super) u16);

impl Attr {
    pub(super) fn place(self) -> usize {
        usize::from(self.0)
    }
}

impl ResolverId {
    pub(super) fn place(self) -> usize {
        usize::from(self.0)
    }
}

/// The maximum of attributes and of resolvers in a graph.
pub(super) const MOST: usize = 512;

/// A set of attributes or resolvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bits([u64; MOST / 64]);

impl Bits {
    /// Whether it is in the set.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// Adds it; false if it is already in the set.
    pub fn add(&mut self, at: usize) -> bool {
        let bit = 1 << (at % 64);
        match self.0.get_mut(at / 64) {
            Some(word) => {
                let new = *word & bit == 0;
                *word |= bit;
                new
            }
            None => false,
        }
    }

    /// Removes it.
    pub fn remove(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }
}
