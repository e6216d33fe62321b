//! Never waiting against the server alone, by target and link: what `web/e2e/link/ahead.mjs` measured.

use std::fmt::Write;

use serde_json::Value;

use crate::{
    passes::Failure,
    samples::{Samples, array, digits},
};

/// Ways to write a text over one link; the server alone comes first.
struct Way {
    name: String,
    /// Tokens a second, over the prompts.
    rate: Samples,
    passes_per_token: f64,
    /// Guesses that came in time, of the tokens.
    in_time: f64,
    bits_up_per_token: f64,
}

impl Way {
    fn read(way: &Value) -> Result<Self, Failure> {
        let runs: Vec<&Value> = array(&way["runs"]).collect();
        let sum = |key: &str| runs.iter().filter_map(|run| run[key].as_f64()).sum::<f64>();
        let rates: Vec<f64> =
            runs.iter().filter_map(|run| Some(run["tokens"].as_f64()? / run["elapsedMs"].as_f64()? * 1e3)).collect();
        let tokens = sum("tokens");
        Ok(Self {
            name: way["name"].as_str().ok_or("a way has no name")?.to_owned(),
            rate: Samples::of(&rates).ok_or("a way has no runs")?,
            passes_per_token: sum("serverPasses") / tokens,
            in_time: sum("inTime") / tokens,
            bits_up_per_token: sum("uplinkBits") / tokens,
        })
    }
}

/// What is told of the measurement on cores apart, and of that on shared ones.
pub fn report(apart: &Value, shared: &Value) -> Result<String, Failure> {
    let mut text = String::from(
        "Drafting ahead of a text that the server writes; the page drafts in Chromium, the link is emulated. The server is \
         held to one core and the browser to another, as if they were two machines. Targets of 135M and 1.1B are the \
         built-in one grown: they cost what such models do and write the small one's text, with its acceptance rate. \
         Every way wrote the same text. Tokens/s: median and range over three texts of 64 tokens, taken in turns; × \
         the server alone over the same link. Plans: what `ahead` chooses among, each for a whole text.\n",
    );
    for target in array(&apart["targets"]) {
        table(&mut text, target)?;
    }
    text.push_str(
        "\n# On one machine\n\nThe same over the nearest link where browser and server share both cores, as on the \
         machine of someone who tries it: drafting takes the server's processor away.\n",
    );
    for target in array(&shared["targets"]) {
        table(&mut text, target)?;
    }
    Ok(text)
}

/// A target's links, and in how many of them it goes as it should.
fn table(text: &mut String, target: &Value) -> Result<(), Failure> {
    let name = target["name"].as_str().ok_or("a target has no name")?;
    writeln!(
        text,
        "\n## {name}\n\n| round trip, ms | Mbit/s | way | tokens/s | × alone | passes / token | in time / token | \
         bits up / token |\n|--:|--:|---|--:|--:|--:|--:|--:|"
    )?;
    let (mut links, mut harmless, mut best) = (0, 0, 0);
    for link in array(&target["links"]) {
        let ways = array(&link["ways"]).map(Way::read).collect::<Result<Vec<_>, _>>()?;
        let alone = ways.first().ok_or("nothing was measured")?.rate.median;
        for way in &ways {
            writeln!(
                text,
                "| {} | {} | {} | {} | {:.2} | {:.2} | {} | {:.0} |",
                link["roundTripMs"],
                link["megabits"],
                way.name,
                way.rate,
                way.rate.median / alone,
                way.passes_per_token,
                digits(way.in_time),
                way.bits_up_per_token,
            )?;
        }
        let ahead = ways.iter().find(|way| way.name == "ahead").map_or(0.0, |way| way.rate.median);
        let plans = ways.iter().filter(|way| way.name.starts_with("plan")).map(|way| way.rate.median);
        links += 1;
        harmless += u32::from(ahead >= 0.97 * alone);
        best += u32::from(ahead >= 0.95 * plans.fold(alone, f64::max));
    }
    writeln!(
        text,
        "\n`ahead` reaches 0.97 of the server alone over {harmless} of {links} links, and 0.95 of the best of its plans, \
         no guesses among them, over {best}."
    )?;
    Ok(())
}
