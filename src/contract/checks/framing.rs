//! Lines.
