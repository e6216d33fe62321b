import type { Message, Prompt } from '../outrider/index.js';

const speakers: Readonly<Record<Message['role'], string>> = {
  system: 'System',
  user: 'You',
  assistant: 'Model',
  tool: 'Tool',
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
  const said = prompt.map(({ role, content }) => `${speakers[role]}: ${text(content)}\n\n`);
  return `${said.join('')}${speakers.assistant}: `;
}

function text(content: Message['content']): string {
  if (typeof content === 'string') return content;
  return content?.map((part) => part.text).join('') ?? '';
}
