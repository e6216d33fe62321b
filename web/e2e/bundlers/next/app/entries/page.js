'use client';

import 'outrider/chat-element';
import { useOutrider } from 'outrider/react';

export default function Page() {
  // A page that is rendered on a server has no address.
  const server = new URLSearchParams(globalThis.location?.search).get('server') ?? undefined;
  const { isReady, error } = useOutrider({ server });
  return (
    <main>
      <outrider-chat server={server} suppressHydrationWarning />
      <p id="state">{error?.message ?? (isReady ? 'ready' : 'loading')}</p>
    </main>
  );
}
