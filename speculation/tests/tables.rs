//! Files written from the tables of options: the package's TypeScript and the tables of the docs.
//!
//! `OUTRIDER_WRITE_TABLES=1 cargo test -p outrider-speculation --test tables` writes them; without the variable the
//! test fails where a file is not what the tables give.
#![cfg(not(target_arch = "wasm32"))]
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::{env, fmt::Write, fs, path::Path};

use outrider_speculation::{
    judge::{Range, Rule},
    session::options::{
        DraftingOptions, Entry, NAMES, NameInfo,
        numbers::{Bounds, NUMBERS, NumberInfo},
    },
};

/// The types of the options that are names; with `true` where callers may pass any string.
const TYPES: [(&str, &str, bool); 8] = [
    ("scheme", "Scheme", false),
    ("code", "Code", false),
    ("downlink", "Downlink", false),
    ("rule", "RuleName", true),
    ("gate", "GateName", true),
    ("stopRule", "StopRuleName", true),
    ("goal", "Goal", false),
    ("verification", "Verification", false),
];

/// Writes a file, or checks that it is what it should be.
fn put(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if env::var_os("OUTRIDER_WRITE_TABLES").is_some() {
        fs::write(path, text).unwrap();
    } else {
        let found = fs::read_to_string(&path).unwrap();
        assert!(
            found == text,
            "{} is not what the tables give: OUTRIDER_WRITE_TABLES=1 cargo test -p outrider-speculation --test tables",
            path.display()
        );
    }
}

fn bounds(Bounds { min, max, integer, below_max }: Bounds) -> String {
    let [min, max] = [min, max].map(|bound| bound.to_string().replace("inf", "Infinity"));
    let excluded = if below_max { ", excluded: 'max'" } else { "" };
    format!("{{ min: {min}, max: {max}, integer: {integer}{excluded} }}")
}

/// An entry as a line of TypeScript.
fn entry(kind: &NameInfo, entry: &Entry) -> String {
    let &Entry { name, label, explanation, source, options, parameter, lossy, head, .. } = entry;
    let parameter = parameter.map_or("null".to_owned(), |parameter| {
        let (symbol, default) = (parameter.symbol, parameter.default);
        format!("{{ symbol: {symbol:?}, default: {default}, range: {} }}", bounds(parameter.bounds))
    });
    let head = head.map_or("null".to_owned(), |head| format!("{head:?}"));
    let more = match kind.name {
        "rule" => format!(", hasBonus: {}", entry.has_bonus),
        "scheme" => format!(", sendsDistributions: {}", entry.sends_distributions),
        _ => String::new(),
    };
    format!(
        "{{ name: {name:?}, label: {label:?}, explanation: {explanation:?}, source: {source:?}, options: {options:?}, \
         parameter: {parameter}, lossy: {lossy}, head: {head}{more} }}"
    )
}

/// A documented field of an interface.
fn field(out: &mut String, documentation: &str, name: &str, kind: &str) {
    writeln!(out, "  /** {documentation} */\n  {name}?: {kind} | undefined;").unwrap();
}

fn readers(option: &str) -> String {
    let entries = NAMES.iter().flat_map(|kind| (kind.entries)());
    let names: Vec<String> =
        entries.filter(|entry| entry.options.contains(&option)).map(|entry| format!("`{}`", entry.name)).collect();
    if names.is_empty() { String::new() } else { format!("{}: ", names.join(", ")) }
}

fn typescript() -> String {
    let mut out = String::from(
        "// The options and what there is to choose from. Written from the tables of crate `speculation`; do not edit:\n\
         // OUTRIDER_WRITE_TABLES=1 cargo test -p outrider-speculation --test tables\n\n\
         import type { NameDescription, NumberDescription } from './descriptions.js';\n",
    );
    let (mut names, mut numbers) = (String::new(), String::new());
    for (kind, (_, kind_type, _)) in NAMES.iter().zip(TYPES) {
        let entries = (kind.entries)();
        let union: Vec<String> = entries.iter().map(|entry| format!("'{}'", entry.name)).collect();
        writeln!(out, "\n/** {}. */\nexport type {kind_type} = {};", kind.explanation, union.join(" | ")).unwrap();
        let NameInfo { name, label, explanation, lead, parameter, default, .. } = kind;
        let parameter = parameter
            .map_or("null".to_owned(), |(option, label)| format!("{{ option: '{option}', label: {label:?} }}"));
        let group = format!("{:?}", kind.group).to_lowercase();
        writeln!(
            names,
            "  {name}: {{\n    label: {label:?},\n    explanation: {explanation:?},\n    lead: {lead:?},\n    \
             group: '{group}',\n    default: '{default}',\n    parameter: {parameter},\n    entries: ["
        )
        .unwrap();
        entries.iter().for_each(|found| writeln!(names, "      {},", entry(kind, found)).unwrap());
        names.push_str("    ],\n  },\n");
    }
    writeln!(out, "\n/** The options that are names. */\nexport interface NameOptions {{").unwrap();
    for (kind, (name, kind_type, open)) in NAMES.iter().zip(TYPES) {
        assert_eq!(kind.name, name);
        let kind_type = if open { format!("{kind_type} | (string & {{}})") } else { kind_type.to_owned() };
        let documentation = format!("{}{}; `{}` if not given.", readers(name), kind.explanation, kind.default);
        field(&mut out, &documentation, name, &kind_type);
    }
    writeln!(out, "}}\n\n/** The numbers that come with names, each with ranges and defaults of its own. */").unwrap();
    writeln!(out, "export interface ParameterOptions {{").unwrap();
    for (kind, (option, label)) in NAMES.iter().filter_map(|kind| Some((kind, kind.parameter?))) {
        let entries = (kind.entries)();
        let letters =
            entries.iter().filter_map(|entry| Some(format!("{} of `{}`", entry.parameter?.symbol, entry.name)));
        let letters = letters.collect::<Vec<_>>().join(", ");
        field(&mut out, &format!("{label} of `{}`: {letters}.", kind.name), option, "number");
    }
    writeln!(out, "}}\n\n/** The options that are numbers of their own. */\nexport interface NumberOptions {{")
        .unwrap();
    for info in NUMBERS {
        let symbol = if info.symbol.is_empty() { String::new() } else { format!("{}: ", info.symbol) };
        let details = if info.details.is_empty() { String::new() } else { format!(" {}", info.details) };
        let unset = if info.unset.is_empty() { String::new() } else { format!("; {} if not given", info.unset) };
        let explanation = format!("{}{symbol}{}{unset}.{details}", readers(info.name), info.explanation);
        field(&mut out, &explanation, info.name, "number");
        let &NumberInfo { name, label, symbol, explanation, default, unset, step, .. } = info;
        let default = if unset.is_empty() { default.to_string() } else { format!("null, unset: {unset:?}") };
        let (group, range) = (format!("{:?}", info.group).to_lowercase(), bounds(info.bounds));
        writeln!(
            numbers,
            "  {name}: {{ label: {label:?}, symbol: {symbol:?}, explanation: {explanation:?}, group: '{group}', \
             default: {default}, range: {range}, step: {step} }},"
        )
        .unwrap();
    }
    let unset: Vec<String> =
        NUMBERS.iter().filter(|info| !info.unset.is_empty()).map(|info| format!("'{}'", info.name)).collect();
    writeln!(
        out,
        "}}\n\n/** The numbers whose default is no fixed number. */\nexport type UnsetOption = {};",
        unset.join(" | ")
    )
    .unwrap();
    writeln!(
        out,
        "\n/** The options that are numbers, in the order of the page. */\n\
         export const numbers: Readonly<Record<keyof NumberOptions, NumberDescription>> = {{\n{numbers}}};\n\n\
         /** The options that are names, in the order of the page. */\n\
         export const names: Readonly<Record<keyof NameOptions, NameDescription>> = {{\n{names}}};"
    )
    .unwrap();
    out
}

#[test]
fn the_package_has_the_tables() {
    put("web/src/outrider/choices.ts", &typescript());
}

/// Replaces the table between a comment that names it and one that ends it; a text without that name is unchanged.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let (start, end) = (format!("<!-- table: {name} -->\n"), "<!-- end of table -->");
    let Some((before, rest)) = text.split_once(&start) else { return text.to_owned() };
    let (_, after) = rest.split_once(end).unwrap();
    format!("{before}{start}{table}\n{end}{after}")
}

/// The names of a kind with what they are and where they come from, for readers.
fn sourced(text: &str, kind: &NameInfo) -> String {
    let mut table = format!("\n| `{}` | {} | source |\n|---|---|---|\n", kind.name, kind.explanation);
    for Entry { name, explanation, source, .. } in (kind.entries)() {
        writeln!(table, "| `{name}` | {explanation} | {source} |").unwrap();
    }
    with_table(text, kind.name, &table)
}

/// The names of a kind with the options that they read, for programmers.
fn documented(text: &str, kind: &NameInfo) -> String {
    let mut table = format!("\n| `{}` | {} | options that it reads |\n|---|---|---|\n", kind.name, kind.explanation);
    for Entry { name, explanation, options, parameter, .. } in (kind.entries)() {
        let mut options: Vec<String> = options.iter().map(|option| format!("`{option}`")).collect();
        options.extend(parameter.zip(kind.parameter).map(|(parameter, (option, _))| {
            format!("`{option}` {} in {} ({})", parameter.symbol, parameter.bounds, parameter.default)
        }));
        writeln!(table, "| `{name}` | {explanation} | {} |", options.join(", ")).unwrap();
    }
    with_table(text, kind.name, &table)
}

/// The table of the options that are numbers.
fn documented_numbers(text: &str) -> String {
    let mut table = String::from("\n| option | what it is | range | default |\n|---|---|---|---|\n");
    for info in NUMBERS {
        let symbol = if info.symbol.is_empty() { String::new() } else { format!(" {}", info.symbol) };
        let default = if info.unset.is_empty() { info.default.to_string() } else { info.unset.to_owned() };
        writeln!(table, "| `{}`{symbol} | {} | {} | {default} |", info.name, info.explanation, info.bounds).unwrap();
    }
    with_table(text, "numbers", &table)
}

#[test]
fn the_docs_have_the_tables() {
    let read = |path| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap();
    let (path, concepts) = ("docs/package.md", "docs/concepts.md");
    let text = NAMES.iter().fold(read(path), |text, kind| documented(&text, kind));
    assert_eq!(text.matches("<!-- table: ").count(), 4, "{path} has lost a table");
    put(path, &documented_numbers(&text));
    let text = NAMES.iter().fold(read(concepts), |text, kind| sourced(&text, kind));
    assert_eq!(text.matches("<!-- table: ").count(), 2, "{concepts} has lost a table");
    put(concepts, &text);
}

/// A rule's range reads the same in the rule that refuses a number and in the option that does.
#[test]
fn ranges_of_rules_read_alike() {
    for info in Rule::all() {
        let bounds = Bounds::from(info.range);
        assert_eq!(bounds.to_string(), info.range.to_string(), "{}", info.name);
        for number in [-f64::INFINITY, -7.0, -1.0, -0.5, 0.0, 0.5, 1.0, 7.0, f64::INFINITY, f64::NAN] {
            assert_eq!(bounds.check(number).is_ok(), Rule::new(info.name, number).is_ok(), "{} {number}", info.name);
        }
    }
    assert_eq!(bounds(Range::Any.into()), "{ min: -Infinity, max: Infinity, integer: false }");
    assert_eq!(bounds(Range::Within(1.0).into()), "{ min: -1, max: 1, integer: false }");
}

/// Every option of drafting is in a table, and there is no other.
#[test]
fn the_tables_are_complete() {
    let options = serde_json::to_value(DraftingOptions::default()).unwrap();
    let names = NAMES.iter().flat_map(|kind| [Some(kind.name), kind.parameter.map(|(option, _)| option)]).flatten();
    let numbers = NUMBERS.iter().map(|number| number.name);
    let sampling = ["temperature", "topP", "topK", "seed", "maxNewTokens"];
    let mut listed: Vec<&str> = names.chain(numbers).filter(|name| !sampling.contains(name)).collect();
    listed.push("adaptiveMode");
    listed.sort_unstable();
    let mut found: Vec<&str> = options.as_object().unwrap().keys().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, listed);
}
