//! Refuses two kinds of patterns before a check is played: one that fits every value, and a list that is no condition,
//! which was meant as an expression. Plays nothing.

use edn_codec::Value;

use crate::expression::{Form, Host, Scope, Variables, brief, is_condition, operation, variable};
use crate::stop::Stop;

/// Values of every kind. What fits them all, and a missing value too, says nothing.
const SAMPLES: &str =
    "[nil true false -1 0 7 1.5 \"\" \"text\" :keyword symbol [] [1] {} {:key 1} #{} () (1)]";

/// How many params a defined step has. The pattern of its result follows them.
pub type Params<'a> = &'a dyn Fn(&str) -> Option<usize>;

/// Looks at the patterns of these steps, and of the expressions in them.
///
/// # Errors
/// The first pattern that cannot say no, and why.
pub fn steps(steps: &[Form], params: Params<'_>) -> Result<(), String> {
    steps.iter().try_for_each(|form| step(form, params))
}

fn step(step: &Form, params: Params<'_>) -> Result<(), String> {
    let Some((name, args)) = operation(step) else { return Ok(()) };
    let patterns: &[usize] = match name {
        "exit" | "new-id" | "read-line" | "events" | "let" | "each" | "login-server" => &[0],
        "answered" | "replied" | "stray" | "expect" | "when" | "unless" | "until" | "holds" | "none"
        | "batch" => &[1],
        "ask" | "refused" | "reply" | "send" | "either" => &[2],
        "refuse" => &[3],
        "next" | "await" => &[1, 2],
        name => &params(name).map_or([usize::MAX], |result| [result]),
    };
    let inner = match name {
        "loop" => 0,
        "on" | "times" => 1,
        "each" | "when" | "unless" => 2,
        _ => args.len(),
    };
    for (place, part) in args.iter().enumerate() {
        let checked = match place {
            _ if place >= inner => self::step(part, params),
            _ if patterns.contains(&place) => pattern(part).and_then(|()| match name {
                // The comparison is all that this step does. What is left out of the others fits everything anyway.
                "expect" if says_nothing(part, false) => Err(fits_everything(part)),
                _ => Ok(()),
            }),
            _ => expression(part),
        };
        checked?;
    }
    Ok(())
}

/// Looks at the patterns in an expression: the second argument of `pick`.
///
/// # Errors
/// The first pattern that cannot say no, and why.
pub fn expression(term: &Form) -> Result<(), String> {
    match term {
        Value::List(call) => match (call.first().and_then(Value::as_symbol), &**call) {
            (Some("quote"), _) => Ok(()),
            (Some("pick"), [_, source, fits, result]) => {
                expression(source).and_then(|()| pattern(fits)).and_then(|()| expression(result))
            }
            (_, call) => call.iter().try_for_each(expression),
        },
        Value::Map(map) => map.iter().try_for_each(|(_, value)| expression(value)),
        value => value.as_slice().unwrap_or_default().iter().try_for_each(expression),
    }
}

fn pattern(form: &Form) -> Result<(), String> {
    match form {
        Value::List(call) => {
            let Some((name, args)) = call.split_first() else { return Ok(()) };
            let name = name.as_symbol().unwrap_or_default();
            match name {
                "not" | "and" | "or" | "optional" | "each" | "some" | "none" | "count" | "bytes" => {
                    args.iter().try_for_each(pattern)?;
                }
                name if is_condition(name) => args.iter().try_for_each(expression)?,
                _ => {
                    return Err(format!(
                        "{} is no condition; the value of an expression is (is …)",
                        brief(form)
                    ));
                }
            }
            if says_nothing(form, true) { Err(fits_everything(form)) } else { Ok(()) }
        }
        Value::Map(map) => map.iter().try_for_each(|(_, value)| pattern(value)),
        value => value.as_slice().unwrap_or_default().iter().try_for_each(pattern),
    }
}

fn fits_everything(form: &Form) -> String {
    format!("{} fits every value", brief(form))
}

/// Whether a pattern fits all samples, and a missing value if that can be. A variable may have a value already, and what a
/// negation excludes need not be a sample.
fn says_nothing(form: &Form, may_be_missing: bool) -> bool {
    let samples = edn_codec::read_one(SAMPLES.as_bytes()).map(Value::into_owned).unwrap_or(Value::Nil);
    let fits = |value| Scope::new(&Alone, &[]).unify(form, value, &mut Variables::new()).is_ok();
    !has_variable(form)
        && !negates(form)
        && samples.as_slice().unwrap_or_default().iter().all(|value| fits(Some(value)))
        && (!may_be_missing || fits(None))
}

fn has_variable(form: &Form) -> bool {
    variable(form).is_some()
        || match form {
            Value::Map(map) => map.iter().any(|(_, value)| has_variable(value)),
            value => value.as_slice().is_some_and(|items| items.iter().any(has_variable)),
        }
}

fn negates(form: &Form) -> bool {
    let is_negation = |call: &[Form]| matches!(call.first().and_then(Value::as_symbol), Some("not" | "none"));
    match form {
        Value::Map(map) => map.iter().any(|(_, value)| negates(value)),
        value => value.as_slice().is_some_and(|items| is_negation(items) || items.iter().any(negates)),
    }
}

/// No run: what asks it is no constant.
struct Alone;

impl Host for Alone {
    fn call(&self, _: &str, _: &[Form]) -> Result<Option<Form>, Stop> {
        Err(Stop::failed("depends on the run"))
    }

    fn function(&self, _: &str) -> Option<(&[Form], &Form)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(step: &str) -> Result<(), String> {
        let form = edn_codec::read_one(step.as_bytes()).unwrap().into_owned();
        steps(&[form], &|name| (name == "defined").then_some(1))
    }

    #[test]
    fn pattern_that_cannot_say_no_is_refused() {
        for step in [
            // An alternative of `or` fits whatever the expression beside it gives.
            "[:expect ?a (or (get ?b :duplicate) false)]",
            "[:ask \"op\" {} {:key (get ?b :key)}]",
            "[:expect ?a _]",
            "[:expect ?a (or _ absent)]",
            "[:ask \"op\" {} {:key (optional _)}]",
            "[:on \"b\" [:loop [:until ?a (or _ absent)]]]",
            "[:defined (get ?a :key) {:key (get ?b :key)}]",
            "[:let ?c (pick ?a {:key (or 1 (optional _))} 1)]",
        ] {
            assert!(checked(step).is_err(), "{step}");
        }
        for step in [
            "[:expect ?a (is (or (get ?b :duplicate) false))]",
            "[:expect ?a {:key _ :other (not \"x\")}]",
            "[:expect ?a (none {:key filled})]",
            "[:ask \"op\" {:key (get ?b :key)} {:key (optional string)}]",
            "[:let ?c (get ?a :key)]",
            "[:defined (get ?a :key) {:key (is (get ?b :key))}]",
            "[:expect ?a (optional ?turn)]",
        ] {
            assert_eq!(checked(step), Ok(()), "{step}");
        }
    }
}
