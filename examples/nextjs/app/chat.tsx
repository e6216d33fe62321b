'use client';

import { useEffect, useRef, useState } from 'react';
import type { FormEvent } from 'react';
import { useChat } from '@ai-sdk/react';
import { DirectChatTransport, ToolLoopAgent } from 'ai';
import type { UIMessage } from 'ai';
import { createOutrider } from 'outrider/ai-sdk';
import type { OutriderMetadata } from 'outrider/ai-sdk';

// Made once, also where Next.js renders the page; nothing is loaded there.
const outrider = createOutrider({ server: process.env.NEXT_PUBLIC_OUTRIDER_SERVER ?? 'http://127.0.0.1:8787' });
const transport = new DirectChatTransport({
  agent: new ToolLoopAgent({ model: outrider(), maxOutputTokens: 200 }),
  messageMetadata: ({ part }) => (part.type === 'finish-step' ? part.providerMetadata?.outrider : undefined),
  // Without it errors are masked, as for a transport over a network.
  onError: (error) => (error as Error).message,
});

const textOf = ({ parts }: UIMessage) => parts.map((part) => (part.type === 'text' ? part.text : '')).join('');

export function Chat() {
  const { messages, setMessages, sendMessage, status, stop, error } = useChat({
    transport,
    onFinish: ({ message, messages, isError }) => {
      if (textOf(message) && !isError) return;
      // A message without an answer is no part of the conversation. It can be changed and sent again.
      const asked = messages.findLastIndex(({ role }) => role === 'user');
      setMessages(messages.slice(0, asked));
      setSaid((typed) => typed || textOf(messages[asked]));
    },
  });
  const [said, setSaid] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const isWriting = status === 'submitted' || status === 'streaming';
  const costs = messages.at(-1)?.metadata as OutriderMetadata | undefined;

  // The draft model loads while the first message is typed. The first request shows its error.
  useEffect(() => void outrider.load().catch(() => {}), []);

  function send(event: FormEvent) {
    event.preventDefault();
    void sendMessage({ text: said });
    setSaid('');
  }

  function end() {
    void stop();
    // The button is about to be disabled.
    input.current?.focus();
  }

  return (
    <>
      <section role="log" aria-busy={isWriting}>
        {messages.map((message) => (
          <p key={message.id} data-role={message.role} dir="auto">
            {textOf(message)}
          </p>
        ))}
      </section>
      <form onSubmit={send}>
        <input
          aria-label="Message"
          dir="auto"
          required
          ref={input}
          value={said}
          onChange={({ target }) => setSaid(target.value)}
        />
        <button disabled={isWriting}>Send</button>
        <button type="button" disabled={!isWriting} onClick={end}>
          Stop
        </button>
      </form>
      {error && <p role="alert">{error.message}</p>}
      <p role="status">{costs && `${costs.serverPasses} forward passes of the server`}</p>
    </>
  );
}
