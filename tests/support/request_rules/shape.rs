//! The shapes of requests: which fields an object has, and their types, as the protocols' official types have them.

use edn_bridge::value::Value;
use serde_json::Value as Json;

/// The shapes of the table, by name.
#[derive(Debug)]
pub struct Shapes(Vec<(String, Shape)>);

#[derive(Debug)]
enum Shape {
    Any,
    Null,
    Text,
    /// Text that is not blank.
    Filled,
    Flag,
    /// An integer that is not negative.
    Count,
    Number,
    Object,
    Word(Vec<String>),
    /// The shape of that name.
    Named(String),
    List {
        of: Box<Self>,
        /// Whether it has at least one item.
        some: bool,
    },
    Either(Vec<Self>),
    /// An object whose field tells its shape.
    By(String, Vec<(String, Self)>),
    Fields(Vec<Field>),
}

#[derive(Debug)]
struct Field {
    name: String,
    is_needed: bool,
    shape: Shape,
}

/// A value of another shape.
#[derive(Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The keys and indices that lead to it.
    pub path: Vec<String>,
    /// The kind of fault.
    pub kind: MisfitKind,
}

/// The kind of a misfit.
#[derive(Debug, PartialEq, Eq)]
pub enum MisfitKind {
    /// The type has no such field.
    Unknown,
    /// The field is missing.
    Missing,
    /// A list, or a text, without content.
    Empty,
    /// It has another type.
    Type,
}

impl Shapes {
    pub fn read(table: &Value<'_>) -> Self {
        let shapes = table.as_map().expect("a map of shapes").iter();
        Self(shapes.map(|(name, shape)| (name.as_keyword().unwrap().to_owned(), read(shape))).collect())
    }

    /// # Errors
    /// The first misfit.
    pub fn check(&self, name: &str, json: &Json) -> Result<(), Misfit> {
        let mut path = Vec::new();
        self.judge(self.named(name), json, &mut path).map_err(|kind| Misfit { path, kind })
    }

    fn named(&self, name: &str) -> &Shape {
        let found = self.0.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("there is no shape :{name}")).1
    }

    /// The path is that of the misfit afterwards, if there is one.
    fn judge(&self, shape: &Shape, json: &Json, path: &mut Vec<String>) -> Result<(), MisfitKind> {
        let is = |fits: bool| if fits { Ok(()) } else { Err(MisfitKind::Type) };
        match shape {
            Shape::Any => Ok(()),
            Shape::Null => is(json.is_null()),
            Shape::Text => is(json.is_string()),
            Shape::Filled => match json.as_str() {
                Some(text) if text.trim().is_empty() => Err(MisfitKind::Empty),
                text => is(text.is_some()),
            },
            Shape::Flag => is(json.is_boolean()),
            Shape::Count => is(json.is_u64()),
            Shape::Number => is(json.is_number()),
            Shape::Object => is(json.is_object()),
            Shape::Word(words) => is(json.as_str().is_some_and(|text| words.iter().any(|word| word == text))),
            Shape::Named(name) => self.judge(self.named(name), json, path),
            Shape::List { of, some } => {
                let Some(items) = json.as_array() else { return Err(MisfitKind::Type) };
                if *some && items.is_empty() {
                    return Err(MisfitKind::Empty);
                }
                for (at, item) in items.iter().enumerate() {
                    path.push(at.to_string());
                    self.judge(of, item, path)?;
                    path.pop();
                }
                Ok(())
            }
            Shape::Either(shapes) => {
                let fits = |shape: &Shape| self.judge(shape, json, &mut Vec::new()).is_ok();
                if shapes.iter().any(fits) {
                    return Ok(());
                }
                // The fault in the last one is the most telling, because texts come first.
                shapes.last().map_or(Err(MisfitKind::Type), |shape| self.judge(shape, json, path))
            }
            Shape::By(field, shapes) => {
                let kind = json.get(field).and_then(Json::as_str).unwrap_or_default();
                match shapes.iter().find(|(known, _)| known == kind) {
                    Some((_, shape)) => self.judge(shape, json, path),
                    None => {
                        path.push(field.clone());
                        Err(MisfitKind::Type)
                    }
                }
            }
            Shape::Fields(fields) => {
                let Some(object) = json.as_object() else { return Err(MisfitKind::Type) };
                for (key, value) in object {
                    path.push(key.clone());
                    let field = fields.iter().find(|field| field.name == *key).ok_or(MisfitKind::Unknown)?;
                    self.judge(&field.shape, value, path)?;
                    path.pop();
                }
                match fields.iter().find(|field| field.is_needed && !object.contains_key(&field.name)) {
                    None => Ok(()),
                    Some(missing) => {
                        path.push(missing.name.clone());
                        Err(MisfitKind::Missing)
                    }
                }
            }
        }
    }
}

fn read(shape: &Value<'_>) -> Shape {
    if let Some(name) = shape.as_keyword() {
        return match name {
            "any" => Shape::Any,
            "null" => Shape::Null,
            "text" => Shape::Text,
            "filled" => Shape::Filled,
            "flag" => Shape::Flag,
            "count" => Shape::Count,
            "number" => Shape::Number,
            "object" => Shape::Object,
            name => Shape::Named(name.to_owned()),
        };
    }
    if let Some(map) = shape.as_map() {
        let fields = map.iter().map(|(key, shape)| {
            let key = key.as_str().expect("the name of a field");
            let name = key.trim_end_matches('?').to_owned();
            Field { is_needed: name == key, name, shape: read(shape) }
        });
        return Shape::Fields(fields.collect());
    }
    let items = shape.as_slice().unwrap_or_else(|| panic!("no shape: {shape}"));
    let (first, rest) = items.split_first().expect("a shape");
    match first.as_keyword() {
        Some("list") => Shape::List { of: Box::new(read(&rest[0])), some: false },
        Some("some") => Shape::List { of: Box::new(read(&rest[0])), some: true },
        Some("or") => Shape::Either(rest.iter().map(read).collect()),
        Some("by") => {
            let shapes = rest[1].as_map().unwrap().iter();
            let shapes = shapes.map(|(word, shape)| (word.as_str().unwrap().to_owned(), read(shape)));
            Shape::By(rest[0].as_str().unwrap().to_owned(), shapes.collect())
        }
        _ => Shape::Word(items.iter().map(|word| word.as_str().expect("a word").to_owned()).collect()),
    }
}
