import type { Prompt } from '../outrider/index.js';
import { Conversation } from './conversation.js';
import { element } from './elements.js';
import { askTemplate } from './loader.js';

/** The conversation of the view Chat, and its note about the model's chat template. */
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

  /** Asks once whether the server's model has a chat template, and shows the answer. */
  async open(): Promise<void> {
    this.#hasTemplate ??= askTemplate();
    this.#isTemplate = await this.#hasTemplate;
    this.#note.textContent = this.#isTemplate
      ? 'The model has a chat template, so it remembers the conversation.'
      : 'This model has no chat template: it continues stories. Your text is added to the story, and the model continues from there.';
  }

  /** The prompt for the user's next message. */
  async next(said: string): Promise<Prompt> {
    await this.open();
    return this.#conversation.with(said, this.#isTemplate);
  }

  answered(asked: Prompt, answer: string): void {
    this.#conversation.answered(asked, answer);
  }
}
