//! One generation on the cloud: the committed tokens, the drafts under verification, and what follows from a pass.

use outrider_codec::{
    frame::{
        Distribution, Draft, ErrorCode, Evidence, Finish, Frame, Next, Prompt, Request, SamplingParameters, TargetDist,
        Token, Verdict,
    },
    scheme::{Drafts, Scheme, SchemeParameters, Sends},
};

use super::{Failure, TargetInfo, flight::Flight};
use crate::{
    Forward,
    judge::{
        acceptance::{self, Judge, Judged},
        coupled,
        dssd::{self, Judgement},
        rules::{Rule, Statistic},
        unscaled::{self, Transport},
    },
    sample::{self, End, LogitsError, Randomness, SharedNoise},
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
    /// How many it holds when the pass under way is done. Drafts come meanwhile, and may bring passed tokens that the
    /// pass does not read.
    reading: usize,
    work: Work,
}

#[derive(Debug)]
pub(super) enum Work {
    /// The edge drafts.
    Speculative(Box<Verification>),
    /// The target goes on alone.
    CloudOnly,
}

/// What a pass is for, for a driver that decides what becomes of the drafts by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// S(·).
    pub sampling: SamplingParameters,
    /// The uplink scheme; `None` where the target writes the text alone.
    pub scheme: Option<SchemeParameters>,
    /// How drafts are to be judged.
    pub rule: Rule,
    /// Whether the edge is told what they were judged by, which takes all of p.
    pub evidence: bool,
    /// The drafts: the last tokens that the pass feeds, or none.
    pub drafts: Drafts,
    /// The coins that the session itself would judge by, in order: one a draft, and one for the token that follows the last. After a
    /// rejection that token's is the one behind the rejected draft's.
    pub coins: Vec<f64>,
}

/// What a generation that the edge drafts for has besides.
#[derive(Debug)]
pub(super) struct Verification {
    parameters: SchemeParameters,
    scheme: Scheme,
    rule: Rule,
    /// How the statistics that the rule needs come.
    statistics: Transport,
    /// Whether the edge wants to know what was judged by.
    evidence: bool,
    /// Coupled drafting's.
    noise: SharedNoise,
    /// Which round is at work, and which wait.
    flight: Flight,
    /// Of the round at work.
    drafts: Option<(Drafts, Vec<Statistic>)>,
    /// Tokens that the target is to write alone before the next round.
    stream: u32,
    /// DSSD: the edge resamples the token that comes next, from this, and says with its next drafts what it is.
    edge_resamples: Option<TargetDist>,
}

impl Work {
    /// Verification of drafts under a scheme and a rule.
    pub(super) fn speculative(prompt: &Prompt, target: &TargetInfo) -> Result<Self, Failure> {
        let Prompt { request, scheme: parameters, rule, evidence, max_in_flight } = prompt;
        let refuse = |text| Failure::generation(request.generation, ErrorCode::InvalidParameters, text);
        if *max_in_flight > target.max_in_flight {
            let most = target.max_in_flight;
            return Err(refuse(format!("{max_in_flight} rounds in flight are more than the {most} allowed here.")));
        }
        let mut scheme = Scheme::new(*parameters, target.vocab_size)
            .map_err(|error| refuse(format!("The scheme cannot be used: {error}.")))?;
        scheme.prime(&request.tokens);
        let rule = Rule::from_wire(rule.number, rule.parameter)
            .map_err(|error| refuse(format!("The acceptance rule cannot be used: {error}.")))?;
        unscaled::check(&rule, *parameters)
            .map_err(|error| refuse(format!("The acceptance rule cannot be used: {error}.")))?;
        Ok(Self::Speculative(Box::new(Verification {
            parameters: *parameters,
            scheme,
            statistics: Transport::new(&rule, &request.sampling),
            rule,
            evidence: *evidence,
            noise: SharedNoise::new(request.seed),
            flight: Flight::new(*max_in_flight),
            drafts: None,
            stream: 0,
            edge_resamples: None,
        })))
    }

    /// The scheme of the drafts, if the edge drafts.
    pub(super) fn scheme(&self) -> Option<SchemeParameters> {
        match self {
            Self::Speculative(verification) => Some(verification.parameters),
            Self::CloudOnly => None,
        }
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
            reading: 0,
            work,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Drafts that wait for their verdict.
    pub(super) fn proposed(&self) -> usize {
        match &self.work {
            Work::Speculative(verification) => verification.drafts.as_ref().map_or(0, |(drafts, _)| drafts.len()),
            Work::CloudOnly => 0,
        }
    }

    /// Tokens of the text, prompt included.
    pub(super) fn length(&self) -> usize {
        self.committed.len()
    }

    /// The round that a pass is for, or the next.
    pub(super) fn round_number(&self) -> u32 {
        match &self.work {
            Work::Speculative(verification) => verification.flight.round(),
            Work::CloudOnly => 0,
        }
    }

    /// A round of drafts has come. Gives the first round of which the edge may not have all frames yet, or `None` if this one
    /// comes again or in vain: that changes nothing.
    pub(super) fn draft(&mut self, draft: Draft) -> Result<Option<u32>, Failure> {
        if draft.generation < self.number {
            return Ok(None);
        }
        let Work::Speculative(verification) = &mut self.work else {
            return Err(Failure::out_of_order("Draft came in a cloud-only generation"));
        };
        if draft.generation != self.number {
            return Err(Failure::out_of_order(&format!(
                "Draft {}/{} came while generation {} is under way",
                draft.generation, draft.round, self.number
            )));
        }
        verification.flight.admit(draft)
    }

    /// Goes on to the next round, if one waits and none is at work.
    pub(super) fn begin_round(&mut self, target: &TargetInfo) -> Result<(), Failure> {
        let Work::Speculative(verification) = &mut self.work else { return Ok(()) };
        let Some(draft) = verification.flight.begin() else { return Ok(()) };
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
        // What ends the text the edge sees, and cancels.
        let dead_end = |id: &u32| *id >= target.vocab_size || target.eos_ids.contains(id);
        if draft.passed.iter().any(dead_end) || self.committed.len() + draft.passed.len() >= limit {
            return Err(Failure::invalid_draft("the passed tokens cannot be gone on from".to_owned()));
        }
        self.committed.extend(&draft.passed);
        verification.scheme.prime(&draft.passed);
        if draft.stream > 0 {
            verification.stream = draft.stream;
            return Ok(());
        }
        let room = limit - self.committed.len() - usize::from(verification.rule.has_bonus() && !draft.continued);
        let count = usize::from(draft.count);
        if draft.count > target.max_draft_tokens || count > room {
            let allowed = room.min(target.max_draft_tokens.into());
            return Err(Failure::invalid_draft(format!("{count} drafts are more than the {allowed} allowed here")));
        }
        let (statistics, payload) = verification.statistics.decode(&draft.payload, draft.count)?;
        let drafts = verification.scheme.decode_round(payload, draft.count)?;
        let statistics = verification.statistics.complete(statistics, &drafts)?;
        verification.drafts = Some((drafts, statistics));
        Ok(())
    }

    /// The edge asks for the distribution of the last verdict; nothing, if it asks again and has gone on meanwhile.
    pub(super) fn resample(&self, number: u32, round: u32) -> Result<Option<Frame>, Failure> {
        let is_late = match &self.work {
            Work::Speculative(verification) if verification.sends_samples() => {
                round < verification.flight.round().saturating_sub(u32::from(!verification.flight.is_busy()))
            }
            _ => false,
        };
        if number < self.number || number == self.number && is_late {
            return Ok(None);
        }
        let expected = match &self.work {
            Work::Speculative(verification) if verification.sends_samples() => {
                verification.edge_resamples.as_ref().map(|target| (verification.flight.round(), target))
            }
            _ => None,
        };
        match expected {
            Some((next, target)) if number == self.number && next.checked_sub(1) == Some(round) => {
                Ok(Some(Frame::Distribution(Distribution { generation: number, round, target: target.clone() })))
            }
            _ => Err(Failure::out_of_order("Resample came where there is nothing to resample")),
        }
    }

    /// What the pass that [`next_pass`](Self::next_pass) asked for is for.
    pub(super) fn round(&self) -> Round {
        let sampling = self.sampling;
        let none = Drafts::Ids(Vec::new());
        let (scheme, rule, evidence, drafts) = match &self.work {
            Work::CloudOnly => (None, Rule::EXACT, false, none),
            Work::Speculative(verification) => {
                let Verification { parameters, rule, evidence, ref drafts, .. } = **verification;
                let drafts = drafts.as_ref().map_or(none, |(drafts, _)| drafts.clone());
                (Some(parameters), rule, evidence, drafts)
            }
        };
        let mut randomness = self.randomness.clone();
        randomness.begin_round(self.committed.len());
        let coins = (0..=drafts.len()).map(|_| randomness.unit()).collect();
        Round { sampling, scheme, rule, evidence, drafts, coins }
    }

    /// The pass that moves this generation on, if there is anything to do.
    pub(super) fn next_pass(&mut self) -> Option<Forward> {
        let forward = self.forward()?;
        self.reading = forward.keep + forward.tokens.len();
        Some(forward)
    }

    fn forward(&self) -> Option<Forward> {
        let pending = &self.committed[self.cached..];
        let alone = || Some(Forward { keep: self.cached, tokens: pending.to_vec(), rows: 1 });
        match &self.work {
            Work::CloudOnly => alone(),
            Work::Speculative(verification) => match &verification.drafts {
                _ if verification.stream > 0 => alone(),
                Some((drafts, _)) => {
                    let rows = verification.rows(drafts);
                    let tokens = pending.iter().copied().chain(drafts.ids().into_iter().take(rows - 1)).collect();
                    Some(Forward { keep: self.cached, tokens, rows })
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

    /// Uses the rows of the pass that [`next_pass`](Self::next_pass) asked for; gives the frames to send and whether
    /// the generation is over with them.
    pub(super) fn advance(&mut self, rows: &[&[f32]], target: &TargetInfo) -> Result<(Vec<Frame>, bool), LogitsError> {
        let Some(row) = rows.first() else {
            self.cached = self.reading;
            return Ok((Vec::new(), false));
        };
        let generation = self.number;
        self.randomness.begin_round(self.committed.len());
        let verification = match &mut self.work {
            Work::Speculative(verification) if verification.stream == 0 => verification,
            work => {
                let p = sample::Distribution::new(row, &self.sampling)?;
                let token = match work {
                    Work::Speculative(verification) => {
                        verification.stream_token(&p, self.committed.len(), &mut self.randomness)
                    }
                    Work::CloudOnly => p.draw(&mut self.randomness),
                };
                self.cached = self.committed.len();
                let position = self.committed.len() as u32;
                let finish = self.commit(&[], Some(token), target);
                return Ok((vec![Frame::Token(Token { generation, position, token, finish })], finish.is_some()));
            }
        };
        let (drafts, statistics) = verification.drafts.take().unwrap_or((Drafts::Ids(Vec::new()), Vec::new()));
        let mut judged = Vec::new();
        let (stand, next) = verification.judge(
            (&drafts, &statistics),
            rows,
            &self.sampling,
            self.committed.len(),
            &mut self.randomness,
            &mut judged,
        )?;
        let ids = drafts.ids();
        // An end-of-text token among the accepted drafts is the last token; what was drafted after it never was.
        let stop = ids[..stand].iter().position(|id| target.eos_ids.contains(id));
        let (accepted, next) = match stop {
            Some(last) => (last + 1, Next::Nothing),
            None => (stand, next),
        };
        if stop.is_some() {
            judged.truncate(accepted);
        }
        let token = if let Next::Token(token) = next { Some(token) } else { None };
        if !matches!(next, Next::Samples(_) | Next::Distribution(_)) {
            verification.edge_resamples = None;
        }
        verification.scheme.commit(&drafts, accepted, token);
        let round = verification.flight.round();
        verification.flight.end(accepted == ids.len());
        // The cache holds the committed tokens and the drafts that were fed; what follows the accepted ones is cut by the
        // next pass.
        self.cached = self.committed.len() + accepted.min(rows.len() - 1);
        let finish = match next {
            // The edge sees the token, and whether it ends the text, first.
            Next::Samples(_) | Next::Distribution(_) => {
                self.committed.extend(&ids[..accepted]);
                None
            }
            _ => self.commit(&ids[..accepted], token, target),
        };
        let evidence = judged.iter().zip(0u8..).map(|(judged, index)| {
            Frame::Evidence(Evidence {
                generation,
                round,
                index,
                rejection: probability(judged.rejection),
                divergence: probability(judged.divergence),
                target: dssd::sparse(&judged.target),
            })
        });
        let verdict = Frame::Verdict(Verdict { generation, round, accepted: accepted as u8, next, finish });
        Ok((evidence.chain([verdict]).collect(), finish.is_some()))
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
    /// Rows of logits that a round needs.
    fn rows(&self, drafts: &Drafts) -> usize {
        acceptance::rows(drafts.len(), &self.rule, self.flight.is_continued())
    }

    /// A token that the target writes alone; the next round follows when it has written all.
    ///
    /// Under coupled drafting it has the noise of its place like any other: whether it is drafted or streamed may hang on what
    /// was drafted there before and rejected, and so on that noise.
    fn stream_token(&mut self, p: &sample::Distribution<'_>, position: usize, randomness: &mut Randomness) -> u32 {
        let token = match self.parameters.sends() {
            Sends::Ids => self.noise.choose_from(position, p),
            Sends::Distributions | Sends::Probabilities => p.draw(randomness),
        };
        self.scheme.prime(&[token]);
        self.stream -= 1;
        if self.stream == 0 {
            self.flight.end(true);
        }
        token
    }

    /// How many drafts stand, and what follows them. `position` is the first draft's in the text.
    fn judge(
        &mut self,
        (drafts, statistics): (&Drafts, &[Statistic]),
        rows: &[&[f32]],
        sampling: &SamplingParameters,
        position: usize,
        randomness: &mut Randomness,
        judged: &mut Vec<Judged>,
    ) -> Result<(usize, Next), LogitsError> {
        let judged = self.evidence.then_some(judged);
        let outcome = match drafts {
            Drafts::Distributions(tokens) => {
                let judge = Judge { rule: self.rule, sampling: *sampling, randomness, judged };
                judge.verify(tokens, statistics, rows)?
            }
            Drafts::Ids(ids) => {
                let outcome = coupled::verify(ids, rows, sampling, &self.noise, position)?;
                acceptance::witness(outcome.accepted, ids.len(), rows, sampling, judged)?;
                outcome
            }
            Drafts::Probabilities(tokens) => match dssd::verify(tokens, rows, sampling, randomness)? {
                Judgement::Accepted(outcome) => {
                    acceptance::witness(outcome.accepted, tokens.len(), rows, sampling, judged)?;
                    outcome
                }
                Judgement::Rejected { accepted, target } => {
                    acceptance::witness(accepted, tokens.len(), rows, sampling, judged)?;
                    let next = match self.parameters.samples() {
                        Some(count) => Next::Samples(dssd::samples(&target, count, randomness)),
                        None => Next::Distribution(target.clone()),
                    };
                    self.edge_resamples = Some(target);
                    return Ok((accepted, next));
                }
            },
        };
        Ok((outcome.accepted, outcome.token.map_or(Next::Nothing, Next::Token)))
    }

    fn sends_samples(&self) -> bool {
        self.parameters.samples().is_some()
    }
}

/// Rounding leaves what is computed as a probability a little outside of [0, 1].
fn probability(value: f64) -> f32 {
    value.clamp(0.0, 1.0) as f32
}

impl Failure {
    fn invalid_draft(what: String) -> Self {
        Self::connection(ErrorCode::InvalidDraft, format!("Invalid draft: {what}."))
    }
}
