// What a generation cost. Written from the types of crate `speculation`; do not edit:
// OUTRIDER_WRITE_TABLES=1 cargo test --release -p outrider-speculation typescript

import type { AheadWay, ComparedScheme } from './schemes.js';

/** What a generation cost so far. Bits are per what the name says; ratios are zero while there is nothing to divide by. */
export interface Statistics {
  /** The acceptance rule; null where the server writes alone from the start. */
  rule: string | null;
  /** Its number; null where it has none. */
  ruleParameter: number | null;
  /** Whether the text may be distributed otherwise than the server's model would have it: by the rule or by a gate. */
  lossy: boolean;
  /** Tokens committed. */
  tokens: number;
  /** Of these, written here and never verified: those that a gate let pass. */
  passed: number;
  /** Of these, written by the server alone where that is faster: `adaptiveMode`. */
  streamed: number;
  /** From the start to the last token, in milliseconds. */
  elapsedMs: number;
  /** From the start to the first token, in milliseconds. */
  firstTokenMs: number;
  /** Tokens committed a second. */
  tokensPerSecond: number;
  /** Rounds with a verdict. */
  rounds: number;
  /** Drafts made, or guesses. */
  drafted: number;
  /** Drafts that were accepted; ahead of the server, guesses that were right, in time or not. */
  accepted: number;
  /** Drafts that the server decided on, or guesses at what it wrote; what is behind a wrong one does not count. */
  judged: number;
  /** `accepted / judged`: the papers' α. */
  acceptanceRate: number;
  /** `accepted / drafted`. */
  acceptedPerDrafted: number;
  /** Of these, guesses that the server had in time and found right, where it writes and drafts are made ahead of it. */
  inTime: number;
  /** Of these, guesses that were not the first at their position. */
  branched: number;
  /** Drafts of rounds in flight behind a rejected one: sent, and never verified. */
  wasted: number;
  /** Tokens sampled anew in place of a rejected draft. */
  resampled: number;
  /** `dssd`, `sampled`: how often the page could keep no sample and asked for all probabilities. */
  followUps: number;
  /** `dssd`: what a rejection brings down, follow-ups included; null while there was none. */
  downlinkBytesPerRejection: number | null;
  /** The probability that the support left out, mean over the committed tokens of the session's generations with the same `droppedMassTarget`, `stepSize` and `initialThreshold`; null for schemes other than `c-sqs`. */
  meanDroppedMass: number | null;
  /** What `meanDroppedMass` cannot exceed, by Theorem 2 of the SQS paper; null where that is 1 or more (with the defaults until the session has 1011 tokens), and for schemes other than `c-sqs`. */
  droppedMassBound: number | null;
  /** Bits sent to the server. */
  uplinkBits: number;
  /** Bits received from the server. */
  downlinkBits: number;
  /** Of the scheme's payload alone, which is what the papers count; frames and prompt excluded. */
  payloadBitsPerDraftedToken: number;
  /** With the frames around the payload. */
  uplinkBitsPerDraftedToken: number;
  /** Of all that was sent. */
  uplinkBitsPerToken: number;
  /** Of all that was received. */
  downlinkBitsPerToken: number;
  /** Forward passes of the target model. */
  serverPasses: number;
  /** Without drafts it is 1. */
  serverPassesPerToken: number;
  /** Of the last round, from the draft's first byte to the verdict's last. */
  roundTripMs: number;
  /** Time spent drafting. */
  draftMs: number;
  /** Tokens that a round commits: the accepted drafts and the one after them. */
  tokensPerRound: number;
  /** L: what a further draft costs, as a multiple of a round without any; null until rounds of different lengths tell. */
  costRatio: number | null;
  /** γ*: the best draft length for what was measured; null until that is known. */
  optimalDraftLength: number | null;
  /** Tokens per unit of time, as a multiple of the server alone, by the closed form; null without `adaptiveMode`. */
  predictedSpeedup: number | null;
  /** α by the closed form; null unless the server explains its verdicts. */
  predictedAcceptanceRate: number | null;
  /** How far the text's distribution is from that of the server's model, in total variation; null unless the server explains its verdicts. */
  divergence: number | null;
  /** What the page goes by where it drafts ahead of the server. */
  ahead?: AheadRecord;
}

/** What an edge goes by that drafts ahead of a text, and what came of it. Times are in milliseconds. */
export interface AheadRecord {
  /** The way that it writes in now. */
  way: AheadWay;
  /** Guesses in a frame. */
  group: number;
  /** How long a pass of the target waits for them. */
  patienceMs: number;
  /** How many guesses are worth their drafting, ahead of the text. */
  lead: number;
  /** The time of a pass of the target that judges nothing; not there until it is measured, as with the next ones. */
  passMs: number | null;
  /** The time of a draft. */
  draftMs: number | null;
  /** The link's round trip. */
  roundTripMs: number | null;
  /** The share of guesses behind right ones that is right, lately. */
  acceptanceRate: number;
  /** Whether second candidates are guessed, too. */
  branches: boolean;
  /** How often they are right. */
  secondRate: number;
  /** All ways, of which the fastest is kept; none where `groupSize` is given. */
  ways: WayRecord[];
}

/** A way to write a text that the target writes. */
export interface WayRecord {
  /** Its name. */
  name: AheadWay;
  /** What its plan promises, as a multiple of the target alone; not there until that is known. */
  promised: number | null;
  /** What it gave lately; not there before it was tried. */
  tokensPerSecond: number | null;
  /** Tokens over which that was measured. */
  measured: number;
}

/** One round: what was sent, what was accepted, what it cost. */
export interface RoundRecord {
  /** Its number within the generation, from 0 on. */
  round: number;
  /** The ids that were drafted. */
  drafted: number[];
  /** How many of them were accepted. */
  accepted: number;
  /** The token that followed them: resampled or bonus; not there if the round ended without. */
  token: number | null;
  /** Bits of the scheme's payload, without the frame's header and filling. */
  payloadBits: number;
  /** Bits of the Draft frame. */
  uplinkBits: number;
  /** Bits of the Verdict frame. */
  downlinkBits: number;
  /** Time from asking for the round's first forward pass to sending the frame, in milliseconds. */
  draftMs: number;
  /** Time from sending the frame to the verdict, in milliseconds; the target's pass is part of it. */
  roundTripMs: number;
  /** C-SQS's threshold β after the round; not there for other schemes. */
  threshold: number | null;
  /** Payload bits of the same drafts under each scheme; empty unless that is compared. */
  otherBits: Partial<Record<ComparedScheme, number>>;
}
