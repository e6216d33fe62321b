import { expect, test } from 'vitest';
import { Conversation, said } from './conversation.js';

const shown = (prompt: Parameters<typeof said>[0]) =>
  said(prompt)
    .map(({ who, text }) => (who ? `${who}: ${text}` : text))
    .join('');

test('a conversation grows by what is said and answered', () => {
  const conversation = new Conversation();
  const first = conversation.with('Hello', true);
  expect(first).toEqual([{ role: 'user', content: 'Hello' }]);
  expect(conversation.with('Hello', true)).toEqual(first);
  conversation.answered(first, ' Hi. ');
  const second = conversation.with('Why?', true);
  expect(shown(second)).toBe('You: Hello\n\nModel: Hi.\n\nYou: Why?\n\nModel: ');
  conversation.forget();
  expect(conversation.with('Hello', true)).toEqual(first);
});

test('without a form for conversations both go on with one story', () => {
  const conversation = new Conversation();
  const first = conversation.with('Once upon a time', false);
  expect(first).toBe('Once upon a time');
  conversation.answered(first, ' there was a fox.\n');
  expect(conversation.with('It was hungry', false)).toBe('Once upon a time there was a fox. It was hungry');
  conversation.forget();
  expect(conversation.with('A king', false)).toBe('A king');
});

test('what tools have to do with is shown as far as it is text', () => {
  const calls = [{ function: { name: 'f', arguments: {} } }];
  const part = { type: 'text', text: '4' } as const;
  const text = shown([
    { role: 'assistant', content: null, tool_calls: calls },
    { role: 'assistant', tool_calls: calls },
    { role: 'tool', content: [part, part] },
  ]);
  expect(text).toBe('Model: \n\nModel: \n\nTool: 44\n\nModel: ');
});

test('a text is shown as it is', () => expect(shown('Once')).toBe('Once'));
