// What a generation cost. Written from the types of crate `speculation`; do not edit:
// OUTRIDER_WRITE_TABLES=1 cargo test --release -p outrider-speculation typescript

import type { AheadWay, ComparedScheme } from './schemes.js';

/** Costs of a generation so far. Bits are per what the name says; ratios are zero while there is nothing to divide by. */
export interface Statistics {
  /** The acceptance rule; null where the server writes alone from the start. */
  rule: string | null;
  /** Its number; null where it has none. */
  ruleParameter: number | null;
  /** True if the text may be distributed otherwise than the server's model would have it: by the rule or by a gate. */
  lossy: boolean;
  /** Number of committed tokens. */
  tokens: number;
  /** Tokens among these that were written here and never verified, because a gate let them pass. */
  passed: number;
  /** Tokens among these that the server wrote alone, where that is faster: `adaptiveMode`. */
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
  /** Drafts that the server decided on, or guesses at what it wrote; those after a wrong one do not count. */
  judged: number;
  /** `accepted / judged`: the papers' α. */
  acceptanceRate: number;
  /** `accepted / drafted`. */
  acceptedPerDrafted: number;
  /** Guesses among these that the server had in time and found right, where drafts are made ahead of its text. */
  inTime: number;
  /** Guesses among these that were not the first at their position. */
  branched: number;
  /** Drafts of rounds in flight after a rejected one: sent, and never verified. */
  wasted: number;
  /** Tokens that were resampled in place of a rejected draft. */
  resampled: number;
  /** `dssd`, `sampled`: how often the page could keep no sample and asked for all probabilities. */
  followUps: number;
  /** `dssd`: what a rejection brings down, follow-ups included; null while there was none. */
  downlinkBytesPerRejection: number | null;
  /** The probability that the support left out, mean over the committed tokens of the session's generations with the same `droppedMassTarget`, `stepSize` and `initialThreshold`; null for schemes other than `c-sqs`. */
  meanDroppedMass: number | null;
  /** Bound on `meanDroppedMass` by Theorem 2 of the SQS paper; null where that is 1 or more (with the defaults until the session has 1011 tokens), and for schemes other than `c-sqs`. */
  droppedMassBound: number | null;
  /** Bits sent to the server. */
  uplinkBits: number;
  /** Bits received from the server. */
  downlinkBits: number;
  /** Bits of the scheme's payload alone, which the papers count; frames and prompt excluded. */
  payloadBitsPerDraftedToken: number;
  /** Bits of the payload and the frames around it. */
  uplinkBitsPerDraftedToken: number;
  /** All bits that were sent. */
  uplinkBitsPerToken: number;
  /** All bits that were received. */
  downlinkBitsPerToken: number;
  /** Forward passes of the target model. */
  serverPasses: number;
  /** Without drafts it is 1. */
  serverPassesPerToken: number;
  /** Time of the last round, from the draft's first byte to the verdict's last. */
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
  /** Distance of the text's distribution from that of the server's model, in total variation; null unless the server explains its verdicts. */
  divergence: number | null;
  /** Plan and measurements of drafting ahead of the server. */
  ahead?: AheadRecord;
}

/** Plan and measurements of an edge that drafts ahead of a text. Times are in milliseconds. */
export interface AheadRecord {
  /** The way in which the text is written now. */
  way: AheadWay;
  /** Number of guesses in a frame. */
  group: number;
  /** Longest wait of a pass of the target for guesses. */
  patienceMs: number;
  /** Largest number of guesses ahead of the text that are worth their time. */
  lead: number;
  /** The time of a pass of the target that judges nothing; not there until it is measured, as with the next ones. */
  passMs: number | null;
  /** The time of a draft. */
  draftMs: number | null;
  /** The link's round trip. */
  roundTripMs: number | null;
  /** The share of right guesses among those after right ones, lately. */
  acceptanceRate: number;
  /** True if second candidates are guessed, too. */
  branches: boolean;
  /** The share of second candidates that is right. */
  secondRate: number;
  /** All ways, of which the fastest is kept; none where `groupSize` is given. */
  ways: WayRecord[];
}

/** A way to write a text that the target writes. */
export interface WayRecord {
  /** The name of the way. */
  name: AheadWay;
  /** Speed that its plan promises, as a multiple of the target alone; not there until that is known. */
  promised: number | null;
  /** Speed that it had lately; not there before it was tried. */
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
  /** Number of drafts that were accepted. */
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
