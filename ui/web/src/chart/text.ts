// How wide a text is drawn.

let context: CanvasRenderingContext2D | null | undefined;

/** The width in pixels of a text in the page's font, semibold. */
export function textWidth(text: string, size: number): number {
  if (context === undefined) {
    context = document.createElement('canvas').getContext('2d');
  }
  if (!context) return text.length * size * 0.62;
  const family = getComputedStyle(document.body).fontFamily || 'sans-serif';
  context.font = `600 ${size}px ${family}`;
  return context.measureText(text).width;
}
