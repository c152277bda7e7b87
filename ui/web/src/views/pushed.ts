// What a control-plane study measured beside time: what was sent for changes,
// what a proxy holds and who brought it, and what changes cost.

import { bars, type BarRow } from '../chart/bars';
import type { Chart } from '../chart/figure';
import type { ControlSummary, Holding, OwnerBytes, Profile, ProfileCost } from '../documents';
import { h, type Child } from '../dom';
import { count, fixed, percent, plain, plural, scaleFor, value } from '../format';
import type { Model } from '../model';
import { controlled, keys, pieces, type Controlled } from './control';
import { tickText } from './overhead';
import { folded, Live, nothing, section, table, type CellText, type Slice, type View } from './parts';

/** What was sent for the changes, and what a proxy holds. */
export function amplification(model: Model, slice: Slice): View | null {
  if (!model.cells.some((c) => Object.keys(c.control?.wire ?? {}).length > 0 || total(c.control?.config_bytes) > 0)) return null;
  const live = new Live((selection, chart) => {
    const shown = controlled(slice.cells(selection));
    if (shown.length === 0) return [nothing()];
    const scoped = shown.some((c) => total(c.control.scope_config_bytes) > 0 && total(c.control.scope_config_bytes) !== total(c.control.config_bytes));
    return [
      ...(shown.some((c) => total(c.control.config_bytes) > 0) ? configuration(model, shown, 'Configuration that a proxy holds', (c) => c.config_bytes, chart) : []),
      ...(scoped ? configuration(model, shown, 'Configuration that a proxy holds in the namespace of the Sidecar', (c) => c.scope_config_bytes, chart) : []),
      joinTable(model, shown),
      ownersTable(model, shown),
      wireTable(model, shown),
    ];
  });
  return {
    element: section('amplification', 'What is pushed', h('p', { class: 'lead' }, 'A push of configuration that the proxy already has is wasted work.'), h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}

type Sizes = Readonly<Record<string, number>> | null | undefined;

const total = (sizes: Sizes): number => Object.values(sizes ?? {}).reduce((a, b) => a + b, 0);

/** Bars of what proxies hold, by type. */
function configuration(model: Model, shown: readonly Controlled[], title: string, of: (c: ControlSummary) => Sizes, chart: (c: Chart) => HTMLElement): Child[] {
  const cells = shown.map((c) => c.cell);
  const types = sizedTypes(shown, of);
  const scale = scaleFor('bytes', Math.max(...shown.map((c) => total(of(c.control)))));
  const rows: BarRow[] = shown.map(({ cell, control }) => ({
    label: model.label(cell.cell, cells), says: value(scale, total(of(control))),
    pieces: pieces(types, (t) => of(control)?.[t] ?? 0, scale, (t) => t.toUpperCase()),
  }));
  return [
    h('h3', {}, title),
    keys(types, (t) => t.toUpperCase()),
    chart(bars({ name: `${title}, by cell, stacked by type`, title: `bytes on the wire, ${scale.unit}`, rows, format: tickText })),
  ];
}

/** Types that any cell has bytes of. */
const sizedTypes = (shown: readonly Controlled[], of: (c: ControlSummary) => Sizes): string[] => [...new Set(shown.flatMap((c) => Object.entries(of(c.control) ?? {}).filter(([, bytes]) => bytes > 0).map(([type]) => type)))].sort();

/** What a new proxy's first configuration took; nothing where none joined. */
function joinTable(model: Model, shown: readonly Controlled[]): HTMLElement | null {
  const joined = shown.filter((c) => (c.control.join_us ?? 0) > 0);
  if (joined.length === 0) return null;
  const cells = joined.map((c) => c.cell);
  const types = sizedTypes(joined, (c) => c.join_bytes);
  const time = scaleFor('us', Math.max(...joined.map((c) => c.control.join_us ?? 0)));
  const size = scaleFor('bytes', Math.max(...joined.map((c) => total(c.control.join_bytes))));
  return table(`A new proxy’s first configuration: time, and ${size.unit} by type`, [{ head: 'cell' }, { head: `from first request to last push, ${time.unit}`, number: true }, ...types.map((t) => ({ head: t.toUpperCase(), number: true })), { head: 'all', number: true }],
    joined.map(({ cell, control }): CellText[] => [
      model.label(cell.cell, cells), plain(time, control.join_us ?? 0), ...types.map((t) => plain(size, control.join_bytes?.[t] ?? 0)), plain(size, total(control.join_bytes)),
    ]));
}

/** How many owners of what one proxy holds have a row each. */
const SHOWN_OWNERS = 4;

/** Who brought what single proxies hold; nothing where nobody asked. */
function ownersTable(model: Model, shown: readonly Controlled[]): HTMLElement | null {
  const cells = shown.map((c) => c.cell);
  const holdings = shown.flatMap(({ cell, control }) => (control.holdings ?? []).map((held) => ({ cell, held })));
  if (holdings.length === 0) return null;
  const dump = scaleFor('bytes', Math.max(...holdings.map((one) => one.held.dump_bytes)));
  const wire = scaleFor('bytes', Math.max(...holdings.map((one) => one.held.wire_bytes ?? 0)));
  const rows = holdings.flatMap(({ cell, held }) => {
    const row = (owner: string, part: OwnerBytes, tone?: 'dim' | 'strong'): CellText[] => [
      model.label(cell.cell, cells), holderWords(held), tone ? { text: owner, tone } : owner, plain(dump, part.dump_bytes), percent(part.dump_bytes / held.dump_bytes),
      held.wire_bytes === undefined ? '–' : plain(wire, part.wire_bytes ?? 0), count(part.resources),
    ];
    const owners = held.owners ?? [];
    const [named, more] = [owners.slice(0, SHOWN_OWNERS), owners.slice(SHOWN_OWNERS)];
    const rest = [...more, held.others].reduce((a, b) => ({ dump_bytes: a.dump_bytes + b.dump_bytes, wire_bytes: (a.wire_bytes ?? 0) + (b.wire_bytes ?? 0), resources: a.resources + b.resources }));
    const others = more.length + (held.other_owners ?? 0);
    return [row('all', held, 'strong'), ...named.map((o) => row(o.owner ?? '', o)), ...(others > 0 ? [row(plural(others, 'more owner'), rest, 'dim')] : [])];
  });
  return folded('Proxy configuration by owner', table('Proxy configuration by owner', [{ head: 'cell' }, { head: 'proxy' }, { head: 'owner' }, ...[`JSON, ${dump.unit}`, 'share', `on the wire, ${wire.unit}`, 'resources'].map((head) => ({ head, number: true }))], rows),
    h('p', { class: 'key' }, 'JSON: for a simulated proxy, what Envoy would print for the same resources; for a real one, its config dump with endpoints and bootstrap, which does not show the size on the wire. All owners: meshtrial scope --run DIR.'));
}

/** Which proxy it is, and for how many it stands. */
function holderWords(held: Holding): string {
  const kind = held.type === 'router' ? 'gateway' : held.type;
  if (held.real) return `real ${kind} in ${held.namespace}`;
  return held.proxies === 1 ? `${kind} in ${held.namespace}` : `one of ${plural(held.proxies, kind)}, in ${held.namespace}`;
}

function wireTable(model: Model, shown: readonly Controlled[]): HTMLElement | null {
  const cells = shown.map((c) => c.cell);
  if (!shown.some((c) => Object.keys(c.control.wire ?? {}).length > 0)) return null;
  return table('Pushed for each change committed', [{ head: 'cell' }, { head: 'type' }, ...['pushes', 'bytes', 'resources', 'unchanged', 'acknowledged', 'rejected'].map((head) => ({ head, number: true }))],
    shown.flatMap(({ cell, control }) => {
      const each = Math.max(1, control.committed);
      const types = Object.keys(control.wire ?? {}).sort();
      return types.flatMap((type): CellText[][] => {
        const w = control.wire?.[type];
        if (!w || w.responses === 0) return [];
        return [[
          model.label(cell.cell, cells), type.toUpperCase(), plain({ div: 1, unit: '' }, w.responses / each), value(scaleFor('bytes', w.bytes / each), w.bytes / each),
          plain({ div: 1, unit: '' }, w.resources / each), percent(w.resources > 0 ? w.identical / w.resources : 0), plain({ div: 1, unit: '' }, w.acks / each),
          { text: plain({ div: 1, unit: '' }, w.nacks / each), ...(w.nacks > 0 ? { tone: 'bad' as const } : {}) },
        ]];
      });
    }));
}

/** What changes cost the control plane. */
export function controlCost(model: Model, slice: Slice): View | null {
  if (!model.cells.some((c) => (c.control?.heap_bytes ?? 0) > 0 || seconds(c.control?.istiod_cpu) > 0)) return null;
  const live = new Live((selection) => {
    const shown = controlled(slice.cells(selection));
    const cells = shown.map((c) => c.cell);
    if (shown.length === 0) return [nothing()];
    const each = (c: ControlSummary, s: number): string => value(scaleFor('us', (s * 1e6) / Math.max(1, c.committed)), (s * 1e6) / Math.max(1, c.committed));
    // Less than idle is noise, and no saving.
    const net = (c: ControlSummary, s: number): CellText => (s > 0 ? each(c, s) : { text: 'noise', tone: 'dim' });
    return [
      table('Cost of a change', [{ head: 'cell' }, ...['istiod CPU', 'kube-apiserver CPU', 'simulated proxies’ CPU', 'istiod idle', 'istiod heap', 'allocated', 'allocated per second', 'goroutines'].map((head) => ({ head, number: true }))],
        shown.map(({ cell, control: c }): CellText[] => [
          model.label(cell.cell, cells), net(c, seconds(c.istiod_cpu) - c.idle_cores * c.window_s),
          c.apiserver_cpu ? net(c, seconds(c.apiserver_cpu) - (c.apiserver_idle_cores ?? 0) * (c.apiserver_s ?? 0)) : '–',
          each(c, seconds(c.simulator_cpu)), value(scaleFor('cores', c.idle_cores), c.idle_cores), value(scaleFor('bytes', c.heap_bytes), c.heap_bytes),
          value(scaleFor('bytes', c.alloc_bytes / Math.max(1, c.committed)), c.alloc_bytes / Math.max(1, c.committed)),
          value(scaleFor('bytes', c.alloc_bytes / Math.max(1, c.window_s)), c.alloc_bytes / Math.max(1, c.window_s)),
          c.goroutines === 0 ? '–' : count(c.goroutines),
        ])),
      metricsTable(shown),
      ...shown.flatMap(({ cell, control }) => profiles(model.label(cell.cell, cells), control.profiles ?? [])),
    ];
  });
  return {
    element: section('control-cost', 'What a change costs', h('p', { class: 'lead' }, 'CPU time in the window per committed change, net of idle use, and memory at its end.'), h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}

const seconds = (cpu: { user_s: number; system_s: number } | undefined): number => (cpu ? cpu.user_s + cpu.system_s : 0);

/** Missing istiod metrics; nothing if they say all. */
function metricsTable(shown: readonly Controlled[]): HTMLElement | null {
  const names = (of: (c: ControlSummary) => readonly string[] | null | undefined): string[] => [...new Set(shown.flatMap((c) => of(c.control) ?? []))].sort();
  const rows = [
    ...names((c) => c.missing_metrics).map((name): CellText[] => [name, { text: 'this istiod does not export it: anything derived from it is missing, not zero', tone: 'bad' }]),
    ...names((c) => c.uncounted_metrics).map((name): CellText[] => [name, 'exported only after the first such error: zero, or unknown to this version']),
  ];
  if (rows.length === 0) return null;
  return folded('Missing istiod metrics', table('Missing istiod metrics', [{ head: 'metric' }, { head: 'what that means', prose: true }], rows));
}

const PROFILES: Readonly<Record<string, string>> = { cpu: 'CPU', mutex: 'waiting for locks', block: 'blocked', heap: 'memory in use' };

/** The dearest functions of a cell's profiles. */
function profiles(label: string, all: readonly Profile[]): Child[] {
  return all.filter((p) => p.total > 0).map((p) => {
    const what = `istiod ${String(p.replica)}, ${Object.hasOwn(PROFILES, p.kind) ? (PROFILES[p.kind] ?? p.kind) : p.kind}: ${label}`;
    const rows = (costs: readonly ProfileCost[] | null): CellText[][] => (costs ?? []).slice(0, 12).map((c) => [c.function, `${fixed((100 * c.flat) / p.total, 1)}%`, `${fixed((100 * c.cumulative) / p.total, 1)}%`]);
    const columns = [{ head: 'function', prose: true }, { head: 'self', number: true }, { head: 'cumulative', number: true }];
    return folded(`Profile: ${what}`, table(`${what}: top functions by self cost`, columns, rows(p.flat)), table(`${what}: top functions by cumulative cost`, columns, rows(p.cumulative)),
      p.flame === undefined ? null : h('p', {}, `Flame graph: profiles/${p.flame} in the run's directory.`));
  });
}
