// The entries of the package, after `npm run package`. `outrider/ai-sdk` is not among them: the AI SDK's own types need a
// newer TypeScript.

import { Outrider, OutriderError } from 'outrider';
import type { ChatCompletion, GenerateOptions, Generation } from 'outrider';
import type { OutriderChat } from 'outrider/chat-element';
import { useOutrider } from 'outrider/react';

export async function write(options: GenerateOptions): Promise<string> {
  await using outrider = await Outrider.load({ server: 'https://example.org' });
  const generation: Generation = outrider.generate('Once', options);
  const texts: string[] = [];
  for await (const { text } of generation) texts.push(text);
  const request: typeof fetch = outrider.fetch;
  const answer: ChatCompletion = await outrider.chat.completions.create({ messages: [{ role: 'user', content: 'a' }] });
  if (!request) throw new OutriderError('internal', answer.choices[0]?.message.content ?? '');
  return (await generation.summary).text;
}

export const textOf = (): string => useOutrider().text;
export const messagesOf = (chat: OutriderChat): number => chat.messages.length;
