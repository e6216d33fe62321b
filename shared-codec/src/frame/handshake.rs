//! The edge's first frame, in either of its two forms, and the cloud's answer.

use super::{
    fields::{put_ids, take_ids},
    limits::Limits,
};
use crate::{
    error::DecodeError,
    wire::{ByteReader, put_varint},
};

/// The protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u16 = 8;
/// Numbers of rows of the passes whose times a [`Welcome`] has.
pub const PASS_ROWS: [u8; 5] = [1, 2, 4, 8, 16];
const MAGIC: [u8; 4] = *b"OUTR";

/// The edge's first frame. Its first seven bytes keep their meaning in every version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Size of the draft model's vocabulary, V.
    pub vocab_size: u32,
    /// SHA-256 of the tokenizer's vocabulary; without the same on both ends there is no session.
    pub tokenizer_hash: [u8; 32],
}

/// The cloud's answer to a [`Hello`] that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Size of the target model's vocabulary, V.
    pub vocab_size: u32,
    /// The server's limits for the session.
    pub limits: Limits,
    /// Ids that end a text when committed.
    pub eos_ids: Vec<u32>,
    /// The name and secret that the session is resumed with.
    pub ticket: Ticket,
    /// The time that the session is kept once its connection is gone, in seconds.
    pub detached_seconds: u32,
    /// Microseconds of a forward pass of each of [`PASS_ROWS`], as measured lately; all 0 where nothing is known.
    pub pass_micros: [u32; PASS_ROWS.len()],
}

/// The name of a session, and the secret that lets its holder resume it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticket {
    /// The session's name; 128 random bits.
    pub id: [u8; 16],
    /// The secret that lets its holder resume the session; 128 random bits.
    pub secret: [u8; 16],
}

/// Leaves the secret out, since printed values end in logs.
impl core::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Ticket({:032x})", u128::from_be_bytes(self.id))
    }
}

/// The edge's first frame when it resumes a session. Its first seven bytes are laid out as those of a [`Hello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// The ticket from the session's [`Welcome`].
    pub ticket: Ticket,
    /// Number of the attempt to resume the session: 1, 2, …. One that comes late does not take the session from
    /// a later one.
    pub attempt: u32,
    /// The last generation that the edge began; 0 if none.
    pub generation: u32,
    /// Number of its tokens that the edge has, prompt included.
    pub length: u32,
}

impl Hello {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_opening(out);
        out.extend(self.vocab_size.to_le_bytes());
        out.extend(self.tokenizer_hash);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        take_opening(input)?;
        Ok(Self { vocab_size: input.u32("vocabulary size")?, tokenizer_hash: input.array("tokenizer hash")? })
    }
}

impl Welcome {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(PROTOCOL_VERSION.to_le_bytes());
        out.extend(self.vocab_size.to_le_bytes());
        self.limits.encode(out);
        put_ids(out, &self.eos_ids);
        self.ticket.encode(out);
        put_varint(out, self.detached_seconds);
        self.pass_micros.iter().for_each(|&micros| put_varint(out, micros));
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        take_version(input)?;
        let mut welcome = Self {
            vocab_size: input.u32("vocabulary size")?,
            limits: Limits::decode(input)?,
            eos_ids: take_ids(input, "end-of-text ids")?,
            ticket: Ticket::decode(input)?,
            detached_seconds: input.varint("detached lifetime")?,
            pass_micros: [0; PASS_ROWS.len()],
        };
        for micros in &mut welcome.pass_micros {
            *micros = input.varint("pass time")?;
        }
        Ok(welcome)
    }
}

impl Resume {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_opening(out);
        self.ticket.encode(out);
        put_varint(out, self.attempt);
        put_varint(out, self.generation);
        put_varint(out, self.length);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        take_opening(input)?;
        Ok(Self {
            ticket: Ticket::decode(input)?,
            attempt: input.varint("attempt")?,
            generation: input.varint("generation")?,
            length: input.varint("length")?,
        })
    }
}

impl Ticket {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.id);
        out.extend(self.secret);
    }

    fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { id: input.array("session id")?, secret: input.array("session secret")? })
    }
}

/// The first bytes of the edge after the frame's kind; the same in every version.
fn put_opening(out: &mut Vec<u8>) {
    out.extend(MAGIC);
    out.extend(PROTOCOL_VERSION.to_le_bytes());
}

fn take_opening(input: &mut ByteReader<'_>) -> Result<(), DecodeError> {
    if input.array("magic")? != MAGIC {
        return Err(DecodeError::NotOutrider);
    }
    take_version(input)
}

fn take_version(input: &mut ByteReader<'_>) -> Result<(), DecodeError> {
    let found = input.u16("version")?;
    if found == PROTOCOL_VERSION { Ok(()) } else { Err(DecodeError::Version { found, ours: PROTOCOL_VERSION }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, tests::TICKET};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn another_protocol_or_version_is_named() {
        assert_eq!(Frame::decode(b"\x01HTTP"), Err(DecodeError::NotOutrider));
        assert_eq!(Frame::decode(b"\x08HTTP"), Err(DecodeError::NotOutrider));
        let version = |found| Err(DecodeError::Version { found, ours: PROTOCOL_VERSION });
        assert_eq!(Frame::decode(b"\x08OUTR\x03\x00"), version(3));
        assert_eq!(Frame::decode(b"\x01OUTR\x09\x00"), version(9));
    }

    /// The reader of a log must not be able to go on with a session.
    #[test]
    fn a_secret_is_not_printed() {
        let printed = format!("{:?}", Frame::Resume(Resume { ticket: TICKET, attempt: 1, generation: 1, length: 2 }));
        let is_hidden = !printed.contains("254") && !printed.contains("fe");
        assert!(printed.contains("Ticket(01010101") && is_hidden, "{printed}");
    }
}
