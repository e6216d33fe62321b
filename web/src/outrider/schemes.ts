import type { Scheme } from './choices.js';

/** A scheme whose drafts are verified round by round. */
export type RoundScheme = Exclude<Scheme, 'auto' | 'ahead'>;

/** A row of the cost comparison: each scheme of rounds with the papers' code, and K-SQS also with the adaptive code. */
export type ComparedScheme = RoundScheme | 'k-sqs/adaptive';

/**
 * A mode of drafting ahead: no guesses; guesses that no pass waits for; passes that wait for the first guess after a
 * wrong one; both ends in turn.
 */
export type AheadWay = 'alone' | 'at once' | 'patient' | 'in turn';
