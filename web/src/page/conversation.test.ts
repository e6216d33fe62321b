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

test('a text is shown as it is', () => expect(shown('Once')).toBe('Once'));
