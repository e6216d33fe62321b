//! No circle of imports between files of a crate: who follows them comes to an end.
//!
//! A file imports another if it names something of it, in a `use` or in place. `mod x;` is no import, and neither is a
//! `pub use` whose name the file does not use itself: both only say where things are. What is named through such a `pub
//! use` is looked for where it is defined. Code for tests alone does not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility, parse2};

use crate::layering::metadata;

type Outcome<T> = Result<T, Box<dyn Error>>;
/// The names that lead to a module from the root of its crate.
type Names = Vec<String>;

/// A module, in a file of its own or inside another's.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// What is written in it, tests aside.
    items: Vec<Item>,
    /// Names that it says are elsewhere, for others too.
    exports: BTreeMap<String, Names>,
    /// Modules all of whose names are given on.
    globs: Vec<Names>,
    /// Names of its own.
    own: BTreeSet<String>,
}

/// The modules of a crate.
#[derive(Default)]
struct Tree(BTreeMap<Names, Module>);

/// Gives the text of a file, if there is one.
type Read<'a> = dyn Fn(&Path) -> Option<String> + 'a;

impl Tree {
    fn read(root: &Path, read: &Read<'_>) -> Outcome<Self> {
        let mut tree = Self::default();
        let items = syn::parse_file(&read(root).ok_or("there is no such file")?)?.items;
        tree.add(Names::new(), root, root.parent().ok_or("a file lies in a folder")?, items, read)?;
        Ok(tree)
    }

    /// `folder` is where the files of its modules are.
    fn add(&mut self, names: Names, file: &Path, folder: &Path, items: Vec<Item>, read: &Read<'_>) -> Outcome<()> {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            let Item::Mod(ItemMod { ident, content, attrs, .. }) = item else {
                module.own.extend(name_of(&item));
                module.items.push(item);
                continue;
            };
            let (name, inner) = (ident.to_string(), [&names[..], &[ident.to_string()]].concat());
            if let Some((_, items)) = content {
                self.add(inner, file, &folder.join(&name), items, read)?;
                continue;
            }
            let given = path_of(&attrs).map(|path| file.with_file_name(path));
            let beside = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
            let found = given.into_iter().chain(beside).find_map(|path| Some((read(&path)?, path)));
            let (text, path) = found.ok_or_else(|| format!("{}: no file for `mod {name}`", file.display()))?;
            self.add(inner, &path, &folder.join(&name), syn::parse_file(&text)?.items, read)?;
        }
        self.0.insert(names, module);
        Ok(())
    }

    /// Notes what each module re-exports.
    fn export(&mut self) {
        let exports: Vec<_> = self.0.iter().flat_map(|(names, module)| self.exports_of(names, module)).collect();
        for (names, name, target) in exports {
            let Some(module) = self.0.get_mut(&names) else { continue };
            match name {
                Some(name) => drop(module.exports.insert(name, target)),
                None => module.globs.push(target),
            }
        }
    }

    fn exports_of(&self, names: &Names, module: &Module) -> Vec<(Names, Option<String>, Names)> {
        let uses = module.items.iter().filter_map(|item| match item {
            Item::Use(item) if !matches!(item.vis, Visibility::Inherited) => Some(leaves(&item.tree)),
            _ => None,
        });
        let leaves =
            uses.flatten().filter_map(|(name, path)| Some((names.clone(), name, self.absolute(names, &path)?)));
        leaves.collect()
    }

    /// From the crate's root, if the path leads to somewhere in the crate.
    fn absolute(&self, from: &Names, path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let mut up = from.clone();
                up.pop();
                match rest.first().map(String::as_str) {
                    Some("super") => self.absolute(&up, rest),
                    _ => Some([&up[..], rest].concat()),
                }
            }
            _ => {
                let child = [&from[..], std::slice::from_ref(first)].concat();
                self.0.contains_key(&child).then(|| [&child[..], rest].concat())
            }
        }
    }

    /// The module in which the path's first name that is no module is defined, or the module that the path ends at.
    fn defined_in(&self, path: &[String], depth: usize) -> Option<(Names, bool)> {
        let known = (0..=path.len()).rev().find(|&known| self.0.contains_key(&path[..known]))?;
        let (names, module) = (path[..known].to_vec(), &self.0[&path[..known]]);
        let Some(name) = path.get(known) else { return Some((names, true)) };
        if depth > 8 || module.own.contains(name) {
            return Some((names, false));
        }
        let rest = &path[known + 1..];
        if let Some(target) = module.exports.get(name) {
            return self.defined_in(&[target, rest].concat(), depth + 1);
        }
        let through = |glob: &Names| {
            let (found, _) = self.defined_in(&[&glob[..], std::slice::from_ref(name), rest].concat(), depth + 1)?;
            self.0[&found].own.contains(name).then_some((found, false))
        };
        module.globs.iter().find_map(through).or(Some((names, false)))
    }

    /// For each file the files that it imports.
    fn imports(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut imports: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for (names, module) in &self.0 {
            let (mut targets, mut paths) = (Vec::new(), Vec::new());
            let (mut modules, mut exported) = (BTreeMap::new(), Vec::new());
            for item in &module.items {
                match item {
                    Item::Use(item) => {
                        for (name, path) in leaves(&item.tree) {
                            let Some(path) = self.absolute(names, &path) else { continue };
                            match (name, &item.vis, self.defined_in(&path, 0)) {
                                // What is used of a module is seen where it is used.
                                (Some(name), _, Some((target, true))) => drop(modules.insert(name, target)),
                                (Some(name), Visibility::Public(_) | Visibility::Restricted(_), _) => {
                                    exported.push((name, path));
                                }
                                _ => targets.push(path),
                            }
                        }
                    }
                    _ => in_place(item.to_token_stream(), &mut paths),
                }
            }
            for path in paths {
                let exported = exported.iter().find(|(name, _)| *name == path[0]);
                targets.extend(exported.map(|(_, target)| target.clone()));
                match modules.get(&path[0]) {
                    Some(target) => targets.push([&target[..], &path[1..]].concat()),
                    None => targets.extend(self.absolute(names, &path)),
                }
            }
            let found = targets.iter().filter_map(|path| self.defined_in(path, 0));
            let files = found.map(|(target, _)| self.0[&target].file.as_path()).filter(|file| *file != module.file);
            imports.entry(&module.file).or_default().extend(files);
        }
        imports
    }

    /// Sets of files each of which imports each other, directly or through others.
    fn circles(&self) -> Vec<Vec<PathBuf>> {
        let imports = self.imports();
        let reached: BTreeMap<&Path, BTreeSet<&Path>> =
            imports.keys().map(|file| (*file, reached_from(file, &imports))).collect();
        let circle = |file: &&&Path| -> Vec<PathBuf> {
            reached[**file]
                .iter()
                .filter(|other| reached[**other].contains(**file))
                .map(|file| file.to_path_buf())
                .collect()
        };
        let circles: BTreeSet<Vec<PathBuf>> = imports.keys().map(|file| circle(&file)).collect();
        circles.into_iter().filter(|circle| !circle.is_empty()).collect()
    }
}

fn reached_from<'a>(start: &'a Path, imports: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> BTreeSet<&'a Path> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(file) = next.pop() {
        next.extend(imports.get(file).into_iter().flatten().filter(|file| reached.insert(**file)));
    }
    reached
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    let is_test = |tokens: String| tokens == "cfg (test)" || tokens.starts_with("cfg (all (test");
    attributes.iter().any(|attribute| is_test(attribute.meta.to_token_stream().to_string()))
}

/// Of `#[path = "…"]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    let path = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    Some(path.meta.require_name_value().ok()?.value.to_token_stream().to_string().trim_matches('"').to_owned())
}

/// Every name that a `use` brings, with its path; none for all names of a module.
fn leaves(tree: &UseTree) -> Vec<(Option<String>, Names)> {
    let below = |name: String, tree: &UseTree| {
        let leaves = leaves(tree).into_iter();
        leaves.map(move |(leaf, path)| (leaf, [std::slice::from_ref(&name), &path[..]].concat())).collect()
    };
    match tree {
        UseTree::Path(path) => {
            let mut leaves: Vec<(Option<String>, Names)> = below(path.ident.to_string(), &path.tree);
            for (name, path) in &mut leaves {
                // `use a::{self}`
                if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                    path.pop();
                    *name = name.take().map(|name| if name == "self" { path[path.len() - 1].clone() } else { name });
                }
            }
            leaves
        }
        UseTree::Name(name) => vec![(Some(name.ident.to_string()), vec![name.ident.to_string()])],
        UseTree::Rename(rename) => vec![(Some(rename.rename.to_string()), vec![rename.ident.to_string()])],
        UseTree::Glob(_) => vec![(None, vec![])],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

/// Adds each path that stands in code, macros included; a name alone is one, too.
fn in_place(tokens: TokenStream, paths: &mut Vec<Names>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_punct =
        |at: usize, mark: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => in_place(group.stream(), paths),
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                // An item for tests alone ends with braces or a semicolon.
                let is_test =
                    tokens.get(at + 1).is_some_and(|token| token.to_string().replace(' ', "") == "[cfg(test)]");
                let ends = |token: &TokenTree| match token {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    TokenTree::Punct(punct) => matches!(punct.as_char(), ';' | ','),
                    _ => false,
                };
                at = if is_test { (at..tokens.len()).find(|&at| ends(&tokens[at])).unwrap_or(at) } else { at + 1 };
            }
            TokenTree::Ident(ident) if *ident == "use" => {
                let end = (at..tokens.len()).find(|&end| is_punct(end, ';')).unwrap_or(at);
                let item = tokens[at..=end].iter().cloned().collect();
                if let Ok(ItemUse { tree, .. }) = parse2(item) {
                    paths.extend(leaves(&tree).into_iter().map(|leaf| leaf.1));
                }
                at = end;
            }
            TokenTree::Ident(ident) => {
                let mut path = vec![ident.to_string()];
                while is_punct(at + 1, ':') && is_punct(at + 2, ':') {
                    let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
                    path.push(next.to_string());
                    at += 3;
                }
                // `pub(crate)` names nothing.
                if path.len() > 1 || !matches!(path[0].as_str(), "crate" | "super" | "self") {
                    paths.push(path);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

fn read(root: &Path, read: &Read<'_>) -> Outcome<Tree> {
    let mut tree = Tree::read(root, read)?;
    tree.export();
    Ok(tree)
}

#[test]
fn no_file_imports_what_imports_it() -> Outcome<()> {
    let metadata = metadata()?;
    let folder = metadata.workspace_root.as_std_path();
    let name = |file: &Path| file.strip_prefix(folder).unwrap_or(file).display().to_string();
    let mut found = String::new();
    for target in metadata.workspace_packages().iter().flat_map(|package| &package.targets) {
        let tree = read(target.src_path.as_std_path(), &|path| fs::read_to_string(path).ok())?;
        let imports = tree.imports();
        for circle in tree.circles() {
            for file in &circle {
                let others = imports[file.as_path()].iter().filter(|other| circle.iter().any(|file| file == *other));
                let others: Vec<_> = others.map(|file| name(file)).collect();
                found.push_str(&format!("{} imports {}\n", name(file), others.join(", ")));
            }
            found.push('\n');
        }
    }
    assert!(found.is_empty(), "circles of imports:\n{found}");
    Ok(())
}

/// The circles among files that are given as text.
fn planted(files: &[(&str, &str)]) -> Vec<Vec<PathBuf>> {
    let read = |path: &Path| files.iter().find(|file| Path::new(file.0) == path).map(|file| file.1.to_owned());
    self::read(Path::new(files[0].0), &read).unwrap().circles()
}

#[test]
fn planted_circles_are_found() {
    let circle = [vec![PathBuf::from("src/a.rs"), PathBuf::from("src/b.rs")]];
    let root = ("src/lib.rs", "mod a; mod b; mod c { pub use super::b::B; }");
    for (a, b) in [
        ("use crate::b::B; pub struct A;", "use super::a::A; pub struct B;"),
        ("use crate::{b::{self}}; pub struct A; fn f() { b::g(); }", "use super::a::*; pub struct B; pub fn g() {}"),
        // Through a re-export, in place, inside of a macro.
        ("use crate::c::B; pub struct A;", "pub struct B; fn f() { assert!(crate::a::A == 1); }"),
        ("pub struct A; fn f() { use crate::b::B; }", "pub use crate::a::A; pub struct B(A);"),
    ] {
        assert_eq!(planted(&[root, ("src/a.rs", a), ("src/b.rs", b)]), circle, "{a}\n{b}");
    }
    // A child and its parent.
    let parent = "mod b; pub struct A; pub fn f() { b::g() }";
    let files = [("src/lib.rs", "mod a;"), ("src/a.rs", parent), ("src/a/b.rs", "use super::A; pub fn g() {}")];
    assert_eq!(planted(&files), [vec![PathBuf::from("src/a/b.rs"), PathBuf::from("src/a.rs")]]);
}

#[test]
fn what_is_no_circle_is_not_found() {
    let root = ("src/lib.rs", "mod a; mod b; pub use a::A; pub use b::B;");
    for (a, b) in [
        ("use crate::b::B; pub struct A;", "pub struct B;"),
        // Tests may look anywhere, and a room's list of its names is no import.
        ("use crate::B; pub struct A;", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
        ("use crate::B; pub struct A;", "pub struct B; impl B { #[cfg(test)] fn f() { crate::a::f(); } }"),
        ("pub use crate::b::B; pub struct A;", "use crate::a::A; pub struct B;"),
        // A field is no module, nor is a visibility.
        ("pub struct A { b: u8 } pub(crate) fn f(a: A) { a.b; }", "use crate::A; pub struct B;"),
    ] {
        assert!(planted(&[root, ("src/a.rs", a), ("src/b.rs", b)]).is_empty(), "{a}\n{b}");
    }
    // Siblings that name each other's parent name what it re-exports.
    let files = [
        ("src/lib.rs", "mod a { mod b; mod c; pub use b::B; }"),
        ("src/a/b.rs", "pub struct B;"),
        ("src/a/c.rs", "use super::B;"),
    ];
    assert!(planted(&files).is_empty());
}
