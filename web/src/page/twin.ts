// An answer beside its twin, the text that the server writes alone with the same seed. No DOM.

import type { Statistics, Summary } from '../outrider/index.js';
import { formatCount, formatMilliseconds, formatNumber } from './format.js';
import { speedWords } from './gain.js';

/** The costs of a text so far, or of a whole one. */
export type Costs = Pick<Statistics, 'tokens' | 'elapsedMs' | 'firstTokenMs' | 'tokensPerSecond' | 'serverPasses'>;

/** The least share of the time that makes a difference in speed, and of passes that makes it a gain. */
const LEAST_SHARE = 0.05;

/** The least difference in milliseconds: less is the machine's, and is not seen. */
const LEAST_MS = 50;

/** Fewer tokens have no speed: their time is that of one pause. */
const FEW = 8;

/** The three numbers beside the chat, each with a line below it. */
export interface Gain {
  speed: [value: string, note: string];
  passes: [value: string, note: string];
  time: [value: string, note: string];
}

const noGain: Gain = {
  speed: ['–', 'while an answer is written'],
  passes: ['–', 'of the server’s work'],
  time: ['–', 'known after the twin'],
};

/**
 * Compares an answer with as many tokens of its twin. Times are whole, since tokens after the first may come in a burst,
 * less what the answer waited longer for its first token: the twin finds the prompt read.
 * Savings are negative where the answer took more. A text that saved hardly a pass cannot have become faster.
 */
function compare(answer: Costs, twin: Costs) {
  const aloneMs = (answer.tokens * twin.elapsedMs) / twin.tokens;
  const answerMs = answer.elapsedMs - Math.max(0, answer.firstTokenMs - twin.firstTokenMs);
  const [ratio, savedMs] = [aloneMs / answerMs, aloneMs - answerMs];
  // The twin's passes, and not its tokens: a server that drafts itself saves passes alone as well.
  const savedPasses = twin.serverPasses - answer.serverPasses;
  const isNoise = answer.tokens < FEW || Math.abs(ratio - 1) < LEAST_SHARE || Math.abs(savedMs) < LEAST_MS;
  const savesPasses = savedPasses >= LEAST_SHARE * answer.tokens;
  return { ratio, savedMs, savedPasses, savesPasses, isSame: isNoise || (ratio > 1 && !savesPasses) };
}

/**
 * Formats the gain of an answer over its twin.
 * @param answer costs of the answer so far; null before its first token
 * @param twin costs of the whole twin; null without one
 * @param isDue whether a twin is still to come
 */
export function gainOf(answer: Costs | null, twin: Costs | null = null, isDue = true): Gain {
  if (!answer?.tokens) return noGain;
  const { tokens, serverPasses: passes } = answer;
  const speed = formatNumber(answer.tokensPerSecond);
  if (!twin?.tokens) {
    return {
      speed: [speed, isDue ? 'now' : 'of this answer'],
      passes: ['–', `${passes} used for ${tokens} ${tokens === 1 ? 'token' : 'tokens'}`],
      time: ['–', isDue ? 'known after the twin' : 'not compared'],
    };
  }
  const { ratio, savedMs, savedPasses, isSame } = compare(answer, twin);
  return {
    speed: [speed, isSame ? 'as the server alone' : `${formatNumber(ratio)} × the server alone`],
    passes: [
      formatCount(Math.max(0, savedPasses)),
      savedPasses === 0 ? `${passes} like the twin` : `${passes} instead of ${twin.serverPasses}`,
    ],
    time: [isSame || savedMs < 0 ? '0 s' : formatMilliseconds(savedMs), timeNote(isSame, savedMs)],
  };
}

function timeNote(isSame: boolean, savedMs: number): string {
  if (isSame) return 'no difference';
  return savedMs < 0 ? `took ${formatMilliseconds(-savedMs)} more` : 'less to wait';
}

/**
 * Compares a text and its twin in a sentence: first the text, then the speed.
 * @param isAhead whether the draft ran ahead of the server, where both texts are the same by construction
 */
export function twinSentence(answer: Summary, twin: Summary, isAhead: boolean): string {
  const { ratio, savedPasses, savesPasses, isSame: isNoDifference } = compare(answer, twin);
  const length = Math.min(answer.tokenIds.length, twin.tokenIds.length);
  const isSame = answer.tokenIds.slice(0, length).every((id, position) => id === twin.tokenIds[position]);
  const text = isSame
    ? 'The same text, word for word.'
    : isAhead
      ? 'The two texts differ, which is expected only where the server’s engine makes its own random draws.'
      : 'Another text from the same distribution: in rounds a seed does not decide the text.';
  if (isNoDifference && savedPasses <= 0) return `${text} No pass was saved: the server wrote as fast without guesses.`;
  if (isNoDifference && !savesPasses) return `${text} Too few passes were saved to make a difference.`;
  return Number.isFinite(ratio) ? `${text} Drafting was ${speedWords(isNoDifference ? 1 : ratio)}.` : text;
}

/** The costs of an answer in a few words, for the line below it. */
export function costsOf({ finish, text, tokens, serverPasses, tokensPerSecond }: Summary): string {
  const count = (number: number, one: string, more: string): string =>
    `${formatCount(number)} ${number === 1 ? one : more}`;
  const parts = [`${count(tokens, 'token', 'tokens')} in ${count(serverPasses, 'pass', 'passes')}`];
  if (tokens > 0) parts.push(`${formatNumber(tokensPerSecond)} tokens/s`);
  const ends: Partial<Record<Summary['finish'], string>> = {
    cancelled: 'stopped',
    length: 'ended at the length limit',
    context: 'the context is full',
  };
  const end = ends[finish] ?? (text === '' ? 'the model ended without a text' : null);
  return [...parts, ...(end ? [end] : [])].join(' · ');
}
