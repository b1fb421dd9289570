//! SHA-256, as hexadecimal digits. Does not know what the bytes are.

use sha2::Digest as _;

/// The digest of some bytes, in 64 hexadecimal digits.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    let mut digest = Running::default();
    digest.add(bytes);
    digest.hex()
}

/// The digest of bytes that come one after another.
#[derive(Debug, Clone, Default)]
pub struct Running(sha2::Sha256);

impl Running {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far.
    pub fn hex(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_that_of_the_standard_in_one_piece_or_many() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex("abc"), expected);
        let mut pieces = Running::default();
        ["a", "", "bc"].into_iter().for_each(|piece| pieces.add(piece));
        assert_eq!(pieces.hex(), expected);
    }
}
