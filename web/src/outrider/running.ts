import { HOTTEST, LONGEST_STOP, MOST_STOPS } from './api-limits.js';
import type { GenerateRequest, LineEvent, Link, Round, SessionInfo, Statistics, Summary } from './edge.js';
import { OutriderError, revive } from './errors.js';
import type { FromWorker } from './messages.js';
import { Generation } from './generation.js';
import type { ConnectionEvent } from './load-options.js';
import { willBeAhead } from './policies.js';
import type { ServerAlone } from './server-alone.js';
import { joined } from './server-text.js';

/** A generation that has not ended. */
export interface Running {
  id: number;
  request: GenerateRequest;
  generation: Generation;
  /** True once the worker, or the server alone, has the request. */
  sent: boolean;
  /** True while the server writes alone. */
  isAlone: boolean;
  /** True once the draft model joins what the server has begun alone. */
  joins: boolean;
  /** Totals of the server alone from `started` on, if the draft model has joined since. */
  before: { summary: Summary; started: number } | null;
  stopped: boolean;
  /** True from a loss of the connection that was reported until its return is. */
  isLost: boolean;
  /** Ends the generation where the server writes alone. */
  abort: AbortController;
  /** Terminates a worker that does not end the generation. */
  graceTimer?: ReturnType<typeof setTimeout>;
}

/** Generations that have not ended, the oldest first. */
export class RunningGenerations implements Iterable<Running> {
  #all: Running[] = [];
  #lastId = 0;

  /** Adds a generation; `stop` is called with its id when it is to stop. */
  add(request: GenerateRequest, stop: (id: number) => void): Running {
    const id = ++this.#lastId;
    const generation = new Generation(request, () => stop(id));
    const abort = new AbortController();
    const running = {
      ...{ id, request, generation, sent: false, stopped: false, isAlone: false, joins: false, before: null },
      ...{ abort, isLost: false },
    };
    this.#all.push(running);
    return running;
  }

  find(id: number): Running | undefined {
    return this.#all.find((running) => running.id === id);
  }

  /** Removes a generation and settles it; does nothing if it has been removed before. */
  end(id: number, settle: (generation: Generation, running: Running) => void): void {
    const running = this.find(id);
    if (!running) return;
    clearTimeout(running.graceTimer);
    // First, so that code that is woken by the settling can generate again.
    this.#all = this.#all.filter((other) => other !== running);
    settle(running.generation, running);
  }

  /** Takes a message of the worker. */
  receive(message: Extract<FromWorker, { type: 'round' | 'guess' | 'done' | 'failed' }>): void {
    const { id } = message;
    if (message.type === 'round') addRound(this.find(id), message.round);
    else if (message.type === 'guess') this.find(id)?.generation.guess(message.guess);
    else if (message.type === 'failed') this.end(id, (generation) => generation.fail(revive(message.error)));
    else this.end(id, (generation, running) => generation.finish(totals(running, message.summary)));
  }

  /** Follows the connection of a generation, and reports its changes. */
  follow(id: number, event: LineEvent, report: (change: ConnectionEvent) => void): void {
    const running = this.find(id);
    const wasLost = running?.isLost ?? false;
    if (running) running.isLost = event.state === 'reconnecting';
    if (event.state !== 'reconnecting') running?.generation.hold(event.claim);
    if (event.state !== 'begun') callSafely(() => report(event));
    // The draft model goes on with a text whose connection the server alone has lost.
    else if (wasLost) callSafely(() => report({ ...event, state: 'resumed', anew: true }));
  }

  /** Cuts the connections of those that the server writes alone. */
  cut(): void {
    for (const { isAlone, abort } of this.#all) if (isAlone) abort.abort(cutError());
  }

  /** Iterates over those of now, also while they end. */
  [Symbol.iterator](): Iterator<Running> {
    return [...this.#all].values();
  }
}

/** Stops a generation when its caller's signal is aborted. */
export function stopWith(generation: Generation, signal: AbortSignal): void {
  const stop = (): void => generation.stop();
  signal.addEventListener('abort', stop, { once: true });
  const forget = (): void => signal.removeEventListener('abort', stop);
  generation.summary.then(forget, forget);
  if (signal.aborted) generation.stop();
}

/** Ends what the server writes alone, for the draft model to join it there. */
export function join(running: Running): void {
  if (!running.isAlone) return;
  running.joins = true;
  running.abort.abort();
}

/** True if the draft model is to continue what the server has written alone: a text without an end. */
export function goesOn({ joins, stopped, generation }: Running, { finish, tokenIds }: Summary): boolean {
  return joins && !stopped && finish === 'cancelled' && tokenIds.length < generation.maxNewTokens;
}

/** Adds a round of the worker's. Its statistics then count from the text's beginning. */
function addRound(running: Running | undefined, round: Round): void {
  running?.generation.add({ ...round, statistics: totals(running, round.statistics) });
}

/** The worker's statistics together with those of the server alone before it. */
function totals<S extends Statistics>({ before }: Running, statistics: S): S {
  return before ? joined(before.summary, before.started, statistics) : statistics;
}

/** True for a text that the server writes alone as well as with drafts, token for token. */
export function isServersText(request: GenerateRequest, session: Pick<SessionInfo, 'maxGuesses'>): boolean {
  const { rule, gate, mode, evidence, compareSchemes } = request;
  const isCoupled = mode === 'cloud-only' || willBeAhead(request, session);
  const isTaken = reasonAgainstAlone(request) === null;
  return isCoupled && rule === 'exact' && gate === 'none' && !evidence && !compareSchemes && isTaken;
}

/** The option whose value the server's API does not take, with the reason; null if it takes the request. */
function reasonAgainstAlone({ temperature, stop }: GenerateRequest): { option: string; reason: string } | null {
  const longest = Math.max(0, ...stop.map((text) => new TextEncoder().encode(text).length));
  const limits = [
    ['temperature', 'temperature must be at most', HOTTEST, '', temperature],
    ['stop', 'stop must have at most', MOST_STOPS, ' strings', stop.length],
    ['stop', 'strings of stop must have at most', LONGEST_STOP, ' bytes', longest],
  ] as const;
  for (const [option, rule, most, unit, given] of limits) {
    if (given > most) return { option, reason: `${rule} ${most}${unit}, not ${given}` };
  }
  return null;
}

/** True for a link without limits, emulated ones. */
export function isOpen(link: Link): boolean {
  const { uplinkBitsPerSecond, downlinkBitsPerSecond, roundTripMs, isCut } = link;
  return uplinkBitsPerSecond === null && downlinkBitsPerSecond === null && roundTripMs === 0 && !isCut;
}

/** The error of texts whose link the page itself cuts. */
export function cutError(): OutriderError {
  return new OutriderError('connection-lost', 'the emulated link is cut');
}

/**
 * Lets the server write alone, until the draft model joins or the connection is `lost` for good.
 * @throws {@link OutriderError} `no-draft` for options that only a draft model takes; as {@link ServerAlone.generate}
 */
export async function writeAlone(
  running: Running,
  alone: ServerAlone,
  onLine: (event: LineEvent) => void,
): Promise<{ summary: Summary; lost: OutriderError | null }> {
  const { generation, request, abort } = running;
  const refused = reasonAgainstAlone(request);
  if (refused) throw new OutriderError('no-draft', `without a draft model ${refused.reason}`, refused);
  const started = performance.now();
  let lost: OutriderError | null = null;
  const onLost = (error: OutriderError): void => {
    lost = error;
    abort.abort();
  };
  running.sent = running.isAlone = true;
  const summary = await alone.generate(request, (round) => generation.add(round), abort.signal, onLost, onLine);
  running.sent = running.isAlone = false;
  running.before = { summary, started };
  return { summary, lost };
}

/** Calls a function of the page's; what it throws is the page's as well. */
export function callSafely(callback: () => void): void {
  try {
    callback();
  } catch (error) {
    reportError(error);
  }
}
