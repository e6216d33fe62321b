import { useRef, useState } from 'react';
import type { FormEvent } from 'react';
import type { Message } from 'outrider';
import { useOutrider } from 'outrider/react';

const server = import.meta.env.VITE_OUTRIDER_SERVER ?? 'http://127.0.0.1:8787';

export function Chat() {
  const { isReady, isWriting, text, summary, error, generate, stop } = useOutrider({ server });
  const [messages, setMessages] = useState<Message[]>([]);
  const [said, setSaid] = useState('');
  const input = useRef<HTMLInputElement>(null);

  async function send(event: FormEvent) {
    event.preventDefault();
    const conversation: Message[] = [...messages, { role: 'user', content: said }];
    setMessages(conversation);
    setSaid('');
    const answer = await generate(conversation, { maxNewTokens: 200 });
    if (answer?.text) return setMessages([...conversation, { role: 'assistant', content: answer.text }]);
    // A message without an answer is no part of the conversation. It can be changed and sent again.
    setMessages(messages);
    setSaid((typed) => typed || said);
  }

  function end() {
    stop();
    // The button is about to be disabled.
    input.current?.focus();
  }

  return (
    <main>
      <h1>Outrider with React</h1>
      <section role="log" aria-busy={isWriting}>
        {messages.map(({ role, content }, index) => (
          <p key={index} data-role={role} dir="auto">
            {String(content)}
          </p>
        ))}
        {isWriting && (
          <p data-role="assistant" dir="auto">
            {text}
          </p>
        )}
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
      <p role="status">
        {summary && `${summary.tokens} tokens in ${summary.serverPasses} forward passes of the server`}
        {!isReady && !error && 'Connecting to the server'}
      </p>
    </main>
  );
}
