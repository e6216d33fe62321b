//! Wire format of the channel to a proposer, version 1. All numbers are little-endian.
//!
//! Every message is its length in bytes as `u32`, followed by its bytes:
//!
//! | sender | bytes |
//! |---|---|
//! | the gateway, first | `OUTRIDER`, version `u16`, token length `u16`, token |
//! | the proposer, once | status `u8`, version `u16`, most guesses that it proposes at once `u16`, V `u32` or 0 |
//! | the gateway, any number | 1 `u8`, position `u32`, tail length `u8` = min(16, position), tail `u32` each, count `u8` from 1 to 32, ids `u32` each |

use outrider_speculation::session::cloud::{OFFER_TAIL, Offer};

use super::refusal::Refusal;

const MAGIC: &[u8; 8] = b"OUTRIDER";
/// Version that both ends must speak.
pub(super) const VERSION: u16 = 1;
const GUESS: u8 = 1;
/// Limit on the guesses of a message.
const MOST_IDS: usize = 32;
/// Length of an answer in bytes, with its length field.
pub(super) const ANSWER_BYTES: usize = 4 + 9;

/// Encodes the first message of the gateway.
pub(super) fn greeting(token: &[u8]) -> Vec<u8> {
    let length = u16::try_from(token.len()).unwrap_or(u16::MAX);
    let token = &token[..length.into()];
    message(&[MAGIC, &VERSION.to_le_bytes()[..], &length.to_le_bytes(), token].concat())
}

/// Decodes the proposer's answer. Returns the most guesses that it proposes at once.
///
/// # Errors
/// If the proposer refuses, or its answer is malformed or for another vocabulary than V = `vocab_size`.
pub(super) fn read_answer(bytes: &[u8; ANSWER_BYTES], vocab_size: u32) -> Result<u16, Refusal> {
    let [l0, l1, l2, l3, status, v0, v1, n0, n1, c0, c1, c2, c3] = *bytes;
    if u32::from_le_bytes([l0, l1, l2, l3]) as usize != ANSWER_BYTES - 4 {
        return Err(Refusal::NoProposer);
    }
    let version = u16::from_le_bytes([v0, v1]);
    match status {
        0 if version == VERSION => {}
        0 | 1 => return Err(Refusal::Version { theirs: version, ours: VERSION }),
        2 => return Err(Refusal::Token),
        3 => return Err(Refusal::Full),
        _ => return Err(Refusal::NoProposer),
    }
    let theirs = u32::from_le_bytes([c0, c1, c2, c3]);
    if theirs != 0 && theirs < vocab_size {
        return Err(Refusal::Vocabulary { theirs, ours: vocab_size });
    }
    Ok(u16::from_le_bytes([n0, n1]))
}

/// Encodes guesses, in several messages if they are many.
pub(super) fn guesses(offer: &Offer) -> Vec<u8> {
    let mut bytes = Vec::new();
    let known = [&offer.tail[..], &offer.ids].concat();
    for (ids, number) in offer.ids.chunks(MOST_IDS).zip(0..) {
        let before = number * MOST_IDS;
        let tail = &known[..offer.tail.len() + before];
        let tail = &tail[tail.len().saturating_sub(OFFER_TAIL)..];
        let position = u32::try_from(offer.position + before).unwrap_or(u32::MAX);
        let mut body = vec![GUESS];
        body.extend(position.to_le_bytes());
        for tokens in [tail, ids] {
            body.push(tokens.len() as u8);
            body.extend(tokens.iter().flat_map(|id| id.to_le_bytes()));
        }
        bytes.extend(message(&body));
    }
    bytes
}

fn message(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..], body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_channel_has_them() {
        assert_eq!(greeting(b"key"), b"\x0f\0\0\0OUTRIDER\x01\0\x03\0key");
        let offer = Offer { position: 2, tail: vec![7, 300], ids: vec![1] };
        let expected = [&[19u8, 0, 0, 0, 1][..], &[2, 0, 0, 0], &[2, 7, 0, 0, 0, 44, 1, 0, 0], &[1, 1, 0, 0, 0]];
        assert_eq!(guesses(&offer), expected.concat());
    }

    #[test]
    fn many_guesses_take_several_messages_each_behind_the_last() {
        let offer = Offer { position: 90, tail: (0..16).collect(), ids: (100..140).collect() };
        let second = Offer { position: 122, tail: (116..132).collect(), ids: (132..140).collect() };
        let bytes = guesses(&offer);
        assert!(bytes.ends_with(&guesses(&second)));
        let first = Offer { ids: (100..132).collect(), ..offer };
        assert_eq!(bytes.len(), guesses(&first).len() + guesses(&second).len());
        // If the text is short, the tail grows with the guesses.
        let short = Offer { position: 1, tail: vec![5], ids: (0..33).collect() };
        assert!(guesses(&short).ends_with(&guesses(&Offer { position: 33, tail: (16..32).collect(), ids: vec![32] })));
    }

    #[test]
    fn answers_are_welcomes_or_refusals() {
        let answer = |status: u8, version: u16, vocab: u32| {
            let body = [&[status][..], &version.to_le_bytes(), &8u16.to_le_bytes(), &vocab.to_le_bytes()].concat();
            read_answer(&message(&body).try_into().unwrap(), 100)
        };
        assert_eq!([answer(0, 1, 0), answer(0, 1, 100), answer(0, 1, 128)], [const { Ok(8) }; 3]);
        assert_eq!(answer(0, 1, 99), Err(Refusal::Vocabulary { theirs: 99, ours: 100 }));
        assert_eq!(answer(1, 2, 0), Err(Refusal::Version { theirs: 2, ours: 1 }));
        assert_eq!(answer(0, 2, 0), Err(Refusal::Version { theirs: 2, ours: 1 }));
        assert_eq!(
            [answer(2, 1, 0), answer(3, 1, 0), answer(9, 1, 0)],
            [Err(Refusal::Token), Err(Refusal::Full), Err(Refusal::NoProposer)]
        );
        assert_eq!(read_answer(b"HTTP/1.1 400 ", 100), Err(Refusal::NoProposer));
    }
}
