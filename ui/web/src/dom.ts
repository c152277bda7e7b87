// Elements without markup: every text becomes a text node, so that nothing
// in the data can be taken for HTML.

export type Child = Node | string | number | null | undefined | false | readonly Child[];
type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

const SVG = 'http://www.w3.org/2000/svg';

function fill(element: Element, attributes: Attributes, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'style') (element as HTMLElement | SVGElement).style.cssText = String(value); // the page's policy forbids the attribute in markup
    else element.setAttribute(name, value === true ? '' : visible(String(value)));
  }
  append(element, children);
}

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Spells out characters that hide or reorder text (controls, bidirectional
 * overrides), as the text report does; line ends and tabs stay.
 */
export function visible(text: string): string {
  return text.replace(HIDDEN, (c) => {
    if (c === '\n' || c === '\t') return c;
    const code = c.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** Appends nodes and texts; null, undefined and false are left out. */
export function append(parent: Node, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child as readonly Child[]);
    else if (child instanceof Node) parent.appendChild(child);
    else parent.appendChild(document.createTextNode(visible(String(child as string | number))));
  }
}

/** Makes an HTML element. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/** Makes an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

let last = 0;

/** An id that no other element of the page has. */
export function uniqueId(prefix: string): string {
  last += 1;
  return `${prefix}-${last}`;
}
