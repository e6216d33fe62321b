//! The package's types of statistics and records, written from those that are serialized.
//!
//! `OUTRIDER_WRITE_TABLES=1 cargo test --release -p outrider-speculation typescript` writes them; without the variable
//! the test fails where the file is not what the types give.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::{env, fmt::Write, fs, path::Path};

use ts_rs::{Config, TS};

use super::statistics::{AheadRecord, Report, RoundRecord, WayRecord};

const FILE: &str = "../web/src/outrider/statistics.ts";

/// A type with its sentences, a field to a line.
fn declaration<T: TS + 'static>() -> String {
    let exported = T::export_to_string(&Config::default()).unwrap();
    let is_head = |line: &&str| line.is_empty() || line.starts_with("// ") || line.starts_with("import ");
    let (mut out, mut sentences) = (String::new(), Vec::new());
    let mut indent = "";
    for line in exported.lines().skip_while(is_head).map(str::trim) {
        match line.strip_prefix('*').or_else(|| line.strip_prefix("/*")) {
            Some(text) => sentences.extend(Some(text.trim_matches(['*', '/', ' '])).filter(|text| !text.is_empty())),
            None => {
                if !sentences.is_empty() {
                    writeln!(out, "{indent}/** {} */", std::mem::take(&mut sentences).join(" ")).unwrap();
                }
                let (field, end) = line.strip_suffix(" };").map_or((line, ""), |field| (field, "}\n"));
                let field = field.strip_suffix(',').map_or_else(|| field.to_owned(), |field| format!("{field};"));
                writeln!(out, "{indent}{field}").unwrap();
                out.push_str(end);
                indent = "  ";
            }
        }
    }
    let interface = out.replace("export type", "export interface").replace(" = {", " {");
    interface.replace("Array<WayRecord>", "WayRecord[]").replace("Array<number>", "number[]")
}

#[test]
fn the_package_has_the_types_of_statistics() {
    let types = [
        declaration::<Report>(),
        declaration::<AheadRecord>(),
        declaration::<WayRecord>(),
        declaration::<RoundRecord>(),
    ];
    let text = format!(
        "// What a generation cost. Written from the types of crate `speculation`; do not edit:\n\
         // OUTRIDER_WRITE_TABLES=1 cargo test --release -p outrider-speculation typescript\n\n\
         import type {{ AheadWay, ComparedScheme }} from './schemes.js';\n\n{}",
        types.join("\n")
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if env::var_os("OUTRIDER_WRITE_TABLES").is_some() {
        fs::write(path, text).unwrap();
    } else {
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "{FILE} is not what the types give; to write it:\n{}",
            text.lines().nth(1).unwrap_or_default()
        );
    }
}
