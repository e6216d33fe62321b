//! Costs of a round's drafts under other schemes: computed beside the real one, never sent.
//!
//! Most schemes cost the same for every token. Two depend on what is drafted and are run for it: C-SQS with a threshold
//! of its own, and K-SQS under the adaptive code with a model of its own. Both see the verdicts as the real one does.

use outrider_codec::{
    choice::Choice,
    distribution::{DistError, DraftToken},
    scheme::{Code, Downlink, Drafts, RoundEncoder, Scheme, SchemeName, SchemeOptions, SchemeParameters},
};

use crate::{
    draft::{
        self, Proposal,
        conformal::{Conformal, ThresholdParameters},
    },
    sample::Distribution,
};

/// The parameters of the schemes that are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComparisonParameters {
    /// K, the number of tokens kept.
    pub support_size: u32,
    /// ℓ, the lattice resolution.
    pub lattice_resolution: u32,
    /// The parameters of C-SQS's threshold.
    pub threshold: ThresholdParameters,
}

/// The running costs of one generation.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    /// Bits per token of the schemes where all cost the same.
    fixed: Vec<(&'static str, u32)>,
    c_sqs: Option<Trial>,
    threshold: Conformal,
    adaptive: Option<Trial>,
    drafted: usize,
}

/// A scheme that is run to see what it costs.
#[derive(Debug, Clone)]
struct Trial {
    name: &'static str,
    parameters: SchemeParameters,
    scheme: Scheme,
    round: RoundEncoder,
    tokens: Vec<DraftToken>,
}

impl Comparison {
    /// Comparison for a vocabulary of V, at the start of a generation, with C-SQS's threshold as an `earlier` one left
    /// it. Schemes that cannot be used with these parameters are left out.
    pub(crate) fn new(
        with: ComparisonParameters,
        vocab_size: u32,
        prompt: &[u32],
        earlier: Option<&Conformal>,
    ) -> Self {
        let ComparisonParameters { support_size, lattice_resolution, threshold } = with;
        let (code, downlink) = (Code::Enumerative, Downlink::Full);
        let options = SchemeOptions { support_size, lattice_resolution, code, downlink };
        let bits = |name: &SchemeName| {
            let scheme = Scheme::new(name.with(options), vocab_size).ok()?;
            Some((name.name(), scheme.fixed_token_bits()?))
        };
        let adaptive = SchemeParameters::KSqs { support_size, lattice_resolution, code: Code::Adaptive };
        let c_sqs = SchemeParameters::CSqs { lattice_resolution, code: Code::Enumerative };
        Self {
            fixed: SchemeName::ALL.iter().filter_map(bits).collect(),
            c_sqs: Trial::new("c-sqs", c_sqs, vocab_size, prompt),
            threshold: Conformal::after(earlier, threshold),
            adaptive: Trial::new("k-sqs/adaptive", adaptive, vocab_size, prompt),
            drafted: 0,
        }
    }

    /// Returns the threshold of C-SQS.
    pub(crate) fn into_threshold(self) -> Conformal {
        self.threshold
    }

    /// True while the last verdict's bonus token waits for [`bonus`](Self::bonus).
    pub(crate) fn owes(&self) -> bool {
        self.threshold.owes()
    }

    /// Counts the bonus token, whose distribution S(q) is `q`.
    ///
    /// # Errors
    /// If `q` has no mass.
    pub(crate) fn bonus(&mut self, q: &Distribution<'_>) -> Result<(), DistError> {
        if let Some(trial) = self.c_sqs.as_ref().filter(|_| self.threshold.owes()) {
            self.threshold.bonus(trial.propose(q, self.threshold.threshold())?.dropped_mass);
        }
        Ok(())
    }

    /// Notes that the round ended before a token from `q`.
    ///
    /// # Errors
    /// If `q` has no mass.
    pub(crate) fn declined(&mut self, q: &Distribution<'_>) -> Result<(), DistError> {
        if let Some(trial) = &self.c_sqs {
            self.threshold.declined(trial.propose(q, self.threshold.threshold())?.dropped_mass);
        }
        Ok(())
    }

    /// Counts the token `id`, which was drafted from `q`.
    ///
    /// # Errors
    /// If `q` has no mass.
    pub(crate) fn drafted(&mut self, q: &Distribution<'_>, id: u32) -> Result<(), DistError> {
        self.drafted += 1;
        if let Some(trial) = &mut self.c_sqs {
            let proposal = trial.propose(q, self.threshold.threshold())?;
            self.threshold.drafted(proposal.dropped_mass);
            trial.push(proposal, id);
        }
        if let Some(trial) = &mut self.adaptive {
            let proposal = trial.propose(q, 0.0)?;
            trial.push(proposal, id);
        }
        Ok(())
    }

    /// Counts the token `id` from `q`, which was committed without being sent.
    ///
    /// # Errors
    /// If `q` has no mass.
    pub(crate) fn passed(&mut self, q: &Distribution<'_>, id: u32) -> Result<(), DistError> {
        if let Some(trial) = &self.c_sqs {
            self.threshold.passed(trial.propose(q, self.threshold.threshold())?.dropped_mass);
        }
        self.read(id);
        Ok(())
    }

    /// The target wrote a token alone.
    pub(crate) fn streamed(&mut self, id: u32) {
        self.threshold.forgive();
        self.read(id);
    }

    fn read(&mut self, id: u32) {
        for trial in self.c_sqs.iter_mut().chain(&mut self.adaptive) {
            trial.scheme.prime(&[id]);
            trial.round = trial.scheme.round();
        }
    }

    /// Ends the round and gives each scheme's payload bits for it.
    pub(crate) fn settle(&mut self, accepted: usize, token: Option<u32>) -> Vec<(&'static str, usize)> {
        self.threshold.verdict(accepted, token.is_some());
        let drafted = std::mem::take(&mut self.drafted);
        let fixed = self.fixed.iter().map(|&(name, bits)| (name, bits as usize * drafted));
        let trials = self.c_sqs.iter_mut().chain(&mut self.adaptive).map(|trial| trial.settle(accepted, token));
        fixed.chain(trials).collect()
    }
}

impl Trial {
    fn new(name: &'static str, parameters: SchemeParameters, vocab_size: u32, prompt: &[u32]) -> Option<Self> {
        let mut scheme = Scheme::new(parameters, vocab_size).ok()?;
        scheme.prime(prompt);
        Some(Self { name, parameters, round: scheme.round(), scheme, tokens: Vec::new() })
    }

    fn propose(&self, q: &Distribution<'_>, threshold: f64) -> Result<Proposal, DistError> {
        draft::propose(q, self.parameters, &self.scheme, threshold)
    }

    fn push(&mut self, proposal: Proposal, id: u32) {
        let Proposal { dist, support_size, .. } = proposal;
        // A token that this scheme could not have drafted counts as its most likely one.
        let most_likely =
            dist.ids().iter().zip(dist.counts()).max_by_key(|&(_, count)| count).map_or(id, |(&id, _)| id);
        let id = if dist.count(id) > 0 { id } else { most_likely };
        let token = DraftToken { id, dist, support_size };
        // What was proposed by the scheme fits it.
        if self.round.push(&self.scheme, &token).is_ok() {
            self.tokens.push(token);
        }
    }

    fn settle(&mut self, accepted: usize, token: Option<u32>) -> (&'static str, usize) {
        let (_, bits) = std::mem::replace(&mut self.round, self.scheme.round()).finish();
        let drafts = Drafts::Distributions(std::mem::take(&mut self.tokens));
        self.scheme.commit(&drafts, accepted.min(drafts.len()), token);
        self.round = self.scheme.round();
        (self.name, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{PLAIN, logits};

    #[test]
    fn the_costs_are_those_of_the_schemes() {
        let with = ComparisonParameters {
            support_size: 32,
            lattice_resolution: 100,
            threshold: ThresholdParameters { target: 0.0, step: 0.1, initial: 0.49 },
        };
        let mut comparison = Comparison::new(with, 4096, &[0], None);
        let mut q = vec![0.0; 4096];
        (q[7], q[9], q[300]) = (0.5, 0.25, 0.25);
        let row = logits(&q);
        let q = Distribution::new(&row, &PLAIN).unwrap();
        comparison.drafted(&q, 7).unwrap();
        comparison.drafted(&q, 300).unwrap();
        let bits = comparison.settle(1, Some(9));
        let of = |name| bits.iter().find(|row| row.0 == name).unwrap().1;
        assert_eq!(bits.len(), 8);
        assert_eq!((of("dense"), of("coupled")), (2 * (65536 + 12), 24));
        assert_eq!((of("tk-slt"), of("dssd")), (2 * (32 * 28 + 5), 2 * 53));
        assert_eq!((of("k-sqs"), of("qs")), (2 * 372, 2 * 689));
        // β = 0.49 keeps one token: K, support, no counts, no index. β = 0.44 keeps the same.
        assert_eq!(of("c-sqs"), 2 * (12 + 12));
        assert!(of("k-sqs/adaptive") < of("k-sqs"));
        assert!(!comparison.owes());
    }
}
