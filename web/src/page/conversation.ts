import type { Message, Prompt } from '../outrider/index.js';

const speakers: Readonly<Record<Message['role'], string>> = {
  system: 'System',
  user: 'You',
  assistant: 'Model',
  tool: 'Tool',
};

/** A message of the user and the answer to it, which is empty until there is one. */
export interface Turn {
  said: string;
  answer: string;
  /** The costs of the answer in words, once it has ended. */
  costs?: string;
}

/**
 * The conversation so far: messages if the model has a chat template; else a story that user and model continue in turn.
 * No DOM.
 */
export class Conversation {
  #turns: Turn[];

  constructor(turns: readonly Turn[] = []) {
    this.#turns = turns.map((turn) => ({ ...turn }));
  }

  get turns(): readonly Readonly<Turn>[] {
    return this.#turns;
  }

  /** Adds a message of the user. */
  say(said: string): void {
    this.#turns.push({ said, answer: '' });
  }

  /** Sets the answer to the last message, and its costs in words once it has ended. */
  answer(answer: string, costs?: string): void {
    const last = this.#turns.at(-1);
    if (last) Object.assign(last, { answer, ...(costs !== undefined && { costs }) });
  }

  /** Removes the turn at a position and all later ones. */
  cut(position: number): void {
    this.#turns.length = Math.min(position, this.#turns.length);
  }

  /** Removes the answer to the last message, so that it can be written again. */
  unanswer(): void {
    const last = this.#turns.pop();
    if (last) this.say(last.said);
  }

  /** The prompt for the answer to the last message. */
  prompt(hasTemplate: boolean): Prompt {
    const last = this.#turns.at(-1);
    // A message whose answer failed is no part of the conversation.
    const turns = this.#turns.filter((turn) => turn === last || turn.answer !== '');
    if (!hasTemplate) {
      return turns.reduce((story, { said, answer }) => {
        const joined = [story.trimEnd(), said.trim()].filter((part) => part !== '').join(' ');
        return `${joined}${answer}`;
      }, '');
    }
    return turns.flatMap((turn): Message[] => {
      const question: Message = { role: 'user', content: turn.said };
      return turn === last ? [question] : [question, { role: 'assistant', content: turn.answer.trim() }];
    });
  }
}

/** Reads turns from stored text; a text that cannot be read has none. */
export function turnsFrom(stored: string | null): Turn[] {
  try {
    const read: unknown = JSON.parse(stored ?? '[]');
    return Array.isArray(read) ? read.filter(isTurn) : [];
  } catch {
    return [];
  }
}

function isTurn(value: unknown): value is Turn {
  const { said, answer, costs = '' } = (value ?? {}) as Partial<Turn>;
  return typeof said === 'string' && typeof answer === 'string' && typeof costs === 'string';
}

/** A part of a prompt and its speaker; `who` is empty in a plain text. */
export interface Said {
  who: string;
  text: string;
}

/** Splits a prompt for the page, up to where the answer begins. */
export function said(prompt: Prompt): Said[] {
  if (typeof prompt === 'string') return [{ who: '', text: prompt }];
  const messages = prompt.map(({ role, content }) => ({ who: speakers[role], text: `${text(content)}\n\n` }));
  return [...messages, { who: speakers.assistant, text: '' }];
}

function text(content: Message['content']): string {
  if (typeof content === 'string') return content;
  return content?.map((part) => part.text).join('') ?? '';
}
