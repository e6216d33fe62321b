import type { Message, Prompt } from '../outrider/index.js';

const speakers: Readonly<Record<Message['role'], string>> = {
  system: 'System',
  user: 'You',
  assistant: 'Model',
  tool: 'Tool',
};

/**
 * What was said and answered so far: messages, where the model has a form for these; else a story that both go on with.
 * No DOM.
 */
export class Conversation {
  #messages: readonly Message[] = [];
  #story = '';

  /** What is asked for when the user says this next. */
  with(content: string, hasTemplate: boolean): Prompt {
    if (hasTemplate) return [...this.#messages, { role: 'user', content }];
    return [this.#story.trimEnd(), content.trim()].filter((part) => part !== '').join(' ');
  }

  /** What was asked for has been answered. */
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

/** A part of what a text goes on from, and who said it; nobody did where it is one text. */
export interface Said {
  who: string;
  text: string;
}

/** A prompt as the page shows it, up to where the answer begins. */
export function said(prompt: Prompt): Said[] {
  if (typeof prompt === 'string') return [{ who: '', text: prompt }];
  const messages = prompt.map(({ role, content }) => ({ who: speakers[role], text: `${text(content)}\n\n` }));
  return [...messages, { who: speakers.assistant, text: '' }];
}

function text(content: Message['content']): string {
  if (typeof content === 'string') return content;
  return content?.map((part) => part.text).join('') ?? '';
}
