//! `cargo xtask bench codec`: bits and time of the codes, on the default pair.
//!
//! `prepare FOLDER` makes the drafts and writes them for the browser, `report FOLDER` measures here, and prints and
//! writes tables. Between the two the browser writes its times.

use std::{fmt::Write, fs, path::Path, time::Instant};

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::SamplingParameters,
    scheme::{Scheme, SchemeParameters},
};
use outrider_models::Chunk;
use outrider_papers::report::chart::{self, Chart};
use outrider_speculation::{
    draft,
    sample::{Distribution, End, Randomness},
    session::options::{Code, DraftingOptions, SchemeName},
};
use serde_json::{Value, json};

use crate::{
    measure::{Case, DRAFT_LENGTH, Failure, Times},
    report as files,
};
use outrider_cloud::{both_ends, pair::PairPaths};
use outrider_papers::reproduce::sessions::DEFAULT_SAMPLING;

/// The pair's own vocabulary first.
const VOCABULARIES: [u32; 3] = [4096, 50257, 151_936];
const SUPPORT_SIZES: [u32; 3] = [8, 32, 128];
/// Sessions for the bits of real rounds.
const SESSIONS: usize = 20;
const BATCH_MS: f64 = 0.5;

const SOURCES: [(&str, SamplingParameters); 2] =
    [("T=1", SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 }), ("default", DEFAULT_SAMPLING)];

/// Runs it with the arguments behind its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    match arguments {
        ["prepare", folder] => prepare(Path::new(folder)),
        ["report", folder] => report(Path::new(folder)),
        _ => Err("prepare FOLDER or report FOLDER; `cargo xtask bench codec` does both".into()),
    }
}

/// Makes every case, from the draft's distributions after each token of the tale.
fn prepare(folder: &Path) -> Result<(), Failure> {
    let pair = both_ends::open(&PairPaths::default())?;
    let mut rows: Vec<Vec<f32>> = Vec::new();
    for paragraph in pair.paragraphs()? {
        let positions: Vec<usize> = (0..paragraph.len()).collect();
        let mut cache = pair.draft.new_cache();
        let chunk = Chunk { cache: &mut cache, tokens: &paragraph, positions: &positions };
        rows.extend(pair.draft.forward(&mut [chunk])?[0].iter().map(<[f32]>::to_vec));
    }
    println!("{} positions of the tale", rows.len());
    let (mut out, mut cases) = (String::new(), 0);
    for (source, sampling) in SOURCES {
        let distributions: Vec<Distribution<'_>> =
            rows.iter().map(|row| Distribution::new(row, &sampling)).collect::<Result<_, _>>()?;
        for (options, vocab_size) in variants(source) {
            case(source, &distributions, options, vocab_size)?.write(&mut out)?;
            cases += 1;
        }
    }
    fs::write(folder.join("codec-cases.txt"), out)?;
    println!("{cases} cases");
    Ok(())
}

/// Schemes, codes and vocabularies.
fn variants(source: &str) -> Vec<(DraftingOptions, u32)> {
    let mut variants = Vec::new();
    for vocab_size in VOCABULARIES {
        for support_size in SUPPORT_SIZES {
            for code in [Code::Enumerative, Code::Adaptive] {
                variants.push((DraftingOptions { support_size, code, ..Default::default() }, vocab_size));
            }
        }
        if source == "default" {
            for (scheme, code) in [
                (SchemeName::CSqs, Code::Enumerative),
                (SchemeName::CSqs, Code::Adaptive),
                (SchemeName::Qs, Code::Enumerative),
                (SchemeName::TkSlt, Code::Enumerative),
            ] {
                variants.push((
                    DraftingOptions { scheme: SchemeName::into(scheme), code, ..Default::default() },
                    vocab_size,
                ));
            }
        }
    }
    variants
}

/// Drafts as one scheme makes them. In a larger vocabulary id becomes ⌊id·V/4096⌋: one to one, in the same order, and
/// as evenly spread.
fn case(
    source: &str,
    distributions: &[Distribution<'_>],
    options: DraftingOptions,
    vocab_size: u32,
) -> Result<Case, Failure> {
    let parameters = options.scheme();
    let scheme = Scheme::new(parameters, VOCABULARIES[0])?;
    // C-SQS's threshold after a while: where it keeps about α of the mass out.
    let threshold = 0.002;
    let mut randomness = Randomness::new(1, End::Edge);
    let spread = |id: u32| (u64::from(id) * u64::from(vocab_size) / u64::from(VOCABULARIES[0])) as u32;
    let mut tokens = Vec::new();
    for q in distributions {
        let token = draft::draw(draft::propose(q, parameters, &scheme, threshold)?, &mut randomness);
        let ids = token.dist.ids().iter().map(|&id| spread(id)).collect();
        let support_size = if options.scheme.rounds() == SchemeName::Qs { vocab_size } else { token.support_size };
        let dist = DraftDist::new(ids, token.dist.counts().to_vec())?;
        tokens.push(DraftToken { id: spread(token.id), dist, support_size });
    }
    let rounds = tokens.chunks_exact(DRAFT_LENGTH).map(<[DraftToken]>::to_vec).collect();
    Ok(Case { source: source.to_owned(), options, vocab_size, rounds })
}

/// What is known of a case.
struct Row {
    case: Case,
    bits: f64,
    /// Without the filling of each round's last byte.
    ideal_bits: f64,
    formula: Option<f64>,
    native: Times,
    browser: Option<Times>,
}

fn report(folder: &Path) -> Result<(), Failure> {
    let cases = Case::read_all(&fs::read_to_string(folder.join("codec-cases.txt"))?)?;
    let browser = fs::read_to_string(folder.join("codec-browser.txt")).ok();
    let browser: Vec<Times> = browser.iter().flat_map(|text| text.lines()).filter_map(times).collect();
    let origin = Instant::now();
    let now = || origin.elapsed().as_secs_f64() * 1e3;
    let mut rows = Vec::new();
    for (i, case) in cases.into_iter().enumerate() {
        let (bits, ideal_bits) = bits(&case)?;
        let native = case.time(&now, BATCH_MS)?;
        let formula = formula(&case).or_else(|| same_drafts(&rows, &case)?.formula);
        if let Some(formula) = formula
            && case.options.code == Code::Enumerative
            && (formula - bits).abs() > 1e-9
        {
            return Err(format!("{bits} bits are not the formula's {formula}").into());
        }
        rows.push(Row { case, bits, ideal_bits, formula, native, browser: browser.get(i).copied() });
    }
    let sessions = sessions()?;
    let markdown = markdown(&rows, &sessions)?;
    files::write(folder, "codec", &markdown, json(&rows), Some(chart::svg(&charts(&rows))))
}

/// The enumerative row of the same drafts.
fn same_drafts<'a>(rows: &'a [Row], case: &Case) -> Option<&'a Row> {
    let enumerative = DraftingOptions { code: Code::Enumerative, ..case.options.clone() };
    rows.iter().find(|row| {
        (&row.case.source, row.case.vocab_size, &row.case.options) == (&case.source, case.vocab_size, &enumerative)
    })
}

fn times(line: &str) -> Option<Times> {
    let (encode, decode) = line.split_once(' ')?;
    Some(Times { encode: encode.parse().ok()?, decode: decode.parse().ok()? })
}

/// Bits per token of the payloads, and without the filling of their last bytes; all drafts are accepted.
fn bits(case: &Case) -> Result<(f64, f64), Failure> {
    let mut scheme = Scheme::new(case.parameters(), case.vocab_size)?;
    let (mut bits, mut ideal, mut tokens) = (0, 0, 0);
    for round in &case.rounds {
        let mut encoder = scheme.round();
        round.iter().try_for_each(|token| encoder.push(&scheme, token))?;
        ideal += encoder.bits();
        bits += encoder.finish().1;
        tokens += round.len();
        scheme.commit(&outrider_codec::scheme::Drafts::Distributions(round.clone()), round.len(), None);
    }
    Ok((bits as f64 / tokens as f64, ideal as f64 / tokens as f64))
}

/// Bits per token by the papers' formulas, with the drafted token's index that they forget; in floats, and so by
/// another program than the code's. `None` where they have none, or where the adaptive code has forgotten what was
/// kept.
fn formula(case: &Case) -> Option<f64> {
    let (v, l) = (case.vocab_size, case.options.lattice_resolution);
    let token =
        |k: u32| log2_binomial(v, k).ceil() + log2_binomial(l + k - 1, k - 1).ceil() + f64::from(k).log2().ceil();
    match (case.parameters(), case.options.code) {
        (SchemeParameters::KSqs { support_size, .. }, _) => Some(token(support_size)),
        (SchemeParameters::Qs { .. }, _) => Some(token(v)),
        (SchemeParameters::CSqs { .. }, Code::Enumerative) => {
            let size = f64::from(v).log2().ceil();
            let drafts: Vec<f64> = case.rounds.iter().flatten().map(|draft| size + token(draft.support_size)).collect();
            Some(drafts.iter().sum::<f64>() / drafts.len() as f64)
        }
        _ => None,
    }
}

fn log2_binomial(n: u32, k: u32) -> f64 {
    let short = k.min(n - k);
    (1..=short).map(|j| (f64::from(n - short + j) / f64::from(j)).log2()).sum()
}

/// K, the formula's bits and the adaptive code's, per drafted token of real sessions.
fn sessions() -> Result<Vec<(u32, f64, f64)>, Failure> {
    let pair = both_ends::open(&PairPaths::default())?;
    let prompts = pair.prompts(SESSIONS)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut rows = Vec::new();
    for support_size in SUPPORT_SIZES {
        let options = DraftingOptions { support_size, code: Code::Adaptive, bit_budget: 0, ..Default::default() };
        let sessions = runtime.block_on(pair.generate(&prompts, &options.speculation()?))?;
        let bits: usize = sessions.iter().map(|session| session.statistics.payload_bits).sum();
        let drafted: usize = sessions.iter().map(|session| session.statistics.drafted).sum();
        let papers = DraftingOptions { code: Code::Enumerative, ..options };
        let formula = Scheme::new(papers.scheme(), VOCABULARIES[0])?.fixed_token_bits().unwrap_or(0);
        rows.push((support_size, f64::from(formula), bits as f64 / drafted as f64));
    }
    Ok(rows)
}

fn markdown(rows: &[Row], sessions: &[(u32, f64, f64)]) -> Result<String, Failure> {
    let mut out = format!(
        "## Real sessions\n\nDefault settings (T = 0.7, top-p 0.95, γ = 4, ℓ = 100), {SESSIONS} prompts of 128 tokens, \
         V = 4096, verdicts by the target. Payload bits per drafted token, whole bytes included.\n\n\
         | K | papers' formula | adaptive | below |\n|--:|--:|--:|--:|\n"
    );
    for (k, formula, bits) in sessions {
        writeln!(out, "| {k} | {formula:.0} | {bits:.1} | {:.0} % |", 100.0 * (1.0 - bits / formula))?;
    }
    out.push_str(
        "\n## Bits and times\n\nPer token, in rounds of four. T=1: the draft's own distribution after each token of the tale; \
         default: at T = 0.7 and top-p 0.95. µs: encode / decode, medians over \
         rounds.\n\n\
         | q̂ from | V | scheme | K | code | formula | bits | without filling | native µs | Chromium µs |\n\
         |---|--:|---|--:|---|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let options = &row.case.options;
        let adaptive = options.code == Code::Adaptive;
        let k = match options.scheme.rounds() {
            SchemeName::CSqs => "varies".to_owned(),
            SchemeName::Qs => "V".to_owned(),
            _ => options.support_size.to_string(),
        };
        let formula = row.formula.map_or("–".to_owned(), |bits| format!("{bits:.1}"));
        let browser =
            row.browser.map_or("–".to_owned(), |times| format!("{:.1} / {:.1}", times.encode, times.decode));
        let (source, v, scheme) = (&row.case.source, row.case.vocab_size, row.case.parameters().name());
        let code = if adaptive { "adaptive" } else { "enumerative" };
        writeln!(
            out,
            "| {source} | {v} | {scheme} | {k} | {code} | {formula} | {:.1} | {:.1} | {:.1} / {:.1} | {browser} |",
            row.bits, row.ideal_bits, row.native.encode, row.native.decode
        )?;
    }
    Ok(out)
}

fn json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        let options = &row.case.options;
        json!({
            "source": row.case.source,
            "vocabSize": row.case.vocab_size,
            "scheme": row.case.parameters().name(),
            "supportSize": options.support_size,
            "adaptive": options.code == Code::Adaptive,
            "formulaBits": row.formula,
            "bits": row.bits,
            "idealBits": row.ideal_bits,
            "nativeEncode": row.native.encode,
            "nativeDecode": row.native.decode,
            "browserEncode": row.browser.map(|times| times.encode),
            "browserDecode": row.browser.map(|times| times.decode),
        })
    };
    rows.iter().map(row).collect()
}

fn charts(rows: &[Row]) -> [Chart; 2] {
    let of = |source: &str, v: u32, k: u32, code: Code| {
        rows.iter().find(|row| {
            let options = &row.case.options;
            row.case.source == source
                && row.case.vocab_size == v
                && options.scheme.rounds() == SchemeName::KSqs
                && (options.support_size, options.code) == (k, code)
        })
    };
    let groups = |values: &dyn Fn(u32, u32) -> Vec<f64>| {
        let grid = VOCABULARIES.into_iter().flat_map(|v| SUPPORT_SIZES.map(|k| (v, k)));
        grid.map(|(v, k)| (format!("V={v} K={k}"), values(v, k))).collect()
    };
    let bits = |row: Option<&Row>| row.map_or(f64::NAN, |row| row.bits);
    let slower = |times: Option<Times>| times.map_or(f64::NAN, |times| times.encode.max(times.decode));
    let (enumerative, adaptive) = (Code::Enumerative, Code::Adaptive);
    [
        Chart {
            title: "K-SQS, bits per token (ℓ = 100)".to_owned(),
            series: vec!["papers' formula = enumerative", "adaptive, T = 1", "adaptive, T = 0.7, top-p 0.95"],
            groups: groups(&|v, k| {
                vec![
                    bits(of("T=1", v, k, enumerative)),
                    bits(of("T=1", v, k, adaptive)),
                    bits(of("default", v, k, adaptive)),
                ]
            }),
        },
        Chart {
            title: "K-SQS, µs per token, the slower of encoding and decoding (default sampling)".to_owned(),
            series: vec!["enumerative", "enumerative, Chromium", "adaptive", "adaptive, Chromium"],
            groups: groups(&|v, k| {
                [enumerative, adaptive]
                    .into_iter()
                    .flat_map(|code| {
                        let row = of("default", v, k, code);
                        [slower(row.map(|row| row.native)), slower(row.and_then(|row| row.browser))]
                    })
                    .collect()
            }),
        },
    ]
}
