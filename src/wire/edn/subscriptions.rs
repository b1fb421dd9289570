//! What a client of the EDN wire receives: its topics, and whether it answers questions. Knows topics, not events.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::catalogue::{TOPICS, Topic};
use crate::value::{Map, Value};

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// The subscribed topics, one bit each.
    topics: AtomicU64,
    /// Whether the client answers typed questions.
    interactor: AtomicBool,
    /// Whether the client subscribed to the dialog topic by name.
    dialogs: AtomicBool,
}

impl Subscriptions {
    /// Agrees whether the client answers typed questions.
    pub fn agree(&self, interactor: bool) {
        self.interactor.store(interactor, Ordering::Release);
    }

    /// The topics once a request's are added. [`Subscriptions::add`] makes them so.
    pub fn with(&self, named: &TopicList) -> u64 {
        if named.explicitly(Topic::DialogRequested) {
            self.dialogs.store(true, Ordering::Release);
        }
        self.mask() | named.mask
    }

    /// Adds topics.
    pub fn add(&self, mask: u64) {
        self.topics.fetch_or(mask, Ordering::AcqRel);
    }

    /// Removes a request's topics, and returns the rest.
    pub fn remove(&self, named: &TopicList) -> u64 {
        if named.mask & Topic::DialogRequested.bit() != 0 {
            self.dialogs.store(false, Ordering::Release);
        }
        self.topics.fetch_and(!named.mask, Ordering::AcqRel) & !named.mask
    }

    /// The subscribed topics, one bit each.
    pub fn mask(&self) -> u64 {
        self.topics.load(Ordering::Acquire)
    }

    /// Whether the client is subscribed to a topic.
    pub fn has(&self, topic: Topic) -> bool {
        self.mask() & topic.bit() != 0
    }

    /// Whether any topic is subscribed that is sent for a session: of the focus, or of any other.
    pub fn any(&self, focused: bool) -> bool {
        let mask = self.mask();
        TOPICS.iter().any(|spec| mask & spec.topic.bit() != 0 && (focused || spec.anywhere))
    }

    /// The names of the topics.
    pub fn names(&self) -> Vec<&'static str> {
        names(self.mask()).collect()
    }

    /// Whether the client answers questions. One that does not receive them cannot answer them.
    pub fn is_interactor(&self) -> bool {
        self.asked_on().is_some()
    }

    /// The topic on which the client is asked questions, if it answers them.
    pub fn asked_on(&self) -> Option<Topic> {
        self.asked_on_with(self.mask())
    }

    /// The same with other topics than now.
    fn asked_on_with(&self, topics: u64) -> Option<Topic> {
        if self.interactor.load(Ordering::Acquire) && topics & Topic::InteractionRequested.bit() != 0 {
            return Some(Topic::InteractionRequested);
        }
        self.dialogs.load(Ordering::Acquire).then_some(Topic::DialogRequested)
    }

    /// Whether the client can answer only plain dialogs.
    pub fn dialogs_only(&self) -> bool {
        self.asked_on() != Some(Topic::InteractionRequested)
    }

    /// `{:subscribed [name*] :ignored [name*]? :asked-on name?}`: the answer to a request, with the topics after it.
    /// Who has subscribed to a topic of questions learns on which one questions come, or nil: to subscribe to
    /// everything makes nobody answer them.
    pub fn answer(&self, named: &TopicList, subscribed: u64) -> Map<'static> {
        let mut data = Map::new();
        data.put("subscribed", Value::vector(names(subscribed).map(Value::from)));
        if !named.ignored.is_empty() {
            data.put("ignored", Value::vector(named.ignored.iter().map(|name| Value::from(name.clone()))));
        }
        if subscribed & (Topic::InteractionRequested.bit() | Topic::DialogRequested.bit()) != 0 {
            let asked_on = self.asked_on_with(subscribed);
            data.put("asked-on", asked_on.map_or(Value::Nil, |topic| Value::from(topic.as_str())));
        }
        data
    }
}

fn names(mask: u64) -> impl Iterator<Item = &'static str> {
    TOPICS.iter().filter(move |spec| mask & spec.topic.bit() != 0).map(|spec| spec.name)
}

/// The topics in a request.
#[derive(Debug)]
pub struct TopicList {
    /// One bit each.
    pub mask: u64,
    all: bool,
    ignored: Vec<String>,
}

impl TopicList {
    /// No topics, or an empty list of them, means all.
    pub fn read(params: &Value<'_>) -> Self {
        let names = params.get("topics").and_then(Value::as_slice).unwrap_or_default();
        if names.is_empty() {
            let mask = TOPICS.iter().fold(0, |mask, spec| mask | spec.topic.bit());
            return Self { mask, all: true, ignored: Vec::new() };
        }
        let mut list = Self { mask: 0, all: false, ignored: Vec::new() };
        for name in names.iter().filter_map(Value::as_str) {
            match Topic::parse(name) {
                Some(topic) => list.mask |= topic.bit(),
                None => list.ignored.push(name.to_owned()),
            }
        }
        list
    }

    /// The same with the topics of a replay.
    pub fn with_replay(mut self) -> Self {
        let topics =
            [Topic::SessionEntry, Topic::SessionSynced, Topic::SessionStale, Topic::SessionRehydrated];
        self.mask |= topics.iter().fold(0, |mask, topic| mask | topic.bit());
        self
    }

    fn explicitly(&self, topic: Topic) -> bool {
        !self.all && self.mask & topic.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_counts_topics_of_other_sessions_only_if_sent() {
        for (topic, focused, elsewhere) in
            [(Topic::AssistantMessage, true, false), (Topic::InteractionRequested, true, true)]
        {
            let subscriptions = Subscriptions::default();
            assert!(!subscriptions.any(true));
            subscriptions.add(topic.bit());
            assert_eq!(
                (subscriptions.any(true), subscriptions.any(false)),
                (focused, elsewhere),
                "{topic:?}"
            );
        }
    }
}
