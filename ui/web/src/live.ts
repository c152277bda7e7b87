// A page that is served: it asks its server for its document, and draws it again
// whenever the server says that it has changed.

import type { Link, ListedRun, Live, Page, Status } from './documents';
import { append, h, visible, type Child } from './dom';
import { Report, section } from './page';

/** What the server sends when something has changed. */
interface State {
  readonly version: string;
  readonly status?: Status | null;
}

/** Milliseconds after which the page says that it waits. */
const SLOW = 1000;

/** Milliseconds after which a document that could not be had is asked for again. */
const RETRY = 5000;

/** Draws what the page's address names, and keeps it up to date. */
export function follow(root: HTMLElement): void {
  const bar = new Bar();
  const list = new List();
  const body = h('div', {});
  append(root, [bar.element, body]);
  const report = new Report(body, list.element);
  const query = location.search;
  let shown: string | undefined;
  let wanted = '';
  let loading: Promise<void> | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let source: EventSource | undefined;
  let last = false;

  const reload = async (): Promise<void> => {
    while (shown !== wanted) {
      const version = wanted;
      const slow = setTimeout(() => {
        bar.waits();
      }, SLOW);
      try {
        const page = await ask<Page>(`page.json${query}`);
        document.title = visible(`${page.title} · meshtrial`);
        report.draw(page);
        list.draw(page.live ?? null);
        bar.document(page.live ?? null);
        body.classList.toggle('is-provisional', (page.provisional ?? '') !== '');
        shown = version;
      } catch (error) {
        bar.problem(error);
        if (!last) {
          retry ??= setTimeout(() => {
            retry = undefined;
            if (source?.readyState !== EventSource.CLOSED) void load();
          }, RETRY);
        }
        break;
      } finally {
        clearTimeout(slow);
      }
      root.setAttribute('data-ready', version);
    }
  };
  const load = (): Promise<void> => {
    loading ??= reload().finally(() => {
      loading = undefined;
    });
    return loading;
  };

  // A browser keeps few connections to a server: a page that nobody looks at gives its up, unless
  // its run goes on, whose end it is to show.
  const spare = (): void => {
    if (document.hidden && !bar.going) source?.close();
  };
  const connect = (): void => {
    const events = new EventSource(`events${query}`);
    source = events;
    events.onmessage = (event: MessageEvent<string>) => {
      const state = JSON.parse(event.data) as State;
      last = state.status?.last === true;
      bar.connected(state.status ?? null);
      list.element.toggleAttribute('inert', last);
      wanted = state.version;
      void load().then(() => {
        if (last) events.close();
        else spare();
      });
    };
    events.onerror = () => {
      const over = events.readyState === EventSource.CLOSED;
      list.element.toggleAttribute('inert', over);
      bar.lost(over);
    };
  };
  document.addEventListener('visibilitychange', () => {
    spare();
    if (!document.hidden && !last && source?.readyState === EventSource.CLOSED) connect();
  });
  connect();
}

/** An error with what can be done about it. */
class Problem extends Error {
  constructor(text: string, readonly hint: string) {
    super(text);
  }
}

async function ask<T>(path: string, body?: object): Promise<T> {
  const answer = await fetch(path, body ? { method: 'POST', body: JSON.stringify(body) } : {});
  const value: unknown = await answer.json();
  if (answer.ok) return value as T;
  const { error, hint } = value as { readonly error?: string; readonly hint?: string };
  throw new Problem(error ?? answer.statusText, hint ?? '');
}

/** Where the run stands, above everything else. */
class Bar {
  readonly element = h('div', { class: 'now', role: 'region', 'aria-label': 'Where the run stands' });
  private links: readonly Link[] = [];
  private index = false;
  private ofDocument: Status | null = null;
  private ofServer: Status | null = null;
  private trouble: Child = null;
  private waiting = false;
  private over = false; // for all that the page knows
  private drawn = '';

  document(live: Live | null): void {
    this.links = live?.links ?? [];
    this.index = (live?.across ?? []).length > 0;
    this.ofDocument = live?.status ?? null;
    this.trouble = null;
    this.waiting = false;
    this.draw();
  }

  connected(status: Status | null): void {
    this.ofServer = status;
    this.over = status?.last === true;
    this.trouble = null;
    this.draw();
  }

  /** The connection is lost, and over if the browser does not reconnect. */
  lost(over: boolean): void {
    this.over = over;
    this.waiting = false;
    this.trouble = over ? "The server has ended or refuses this page; the report is in the run's directory (report.html)."
      : 'Connection lost. This page shows the last update and reconnects when the server is back.';
    this.draw();
  }

  /** Whether there is more to come of the run. */
  get going(): boolean {
    return this.status?.going === true && !this.over;
  }

  private get status(): Status | null {
    return this.ofServer && this.ofServer.title !== '' ? this.ofServer : this.ofDocument;
  }

  waits(): void {
    this.waiting = true;
    this.draw();
  }

  problem(error: unknown): void {
    this.waiting = false;
    this.trouble = error instanceof Problem ? [error.message, error.hint !== '' && h('span', { class: 'note' }, error.hint)] : String(error);
    this.draw();
  }

  private draw(): void {
    const status = this.status;
    const text = JSON.stringify([status, this.links, this.index, this.waiting, this.over]) + (this.trouble === null ? '' : String(Date.now()));
    if (text === this.drawn) return;
    this.drawn = text;
    const focused = this.element.contains(document.activeElement) ? document.activeElement?.textContent : null;
    this.element.replaceChildren();
    append(this.element, [
      this.links.length > 0 && h('nav', { 'aria-label': 'Other pages' }, this.links.map((l) => h('a', { href: address(l.query) }, l.text))),
      status && this.standing(status),
      this.ofServer?.last === true && h('p', { class: 'note', role: 'status' }, 'The server has ended.'),
      this.waiting && h('p', { class: 'note', role: 'status' }, 'Waiting for the server: it reads the runs, or first lets a trial end.'),
      this.trouble !== null && h('p', { class: 'callout bad', role: 'alert' }, this.trouble),
    ]);
    for (const e of this.element.querySelectorAll<HTMLElement>('a, button')) if (focused !== null && e.textContent === focused) e.focus();
  }

  private standing(status: Status): HTMLElement {
    const act = (text: string, what: string): HTMLElement => button(text, () => {
      ask('act', { do: what, run: status.run ?? '' }).catch((error: unknown) => {
        this.problem(error);
      });
    });
    const going = this.going;
    return h('div', { class: going ? 'standing going' : 'standing' },
      h('p', { class: 'title', role: 'status' }, status.title),
      going && h('progress', { max: 1, value: status.share, 'aria-label': 'Share of the trials that the study has at most' }),
      (status.step ?? '') !== '' && h('p', { class: 'step' }, status.step),
      (status.facts ?? []).length > 0 && h('dl', { class: 'facts' }, (status.facts ?? []).map((f) => h('div', {}, h('dt', {}, f.name), h('dd', {}, f.text)))),
      h('p', { class: 'acts' }, !this.over && status.stop && act('Stop the run', 'stop'), !this.over && status.resume && act('Resume the run', 'resume'),
        this.index && (status.run ?? '') !== '' && h('a', { href: `?run=${encodeURIComponent(status.run ?? '')}` }, 'Look at this run')));
  }
}

function button(text: string, press: () => void): HTMLButtonElement {
  const e = h('button', { type: 'button' }, text);
  e.addEventListener('click', press);
  return e;
}

/** An address on this server: a query, whatever it was given. */
const address = (query: string): string => `?${query.replace(/^\?/, '')}`;

/** The runs of an index. Any two can be chosen, and compared; each study has a trend. */
class List {
  readonly element = h('div', { class: 'list' });
  private readonly chosen = new Set<string>();
  private readonly across = new Set<string>();
  private drawn = '';

  draw(live: Live | null): void {
    const text = JSON.stringify([live?.runs, live?.studies, live?.startable, live?.across]);
    if (text === this.drawn) return;
    this.drawn = text;
    this.element.replaceChildren();
    if (!live?.studies && !live?.startable) return;
    append(this.element, [this.runs(live), this.trends(live), this.start(live.startable ?? [])]);
  }

  private runs(live: Live): HTMLElement | null {
    const runs = live.runs ?? [];
    if (runs.length === 0) return null;
    const go = button('Compare the two', () => {
      // The older is side A; the newest run is the first of the list.
      const two = runs.filter((r) => this.chosen.has(r.id)).reverse().map((r) => `compare=${r.id}`);
      location.search = [...two, ...this.spanning()].join('&');
    });
    const apply = (): void => {
      go.disabled = this.chosen.size !== 2;
    };
    for (const id of [...this.chosen]) if (!runs.some((r) => r.id === id)) this.chosen.delete(id);
    apply();
    return section('runs', 'Runs', h('div', { class: 'scroll', role: 'region', 'aria-label': 'Table of runs', tabindex: 0 }, h('table', { class: 'data' },
      h('thead', {}, h('tr', {}, ['run', 'study', 'started', 'state', 'answer', 'compare'].map((head) => h('th', { scope: 'col' }, head)))),
      h('tbody', {}, runs.map((run) => this.row(run, apply))))),
      h('div', { class: 'controls' }, go, this.spans(live)));
  }

  private row(run: ListedRun, changed: () => void): HTMLElement {
    const box = h('input', { type: 'checkbox', 'aria-label': `Compare ${run.name}`, checked: this.chosen.has(run.id) });
    box.addEventListener('change', () => {
      if (box.checked) this.chosen.add(run.id);
      else this.chosen.delete(run.id);
      changed();
    });
    return h('tr', {}, h('th', { scope: 'row' }, h('a', { href: `?run=${encodeURIComponent(run.id)}` }, run.name)), h('td', {}, run.study), h('td', {}, run.started),
      h('td', {}, run.state), h('td', { class: run.bad ? 'prose bad' : 'prose' }, run.answer), h('td', {}, box));
  }

  /** Differences in spite of which runs are compared. */
  private spans(live: Live): HTMLElement | null {
    const all = live.across ?? [];
    if (all.length === 0) return null;
    return h('fieldset', { class: 'joined' }, h('legend', {}, 'Join runs that differ in'), all.map((name) => {
      const box = h('input', { type: 'checkbox', checked: this.across.has(name) });
      box.addEventListener('change', () => {
        if (box.checked) this.across.add(name);
        else this.across.delete(name);
      });
      return h('label', {}, box, name);
    }));
  }

  private spanning(): string[] {
    return [...this.across].map((name) => `across=${encodeURIComponent(name)}`);
  }

  private trends(live: Live): HTMLElement | null {
    const studies = live.studies ?? [];
    if (studies.length === 0) return null;
    return section('trends', 'From run to run', h('ul', {}, studies.map((name) => {
      const link = h('a', { href: `?trend=${encodeURIComponent(name)}` }, name);
      link.addEventListener('click', (event) => {
        if (this.across.size === 0) return;
        event.preventDefault();
        location.search = [`trend=${encodeURIComponent(name)}`, ...this.spanning()].join('&');
      });
      return h('li', {}, link);
    })));
  }

  private start(studies: readonly string[]): HTMLElement | null {
    if (studies.length === 0) return null;
    const select = h('select', { id: 'study-to-start' }, studies.map((name) => h('option', { value: name }, name)));
    const answer = h('p', { class: 'status', role: 'status' });
    const go = button('Start', () => {
      answer.textContent = '';
      ask('act', { do: 'start', study: select.value }).then(() => {
        answer.textContent = 'It begins.';
      }, (error: unknown) => {
        answer.textContent = error instanceof Problem ? `${error.message}. ${error.hint}` : String(error);
      });
    });
    return section('start', 'Start a run', h('div', { class: 'controls' }, h('label', { class: 'field', for: select.id }, h('span', {}, 'Study'), select), go), answer);
  }
}
