//! What becomes of the rounds of a pass, decided where their logits are.
//!
//! Of a row of logits l, temperature T and m = max l the weights are w(x) = e^((l(x) − m)/T), p(x) = w(x)/Z. Draft x of the i-th place
//! stands if uᵢ·q̂(x) < p(x), with uᵢ the i-th of the coins that the session would judge by. With j the first that falls, or their
//! number if none does, the next coin draws the token that follows, in the order of
//! [`outrider_speculation::judge::rules::Decision::replace`]: first the tokens outside of q̂'s support by id, with w(x), then the support by
//! id, with max(0, w(x) − q̂(x)·Z); without a q̂, after the last draft, all tokens by id. So the same coin gives the same token as on a
//! processor, but where rounding moves a border past it.
//!
//! Rows whose numbers are of no use (NaN, or nothing left of them) come back: the CPU says why.

use candle_core::{D, DType, Result, Tensor};
use outrider_codec::{
    distribution::DraftDist,
    scheme::{Drafts, Sends},
};
use outrider_speculation::session::cloud::Round;

use crate::{error::DeviceError, model::BatchRows, search::Pieces};

/// What became of a chunk's round.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// All rows, for the CPU to judge.
    Rows(Vec<Vec<f32>>),
    /// The only token that each row leaves.
    Certain(Vec<u32>),
    /// The first `accepted` drafts stand.
    Judged {
        /// How many.
        accepted: usize,
        /// What follows them.
        next: Next,
    },
}

/// What follows the drafts that stand.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// This token.
    Token(u32),
    /// What the CPU makes of the rows from there on.
    Rows(Vec<Vec<f32>>),
    /// Nothing: all stand, and another round follows.
    Nothing,
}

/// How a round can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Rows,
    Certain,
    Judged,
}

/// One decision a round, or a chunk.
type Outcomes = std::result::Result<Vec<Decision>, DeviceError>;

/// A round that is judged here.
struct Judged<'r> {
    chunk: usize,
    /// Its first row.
    row: usize,
    /// Its rows: one a draft, and one for the token that follows the last, where one does.
    rows: usize,
    round: &'r Round,
}

/// What a token is drawn of.
struct Draw<'r> {
    /// Which of the judged rounds it is for.
    judged: usize,
    /// The row, among those that are judged.
    row: usize,
    coin: f64,
    /// What is taken off, where a draft fell.
    dist: Option<&'r DraftDist>,
}

impl Plan {
    fn of(round: &Round, vocab_size: usize) -> Self {
        let sampling = &round.sampling;
        if !round.rule.is_exact() || round.evidence {
            Self::Rows
        } else if sampling.temperature == 0.0 {
            Self::Certain
        } else if sampling.top_p < 1.0
            || sampling.top_k > 0 && (sampling.top_k as usize) < vocab_size
            || round.scheme.is_some_and(|scheme| scheme.sends() == Sends::Ids)
        {
            Self::Rows
        } else {
            Self::Judged
        }
    }
}

impl BatchRows {
    /// Decides the rounds that a pass was for, one of each chunk; a chunk without one gets its rows.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If there is not one round a chunk.
    pub fn decide(&self, rounds: &[Option<&Round>]) -> Outcomes {
        assert_eq!(self.ends.len(), rounds.len(), "a batch has one round a chunk");
        let Some(logits) = &self.logits else {
            return Ok(vec![Decision::Rows(Vec::new()); rounds.len()]);
        };
        let vocab_size = logits.dim(1)?;
        let mut decisions = vec![None; rounds.len()];
        let (mut certain, mut judged) = (Vec::new(), Vec::new());
        for (chunk, round) in rounds.iter().enumerate() {
            let range = self.range(chunk);
            let plan = round.map_or(Plan::Rows, |round| Plan::of(round, vocab_size));
            // A round's rows are those after the last committed token and after each draft; a continued one's without the last.
            let fits = |round: &&Round| {
                let drafts = round.drafts.len();
                let is_continued = drafts > 0 && range.len() == drafts;
                (is_continued || range.len() == drafts + 1) && round.coins.len() == drafts + 1
            };
            match (plan, round.filter(fits)) {
                (Plan::Certain, _) if !range.is_empty() => certain.push(chunk),
                (Plan::Judged, Some(round)) => {
                    judged.push(Judged { chunk, row: range.start, rows: range.len(), round });
                }
                _ => decisions[chunk] = Some(Decision::Rows(self.rows(chunk)?)),
            }
        }
        for (chunk, decision) in certain.iter().zip(self.certain(logits, &certain)?) {
            decisions[*chunk] = Some(decision);
        }
        for (round, decision) in judged.iter().zip(self.judge(logits, &judged)?) {
            decisions[round.chunk] = Some(decision);
        }
        Ok(decisions.into_iter().map(|decision| decision.unwrap_or(Decision::Rows(Vec::new()))).collect())
    }

    /// The largest logit of each row of some chunks.
    fn certain(&self, logits: &Tensor, chunks: &[usize]) -> Outcomes {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<u32> = chunks.iter().flat_map(|&chunk| self.range(chunk)).map(|row| row as u32).collect();
        let logits = select(logits, wanted)?;
        let best = logits.argmax(D::Minus1)?.to_vec1::<u32>()?;
        // A single NaN, or infinity, makes a sum that is no number.
        let sums = logits.sum(1)?.to_vec1::<f32>()?;
        let mut first = 0;
        let decision = |&chunk: &usize| -> std::result::Result<Decision, DeviceError> {
            let count = self.range(chunk).len();
            let own = first..first + count;
            first += count;
            if sums[own.clone()].iter().all(|sum| sum.is_finite()) {
                Ok(Decision::Certain(best[own].to_vec()))
            } else {
                Ok(Decision::Rows(self.rows(chunk)?))
            }
        };
        chunks.iter().map(decision).collect()
    }

    fn judge(&self, logits: &Tensor, rounds: &[Judged<'_>]) -> Outcomes {
        if rounds.is_empty() {
            return Ok(Vec::new());
        }
        let mut wanted = Vec::new();
        let mut temperatures = Vec::new();
        let (mut ids, mut thresholds) = (Vec::new(), Vec::new());
        for Judged { row, rows, round, .. } in rounds {
            for (index, coin) in round.coins.iter().take(*rows).enumerate() {
                wanted.push((row + index) as u32);
                temperatures.push(round.sampling.temperature);
                let (id, q) = draft(&round.drafts, index);
                ids.push(id);
                thresholds.push(coin * q);
            }
        }
        let count = wanted.len();
        let device = logits.device();
        let weights = weights(&select(logits, wanted)?, Tensor::from_vec(temperatures, (count, 1), device)?)?;
        let pieces = Pieces::new(&weights)?;
        let partitions = pieces.totals()?;
        let ids = Tensor::from_vec(ids, (count, 1), device)?;
        let p = (weights.gather(&ids, 1)?.to_dtype(DType::F64)? / &partitions)?;
        let thresholds = Tensor::from_vec(thresholds, (count, 1), device)?;
        let stands = thresholds.lt(&p)?.flatten_all()?.to_vec1::<u8>()?;

        let mut first = 0;
        let mut decided = Vec::with_capacity(rounds.len());
        let mut draws = Vec::new();
        for (judged, Judged { row, rows, round, .. }) in rounds.iter().enumerate() {
            let drafts = round.drafts.len();
            let accepted = stands[first..first + drafts].iter().take_while(|&&stands| stands == 1).count();
            let dist = match &round.drafts {
                Drafts::Distributions(tokens) => tokens.get(accepted).map(|token| &token.dist),
                _ => None,
            };
            if accepted == *rows {
                decided.push((accepted, Some(Next::Nothing)));
            } else if accepted == drafts || dist.is_some() {
                // The coin behind those that judged.
                let coin = round.coins[(accepted + 1).min(drafts)];
                draws.push(Draw { judged, row: first + accepted, coin, dist });
                decided.push((accepted, None));
            } else {
                // DSSD: the edge resamples, from the row.
                decided.push((accepted, Some(Next::Rows(self.fetch(row + accepted..row + rows)?))));
            }
            first += rows;
        }
        for (draw, token) in draws.iter().zip(draw(&weights, &partitions, &draws)?) {
            let Judged { row, rows, .. } = &rounds[draw.judged];
            let (accepted, next) = &mut decided[draw.judged];
            *next = Some(match token {
                Some(token) => Next::Token(token),
                None => Next::Rows(self.fetch(row + *accepted..row + rows)?),
            });
        }
        let decision = |(accepted, next): (usize, Option<Next>)| Decision::Judged {
            accepted,
            next: next.unwrap_or(Next::Rows(Vec::new())),
        };
        Ok(decided.into_iter().map(decision).collect())
    }
}

/// Draws a token of each: of a row's weights, or of what q̂ leaves of them; `None` where there is nothing to draw of.
fn draw(weights: &Tensor, partitions: &Tensor, draws: &[Draw<'_>]) -> Result<Vec<Option<u32>>> {
    if draws.is_empty() {
        return Ok(Vec::new());
    }
    let (count, device) = (draws.len(), weights.device());
    let support = draws.iter().map(|draw| draw.dist.map_or(1, |dist| dist.ids().len())).max().unwrap_or(1);
    let (mut ids, mut taken, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for draw in draws {
        let own = draw.dist.map_or(&[][..], DraftDist::ids);
        let first = own.first().copied().unwrap_or(0);
        ids.extend(own.iter().copied().chain(std::iter::repeat(first)).take(support));
        // An infinite q̂ leaves nothing of what only pads.
        let q = draw
            .dist
            .into_iter()
            .flat_map(|dist| dist.counts().iter().map(|&count| f64::from(count) / f64::from(dist.total())));
        taken.extend(q.chain(std::iter::repeat(f64::INFINITY)).take(support));
        // Where nothing is taken off, the row stays as it is.
        left.push(if draw.dist.is_some() { 0f32 } else { 1f32 });
    }
    let rows = Tensor::new(draws.iter().map(|draw| draw.row as u32).collect::<Vec<_>>(), device)?;
    let (weights, partitions) = (weights.index_select(&rows, 0)?, partitions.index_select(&rows, 0)?);
    let index = Tensor::from_vec(ids.clone(), (count, support), device)?;
    let on_support = weights.gather(&index, 1)?;
    let left = on_support.broadcast_mul(&Tensor::from_vec(left, (count, 1), device)?)?;
    let outside = weights.scatter(&index, &left, 1)?;
    let taken = Tensor::from_vec(taken, (count, support), device)?.broadcast_mul(&partitions)?;
    let within = (on_support.to_dtype(DType::F64)? - taken)?.maximum(0.0)?.to_dtype(DType::F32)?;
    let shares = Tensor::from_vec(draws.iter().map(|draw| draw.coin).collect::<Vec<_>>(), (count, 1), device)?;
    let found = Pieces::new(&Tensor::cat(&[&outside, &within], 1)?)?.at(&shares)?;
    let vocab_size = weights.dim(1)?;
    let token = |(draw, found): (usize, &crate::search::Found)| {
        let exists = found.total > 0.0 && found.total.is_finite();
        exists.then(|| match found.index.checked_sub(vocab_size) {
            None => found.index as u32,
            Some(place) => ids[draw * support + place.min(support - 1)],
        })
    };
    Ok(found.iter().enumerate().map(token).collect())
}

/// Some rows, in order.
fn select(logits: &Tensor, wanted: Vec<u32>) -> Result<Tensor> {
    let all = wanted.len() == logits.dim(0)? && wanted.iter().zip(0u32..).all(|(&row, index)| row == index);
    if all { Ok(logits.clone()) } else { logits.index_select(&Tensor::new(wanted, logits.device())?, 0) }
}

/// w(x) of each row, `[rows, vocab_size]` in f32, at the temperatures `[rows, 1]`.
fn weights(logits: &Tensor, temperatures: Tensor) -> Result<Tensor> {
    let highest = logits.max_keepdim(D::Minus1)?;
    logits.broadcast_sub(&highest)?.broadcast_div(&temperatures)?.exp()
}

/// The `index`-th draft and its q̂; behind the last, what no p is above.
fn draft(drafts: &Drafts, index: usize) -> (u32, f64) {
    let nothing = (0, f64::INFINITY);
    match drafts {
        Drafts::Distributions(tokens) => tokens
            .get(index)
            .map_or(nothing, |token| (token.id, f64::from(token.dist.count(token.id)) / f64::from(token.dist.total()))),
        Drafts::Probabilities(tokens) => {
            tokens.get(index).map_or(nothing, |token| (token.id, f64::from(token.count) / f64::from(token.total)))
        }
        Drafts::Ids(_) => nothing,
    }
}
