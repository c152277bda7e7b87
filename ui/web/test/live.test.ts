// @vitest-environment happy-dom
// Pages that are served follow their server.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Page, Status } from '../src/documents';
import { h } from '../src/dom';
import { follow } from '../src/live';
import { Report } from '../src/page';
import { page, press } from './fixtures';

let root: HTMLElement;
beforeEach(() => {
  root = h('div');
  document.body.replaceChildren(root);
});
afterEach(() => {
  vi.unstubAllGlobals();
});

/** A document in which only one section has changed. */
const newer = (old: Page, name: string): Page => ({ ...old, sections: (old.sections ?? []).map((s) => (s.name === name ? { ...s, lead: 'It has changed.' } : s)) });

test('a newer document replaces what has changed, and leaves the rest', () => {
  const report = new Report(root);
  const first = page('data-plane');
  report.draw(first);
  press(root, '#latency input[value=distribution]');
  root.querySelector<HTMLInputElement>('.filters input')?.click();
  const details = root.querySelector('#latency details');
  details?.setAttribute('open', '');
  const [latency, cpu] = [root.querySelector('#latency'), root.querySelector('#cpu')];
  const shown = root.querySelector('.filters .status')?.textContent;
  report.draw(newer(first, 'latency'));
  const now = root.querySelector('#latency');
  expect(now).not.toBe(latency);
  expect(now?.querySelector('.lead')?.textContent).toBe('It has changed.');
  expect(root.querySelector('#cpu')).toBe(cpu);
  expect(now?.querySelector('details')?.hasAttribute('open')).toBe(true);
  expect(now?.querySelector<HTMLInputElement>('input[value=distribution]')?.checked).toBe(true);
  expect(root.querySelector('.filters .status')?.textContent).toBe(shown);
  expect(root.querySelector<HTMLInputElement>('.filters input')?.checked).toBe(false);
});

test('sections come and go in the order of the document', () => {
  const report = new Report(root);
  const all = page('data-plane');
  const some = { ...all, sections: (all.sections ?? []).filter((_, i) => i % 2 === 1), warnings: ['one'], answers: ['a headline'] };
  const titles = (): string[] => [...root.querySelectorAll('main > section > h2')].map((e) => e.textContent);
  const want = (p: Page): string[] => [...(p.sections ?? []).map((s) => s.title), 'Study'];
  for (const one of [some, all, some]) {
    report.draw(one);
    expect(titles()).toEqual(want(one));
    expect([...root.children].map((e) => e.tagName)).toEqual(['A', 'HEADER', 'FORM', 'MAIN', 'FOOTER']);
    expect(root.querySelectorAll('h1')).toHaveLength(1);
  }
});

/** A server: what it has, and what it was sent. */
class Server {
  documents: Page = page('empty');
  refuse = '';
  readonly asked: string[] = [];
  events: { onmessage?: (e: { data: string }) => void; onerror?: () => void; readyState: number } = { readyState: 0 };
  connections = 0;

  constructor() {
    // eslint-disable-next-line @typescript-eslint/no-this-alias
    const server = this;
    vi.stubGlobal('EventSource', class {
      static readonly CLOSED = 2;
      onmessage?: (e: { data: string }) => void;
      onerror?: () => void;
      readyState = 1;

      constructor() {
        server.events = this;
        server.connections++;
      }

      close(): void {
        this.readyState = 2;
      }
    });
    vi.stubGlobal('fetch', (path: string, init?: { body?: string }) => {
      this.asked.push(`${path} ${init?.body ?? ''}`.trim());
      const [ok, value] = this.refuse === '' ? [true, path.startsWith('act') ? {} : this.documents] : [false, { error: this.refuse, hint: 'a hint' }];
      return Promise.resolve({ ok, statusText: 'no', json: () => Promise.resolve(value) });
    });
  }

  async send(version: string, status?: Status): Promise<void> {
    this.events.onmessage?.({ data: JSON.stringify({ version, status }) });
    await vi.waitFor(() => {
      expect(root.getAttribute('data-ready') === version || root.querySelector('[role=alert]') !== null).toBe(true);
    });
  }
}

const going: Status = { title: 'Block 1 of at most 4', step: 'warming up', share: 0.25, going: true, stop: true, run: 'abc', facts: [{ name: 'trials', text: '3 trials, all valid' }] };

test('it draws the document whenever its version changes, and the status at once', async () => {
  const server = new Server();
  server.documents = { ...page('data-plane'), provisional: 'Not yet.', live: { status: going } };
  follow(root);
  await server.send('1', going);
  expect(root.querySelector('.standing .title')?.textContent).toBe('Block 1 of at most 4');
  expect(root.querySelector('.provisional')?.textContent).toBe('Not yet.');
  expect(root.querySelectorAll('#latency')).toHaveLength(1);
  await server.send('1', { ...going, step: 'measuring' });
  expect(root.querySelector('.step')?.textContent).toBe('measuring');
  expect(server.asked).toEqual(['page.json']);
  server.documents = newer(server.documents, 'latency');
  await server.send('2', going);
  expect(root.querySelector('#latency .lead')?.textContent).toBe('It has changed.');
  server.events.onerror?.();
  expect(root.querySelector('[role=alert]')?.textContent).toContain('Connection lost');
  await server.send('3', { ...going, going: false, stop: false, last: true, title: 'The run has ended' });
  expect(root.querySelector('[role=alert], progress, .standing button')).toBeNull();
  await vi.waitFor(() => {
    expect(server.events.readyState).toBe(2);
  });
});

test('it asks again for a document that it did not get', async () => {
  const server = new Server();
  server.refuse = 'a trial begins';
  vi.useFakeTimers();
  try {
    follow(root);
    await server.send('1', going);
    expect(root.querySelector('[role=alert]')?.textContent).toContain('a trial begins');
    server.refuse = '';
    await vi.advanceTimersByTimeAsync(5000);
    expect(root.getAttribute('data-ready')).toBe('1');
    expect(root.querySelector('[role=alert]')).toBeNull();
  } finally {
    vi.useRealTimers();
  }
  expect(server.asked).toHaveLength(2);
});

test('a hidden page stays connected until its run has ended', async () => {
  const server = new Server();
  let hidden = false;
  vi.spyOn(document, 'hidden', 'get').mockImplementation(() => hidden);
  const show = (yes: boolean): void => {
    hidden = !yes;
    document.dispatchEvent(new Event('visibilitychange'));
  };
  follow(root);
  await server.send('1', going);
  show(false);
  expect(server.events.readyState).toBe(1);
  show(true);
  expect(server.connections).toBe(1);
  show(false);
  await server.send('2', { ...going, going: false, stop: false });
  await vi.waitFor(() => {
    expect(server.events.readyState).toBe(2);
  });
  show(true);
  expect(server.connections).toBe(2);
  vi.restoreAllMocks();
});

test('without its server it offers nothing', async () => {
  const server = new Server();
  server.documents = { ...page('empty'), live: { status: going, startable: ['quick'] } };
  follow(root);
  await server.send('1');
  expect(root.querySelectorAll('progress, .standing button')).toHaveLength(2);
  server.events.readyState = 2;
  server.events.onerror?.();
  expect(root.querySelector('[role=alert]')?.textContent).toContain('The server has ended or refuses this page');
  expect(root.querySelector('progress, .standing button')).toBeNull();
  await server.send('2');
  expect(root.querySelectorAll('progress, .standing button')).toHaveLength(2);
  expect(root.querySelector('.list')?.hasAttribute('inert')).toBe(false);
  await server.send('2', { title: '', share: 0, last: true });
  expect(root.querySelector('progress, .standing button, [role=alert]')).toBeNull();
  expect(root.querySelector('.now')?.textContent).toContain('The server has ended.');
  expect(root.querySelector('.list')?.hasAttribute('inert')).toBe(true);
});

test('it asks the server to stop, and says what it answers', async () => {
  const server = new Server();
  follow(root);
  await server.send('1', going);
  server.refuse = 'this server is not running that run';
  root.querySelector<HTMLButtonElement>('.acts button')?.click();
  await vi.waitFor(() => {
    expect(root.querySelector('[role=alert]')?.textContent).toContain('not running that runa hint');
  });
  expect(server.asked.at(-1)).toBe('act {"do":"stop","run":"abc"}');
});

test('it says that it waits for a document', async () => {
  const server = new Server();
  let answer: () => void = () => undefined;
  vi.stubGlobal('fetch', () => new Promise((done) => {
    answer = () => {
      done({ ok: true, json: () => Promise.resolve(page('empty')) });
    };
  }));
  vi.useFakeTimers();
  follow(root);
  server.events.onmessage?.({ data: '{"version":"1"}' });
  expect(root.querySelector('.now .note')).toBeNull();
  vi.advanceTimersByTime(1100);
  expect(root.querySelector('.now .note')?.textContent).toContain('Waiting');
  vi.useRealTimers();
  answer();
  await vi.waitFor(() => {
    expect(root.querySelector('.now .note')).toBeNull();
  });
});

test('names of runs and studies stay text', async () => {
  const server = new Server();
  const name = '"><img src=x onerror=alert(1)>';
  server.documents = { ...page('empty'), live: { studies: [name], startable: [name], across: ['versions'], runs: ['a', 'b', 'c'].map((id) => ({ id, name, study: name, started: '', state: '', answer: name })) } };
  follow(root);
  await server.send('1');
  expect(root.querySelector('img')).toBeNull();
  expect(root.querySelectorAll('.list tbody tr')).toHaveLength(3);
  const go = root.querySelector<HTMLButtonElement>('.list .controls button');
  const boxes = [...root.querySelectorAll<HTMLInputElement>('.list tbody input')];
  expect(go?.disabled).toBe(true);
  boxes[0]?.click();
  boxes[2]?.click();
  expect(go?.disabled).toBe(false);
  boxes[1]?.click();
  expect(go?.disabled).toBe(true);
  expect([...root.querySelectorAll('.list a')].every((a) => /^\?(run|trend)=[a-zA-Z0-9%.()]+$/.test(a.getAttribute('href') ?? ''))).toBe(true);
});
