// Files that the page saves.

/** Saves a file through the browser. */
export function save(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Style properties that a picture needs without the page's style sheets. */
const looks = [
  ...['color', 'fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap'],
  ...['font-family', 'font-size', 'opacity'],
];
const GAP = 12;
const PIXELS = 2;

/** Drawings of the page, one below the other, as one picture in the page's colours. */
export async function pngOf(drawings: readonly SVGSVGElement[]): Promise<Blob> {
  const shown = drawings.map((svg) => ({ svg, ...sizeOf(svg), title: svg.getAttribute('aria-label') ?? '' }));
  const width = Math.max(1, ...shown.map(({ width }) => width));
  const height = shown.reduce((sum, { height }) => sum + height + 2 * GAP + 6, GAP);
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [(width + 2 * GAP) * PIXELS, height * PIXELS];
  const context = canvas.getContext('2d');
  if (!context) throw new Error('this browser does not draw');
  context.scale(PIXELS, PIXELS);
  const { backgroundColor, color } = getComputedStyle(document.querySelector('.panel') ?? document.body);
  context.fillStyle = backgroundColor;
  context.fillRect(0, 0, width + 2 * GAP, height);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  let y = GAP;
  for (const { svg, width, height, title } of shown) {
    context.fillStyle = color;
    context.fillText(title, GAP, y + 8, canvas.width / PIXELS - 2 * GAP);
    context.drawImage(await imageOf(svg, width, height), GAP, y + 14, width, height);
    y += height + 2 * GAP + 6;
  }
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('the picture could not be made'))));
  });
}

function sizeOf(svg: SVGSVGElement): { width: number; height: number } {
  const { width, height } = svg.getBoundingClientRect();
  return { width: Math.ceil(width), height: Math.ceil(height) };
}

async function imageOf(svg: SVGSVGElement, width: number, height: number): Promise<HTMLImageElement> {
  const copy = styledCopy(svg);
  // Patterns are the page's.
  const patterns = document.querySelector('#patterns');
  if (patterns) copy.prepend(...styledCopy(patterns).children);
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.setAttribute('width', String(width));
  copy.setAttribute('height', String(height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(copy.outerHTML)}`;
  await image.decode();
  return image;
}

/** Copies an element so that it looks the same without the page's style sheets. */
function styledCopy(original: Element): Element {
  const copy = original.cloneNode(true) as Element;
  const copied = copy.querySelectorAll<SVGElement>('*');
  original.querySelectorAll('*').forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const look of looks) copied[index]?.style.setProperty(look, style.getPropertyValue(look));
  });
  return copy;
}
