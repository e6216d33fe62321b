//! Speculative cascades (Narasimhan et al.): Figures 2 to 11, Tables 2 and 5.
//!
//! Quality wants tasks with answers. The paper has translation, summaries and more, with T5 and Gemma models; here are
//! four tasks that a small pair was trained on (pair/tasks/README.md). Quality is the share of answers that are right
//! to the letter. Where the paper's panels differ in data, ours differ in task; where they differ in the size of the
//! models, there is one pair.
//!
//! | module | what it has |
//! |---|---|
//! | [`tasks`] | the tasks, their pair, and what answers are worth |
//! | [`sweep`] | answers by method and parameter, and what they took |
//! | `curves` | the methods' ranges of parameters, and figures |
//! | `matching` | Tables 2 and 5 |

pub(crate) mod curves;
mod matching;
pub mod sweep;
pub mod tasks;

use self::{
    curves::{Across, Figure, View},
    matching::{Printed, Table},
    tasks::TASKS,
};
use super::{laboratory::Laboratory, sessions::Failure};
use crate::report::files::Report;

/// γ unless a figure varies it (§6, F.1).
const GAMMA: u32 = 5;
/// γ of the Gemma models (F.1).
const GEMMA: u32 = 1;

/// A view at T and γ over all tasks.
fn view(temperature: f32, gamma: u32) -> View {
    View { temperature, top_p: 1.0, gamma, task: None }
}

/// All tasks, and each.
fn by_task(view: View) -> Vec<View> {
    let tasks = (0..TASKS.len()).map(|task| View { task: Some(task), ..view });
    std::iter::once(view).chain(tasks).collect()
}

pub fn figure2(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Deferred,
        views: by_task(view(1.0, GAMMA)),
        methods: &["token-cascade", "oracle-diff"],
        said: "The oracle is better than the target over a range of deferral rates, and better than Chow's rule.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn figure3(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Rejected,
        views: by_task(view(1.0, GEMMA)),
        methods: &["lossy", "opt", "token-v3"],
        said: "Token-v3 has the target's quality at fewer rejections than the others, and the best quality, often \
               better than the target's; on one of nine panels it has not. Opt is no better than lossy decoding there.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn figure4(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Latency,
        views: vec![view(0.5, GAMMA), view(1.0, GAMMA)],
        methods: &["lossy", "token-cascade", "bild-star", "chow", "diff", "opt", "token-v3"],
        said: "Methods that speculate are faster than token cascades at the target's quality, which are better where \
               little time is given. Token-v3 and opt are the best.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn figure5(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Latency,
        views: vec![view(0.0, GAMMA)],
        methods: &["token-v3", "token-cascade", "bild-star", "chow", "diff"],
        said: "Lossy decoding made for T = 0 is token-v3 (Lemma 7), and opt is diff (Lemma 10). All methods are better \
               than at T = 1.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn figure6(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Latency,
        views: [0.1, 0.5, 1.0].map(|temperature| view(temperature, GAMMA)).into(),
        methods: &["lossy", "opt", "token-v3"],
        said: "The lower T, the fewer trades lossy decoding has to offer; token-v3 keeps a wide range.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn figure7(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Latency,
        views: [0.1, 0.5, 0.8].map(|top_p| View { top_p, ..view(1.0, GAMMA) }).into(),
        methods: &["lossy", "token-v3"],
        said: "At P = 0.1 lossy decoding has three different trades; token-v3 keeps a wide range.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn figure8(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Latency,
        views: [3, 5, 7].map(|gamma| view(1.0, gamma)).into(),
        methods: &["lossy", "opt", "token-v3"],
        said: "The larger γ, the wider the range: low quality comes faster, and the target's quality slower.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn figure9(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let sweep = sweep::of(laboratory)?;
    let top = Figure {
        across: Across::Latency,
        views: vec![view(0.0, GAMMA)],
        methods: &["bild-star", "bild, α_f = 0.1", "bild, α_f = 0.5", "bild, α_f = 0.9"],
        said: "Top: BiLD* is about as good as the best choice of α_f; a large α_f is the fastest and has less quality, \
               a small one the slowest. (Rounds of BiLD have at most ten drafts here; the paper has five, too.)",
    };
    let bottom = Figure {
        across: Across::Rejected,
        views: vec![view(1.0, GAMMA)],
        methods: &["lossy", "lossy-tuned"],
        said: "Bottom: β = 1 is as good as a tuned β, or better.",
    };
    Figure::joined(&[top, bottom], sweep)
}

pub fn figure10(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Latency,
        views: by_task(view(1.0, GAMMA)),
        methods: &["lossy", "token-v1", "token-v2", "token-v3"],
        said: "Mixed: v1 and v2 sometimes surpass v3.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn figure11(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    Figure {
        across: Across::Rejected,
        views: by_task(view(1.0, GEMMA)),
        methods: &["lossy", "token-v1", "token-v2", "token-v3"],
        said: "V3 is better than v1 and v2 at most rejection rates, but for one of the data sets, where v2 is.",
    }
    .report(sweep::of(laboratory)?)
}

const fn printed(speeds: [f64; 3], qualities: [f64; 3]) -> Option<Printed> {
    Some(Printed { speeds, qualities })
}

pub fn table2(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    // Small → Large: WMT, XSum and CNNDM.
    let rows = [
        ("sequence-cascade", printed([1.55, 0.84, 0.98], [16.56, 12.97, 9.91])),
        ("token-cascade", printed([1.03, 0.93, 1.40], [16.52, 13.30, 10.36])),
        ("lossy", printed([1.61, 1.10, 1.57], [17.26, 13.90, 10.43])),
        ("bild-star", printed([1.34, 1.04, 1.38], [16.49, 13.81, 10.14])),
        ("chow", printed([1.43, 1.04, 1.41], [17.76, 13.82, 10.28])),
        ("diff", printed([1.79, 1.17, 1.75], [18.04, 14.00, 10.64])),
        ("opt", printed([1.95, 1.17, 1.80], [18.33, 14.10, 10.86])),
        ("token-v3", printed([1.85, 1.18, 1.89], [22.50, 15.85, 12.63])),
        ("mentored", None),
        ("exact", None),
    ];
    Table {
        views: vec![view(1.0, GAMMA)],
        rows: &rows,
        series: &[],
        columns: ["WMT", "XSum", "CNNDM"],
        said: "Printed: T5-small → large, in BLEU (WMT) and ROUGE-2. Small → XL has no counterpart: there is one \
               target.",
    }
    .report(sweep::of(laboratory)?)
}

pub fn table5(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    // WMT by P = 0.1, 0.5 and 0.8.
    let rows = [
        ("lossy", printed([1.55, 1.64, 1.69], [27.35, 27.10, 23.98])),
        ("token-v3", printed([1.74, 1.73, 1.71], [27.49, 27.30, 25.64])),
    ];
    Table {
        views: [0.1, 0.5, 0.8].map(|top_p| View { top_p, ..view(1.0, GAMMA) }).into(),
        rows: &rows,
        series: &["P = 0.1", "P = 0.5", "P = 0.8"],
        columns: ["WMT, P = 0.1", "WMT, P = 0.5", "WMT, P = 0.8"],
        said: "Printed: T5-small → large, in BLEU.",
    }
    .report(sweep::of(laboratory)?)
}
