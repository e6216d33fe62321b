import type { ReactNode } from 'react';
import './chat.css';

export const metadata = { title: 'Outrider with Next.js' };

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
