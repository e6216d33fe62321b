//! Metrics of several models in one text.
//!
//! Each model has a registry, and all have the same metrics. OpenMetrics wants the series of a metric in one place,
//! after one description, but a text of several registries would describe it once for each.

/// Joins the texts of registries with the same metrics. The series of each get its model's name as the label `model`.
pub(super) fn joined(texts: &[(&str, String)]) -> String {
    // Description of each metric, and its series of all models.
    let mut families: Vec<[String; 2]> = Vec::new();
    for (index, (model, text)) in texts.iter().enumerate() {
        let label = format!("model=\"{}\"", escaped(model));
        let mut count = 0;
        for line in text.lines() {
            if line.starts_with("# HELP ") {
                count += 1;
                families.resize_with(families.len().max(count), Default::default);
            }
            let Some([description, series]) = families[..count].last_mut() else { continue };
            match line.starts_with('#') {
                true if index == 0 => *description += &format!("{line}\n"),
                true => {}
                false => *series += &labelled(line, &label),
            }
        }
    }
    families.concat().concat()
}

/// Adds a label to a line of a series: `name value` or `name{labels} value`.
fn labelled(line: &str, label: &str) -> String {
    match line.split_once(['{', ' ']) {
        Some((name, rest)) if line[name.len()..].starts_with('{') => format!("{name}{{{label},{rest}\n"),
        Some((name, rest)) => format!("{name}{{{label}}} {rest}\n"),
        None => format!("{line}\n"),
    }
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_described_once_and_each_series_has_its_model() {
        let text = |runs: u32| {
            format!(
                "# HELP runs Runs.\n# TYPE runs counter\nruns_total {runs}\n\
                 # HELP rows Rows.\n# TYPE rows histogram\n\
                 rows_sum 1.5\nrows_bucket{{le=\"1.0\"}} {runs}\n\
                 # HELP guesses Guesses.\n# TYPE guesses counter\n"
            )
        };
        assert_eq!(
            joined(&[("a", text(1)), ("b \\ \"c\"", text(2))]),
            "# HELP runs Runs.\n# TYPE runs counter\n\
             runs_total{model=\"a\"} 1\nruns_total{model=\"b \\\\ \\\"c\\\"\"} 2\n\
             # HELP rows Rows.\n# TYPE rows histogram\n\
             rows_sum{model=\"a\"} 1.5\nrows_bucket{model=\"a\",le=\"1.0\"} 1\n\
             rows_sum{model=\"b \\\\ \\\"c\\\"\"} 1.5\nrows_bucket{model=\"b \\\\ \\\"c\\\"\",le=\"1.0\"} 2\n\
             # HELP guesses Guesses.\n# TYPE guesses counter\n"
        );
    }
}
