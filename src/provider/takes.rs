//! The facts about the requests that a target takes: names, ids, images, and where thinking goes back. They are data, in
//! `takes.edn`, and in the `:takes` of a configuration. Knows no protocol's shapes.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use crate::sha256;
use crate::value::Value;

/// The facts about one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takes {
    names: Form,
    ids: Form,
    /// Where images may be.
    pub images: ImagePlaces,
    /// Images in a request.
    pub most_images: usize,
    /// Bytes of an image in base64.
    pub image_bytes: usize,
    /// The longer side of an image, in pixels.
    pub image_side: usize,
    /// Images in a request from which on each may have fewer pixels.
    pub many_images: usize,
    /// The longer side of an image then.
    pub many_image_side: usize,
    /// Whether the user may speak right after a tool's result.
    pub user_after_result: bool,
    /// The field in which thinking goes back, if it has one name; else the name with which it came.
    pub thinking_field: Option<Arc<str>>,
    /// Whether that field is in every message with calls.
    pub thinking_always: bool,
    /// Whether the first call of each answer needs a signature.
    pub signed_calls: bool,
    /// Whether calls and results have ids, and results their images, where the protocol leaves that open.
    pub rich_results: bool,
    /// How the server is asked to keep the start of a request in its cache.
    pub cache: CacheRequest,
    /// The server's own tools that search the web and fetch pages, as a request offers them; empty for none.
    pub search: Arc<[Value<'static>]>,
}

/// How a server is asked to keep the start of a request in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheRequest {
    /// Not at all: it does so by itself, or never.
    None,
    /// By marks on blocks of the request.
    Marks,
    /// By one mark at the top of the request.
    Top,
    /// By the session's id, which leads to the same cache.
    Key,
}

/// Where images may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImagePlaces {
    /// Nowhere.
    None,
    /// In the user's messages.
    User,
    /// In results of tools too.
    Results,
}

/// The form of a name or an id: ASCII letters, digits, and some characters more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Form {
    allowed: String,
    longest: usize,
    /// Whether each has the longest length.
    is_exact: bool,
    /// Whether a letter comes first, or an underscore.
    letter_first: bool,
}

/// One fact about a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact(FactKind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum FactKind {
    Names(Form),
    Ids(Form),
    Images(ImagePlaces),
    /// Whether the model takes images at all.
    TakesImages(bool),
    MostImages(usize),
    ImageBytes(usize),
    ImageSide(usize),
    ManyImages(usize),
    ManyImageSide(usize),
    UserAfterResult(bool),
    ThinkingBack(Option<Arc<str>>),
    ThinkingAlways(bool),
    SignedCalls(bool),
    RichResults(bool),
    Cache(CacheRequest),
    Search(Arc<[Value<'static>]>),
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    protocols: Vec<String>,
    at: Vec<String>,
    /// Parts of the models' ids, in lower case.
    models: Vec<String>,
    facts: Vec<Fact>,
}

/// The conditions of a row.
const CONDITIONS: [&str; 3] = ["api", "at", "model"];

/// The table. A test reads it, because it is a part of the program.
static TAKES: LazyLock<Vec<Row>> = LazyLock::new(|| rows(include_str!("takes.edn")).unwrap_or_default());

fn rows(text: &str) -> Result<Vec<Row>, String> {
    let table = crate::edn::read_one(text.as_bytes()).map_err(|error| error.to_string())?;
    table.as_slice().unwrap_or_default().iter().map(row).collect()
}

fn row(row: &Value<'_>) -> Result<Row, String> {
    let texts = |key: &str| {
        let listed = row.get(key).and_then(Value::as_slice).unwrap_or_default().iter();
        listed.filter_map(|text| text.as_keyword().or_else(|| text.as_str())).map(str::to_owned).collect()
    };
    Ok(Row {
        protocols: texts("api"),
        at: texts("at"),
        models: texts("model"),
        facts: facts(row, &CONDITIONS)?,
    })
}

/// The facts of a map, except for the keys of `besides`.
fn facts(map: &Value<'_>, besides: &[&str]) -> Result<Vec<Fact>, String> {
    let map = map.as_map().ok_or("must be a map")?;
    let facts = map.iter().filter_map(|(key, value)| match key.as_keyword() {
        Some(key) if besides.contains(&key) => None,
        Some(key) => Some(fact(key, value).map(Fact)),
        None => Some(Err(format!("has no {key}"))),
    });
    facts.collect()
}

/// The facts of a configuration's `:takes`.
///
/// # Errors
/// The fault, as a sentence without its subject.
pub fn configured(value: Option<&Value<'_>>) -> Result<Arc<[Fact]>, String> {
    match value {
        None | Some(Value::Nil) => Ok(Arc::from([])),
        Some(map) => facts(map, &[]).map(Arc::from),
    }
}

/// The fact that a model takes images, or does not.
pub fn images(takes: bool) -> Fact {
    Fact(FactKind::TakesImages(takes))
}

fn fact(key: &str, value: &Value<'_>) -> Result<FactKind, String> {
    let count = |value: &Value<'_>| value.as_i64().and_then(|count| usize::try_from(count).ok());
    let counted = || count(value).ok_or_else(|| format!("needs a count at :{key}"));
    let flag = || value.as_bool().ok_or_else(|| format!("needs true or false at :{key}"));
    Ok(match key {
        "names" => FactKind::Names(form(key, value)?),
        "ids" => FactKind::Ids(form(key, value)?),
        "images" => FactKind::Images(match value.as_keyword() {
            Some("none") => ImagePlaces::None,
            Some("user") => ImagePlaces::User,
            Some("results") => ImagePlaces::Results,
            _ => return Err("needs :none, :user or :results at :images".to_owned()),
        }),
        "most-images" => FactKind::MostImages(counted()?),
        "image-bytes" => FactKind::ImageBytes(counted()?),
        "image-side" => FactKind::ImageSide(counted()?),
        "many-images" => FactKind::ManyImages(counted()?),
        "many-image-side" => FactKind::ManyImageSide(counted()?),
        "user-after-result" => FactKind::UserAfterResult(flag()?),
        "thinking-back" => FactKind::ThinkingBack(match (value.as_keyword(), value.as_str()) {
            (Some("as-came"), _) => None,
            (_, Some(field)) => Some(field.into()),
            _ => return Err("needs a field's name or :as-came at :thinking-back".to_owned()),
        }),
        "thinking-always" => FactKind::ThinkingAlways(flag()?),
        "signed-calls" => FactKind::SignedCalls(flag()?),
        "rich-results" => FactKind::RichResults(flag()?),
        "cache" => FactKind::Cache(match value.as_keyword() {
            Some("none") => CacheRequest::None,
            Some("marks") => CacheRequest::Marks,
            Some("top") => CacheRequest::Top,
            Some("key") => CacheRequest::Key,
            _ => return Err("needs :none, :marks, :top or :key at :cache".to_owned()),
        }),
        "search" => {
            let tools = value.as_slice().filter(|tools| tools.iter().all(|tool| tool.as_map().is_some()));
            let tools = tools.ok_or("needs a vector of tools, each a map, at :search")?;
            FactKind::Search(tools.iter().map(|tool| tool.clone().into_owned()).collect())
        }
        key => return Err(format!("has no :{key}")),
    })
}

fn form(key: &str, value: &Value<'_>) -> Result<Form, String> {
    let figure = |key: &str| value.get(key).and_then(Value::as_i64).and_then(|n| usize::try_from(n).ok());
    let exact = figure("exactly");
    // A name has room for its digest.
    let longest = exact.or_else(|| figure("longest").filter(|longest| *longest > 2 * DIGEST));
    let longest = longest.filter(|longest| (SHORTEST..=256).contains(longest));
    Ok(Form {
        allowed: value.get("allowed").and_then(Value::as_str).unwrap_or_default().to_owned(),
        longest: longest.ok_or_else(|| format!("needs a :longest of 17 to 256, or :exactly at :{key}"))?,
        is_exact: exact.is_some(),
        letter_first: value.get("letter").and_then(Value::as_bool).unwrap_or(false),
    })
}

/// Characters of a digest behind a name.
const DIGEST: usize = 8;

/// The shortest exact form that a digest can fill without two that are the same.
const SHORTEST: usize = 8;

impl Takes {
    /// Those of a target: its protocol, its provider's name and host, its model, and the facts of the user's configuration.
    pub fn of(protocol: &str, at: [&str; 2], model: &str, configured: [&[Fact]; 2]) -> Self {
        let mut takes = Self {
            names: Form::default(),
            ids: Form::default(),
            images: ImagePlaces::User,
            most_images: 0,
            image_bytes: 0,
            image_side: 0,
            many_images: 0,
            many_image_side: 0,
            user_after_result: true,
            thinking_field: None,
            thinking_always: false,
            signed_calls: false,
            rich_results: false,
            cache: CacheRequest::None,
            search: Arc::from([]),
        };
        let lower = model.to_lowercase();
        let of_table = TAKES.iter().filter(|row| {
            let any = |names: &[String], wanted: &[&str]| {
                names.is_empty() || names.iter().any(|name| wanted.contains(&name.as_str()))
            };
            let is_model = row.models.is_empty() || row.models.iter().any(|part| lower.contains(part));
            any(&row.protocols, &[protocol]) && any(&row.at, &at) && is_model
        });
        for fact in of_table.flat_map(|row| &row.facts).chain(configured.into_iter().flatten()) {
            takes.learn(fact);
        }
        takes
    }

    fn learn(&mut self, fact: &Fact) {
        match &fact.0 {
            FactKind::Names(form) => self.names = form.clone(),
            FactKind::Ids(form) => self.ids = form.clone(),
            FactKind::Images(places) => self.images = *places,
            FactKind::TakesImages(false) => self.images = ImagePlaces::None,
            FactKind::TakesImages(true) => self.images = self.images.max(ImagePlaces::User),
            FactKind::MostImages(count) => self.most_images = *count,
            FactKind::ImageBytes(count) => self.image_bytes = *count,
            FactKind::ImageSide(count) => self.image_side = *count,
            FactKind::ManyImages(count) => self.many_images = *count,
            FactKind::ManyImageSide(count) => self.many_image_side = *count,
            FactKind::UserAfterResult(is_taken) => self.user_after_result = *is_taken,
            FactKind::ThinkingBack(field) => self.thinking_field = field.clone(),
            FactKind::ThinkingAlways(always) => self.thinking_always = *always,
            FactKind::SignedCalls(are_needed) => self.signed_calls = *are_needed,
            FactKind::RichResults(are_rich) => self.rich_results = *are_rich,
            FactKind::Cache(request) => self.cache = *request,
            FactKind::Search(tools) => self.search = tools.clone(),
        }
    }

    /// A tool's name as this target takes it: a model may have called any.
    pub fn name<'t>(&self, name: &'t str) -> Cow<'t, str> {
        self.names.of(name, "tool")
    }

    /// A call's id as this target takes it: another one may have given it.
    pub fn id<'t>(&self, id: &'t str) -> Cow<'t, str> {
        self.ids.of(id, "call")
    }
}

impl Form {
    fn has(&self, character: char) -> bool {
        character.is_ascii_alphanumeric() || self.allowed.contains(character)
    }

    fn fits(&self, text: &str) -> bool {
        let starts = |first: char| !self.letter_first || first.is_ascii_alphabetic() || first == '_';
        let fits_length =
            if self.is_exact { text.len() == self.longest } else { (1..=self.longest).contains(&text.len()) };
        fits_length && text.starts_with(starts) && text.chars().all(|character| self.has(character))
    }

    /// The text in this form. Two texts stay two, because of the digest; one text always has the same form.
    fn of<'t>(&self, text: &'t str, usual: &str) -> Cow<'t, str> {
        if self.fits(text) {
            return text.into();
        }
        let digest = sha256::hex(text);
        if self.is_exact {
            // Two digits make one of 36 characters: enough for the ids of one conversation.
            let pair = |pair: &[u8]| {
                let sum =
                    pair.iter().fold(0u32, |sum, digit| sum.wrapping_mul(16).wrapping_add(u32::from(*digit)));
                char::from_digit(sum % 36, 36)
            };
            let characters = digest.as_bytes().chunks(2).cycle().filter_map(pair);
            return characters.take(self.longest).collect::<String>().into();
        }
        let digest = digest.get(..DIGEST).unwrap_or_default();
        let kept = text.chars().filter_map(|character| match character {
            character if self.has(character) => Some(character),
            _ => self.has('_').then_some('_'),
        });
        let room = self.longest.saturating_sub(DIGEST).saturating_sub(1);
        let mut cleaned: String = kept.take(room).collect();
        let is_started = cleaned.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if cleaned.trim_matches('_').is_empty() || (self.letter_first && !is_started) {
            cleaned = usual.to_owned();
        }
        if self.has('_') {
            cleaned.push('_');
        }
        cleaned.push_str(digest);
        cleaned.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(protocol: &str, provider: &str, model: &str) -> Takes {
        Takes::of(protocol, [provider, "localhost"], model, [&[], &[]])
    }

    #[test]
    fn every_row_of_takes_is_read() {
        let table = rows(include_str!("takes.edn")).unwrap();
        assert_eq!(table.len(), TAKES.len());
        for row in &table {
            assert!(!row.facts.is_empty(), "{row:?}");
            let protocols = ["anthropic", "openai", "openai-responses", "gemini"];
            assert!(row.protocols.iter().all(|name| protocols.contains(&name.as_str())), "{row:?}");
        }
        // The first row has every fact, so that none is unknown.
        assert_eq!(table[0].facts.len(), 15);
    }

    #[test]
    fn later_rows_and_configuration_count_first() {
        let local = takes("openai", "vllm", "mistralai/Mistral-Small");
        assert!(!local.user_after_result);
        let own = takes("openai", "mistral", "mistral-small");
        assert!(own.user_after_result);
        assert_eq!(own.most_images, 8);
        let by_host = Takes::of("openai", ["work", "api.deepseek.com"], "x", [&[], &[]]);
        assert_eq!((by_host.images, by_host.thinking_always), (ImagePlaces::None, true));
        let value = crate::edn::read_one(b"{:images :results :user-after-result true}").unwrap();
        let configured = configured(Some(&value)).unwrap();
        let changed = Takes::of("openai", ["vllm", "h"], "devstral", [&configured, &[images(false)]]);
        assert_eq!((changed.images, changed.user_after_result), (ImagePlaces::None, true));
        let seeing = Takes::of("openai", ["deepseek", "h"], "x", [&[], &[images(true)]]);
        assert_eq!(seeing.images, ImagePlaces::User);
    }

    #[test]
    fn wrong_facts_of_configuration_are_told() {
        for (text, expected) in [
            ("[1]", "must be a map"),
            ("{:pictures 1}", "has no :pictures"),
            ("{\"images\" 1}", "has no \"images\""),
            ("{:images :all}", "needs :none, :user or :results at :images"),
            ("{:most-images -1}", "needs a count at :most-images"),
            ("{:user-after-result 1}", "needs true or false at :user-after-result"),
            ("{:names {:longest 3}}", "needs a :longest of 17 to 256"),
            ("{:thinking-back true}", "needs a field's name"),
            ("{:cache true}", "needs :none, :marks, :top or :key at :cache"),
            ("{:search true}", "needs a vector of tools"),
            ("{:search [:web]}", "needs a vector of tools"),
        ] {
            let value = crate::edn::read_one(text.as_bytes()).unwrap();
            let error = configured(Some(&value)).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn names_and_ids_are_cleaned_and_stay_apart() {
        const NAMES: [&str; 9] = [
            "functions.bash",
            "functions_bash",
            " bash",
            "",
            "...",
            "___",
            "7zip",
            "ls -l /tmp && echo é",
            "a_name_that_is_much_longer_than_any_server_takes_in_a_message_of_a_model",
        ];
        for protocol in ["anthropic", "openai", "openai-responses", "gemini"] {
            let takes = takes(protocol, "p", "m");
            let cleaned: Vec<_> = NAMES.iter().map(|name| takes.name(name).into_owned()).collect();
            for (name, cleaned) in NAMES.iter().zip(&cleaned) {
                let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                assert!((1..=64).contains(&cleaned.len()) && cleaned.chars().all(fits), "{name}: {cleaned}");
                let is_started = !cleaned.starts_with(|c: char| c.is_ascii_digit() || c == '-');
                assert!(protocol != "gemini" || is_started, "{name}: {cleaned}");
                assert_eq!(takes.name(cleaned), *cleaned, "what is clean stays");
            }
            let apart: std::collections::HashSet<_> = cleaned.iter().collect();
            assert_eq!(apart.len(), NAMES.len(), "{cleaned:?}");
            assert!(cleaned[0].starts_with("functions_bash_") && cleaned[1] == "functions_bash");
        }
        let mistral = takes("openai", "mistral", "m");
        for id in ["call_abc123", "", "toolu_01A-b", "call_abc124"] {
            let cleaned = mistral.id(id);
            assert!(cleaned.len() == 9 && cleaned.chars().all(|c| c.is_ascii_alphanumeric()), "{cleaned}");
        }
        assert_ne!(mistral.id("call_abc123"), mistral.id("call_abc124"));
        assert_eq!(mistral.id("D681PevKs"), "D681PevKs");
        assert_eq!(takes("openai", "p", "m").id("toolu_01A-b"), "toolu_01A-b");
        assert!(takes("openai", "p", "m").id("functions.read:0").starts_with("functions_read_0_"));
    }
}
