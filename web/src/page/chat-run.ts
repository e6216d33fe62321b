// The chat: a message, its answer with the draft, and then its twin, which the server writes alone with the same seed.

import { defaultLength } from './settings.js';
import type { Outrider, Summary } from '../outrider/index.js';
import { ChatView } from './chat-view.js';
import { Conversation, turnsFrom } from './conversation.js';
import type { Runner, Task } from './runner.js';
import { report } from './stage.js';
import type { Kept } from './suspended.js';
import { costsOf, gainOf, TextTimes, twinSentence } from './twin.js';

const key = 'outrider.chat';

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
  readonly #askTemplate: () => Promise<boolean>;
  readonly #view = new ChatView({
    send: (said, editing) => void this.#say(said, editing),
    regenerate: () => void this.#regenerate(),
    stop: () => this.#runner.stop(),
    forget: () => void this.#forget(),
  });
  readonly #conversation = new Conversation(turnsFrom(stored()));
  #outrider: Outrider | null = null;
  #template: Promise<boolean> | null = null;
  /** The text that is being written; resolved while there is none. */
  #writing: Promise<void> = Promise.resolve();
  /** Number of answers so far. */
  #answers = 0;
  /** The seed of the answer that waits for the server's first one; null if none waits. */
  #waiting: { seed: number | undefined } | null = null;

  /**
   * @param task the settings as they are now; null if one is out of range, which the page then reports
   * @param isAhead whether the next text is drafted ahead of the server
   * @param askTemplate whether the server's model has a chat template
   */
  constructor(
    runner: Runner,
    task: () => ChatTask | null,
    isAhead: () => boolean,
    askTemplate: () => Promise<boolean>,
  ) {
    this.#runner = runner;
    this.#task = task;
    this.#isAhead = isAhead;
    this.#askTemplate = askTemplate;
    this.#view.phase = 'idle';
    this.#view.show(this.#conversation.turns);
    this.#view.twinSentence = NO_TWIN;
  }

  /** Asks once whether the server's model has a chat template, and fits the chat to it. */
  async open(message: string | null = null): Promise<void> {
    if (message !== null) this.#view.message = message;
    this.#view.offer(await this.#hasTemplate());
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

  #hasTemplate(): Promise<boolean> {
    return (this.#template ??= this.#askTemplate());
  }

  async #say(said: string, editing: number | null): Promise<void> {
    await this.#end();
    if (editing !== null) this.#conversation.cut(editing);
    this.#conversation.say(said);
    this.#begin();
  }

  async #regenerate(): Promise<void> {
    await this.#end();
    this.#conversation.unanswer();
    // The same seed would write the same text.
    this.#begin(null, crypto.getRandomValues(new Uint32Array(1))[0]);
  }

  async #forget(): Promise<void> {
    await this.#end();
    this.#waiting = null;
    for (const id of this.#outrider?.context.ids ?? []) this.#outrider?.context.remove(id);
    this.#conversation.cut(0);
    this.#save();
    this.#view.show([]);
    this.#view.showTwin('');
    this.#view.twinSentence = NO_TWIN;
    this.#view.showGain(gainOf(new TextTimes(), new TextTimes(), false));
  }

  /** Ends the text that is being written. */
  async #end(): Promise<void> {
    if (this.#view.phase !== 'idle') this.#runner.stop();
    await this.#writing;
  }

  #begin(before: Kept | null = null, seed?: number): void {
    this.#save();
    this.#view.show(this.#conversation.turns);
    if (this.#runner.isRunning) return report('Another text is being written. Stop it, then press Try again.');
    if (!this.#outrider) {
      this.#waiting = { seed };
      return report('Your message is sent as soon as the server answers.');
    }
    const task = this.#task();
    if (!task) return;
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
    const [times, twinTimes] = [new TextTimes(), new TextTimes()];
    this.#view.showTwin('');
    this.#view.twinSentence = 'Begins when the answer is complete.';
    let text = '';
    const [isAhead, isAlone, { changes }] = [this.#isAhead(), outrider.mode === 'server', this.#runner];
    const task = { prompt, mode: 'speculative', values: asked, choices, policies, compares: false } as const;
    const show = (twinEnded: boolean): void => this.#view.showGain(gainOf(times, twinTimes, twinEnded));
    const summary = await this.#runner.run(
      outrider,
      task,
      ({ tokens, statistics }) => {
        text += tokens.map((token) => token.text).join('');
        this.#view.confirm(bubble, text);
        times.add({ statistics });
        show(false);
      },
      before,
      (guess) => this.#view.guess(bubble, guess),
    );
    if (summary) {
      text = summary.text;
      // An answer that is written again, or in another chat, may repeat it.
      outrider.context.add(`answer ${++this.#answers}`, text);
    }
    const costs = summary ? costsOf(summary, times) : '';
    this.#conversation.answer(text, costs);
    this.#save();
    this.#view.endAnswer(bubble, text, costs);
    const isWhole = summary !== null && summary.finish !== 'cancelled' && summary.tokens > 0;
    if (!isWhole || before) {
      this.#view.twinSentence = 'There is no twin of an answer that was stopped or resumed.';
      return;
    }
    if (isAlone) {
      this.#view.twinSentence =
        outrider.mode === 'server'
          ? 'The server wrote this answer alone; an answer with drafts has a twin.'
          : 'The server began this answer alone; the next one has a twin.';
      return;
    }
    if (this.#runner.isCut) {
      this.#view.twinSentence = 'The link is cut, so this answer has no twin.';
      return;
    }
    this.#view.phase = 'comparing';
    let alone = '';
    this.#view.twinSentence = 'The server writes the same answer alone.';
    const twin = await this.#runner.run(outrider, { ...task, mode: 'cloud-only', policies: null }, (round) => {
      alone += round.tokens.map((token) => token.text).join('');
      this.#view.showTwin(alone, true);
      twinTimes.add(round);
    });
    this.#view.showTwin(alone);
    report('');
    if (this.#runner.changes === changes) return this.#compare(summary, twin, times, twinTimes, isAhead);
    const isSame = twin?.text === summary.text;
    const same = isSame ? 'The same text, word for word. ' : '';
    this.#view.twinSentence = `${same}The link changed meanwhile, so the times cannot be compared.`;
  }

  #compare(answer: Summary, twin: Summary | null, times: TextTimes, twinTimes: TextTimes, isAhead: boolean): void {
    const isWhole = twin !== null && twin.finish !== 'cancelled';
    this.#view.showGain(gainOf(times, twinTimes, isWhole));
    const ratio = times.tokensPerSecond / twinTimes.tokensPerSecond;
    this.#view.twinSentence = isWhole ? twinSentence(answer, twin, ratio, isAhead) : 'The twin was stopped.';
  }

  #save(): void {
    try {
      localStorage.setItem(key, JSON.stringify(this.#conversation.turns));
    } catch {
      // The browser keeps nothing, and a reload begins a new chat.
    }
  }
}

function stored(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
