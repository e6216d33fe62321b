//! Tables 2 and 5: how much faster than the target at its quality, and the best quality in its time.

use serde_json::json;

use super::{
    curves::{GREEDY, View, methods, preface},
    sweep::{Answer, Answers, Method, Summary, Sweep},
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

/// The fastest of `points` that is not worse than the target.
///
/// The exact rule has the target's quality, whatever was drawn.
fn fastest(points: &[(Method, Summary)]) -> Option<usize> {
    let matches = |&index: &usize| {
        let (method, summary) = &points[index];
        summary.gain.value >= 0.0 || *method == Method::Rule("exact", 0.0)
    };
    let latency = |index: &usize| points[*index].1.latency.value;
    (0..points.len()).filter(matches).min_by(|a, b| latency(a).total_cmp(&latency(b)))
}

/// The best of `points` that takes no longer than the target.
fn best(points: &[(Method, Summary)]) -> Option<usize> {
    let within = |&index: &usize| points[index].1.latency.value <= 1.0;
    let quality = |index: &usize| points[*index].1.quality.value;
    (0..points.len()).filter(within).max_by(|a, b| quality(a).total_cmp(&quality(b)))
}

/// A method's answers at one parameter.
type Points = Vec<(Method, Answers)>;

/// A way to choose among parameters.
type Choice = fn(&[(Method, Summary)]) -> Option<usize>;

/// A method at the parameter that is chosen on one half of the questions and scored on the other, and the reverse: the
/// best of several on the questions it is scored on is found better than it is. `None` where a half has no choice.
/// Questions of one `turn` of the tasks are in the same half.
fn held_out(
    points: &[(Method, Answers)],
    alone: &[Answer],
    (task, turn): (Option<usize>, usize),
    choose: Choice,
) -> Option<Summary> {
    let half = |index: usize| index / turn % 2;
    let pick = |answers: &[Answer], wanted: usize| -> Vec<Answer> {
        let indexed = answers.iter().enumerate().filter(|(index, _)| half(*index) == wanted);
        indexed.map(|(_, answer)| *answer).collect()
    };
    let (mut scored, mut beside) = (Vec::new(), Vec::new());
    for wanted in [0, 1] {
        let other = pick(alone, 1 - wanted);
        let summary =
            |(method, answers): &(Method, Answers)| (*method, Summary::of(&pick(answers, 1 - wanted), &other, task));
        let chosen = choose(&points.iter().map(summary).collect::<Vec<_>>())?;
        scored.extend(pick(&points[chosen].1, wanted));
        beside.extend(pick(alone, wanted));
    }
    Some(Summary::of(&scored, &beside, task))
}

/// Times faster than the target.
fn speed(summary: &Summary) -> Estimate {
    let latency = summary.latency;
    Estimate { value: 1.0 / latency.value, error: latency.error / latency.value.powi(2) }
}

impl Table<'_> {
    /// Reports the table; measures its points that are not measured yet.
    pub fn report(&self, sweep: &mut Sweep) -> Result<Report, Failure> {
        let views: Vec<View> = match self.views[..] {
            [view] if sweep.are_tasks() => {
                std::iter::once(view).chain((0..TASKS.len()).map(|task| View { task: Some(task), ..view })).collect()
            }
            _ => self.views.clone(),
        };
        let turn = if sweep.are_tasks() { TASKS.len() } else { 1 };
        let (mut speeds, mut qualities, mut numbers, mut bars) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (name, printed) in self.rows {
            let (mut fast, mut good, mut heights) = (Vec::new(), Vec::new(), Vec::new());
            for view in &views {
                let alone = sweep.answers(&View { gamma: 1, ..*view }.point(Method::TargetAlone))?;
                let of = |method| Ok((method, sweep.answers(&view.point(method))?));
                let points = methods(name).into_iter().map(of).collect::<Result<Points, Failure>>()?;
                let [fastest, best] =
                    [fastest, best].map(|choose: Choice| held_out(&points, &alone, (view.task, turn), choose));
                let told = |speed: &Estimate, summary: &Summary| format!("{speed:.2} ({:+.3})", summary.gain.value);
                heights.push(fastest.as_ref().map_or(f64::NAN, |summary| speed(summary).value));
                fast.push(fastest.as_ref().map_or("–".to_owned(), |summary| told(&speed(summary), summary)));
                good.push(best.map_or("–".to_owned(), |best| format!("{:.3} ({:+.3})", best.quality.value, best.gain)));
                numbers.push(json!({ "method": name, "view": view.title(), "speed": fastest, "best": best }));
            }
            bars.push(((*name).to_owned(), heights));
            let cells = |printed: Option<[f64; 3]>| match printed {
                Some(printed) => printed.map(|value| format!("{value:.2}")),
                None => [(); 3].map(|()| "–".to_owned()),
            };
            speeds.push(row(name, fast.into_iter().chain(cells(printed.map(|printed| printed.speeds)))));
            qualities.push(row(name, good.into_iter().chain(cells(printed.map(|printed| printed.qualities)))));
        }
        let series: Vec<_> = match self.series {
            [] if !sweep.are_tasks() => vec!["all questions"],
            [] => std::iter::once("all tasks").chain(TASKS).collect(),
            several => several.to_vec(),
        };
        let titles = views.iter().map(|view| match self.views.len() {
            1 => view.task.map_or("all tasks", |task| TASKS[task]).to_owned(),
            _ => format!("P = {}", view.top_p),
        });
        let titles = titles.chain(self.columns.map(|column| format!("printed: {column}")));
        let head = row("method", titles);
        let mut targets = Vec::new();
        for view in &views {
            let of = |method| view.summary(sweep, method).map(|summary| format!("{:.3}", summary.quality));
            let [target, draft] = [Method::TargetAlone, Method::DraftAlone].map(of);
            let greedy = view.greedy(sweep)?;
            targets.push(row(view.title(), [target?, format!("{:.3}", greedy.quality), draft?]));
        }
        let mut text = preface(sweep);
        text.push_str(&format!(
            "{} Parameters are chosen on one half of the questions and scored on the other, and the reverse.\n\n\
             Quality alone:\n\n{}\nTimes faster than the target, at the fastest parameter that is not worse than it \
             (quality less the target's; –: none):\n\n{}\nQuality at the best parameter that takes no longer than \
             the target (less the target's):\n\n{}\n",
            self.said,
            markdown(&row(sweep.metric().unwrap_or("right"), ["target", GREEDY, "draft"]), &targets),
            markdown(&head, &speeds),
            markdown(&head, &qualities),
        ));
        let svg = chart::single("times faster than the target at its quality", &series, bars);
        Ok(Report { text, numbers: numbers.into(), svg: Some(svg) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::cascades::tasks::Worth;

    fn point(latency: f64, exact: f64) -> (Method, Summary) {
        let of = |value| Estimate { value, error: 0.01 };
        let summary = Summary {
            quality: of(exact),
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
        assert_eq!((fastest(&points), best(&points)), (Some(1), Some(2)));
        assert_eq!((fastest(&points[..1]), best(&points[3..])), (None, None));
        let speed = speed(&points[1].1);
        assert!(speed.value == 2.0 && (speed.error - 0.04).abs() < 1e-12);
    }

    fn answer(exact: f64) -> Answer {
        let worth = Worth { score: exact, similarity: exact };
        Answer { task: 0, worth, seconds: 1.0, rows: 1.0, judged: 1.0, rejected: 0.0, tokens: 1.0, deferred: 0.0 }
    }

    /// Two parameters, each right in one half of the questions alone: on the questions that a parameter is chosen by it
    /// has all right, on the others none.
    #[test]
    fn a_parameter_is_scored_on_other_questions_than_it_is_chosen_on() {
        let of = |right: usize| {
            let answers =
                (0..4 * TASKS.len()).map(|index| answer(f64::from(u8::from(index / TASKS.len() % 2 == right))));
            (Method::Rule("lossy", right as f64), Answers::new(answers.collect()))
        };
        let alone: Vec<Answer> = (0..4 * TASKS.len()).map(|_| answer(0.5)).collect();
        let points = vec![of(0), of(1)];
        let summary = held_out(&points, &alone, (None, TASKS.len()), best).unwrap();
        assert_eq!((summary.quality.value, summary.gain.value), (0.0, -0.5));
    }
}
