//! Expressions and patterns of the checks' language, over EDN values.
//!
//! An expression gives a value: EDN in which `?name` stands for a variable and a list calls a function. A pattern
//! describes a value: a map lists the keys that must fit, `?name` takes the value, and a list is a condition.
//! README.md lists the functions and the conditions. Knows values only; what depends on the run is asked from a
//! [`Host`].

use edn_codec::value::Map;
use edn_codec::{self as edn, Value};

use crate::stop::Stop;

/// A value without borrowed parts.
pub type Form = Value<'static>;

/// Variables with their values. The last one of a name counts.
pub type Variables = Vec<(String, Form)>;

/// What an expression can ask from the run.
pub trait Host {
    /// Calls a function of the run. `None` if there is none of that name.
    ///
    /// # Errors
    /// If the function fails.
    fn call(&self, name: &str, args: &[Form]) -> Result<Option<Form>, Stop>;

    /// The params and the result of a defined function.
    fn function(&self, name: &str) -> Option<(&[Form], &Form)>;
}

/// The variables that an expression sees: its own, then those around it.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    host: &'a dyn Host,
    outer: Option<&'a Scope<'a>>,
    own: &'a [(String, Form)],
}

/// Why a value does not fit a pattern.
#[derive(Debug)]
pub enum Miss {
    /// It is another value; says how it differs.
    Differs(String),
    /// The pattern itself is wrong.
    Stopped(Stop),
}

impl From<Stop> for Miss {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

fn differs<T>(why: impl Into<String>) -> Result<T, Miss> {
    Err(Miss::Differs(why.into()))
}

/// Longest part of a value in a message.
const BRIEF_CHARS: usize = 300;

/// A value for a message, cut if it is long.
pub fn brief(value: &Form) -> String {
    let text = edn::to_string(value);
    match text.char_indices().nth(BRIEF_CHARS) {
        Some((offset, _)) => format!("{}…", text.get(..offset).unwrap_or_default()),
        None => text,
    }
}

fn shown(value: Option<&Form>) -> String {
    value.map_or_else(|| "missing".to_owned(), brief)
}

/// The conditions that a list in a pattern can be.
const CONDITIONS: [&str; 20] = [
    "and", "at-least", "at-most", "bytes", "contains", "count", "each", "in", "includes", "is", "mentions",
    "none", "not", "only", "optional", "or", "ordered", "over", "some", "starts",
];

/// Whether a list of this name is a condition.
pub fn is_condition(name: &str) -> bool {
    CONDITIONS.contains(&name)
}

/// The name of a variable: a symbol that begins with `?`.
pub fn variable(term: &Form) -> Option<&str> {
    term.as_symbol().filter(|name| name.starts_with('?'))
}

/// The name and the arguments of a step.
pub fn operation(step: &Form) -> Option<(&str, &[Form])> {
    let (name, args) = match step {
        Value::Vector(step) => step.split_first()?,
        _ => return None,
    };
    Some((name.as_keyword()?, args))
}

fn length(items: usize) -> Form {
    Value::int(i64::try_from(items).unwrap_or(i64::MAX))
}

/// The texts of a message's blocks.
fn words(message: &Form) -> Form {
    let blocks = message.get("content").and_then(Value::as_slice).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
    Value::from(texts.collect::<String>())
}

/// A string as it is, anything else as EDN.
fn plain(value: &Form) -> String {
    value.as_str().map_or_else(|| edn::to_string(value), str::to_owned)
}

fn items(value: &Form) -> Vec<Form> {
    match value {
        Value::Set(set) => set.iter().cloned().collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| Value::vector([key.clone(), value.clone()])).collect()
        }
        value => value.as_slice().unwrap_or_default().to_vec(),
    }
}

impl<'a> Scope<'a> {
    /// A scope with the variables of a run.
    pub fn new(host: &'a dyn Host, own: &'a [(String, Form)]) -> Self {
        Self { host, outer: None, own }
    }

    fn within(&'a self, own: &'a [(String, Form)]) -> Self {
        Scope { host: self.host, outer: Some(self), own }
    }

    fn get(&self, name: &str) -> Option<&Form> {
        let found = self.own.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value);
        found.or_else(|| self.outer?.get(name))
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// If it names an unknown variable or function, or a function fails.
    pub fn eval(&self, term: &Form) -> Result<Form, Stop> {
        if let Some(name) = variable(term) {
            return self.get(name).cloned().ok_or_else(|| Stop::failed(format!("{name} has no value here")));
        }
        match term {
            Value::List(call) => match call.split_first() {
                Some((name, args)) => self.call(name.as_symbol().unwrap_or_default(), args),
                None => Ok(Value::Nil),
            },
            Value::Vector(items) => Ok(Value::vector(self.all(items)?)),
            Value::Map(map) => {
                let mut entries = Map::new();
                for (key, value) in map.iter() {
                    entries.insert(self.eval(key)?, self.eval(value)?);
                }
                Ok(Value::from(entries))
            }
            value => Ok(value.clone()),
        }
    }

    fn all(&self, terms: &[Form]) -> Result<Vec<Form>, Stop> {
        terms.iter().map(|term| self.eval(term)).collect()
    }

    fn call(&self, name: &str, terms: &[Form]) -> Result<Form, Stop> {
        if let ("pick", [source, pattern, result]) = (name, terms) {
            return self.pick(source, pattern, result);
        }
        if let ("quote", [form]) = (name, terms) {
            return Ok(form.clone());
        }
        let args = self.all(terms)?;
        if let Some((params, result)) = self.host.function(name) {
            let own: Variables = params.iter().filter_map(variable).map(str::to_owned).zip(args).collect();
            return Scope::new(self.host, &own).eval(result);
        }
        let number = |place: usize| args.get(place).and_then(Value::as_i64).unwrap_or_default();
        let first = args.first().unwrap_or(&Value::Nil);
        Ok(match name {
            "str" => Value::from(args.iter().map(plain).collect::<String>()),
            "edn" => Value::from(edn::to_string(first)),
            "read" => edn::read_one(plain(first).as_bytes())
                .map_err(|error| Stop::failed(format!("{} is no EDN form: {error}", brief(first))))?
                .into_owned(),
            "keyword" => Value::keyword(plain(first)),
            "name" => Value::from(first.as_keyword().map(str::to_owned)),
            "utf8" => Value::vector(plain(first).bytes().map(|byte| Value::int(byte.into()))),
            "cycle" => {
                let (items, times) = (items(first), usize::try_from(number(1)).unwrap_or_default());
                Value::vector(items.iter().cycle().take(times).cloned())
            }
            "get" => {
                let mut found = Some(first);
                for key in args.iter().skip(1) {
                    found = found.and_then(|value| match (value, key.as_i64()) {
                        (Value::Map(map), _) => map.get(key),
                        (value, Some(place)) => value.as_slice()?.get(usize::try_from(place).ok()?),
                        _ => None,
                    });
                }
                found.cloned().unwrap_or(Value::Nil)
            }
            "or" => args.iter().find(|arg| !arg.is_nil()).cloned().unwrap_or(Value::Nil),
            "+" => Value::int((0..args.len()).map(number).fold(0, i64::saturating_add)),
            "-" => Value::int(number(0).saturating_sub(number(1))),
            "*" => Value::int((0..args.len()).map(number).fold(1, i64::saturating_mul)),
            "count" => match first {
                Value::Str(text) => length(text.len()),
                value => length(items(value).len()),
            },
            "repeat" => Value::from(plain(first).repeat(usize::try_from(number(1)).unwrap_or_default())),
            "range" => Value::vector((0..number(0)).map(Value::int)),
            "cat" => Value::vector(args.iter().flat_map(items)),
            "merge" => {
                let maps = args
                    .iter()
                    .flat_map(|arg| if arg.as_map().is_some() { vec![arg.clone()] } else { items(arg) });
                Value::from(maps.filter_map(|map| map.as_map().cloned()).flatten().collect::<Map<'static>>())
            }
            "join" => {
                let between = args.get(1).map(plain).unwrap_or_default();
                Value::from(items(first).iter().map(plain).collect::<Vec<_>>().join(&between))
            }
            "characters" => Value::vector(plain(first).chars().map(|c| Value::from(c.to_string()))),
            "first" => items(first).first().cloned().unwrap_or(Value::Nil),
            "last" => items(first).last().cloned().unwrap_or(Value::Nil),
            "distinct" => {
                let mut kept: Vec<Form> = Vec::new();
                items(first).into_iter().for_each(|item| {
                    if !kept.contains(&item) {
                        kept.push(item);
                    }
                });
                Value::vector(kept)
            }
            "slice" => {
                let (from, to) = (usize::try_from(number(1)), usize::try_from(number(2)));
                let items = items(first);
                let part = items.get(from.unwrap_or_default()..to.unwrap_or_default().min(items.len()));
                Value::vector(part.unwrap_or_default().iter().cloned())
            }
            "lines" => Value::vector(plain(first).lines().map(|line| Value::from(line.to_owned()))),
            "words" => words(first),
            // A list of alternating keys and values as a map; nil for anything else.
            "plist" => match first {
                Value::List(items) => Value::map(items.chunks(2).filter_map(|pair| match pair {
                    [key, value] => Some((key.clone(), value.clone())),
                    _ => None,
                })),
                _ => Value::Nil,
            },
            // A value and everything in it.
            "parts" => {
                let (mut parts, mut rest) = (Vec::new(), vec![first.clone()]);
                while let Some(part) = rest.pop() {
                    rest.extend(items(&part));
                    parts.push(part);
                }
                Value::vector(parts)
            }
            other => match self.host.call(other, &args)? {
                Some(value) => value,
                None => return Err(Stop::failed(format!("there is no function {other:?}"))),
            },
        })
    }

    /// For each item that fits a pattern, the value of an expression over the pattern's variables.
    fn pick(&self, source: &Form, pattern: &Form, result: &Form) -> Result<Form, Stop> {
        let mut picked = Vec::new();
        for item in items(&self.eval(source)?) {
            let mut own = Variables::new();
            match self.unify(pattern, Some(&item), &mut own) {
                Ok(()) => picked.push(self.within(&own).eval(result)?),
                Err(Miss::Differs(_)) => {}
                Err(Miss::Stopped(stop)) => return Err(stop),
            }
        }
        Ok(Value::vector(picked))
    }

    /// Compares a value with a pattern and adds the variables that it takes to `own`. A missing value is `None`.
    ///
    /// # Errors
    /// If the value does not fit. `own` may then have some of the variables.
    pub fn unify(&self, pattern: &Form, value: Option<&Form>, own: &mut Variables) -> Result<(), Miss> {
        if let Some(name) = variable(pattern) {
            let Some(value) = value else { return differs("is missing") };
            let known = own.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value);
            return match known.or_else(|| self.get(name)) {
                Some(known) if known == value => Ok(()),
                Some(known) => differs(format!("is {} where {} was due", brief(value), brief(known))),
                None => {
                    own.push((name.to_owned(), value.clone()));
                    Ok(())
                }
            };
        }
        match pattern {
            Value::Symbol(name) => is_a(name, value),
            Value::List(call) => match call.split_first() {
                Some((name, args)) => self.condition(name.as_symbol().unwrap_or_default(), args, value, own),
                None => differs("is compared with an empty list"),
            },
            Value::Map(keys) => {
                let Some(map) = value.and_then(Value::as_map) else {
                    return differs(format!("is {} where a map was due", shown(value)));
                };
                for (key, pattern) in keys.iter() {
                    let key = self.eval(key)?;
                    self.unify(pattern, map.get(&key), own)
                        .map_err(|miss| at(&edn::to_string(&key), miss))?;
                }
                Ok(())
            }
            Value::Vector(patterns) => {
                let found = value.and_then(Value::as_slice);
                let Some(found) = found.filter(|found| found.len() == patterns.len()) else {
                    return differs(format!("is {} where {} was due", shown(value), self.due(pattern)));
                };
                for (place, (pattern, value)) in patterns.iter().zip(found).enumerate() {
                    self.unify(pattern, Some(value), own).map_err(|miss| at(&place.to_string(), miss))?;
                }
                Ok(())
            }
            literal if value == Some(literal) => Ok(()),
            literal => differs(format!("is {} where {} was due", shown(value), brief(literal))),
        }
    }

    /// A pattern as a value if it can be one.
    fn due(&self, pattern: &Form) -> String {
        brief(&self.eval(pattern).unwrap_or_else(|_| pattern.clone()))
    }

    fn condition(
        &self,
        name: &str,
        args: &[Form],
        value: Option<&Form>,
        own: &mut Variables,
    ) -> Result<(), Miss> {
        let argument = args.first().unwrap_or(&Value::Nil);
        let number = || Ok::<_, Miss>(self.eval(argument)?.as_i64().unwrap_or_default());
        let found = value.and_then(Value::as_i64);
        let text = value.and_then(Value::as_str);
        let fits = match name {
            "not" => {
                return match self.unify(argument, value, &mut own.clone()) {
                    Ok(()) => differs(format!("is {}", shown(value))),
                    Err(Miss::Differs(_)) => Ok(()),
                    Err(stopped) => Err(stopped),
                };
            }
            "and" => return args.iter().try_for_each(|pattern| self.unify(pattern, value, own)),
            "or" => {
                for pattern in args {
                    let before = own.len();
                    match self.unify(pattern, value, own) {
                        Err(Miss::Differs(_)) => own.truncate(before),
                        other => return other,
                    }
                }
                false
            }
            "optional" => return value.map_or(Ok(()), |_| self.unify(argument, value, own)),
            // Every item; the variables of one do not bind another.
            "each" => {
                let Some(value) = value else { return differs("is missing") };
                for (place, item) in items(value).iter().enumerate() {
                    let mut own = own.clone();
                    self.unify(argument, Some(item), &mut own)
                        .map_err(|miss| at(&place.to_string(), miss))?;
                }
                true
            }
            "some" | "none" => {
                for item in value.map(items).unwrap_or_default() {
                    let mut trial = own.clone();
                    match self.unify(argument, Some(&item), &mut trial) {
                        Ok(()) if name == "none" => return differs(format!("has {}", brief(&item))),
                        Ok(()) => {
                            *own = trial;
                            return Ok(());
                        }
                        Err(Miss::Differs(_)) => {}
                        Err(stopped) => return Err(stopped),
                    }
                }
                name == "none"
            }
            "count" => {
                let Some(value) = value else { return differs("is missing") };
                return self
                    .unify(argument, Some(&length(items(value).len())), own)
                    .map_err(|miss| at("count", miss));
            }
            "contains" => {
                let part = self.eval(argument)?;
                text.is_some_and(|text| text.contains(&plain(&part)))
            }
            // Somewhere in the value's text.
            "mentions" => {
                let part = self.eval(argument)?;
                value.is_some_and(|value| edn::to_string(value).contains(&plain(&part)))
            }
            "starts" => {
                let part = self.eval(argument)?;
                text.is_some_and(|text| text.starts_with(&plain(&part)))
            }
            "in" => {
                let allowed = items(&self.eval(argument)?);
                value.is_some_and(|value| allowed.contains(value))
            }
            // All of these, in any order, and perhaps others.
            "includes" => {
                let Some(value) = value else { return differs("is missing") };
                let here = items(value);
                let lacks: Vec<Form> =
                    items(&self.eval(argument)?).into_iter().filter(|due| !here.contains(due)).collect();
                if lacks.is_empty() {
                    return Ok(());
                }
                return differs(format!("lacks {}", brief(&Value::vector(lacks))));
            }
            // These, in any order, and no others.
            "only" => {
                let due = items(&self.eval(argument)?);
                let here = value.map(items).unwrap_or_default();
                here.len() == due.len() && due.iter().all(|item| here.contains(item))
            }
            // Items of this list, in its order.
            "ordered" => {
                let order = items(&self.eval(argument)?);
                let here = value.map(items).unwrap_or_default();
                let places: Vec<_> =
                    here.iter().map(|item| order.iter().position(|due| due == item)).collect();
                places.iter().all(Option::is_some) && places.is_sorted()
            }
            "over" => found > Some(number()?),
            "at-least" => found >= Some(number()?),
            "at-most" => found.is_some_and(|found| number().is_ok_and(|most| found <= most)),
            // The length of a text in bytes.
            "bytes" => {
                let Some(text) = text else {
                    return differs(format!("is {} where a string was due", shown(value)));
                };
                return self
                    .unify(argument, Some(&length(text.len())), own)
                    .map_err(|miss| at("length", miss));
            }
            // The value of an expression.
            "is" => {
                let due = self.eval(argument)?;
                if value == Some(&due) {
                    return Ok(());
                }
                return differs(format!("is {} where {} was due", shown(value), brief(&due)));
            }
            other => return Err(Miss::Stopped(Stop::failed(format!("there is no condition {other:?}")))),
        };
        if fits {
            Ok(())
        } else {
            differs(format!("is {} where {} was due", shown(value), self.phrase(name, args)))
        }
    }

    fn phrase(&self, name: &str, args: &[Form]) -> String {
        let args: Vec<String> = args.iter().map(|arg| self.due(arg)).collect();
        format!("({name} {})", args.join(" "))
    }
}

/// The conditions without arguments.
fn is_a(name: &str, value: Option<&Form>) -> Result<(), Miss> {
    let fits = match name {
        "_" => value.is_some(),
        "absent" => value.is_none(),
        "string" => value.is_some_and(|value| value.as_str().is_some()),
        "filled" => value.and_then(Value::as_str).is_some_and(|text| !text.is_empty()),
        "empty" => value.is_none_or(|value| {
            value.as_str() == Some("") || items(value).is_empty() && value.as_str().is_none()
        }),
        "int" => value.is_some_and(|value| value.as_i64().is_some()),
        "natural" => value.and_then(Value::as_i64).is_some_and(|number| number >= 0),
        "number" => value.is_some_and(|value| matches!(value, Value::Int(_) | Value::Float(_))),
        "boolean" => value.is_some_and(|value| value.as_bool().is_some()),
        "vector" => value.is_some_and(|value| value.as_slice().is_some()),
        "map" => value.is_some_and(|value| value.as_map().is_some()),
        "set" => value.is_some_and(|value| value.as_set().is_some()),
        "list" => matches!(value, Some(Value::List(_))),
        other => return Err(Miss::Stopped(Stop::failed(format!("there is no condition {other:?}")))),
    };
    if fits { Ok(()) } else { differs(format!("is {} where {name} was due", shown(value))) }
}

fn at(place: &str, miss: Miss) -> Miss {
    match miss {
        Miss::Differs(why) => Miss::Differs(format!("{place} {why}")),
        stopped => stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Alone(Vec<Form>, Form);

    impl Host for Alone {
        fn call(&self, _: &str, _: &[Form]) -> Result<Option<Form>, Stop> {
            Ok(None)
        }

        fn function(&self, name: &str) -> Option<(&[Form], &Form)> {
            (name == "twice").then_some((self.0.as_slice(), &self.1))
        }
    }

    fn form(text: &str) -> Form {
        edn::read_one(text.as_bytes()).unwrap().into_owned()
    }

    fn with_scope<T>(test: impl FnOnce(Scope<'_>) -> T) -> T {
        let host = Alone(vec![form("?a")], form("(str ?a ?a)"));
        let own = [("?x".to_owned(), form("7")), ("?m".to_owned(), form("{:a [1 {:b \"c\"}]}"))];
        test(Scope::new(&host, &own))
    }

    #[test]
    fn expressions_have_values() {
        for (term, value) in [
            ("?x", "7"),
            ("{:k ?x ?x (quote t)}", "{:k 7 7 t}"),
            ("(str \"a\" :b ?x)", "\"a:b7\""),
            ("(get ?m :a 1 :b)", "\"c\""),
            ("(get ?m :a 2 :b)", "nil"),
            ("(or nil false 1)", "false"),
            ("(count \"\u{e9}\")", "2"),
            ("(slice [1 2 3 4] 1 9)", "[2 3 4]"),
            ("(slice [1] 2 1)", "[]"),
            ("(merge {:a 1} [{:b 2} {:a 3}])", "{:a 3 :b 2}"),
            ("(pick [{:r 1 :t 2} {:r 2 :t 3} {:t 4}] {:r _ :t ?t} (+ ?t ?x))", "[9 10]"),
            ("(pick {:a 1} [?k ?v] [?v ?k])", "[[1 :a]]"),
            ("(distinct [1 2 1])", "[1 2]"),
            ("(cycle [1 2] 3)", "[1 2 1]"),
            ("(plist (quote (:a 1 :b 2)))", "{:a 1 :b 2}"),
            ("(read \"[1]\")", "[1]"),
            ("(twice \"ab\")", "\"abab\""),
        ] {
            let found = with_scope(|scope| scope.eval(&form(term)));
            assert_eq!(found, Ok(form(value)), "{term}");
        }
        for term in ["?unknown", "(unknown 1)", "(read \"{\")"] {
            assert!(with_scope(|scope| scope.eval(&form(term))).is_err(), "{term}");
        }
    }

    #[test]
    fn patterns_fit_what_they_describe() {
        let value = "{:s \"text\" :n 3 :e \"\" :l [1 2 3] :ms [{:k 1 :v :a} {:k 2 :v :b}] :nil nil}";
        for (pattern, fits) in [
            ("{:s \"text\" :gone absent :nil nil}", true),
            ("{:nil absent}", false),
            ("{:gone _}", false),
            ("{:gone nil}", false),
            ("{:s filled :e empty :gone empty :nil empty :l (not empty)}", true),
            ("{:e filled}", false),
            ("{:n ?x}", false),
            ("{:n ?n :l [1 2 ?n]}", true),
            ("{:n ?n :l [?n 2 3]}", false),
            ("{:l [1 2]}", false),
            ("{:l (count 3)}", true),
            ("{:l (each int)}", true),
            ("{:l (each (at-most 2))}", false),
            ("{:ms (some {:k 2 :v :b})}", true),
            ("{:ms (some {:k 2 :v :a})}", false),
            ("{:ms (none {:k 3})}", true),
            ("{:ms (none {:k 2})}", false),
            ("{:gone (not 1) :n (not 4)}", true),
            ("{:n (not 3)}", false),
            ("{:n (or 2 3)}", true),
            ("{:n (and int (over 3))}", false),
            ("{:gone (optional 1) :n (optional 3)}", true),
            ("{:n (optional 4)}", false),
            ("{:s (and (contains \"ex\") (starts \"te\") (bytes 4))}", true),
            ("{:s (contains \"no\")}", false),
            ("{:ms (mentions :b)}", true),
            ("{:n (in [1 3])}", true),
            ("{:l (includes [3 1])}", true),
            ("{:l (only [3 1])}", false),
            ("{:l (only [3 1 2])}", true),
            ("{:l (ordered [0 1 2 3])}", true),
            ("{:l (ordered [3 2 1])}", false),
            ("{:n (is (+ 1 2))}", true),
            ("{:n (is (or nil 4))}", false),
        ] {
            let found = with_scope(|scope| scope.unify(&form(pattern), Some(&form(value)), &mut Vec::new()));
            assert_eq!(found.is_ok(), fits, "{pattern}: {found:?}");
        }
    }

    #[test]
    fn faulty_pattern_is_no_mismatch() {
        for pattern in [
            "unknown",
            "(+ 1 2)",
            "(not ?x unknown)",
            "(not (in ?unknown))",
            "(none (unknown 1))",
            "(or (unknown 1))",
        ] {
            let found = with_scope(|scope| scope.unify(&form(pattern), Some(&form("[1]")), &mut Vec::new()));
            let faulty = matches!(found, Err(Miss::Stopped(_)));
            assert_eq!(faulty, pattern != "(not ?x unknown)", "{pattern}: {found:?}");
        }
    }
}
