//! Checks a structured answer against the JSON schema that it was asked for with.
//!
//! Knows the keywords that such schemas consist of: type, enum, const, properties, required, additionalProperties, items,
//! minItems, maxItems, minimum, maximum, anyOf, oneOf and allOf. Others are shown to the model and not checked.

use edn_bridge::value::Value;

/// A key of an object; its keys may be keywords or strings.
fn get<'v>(map: &'v Value<'_>, key: &str) -> Option<&'v Value<'v>> {
    map.get(key).or_else(|| map.as_map()?.get(&Value::from(key.to_owned())))
}

fn word<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    value.as_str().or_else(|| value.as_keyword())
}

fn list<'v>(schema: &'v Value<'_>, key: &str) -> Option<&'v [Value<'v>]> {
    get(schema, key)?.as_slice()
}

/// Whether a value is of one of JSON's types.
fn is_of(value: &Value<'_>, name: &str) -> bool {
    match name {
        "object" => value.as_map().is_some(),
        "array" => value.as_slice().is_some(),
        "string" => value.as_str().is_some(),
        "integer" => value.as_i64().is_some(),
        "number" => value.as_i64().is_some() || value.as_f64().is_some(),
        "boolean" => value.as_bool().is_some(),
        "null" => value.is_nil(),
        _ => true,
    }
}

fn json(value: &Value<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    edn_bridge::json::write(value, &mut text);
    text
}

fn number(value: &Value<'_>) -> Option<f64> {
    value.as_f64().or_else(|| value.as_i64()?.to_string().parse().ok())
}

/// Checks a value.
///
/// # Errors
/// What does not fit, with its path, as a sentence for the model.
pub(super) fn check(schema: &Value<'_>, value: &Value<'_>) -> Result<(), String> {
    check_at(schema, value, "The answer")
}

fn check_at(schema: &Value<'_>, value: &Value<'_>, at: &str) -> Result<(), String> {
    if let Some(allowed) = list(schema, "enum")
        && !allowed.iter().any(|one| json(one) == json(value))
    {
        let allowed: Vec<String> =
            allowed.iter().map(|one| String::from_utf8_lossy(&json(one)).into_owned()).collect();
        return Err(format!("{at} must be one of {}.", allowed.join(", ")));
    }
    if let Some(only) = get(schema, "const")
        && json(only) != json(value)
    {
        return Err(format!("{at} must be {}.", String::from_utf8_lossy(&json(only))));
    }
    if let Some(types) = get(schema, "type") {
        let names: Vec<&str> = match types.as_slice() {
            Some(all) => all.iter().filter_map(word).collect(),
            None => word(types).into_iter().collect(),
        };
        if !names.iter().any(|name| is_of(value, name)) {
            return Err(format!("{at} must be of the type {}.", names.join(" or ")));
        }
    }
    for part in list(schema, "allOf").unwrap_or_default() {
        check_at(part, value, at)?;
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(ways) = list(schema, key)
            && !ways.iter().any(|way| check_at(way, value, at).is_ok())
        {
            return Err(format!("{at} fits none of the shapes of {key}."));
        }
    }
    if let Some(value) = number(value) {
        let bound = |key: &str| get(schema, key).and_then(number);
        if bound("minimum").is_some_and(|least| value < least)
            || bound("maximum").is_some_and(|most| value > most)
        {
            return Err(format!("{at} is outside the bounds."));
        }
    }
    if let Some(items) = value.as_slice() {
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let bound = |key: &str| get(schema, key).and_then(Value::as_i64);
        if bound("minItems").is_some_and(|least| count < least)
            || bound("maxItems").is_some_and(|most| count > most)
        {
            return Err(format!("{at} has {count} elements, which are too few or too many."));
        }
        if let Some(each) = get(schema, "items") {
            for (place, item) in items.iter().enumerate() {
                check_at(each, item, &format!("{at}[{place}]"))?;
            }
        }
    }
    if let Some(map) = value.as_map() {
        for key in list(schema, "required").unwrap_or_default().iter().filter_map(word) {
            if get(value, key).is_none() {
                return Err(format!("{at} needs {key:?}."));
            }
        }
        let properties = get(schema, "properties");
        let closed = get(schema, "additionalProperties").and_then(Value::as_bool) == Some(false);
        for (key, inner) in map.iter() {
            let Some(key) = word(key) else { return Err(format!("{at} must have words as keys.")) };
            match properties.and_then(|properties| get(properties, key)) {
                Some(property) => check_at(property, inner, &format!("{at}.{key}"))?,
                None if closed => return Err(format!("{at} must not have {key:?}.")),
                None => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use edn_bridge::edn;

    #[test]
    fn answer_is_checked_against_its_schema() {
        const SCHEMA: &str = r#"{"type":"object","required":["n"],"additionalProperties":false,"properties":{
            "n":{"type":"integer","minimum":1},"s":{"enum":["a","b"]},"l":{"type":"array","maxItems":1,
            "items":{"type":["string","null"]}},"o":{"anyOf":[{"type":"boolean"},{"const":7}]}}}"#;
        let schema = edn_bridge::json::read(SCHEMA.as_bytes()).unwrap();
        let check = |text: &str| check(&schema, &edn::read_one(text.as_bytes()).unwrap());
        for text in ["{:n 1}", "{:n 2 :s \"a\" :l [nil] :o 7}", "{\"n\" 1 :l [] :o true}"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for (text, expected) in [
            ("[]", "must be of the type object"),
            ("{}", "needs \"n\""),
            ("{:n 0}", "The answer.n is outside"),
            ("{:n 1.5}", "The answer.n must be of the type integer"),
            ("{:n 1 :s \"c\"}", "The answer.s must be one of \"a\", \"b\""),
            ("{:n 1 :l [\"a\" \"b\"]}", "has 2 elements"),
            ("{:n 1 :l [1]}", "The answer.l[0] must be of the type string or null"),
            ("{:n 1 :o 8}", "fits none"),
            ("{:n 1 :x 1}", "must not have \"x\""),
        ] {
            assert!(check(text).is_err_and(|error| error.contains(expected)), "{text}: {:?}", check(text));
        }
    }
}
