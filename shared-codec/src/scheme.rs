//! The uplink schemes: what a round of drafts sends to the cloud, and in which bits.
//!
//! Each scheme is a file of this folder, with its entry in the table ([`SchemeInfo`]) and the bits of a draft. The
//! three on a lattice can be coded in the papers' bits or by the [adaptive code](crate::adaptive), which learns.

mod c_sqs;
mod coupled;
mod dense;
mod dssd;
mod k_sqs;
mod layout;
mod on_lattice;
mod parameters;
mod qs;
#[cfg(test)]
mod tests;
mod tk_slt;

use self::layout::{Draft, FOREIGN, Payload};
use crate::{
    adaptive,
    bits::{BitReader, BitWriter},
    choice::Choice,
    choices,
    distribution::{DraftDist, DraftToken},
    error::{DecodeError, ParameterError},
    probabilities::DraftProbability,
    wire::{ByteReader, MAX_FRAME_BYTES, put_varint},
};

pub use layout::{Drafts, Keeps, SchemeInfo, Sends};
pub use parameters::{Code, Description, Downlink, DownlinkName, SchemeOptions, SchemeParameters};

/// The most bits a round's payload may have, so that its frame fits.
pub const MAX_PAYLOAD_BITS: usize = (MAX_FRAME_BYTES - 64) * 8;
/// Flag in a scheme's number on the wire: the code is adaptive.
const ADAPTIVE: u8 = 0x80;

choices! {
    /// The schemes, without their parameters.
    SchemeName: SchemeInfo {
        /// The whole distribution in f16.
        Dense = dense::INFO,
        /// The whole distribution on a lattice.
        Qs = qs::INFO,
        /// The K most likely tokens on a lattice.
        KSqs = k_sqs::INFO,
        /// The tokens above a threshold on a lattice.
        CSqs = c_sqs::INFO,
        /// The K most likely tokens in f16.
        TkSlt = tk_slt::INFO,
        /// The drafted token's probability; the edge resamples.
        Dssd = dssd::INFO,
        /// Ids alone; both ends choose with the same noise.
        Coupled = coupled::INFO,
    }
}

impl SchemeName {
    /// Returns the scheme with those of the options that it reads.
    pub fn with(self, options: SchemeOptions) -> SchemeParameters {
        (self.info().of)(options)
    }
}

impl SchemeInfo {
    /// Returns true if the scheme reads the option of this name.
    pub fn reads(&self, option: &str) -> bool {
        self.options.contains(&option)
    }
}

impl SchemeParameters {
    /// The scheme's entry in the table.
    pub fn info(&self) -> &'static SchemeInfo {
        let name = match self {
            Self::Dense => SchemeName::Dense,
            Self::Qs { .. } => SchemeName::Qs,
            Self::KSqs { .. } => SchemeName::KSqs,
            Self::CSqs { .. } => SchemeName::CSqs,
            Self::TkSlt { .. } => SchemeName::TkSlt,
            Self::Dssd { .. } => SchemeName::Dssd,
            Self::Coupled => SchemeName::Coupled,
        };
        name.info()
    }

    /// The scheme's name in options, JSON and the papers.
    pub fn name(&self) -> &'static str {
        self.info().name
    }

    /// The part of each draft that the cloud reads.
    pub fn sends(&self) -> Sends {
        self.info().sends
    }

    /// Returns true if the edge adapts a threshold that decides which tokens of a distribution are kept.
    pub fn has_threshold(&self) -> bool {
        self.info().keeps == Keeps::AboveThreshold
    }

    /// The lattice resolution ℓ, if distributions are quantized to a lattice.
    pub fn lattice_resolution(&self) -> Option<u32> {
        self.info().reads("latticeResolution").then(|| self.options().lattice_resolution)
    }

    /// The number of samples that follow a rejection, if the edge resamples from samples.
    pub fn samples(&self) -> Option<u8> {
        if let Downlink::Sampled(count) = self.options().downlink { Some(count) } else { None }
    }

    /// Appends the scheme's wire form: its number, then K, ℓ and the samples after a rejection, as far as it reads
    /// them.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (info, options) = (self.info(), self.options());
        out.push(if options.code == Code::Adaptive { info.number | ADAPTIVE } else { info.number });
        if info.reads("supportSize") {
            put_varint(out, options.support_size);
        }
        if info.reads("latticeResolution") {
            put_varint(out, options.lattice_resolution);
        }
        if info.reads("downlink") {
            out.push(self.samples().unwrap_or(0));
        }
    }

    /// Reads a scheme that [`put`](Self::put) wrote.
    pub(crate) fn take(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let kind = input.u8("scheme")?;
        let code = if kind & ADAPTIVE == 0 { Code::Enumerative } else { Code::Adaptive };
        let is_meant =
            |info: &SchemeInfo| info.number == kind & !ADAPTIVE && (code == Code::Enumerative || info.reads("code"));
        let info = SchemeName::ALL.iter().map(|name| name.info()).find(|info| is_meant(info));
        let info = info.ok_or(DecodeError::Value { field: "scheme", value: kind.into() })?;
        let mut options = SchemeOptions { code, ..Default::default() };
        if info.reads("supportSize") {
            options.support_size = input.varint("support size")?;
        }
        if info.reads("latticeResolution") {
            options.lattice_resolution = input.varint("lattice resolution")?;
        }
        if info.reads("downlink") {
            options.downlink = match input.u8("downlink samples")? {
                0 => Downlink::Full,
                samples => Downlink::Sampled(samples),
            };
        }
        Ok((info.of)(options))
    }
}

/// A scheme for one vocabulary, with the state that its code has learned. Both ends have one; given the same prompt,
/// payloads and verdicts, theirs are equal.
#[derive(Debug, Clone)]
pub struct Scheme(Payload);

impl Scheme {
    /// The scheme for a vocabulary of V, at the start of a generation.
    ///
    /// # Errors
    /// If a parameter is out of its range, or a single token would not fit into a frame.
    pub fn new(parameters: SchemeParameters, vocab_size: u32) -> Result<Self, ParameterError> {
        let payload = (parameters.info().payload)(parameters.options(), vocab_size)?;
        let scheme = Self(payload);
        match scheme.fixed_token_bits() {
            Some(bits) if bits as usize > MAX_PAYLOAD_BITS => {
                Err(ParameterError::TokenTooLong { bits, limit: MAX_PAYLOAD_BITS })
            }
            _ => Ok(scheme),
        }
    }

    /// Trains the code on the prompt, which both ends know.
    pub fn prime(&mut self, prompt: &[u32]) {
        if let Payload::Adaptive(code) = &mut self.0 {
            code.prime(prompt);
        }
    }

    /// Trains the code on the tokens that a verdict committed: the first `accepted` of a round's drafts and the token
    /// after them. Rejected drafts leave no trace.
    pub fn commit(&mut self, drafts: &Drafts, accepted: usize, token: Option<u32>) {
        if let (Payload::Adaptive(code), Drafts::Distributions(tokens)) = (&mut self.0, drafts) {
            code.commit(&tokens[..accepted], token);
        }
    }

    /// Bits of a drafted token, if all have the same number.
    pub fn fixed_token_bits(&self) -> Option<u32> {
        match &self.0 {
            Payload::Plain(layout) => layout.is_fixed().then(|| layout.token_bits(0)),
            Payload::Adaptive(_) => None,
        }
    }

    /// Returns true if a support of `k` ids takes too long to code, so that the whole vocabulary has to be kept
    /// instead.
    pub fn is_widened(&self, k: u32) -> bool {
        matches!(&self.0, Payload::Plain(layout) if layout.is_widened(k))
    }

    /// The K that a distribution quantized from `k` ids is coded with.
    pub fn support_size(&self, k: u32, dist: &DraftDist) -> u32 {
        match &self.0 {
            Payload::Plain(layout) => layout.support_size(k, dist),
            Payload::Adaptive(_) => dist.ids().len() as u32,
        }
    }

    /// An encoder of a round without drafts.
    pub fn round(&self) -> RoundEncoder {
        RoundEncoder(match &self.0 {
            Payload::Adaptive(code) => Bits::Adaptive(Box::new(code.round())),
            _ => Bits::Plain(BitWriter::new()),
        })
    }

    /// Encodes the payload of a round.
    ///
    /// # Errors
    /// If the drafts are not of this scheme or do not fit its parameters.
    pub fn encode_round(&self, drafts: &Drafts) -> Result<Vec<u8>, ParameterError> {
        let mut round = self.round();
        match drafts {
            Drafts::Distributions(tokens) => tokens.iter().try_for_each(|token| round.push(self, token))?,
            Drafts::Probabilities(tokens) => {
                tokens.iter().try_for_each(|token| round.push_probability(self, token))?;
            }
            Drafts::Ids(ids) => ids.iter().try_for_each(|&id| round.push_id(self, id))?,
        }
        Ok(round.finish().0)
    }

    /// Decodes `count` drafts that [`encode_round`](Self::encode_round) wrote.
    ///
    /// # Errors
    /// If the payload is not one of this scheme.
    pub fn decode_round(&self, payload: &[u8], count: u8) -> Result<Drafts, DecodeError> {
        let layout = match &self.0 {
            Payload::Adaptive(code) => return Ok(Drafts::Distributions(code.decode_round(payload, count)?)),
            Payload::Plain(layout) => layout,
        };
        let mut input = BitReader::new(payload);
        let drafts = layout.decode(&mut input, count)?;
        input.finish()?;
        Ok(drafts)
    }
}

/// An encoder of one round. Every call takes the [`Scheme`] that began it.
#[derive(Debug, Clone)]
pub struct RoundEncoder(Bits);

#[derive(Debug, Clone)]
enum Bits {
    Plain(BitWriter),
    Adaptive(Box<adaptive::RoundEncoder>),
}

impl RoundEncoder {
    /// Number of bits written so far.
    pub fn bits(&self) -> usize {
        match &self.0 {
            Bits::Plain(bits) => bits.len(),
            Bits::Adaptive(round) => round.bits(),
        }
    }

    /// Upper bound of the round's bits with one more token, for any token drawn from `dist`. It is known before the
    /// draw, so that a budget can end the round without influence on the drawn token.
    ///
    /// # Errors
    /// If the distribution does not fit the scheme.
    pub fn bound(&self, scheme: &Scheme, dist: &DraftDist, support_size: u32) -> Result<usize, ParameterError> {
        match (&self.0, &scheme.0) {
            (Bits::Adaptive(round), Payload::Adaptive(code)) => round.bound(code, dist),
            (Bits::Plain(bits), Payload::Plain(layout)) => Ok(bits.len() + layout.token_bits(support_size) as usize),
            _ => Err(FOREIGN),
        }
    }

    /// Appends a token: with its distribution, or with its probability where the scheme sends no more (DSSD).
    ///
    /// # Errors
    /// If the token does not fit the scheme.
    pub fn push(&mut self, scheme: &Scheme, token: &DraftToken) -> Result<(), ParameterError> {
        match (&mut self.0, &scheme.0) {
            (Bits::Adaptive(round), Payload::Adaptive(code)) => round.push(code, token),
            _ => self.put(scheme, Draft::Token(token)),
        }
    }

    /// Appends a token with its probability (DSSD).
    ///
    /// # Errors
    /// If the scheme is another, or the token does not fit it.
    pub fn push_probability(&mut self, scheme: &Scheme, token: &DraftProbability) -> Result<(), ParameterError> {
        self.put(scheme, Draft::Probability(token))
    }

    /// Appends a drafted id alone (coupled drafting).
    ///
    /// # Errors
    /// If the scheme is another, or the id is outside the vocabulary.
    pub fn push_id(&mut self, scheme: &Scheme, id: u32) -> Result<(), ParameterError> {
        self.put(scheme, Draft::Id(id))
    }

    fn put(&mut self, scheme: &Scheme, draft: Draft<'_>) -> Result<(), ParameterError> {
        match (&mut self.0, &scheme.0) {
            (Bits::Plain(out), Payload::Plain(layout)) => layout.encode(draft, out),
            _ => Err(FOREIGN),
        }
    }

    /// Ends the round and returns the payload and its number of bits, without the filling of the last byte. The
    /// adaptive code has no bits of its own below the byte.
    pub fn finish(self) -> (Vec<u8>, usize) {
        match self.0 {
            Bits::Plain(out) => {
                let bits = out.len();
                (out.into_bytes(), bits)
            }
            Bits::Adaptive(round) => {
                let bytes = round.finish();
                let bits = bytes.len() * 8;
                (bytes, bits)
            }
        }
    }
}
