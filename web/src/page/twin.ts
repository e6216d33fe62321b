// An answer beside its twin, the text that the server writes alone with the same seed. No DOM.

import type { Round, Summary } from '../outrider/index.js';
import { formatCount, formatMilliseconds, formatNumber } from './format.js';
import { speedWords } from './gain.js';

/** The speed and the passes of a text while it is written. */
export class TextTimes {
  #first: { tokens: number; elapsedMs: number } | null = null;
  #tokens = 0;
  #elapsedMs = 0;
  #passes = 0;

  add({ statistics: { tokens, elapsedMs, serverPasses } }: Pick<Round, 'statistics'>): void {
    if (tokens === 0) return;
    this.#first ??= { tokens, elapsedMs };
    [this.#tokens, this.#elapsedMs, this.#passes] = [tokens, elapsedMs, serverPasses];
  }

  /**
   * Tokens per second after the first ones; NaN before. The first ones are left out, since the text that comes second
   * does not wait for the prompt to be read.
   */
  get tokensPerSecond(): number {
    const { tokens = 0, elapsedMs = 0 } = this.#first ?? {};
    const milliseconds = this.#elapsedMs - elapsedMs;
    return milliseconds > 0 ? (1000 * (this.#tokens - tokens)) / milliseconds : Number.NaN;
  }

  /** Forward passes of the server. */
  get passes(): number {
    return this.#passes;
  }

  get tokens(): number {
    return this.#tokens;
  }
}

/** The share of passes that must be saved before a difference in speed is called a gain. */
const LEAST_SHARE = 0.05;

/** The three numbers beside the chat, each with a line below it. */
export interface Gain {
  speed: [value: string, note: string];
  passes: [value: string, note: string];
  time: [value: string, note: string];
}

/** Formats the gain of an answer over its twin, which may not have ended or begun. */
export function gainOf(answer: TextTimes, twin: TextTimes, twinEnded: boolean): Gain {
  const [speed, alone] = [answer.tokensPerSecond, twinEnded ? twin.tokensPerSecond : Number.NaN];
  const ratio = speed / alone;
  // The twin's passes, and not its tokens: a server that drafts itself saves passes alone as well.
  const saved = twin.passes - answer.passes;
  const savedMs = 1000 * answer.tokens * (1 / alone - 1 / speed);
  const isSame = isNoDifference(ratio, saved, answer.tokens);
  const waits = 'known after the twin';
  return {
    speed: [
      formatNumber(speed),
      Number.isFinite(ratio) ? (isSame ? 'as the server alone' : `${formatNumber(ratio)} × the server alone`) : 'now',
    ],
    passes: [twinEnded ? formatCount(Math.max(0, saved)) : '–', passesNote(answer, twin, twinEnded)],
    time: [
      Number.isFinite(savedMs) ? (isSame || savedMs < 0 ? '0 s' : formatMilliseconds(savedMs)) : '–',
      Number.isFinite(savedMs) ? timeNote(isSame, savedMs) : waits,
    ],
  };
}

/** Decides whether a ratio of speeds is noise. A text that saved hardly a pass cannot have become faster. */
function isNoDifference(ratio: number, saved: number, tokens: number): boolean {
  return Math.abs(ratio - 1) < 0.05 || (ratio > 1 && saved < LEAST_SHARE * tokens);
}

function passesNote(answer: TextTimes, twin: TextTimes, twinEnded: boolean): string {
  if (answer.tokens === 0) return 'of the server’s work';
  if (!twinEnded) return `${answer.passes} used for ${answer.tokens} tokens`;
  return answer.passes === twin.passes ? `${twin.passes} like the twin` : `${answer.passes} instead of ${twin.passes}`;
}

function timeNote(isSame: boolean, savedMs: number): string {
  if (isSame) return 'no difference';
  return savedMs < 0 ? `took ${formatMilliseconds(-savedMs)} more` : 'less to wait';
}

/**
 * Compares a text and its twin in a sentence: first the text, then the speed.
 * @param isAhead whether the draft ran ahead of the server, where both texts are the same by construction
 */
export function twinSentence(answer: Summary, twin: Summary, ratio: number, isAhead: boolean): string {
  const saved = twin.serverPasses - answer.serverPasses;
  const length = Math.min(answer.tokenIds.length, twin.tokenIds.length);
  const isSame = answer.tokenIds.slice(0, length).every((id, position) => id === twin.tokenIds[position]);
  const text = isSame
    ? 'The same text, word for word.'
    : isAhead
      ? 'The two texts differ, which is expected only where the server’s engine makes its own random draws.'
      : 'Another text from the same distribution: in rounds a seed does not decide the text.';
  if (!(ratio <= 0.95)) {
    if (saved <= 0) return `${text} No pass was saved: the server wrote as fast without guesses.`;
    if (saved < LEAST_SHARE * answer.tokens) return `${text} Too few passes were saved to make a difference.`;
  }
  const speed = Number.isFinite(ratio) ? ` Drafting was ${speedWords(ratio)}.` : '';
  return `${text}${speed}`;
}

/** The costs of an answer in a few words, for the line below it. */
export function costsOf({ finish, tokens, serverPasses }: Summary, times: TextTimes): string {
  const count = (number: number, one: string, more: string): string =>
    `${formatCount(number)} ${number === 1 ? one : more}`;
  const parts = [`${count(tokens, 'token', 'tokens')} in ${count(serverPasses, 'pass', 'passes')}`];
  if (Number.isFinite(times.tokensPerSecond)) parts.push(`${formatNumber(times.tokensPerSecond)} tokens/s`);
  const ends: Partial<Record<Summary['finish'], string>> = {
    cancelled: 'stopped',
    length: 'ended at the length limit',
    context: 'the context is full',
  };
  const end = ends[finish];
  return [...parts, ...(end ? [end] : [])].join(' · ');
}
