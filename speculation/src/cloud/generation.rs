//! One generation on the cloud: the committed tokens, the drafts under verification, and what follows from a pass.

use outrider_codec::{
    error::ParameterError,
    frame::{
        Distribution, Draft, ErrorCode, Finish, Frame, Next, Request, SamplingParameters, TargetDist, Token, Verdict,
    },
    scheme::{Downlink, Drafts, Scheme, SchemeParameters},
};

use super::{Failure, TargetInfo};
use crate::{
    Forward, acceptance,
    coupled::{self, SharedNoise},
    dssd::{self, Judgement},
    random::{End, Randomness},
    sampling::LogitsError,
};

#[derive(Debug)]
pub(super) struct Generation {
    number: u32,
    sampling: SamplingParameters,
    randomness: Randomness,
    committed: Vec<u32>,
    /// `committed` may grow to this length.
    length_limit: usize,
    /// How many of `committed` the cache holds.
    cached: usize,
    work: Work,
}

#[derive(Debug)]
pub(super) enum Work {
    /// The edge drafts.
    Speculative(Box<Verification>),
    /// The target goes on alone.
    CloudOnly,
}

/// What a generation that the edge drafts for has besides.
#[derive(Debug)]
pub(super) struct Verification {
    parameters: SchemeParameters,
    scheme: Scheme,
    /// Coupled drafting's.
    noise: SharedNoise,
    round: u32,
    drafts: Option<Drafts>,
    /// DSSD: the edge resamples the token that comes next, from this, and says with its next drafts what it is.
    edge_resamples: Option<TargetDist>,
}

impl Work {
    /// Verification of drafts under a scheme.
    pub(super) fn speculative(
        parameters: SchemeParameters,
        vocab_size: u32,
        request: &Request,
    ) -> Result<Self, ParameterError> {
        let mut scheme = Scheme::new(parameters, vocab_size)?;
        scheme.prime(&request.tokens);
        Ok(Self::Speculative(Box::new(Verification {
            parameters,
            scheme,
            noise: SharedNoise::new(request.seed),
            round: 0,
            drafts: None,
            edge_resamples: None,
        })))
    }
}

impl Generation {
    pub(super) fn new(request: Request, work: Work) -> Self {
        Self {
            number: request.generation,
            sampling: request.sampling,
            randomness: Randomness::new(request.seed, End::Cloud),
            length_limit: request.tokens.len().saturating_add(request.max_new_tokens as usize),
            committed: request.tokens,
            cached: 0,
            work,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// A round of drafts has come.
    pub(super) fn draft(&mut self, draft: &Draft, target: &TargetInfo) -> Result<(), Failure> {
        let Work::Speculative(verification) = &mut self.work else {
            return Err(Failure::out_of_order("Draft came in a cloud-only generation"));
        };
        let round = verification.round;
        if draft.generation != self.number || draft.round != round || verification.drafts.is_some() {
            return Err(Failure::out_of_order(&format!(
                "Draft {}/{} came while {}/{round} was expected",
                draft.generation, draft.round, self.number
            )));
        }
        let context = target.context_length as usize;
        let limit = self.length_limit.min(context);
        match (draft.resampled, verification.edge_resamples.take()) {
            (None, None) => {}
            (Some(_), None) => return Err(Failure::out_of_order("a resampled token came where none was due")),
            (None, Some(_)) => return Err(Failure::out_of_order("the resampled token is missing")),
            (Some(id), Some(_)) => {
                if id >= target.vocab_size || target.eos_ids.contains(&id) || self.committed.len() + 1 >= limit {
                    return Err(Failure::invalid_draft("the resampled token cannot be gone on from".to_owned()));
                }
                self.committed.push(id);
            }
        }
        let room = limit - self.committed.len() - 1;
        let count = usize::from(draft.count);
        if draft.count > target.max_draft_tokens || count > room {
            let allowed = room.min(target.max_draft_tokens.into());
            return Err(Failure::invalid_draft(format!("{count} drafts are more than the {allowed} allowed here")));
        }
        verification.drafts = Some(verification.scheme.decode_round(&draft.payload, draft.count)?);
        Ok(())
    }

    /// The edge asks for the distribution of the last verdict.
    pub(super) fn resample(&mut self, number: u32, round: u32) -> Result<Frame, Failure> {
        let expected = match &self.work {
            Work::Speculative(verification) if verification.sends_samples() => {
                verification.edge_resamples.as_ref().map(|target| (verification.round, target))
            }
            _ => None,
        };
        match expected {
            Some((next, target)) if number == self.number && next.checked_sub(1) == Some(round) => {
                Ok(Frame::Distribution(Distribution { generation: number, round, target: target.clone() }))
            }
            _ => Err(Failure::out_of_order("Resample came where there is nothing to resample")),
        }
    }

    /// The pass that moves this generation on, if there is anything to do.
    pub(super) fn next_pass(&self) -> Option<Forward> {
        let pending = &self.committed[self.cached..];
        match &self.work {
            Work::CloudOnly => Some(Forward { keep: self.cached, tokens: pending.to_vec(), rows: 1 }),
            Work::Speculative(verification) => match &verification.drafts {
                Some(drafts) => {
                    let tokens = pending.iter().copied().chain(drafts.ids()).collect();
                    Some(Forward { keep: self.cached, tokens, rows: drafts.len() + 1 })
                }
                // Read the prompt while the edge drafts. Its last token waits for the drafts: their row comes with it.
                None => {
                    let (_, all_but_last) = pending.split_last()?;
                    let tokens = all_but_last.to_vec();
                    (!tokens.is_empty()).then_some(Forward { keep: self.cached, tokens, rows: 0 })
                }
            },
        }
    }

    /// Uses the rows of the pass that [`next_pass`](Self::next_pass) asked for; gives the frame to send and whether
    /// the generation is over with it.
    pub(super) fn advance(
        &mut self,
        rows: &[&[f32]],
        target: &TargetInfo,
    ) -> Result<Option<(Frame, bool)>, LogitsError> {
        if rows.is_empty() {
            self.cached = self.committed.len() - 1;
            return Ok(None);
        }
        let generation = self.number;
        let Work::Speculative(verification) = &mut self.work else {
            let token = acceptance::verify(&[], rows, &self.sampling, &mut self.randomness)?.token;
            self.cached = self.committed.len();
            let finish = self.commit(&[], Some(token), target);
            return Ok(Some((Frame::Token(Token { generation, token, finish }), finish.is_some())));
        };
        let drafts = verification.drafts.take().unwrap_or(Drafts::Ids(Vec::new()));
        let (stand, next) =
            verification.judge(&drafts, rows, &self.sampling, self.committed.len(), &mut self.randomness)?;
        let ids = drafts.ids();
        // An end-of-text token among the accepted drafts is the last token; what was drafted after it never was.
        let stop = ids[..stand].iter().position(|id| target.eos_ids.contains(id));
        let (accepted, next) = match stop {
            Some(last) => (last + 1, Next::Nothing),
            None => (stand, next),
        };
        let token = if let Next::Token(token) = next { Some(token) } else { None };
        if !matches!(next, Next::Samples(_) | Next::Distribution(_)) {
            verification.edge_resamples = None;
        }
        verification.scheme.commit(&drafts, accepted, token);
        let round = verification.round;
        verification.round += 1;
        // The cache holds the committed tokens and all drafts; what follows the accepted ones is cut by the next pass.
        self.cached = self.committed.len() + accepted;
        let finish = match next {
            // The edge sees the token, and whether it ends the text, first.
            Next::Samples(_) | Next::Distribution(_) => {
                self.committed.extend(&ids[..accepted]);
                None
            }
            _ => self.commit(&ids[..accepted], token, target),
        };
        let verdict = Verdict { generation, round, accepted: accepted as u8, next, finish };
        Ok(Some((Frame::Verdict(verdict), finish.is_some())))
    }

    /// Commits tokens, and says why the generation is over if it is.
    fn commit(&mut self, accepted: &[u32], token: Option<u32>, target: &TargetInfo) -> Option<Finish> {
        self.committed.extend(accepted);
        self.committed.extend(token);
        if self.committed.last().is_some_and(|id| target.eos_ids.contains(id)) {
            Some(Finish::Eos)
        } else if self.committed.len() >= self.length_limit {
            Some(Finish::Length)
        } else if self.committed.len() >= target.context_length as usize {
            Some(Finish::Context)
        } else {
            None
        }
    }
}

impl Verification {
    /// How many drafts stand, and what follows them. `position` is the first draft's in the text.
    fn judge(
        &mut self,
        drafts: &Drafts,
        rows: &[&[f32]],
        sampling: &SamplingParameters,
        position: usize,
        randomness: &mut Randomness,
    ) -> Result<(usize, Next), LogitsError> {
        let outcome = match drafts {
            Drafts::Distributions(tokens) => acceptance::verify(tokens, rows, sampling, randomness)?,
            Drafts::Ids(ids) => coupled::verify(ids, rows, sampling, &self.noise, position)?,
            Drafts::Probabilities(tokens) => match dssd::verify(tokens, rows, sampling, randomness)? {
                Judgement::Accepted(outcome) => outcome,
                Judgement::Rejected { accepted, target } => {
                    let next = match self.parameters {
                        SchemeParameters::Dssd { downlink: Downlink::Sampled(count) } => {
                            Next::Samples(dssd::samples(&target, count, randomness))
                        }
                        _ => Next::Distribution(target.clone()),
                    };
                    self.edge_resamples = Some(target);
                    return Ok((accepted, next));
                }
            },
        };
        Ok((outcome.accepted, Next::Token(outcome.token)))
    }

    fn sends_samples(&self) -> bool {
        matches!(self.parameters, SchemeParameters::Dssd { downlink: Downlink::Sampled(_) })
    }
}

impl Failure {
    fn invalid_draft(what: String) -> Self {
        Self::connection(ErrorCode::InvalidDraft, format!("Invalid draft: {what}."))
    }
}
