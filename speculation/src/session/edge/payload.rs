//! The payload of a round as it grows: the statistics that the rule needs, then the drafts in the scheme's code.

use outrider_codec::{
    distribution::DraftToken,
    error::ParameterError,
    frame::SamplingParameters,
    scheme::{Drafts, RoundEncoder, Scheme},
};

use super::{error::EdgeError, settings::Speculation};
use crate::{draft::Proposal, judge::unscaled::Transport, sample::Distribution};

/// Writes the payloads of a generation's rounds, one after the other.
#[derive(Debug, Clone)]
pub(super) struct PayloadWriter {
    scheme: Scheme,
    encoder: RoundEncoder,
    /// Encoding of the statistics that the rule needs, and those of the round.
    transport: Transport,
    statistics: Vec<u8>,
}

impl PayloadWriter {
    /// A writer for the rounds after a prompt.
    pub(super) fn new(
        speculation: &Speculation,
        sampling: &SamplingParameters,
        vocab_size: u32,
        prompt: &[u32],
    ) -> Result<Self, ParameterError> {
        let mut scheme = Scheme::new(speculation.scheme, vocab_size)?;
        scheme.prime(prompt);
        let transport = Transport::new(&speculation.rule, sampling, speculation.scheme, vocab_size);
        Ok(Self { encoder: scheme.round(), scheme, transport, statistics: Vec::new() })
    }

    pub(super) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// True if statistics of q travel beside q̂.
    pub(super) fn sends_statistics(&self) -> bool {
        self.transport.sends()
    }

    /// Number of further drafts that a budget has room for, if that is known before their distributions.
    pub(super) fn room(&self, budget: usize) -> Option<usize> {
        budget.saturating_sub(self.bits()).checked_div(self.scheme.fixed_token_bits()? as usize)
    }

    /// True if any token of a proposal would fit a budget.
    pub(super) fn fits(&self, proposal: &Proposal, budget: usize) -> Result<bool, EdgeError> {
        let bound = self.encoder.bound(&self.scheme, &proposal.dist, proposal.support_size);
        let bits = bound.map_err(EdgeError::Encode)? + self.statistics.len() * 8 + self.transport.bits(&proposal.dist);
        Ok(bits <= budget)
    }

    /// Appends a draft from `q`.
    pub(super) fn push(&mut self, q: &Distribution<'_>, token: &DraftToken) -> Result<(), EdgeError> {
        self.transport.put(&mut self.statistics, q, &token.dist);
        self.encoder.push(&self.scheme, token).map_err(EdgeError::Encode)
    }

    /// Appends a draft of which the id alone is sent.
    pub(super) fn push_id(&mut self, id: u32) -> Result<(), EdgeError> {
        self.encoder.push_id(&self.scheme, id).map_err(EdgeError::Encode)
    }

    /// The round's payload and its bits.
    pub(super) fn finish(&self) -> (Vec<u8>, usize) {
        let (codes, bits) = self.encoder.clone().finish();
        ([&self.statistics[..], &codes].concat(), self.statistics.len() * 8 + bits)
    }

    /// Ends the round: `accepted` of its drafts are committed, then `token`. What was drafted without a distribution is
    /// no part of it.
    pub(super) fn settle(&mut self, drafts: Vec<DraftToken>, accepted: usize, token: Option<u32>) {
        let drafts = Drafts::Distributions(drafts);
        if accepted <= drafts.len() {
            self.scheme.commit(&drafts, accepted, token);
        }
        self.statistics.clear();
        self.encoder = self.scheme.round();
    }

    /// A token was committed that was not in a round.
    pub(super) fn read(&mut self, token: u32) {
        self.scheme.prime(&[token]);
        self.encoder = self.scheme.round();
    }

    fn bits(&self) -> usize {
        self.statistics.len() * 8 + self.encoder.bits()
    }
}
