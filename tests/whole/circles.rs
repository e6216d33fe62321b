//! No circle of imports, neither among the files of a crate nor among modules beside each other, with all that is in
//! them: a reader who follows imports comes to an end.
//!
//! A path is an import where it stands, in a `use` or in code. `mod x;` is none, and neither is a `pub use` whose name
//! the module does not use itself: both only say where things are. A name is followed through a `pub use` to the module
//! that defines it. Code for tests alone does not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::layering::metadata;

type Outcome<T> = Result<T, Box<dyn Error>>;
/// Names that lead to a module or an item from the root of its crate.
type Names = Vec<String>;
/// Returns the text of a file, if there is one.
type Read<'a> = dyn Fn(&Path) -> Option<String> + 'a;

/// A module, in a file of its own or inside another's.
#[derive(Default)]
struct Module {
    file: PathBuf,
    uses: Vec<Use>,
    /// Paths in code, names alone included.
    paths: Vec<Names>,
}

/// A name that a `use` brings; `*` for all names of a module.
struct Use {
    name: String,
    path: Names,
    is_public: bool,
}

/// The modules of a crate, by their names.
#[derive(Default)]
struct Tree(BTreeMap<Names, Module>);

impl Tree {
    fn read(root: &Path, read: &Read<'_>) -> Outcome<Self> {
        let mut tree = Self::default();
        let text = read(root).ok_or("there is no such file")?;
        tree.add(Names::new(), root, root.parent().ok_or("a file lies in a folder")?, text.parse()?, read)?;
        Ok(tree)
    }

    /// Adds a module and those in it, whose files are in `folder`.
    fn add(&mut self, names: Names, file: &Path, folder: &Path, text: TokenStream, read: &Read<'_>) -> Outcome<()> {
        let (mut module, mut children) = (Module { file: file.to_owned(), ..Module::default() }, Vec::new());
        module.scan(text, Some(&mut children));
        self.0.insert(names.clone(), module);
        for Child { name, text, path } in children {
            let (inner, below) = ([&names[..], std::slice::from_ref(&name)].concat(), folder.join(&name));
            if let Some(text) = text {
                self.add(inner, file, &below, text, read)?;
                continue;
            }
            let given = path.map(|path| file.with_file_name(path));
            let mut places = given.into_iter().chain([folder.join(format!("{name}.rs")), below.join("mod.rs")]);
            let (text, file) = places
                .find_map(|path| Some((read(&path)?, path)))
                .ok_or_else(|| format!("{}: no file for `mod {name}`", file.display()))?;
            self.add(inner, &file, &below, text.parse()?, read)?;
        }
        Ok(())
    }

    /// From the crate's root, if the path leads to somewhere in the crate.
    fn absolute(&self, from: &[String], path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let up = from.split_last()?.1;
                let more = rest.first().is_some_and(|next| next == "super");
                if more { self.absolute(up, rest) } else { Some([up, rest].concat()) }
            }
            _ => self.0.contains_key(&[from, &path[..1]].concat()).then(|| [from, path].concat()),
        }
    }

    /// The module that defines the path's first name that is no module, or the module that the path itself names, with
    /// whether it does.
    fn defined_in(&self, path: &[String]) -> Option<(&Names, bool)> {
        let known = (0..=path.len()).rev().find(|&known| self.0.contains_key(&path[..known]))?;
        let (names, module) = self.0.get_key_value(&path[..known])?;
        let Some(name) = path.get(known) else { return Some((names, true)) };
        let export = module.uses.iter().find(|export| export.is_public && export.name == *name);
        match export.and_then(|export| self.absolute(names, &export.path)) {
            Some(elsewhere) => self.defined_in(&[&elsewhere, &path[known + 1..]].concat()),
            None => Some((names, false)),
        }
    }

    /// Pairs of modules in different files, the first of which imports the second.
    fn imports(&self) -> BTreeSet<(&Names, &Names)> {
        let mut imports = BTreeSet::new();
        for (names, module) in &self.0 {
            let (mut targets, mut modules, mut exports) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
            for Use { name, path, is_public } in &module.uses {
                let Some(path) = self.absolute(names, path) else { continue };
                match self.defined_in(&path) {
                    // Imports are what is used of it, where it is used.
                    Some((target, true)) if name != "*" => drop(modules.insert(name, target)),
                    _ if *is_public => drop(exports.insert(name, path)),
                    _ => targets.push(path),
                }
            }
            for path in &module.paths {
                targets.extend(exports.get(&path[0]).cloned());
                // A name alone is a field or a variable more often than a module.
                let rest = &path[1..];
                match modules.get(&path[0]) {
                    _ if rest.is_empty() => {}
                    Some(target) => targets.push([target, rest].concat()),
                    None => targets.extend(self.absolute(names, path)),
                }
            }
            let found = targets.iter().filter_map(|path| self.defined_in(path)).map(|(target, _)| (names, target));
            imports.extend(found.filter(|(_, target)| self.0[*target].file != module.file));
        }
        imports
    }

    /// Circles of files, and circles of modules beside each other.
    fn circles(&self) -> (Vec<Vec<PathBuf>>, Vec<Vec<String>>) {
        let imports = self.imports();
        let files = imports.iter().map(|(from, to)| (self.0[*from].file.clone(), self.0[*to].file.clone()));
        let beside = |(from, to): &(&Names, &Names)| {
            let shared = from.iter().zip(to.iter()).take_while(|(from, to)| from == to).count();
            let name = |names: &Names| names.get(..=shared).map(|names| names.join("::"));
            name(from).zip(name(to))
        };
        (circles(&files.collect()), circles(&imports.iter().filter_map(beside).collect()))
    }

    /// Imports from one node of a circle to another.
    fn within(&self, node: impl Fn(&Names) -> Option<usize>) -> Vec<String> {
        let is_within = |(from, to): &(&Names, &Names)| node(from).zip(node(to)).is_some_and(|(from, to)| from != to);
        let imports = self.imports().into_iter().filter(is_within);
        imports.map(|(from, to)| format!("{} imports {}", from.join("::"), to.join("::"))).collect()
    }
}

/// A module in another.
struct Child {
    name: String,
    /// Text of the module, unless it has a file of its own.
    text: Option<TokenStream>,
    /// Value of `#[path = "…"]`.
    path: Option<String>,
}

impl Module {
    /// Notes paths and `use`s of some code; modules only at the top of a module, which gives `children`.
    fn scan(&mut self, code: TokenStream, mut children: Option<&mut Vec<Child>>) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let is = |at: usize, mark: &str| tokens.get(at).is_some_and(|token| is(token, mark));
        let ident = |at: usize| match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
            _ => None,
        };
        let (mut at, mut given) = (0, None);
        while at < tokens.len() {
            match &tokens[at] {
                // The module of `pub(in super::super)` may see the item, and is not imported.
                TokenTree::Group(group)
                    if group.delimiter() == Delimiter::Parenthesis && at > 0 && is(at - 1, "pub") => {}
                TokenTree::Group(group) => self.scan(group.stream(), None),
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let attribute = tokens.get(at + 1).map(|token| token.to_string().replace(' ', ""));
                    let attribute = attribute.unwrap_or_default();
                    if attribute == "[cfg(test)]" || attribute.starts_with("[cfg(all(test") {
                        // An item ends with braces or a semicolon, a field or variant with a comma.
                        let ends = |token: &TokenTree| match token {
                            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                            TokenTree::Punct(mark) => {
                                mark.as_char() == ';' || mark.as_char() == ',' && children.is_none()
                            }
                            _ => false,
                        };
                        at = (at..tokens.len()).find(|&at| ends(&tokens[at])).unwrap_or(tokens.len());
                    } else if let Some(path) = attribute.strip_prefix("[path=\"") {
                        given = Some(path.trim_end_matches("\"]").to_owned());
                    }
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    match (&mut children, ident(at + 1)) {
                        _ if word == "use" => {
                            let end = (at..tokens.len()).find(|&end| is(end, ";")).unwrap_or(tokens.len());
                            let is_public = at > 0 && (is(at - 1, "pub") || at > 1 && is(at - 2, "pub"));
                            let first = self.uses.len();
                            leaves(&tokens[at + 1..end], &[], &mut self.uses);
                            self.uses[first..].iter_mut().for_each(|leaf| leaf.is_public = is_public);
                            at = end;
                        }
                        (Some(children), Some(name)) if word == "mod" => {
                            let text = match tokens.get(at + 2) {
                                Some(TokenTree::Group(group)) => Some(group.stream()),
                                _ => None,
                            };
                            children.push(Child { name, text, path: given.take() });
                            at += 2;
                        }
                        _ => {
                            let mut path = vec![word];
                            while is(at + 1, ":") && is(at + 2, ":") {
                                let Some(next) = ident(at + 3) else { break };
                                path.push(next);
                                at += 3;
                            }
                            self.paths.push(path);
                        }
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// True for a word or mark that reads so.
fn is(token: &TokenTree, text: &str) -> bool {
    !matches!(token, TokenTree::Group(_)) && token.to_string() == text
}

/// Adds every name that the tree of a `use` brings.
fn leaves(tree: &[TokenTree], prefix: &[String], uses: &mut Vec<Use>) {
    for branch in tree.split(|token| is(token, ",")).filter(|branch| !branch.is_empty()) {
        let (mut path, mut renamed, mut inner) = (prefix.to_vec(), None, None);
        for (at, token) in branch.iter().enumerate() {
            match token {
                TokenTree::Group(group) => inner = Some(group.stream()),
                TokenTree::Ident(word) if *word == "as" => renamed = branch.get(at + 1).map(ToString::to_string),
                TokenTree::Ident(word) if renamed.is_none() => path.push(word.to_string()),
                TokenTree::Punct(mark) if mark.as_char() == '*' => renamed = Some("*".to_owned()),
                _ => {}
            }
        }
        if let Some(inner) = inner {
            leaves(&inner.into_iter().collect::<Vec<_>>(), &path, uses);
            continue;
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = renamed.or_else(|| path.last().cloned()).unwrap_or_default();
        uses.push(Use { name, path, is_public: false });
    }
}

/// Sets of nodes each of which leads to each other.
fn circles<T: Clone + Ord>(edges: &BTreeSet<(T, T)>) -> Vec<Vec<T>> {
    let mut beyond: BTreeMap<&T, Vec<&T>> = BTreeMap::new();
    for (from, to) in edges {
        beyond.entry(from).or_default().push(to);
    }
    let mut reached: BTreeMap<&T, BTreeSet<&T>> = BTreeMap::new();
    for &start in beyond.keys() {
        let (found, mut next) = (reached.entry(start).or_default(), vec![start]);
        while let Some(node) = next.pop() {
            next.extend(beyond.get(node).into_iter().flatten().filter(|&&to| found.insert(to)));
        }
    }
    let circle = |node: &&T| -> Vec<T> {
        let back = |other: &&&T| reached.get(*other).is_some_and(|reached| reached.contains(node));
        reached[*node].iter().filter(back).map(|other| (*other).clone()).collect()
    };
    let circles: BTreeSet<Vec<T>> = reached.keys().map(circle).collect();
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

#[test]
fn nothing_imports_what_imports_it() -> Outcome<()> {
    let metadata = metadata()?;
    let (mut files, mut modules) = (Vec::new(), BTreeSet::new());
    for package in metadata.workspace_packages() {
        for target in &package.targets {
            let tree = Tree::read(target.src_path.as_std_path(), &|path| fs::read_to_string(path).ok())?;
            let (of_files, of_modules) = tree.circles();
            for circle in of_files {
                let node = |names: &Names| circle.iter().position(|file| *file == tree.0[names].file);
                files.extend(tree.within(node));
            }
            for circle in of_modules {
                let node = |names: &Names| circle.iter().position(|module| names.join("::").starts_with(module));
                let (name, imports) = (format!("{}: {}", package.name, circle.join(", ")), tree.within(node));
                println!("{name}: {imports:#?}");
                modules.insert(name);
            }
        }
    }
    assert!(files.is_empty(), "files that import each other: {files:#?}");
    assert!(modules.is_empty(), "modules that import each other: {modules:#?}");
    Ok(())
}

/// The circles among files that are given as text.
fn planted(files: &[(&str, &str)]) -> (Vec<Vec<PathBuf>>, Vec<Vec<String>>) {
    let read = |path: &Path| files.iter().find(|file| Path::new(file.0) == path).map(|file| file.1.to_owned());
    Tree::read(Path::new(files[0].0), &read).unwrap().circles()
}

#[test]
fn planted_circles_of_files_are_found() {
    let circle = [["src/a.rs", "src/b.rs"].map(PathBuf::from).to_vec()];
    let root = ("src/lib.rs", "mod a; mod b; mod c { pub use super::b::B; }");
    for (a, b) in [
        ("use crate::b::B; pub struct A;", "use super::a::A; pub struct B;"),
        ("use crate::{b::{self}}; pub struct A; fn f() { b::g(); }", "use super::a::*; pub struct B; pub fn g() {}"),
        // Through a re-export, in place, inside of a macro.
        ("use crate::c::B; pub struct A;", "pub struct B; fn f() { assert!(crate::a::A == 1); }"),
        ("pub struct A; fn f() { use crate::b::B; }", "pub use crate::a::A; pub struct B(A);"),
    ] {
        assert_eq!(planted(&[root, ("src/a.rs", a), ("src/b.rs", b)]).0, circle, "{a}\n{b}");
    }
    // A child and its parent.
    let parent = "mod b; pub struct A; pub fn f() { b::g() }";
    let files = [("src/lib.rs", "mod a;"), ("src/a.rs", parent), ("src/a/b.rs", "use super::A; pub fn g() {}")];
    assert_eq!(planted(&files).0, [["src/a/b.rs", "src/a.rs"].map(PathBuf::from).to_vec()]);
}

#[test]
fn a_planted_circle_of_modules_is_found() {
    let files = |inner: &'static str| {
        [
            ("src/lib.rs", "mod app; mod openai;"),
            ("src/app.rs", "mod state; mod routes;"),
            ("src/app/state.rs", "pub struct State;"),
            ("src/app/routes.rs", inner),
            ("src/openai.rs", "use crate::app::state::State; pub fn routes() {}"),
        ]
    };
    let circle = files("fn f() { crate::openai::routes() }");
    assert_eq!(planted(&circle), (Vec::new(), vec![vec!["app".to_owned(), "openai".to_owned()]]));
    assert_eq!(planted(&files("use super::state::State;")), (Vec::new(), Vec::new()));
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
        ("use crate::B; pub struct A;", "pub(in crate::a) struct B;"),
    ] {
        assert_eq!(planted(&[root, ("src/a.rs", a), ("src/b.rs", b)]), Default::default(), "{a}\n{b}");
    }
    // Siblings that name each other's parent name what it re-exports.
    let files = [
        ("src/lib.rs", "mod a { mod b; mod c; pub use b::B; }"),
        ("src/a/b.rs", "pub struct B;"),
        ("src/a/c.rs", "use super::B;"),
    ];
    assert_eq!(planted(&files), Default::default());
}
