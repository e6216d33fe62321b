//! Tables 2 and 5: how much faster than the target at its quality, and the best quality in its time.

use serde_json::json;

use super::{
    curves::{View, methods, preface},
    sweep::{Method, Summary, Sweep},
    tasks::TASKS,
};
use crate::report::{chart, estimate::Estimate, files::Report};
use crate::reproduce::{
    sessions::Failure,
    table::{markdown, row},
};

/// Printed numbers of a method.
#[derive(Debug, Clone, Copy)]
pub struct Printed {
    /// Reduction in latency at the target's quality.
    pub speeds: [f64; 3],
    /// The best quality in the target's time.
    pub qualities: [f64; 3],
}

/// A table of speeds and qualities.
pub struct Table<'a> {
    /// Views of the table: one, which is then shown task by task, or several.
    pub views: Vec<View>,
    /// Methods, with their printed numbers.
    pub rows: &'a [(&'static str, Option<Printed>)],
    /// Names of the views in a chart, if there are several.
    pub series: &'static [&'static str],
    /// Data sets of the printed columns.
    pub columns: [&'static str; 3],
    /// Remarks above the table.
    pub said: &'static str,
}

/// The target over the fastest of `points` that is not worse than it.
///
/// Points are what was measured, as in the paper: a method whose true quality is the target's may be found worse, and
/// the best of several is found better than it is.
fn speed(points: &[(Method, Summary)]) -> Option<Estimate> {
    // The exact rule has the target's quality, whatever was drawn.
    let matches =
        |(method, summary): &&(Method, Summary)| summary.gain.value >= 0.0 || *method == Method::Rule("exact", 0.0);
    let fastest = points.iter().filter(matches).map(|(_, summary)| summary.latency);
    let fastest = fastest.min_by(|a, b| a.value.total_cmp(&b.value))?;
    Some(Estimate { value: 1.0 / fastest.value, error: fastest.error / fastest.value.powi(2) })
}

/// The best of `points` that takes no longer than the target.
fn best(points: &[(Method, Summary)]) -> Option<&Summary> {
    let within = points.iter().map(|(_, summary)| summary).filter(|summary| summary.latency.value <= 1.0);
    within.max_by(|a, b| a.exact.value.total_cmp(&b.exact.value))
}

impl Table<'_> {
    /// Reports the table; measures its points that are not measured yet.
    pub fn report(&self, sweep: &mut Sweep) -> Result<Report, Failure> {
        let views: Vec<View> = match self.views[..] {
            [view] => {
                std::iter::once(view).chain((0..TASKS.len()).map(|task| View { task: Some(task), ..view })).collect()
            }
            _ => self.views.clone(),
        };
        let (mut speeds, mut qualities, mut numbers, mut bars) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (name, printed) in self.rows {
            let (mut fast, mut good, mut heights) = (Vec::new(), Vec::new(), Vec::new());
            for view in &views {
                let of = |method| Ok((method, view.summary(sweep, method)?));
                let points = methods(name).into_iter().map(of).collect::<Result<Vec<_>, Failure>>()?;
                let (speed, best) = (speed(&points), best(&points));
                heights.push(speed.map_or(f64::NAN, |speed| speed.value));
                fast.push(speed.map_or("–".to_owned(), |speed| format!("{speed:.2}")));
                good.push(best.map_or("–".to_owned(), |best| format!("{:.3} ({:+.3})", best.exact.value, best.gain)));
                numbers.push(json!({ "method": name, "view": view.title(), "speed": speed, "best": best }));
            }
            bars.push(((*name).to_owned(), heights));
            let cells = |printed: Option<[f64; 3]>| match printed {
                Some(printed) => printed.map(|value| format!("{value:.2}")),
                None => [(); 3].map(|()| "–".to_owned()),
            };
            speeds.push(row(name, fast.into_iter().chain(cells(printed.map(|printed| printed.speeds)))));
            qualities.push(row(name, good.into_iter().chain(cells(printed.map(|printed| printed.qualities)))));
        }
        let titles = views.iter().map(|view| match self.views.len() {
            1 => view.task.map_or("all tasks", |task| TASKS[task]).to_owned(),
            _ => format!("P = {}", view.top_p),
        });
        let titles = titles.chain(self.columns.map(|column| format!("printed: {column}")));
        let head = row("method", titles);
        let mut targets = Vec::new();
        for view in &views {
            let of = |method| view.summary(sweep, method).map(|summary| format!("{:.3}", summary.exact));
            targets.push(row(
                view.title(),
                [Method::TargetAlone, Method::DraftAlone].map(of).into_iter().collect::<Result<Vec<_>, _>>()?,
            ));
        }
        let mut text = preface(sweep);
        text.push_str(&format!(
            "{}\n\nAlone:\n\n{}\nTimes faster than the target, at the fastest parameter that is not worse than it \
             (–: none):\n\n{}\nRight answers at the best parameter that takes no longer than the target (less the \
             target's):\n\n{}\n",
            self.said,
            markdown(&row("right", ["target", "draft"]), &targets),
            markdown(&head, &speeds),
            markdown(&head, &qualities),
        ));
        let series: Vec<_> = match self.series {
            [] => std::iter::once("all tasks").chain(TASKS).collect(),
            several => several.to_vec(),
        };
        let svg = chart::single("times faster than the target at its quality", &series, bars);
        Ok(Report { text, numbers: numbers.into(), svg: Some(svg) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(latency: f64, exact: f64) -> (Method, Summary) {
        let of = |value| Estimate { value, error: 0.01 };
        let summary = Summary {
            exact: of(exact),
            similarity: of(exact),
            latency: of(latency),
            rejected: of(0.1),
            gain: of(exact - 0.5),
        };
        (Method::Rule("lossy", latency), summary)
    }

    /// The target has 0.5: the first is too bad, the last too slow.
    #[test]
    fn the_fastest_that_is_good_and_the_best_that_is_fast() {
        let points = [point(0.25, 0.4), point(0.5, 0.5), point(0.8, 0.6), point(1.25, 0.7)];
        assert_eq!(speed(&points).map(|speed| speed.value), Some(2.0));
        assert_eq!(best(&points).map(|best| best.exact.value), Some(0.6));
        assert!((speed(&points).unwrap().error - 0.04).abs() < 1e-12);
        assert!(speed(&points[..1]).is_none() && best(&points[3..]).is_none());
    }
}
