//! Bar charts as SVG, readable on light and dark pages.

use std::fmt::Write;

/// Groups of bars, one bar a series.
#[derive(Debug)]
pub struct Chart {
    /// Title of the chart, with the unit.
    pub title: String,
    /// Names of the bars of a group.
    pub series: Vec<&'static str>,
    /// Names of the groups with their values.
    pub groups: Vec<(String, Vec<f64>)>,
}

/// Width of every picture.
pub const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 10.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 24.0;
/// Distinguishable without colour vision, on white and on black.
pub const COLOURS: [&str; 7] = ["#888888", "#2a7fd4", "#d9822b", "#4a9e5c", "#a85bb8", "#c9a227", "#c0504d"];

/// One picture of all charts, one below the other.
pub fn svg(charts: &[Chart]) -> String {
    let mut out = String::new();
    for (chart, i) in charts.iter().zip(0u8..) {
        chart.draw(&mut out, HEIGHT * f64::from(i));
    }
    document(HEIGHT * charts.len() as f64, &out)
}

/// One picture of one chart.
pub fn single(title: &str, series: &[&'static str], groups: Vec<(String, Vec<f64>)>) -> String {
    svg(&[Chart { title: title.to_owned(), series: series.to_vec(), groups }])
}

/// A picture of [`WIDTH`] by `height`.
pub fn document(height: f64, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <style>text {{ fill: #333 }} @media (prefers-color-scheme: dark) {{ text {{ fill: #ccc }} }}</style>\n\
         {content}</svg>\n"
    )
}

/// Appends a text with these attributes.
pub fn text(out: &mut String, x: f64, y: f64, attributes: &str, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>");
}

impl Chart {
    fn draw(&self, out: &mut String, y: f64) {
        text(out, LEFT, y + 18.0, "font-size=\"14\"", &self.title);
        let mut x = LEFT;
        for (name, colour) in self.series.iter().zip(COLOURS) {
            let _ = writeln!(out, "<rect x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>", y + 26.0);
            text(out, x + 14.0, y + 35.0, "", name);
            x += 30.0 + 6.0 * name.len() as f64;
        }
        let largest = self.groups.iter().flat_map(|group| &group.1).copied().fold(0.0, f64::max);
        let step = (WIDTH - 2.0 * LEFT) / self.groups.len() as f64;
        let bar = step * 0.86 / self.series.len() as f64;
        let floor = y + HEIGHT - BOTTOM;
        for ((name, values), i) in self.groups.iter().zip(0u8..) {
            let start = LEFT + step * f64::from(i);
            for ((&value, colour), j) in values.iter().zip(COLOURS).zip(0u8..) {
                if !value.is_finite() {
                    continue;
                }
                let (height, x) = ((HEIGHT - TOP - BOTTOM - 14.0) * value / largest, start + bar * f64::from(j));
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
                    floor - height,
                    bar - 1.0
                );
                let label = if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
                text(out, x + bar / 2.0, floor - height - 3.0, "text-anchor=\"middle\" font-size=\"9\"", &label);
            }
            text(out, start + step * 0.43, floor + 15.0, "text-anchor=\"middle\"", name);
        }
    }
}
