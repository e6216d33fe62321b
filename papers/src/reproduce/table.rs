//! Writer of tables in Markdown.

/// A table with one head, whose cells are aligned to the right but for the first of each row.
pub fn markdown(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|---|{}\n", "--:|".repeat(head.len().saturating_sub(1)));
    [line(head), rule, rows.iter().map(|row| line(row)).collect()].concat()
}

/// A row: its label, and its cells.
pub fn row(head: impl ToString, cells: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
    std::iter::once(head.to_string()).chain(cells.into_iter().map(|cell| cell.to_string())).collect()
}
