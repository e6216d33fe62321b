// Reasoning before an answer: the text up to `</think>`, as Qwen, DeepSeek and others write it. Read as by the server.

import type { Message, Round } from './edge.js';

const OPEN = '<think>';
const CLOSE = '</think>';

/** The part of the text that is read: `opened` and `between` are before the first word of what follows. */
type State = 'start' | 'opened' | 'reasoning' | 'between' | 'answer';

/** Reasoning and answer that have become certain. */
type Parts = readonly [reasoning: string, answer: string];

/** Separates the reasoning at the beginning of a text from the answer after it, piece by piece. */
export class ReasoningReader {
  #state: State;
  /** The text that has not been returned yet. */
  #held = '';

  /** Makes a reader of the text after a prompt with this end; null where all of the text is the answer. */
  constructor(tail: string | null) {
    this.#state = tail === null ? 'answer' : tail.trimEnd().endsWith(OPEN) ? 'opened' : 'start';
  }

  /** Adds text, and returns what has become certain. */
  push(text: string): Parts {
    this.#held += text;
    if (this.#state === 'start') {
      const begin = this.#held.trimStart();
      if (begin.startsWith(OPEN)) [this.#state, this.#held] = ['opened', begin.slice(OPEN.length)];
      else if (OPEN.startsWith(begin)) return ['', ''];
      else this.#state = 'answer';
    }
    this.#skipSpace('opened', 'reasoning');
    let reasoning = '';
    if (this.#state === 'reasoning') {
      const end = this.#held.indexOf(CLOSE);
      // White space before the closing tag is not part of the reasoning.
      const certain = end < 0 ? this.#held.length - overlap(this.#held, CLOSE) : end;
      reasoning = this.#held.slice(0, certain).trimEnd();
      this.#held = this.#held.slice(end < 0 ? reasoning.length : end + CLOSE.length);
      if (end >= 0) this.#state = 'between';
    }
    this.#skipSpace('between', 'answer');
    return [reasoning, this.#state === 'answer' ? this.#take() : ''];
  }

  /** Ends the text, and returns the rest. */
  finish(): Parts {
    const isReasoning = this.#state === 'opened' || this.#state === 'reasoning';
    return isReasoning ? [this.#take(), ''] : ['', this.#take()];
  }

  #skipSpace(from: State, to: State): void {
    if (this.#state !== from) return;
    this.#held = this.#held.trimStart();
    if (this.#held !== '') this.#state = to;
  }

  #take(): string {
    const held = this.#held;
    this.#held = '';
    return held;
  }
}

/** The length of the longest end of a text that a longer `tag` begins with. */
function overlap(text: string, tag: string): number {
  for (let length = tag.length - 1; length > 0; length--) if (text.endsWith(tag.slice(0, length))) return length;
  return 0;
}

/** Counts tokens of reasoning, as the server does: those without a text belong to the next one with a text. */
export class ReasoningCounter {
  #tokens = 0;
  readonly #reader: ReasoningReader;
  #waiting = 0;

  constructor(tail: string | null) {
    this.#reader = new ReasoningReader(tail);
  }

  add({ tokens }: Round): void {
    for (const { text } of tokens) {
      this.#waiting += 1;
      this.#count(this.#reader.push(text));
    }
  }

  /** Ends the text, and returns the number of its tokens of reasoning. */
  finish(): number {
    this.#count(this.#reader.finish());
    return this.#tokens;
  }

  #count([reasoning, answer]: Parts): void {
    if (reasoning !== '') this.#tokens += this.#waiting;
    if (reasoning !== '' || answer !== '') this.#waiting = 0;
  }
}

/** Puts tags around reasoning that the server has separated, so that the text can be continued by a draft model. */
export class ReasoningTags {
  #isOpen = false;

  /** The text of a part of the answer, which is reasoning, a text or, with neither, calls. */
  around(reasoning: string, text: string): string {
    const wasOpen = this.#isOpen;
    this.#isOpen = reasoning !== '';
    if (reasoning !== '') return (wasOpen ? '' : OPEN) + reasoning;
    return (wasOpen ? CLOSE : '') + text;
  }
}

/** Returns true if a `chat.json` has a template that knows the tag at the end of reasoning. */
export function templateReasons(chat: Uint8Array | null): boolean {
  // JSON may have a backslash before the other slash.
  return chat !== null && /<\\?\/think>/.test(new TextDecoder().decode(chat));
}

/** The text of a message. */
export function textOfMessage(message: Message | undefined): string {
  const { content } = message ?? {};
  return typeof content === 'string' ? content : (content ?? []).map(({ text }) => text).join('');
}
