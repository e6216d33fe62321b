//! The bytes that name frames and layouts, for the encoder and the decoder.

pub(super) const HELLO: u8 = 0x01;
pub(super) const PROMPT: u8 = 0x02;
pub(super) const GENERATE: u8 = 0x03;
pub(super) const DRAFT: u8 = 0x04;
pub(super) const CANCEL: u8 = 0x05;
pub(super) const RESUME: u8 = 0x08;
pub(super) const GUESSES: u8 = 0x09;
pub(super) const BYE: u8 = 0x0f;
pub(super) const WELCOME: u8 = 0x81;
pub(super) const RESAMPLE: u8 = 0x06;
/// A Draft with passed tokens, or one that asks the target to write alone.
pub(super) const LONG_DRAFT: u8 = 0x07;
/// In the kind of a Draft: it is one of several in flight.
pub(super) const IN_FLIGHT: u8 = 0x10;
/// In the number of its epoch, twice: others follow it.
pub(super) const CONTINUED: u32 = 1;
/// In the flags of a Welcome: the cloud chooses tokens by draws of its own.
pub(super) const OWN_DRAWS: u8 = 0x01;
/// In the flags of a Welcome: its operator asks for the fewest forward passes.
pub(super) const FEWEST_PASSES: u8 = 0x02;
pub(super) const VERDICT: u8 = 0x84;
pub(super) const DISTRIBUTION: u8 = 0x85;
pub(super) const TOKENS: u8 = 0x86;
/// In the flags of Tokens: the drafts that the pass judged were the cloud's own.
pub(super) const OWN_DRAFTS: u8 = 0x10;
pub(super) const EVIDENCE: u8 = 0x87;
pub(super) const ERROR: u8 = 0x8e;
pub(super) const MAGIC: [u8; 4] = *b"OUTR";
/// Layouts of a [`TargetDist`].
pub(super) const SPARSE: u8 = 0;
pub(super) const DENSE_TARGET: u8 = 1;
/// In the count of a Draft: a resampled token precedes the payload.
pub(super) const HAS_RESAMPLED: u8 = 0x80;
/// In the number of a rule: the edge asks for evidence.
pub(super) const WANTS_EVIDENCE: u8 = 0x80;
/// In the count of a frame of guesses: its chain begins as a branch.
pub(super) const IS_BRANCH: u8 = 0x80;
