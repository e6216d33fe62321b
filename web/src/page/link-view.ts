import type { Link } from '../outrider/index.js';
import { element, make } from './elements.js';
import { formatMilliseconds, formatRate } from './format.js';
import { sameLink } from './prediction.js';
import { positionOf, rateAt, rateSteps } from './scale.js';
import { linkSentence } from './sentences.js';
import { linkPresets } from './settings.js';

/**
 * The link panel: two logarithmic rates and a round trip, each with its value in words. Beside the chat there are its
 * presets alone, and a button that cuts the link.
 */
export class LinkView {
  readonly #uplink = element('uplink', HTMLInputElement);
  readonly #downlink = element('downlink', HTMLInputElement);
  readonly #roundTrip = element('round-trip', HTMLInputElement);
  readonly #presets: { button: HTMLButtonElement; link: Link }[] = [];
  readonly #cut = make('button', { type: 'button', class: 'small' });
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
      for (const { name, link: preset } of linkPresets) {
        const button = make('button', { type: 'button', class: place === beside ? 'small' : '' }, name);
        button.addEventListener('click', () => change(preset));
        this.#presets.push({ button, link: preset });
        place.append(button);
      }
    }
    this.#cut.addEventListener('click', () => change({ isCut: !this.#link.isCut }));
    beside.append(this.#cut);
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
    this.#cut.textContent = isCut ? 'Connect again' : 'Cut the link';
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
