//! Judgement of a pass's rounds on the device that holds their logits.
//!
//! For a row of logits l, temperature T and m = max l, the weights are w(x) = e^((l(x) − m)/T), and p(x) = w(x)/Z.
//! Draft x at position i is accepted if uᵢ·q̂(x) < p(x), where uᵢ is the i-th random draw of the round. If q̂ was sent,
//! or if all drafts are accepted, the next draw selects the following token in the order of
//! `Decision::replace` of `outrider_speculation::judge`: first the tokens outside q̂'s support by id, with weight
//! w(x), then the support by id, with weight max(0, w(x) − q̂(x)·Z). Without q̂, after the last draft, all tokens are
//! ordered by id. A draw therefore gives the same token as on the CPU, unless rounding moves a boundary past it.
//!
//! Rounds that need more than that, such as [blocks](Round::is_block) at temperatures above 0, and rounds with unusable
//! numbers (NaN, or no weight left), have no judgement here. The CPU judges them from their rows, or reports the error.

use candle_core::{D, DType, Result, Tensor};
use outrider_codec::{
    distribution::DraftDist,
    scheme::{Drafts, Sends},
};
use outrider_speculation::judge::{Judgement, Round, Rule, thinning};

use crate::{error::DeviceError, model::BatchRows, search::Pieces};

/// Method of judging a round on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Compares drafts with the largest logit of each row.
    Greedy,
    /// Compares p of the drafts with random draws.
    Sampled,
}

/// Round that is judged on the device.
struct Judged<'r> {
    chunk: usize,
    /// Index of its first row.
    row: usize,
    round: &'r Round,
}

/// Random draw of a following token.
struct Draw<'r> {
    /// Index of the round among the judged ones.
    judged: usize,
    accepted: usize,
    /// Index of the row among the judged ones.
    row: usize,
    unit: f64,
    /// Distribution q̂ to subtract, if a draft was rejected.
    dist: Option<&'r DraftDist>,
}

impl Plan {
    fn of(round: &Round, vocab_size: usize) -> Option<Self> {
        let sampling = &round.sampling;
        let sorts = sampling.top_p < 1.0 || sampling.top_k > 0 && (sampling.top_k as usize) < vocab_size;
        if round.rule != Rule::EXACT || round.evidence {
            None
        } else if sampling.temperature == 0.0 {
            Some(Self::Greedy)
        } else if round.is_block() || sorts || round.scheme.is_some_and(|scheme| scheme.sends() == Sends::Ids) {
            None
        } else {
            Some(Self::Sampled)
        }
    }
}

impl BatchRows {
    /// Judges the rounds of a pass, one per chunk. Returns `None` for rounds that the CPU must judge from the chunk's
    /// [rows](Self::rows).
    ///
    /// # Errors
    /// [`DeviceError::Device`] if the device fails.
    ///
    /// # Panics
    /// If the number of rounds differs from the number of chunks.
    pub fn judge(&self, rounds: &[Option<&Round>]) -> std::result::Result<Vec<Option<Judgement>>, DeviceError> {
        assert_eq!(self.ends.len(), rounds.len(), "a batch has one round a chunk");
        let mut judgements = vec![None; rounds.len()];
        let Some(logits) = &self.logits else { return Ok(judgements) };
        let vocab_size = logits.dim(1)?;
        let (mut greedy, mut sampled) = (Vec::new(), Vec::new());
        for (chunk, round) in rounds.iter().enumerate() {
            let range = self.range(chunk);
            // Chunks that only prefill, or do not end a round, have fewer rows.
            let Some(round) = round.filter(|round| round.rows() == range.len()) else { continue };
            let judged = Judged { chunk, row: range.start, round };
            match Plan::of(round, vocab_size) {
                Some(Plan::Greedy) => greedy.push(judged),
                Some(Plan::Sampled) => sampled.push(judged),
                None => {}
            }
        }
        self.judge_greedy(logits, &greedy, &mut judgements)?;
        self.judge_sampled(logits, &sampled, &mut judgements)?;
        Ok(judgements)
    }

    /// Judges rounds at temperature 0 by the largest logit of each row.
    fn judge_greedy(&self, logits: &Tensor, rounds: &[Judged<'_>], judgements: &mut [Option<Judgement>]) -> Result<()> {
        if rounds.is_empty() {
            return Ok(());
        }
        let wanted = rounds.iter().flat_map(|judged| self.range(judged.chunk)).map(|row| row as u32).collect();
        let logits = select(logits, wanted)?;
        let best = logits.argmax(D::Minus1)?.to_vec1::<u32>()?;
        // NaN or infinity in a row makes its sum not finite.
        let sums = logits.sum(1)?.to_vec1::<f32>()?;
        let mut first = 0;
        for &Judged { chunk, round, .. } in rounds {
            let own = first..first + round.rows();
            first = own.end;
            if sums[own.clone()].iter().all(|sum| sum.is_finite()) {
                judgements[chunk] = Some(thinning::matching(round, &best[own]));
            }
        }
        Ok(())
    }

    /// Judges rounds by p of the drafts, and draws the following token.
    fn judge_sampled(
        &self,
        logits: &Tensor,
        rounds: &[Judged<'_>],
        judgements: &mut [Option<Judgement>],
    ) -> Result<()> {
        if rounds.is_empty() {
            return Ok(());
        }
        let (mut wanted, mut temperatures, mut units) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ids, mut thresholds) = (Vec::new(), Vec::new());
        for Judged { row, round, .. } in rounds {
            let mut randomness = round.randomness.clone();
            // One draw per draft, and one for the token after the last judged draft.
            let draws: Vec<f64> = (0..=round.drafts.len()).map(|_| randomness.unit()).collect();
            for (index, unit) in draws.iter().take(round.rows()).enumerate() {
                wanted.push((row + index) as u32);
                temperatures.push(round.sampling.temperature);
                let (id, q) = draft(&round.drafts, index);
                ids.push(id);
                thresholds.push(unit * q);
            }
            units.push(draws);
        }
        let count = wanted.len();
        let device = logits.device();
        let weights = weights(&select(logits, wanted)?, Tensor::from_vec(temperatures, (count, 1), device)?)?;
        let pieces = Pieces::new(&weights)?;
        let partitions = pieces.totals()?;
        let ids = Tensor::from_vec(ids, (count, 1), device)?;
        let p = (weights.gather(&ids, 1)?.to_dtype(DType::F64)? / &partitions)?;
        let thresholds = Tensor::from_vec(thresholds, (count, 1), device)?;
        let accepts = thresholds.lt(&p)?.flatten_all()?.to_vec1::<u8>()?;

        let mut first = 0;
        let mut draws = Vec::new();
        for (judged, (Judged { chunk, round, .. }, units)) in rounds.iter().zip(&units).enumerate() {
            let drafts = round.drafts.len();
            let accepted = accepts[first..first + drafts].iter().take_while(|&&accepts| accepts == 1).count();
            let dist = match &round.drafts {
                Drafts::Distributions(tokens) => tokens.get(accepted).map(|token| &token.dist),
                _ => None,
            };
            if accepted == round.rows() {
                judgements[*chunk] = Some(Judgement { accepted, ..Judgement::default() });
            } else if accepted == drafts || dist.is_some() {
                // The draw after those that judged the drafts.
                let unit = units[(accepted + 1).min(drafts)];
                draws.push(Draw { judged, accepted, row: first + accepted, unit, dist });
            }
            // Otherwise DSSD's edge resamples, which requires all of p.
            first += round.rows();
        }
        for (draw, token) in draws.iter().zip(draw(&weights, &partitions, &draws)?) {
            let Judged { chunk, round, .. } = rounds[draw.judged];
            judgements[chunk] = token.map(|token| round.settle(draw.accepted, token));
        }
        Ok(())
    }
}

/// Draws one token for each of `draws`, from a row's weights or from the remainder after q̂; `None` if no weight is
/// left.
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
        // An infinite q̂ leaves no weight for padding.
        let q = draw
            .dist
            .into_iter()
            .flat_map(|dist| dist.counts().iter().map(|&count| f64::from(count) / f64::from(dist.total())));
        taken.extend(q.chain(std::iter::repeat(f64::INFINITY)).take(support));
        // If nothing is subtracted, the row stays unchanged.
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
    let shares = Tensor::from_vec(draws.iter().map(|draw| draw.unit).collect::<Vec<_>>(), (count, 1), device)?;
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

/// Selects rows of the logits, in order.
fn select(logits: &Tensor, wanted: Vec<u32>) -> Result<Tensor> {
    let all = wanted.len() == logits.dim(0)? && wanted.iter().zip(0u32..).all(|(&row, index)| row == index);
    if all { Ok(logits.clone()) } else { logits.index_select(&Tensor::new(wanted, logits.device())?, 0) }
}

/// Weights w(x) of each row, `[rows, vocab_size]` in f32, at `temperatures` of shape `[rows, 1]`.
fn weights(logits: &Tensor, temperatures: Tensor) -> Result<Tensor> {
    let highest = logits.max_keepdim(D::Minus1)?;
    logits.broadcast_sub(&highest)?.broadcast_div(&temperatures)?.exp()
}

/// Draft at `index` and its q̂; after the last one, an infinite q̂ that is always rejected.
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
