//! Results by category of the prompts, as Spec-Bench reports them.

use serde_json::{Value, json};

use super::{
    super::table::{markdown, row},
    rows::Row,
};

/// Categories of MT-Bench, which Spec-Bench reports as one.
const MT_BENCH: [&str; 8] = ["writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"];
/// Name under which Spec-Bench reports them.
const MULTI_TURN: &str = "mt_bench";
/// A category that Spec-Bench has and MT-Bench has not.
const OF_SPEC_BENCH: &str = "translation";

/// Prompts of a category, by their indices.
pub struct Category<'a> {
    name: &'a str,
    prompts: Vec<usize>,
}

/// Categories of prompts in the order of the file; empty if there are fewer than two.
pub fn categories<'a>(of_prompts: &[Option<&'a str>]) -> Vec<Category<'a>> {
    let is_spec_bench = of_prompts.contains(&Some(OF_SPEC_BENCH));
    let mut found: Vec<Category<'a>> = Vec::new();
    for (index, name) in of_prompts.iter().enumerate() {
        let Some(name) = *name else { continue };
        let name = if is_spec_bench && MT_BENCH.contains(&name) { MULTI_TURN } else { name };
        match found.iter_mut().find(|category| category.name == name) {
            Some(category) => category.prompts.push(index),
            None => found.push(Category { name, prompts: vec![index] }),
        }
    }
    if found.len() > 1 { found } else { Vec::new() }
}

impl Category<'_> {
    /// Values of the category's prompts.
    pub fn of<T: Clone>(&self, values: &[T]) -> Vec<T> {
        self.prompts.iter().map(|&index| values[index].clone()).collect()
    }
}

/// Table of mean accepted length and speed-up: a row for each setting, a column for each category.
pub fn told(categories: &[Category<'_>], rows: &[Vec<Row<'_>>]) -> String {
    let heading = |category: &Category<'_>| format!("{} ({})", category.name, category.prompts.len());
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|found| {
            let cell = |row: &Row<'_>| format!("{} · {}", row.cells[0].told(2), row.speed_up().told(2));
            row(found.first().map_or("", |row| &row.setting.name), found.iter().map(cell))
        })
        .collect();
    let table = markdown(&row("setting", categories.iter().map(heading).collect::<Vec<_>>()), &table);
    format!("\nMean accepted length · speed-up by category, with the number of its prompts:\n\n{table}")
}

/// Numbers of the same table as JSON.
pub fn numbers(categories: &[Category<'_>], rows: &[Vec<Row<'_>>]) -> Value {
    let of_row = |found: &Vec<Row<'_>>| {
        categories
            .iter()
            .zip(found)
            .map(|(category, row)| {
                json!({
                    "setting": row.setting.name, "category": category.name, "prompts": category.prompts.len(),
                    "acceptedLength": row.cells[0], "speedup": row.speed_up(),
                })
            })
            .collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_bench_reports_the_categories_of_mt_bench_as_one() {
        let found = |names: &[Option<&'static str>]| {
            categories(names).into_iter().map(|category| (category.name, category.prompts)).collect::<Vec<_>>()
        };
        let spec_bench = [Some("writing"), Some("math"), Some("translation"), None, Some("stem"), Some("translation")];
        assert_eq!(found(&spec_bench), [("mt_bench", vec![0, 1, 4]), ("translation", vec![2, 5])]);
        assert_eq!(found(&[Some("writing"), Some("math")]), [("writing", vec![0]), ("math", vec![1])]);
        assert!(found(&[Some("qa"), Some("qa"), None]).is_empty());
    }
}
