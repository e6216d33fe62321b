//! The edge's state machine between its driver, which may call it at odd moments, and a server whose frames are
//! changed, lost, doubled and made up on the way.

use core::time::Duration;

use arbitrary::{Result, Unstructured};
use outrider_codec::frame::{
    Distribution, Draft, ErrorCode, ErrorFrame, Evidence, Finish, Frame, Limits, MAX_DRAFT_TOKENS, Next, TargetDist,
    Ticket, Tokens, Verdict, Welcome,
};

use crate::{choose, pair::Pair, toy};

/// Runs generations against a server that lies now and then. The edge may refuse it, or believe it; it does not panic,
/// and keeps the laws of [`pair`](crate::pair).
pub fn check(bytes: &[u8]) {
    // Unstructured never runs out: where bytes end it goes on with zeros.
    let _ = play(&mut Unstructured::new(bytes));
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let mut pair = Pair::new(input)?;
    if choose::rarely(input, 8)? {
        disturb(&mut pair, input, 6)?;
    }
    pair.settle();
    assert!(pair.lied || pair.edge.is_idle(), "the handshake failed");
    for _ in 0..3 {
        if pair.start(input)? {
            let disturbances = input.int_in_range(0..=40)?;
            disturb(&mut pair, input, disturbances)?;
        }
        pair.settle();
        if pair.failed || input.is_empty() {
            break;
        }
    }
    Ok(())
}

fn disturb(pair: &mut Pair, input: &mut Unstructured<'_>, disturbances: u8) -> Result<()> {
    for _ in 0..disturbances {
        if pair.failed {
            break;
        }
        match input.int_in_range(0..=31u8)? {
            31 => pair.edge.cancel(),
            30 => pair.now += Duration::from_millis(input.arbitrary::<u16>()?.into()),
            28 | 29 => tamper(pair, input)?,
            27 => {
                let frame = made_up(pair, input)?;
                lie(pair, &frame.encode());
            }
            26 => {
                let length = input.int_in_range(0..=40)?;
                let bytes = input.bytes(length.min(input.len()))?;
                lie(pair, bytes);
            }
            25 => pair.odd = Some((toy::odd_row(input, pair.info.vocab_size)?, toy::odd_hidden(input)?)),
            24 => {
                // A row that the edge has not asked for.
                pair.lied = true;
                let (logits, hidden) = (pair.models[0].logits(&[]), pair.models[0].hidden(&[]));
                pair.note(|pair| pair.edge.handle_logits(&logits, &hidden, pair.now));
            }
            23 if choose::rarely(input, 4)? => {
                pair.lied = true;
                pair.edge.close();
            }
            22 if choose::rarely(input, 4)? => {
                pair.lied = true;
                pair.cloud.handle_failure("it failed");
            }
            other => drop(pair.step(other.into())),
        }
    }
    Ok(())
}

fn lie(pair: &mut Pair, bytes: &[u8]) {
    pair.lied = true;
    pair.deliver(bytes);
}

/// Changes the next frame on its way to the edge.
fn tamper(pair: &mut Pair, input: &mut Unstructured<'_>) -> Result<()> {
    while pair.queues[1].is_empty() && (0..4).any(|which| pair.step(which)) {}
    let [_, down] = &mut pair.queues;
    let Some(first) = down.pop_front() else { return Ok(()) };
    pair.lied = true;
    match input.int_in_range(0..=5u8)? {
        0 => {}
        1 => down.push_back(first),
        2 => down.extend([first.clone(), first]),
        3 => down.push_front(choose::mutated(input, first)?),
        _ => {
            // It may have been changed before.
            let Ok(frame) = Frame::decode(&first) else { return Ok(()) };
            down.push_front(changed(frame, pair.info.vocab_size, input)?.encode());
        }
    }
    Ok(())
}

/// An answer of the cloud's with another token, another length or another end.
fn changed(mut frame: Frame, vocab_size: u32, input: &mut Unstructured<'_>) -> Result<Frame> {
    let id = choose::one_of(input, &[vocab_size, 0, vocab_size - 1, u32::MAX])?;
    let which = input.int_in_range(0..=2u8)?;
    match &mut frame {
        Frame::Verdict(verdict) => match which {
            0 => verdict.accepted = (verdict.accepted + input.int_in_range(1..=9)?).min(MAX_DRAFT_TOKENS),
            1 => verdict.next = Next::Token(id),
            _ => verdict.finish = choose::one_of(input, &[None, Some(Finish::Eos), Some(Finish::Length)])?,
        },
        Frame::Tokens(tokens) => match which {
            0 => tokens.ids.push(id),
            1 => tokens.ids = vec![id],
            _ => tokens.finish = choose::one_of(input, &[None, Some(Finish::Eos), Some(Finish::Length)])?,
        },
        _ => {}
    }
    Ok(frame)
}

/// A frame that answers the round under way, or another one; with any content.
fn made_up(pair: &Pair, input: &mut Unstructured<'_>) -> Result<Frame> {
    let (vocab_size, context) = (pair.info.vocab_size, pair.info.limits.context_length);
    let sent = pair.run.as_ref().and_then(|run| run.draft.as_ref());
    let Draft { generation, round, count, .. } = sent.cloned().unwrap_or(Draft { generation: 1, ..Draft::default() });
    let round = if choose::rarely(input, 4)? { input.arbitrary()? } else { round };
    let generation = if choose::rarely(input, 8)? { choose::number(input, 3)?.max(1) } else { generation };
    let finish = choose::one_of(input, &[None, Some(Finish::Eos), Some(Finish::Length), Some(Finish::Context)])?;
    let most = if choose::rarely(input, 8)? { 64 } else { count };
    let accepted = input.int_in_range(0..=most)?;
    let id = choose::number(input, vocab_size - 1)?;
    Ok(match input.int_in_range(0..=15u8)? {
        0 => {
            let code = ErrorCode::from_number(input.arbitrary()?);
            Frame::Error(ErrorFrame { generation: generation - 1, code, text: String::new() })
        }
        1..=3 => {
            let length = pair.run.as_ref().map_or(0, |run| run.text().len() as u32);
            let position = if choose::rarely(input, 4)? { choose::number(input, length)? } else { length };
            Frame::Tokens(Tokens::one(generation, position, id, finish))
        }
        4 => Frame::Distribution(Distribution { generation, round, target: target(input, vocab_size)? }),
        5 | 6 => {
            let (index, target) = (input.int_in_range(0..=3)?, target(input, vocab_size)?);
            Frame::Evidence(Evidence { generation, round, index, rejection: 0.5, divergence: 0.25, target })
        }
        7 => Frame::Bye,
        8 => Frame::Cancel { generation },
        9 => Frame::Welcome(Welcome {
            vocab_size: vocab_size + input.int_in_range(0..=1)?,
            limits: Limits::rounds(choose::number(input, context)?, input.int_in_range(0..=64)?),
            eos_ids: choose::ids(input, 2, vocab_size)?,
            ticket: Ticket::default(),
            detached_seconds: 120,
            pass_micros: input.arbitrary()?,
        }),
        kind => {
            let next = match kind % 4 {
                0 => Next::Nothing,
                1 => Next::Token(id),
                2 => Next::Samples(vec![(id, probability(input)?)]),
                _ => Next::Distribution(target(input, vocab_size)?),
            };
            Frame::Verdict(Verdict { generation, round, accepted, next, finish })
        }
    })
}

/// A distribution with ids ascending, as frames have them; perhaps beyond the vocabulary.
fn target(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<TargetDist> {
    let mut ids = choose::ids(input, 4, vocab_size)?;
    ids.push(0);
    ids.retain(|&id| id < u32::MAX);
    ids.sort_unstable();
    ids.dedup();
    Ok(TargetDist(ids.into_iter().map(|id| Ok((id, probability(input)?))).collect::<Result<_>>()?))
}

/// A probability in (0, 1], at its ends now and then.
fn probability(input: &mut Unstructured<'_>) -> Result<f32> {
    Ok(match input.arbitrary::<u8>()? {
        0 => 1.0,
        255 => f32::from_bits(1),
        part => f32::from(part) / 256.0,
    })
}
