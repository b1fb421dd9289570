//! The EDN wire: one EDN form a line.
//!
//! [`decode`] turns a line into a request or a reason for refusing it. [`router`] calls the session API, and
//! `handshake` agrees on version and features. [`encode`] writes responses, errors and events, and [`layout`] gives
//! events their keys.

pub mod decode;
pub mod encode;
mod handshake;
pub mod layout;
pub mod router;
