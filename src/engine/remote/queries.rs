//! Queries of a session of another host: this host answers what it knows, and the owner the rest.

use super::ask::Owner;
use super::call::RemoteCall;
use crate::query::SplitQuery;
use crate::session::{ApiError, Call, Queries as _, QueryAnswer, Reply};
use crate::value::{Map, Value};

impl Owner {
    /// Answers a query in parts. What its mutations change is changed before the owner is asked.
    pub fn query(self, call: Call, parts: SplitQuery, reply: Reply<QueryAnswer>) {
        let SplitQuery { theirs, keys, ours } = parts;
        let engine = self.engine.clone();
        let then = move |answer: Result<QueryAnswer, ApiError>| {
            let mut answer = match answer {
                Ok(answer) => answer,
                Err(error) => return reply.fail(error),
            };
            let (shared, is_strict) = (self.engine.shared.clone(), theirs.strict);
            let asking = async move {
                match self.call::<QueryAnswer>(&RemoteCall::Query(theirs)).await {
                    Ok(theirs) => add(&mut answer, theirs),
                    Err(error) if is_strict => return reply.fail(error),
                    Err(error) => fail(&mut answer, keys, &error),
                }
                reply.ok(answer);
            };
            shared.tasks.spawn_on(asking, &shared.executor);
        };
        engine.query(call, ours, Reply::new(then));
    }
}

/// Adds the owner's answer.
fn add(answer: &mut QueryAnswer, theirs: QueryAnswer) {
    if let (Value::Map(known), Value::Map(more)) = (&mut answer.result, theirs.result) {
        known.extend(more);
    }
    answer.missing.extend(theirs.missing);
    if let Some(errors) = theirs.errors {
        answer.errors.get_or_insert_with(Map::new).extend(errors);
    }
}

/// Says of what the owner was asked that it did not answer.
fn fail(answer: &mut QueryAnswer, keys: Vec<Value<'static>>, error: &ApiError) {
    for key in keys {
        let why = Map::new().with("code", error.code.as_str()).with("message", error.message.clone());
        answer.errors.get_or_insert_with(Map::new).insert(key.clone(), Value::from(why));
        answer.missing.push(key);
    }
}
