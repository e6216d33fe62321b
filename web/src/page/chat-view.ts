import type { Prompt } from '../outrider/index.js';
import { Conversation } from './conversation.js';
import { element } from './elements.js';
import { askTemplate } from './loader.js';

/** The conversation of the view Chat, and what it says of the model's form for one. */
export class ChatView {
  readonly #conversation = new Conversation();
  readonly #note = element('chat-note', HTMLElement);
  #hasTemplate: Promise<boolean> | null = null;
  #isTemplate = false;

  constructor() {
    element('forget', HTMLButtonElement).addEventListener('click', () => {
      this.#conversation.forget();
      element('prompt', HTMLTextAreaElement).focus();
    });
  }

  /** Looks, once, whether the server's model has a form for conversations, and says so. */
  async open(): Promise<void> {
    this.#hasTemplate ??= askTemplate();
    this.#isTemplate = await this.#hasTemplate;
    this.#note.textContent = this.#isTemplate
      ? 'The model has a form of its own for conversations, and remembers what was said.'
      : 'This model knows no conversations: it continues stories. What you write goes on the story, and the model writes on from there.';
  }

  /** What is asked for when the user says this next. */
  async next(said: string): Promise<Prompt> {
    await this.open();
    return this.#conversation.with(said, this.#isTemplate);
  }

  answered(asked: Prompt, answer: string): void {
    this.#conversation.answered(asked, answer);
  }
}
