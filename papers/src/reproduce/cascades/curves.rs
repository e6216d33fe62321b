//! Quality against latency or rejections, for methods over the range of their parameters.

use serde_json::{Value, json};

use super::{
    sweep::{Method, Point, Summary, Sweep, TIMES},
    tasks::TASKS,
};
use crate::report::{
    curves::{self, Bounds, Curve, Mark, Panel},
    estimate::Estimate,
    files::Report,
};
use crate::reproduce::{
    sessions::Failure,
    table::{markdown, row},
};

/// Values of α or D, from nearly the target's answers to nearly the draft model's. From pilot runs on the task pair.
const RANGES: [(&str, [f64; 6]); 14] = [
    ("lossy", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99]),
    ("lossy-tuned", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99]),
    ("chow", [0.005, 0.02, 0.1, 0.25, 0.45, 0.75]),
    ("diff", [0.0, 0.02, 0.1, 0.25, 0.45, 0.7]),
    ("oracle-diff", [0.0, 0.02, 0.1, 0.25, 0.45, 0.7]),
    ("opt", [0.0, 0.1, 0.3, 0.5, 0.75, 1.0]),
    ("token-v1", [0.0, 0.05, 0.2, 0.4, 0.7, 0.95]),
    ("token-v2", [0.0, 0.1, 0.3, 0.6, 0.9, 0.99]),
    ("token-v3", [0.0, 0.5, 0.9, 0.98, 0.995, 0.9995]),
    ("bild-star", ROLLBACKS),
    ("mentored", [0.0003, 0.001, 0.003, 0.01, 0.1, 1.0]),
    (TOKEN_CASCADE, [0.005, 0.02, 0.1, 0.25, 0.45, 0.75]),
    (SEQUENCE_CASCADE, [0.01, 0.05, 0.1, 0.2, 0.3, 0.45]),
    (BILD, ROLLBACKS),
];
const ROLLBACKS: [f64; 6] = [0.1, 0.5, 1.0, 2.0, 4.0, 7.0];
const TOKEN_CASCADE: &str = "token-cascade";
const SEQUENCE_CASCADE: &str = "sequence-cascade";
/// Beginning of the names of BiLD with its fallback; α_f follows.
const BILD: &str = "bild, α_f = ";
/// Name of the target at T = 0, which costs what the target costs at any.
pub const GREEDY: &str = "target, T = 0";
/// Beside the target alone, at T = 0 too, and the exact rule.
const MOST_CURVES: usize = 4;

/// Quantity on the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Across {
    /// Seconds, in those of the target alone.
    Latency,
    /// Rejected per judged draft.
    Rejected,
    /// Rejected per judged draft; for a cascade without drafts, the share of tokens that the target wrote.
    Deferred,
}

/// A panel of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// Temperature of both models.
    pub temperature: f32,
    /// Nucleus probability, top-P.
    pub top_p: f32,
    /// Length of a draft, γ.
    pub gamma: u32,
    /// Index into [`TASKS`]; `None` for all of them.
    pub task: Option<usize>,
}

/// A figure of the paper.
pub struct Figure {
    /// The horizontal axis.
    pub across: Across,
    /// Panels of the figure.
    pub views: Vec<View>,
    /// Methods with a curve in each panel.
    pub methods: &'static [&'static str],
    /// Statements of the paper about its figure.
    pub said: &'static str,
}

/// A method at all its parameters, in one view.
struct Line {
    name: &'static str,
    points: Vec<(Method, Summary)>,
}

/// Methods that every figure has beside its own.
struct Ends {
    draft: Summary,
    target: Summary,
    /// The target at T = 0.
    greedy: Summary,
    exact: Summary,
}

/// The methods of a name, by rising parameter.
pub fn methods(name: &'static str) -> Vec<Method> {
    let values = RANGES.iter().find(|(range, _)| name.starts_with(range) && (*range != "lossy" || name == "lossy"));
    let Some((_, values)) = values else { return vec![Method::Rule(name, 0.0)] };
    let method = |&value: &f64| match name {
        TOKEN_CASCADE => Method::TokenCascade(value),
        SEQUENCE_CASCADE => Method::SequenceCascade(value),
        _ => match name.strip_prefix(BILD).and_then(|fallback| fallback.parse().ok()) {
            Some(fallback) => Method::Bild { fallback, alpha: value },
            None => Method::Rule(name, value),
        },
    };
    values.iter().map(method).collect()
}

impl View {
    /// The point of a method in this view.
    pub fn point(&self, method: Method) -> Point {
        Point { method, temperature: self.temperature, top_p: self.top_p, gamma: self.gamma }
    }

    /// Quality and costs of a method in this view.
    pub fn summary(&self, sweep: &mut Sweep, method: Method) -> Result<Summary, Failure> {
        // Neither drafts: γ is nothing to them.
        let alone = sweep.answers(&View { gamma: 1, ..*self }.point(Method::TargetAlone))?;
        let answers = sweep.answers(&self.point(method))?;
        Ok(Summary::of(&answers, &alone, self.task))
    }

    /// Quality and costs of the target alone at T = 0, beside what the target alone does in this view.
    pub fn greedy(&self, sweep: &mut Sweep) -> Result<Summary, Failure> {
        let view = Self { gamma: 1, ..*self };
        let alone = sweep.answers(&view.point(Method::TargetAlone))?;
        let greedy = sweep.answers(&Self { temperature: 0.0, top_p: 1.0, ..view }.point(Method::TargetAlone))?;
        Ok(Summary::of(&greedy, &alone, self.task))
    }

    /// Title of the view: task, temperature, top-P and γ.
    pub fn title(&self) -> String {
        let top_p = if self.top_p < 1.0 { format!(", P = {}", self.top_p) } else { String::new() };
        let task = self.task.map_or("all tasks", |task| TASKS[task]);
        format!("{task}, T = {}{top_p}, γ = {}", self.temperature, self.gamma)
    }
}

impl Across {
    fn of(self, summary: &Summary) -> Estimate {
        if self == Self::Latency { summary.latency } else { summary.rejected }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency, in the target's",
            Self::Rejected => "rejected per judged draft",
            Self::Deferred => "deferred to the target, per token",
        }
    }
}

impl Figure {
    /// Reports the figure; measures its points that are not measured yet.
    pub fn report(&self, sweep: &mut Sweep) -> Result<Report, Failure> {
        Self::joined(std::slice::from_ref(self), sweep)
    }

    /// Reports several figures, one below the other.
    pub fn joined(figures: &[Self], sweep: &mut Sweep) -> Result<Report, Failure> {
        let mut text = preface(sweep);
        let (mut panels, mut numbers) = (Vec::new(), Vec::new());
        for figure in figures {
            text.push_str(&format!("The paper draws it, and says: {}\n\n", figure.said));
            // A user's questions are of one kind.
            let are_tasks = sweep.are_tasks();
            for view in figure.views.iter().filter(|view| view.task.is_none() || are_tasks) {
                let ends = [Method::DraftAlone, Method::TargetAlone, Method::Rule("exact", 0.0)];
                let [draft, target, exact] = ends.map(|method| view.summary(sweep, method));
                let ends = Ends { draft: draft?, target: target?, exact: exact?, greedy: view.greedy(sweep)? };
                let lines = figure.lines(view, sweep)?;
                text.push_str(&format!("**{}**\n\n", view.title()));
                let table = |name: &str, summary: &Summary, parameter: String| {
                    row(name, [parameter].into_iter().chain(cells(summary)))
                };
                let mut rows = vec![
                    table("target alone", &ends.target, "–".to_owned()),
                    table(GREEDY, &ends.greedy, "–".to_owned()),
                    table("draft alone", &ends.draft, "–".to_owned()),
                    table("exact", &ends.exact, "–".to_owned()),
                ];
                for line in &lines {
                    rows.extend(line.points.iter().map(|(method, summary)| {
                        table(line.name, summary, method.parameter().map_or("–".to_owned(), |value| value.to_string()))
                    }));
                }
                let head = [
                    "α or D",
                    sweep.metric().unwrap_or("right"),
                    "less the target's",
                    "similarity",
                    "latency",
                    "rejected",
                ];
                text.push_str(&markdown(&row("method", head), &rows));
                text.push('\n');
                panels.extend(figure.panels(view, &lines, &ends, sweep.metric().unwrap_or("right answers")));
                let Ends { draft, target, greedy, exact } = ends;
                numbers.push(json!({
                    "view": view.title(), "target": target, "targetAtZero": greedy, "draft": draft, "exact": exact,
                    "methods": lines.iter().map(Line::numbers).collect::<Value>(),
                }));
            }
        }
        Ok(Report { text, numbers: numbers.into(), svg: Some(curves::svg(&panels)) })
    }

    fn lines(&self, view: &View, sweep: &mut Sweep) -> Result<Vec<Line>, Failure> {
        let line = |&name: &&'static str| {
            let points = methods(name).into_iter().map(|method| Ok((method, view.summary(sweep, method)?)));
            Ok(Line { name, points: points.collect::<Result<_, Failure>>()? })
        };
        self.methods.iter().map(line).collect()
    }

    fn panels(&self, view: &View, lines: &[Line], ends: &Ends, up: &'static str) -> Vec<Panel> {
        let shown = || lines.iter().flat_map(|line| &line.points).map(|(_, summary)| summary).chain([&ends.exact]);
        let across = || shown().map(|summary| self.across.of(summary).value);
        let (least, most) = (across().fold(f64::INFINITY, f64::min), across().fold(0.1, f64::max));
        let heights = || shown().chain([&ends.target, &ends.greedy]).map(|summary| summary.quality);
        let low = heights().map(|height| height.value - height.error).fold(f64::INFINITY, f64::min);
        let high = heights().map(|height| height.value + height.error).fold(0.0, f64::max);
        let bounds = Bounds {
            x: ((least * 10.0).floor() / 10.0, (most * 10.0).ceil() / 10.0),
            y: ((low * 10.0).floor() / 10.0, (high * 10.0).ceil() / 10.0),
        };
        let mark = |summary: &Summary| Mark {
            x: self.across.of(summary).value,
            y: summary.quality.value,
            error: summary.quality.error,
        };
        let level = |name: &str, summary: &Summary| {
            let mark = |x: f64| Mark { x, y: summary.quality.value, error: 0.0 };
            Curve { name: name.to_owned(), points: vec![mark(bounds.x.0), mark(bounds.x.1)] }
        };
        let panel = |lines: &[Line]| {
            let exact = Curve { name: "exact".to_owned(), points: vec![mark(&ends.exact)] };
            let mut curves = vec![level("target alone", &ends.target), level(GREEDY, &ends.greedy), exact];
            curves.extend(lines.iter().map(|line| {
                // Cascades without drafts begin at the draft model alone.
                let begin = (self.across == Across::Deferred).then(|| Mark { x: 0.0, ..mark(&ends.draft) });
                let mut points: Vec<Mark> = line.points.iter().map(|(_, summary)| mark(summary)).chain(begin).collect();
                points.sort_by(|a, b| a.x.total_cmp(&b.x));
                Curve { name: line.name.to_owned(), points }
            }));
            Panel { title: view.title(), across: self.across.name(), up, bounds, curves }
        };
        lines.chunks(MOST_CURVES).map(panel).collect()
    }
}

impl Line {
    fn numbers(&self) -> Value {
        let point =
            |(method, summary): &(Method, Summary)| json!({ "parameter": method.parameter(), "summary": summary });
        json!({ "method": self.name, "points": self.points.iter().map(point).collect::<Vec<_>>() })
    }
}

/// Introduction of all tables.
pub fn preface(sweep: &Sweep) -> String {
    let clock = sweep.clock();
    let (questions, pair) = match sweep.are_tasks() {
        true => ("questions of four tasks", "the task pair"),
        false => ("questions of the file that was given", "the pair"),
    };
    let quality = match sweep.metric() {
        None => "Right: to the letter".to_owned(),
        Some(metric) => format!("Quality: the mean {metric} of the answers"),
    };
    format!(
        "{} {questions} to {pair}. {quality}. ± is one standard error over questions; \
         differences to the target alone, which answers each {TIMES} times, are taken question by question. Latency is \
         that of a virtual clock, in the target's own: a draft takes {:.1} ms and a pass {:.1} ms + {:.1} ms a draft \
         (given with --times, or else measured here on models of 135M and 1.1B weights), and {}.\n\n",
        sweep.questions(),
        1e3 * clock.draft,
        1e3 * clock.pass,
        1e3 * clock.row,
        clock.bits_per_second.map_or("no link".to_owned(), |_| format!("the link has {}", clock.link_speed())),
    )
}

/// Cells of a table: quality, its difference to the target's, similarity, latency and rejections.
fn cells(summary: &Summary) -> [String; 5] {
    let Summary { quality, similarity, latency, rejected, gain } = summary;
    let number =
        |estimate: &Estimate| if estimate.value.is_nan() { "–".to_owned() } else { format!("{estimate:.3}") };
    [number(quality), format!("{gain:+.3}"), number(similarity), number(latency), number(rejected)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_methods() {
        assert_eq!(methods("exact"), [Method::Rule("exact", 0.0)]);
        assert_eq!(methods("lossy-tuned")[0], Method::Rule("lossy-tuned", 0.1));
        assert_eq!(methods("bild-star")[0], Method::Rule("bild-star", 0.1));
        assert_eq!(methods("bild, α_f = 0.5")[5], Method::Bild { fallback: 0.5, alpha: 7.0 });
        assert_eq!(methods("token-cascade")[0], Method::TokenCascade(0.005));
        for (name, values) in RANGES {
            assert!(values.is_sorted_by(|a, b| a < b), "{name}");
        }
    }
}
