//! Checks of the contract that this server does not pass yet, each with what is to come for it. A check
//! that passes must leave the list: a test says so. A topic stands here until something real emits it.

/// The check, and what it waits for.
pub const OPEN: &[(&str, &str)] = &[
    ("topic.ui/widgets-updated", "the workflows"),
    ("topic.ui/widget-specs-updated", "the workflows"),
    ("topic.ui/status-updated", "the workflows"),
    ("topic.ui/notification", "a job or a workflow that ends while the runner looks"),
    ("topic.error", "failures that no request waits for"),
];
