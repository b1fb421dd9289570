//! Calls between hosts of a realm: what is asked of a session's owner, and how the owner carries it out for the asker.
//!
//! A call is a typed call of the session API, as EDN by serde; no words of a wire cross. The owner makes it as a client of
//! its own ([`follower`](super::follower)), so that the rules for clients hold for other hosts too. A call that may take
//! long is answered when it begins; its end is asked for, for as long as the owner lives.

mod ask;
mod call;
mod dispatch;
mod queries;
mod questions;
mod reply;
mod response;
mod serve;

pub(super) use ask::{Owner, owner_elsewhere, stays_elsewhere};
pub(super) use call::RemoteCall;
pub(super) use questions::follow_owner;
pub use serve::take_request;
