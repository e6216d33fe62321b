// Runs a generation and shows it while it is written.

import { willBeAhead } from '../outrider/index.js';
import type { Choices, GenerateOptions, Generation, Guess, Link, Mode } from '../outrider/index.js';
import type { NumberOption, Outrider, Prompt, Round, Summary } from '../outrider/index.js';
import type { BreakEvenView } from './break-even-view.js';
import { carriedOn } from './carried.js';
import type { CountersView } from './counters-view.js';
import type { RunChoices } from './counters.js';
import { element } from './elements.js';
import { showGuarantee } from './guarantee-view.js';
import type { PictureView } from './picture-view.js';
import { defaultPolicies, guaranteeOf, optionsFrom } from './policies.js';
import type { ChosenPolicies } from './policies.js';
import type { PredictionView } from './prediction-view.js';
import { sameLink } from './prediction.js';
import type { RunsView } from './runs-view.js';
import { busySentence, cutSentence, endSentence, sentenceFor } from './sentences.js';
import { Paced } from './paced.js';
import { complain, remark, report, setFinish, setState, withdraw } from './stage.js';
import { forget, keep } from './suspended.js';
import type { Kept } from './suspended.js';
import type { TextView } from './text-view.js';
import type { TimelineView } from './timeline-view.js';
import type { UplinkView } from './uplink-view.js';

/** The settings of a run. */
export interface Task {
  prompt: Prompt;
  mode: Mode;
  values: Partial<Record<NumberOption, number>>;
  choices: Choices;
  /** The policies; null for the server alone. */
  policies: ChosenPolicies | null;
  /** Computes what other schemes would have cost, where there are rounds. */
  compares: boolean;
  /** Asks for the server's probabilities of each draft, which costs bytes. */
  evidence?: boolean;
  /** The sentence for a prompt that is too long, if it is another than the form's. */
  tooLong?: string;
  /** Compares and remembers the run; true if not given. */
  counts?: boolean;
}

/** The views that show a run. */
export interface Showing {
  text: TextView;
  counters: CountersView;
  uplink: UplinkView;
  prediction: PredictionView;
  picture: PictureView;
  timeline: TimelineView;
  runs: RunsView;
  breakEven: BreakEvenView;
}

/** Time without a round after which the page says that it waits for the server. */
const PATIENCE_MS = 8_000;

/** Least time between two drawings: one for each token would take a core that the models need. */
const DRAW_EVERY_MS = 80;

/** Runs one generation at a time. */
export class Runner {
  readonly #showing: Showing;
  readonly #link: () => Link;
  #generation: Generation | null = null;
  #hasText = false;
  /** Counts changes of the link. */
  #changes = 0;
  #continuation: string | null = null;

  /** @param link the link as it is now */
  constructor(showing: Showing, link: () => Link) {
    this.#showing = showing;
    this.#link = link;
  }

  get isRunning(): boolean {
    return this.#generation !== null;
  }

  /** True while the page itself cuts its link. */
  get isCut(): boolean {
    return this.#link().isCut;
  }

  /** The number of changes of the link so far. */
  get changes(): number {
    return this.#changes;
  }

  /** True once there is a text with its guarantee. */
  get hasText(): boolean {
    return this.#hasText;
  }

  /** The last text with its prompt, which another can go on from; null for a conversation, or where a text failed. */
  get continuation(): string | null {
    return this.#continuation;
  }

  stop(): void {
    this.#generation?.stop();
  }

  /** Notes that the link has changed, or was lost. */
  linkChanged(): void {
    this.#changes += 1;
  }

  /**
   * Runs a task in all views.
   * @param before a generation to resume instead of a new one
   * @param onGuess takes the guesses after the confirmed text, or null
   * @returns null if it failed
   */
  async run(
    outrider: Outrider,
    task: Task,
    onRound: (round: Round) => void = () => {},
    before: Kept | null = null,
    onGuess: (guess: Guess | null) => void = () => {},
  ): Promise<Summary | null> {
    const { text, counters, uplink, prediction, picture, timeline, runs } = this.#showing;
    const { mode, values, policies, counts = true } = task;
    const [link, changes, at] = [this.#link(), this.#changes, new Date().toISOString()];
    // The form may change while the text is written.
    const { href: address } = location;
    const chosen = chosenFor(outrider, task, before);
    const ahead = chosen.isAhead;
    this.#continuation = null;
    setFinish(null);
    text.begin(task.prompt);
    counters.show(null, mode, chosen);
    timeline.begin();
    remark('');
    if (policies) {
      uplink.begin(chosen);
      prediction.begin(policies, chosen.maxInFlight, ahead);
    }
    this.#hasText = true;
    const { ownDraws } = outrider.session;
    showGuarantee(element('guarantee', HTMLElement), guaranteeOf(policies, ahead, ownDraws), true);
    let impatient: ReturnType<typeof setTimeout> | undefined;
    let isOffline = false;
    const renewPatience = (): void => {
      clearTimeout(impatient);
      impatient = setTimeout(() => {
        if (isOffline) return;
        report(
          `No text from the server for ${PATIENCE_MS / 1000} s: a long prompt takes it long. Wait, or press Stop.`,
        );
      }, PATIENCE_MS);
    };
    const progress = (): string => {
      if (outrider.mode === 'server') return 'The server writes alone until the draft model is ready';
      if (ahead) return 'The server writes; the browser drafts ahead of it';
      return mode === 'speculative' ? 'Drafting and verifying' : 'The server writes alone';
    };
    const options: GenerateOptions = {
      ...values,
      ...task.choices,
      ...(policies && optionsFrom(policies)),
      compareSchemes: task.compares && !ahead,
      mode,
      evidence: task.evidence ?? false,
    };
    const shown: Round[] = [];
    let [drawn, guess]: [number, Guess | null] = [0, null];
    const draw = (): void => {
      const rounds = shown.slice(drawn);
      drawn = shown.length;
      text.guess(guess);
      onGuess(guess);
      const last = rounds.at(-1);
      if (!last) return;
      keep(this.#generation?.suspend() ?? null, last.statistics);
      text.add(rounds);
      counters.show(last.statistics, mode, chosen);
      picture.show(last);
      for (const round of rounds) {
        onRound(round);
        timeline.add(round);
        uplink.add(round);
        if (mode === 'speculative') prediction.add(round);
      }
      if (uplink.complaint !== null) remark(uplink.complaint);
    };
    const drawings = new Paced(draw, DRAW_EVERY_MS);
    try {
      const generation = before ? outrider.resume(before.generation) : outrider.generate(task.prompt, options);
      this.#generation = generation;
      setState('generating', true);
      report(progress());
      renewPatience();
      for await (const event of generation.events()) {
        guess = event.guess;
        isOffline = guess?.offline ?? false;
        drawings.soon();
        if (event.type === 'guess') continue;
        const { round } = event;
        renewPatience();
        report(progress());
        // Counts of an earlier page belong to the same text; its tokens come first, without statistics.
        const isBefore = before !== null && shown.length === 0;
        const statistics = isBefore ? before.statistics : carriedOn(before?.statistics ?? null, round.statistics);
        shown.push({ ...round, statistics });
      }
      drawings.now();
      const summary = carriedOn(before?.statistics ?? null, await generation.summary);
      if (summary.tokens > 0) counters.show(summary, mode, chosen);
      const isSteady = changes === this.#changes && sameLink(link, this.#link());
      if (isSteady) this.#showing.breakEven.measure(summary, link);
      if (counts) {
        const { temperature, topP, topK, maxNewTokens, seed } = values;
        const asked = { prompt: task.prompt, seed, temperature, 'top-p': topP, 'top-k': topK, length: maxNewTokens };
        counters.keep({ summary, link, isSteady, asked }, mode, ahead);
        if (mode === 'cloud-only' && isSteady) prediction.compareWith(summary, link);
        const choices = { ...task.choices, scheme: ahead ? ('ahead' as const) : task.choices.scheme };
        const { models } = picture;
        const { engine } = outrider;
        runs.add({
          ...{ at, address, prompt: task.prompt, mode, choices, options: { ...options }, models, engine },
          ...{ link, isSteady, summary, rounds: shown },
        });
      }
      setFinish(summary.finish);
      report(endSentence(summary));
      this.#generation = null;
      if (typeof task.prompt === 'string') this.#continuation = `${task.prompt}${summary.text}`;
      setState('finished', true);
      withdraw(busySentence);
      return summary;
    } catch (error) {
      this.#generation = null;
      report('');
      complain(this.isCut ? cutSentence : sentenceFor(error, task.tooLong));
      setState('failed', true);
      return null;
    } finally {
      drawings.now();
      forget();
      clearTimeout(impatient);
      text.end();
      uplink.end();
      element('continue', HTMLElement).hidden = this.#continuation === null;
    }
  }
}

/** The choices of a run that decide which numbers it has. */
function chosenFor(outrider: Outrider, task: Task, before: Kept | null): RunChoices {
  const { policies, adaptiveMode } = task.policies ?? defaultPolicies();
  const asked = {
    ...{ mode: task.mode, scheme: task.choices.scheme, adaptiveMode, compareSchemes: false },
    ...{ rule: policies.rule.name, gate: policies.gate.name, stopRule: policies.stopRule.name },
  };
  const { maxInFlight = 1 } = task.values;
  return {
    ...task.choices,
    ...asked,
    maxInFlight,
    isAhead: willBeAhead(before?.generation.request ?? { ...asked, maxInFlight }, outrider.session),
  };
}
