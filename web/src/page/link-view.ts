import type { Link } from '../outrider/index.js';
import { element, make } from './elements.js';
import { formatMilliseconds, formatRate } from './format.js';
import { sameLink } from './prediction.js';
import { positionOf, rateAt, rateSteps } from './scale.js';
import { linkSentence } from './sentences.js';
import { linkPresets } from './settings.js';

/**
 * The link panel: two logarithmic rates and a round trip, each with its value in words, presets, and a button that cuts
 * the link. Beside the chat there are the presets and the button alone.
 */
export class LinkView {
  readonly #uplink = element('uplink', HTMLInputElement);
  readonly #downlink = element('downlink', HTMLInputElement);
  readonly #roundTrip = element('round-trip', HTMLInputElement);
  readonly #presets: { button: HTMLButtonElement; link: Link }[] = [];
  readonly #cuts: HTMLButtonElement[] = [];
  #link: Link;

  constructor(link: Link, onChange: (link: Link) => void) {
    this.#link = { ...link };
    const change = (part: Partial<Link>): void => {
      this.#link = { ...this.#link, ...part };
      this.#showLink();
      onChange(this.#link);
    };
    this.#uplink.max = this.#downlink.max = String(rateSteps);
    this.#uplink.addEventListener('input', () => {
      change({ uplinkBitsPerSecond: rateAt(this.#uplink.valueAsNumber) });
    });
    this.#downlink.addEventListener('input', () => {
      change({ downlinkBitsPerSecond: rateAt(this.#downlink.valueAsNumber) });
    });
    this.#roundTrip.addEventListener('input', () => {
      change({ roundTripMs: this.#roundTrip.valueAsNumber });
    });
    const beside = element('chat-presets', HTMLElement);
    for (const place of [element('presets', HTMLElement), beside]) {
      const add = (name: string, part: () => Partial<Link>): HTMLButtonElement => {
        const button = make('button', { type: 'button', class: place === beside ? 'small' : '' }, name);
        button.addEventListener('click', () => change(part()));
        place.append(button);
        return button;
      };
      for (const { name, link } of linkPresets) this.#presets.push({ button: add(name, () => link), link });
      this.#cuts.push(add('', () => ({ isCut: !this.#link.isCut })));
    }
    this.#showLink();
  }

  get link(): Link {
    return this.#link;
  }

  #showLink(): void {
    const { uplinkBitsPerSecond, downlinkBitsPerSecond, roundTripMs } = this.#link;
    showSlider(this.#uplink, positionOf(uplinkBitsPerSecond), formatRate(uplinkBitsPerSecond));
    showSlider(this.#downlink, positionOf(downlinkBitsPerSecond), formatRate(downlinkBitsPerSecond));
    showSlider(this.#roundTrip, roundTripMs, roundTripMs === 0 ? 'none' : formatMilliseconds(roundTripMs));
    const { isCut } = this.#link;
    for (const { button, link } of this.#presets) {
      button.setAttribute('aria-pressed', String(!isCut && sameLink(link, this.#link)));
    }
    for (const button of this.#cuts) button.textContent = isCut ? 'Connect again' : 'Cut the link';
    element('chat-link-note', HTMLElement).textContent = linkSentence(this.#link);
  }
}

function showSlider(slider: HTMLInputElement, position: number, words: string): void {
  slider.valueAsNumber = position;
  slider.setAttribute('aria-valuetext', words);
  const share = slider.valueAsNumber / Number(slider.max);
  slider.style.setProperty('--share', String(share));
  element(`${slider.id}-value`, HTMLOutputElement).textContent = words;
}
