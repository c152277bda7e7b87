// @vitest-environment happy-dom
// What every page has, and that of a study of the data plane.

import { beforeEach, expect, test } from 'vitest';
import { append, h, visible } from '../src/dom';
import { show } from '../src/main';
import { broken, page, press, rows, source, tableOf, texts } from './fixtures';

let root: HTMLElement;
beforeEach(() => {
  root = h('div');
  document.body.replaceChildren(root);
});

test('text is text', () => {
  append(root, ['<b>bold</b>', h('p', { title: '"><img>' }, '<script>x</script>', 7, null, false, ['nested'])]);
  expect(root.querySelector('b, img, script')).toBeNull();
  expect(root.textContent).toBe('<b>bold</b><script>x</script>7nested');
});

test('what hides or reorders text is spelled out', () => {
  expect(visible('a\u202eb\u001b[31m\u200b')).toBe('a\\u202eb\\x1b[31m\\u200b');
  expect(visible('two\nlines\t·µ–')).toBe('two\nlines\t·µ–');
});

test('every section is there, with charts in it', () => {
  const given = page('data-plane');
  show(root, given);
  expect([...root.querySelectorAll('main > section')].map((e) => e.id)).toEqual(
    ['overhead', 'latency', 'published', 'cpu', 'threads', 'memory', 'money', 'validity', 'drift', 'conditions', 'findings', 'assertions', 'about', 'study']);
  expect(root.querySelectorAll('svg.plot').length).toBeGreaterThanOrEqual(8);
  expect(root.querySelector('#profiles h2')?.textContent).toContain('client');
  expect(root.querySelector('h1')?.textContent).toBe(given.answers?.[0]);
  expect(source(root)).not.toMatch(broken);
});

test('a run without anything in it is told, not stumbled over', () => {
  show(root, page('empty'));
  expect(root.textContent).toContain('Validity and noise');
  expect(root.querySelector('h1')?.textContent).toContain('none of 0 trials is valid');
  expect(source(root)).not.toMatch(broken);
});

test('the kind of study decides what is shown, not what its cells have', () => {
  const shown = (kind: string): string[] => {
    show(root, page('control-plane', { kind }));
    return [...root.querySelectorAll('main > section')].map((e) => e.id);
  };
  expect(shown('control-plane')[0]).toBe('convergence');
  expect(shown('data-plane')).not.toContain('convergence');
  expect(shown('data-plane')[0]).toBe('overhead');
  expect(shown('of another program')).toEqual(['validity', 'drift', 'findings', 'about', 'study']);
});

test('the distribution replaces the percentiles', () => {
  show(root, page('data-plane'));
  const before = root.querySelector('#latency svg.plot')?.getAttribute('aria-label');
  press(root, '#latency input[value=cdf]');
  expect(root.querySelector('#latency svg.plot')?.getAttribute('aria-label')).not.toBe(before);
});

test('every difference shows its figure and interval, whatever it is called', () => {
  show(root, page('data-plane'));
  const cells = [...root.querySelectorAll('#overhead table.data tbody td')].map((cell) => cell.textContent).filter((text) => text.includes('('));
  expect(cells.length).toBeGreaterThan(0);
  for (const text of cells) expect(text).toMatch(/^[−\d.,]+ \([−\d.,]+(–| to )[−\d.,]+\)/);
});

test('connections and machine state stand in a table', () => {
  show(root, page('data-plane'));
  expect(rows(root.querySelector('#conditions table'))[0]?.slice(-6)).toEqual(['17', '–', '1', '31%', '5%', '1%']);
  show(root, page('bill'));
  expect(root.querySelector('#conditions')).toBeNull(); // this run recorded neither
});

test('threads stand with their switches, and what holds a proxy back', () => {
  show(root, page('data-plane'));
  expect(root.querySelector('#threads')?.textContent).toContain('concurrency of 2 limits it');
  expect(texts(root, '#threads table tbody tr').some((row) => row.includes('95%'))).toBe(true);
});

test('an invalid trial is counted with its reason', () => {
  show(root, page('data-plane'));
  expect(root.querySelector('#validity')?.textContent).toContain('schedule lag');
  expect(tableOf(root, 'Latency').textContent).toContain('3/4');
});
