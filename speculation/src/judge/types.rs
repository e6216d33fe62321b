//! A round to be judged and its judgement, as values.
//!
//! Every judge that knows the target's distribution gives the same [`Judgement`] of a [`Round`]:
//! [`judge`](super::judge) in `verify.rs` from rows of logits, a device from the logits in its memory, a gateway from
//! an engine's answers.

use outrider_codec::{
    choices,
    frame::{SamplingParameters, TargetDist},
    scheme::{Description, Drafts, SchemeParameters, Sends},
};

use crate::{
    control::calibration::Clarity,
    judge::rules::{Rule, Statistic},
    sample::{End, Randomness, SharedNoise},
};

choices! {
    /// The way that the accepted drafts of a round are chosen. Both give a text of the same distribution.
    #[derive(Default)]
    Verification: Description {
        /// One draft after the other, up to the first rejected one.
        Token = Description {
            name: "token",
            label: "Token by token",
            travels: "one draft after the other, up to the first rejected one, as in the papers.",
            source: "Leviathan et al. 2023; Chen et al. 2023",
            options: &[],
        },
        /// The drafts of a round together.
        #[default]
        Block = Description {
            name: "block",
            label: "As a block",
            travels: "the drafts together, of which at least as many are accepted on average; where no draft \
                      distribution is sent and under the rules bild and oracle-diff, token by token.",
            source: "Sun et al. 2024, Block Verification Accelerates Speculative Decoding",
            options: &[],
        },
    }
}

/// Drafts to be judged, with all that the judgement depends on besides the target's logits.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Parameters of the sampling transform S(·).
    pub sampling: SamplingParameters,
    /// The rule by which drafts are accepted.
    pub rule: Rule,
    /// The way that the accepted drafts are chosen.
    pub verification: Verification,
    /// Uplink scheme; `None` where the target writes the text alone.
    pub scheme: Option<SchemeParameters>,
    /// Drafts in order; none where the target writes one token.
    pub drafts: Drafts,
    /// Alternatives to drafts, or guesses after the last one; only where drafts are ids.
    pub branches: Vec<Branch>,
    /// Statistics that the rule needs, one a draft; none if it needs none.
    pub statistics: Vec<Statistic>,
    /// True if another round goes on from the last draft, so that no bonus token follows it.
    pub continued: bool,
    /// True if the drafts are guesses ahead of the text. A judge that sees the text arrive may judge some of them; the
    /// next pass judges the others.
    pub is_guessed: bool,
    /// True if the edge receives the distributions that the drafts were judged by.
    pub evidence: bool,
    /// True to learn how clear the choice of the next token is, under the shared noise.
    pub wants_clarity: bool,
    /// Length of the text before the round, which is the position of its first draft.
    pub position: usize,
    /// Random draws of the cloud, from the first of this round on.
    pub randomness: Randomness,
    /// Noise of coupled drafting.
    pub noise: SharedNoise,
}

/// Guesses in place of those of a line from a position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The line that it leaves: 0 for the drafts of the round, n for its n-th branch, which comes before it.
    pub parent: usize,
    /// Number of guesses of that line before its first.
    pub from: usize,
    /// Guesses in order, at least one.
    pub ids: Vec<u32>,
}

/// The number of accepted drafts, and the token that follows them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    /// Number of drafts in the accepted prefix.
    pub accepted: usize,
    /// The line that they are of: 0 for the drafts of the round, n for its n-th branch.
    pub branch: usize,
    /// The token that follows the accepted drafts.
    pub next: NextToken,
    /// The distributions by which the accepted drafts and the first rejected one were judged, if evidence is wanted.
    pub judged: Vec<Judged>,
    /// Clarity of the choice of the next token, if the round wants it and the judge knows it.
    pub clarity: Option<Clarity>,
}

/// The token after the accepted drafts, or what the edge is to draw it from.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum NextToken {
    /// No token: all drafts are accepted, and there is no bonus token.
    #[default]
    Nothing,
    /// A replacement for the rejected draft, or the bonus token.
    Token(u32),
    /// DSSD: a token that the edge draws from norm(max(0, P − q̂)).
    Residual {
        /// P at the rejected draft.
        target: TargetDist,
        /// Independent samples of it with their probabilities, as many as the downlink wants.
        samples: Vec<(u32, f32)>,
    },
}

/// The distribution by which a draft was judged, with its distance from q̂.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Probability that a draft is rejected here, before it is drawn; 0 where the cloud does not have q̂.
    pub rejection: f64,
    /// Total variation between the distribution of the token committed here and p; 0 where the cloud does not have q̂.
    pub divergence: f64,
    /// p, the target's distribution.
    pub target: TargetDist,
}

/// Error of a judgement that cannot be one of the round that it was handed in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JudgementError {
    /// More drafts are accepted than there are, or drafts of a branch that does not exist.
    #[error("{accepted} of {drafts} drafts were accepted")]
    Accepted {
        /// Drafts that were accepted.
        accepted: usize,
        /// Drafts of the round.
        drafts: usize,
    },
    /// A token is outside the vocabulary.
    #[error("token {id} is outside the vocabulary of {vocab_size}")]
    Token {
        /// The id outside of the vocabulary.
        id: u32,
        /// V, the size of the vocabulary.
        vocab_size: u32,
    },
    /// A distribution's ids do not ascend, or its probabilities are not above zero.
    #[error("what was judged by is no distribution")]
    Distribution,
    /// The token that follows, or the lack of one, does not fit scheme, rule and outcome.
    #[error("what follows {accepted} of {drafts} drafts does not fit the round")]
    Next {
        /// Drafts that were accepted.
        accepted: usize,
        /// Drafts of the round.
        drafts: usize,
    },
    /// There is more or less evidence than is wanted.
    #[error("{found} drafts come with evidence instead of {expected}")]
    Evidence {
        /// Drafts that come with it.
        found: usize,
        /// Drafts that should come with it.
        expected: usize,
    },
}

impl Round {
    /// Guesses at a text that the shared noise makes, after `position` tokens of it.
    pub fn ahead(sampling: SamplingParameters, seed: u64, position: usize, guesses: Vec<u32>) -> Self {
        let (scheme, drafts) = (Some(SchemeParameters::Coupled), Drafts::Ids(guesses));
        Self { scheme, drafts, is_guessed: true, ..Self::alone(sampling, seed, position) }
    }

    /// A guess at the token after a text of `position` tokens, which the shared noise makes.
    pub fn guess(sampling: SamplingParameters, seed: u64, position: usize) -> Self {
        Self { wants_clarity: true, ..Self::ahead(sampling, seed, position, Vec::new()) }
    }

    /// A token that the target writes alone, after a text of `position` tokens.
    pub fn alone(sampling: SamplingParameters, seed: u64, position: usize) -> Self {
        let mut randomness = Randomness::new(seed, End::Cloud);
        randomness.begin_round(position);
        Self {
            sampling,
            rule: Rule::EXACT,
            verification: Verification::Token,
            scheme: None,
            drafts: Drafts::Distributions(Vec::new()),
            branches: Vec::new(),
            statistics: Vec::new(),
            continued: false,
            is_guessed: false,
            evidence: false,
            wants_clarity: false,
            position,
            randomness,
            noise: SharedNoise::new(seed),
        }
    }

    /// True if a token of the target follows where all drafts are accepted.
    pub(crate) fn has_bonus(&self) -> bool {
        self.drafts.is_empty() || self.rule.info().has_bonus && !self.continued
    }

    /// True if the drafts are judged together: [block verification](Verification::Block) is asked for, q̂ is known, and
    /// the rule accepts by a ratio.
    pub fn is_block(&self) -> bool {
        self.verification == Verification::Block
            && self.rule.info().has_ratio
            && matches!(self.drafts, Drafts::Distributions(_))
    }

    /// Number of rows of logits that judge the round: after the text, and after each draft but the last unless a bonus
    /// token follows it.
    pub fn rows(&self) -> usize {
        self.drafts.len() + usize::from(self.has_bonus())
    }

    /// True if the edge draws the token that replaces a rejected draft.
    fn edge_resamples(&self) -> bool {
        matches!(self.drafts, Drafts::Probabilities(_))
    }

    /// Number of samples of P that come down with a rejection.
    pub(super) fn samples(&self) -> usize {
        self.scheme.and_then(|scheme| scheme.samples()).map_or(0, usize::from)
    }

    /// True if both ends choose with the shared noise of the position.
    pub(super) fn is_coupled(&self) -> bool {
        self.scheme.is_some_and(|scheme| scheme.sends() == Sends::Ids)
    }

    /// The judgement that accepts a prefix, where `token` is all that is known of the target after it.
    pub fn settle(&self, accepted: usize, token: u32) -> Judgement {
        let rejects = accepted < self.drafts.len();
        let next = if rejects && self.edge_resamples() {
            let certain = (token, 1.0);
            NextToken::Residual { target: TargetDist(vec![certain]), samples: vec![certain; self.samples()] }
        } else if rejects || self.has_bonus() {
            NextToken::Token(token)
        } else {
            NextToken::Nothing
        };
        Judgement { accepted, next, ..Judgement::default() }
    }

    /// Checks a judgement that was handed in for this round.
    ///
    /// # Errors
    /// If no logits could have led to it.
    pub(crate) fn check(&self, judgement: &Judgement, vocab_size: u32) -> Result<(), JudgementError> {
        let accepted = judgement.accepted;
        let drafts = match judgement.branch {
            0 => self.drafts.len(),
            branch if branch <= self.branches.len() => self.line(branch).len(),
            _ => 0,
        };
        if accepted > drafts || judgement.branch > self.branches.len() {
            return Err(JudgementError::Accepted { accepted, drafts });
        }
        let rejects = accepted < drafts;
        let within = |id: u32| {
            if id < vocab_size { Ok(()) } else { Err(JudgementError::Token { id, vocab_size }) }
        };
        let distributed = |TargetDist(tokens): &TargetDist| {
            let is_sorted = !tokens.is_empty() && tokens.is_sorted_by(|a, b| a.0 < b.0);
            let is_positive = tokens.iter().all(|&(_, p)| p > 0.0 && p.is_finite());
            if !is_sorted || !is_positive {
                return Err(JudgementError::Distribution);
            }
            tokens.iter().try_for_each(|&(id, _)| within(id))
        };
        let fits = match &judgement.next {
            NextToken::Nothing => !rejects && !self.has_bonus(),
            NextToken::Token(id) => {
                within(*id)?;
                if rejects { !self.edge_resamples() } else { self.has_bonus() }
            }
            NextToken::Residual { target, samples } => {
                distributed(target)?;
                samples.iter().try_for_each(|&(id, _)| within(id))?;
                rejects && self.edge_resamples() && samples.len() == self.samples()
            }
        };
        if !fits {
            return Err(JudgementError::Next { accepted, drafts });
        }
        let expected = if self.evidence { drafts.min(accepted + 1) } else { 0 };
        if judgement.judged.len() != expected {
            return Err(JudgementError::Evidence { found: judgement.judged.len(), expected });
        }
        judgement.judged.iter().try_for_each(|judged| distributed(&judged.target))
    }
}
