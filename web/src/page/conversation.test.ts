import { expect, test } from 'vitest';
import { Conversation, shown } from './conversation.js';

test('a conversation grows by what is said and answered', () => {
  const conversation = new Conversation();
  const first = conversation.with('Hello');
  expect(first).toEqual([{ role: 'user', content: 'Hello' }]);
  expect(conversation.with('Hello')).toEqual(first);
  conversation.answered(first, ' Hi. ');
  const second = conversation.with('Why?');
  expect(shown(second)).toBe('You: Hello\n\nModel: Hi.\n\nYou: Why?\n\nModel: ');
  conversation.forget();
  expect(conversation.with('Hello')).toEqual(first);
});

test('what tools have to do with is shown as far as it is text', () => {
  const calls = [{ function: { name: 'f', arguments: {} } }];
  const part = { type: 'text', text: '4' } as const;
  const said = shown([
    { role: 'assistant', content: null, tool_calls: calls },
    { role: 'assistant', tool_calls: calls },
    { role: 'tool', content: [part, part] },
  ]);
  expect(said).toBe('Model: \n\nModel: \n\nTool: 44\n\nModel: ');
});

test('a text is shown as it is', () => expect(shown('Once')).toBe('Once'));
