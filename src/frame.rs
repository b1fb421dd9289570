//! Frames: the content of one line of the wire.
//!
//! [`split`] cuts bytes into lines. [`decode`] turns a line into a [`Request`] or a reason for refusing it.
//! [`encode`] writes responses, errors and events, and [`payload`] lays events out. This room knows EDN and the
//! catalogue's names; it knows neither connections nor sessions.

pub mod decode;
pub mod encode;
pub mod payload;
pub mod split;

pub use decode::{Rejection, Request};
pub use encode::Style;
pub use split::{Line, Splitter};
