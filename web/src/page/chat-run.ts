// The chat: a message, its answer with the draft, and then its twin, which the server writes alone with the same seed.

import { defaultLength } from './settings.js';
import type { Outrider, Summary } from '../outrider/index.js';
import { storedTurns, storeTurns } from './chat-storage.js';
import { ChatView } from './chat-view.js';
import { Conversation } from './conversation.js';
import type { Turn } from './conversation.js';
import type { Runner, Task } from './runner.js';
import { busySentence, fullChatSentence } from './sentences.js';
import { complain, report } from './stage.js';
import type { Kept } from './suspended.js';
import { costsOf, gainOf, twinSentence } from './twin.js';
import type { Costs } from './twin.js';

/** Most tokens of an answer in a conversation, unless the laboratory sets another number. */
const ANSWER_LENGTH = 384;

/** The settings of an answer. */
export type ChatTask = Pick<Task, 'values' | 'choices' | 'policies'>;

const NO_TWIN = 'After each answer the server writes it again without a draft, to compare.';

/** Holds a conversation with the server's model. */
export class ChatRun {
  readonly #runner: Runner;
  readonly #task: () => ChatTask | null;
  readonly #isAhead: () => boolean;
  readonly #askTemplate: () => Promise<boolean | null>;
  readonly #view = new ChatView({
    send: (said, editing) => this.#say(said, editing),
    regenerate: () => this.#regenerate(),
    stop: () => this.#runner.stop(),
    forget: () => void this.#forget(),
  });
  #conversation = new Conversation(storedTurns());
  /** True while an answer or a twin is being stopped for what comes next. */
  #isEnding = false;
  /** The turns before an edit or a new try, which come back if no token is written; null once there is one. */
  #replaced: readonly Readonly<Turn>[] | null = null;
  #outrider: Outrider | null = null;
  #template: Promise<boolean | null> | null = null;
  /** The text that is being written; resolved while there is none. */
  #writing: Promise<void> = Promise.resolve();
  /** Number of answers so far. */
  #answers = 0;
  /** The seed of the answer that waits for the server's first one; null if none waits. */
  #waiting: { seed: number | undefined } | null = null;

  /**
   * @param task the settings as they are now; null if one is out of range, which the page then reports
   * @param isAhead whether the next text is drafted ahead of the server
   * @param askTemplate whether the server's model has a chat template; null if that is unknown
   */
  constructor(
    runner: Runner,
    task: () => ChatTask | null,
    isAhead: () => boolean,
    askTemplate: () => Promise<boolean | null>,
  ) {
    this.#runner = runner;
    this.#task = task;
    this.#isAhead = isAhead;
    this.#askTemplate = askTemplate;
    this.#view.phase = 'idle';
    this.#showTurns(NO_TWIN);
    // In all views: the answer comes with the page.
    void this.#hasTemplate();
  }

  /** Asks once whether the server's model has a chat template, and fits the chat to it. */
  async open(message: string | null = null): Promise<void> {
    // A reload of a chat that has begun is no new visit by a link.
    const isBegun = isReload() && this.#conversation.turns.length > 0;
    if (message !== null && !isBegun) this.#view.message = message;
    await this.#hasTemplate();
  }

  /** Sends the text of the message field. */
  submit(): void {
    this.#view.submit();
  }

  /** Takes the instance that writes from now on; null while it loads. */
  set outrider(outrider: Outrider | null) {
    this.#outrider = outrider;
    if (!outrider || !this.#waiting) return;
    const { seed } = this.#waiting;
    this.#waiting = null;
    this.#begin(null, seed);
  }

  /** Decides whether a kept generation is the answer to the last message. */
  async isOwn({ generation }: Kept): Promise<boolean> {
    if (this.#conversation.turns.at(-1)?.answer !== '') return false;
    const prompt = this.#conversation.prompt(await this.#hasTemplate());
    return JSON.stringify(generation.request.prompt) === JSON.stringify(prompt);
  }

  /** Goes on with the answer of an earlier page. */
  resume(before: Kept): void {
    this.#begin(before);
  }

  /** Decides whether the model has a chat template; false while the server does not say, which is then asked again. */
  async #hasTemplate(): Promise<boolean> {
    const answer = await (this.#template ??= this.#askTemplate());
    if (answer === null) this.#template = null;
    this.#view.offer(answer ?? false);
    return answer ?? false;
  }

  #say(said: string, editing: number | null): boolean {
    if (!this.#isFree()) return false;
    void this.#answer(() => {
      if (editing !== null) this.#conversation.cut(editing);
      this.#conversation.say(said);
    });
    return true;
  }

  #regenerate(): void {
    if (!this.#isFree()) return;
    // The same seed would write the same text.
    void this.#answer(() => this.#conversation.unanswer(), crypto.getRandomValues(new Uint32Array(1))[0]);
  }

  /** Decides whether an answer can begin now; if not, the page says why. */
  #isFree(): boolean {
    if (this.#isEnding || (this.#view.phase === 'idle' && this.#runner.isRunning)) {
      complain(busySentence);
      return false;
    }
    return this.#outrider === null || this.#task() !== null;
  }

  /** Changes the turns, and has the answer to the last of them written. */
  async #answer(change: () => void, seed?: number): Promise<void> {
    await this.#end();
    // Another answer was asked for meanwhile.
    if (this.#view.phase !== 'idle') return;
    this.#restore();
    const turns = [...this.#conversation.turns];
    change();
    const isLess = turns.some((turn) => turn.answer !== '' && !this.#conversation.turns.includes(turn));
    this.#replaced = isLess ? turns : null;
    this.#begin(null, seed);
  }

  async #forget(): Promise<void> {
    // An answer that ends now puts nothing back.
    this.#replaced = null;
    await this.#end();
    this.#waiting = null;
    for (const id of this.#outrider?.context.ids ?? []) this.#outrider?.context.remove(id);
    this.#conversation.cut(0);
    this.#save();
    this.#showTurns(NO_TWIN);
  }

  /** Ends the text that is being written. */
  async #end(): Promise<void> {
    if (this.#view.phase !== 'idle') this.#runner.stop();
    this.#isEnding = true;
    await this.#writing;
    this.#isEnding = false;
  }

  /** Puts back the turns that were replaced. */
  #restore(): void {
    if (this.#replaced) this.#conversation = new Conversation(this.#replaced);
    this.#replaced = null;
  }

  /** Shows the turns, and nothing of an earlier answer's twin. */
  #showTurns(twinSentence: string): void {
    this.#view.show(this.#conversation.turns);
    this.#view.showGain(gainOf(null));
    this.#view.showTwin('');
    this.#view.twinSentence = twinSentence;
  }

  #begin(before: Kept | null = null, seed?: number): void {
    this.#save();
    this.#showTurns('Begins when the answer is complete.');
    if (this.#runner.isRunning) return complain(busySentence);
    if (!this.#outrider) {
      this.#waiting = { seed };
      return report('Your message is sent as soon as the server answers.');
    }
    const task = this.#task();
    if (!task) return this.#putBack();
    if (seed !== undefined) task.values = { ...task.values, seed };
    this.#view.phase = 'answering';
    this.#writing = this.#write(this.#outrider, task, before).finally(() => (this.#view.phase = 'idle'));
  }

  /** Writes the answer to the last message, and its twin. */
  async #write(outrider: Outrider, { values, choices, policies }: ChatTask, before: Kept | null): Promise<void> {
    const hasTemplate = await this.#hasTemplate();
    const prompt = this.#conversation.prompt(hasTemplate);
    const { max } = outrider.ranges.maxNewTokens;
    const isDefault = values.maxNewTokens === defaultLength;
    const length = hasTemplate && isDefault ? Math.min(max, ANSWER_LENGTH) : values.maxNewTokens;
    const asked = { ...values, ...(length !== undefined && { maxNewTokens: length }) };
    const bubble = this.#view.beginAnswer();
    let text = '';
    let costs: Costs | null = null;
    const [isAhead, isAlone, { changes }] = [this.#isAhead(), outrider.mode === 'server', this.#runner];
    const isFirst = this.#conversation.turns.slice(0, -1).every(({ answer }) => answer === '');
    const task: Task = {
      ...{ prompt, mode: 'speculative', values: asked, choices, policies, compares: false },
      ...(!isFirst && { tooLong: fullChatSentence }),
    };
    const summary = await this.#runner.run(
      outrider,
      task,
      ({ tokens, statistics }) => {
        if (this.#replaced && tokens.length > 0) {
          this.#replaced = null;
          this.#save();
        }
        text += tokens.map((token) => token.text).join('');
        this.#view.confirm(bubble, text);
        costs = statistics;
        this.#view.showGain(gainOf(costs));
      },
      before,
      (guess) => this.#view.guess(bubble, guess),
    );
    if (this.#replaced) return this.#putBack();
    if (summary) {
      ({ text } = summary);
      costs = summary;
      // An answer that is written again, or in another chat, may repeat it.
      outrider.context.add(`answer ${++this.#answers}`, text);
    }
    const words = summary ? costsOf(summary) : '';
    this.#conversation.answer(text, words);
    this.#save();
    this.#view.endAnswer(bubble, text, words);
    const why = this.#reasonAgainstTwin(outrider, summary, isAlone, before);
    if (!summary || why !== null) {
      this.#view.showGain(gainOf(costs, null, false));
      this.#view.twinSentence = why ?? '';
      return;
    }
    this.#view.phase = 'comparing';
    let alone = '';
    this.#view.twinSentence = 'The server writes the same answer alone.';
    const twin = await this.#runner.run(outrider, { ...task, mode: 'cloud-only', policies: null }, (round) => {
      alone += round.tokens.map((token) => token.text).join('');
      this.#view.showTwin(alone, true);
    });
    this.#view.showTwin(alone);
    report('');
    this.#compare(summary, twin, this.#runner.changes === changes, isAhead);
  }

  /** The reason why an answer has no twin; null if it has one. */
  #reasonAgainstTwin(
    outrider: Outrider,
    summary: Summary | null,
    isAlone: boolean,
    before: Kept | null,
  ): string | null {
    if (!summary) return 'This answer failed, so it has no twin.';
    if (summary.finish === 'cancelled') return 'This answer was stopped, so it has no twin.';
    if (summary.text === '') return 'This answer has no text, so it has no twin.';
    if (before) return 'This answer went on after a reload, so it has no twin.';
    if (isAlone) {
      return outrider.mode === 'server'
        ? 'The server wrote this answer alone; an answer with drafts has a twin.'
        : 'The server began this answer alone; the next one has a twin.';
    }
    return this.#runner.isCut ? 'The link is cut, so this answer has no twin.' : null;
  }

  #compare(answer: Summary, twin: Summary | null, isSteady: boolean, isAhead: boolean): void {
    const isWhole = twin !== null && twin.finish !== 'cancelled';
    this.#view.showGain(gainOf(answer, isWhole && isSteady ? twin : null, false));
    if (!isWhole) {
      this.#view.twinSentence = twin ? 'The twin was stopped.' : 'The twin could not be written.';
    } else if (isSteady) {
      this.#view.twinSentence = twinSentence(answer, twin, isAhead);
    } else {
      const same = twin.text === answer.text ? 'The same text, word for word. ' : '';
      this.#view.twinSentence = `${same}The link changed or was lost meanwhile, so the times cannot be compared.`;
    }
  }

  /** Puts back what an edit or a new try has replaced: nothing was written. An edited message can be sent again. */
  #putBack(): void {
    const { turns } = this.#conversation;
    const [position, said] = [turns.length - 1, turns.at(-1)?.said];
    this.#restore();
    this.#showTurns(NO_TWIN);
    if (said !== this.#conversation.turns[position]?.said) this.#view.edit(position, said);
  }

  /** Saves the turns, unless those that are saved may still come back. */
  #save(): void {
    if (!this.#replaced) storeTurns(this.#conversation.turns);
  }
}

function isReload(): boolean {
  const [navigation] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return navigation?.type === 'reload';
}
