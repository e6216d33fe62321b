// Sentences of the page: errors, comparisons, states. No DOM.

import { OutriderError } from '../outrider/index.js';
import type { EngineInfo, Finish, Link, Summary } from '../outrider/index.js';
import { formatCount, formatMilliseconds, formatNumber, formatPercent } from './format.js';
import { speedWords } from './gain.js';

/**
 * An error as a sentence: the fault, and what to do about it.
 * @param tooLong the sentence for a prompt that is too long, where it is not the visitor's alone
 */
export function sentenceFor(error: unknown, tooLong?: string): string {
  if (!(error instanceof OutriderError)) {
    return `Something went wrong that should not have: ${error instanceof Error ? error.message : String(error)}.`;
  }
  switch (error.code) {
    case 'download-failed':
      return `The draft model could not be downloaded (${error.message}). Check its address and that its server is running, then try again.`;
    case 'origin-refused':
      return originRefusedSentence;
    case 'corrupt-model':
      return 'The draft model file is damaged. Reload the page to download it again; if that does not help, the file on the server needs replacing.';
    case 'unsupported-model':
      return `The draft model is of a kind this page cannot run (${error.message}). The server needs to offer another one.`;
    case 'corrupt-tokenizer':
      return 'The tokenizer file is damaged. Reload the page; if that does not help, the file on the server needs replacing.';
    case 'tokenizer-mismatch':
      return 'The draft model and the server do not use the same vocabulary, so drafts cannot be verified. The server needs to offer the draft that belongs to its model.';
    case 'corrupt-heads':
      return 'The file of trained heads is damaged. Reload the page; if that does not help, the file on the server needs replacing.';
    case 'heads-mismatch':
      return `The trained heads belong to another draft model (${error.message}). The server needs to offer those of its own.`;
    case 'wasm-failed':
      return `This browser could not start the draft engine, a WebAssembly module (${error.message}). Try a current version of Chrome, Edge, Firefox or Safari.`;
    case 'out-of-memory':
      return 'The draft model does not fit into the memory this browser allows. Close other tabs and reload the page.';
    case 'connection-failed':
      return 'The server could not be reached. Check that it is running, then try again.';
    case 'connection-lost':
      return 'The server went away in the middle of the session. Try again to connect.';
    case 'malformed':
    case 'out-of-order':
    case 'impossible-verdict':
      return `The server sent something that this page does not understand (${error.message}). Reload the page; if that does not help, page and server do not belong together.`;
    case 'incompatible-version':
      return 'This page and the server speak different versions of the protocol. Reload the page to get the version that fits.';
    case 'server-full':
      return 'The server is serving as many sessions as it can. Wait a moment, then try again.';
    case 'unauthorized':
      return 'This server requires an access token. Open the page with ?token= and the token that you were given.';
    case 'shutting-down':
      return 'The server is shutting down. Try again once it is back.';
    case 'idle':
      return 'The server ended the session because nothing happened for too long. Try again to connect.';
    case 'taken-over':
      return 'Another tab has taken over this text. Begin a new one in this tab.';
    case 'prompt-too-long':
      return tooLong ?? `The prompt is too long for the models (${error.message}). Shorten it and try again.`;
    case 'worker-crashed':
      return 'The draft engine crashed. Try again to start it.';
    case 'worker-unresponsive':
      return 'The draft engine did not stop in time and was shut down. Try again to start it.';
    case 'gpu-failed':
      return `The GPU cannot draft: ${error.message.replace(/\.$/, '')}.`;
    case 'invalid-option':
    case 'invalid-parameters':
      return `That is not possible: ${error.message.replace(/\.$/, '')}.`;
    default:
      return `That did not work: ${error.message.replace(/\.$/, '')} (${error.code}).`;
  }
}

/** The sentence for a conversation that fills the context window. */
export const fullChatSentence =
  'This message does not fit beside the conversation before it: shorten it, or begin a new chat.';

/** The sentence for a text that cannot begin. */
export const busySentence = 'Another text is being written. Stop it, then try again.';

/** The sentence for a server that refuses pages of this address. */
export const originRefusedSentence =
  'The server does not let pages of this address in. Its operator can, with --allow-origin and this address.';

/** The sentence for a page that opens without a network. */
export const offlineSentence =
  'You are offline, or the server is. Your chat is still here; it goes on once the server can be reached.';

/** The sentence for a page that opens without a network, and has a draft model of an earlier visit. */
export const awaySentence =
  'You are offline, or the server is. Your chat is still here, and the draft model goes on: its text is grey and unverified until the server can be reached.';

/** The page itself has cut its link, and a text failed. */
export const cutSentence = 'The link is cut. Press “Connect again” for the server to write.';

/** The state of a text whose server cannot be reached. */
export const reconnectingSentence = 'Offline: grey text is unverified. Connecting again';

/** The link beside the chat in words: what it is, and what to look for. */
export function linkSentence({ roundTripMs, isCut }: Link): string {
  if (isCut) return 'The draft model goes on, in grey. Connect again, and the server keeps what it agrees with.';
  if (roundTripMs === 0) return 'Nothing is slowed down. Grey words are guesses that the server has not confirmed yet.';
  return `Emulated: a round trip takes ${formatMilliseconds(roundTripMs)}. Grey words are on the screen before the server’s.`;
}

/** The title of guesses without a connection. */
export const unverified = 'Unverified: there is no connection to the server';

/** The engine in words, for the line about the draft. */
export function engineSentence({ engine, build, threads }: EngineInfo): string {
  if (engine === 'webgpu') return 'Engine: the GPU, by WebGPU';
  return `Engine: ${build}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
}

/** The end of a generation, for the status line. */
export function endSentence(summary: Summary): string {
  const count = `${summary.tokens} ${summary.tokens === 1 ? 'token' : 'tokens'}`;
  const reasons: Record<Finish, string> = {
    eos: `The text came to its end after ${count}`,
    length: `Done after ${count}`,
    context: `The context window is full after ${count}`,
    stop: `Stopped by a string of stop after ${count}`,
    cancelled: `Stopped after ${count}`,
  };
  const rate = summary.tokens > 0 ? `, ${formatNumber(summary.tokensPerSecond)} tokens/s` : '';
  return `${reasons[summary.finish]}${rate}.`;
}

/**
 * A comparison of the last two runs; null while one is missing.
 * @param isAhead whether the run drafted ahead of the server, without rounds
 */
export function comparisonSentence(
  speculative: Summary | null,
  cloudOnly: Summary | null,
  isAhead = false,
): string | null {
  if (!speculative || !cloudOnly) return null;
  const ratio = speculative.tokensPerSecond / cloudOnly.tokensPerSecond;
  if (!Number.isFinite(ratio) || ratio === 0) return null;
  if (isAhead && speculative.inTime === 0) return unaidedSentence(speculative, cloudOnly);
  const who = isAhead ? 'Drafting ahead' : 'Speculation';
  const passes = formatNumber(speculative.serverPassesPerToken);
  return `${who} was ${speedWords(ratio)}, with ${passes} server passes per token.`;
}

/** The sentence for a run in which no guess came in time. */
export function unaidedSentence(ahead: Summary, alone: Summary): string {
  const share = formatPercent(ahead.tokensPerSecond / alone.tokensPerSecond);
  return `No guess came in time, so the server wrote as it does alone (measured: ${share} of that speed).`;
}

/** A line chart in a sentence, for screen readers. */
export function chartSentence(
  title: string,
  values: readonly (number | null)[],
  format: (value: number) => string,
): string {
  const numbers = values.filter((value) => value !== null && Number.isFinite(value)) as number[];
  const last = numbers.at(-1);
  if (last === undefined) return `${title}: nothing yet.`;
  const range = `from ${format(Math.min(...numbers))} to ${format(Math.max(...numbers))}`;
  const rounds = `${values.length} ${values.length === 1 ? 'round' : 'rounds'}`;
  return `${title} over ${rounds}: ${range}, last ${format(last)}.`;
}

/** The drafts that the comparison of the schemes is based on; `rounds` counts those with drafts. */
export function draftsSentence(
  label: string,
  drafted: number,
  rounds: number,
  answers: number,
  gate = 'none',
  stopRule = 'fixed',
): string {
  if (drafted === 0 && gate !== 'none') {
    return `${label}: nothing was drafted under ${gate}.`;
  }
  if (drafted === 0 && stopRule === 'bild') {
    return `${label}: nothing was drafted, the draft model was never sure enough for bild.`;
  }
  if (drafted === 0) {
    // A round or two may have had no room for drafts; more of them have had no budget.
    return answers < 3
      ? `${label}: nothing drafted yet.`
      : `${label}: nothing is drafted, because one draft costs more than the bit budget. Raise the budget, or set it to 0.`;
  }
  const count = `${formatCount(drafted)} ${drafted === 1 ? 'draft' : 'drafts'}`;
  const each = `${formatNumber(drafted / rounds)} a round`;
  return `${count} of ${label}, ${each}. What the other schemes would have sent for the same drafts is computed here.`;
}

/** The reason why drafting ahead of the server has no comparison of schemes. */
export const aheadCostsSentence =
  'Ahead of the server a guess is sent as its token alone, a few at a time. Choose a scheme of rounds, such as K-SQS, to see what its drafts cost and what those of the other schemes would have.';

/** The basis of the prediction, or what it lacks. */
export function predictionSentence(run: {
  isAloneKnown: boolean;
  hasGate: boolean;
  isPipelined: boolean;
  isAdaptive: boolean;
  isAhead: boolean;
}): string {
  if (!run.isAloneKnown) {
    return 'Run Cloud only once on this link to compare: the speed-up is over its tokens per second.';
  }
  if (run.isAhead) {
    return 'Ahead of the server there are no rounds, so that the speed-up is measured only.';
  }
  if (run.hasGate) {
    return 'Passed tokens are outside of the closed form, so that the speed-up is measured only.';
  }
  if (run.isPipelined) {
    return 'Rounds that are in flight together share their times, so that the speed-up is measured only.';
  }
  if (run.isAdaptive) {
    return 'Predicted is drafting on its own, which AS² decides by (Zheng and Yang, eqs. 11 and 12); measured is the text with what the server wrote alone.';
  }
  return 'Predicted: the tokens of a round by the closed form, times the server’s own time for a token, over the time of a round (Zheng and Yang, eqs. 11 and 12).';
}
