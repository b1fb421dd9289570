//! Images in messages: which types there are, and what a client may send. Decodes no picture: checks the type, the
//! size and the Base64.

use std::io::Read as _;
use std::sync::Arc;

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use serde::{Deserialize, Serialize};

use crate::limits::IMAGE_BYTES;

/// An image that models take: of a known type, and no larger than [`IMAGE_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(Arc<str>, Arc<str>)", try_from = "(Arc<str>, Arc<str>)")]
pub struct Image {
    mime_type: Arc<str>,
    data: Arc<str>,
}

/// Bytes of an image in which its sides mostly stand, in base64.
const HEAD: usize = 64 * 1024;

/// The width and height of an image in base64, in pixels; `None` if its head cannot be read.
pub fn sides(data: &str) -> Option<(usize, usize)> {
    let read = |data: &str| {
        let mut bytes = Vec::new();
        DecoderReader::new(data.as_bytes(), &STANDARD).read_to_end(&mut bytes).ok()?;
        imagesize::blob_size(&bytes).ok().map(|size| (size.width, size.height))
    };
    // The sides of a JPEG stand behind its previews.
    data.get(..HEAD).and_then(read).or_else(|| read(data))
}

/// Checks an image in base64 that a tool gives, and returns the type that its bytes have.
///
/// # Errors
/// See [`ImageError`].
pub fn checked(data: &str) -> Result<&'static str, ImageError> {
    let found = type_of_base64(data).ok_or(ImageError::UnknownType)?;
    let image = Image::from_base64(found, data)?;
    sides(&image.data).map(|_| found).ok_or(ImageError::NoSides)
}

/// Why an image is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The data is not base64 with padding (RFC 4648, section 4).
    #[error("its data is not base64")]
    NotBase64,
    /// It is larger than models take.
    #[error("it has more than {IMAGE_BYTES} bytes")]
    TooLarge,
    /// Its first bytes are those of no known type.
    #[error("it is neither PNG, JPEG, GIF nor WebP")]
    UnknownType,
    /// Its head does not say how large it is: it is cut, or only begins like an image.
    #[error("it cannot be read as an image")]
    NoSides,
    /// Its bytes are of another type than it says; contains their type. A hosted model refuses such a message.
    #[error("its bytes are {0}")]
    OtherType(&'static str),
}

impl Image {
    /// Checks an image as a client sends it: its MIME type, and its bytes in base64.
    ///
    /// # Errors
    /// See [`ImageError`].
    pub fn from_base64(mime_type: &str, data: &str) -> Result<Self, ImageError> {
        let mut bytes = DecoderReader::new(data.as_bytes(), &STANDARD);
        let (mut start, mut size) = (Vec::new(), 0);
        let read = bytes.by_ref().take(TYPE_BYTES).read_to_end(&mut start);
        size += read.map_err(|_| ImageError::NotBase64)? as u64;
        size += std::io::copy(&mut bytes, &mut std::io::sink()).map_err(|_| ImageError::NotBase64)?;
        match type_of(&start).ok_or(ImageError::UnknownType)? {
            found if found != mime_type => Err(ImageError::OtherType(found)),
            _ if size > IMAGE_BYTES => Err(ImageError::TooLarge),
            _ => Ok(Self { mime_type: mime_type.into(), data: data.into() }),
        }
    }

    /// The MIME type and the bytes in base64.
    pub fn into_parts(self) -> (Arc<str>, Arc<str>) {
        (self.mime_type, self.data)
    }

    /// The same, borrowed.
    pub fn parts(&self) -> [&str; 2] {
        [&self.mime_type, &self.data]
    }
}

impl From<Image> for (Arc<str>, Arc<str>) {
    fn from(image: Image) -> Self {
        image.into_parts()
    }
}

impl TryFrom<(Arc<str>, Arc<str>)> for Image {
    type Error = ImageError;

    fn try_from((mime_type, data): (Arc<str>, Arc<str>)) -> Result<Self, ImageError> {
        Self::from_base64(&mime_type, &data)
    }
}

/// Bytes that tell the type.
const TYPE_BYTES: u64 = 12;

/// Characters of base64 that hold them.
const TYPE_CHARACTERS: usize = 16;

/// The MIME types of images that models take.
pub const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The MIME type of an image in base64, by its first bytes.
pub fn type_of_base64(data: &str) -> Option<&'static str> {
    let start = data.get(..TYPE_CHARACTERS).unwrap_or(data);
    let bytes = base64::Engine::decode(&STANDARD, start).ok()?;
    type_of(&bytes)
}

/// The MIME type of an image by its first bytes.
pub fn type_of(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    #[test]
    fn image_of_a_tool_is_one_with_sides() {
        const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        for (data, expected) in [
            (DOT, Ok("image/png")),
            ("iVBORw0KGgo=", Err(ImageError::NoSides)),
            ("PHN2Zy8+", Err(ImageError::UnknownType)),
            ("", Err(ImageError::UnknownType)),
            ("iVBORw0KGgoAAAANSUhEUgAAAAE!", Err(ImageError::NotBase64)),
        ] {
            assert_eq!(checked(data), expected, "{data}");
        }
    }

    #[test]
    fn image_of_a_client_is_checked() {
        let png = |size: usize| {
            let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
            bytes.resize(size, 0);
            STANDARD.encode(bytes)
        };
        let most = usize::try_from(IMAGE_BYTES).unwrap();
        for (mime_type, data, expected) in [
            ("image/png", png(8), None),
            ("image/png", png(most), None),
            ("image/png", png(most + 1), Some(ImageError::TooLarge)),
            ("image/jpeg", png(8), Some(ImageError::OtherType("image/png"))),
            ("image/png", STANDARD.encode("<svg/>"), Some(ImageError::UnknownType)),
            ("image/png", String::new(), Some(ImageError::UnknownType)),
            ("image/png", "iVBORw0KGgo".to_owned(), Some(ImageError::NotBase64)),
            ("image/png", "no base64!".to_owned(), Some(ImageError::NotBase64)),
            ("image/png", format!("{}\u{1f600}", png(300)), Some(ImageError::NotBase64)),
        ] {
            let start: String = data.chars().take(20).collect();
            assert_eq!(Image::from_base64(mime_type, &data).err(), expected, "{mime_type} {start}");
        }
    }
}
