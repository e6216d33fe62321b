import type { Message, Prompt } from '../outrider/index.js';

const speakers: Readonly<Record<Message['role'], string>> = {
  system: 'System',
  user: 'You',
  assistant: 'Model',
};

/** What was said and answered so far. No DOM. */
export class Conversation {
  #messages: readonly Message[] = [];

  /** What is asked for when the user says this next. */
  with(content: string): readonly Message[] {
    return [...this.#messages, { role: 'user', content }];
  }

  /** What was asked for has been answered. */
  answered(asked: readonly Message[], content: string): void {
    this.#messages = [...asked, { role: 'assistant', content: content.trim() }];
  }

  forget(): void {
    this.#messages = [];
  }
}

/** A prompt as the page shows it, up to where the answer begins. */
export function shown(prompt: Prompt): string {
  if (typeof prompt === 'string') return prompt;
  const said = prompt.map(({ role, content }) => `${speakers[role]}: ${content}\n\n`);
  return `${said.join('')}${speakers.assistant}: `;
}
