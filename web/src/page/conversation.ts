import type { Message, Prompt } from '../outrider/index.js';

const speakers: Readonly<Record<Message['role'], string>> = {
  system: 'System',
  user: 'You',
  assistant: 'Model',
  tool: 'Tool',
};

/**
 * The conversation so far: messages if the model has a chat template; else a story that user and model continue in turn.
 * No DOM.
 */
export class Conversation {
  #messages: readonly Message[] = [];
  #story = '';

  /** The prompt for the user's next message. */
  with(content: string, hasTemplate: boolean): Prompt {
    if (hasTemplate) return [...this.#messages, { role: 'user', content }];
    return [this.#story.trimEnd(), content.trim()].filter((part) => part !== '').join(' ');
  }

  /** Adds the answer to a prompt. */
  answered(asked: Prompt, content: string): void {
    if (typeof asked === 'string') this.#story = `${asked}${content}`;
    else this.#messages = [...asked, { role: 'assistant', content: content.trim() }];
  }

  get isEmpty(): boolean {
    return this.#messages.length === 0 && this.#story === '';
  }

  forget(): void {
    this.#messages = [];
    this.#story = '';
  }
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
