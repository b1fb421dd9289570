//! Reads the facts of `spec/*.allium` with their parser. `spec/README.md` explains how the files express
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use allium_parser::ast::{BlockItemKind, BlockKind, Decl, Expr, Module};

/// A key, and whether it is required.
pub type Keys = BTreeMap<String, bool>;

#[derive(Debug, Default)]
pub struct Spec {
    /// Enum to its literals, in order.
    pub enums: BTreeMap<String, Vec<String>>,
    /// Config parameter to its default, without quotes and underscores; `file.parameter`.
    pub config: BTreeMap<String, String>,
    /// Value type to its keys.
    pub values: BTreeMap<String, Keys>,
    /// Op to its params.
    pub ops: BTreeMap<String, Keys>,
    /// Op to the keys of its `:data`.
    pub answers: BTreeMap<String, Keys>,
    /// Op to its specific errors.
    pub errors: BTreeMap<String, BTreeSet<String>>,
    /// Topic to its payload's keys.
    pub topics: BTreeMap<String, Keys>,
    /// Name of a set of topics to the topics.
    pub topic_sets: BTreeMap<String, BTreeSet<String>>,
    /// Signatures of the other contracts: contract to name to keys.
    pub contracts: BTreeMap<String, BTreeMap<String, Keys>>,
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("spec")
}

/// All spec files, by name without ending.
pub fn files() -> BTreeMap<String, String> {
    std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "allium"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect()
}

pub fn read() -> Spec {
    let modules: Vec<(String, Module)> = files()
        .into_iter()
        .map(|(name, source)| {
            let parsed = allium_parser::parse(&source);
            assert!(parsed.diagnostics.is_empty(), "{name}: {:?}", parsed.diagnostics);
            assert_eq!(parsed.module.version, Some(3), "{name} is not of version 3");
            (name, parsed.module)
        })
        .collect();
    let mut spec = Spec::default();
    for (_, module) in &modules {
        spec.read_enums(module);
    }
    for (file, module) in &modules {
        spec.read_module(file, module);
    }
    spec
}

impl Spec {
    fn read_enums(&mut self, module: &Module) {
        for block in blocks(module, BlockKind::Enum) {
            let literals = block.items.iter().filter_map(|item| match &item.kind {
                BlockItemKind::EnumVariant { name, .. } => Some(name.name.clone()),
                _ => None,
            });
            self.enums.insert(name(block), literals.collect());
        }
    }

    fn read_module(&mut self, file: &str, module: &Module) {
        for block in blocks(module, BlockKind::Config) {
            for (parameter, value) in assignments(block) {
                let value = match optional(value).0 {
                    // `name: Type = default` is read as a default of the type.
                    Expr::Comparison { right, .. } => literal(right),
                    other => literal(other),
                };
                self.config.insert(format!("{file}.{parameter}"), value);
            }
        }
        for block in blocks(module, BlockKind::Value) {
            let keys =
                assignments(block).map(|(field, kind)| (self.key(&field), !optional(kind).1)).collect();
            self.values.insert(name(block), keys);
        }
        for block in blocks(module, BlockKind::Contract) {
            self.read_contract(block);
        }
        for block in blocks(module, BlockKind::Entity) {
            for (field, value) in assignments(block) {
                if let Expr::In { collection, .. } = value
                    && let Expr::SetLiteral { elements, .. } = collection.as_ref()
                {
                    self.topic_sets.insert(field, elements.iter().map(literal).collect());
                }
            }
        }
        for declaration in &module.declarations {
            let Decl::Default(default) = declaration else { continue };
            if default.type_name.as_ref().is_none_or(|kind| kind.name != "Answer") {
                continue;
            }
            let Expr::ObjectLiteral { fields, .. } = &default.value else { panic!("an answer is an object") };
            let field = |name: &str| &fields.iter().find(|field| field.name.name == name).unwrap().value;
            let Expr::ObjectLiteral { fields: data, .. } = field("data") else {
                panic!(":data is an object")
            };
            let keys = data.iter().map(|key| (self.key(&key.name.name), !optional(&key.value).1)).collect();
            self.answers.insert(default.name.name.clone(), keys);
            let Expr::SetLiteral { elements, .. } = field("errors") else { panic!("errors are a set") };
            self.errors.insert(default.name.name.clone(), elements.iter().map(literal).collect());
        }
    }

    fn read_contract(&mut self, block: &allium_parser::ast::BlockDecl) {
        let contract = name(block);
        for (signature, value) in assignments(block) {
            let Expr::ProjectionMap { source, .. } = value else { panic!("{signature} is no signature") };
            let params = match source.as_ref() {
                Expr::Block { items, .. } => items.iter().collect(),
                single => vec![single],
            };
            let keys: Keys = params
                .into_iter()
                .map(|param| {
                    let Expr::Binding { name, value, .. } = param else { panic!("{signature}: {param:?}") };
                    (self.key(&name.name), !optional(value).1)
                })
                .collect();
            if contract.ends_with("Ops") {
                self.ops.insert(signature, keys);
            } else if contract.ends_with("Topics") {
                let topic = self.enums["Topic"]
                    .iter()
                    .find(|topic| plain(topic) == signature)
                    .unwrap_or_else(|| panic!("{signature} is no topic"));
                self.topics.insert(topic.clone(), keys);
            } else {
                self.contracts.entry(contract.clone()).or_default().insert(signature, keys);
            }
        }
    }

    /// The wire key of a field.
    fn key(&self, field: &str) -> String {
        let namespaced = self.enums["NamespacedKey"].iter().find(|key| plain(key) == field);
        namespaced.cloned().unwrap_or_else(|| field.replace('_', "-"))
    }
}

/// A name of the wire as a name of the spec.
pub fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn blocks(module: &Module, kind: BlockKind) -> impl Iterator<Item = &allium_parser::ast::BlockDecl> {
    module.declarations.iter().filter_map(move |declaration| match declaration {
        Decl::Block(block) if block.kind == kind => Some(block),
        _ => None,
    })
}

fn name(block: &allium_parser::ast::BlockDecl) -> String {
    block.name.as_ref().unwrap().name.clone()
}

fn assignments(block: &allium_parser::ast::BlockDecl) -> impl Iterator<Item = (String, &Expr)> {
    block.items.iter().filter_map(|item| match &item.kind {
        BlockItemKind::Assignment { name, value } => Some((name.name.clone(), value)),
        _ => None,
    })
}

/// A type without its `?`, and whether it had one. After alternatives the `?` applies to the whole list.
fn optional(kind: &Expr) -> (&Expr, bool) {
    match kind {
        Expr::TypeOptional { inner, .. } => (inner, true),
        Expr::Pipe { right, .. } => (kind, optional(right).1),
        other => (other, false),
    }
}

fn literal(value: &Expr) -> String {
    match value {
        Expr::BacktickLiteral { value, .. } => value.clone(),
        Expr::NumberLiteral { value, .. } => value.replace('_', ""),
        Expr::StringLiteral(text) => text.text(),
        Expr::Ident(name) => name.name.clone(),
        other => panic!("no literal: {other:?}"),
    }
}
