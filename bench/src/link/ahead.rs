//! Never waiting against the server alone, by target and link: what `web/e2e/link/ahead.mjs` measured.

use std::fmt::Write;

use outrider_papers::report::{
    curves::{Bounds, Curve, Mark, Panel},
    estimate::{Estimate, beside_chosen},
};
use serde_json::Value;

use crate::{
    passes::Failure,
    samples::{Samples, array, digits},
};

/// The way that the others are compared with.
const ALONE: &str = "alone";
/// Least relative speed of drafting ahead that is no harm, and least one that is as good as the best plan.
const NO_HARM: f64 = 0.97;
const NEARLY_BEST: f64 = 0.95;

/// Rate of the links that are drawn, in megabits per second, and the ways, the one they are compared with first.
const DRAWN_MEGABITS: f64 = 10.0;
const DRAWN: [&str; 5] = [ALONE, "ahead", "rounds of 4", "own drafts", "ahead and own drafts"];
/// Least number of round trips that make a curve.
const SHORTEST_CURVE: usize = 3;

/// Results of one way of writing over one link.
struct Way {
    name: String,
    /// Tokens a second, over the prompts.
    rate: Samples,
    /// Milliseconds of each text.
    took: Vec<f64>,
    /// Speed relative to the server alone, over the same texts.
    speedup: Estimate,
    counts: Counts,
}

/// Counts over some texts.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    tokens: f64,
    passes: f64,
    /// Guesses that came in time.
    in_time: f64,
    bits_up: f64,
}

impl Way {
    /// `None` of a way that was too slow over a faster link to be tried over this one.
    fn read(way: &Value, alone: &Value) -> Result<Option<Self>, Failure> {
        let runs: Vec<&Value> = array(&way["runs"]).collect();
        let sum = |key: &str| runs.iter().filter_map(|run| run[key].as_f64()).sum::<f64>();
        let rates: Vec<f64> =
            runs.iter().filter_map(|run| Some(run["tokens"].as_f64()? / run["elapsedMs"].as_f64()? * 1e3)).collect();
        let took = |way: &Value| array(&way["runs"]).filter_map(|run| run["elapsedMs"].as_f64()).collect::<Vec<_>>();
        let texts = took(way);
        let pairs: Vec<_> = took(alone).into_iter().zip(texts.iter().copied()).collect();
        let Some(rate) = Samples::of(&rates) else { return Ok(None) };
        Ok(Some(Self {
            name: way["name"].as_str().ok_or("a way has no name")?.to_owned(),
            rate,
            took: texts,
            speedup: Estimate::of(&pairs),
            counts: Counts {
                tokens: sum("tokens"),
                passes: sum("serverPasses"),
                in_time: sum("inTime"),
                bits_up: sum("uplinkBits"),
            },
        }))
    }
}

/// A part of the report: pairs that are measured in the same way.
pub struct Section {
    /// Name of the pairs, as `cargo xtask bench link` has them.
    pub name: &'static str,
    /// File of the measurements.
    pub file: &'static str,
    /// Key of the measurements in the report's samples.
    pub key: &'static str,
    /// Title and description, in Markdown.
    description: &'static str,
}

/// All parts of the report, in order.
pub const SECTIONS: [Section; 4] = [
    Section {
        name: "small-draft",
        file: "ahead-measured.json",
        key: "apart",
        description: "\n# Drafts of a million parameters\n\nTargets of 135M and 1.1B are the built-in one grown: they \
            cost what such models do and write the small one's text, with its acceptance rate. Plans: what `ahead` \
            chooses among, each for a whole text. Rounds and own drafts are there to compare with, over 3 texts.\n",
    },
    Section {
        name: "real-draft",
        file: "ahead-real-draft-measured.json",
        key: "realDraft",
        description: "\n# A draft of a real size\n\nThe built-in draft grown to the cost of 135M parameters, in \
            Chromium; 12 texts.\n",
    },
    Section {
        name: "published",
        file: "ahead-published-measured.json",
        key: "published",
        description: "\n# A published chat model\n\nSmolLM2-135M-Instruct (Q4_1) with the draft made for it, and the \
            same target grown: it costs what 1.1B parameters do, in Q8_0, and writes the small one's text, with its \
            acceptance rate. Activations of 16 bits. Ten questions of a chat (2 in the quick form), each \
            asked once over each link; an answer may end before 64 tokens.\n",
    },
    Section {
        name: "one-machine",
        file: "ahead-shared-measured.json",
        key: "shared",
        description: "\n# On one machine\n\nThe first targets over the nearest link where browser and server share \
            both cores, as on the machine of someone who tries it: drafting takes the server's processor away. 3 to \
            12 texts.\n",
    },
];

/// Report of the measurements of these sections.
pub fn report(sections: &[(&Section, Value)]) -> Result<String, Failure> {
    let mut text = String::from(
        "Drafting ahead of a text that the server writes; the page drafts in Chromium, the link is emulated. The \
         server is held to one core and the browser to another, as if they were two machines, but where they share \
         them. Every way wrote the same text. Tokens/s: median and range over 6 to 12 texts of 64 tokens where \
         nothing else is said, taken in turns; of the other ways how many times faster than the server alone over the \
         same link, with its standard error. A way that waits and took 1.5 times as long as the server alone is tried \
         once over each longer round trip, and not over slower rates.\n",
    );
    for (section, measured) in sections {
        text.push_str(section.description);
        for target in array(&measured["targets"]) {
            table(&mut text, target)?;
        }
    }
    Ok(text)
}

/// Speed by round trip, a panel for each target that was measured over some of them.
pub fn panels(sections: &[(&Section, Value)]) -> Result<Vec<Panel>, Failure> {
    let targets = sections.iter().flat_map(|(_, measured)| array(&measured["targets"]));
    targets.filter_map(|target| panel(target).transpose()).collect()
}

fn panel(target: &Value) -> Result<Option<Panel>, Failure> {
    let links = array(&target["links"]).filter(|link| link["megabits"].as_f64() == Some(DRAWN_MEGABITS));
    let links: Vec<&Value> = links.collect();
    let trips: Vec<f64> = links.iter().filter_map(|link| link["roundTripMs"].as_f64()).collect();
    if trips.len() < SHORTEST_CURVE {
        return Ok(None);
    }
    let mut curves = DRAWN.map(|name| Curve { name: name.to_owned(), points: Vec::new() });
    for (link, &x) in links.iter().zip(&trips) {
        for way in array(&link["ways"]) {
            let curve = curves.iter_mut().find(|curve| Some(&*curve.name) == way["name"].as_str());
            if let (Some(curve), Some(way)) = (curve, Way::read(way, &link["ways"][0])?) {
                // One text alone has no error.
                let error = Some(way.speedup.error).filter(|error| error.is_finite()).unwrap_or_default();
                curve.points.push(Mark { x, y: way.speedup.value, error });
            }
        }
    }
    let most = curves.iter().flat_map(|curve| &curve.points).map(|mark| mark.y + mark.error).fold(1.0, f64::max);
    Ok(Some(Panel {
        title: format!("{}, {DRAWN_MEGABITS} Mbit/s", target["name"].as_str().unwrap_or_default()),
        across: "round trip, ms",
        up: "× the server alone",
        bounds: Bounds { x: (0.0, trips.into_iter().fold(1.0, f64::max)), y: (0.0, most * 1.05) },
        curves: curves.into_iter().filter(|curve| !curve.points.is_empty()).collect(),
    }))
}

/// A target's links, in how many of them it goes as it should, and what each way takes of the ends.
fn table(text: &mut String, target: &Value) -> Result<(), Failure> {
    let name = target["name"].as_str().ok_or("a target has no name")?;
    let names: Vec<&str> = array(&target["links"][0]["ways"]).filter_map(|way| way["name"].as_str()).collect();
    let others = names.iter().filter(|name| **name != ALONE);
    let titles: Vec<&str> = others.clone().copied().collect();
    writeln!(
        text,
        "\n## {name}\n\n| round trip, ms | Mbit/s | alone, tokens/s | {} |\n|--:|--:|--:|{}",
        titles.join(" | "),
        "--:|".repeat(titles.len()),
    )?;
    let mut counts = vec![Counts::default(); names.len()];
    let (mut links, mut harmless, mut harmful) = (0, 0, 0);
    let (mut best, mut chosen, mut behind, mut gains) = (0, 0, 0, 0.0);
    for link in array(&target["links"]) {
        let alone = &link["ways"][0];
        let ways =
            array(&link["ways"]).filter_map(|way| Way::read(way, alone).transpose()).collect::<Result<Vec<_>, _>>()?;
        let called = |name: &str| ways.iter().find(|way| way.name == name);
        let cells = others.clone().map(|name| match called(name) {
            Some(way) => format!("{:.2}", way.speedup),
            None => "–".to_owned(),
        });
        let rate = called(ALONE).ok_or("the server alone was not measured")?.rate;
        let cells = cells.collect::<Vec<_>>().join(" | ");
        writeln!(text, "| {} | {} | {rate} | {cells} |", link["roundTripMs"], link["megabits"])?;
        for (counts, name) in counts.iter_mut().zip(&names) {
            let Some(way) = called(name) else { continue };
            counts.tokens += way.counts.tokens;
            counts.passes += way.counts.passes;
            counts.in_time += way.counts.in_time;
            counts.bits_up += way.counts.bits_up;
        }
        let way = called("ahead").ok_or("drafting ahead was not measured")?;
        let ahead = way.speedup;
        let is_plan = |way: &&Way| way.name == ALONE || way.name.starts_with("plan");
        let fixed: Vec<&Way> = ways.iter().filter(is_plan).collect();
        let plans = fixed.iter().map(|way| way.speedup.value);
        let gain = beside_chosen(&way.took, &fixed.iter().map(|plan| &plan.took[..]).collect::<Vec<_>>());
        links += 1;
        chosen += u32::from(gain.value >= NEARLY_BEST);
        behind += u32::from(gain.value + 2.0 * gain.error < NEARLY_BEST);
        gains += gain.value;
        harmless += u32::from(ahead.value >= NO_HARM);
        harmful += u32::from(ahead.value + 2.0 * ahead.error < NO_HARM);
        best += u32::from(ahead.value >= NEARLY_BEST * plans.fold(1.0, f64::max));
    }
    writeln!(
        text,
        "\n`ahead` reaches {NO_HARM} of the server alone over {harmless} of {links} links and is below by more than \
         twice its error over {harmful}. It reaches {NEARLY_BEST} of the plan that is best over the other texts, no \
         guesses among them, over {chosen}, is below by more than twice its error over {behind}, and reaches {:.2} of \
         it in the mean; of the plan that is best over the same texts, which is best by luck, too, over {best}.\n\n\
         | over all links that it was measured over | passes / token | in time / token | bits up / token |\n\
         |---|--:|--:|--:|",
        gains / f64::from(links)
    )?;
    for (Counts { tokens, passes, in_time, bits_up }, name) in counts.iter().zip(&names) {
        writeln!(text, "| {name} | {:.2} | {} | {:.0} |", passes / tokens, digits(in_time / tokens), bits_up / tokens)?;
    }
    Ok(())
}
