import { revive } from './errors.js';
import type { Prompt } from './edge.js';
import type { Answer, FromWorker, Question, ToWorker } from './messages.js';
import type { ConversationOptions } from './options.js';
import { checkedPrompt, checkedTools, checkedVariables, refuseUnknown } from './validation.js';

/** Questions to the tokenizer in the worker, with the promises of their answers. */
export class Questions {
  readonly #waiting = new Map<number, { resolve: (answer: Answer) => void; reject: (reason: unknown) => void }>();
  #lastId = 0;

  ask(question: Question, post: (message: ToWorker) => void): Promise<Answer> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      post({ type: 'ask', id, question });
    });
  }

  receive(message: Extract<FromWorker, { type: 'answer' | 'no-answer' }>): void {
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.type === 'no-answer') waiting?.reject(revive(message.error));
    else waiting?.resolve(message.answer);
  }

  /** Rejects all open questions. */
  fail(reason: unknown): void {
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
  }
}

/** The question for the ids of a prompt. @throws {@link OutriderError} `invalid-option` */
export function idsQuestion(prompt: Prompt, options: ConversationOptions): Question & { about: 'ids' | 'tail' } {
  refuseUnknown(options, ['tools', 'toolChoice', 'chatTemplateKwargs', 'continueFinalMessage'], 'tokenize()');
  const checked = checkedPrompt(prompt);
  const tools = options.toolChoice === 'none' ? [] : checkedTools(options.tools ?? [], checked);
  return {
    about: 'ids',
    prompt: checked,
    tools,
    continueFinalMessage: options.continueFinalMessage ?? false,
    chatTemplateKwargs: checkedVariables(options.chatTemplateKwargs ?? {}),
  };
}
