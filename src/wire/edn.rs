//! The EDN wire: one EDN form a line.
//!
//! [`decode`] turns a line into a request or a reason for refusing it, and [`service`] serves it: it agrees on version
//! and features (`handshake`), keeps the subscriptions, and calls the session API through the [`router`]. [`events`]
//! turns events into lines, [`layout`] gives them their topics and keys, and [`encode`] writes them.

pub mod decode;
pub mod encode;
pub mod events;
mod handshake;
pub mod layout;
mod params;
mod replaying;
pub mod router;
pub mod service;
mod subscriptions;
