// @vitest-environment happy-dom
import { beforeEach, expect, test } from 'vitest';
import { h } from '../src/dom';
import { showProfiles } from '../src/main';
import { changes, found, layout, matcher, shortName, tree, treeBefore, type Call, type ProfileView } from '../src/profile';

/** main calls a and b; a calls the kernel; b was cheaper before, and gone vanished. */
const view: ProfileView = {
  title: 'a proxy', kind: 'cpu', unit: 'nanoseconds', total: 100, samples: 10,
  names: ['main', 'a', 'b', 'tcp_sendmsg', '[envoy]', 'gone'], modules: ['/bin/x', '[kernel.kallsyms]', '/bin/envoy'],
  frame_name: [0, 1, 2, 3, 4, 5], frame_module: [0, 0, 0, 1, 2, 0], frame_flags: [0, 0, 2, 1, 4, 0],
  parent: [-1, 0, 1, 1, 2, 0, 1], frame: [-1, 0, 1, 2, 3, 4, 5],
  threads: ['wrk:worker_0', 'main'], sample_thread: [0, 0, 1, 1], sample_path: [2, 4, 3, 5], sample_weight: [10, 40, 30, 20],
  trust: 0.9, enough: true,
  costs: { total: 100, samples: 10, blocks: 5, method: 'Student’s t', centres: [{ group: 'kernel', name: 'network', weight: 40, share: 0.4, low: 0.3, high: 0.5, kernel: 0, within: 40 }],
    filters: [{ group: 'HTTP filter', name: 'fault', places: 2, share: 0, low: 0, high: 0, within: 0, seen: false }] },
  against: { title: 'yesterday', method: 'Welch’s t', before: { samples: 10, blocks: 5 }, after: { samples: 10, blocks: 5 }, path: [1, 3, 6], before_share: [1, 0.1, 0.2], after_share: [0.8, 0.3, 0], low: [-0.3, 0.1, -0.25], high: [0.1, 0.3, -0.15] },
};

const whole = { thread: -1, space: 'all', inverted: false } as const;
const draw = (c: Call): string => `${c.frame < 0 ? 'all' : (view.names?.[c.frame] ?? '')}=${c.total}${c.calls.size > 0 ? `(${[...c.calls.values()].map(draw).join(' ')})` : ''}`;

let root: HTMLElement;
beforeEach(() => {
  root = h('div');
  document.body.replaceChildren(root);
});

test('a tree has every sample once', () => {
  expect(draw(tree(view, whole))).toBe('all=100(main=80(a=50(tcp_sendmsg=40) b=30) [envoy]=20)');
});

test('by thread, by user and kernel, and from the innermost function', () => {
  expect(draw(tree(view, { ...whole, thread: 0 }))).toBe('all=50(main=50(a=50(tcp_sendmsg=40)))');
  expect(draw(tree(view, { ...whole, space: 'user' }))).toBe('all=100(main=80(a=50 b=30) [envoy]=20)');
  expect(draw(tree(view, { ...whole, space: 'kernel' }))).toBe('all=40(tcp_sendmsg=40)');
  expect(draw(tree(view, { ...whole, inverted: true }))).toBe('all=100(a=10(main=10) tcp_sendmsg=40(a=40(main=40)) b=30(main=30) [envoy]=20)');
});

test('what was before has the stacks that vanished', () => {
  if (!view.against) throw new Error('no difference');
  expect(draw(treeBefore(view, view.against))).toBe('all=100(main=100(b=10 gone=20))');
  expect(changes(view.against).get(6)?.after).toBe(0);
});

test('a search counts each sample once', () => {
  const t = tree(view, whole);
  expect(found(view, t, matcher('A') ?? (() => false))).toBe(80);
  expect(found(view, t, matcher('/^(b|tcp_)/') ?? (() => false))).toBe(70);
  expect(found(view, t, matcher('/(/') ?? (() => true))).toBe(0);
  expect(matcher('')).toBeUndefined();
});

test('boxes lie in those that call them', () => {
  const t = tree(view, whole);
  const boxes = layout(view, [t], 0);
  expect(boxes.map((b) => `${b.depth} ${b.from.toFixed(1)}-${b.to.toFixed(1)}`)).toEqual(['0 0.0-1.0', '1 0.0-0.2', '1 0.2-1.0', '2 0.2-0.7', '3 0.2-0.6', '2 0.7-1.0']);
  expect(layout(view, [t], 0.25)).toHaveLength(5);
  const main = [...t.calls.values()][0];
  if (!main) throw new Error('no call');
  const zoomed = layout(view, [t, main], 0);
  expect(zoomed.map((b) => b.above)).toEqual([true, false, false, false, false]);
  expect(zoomed[1]?.to).toBe(1);
});

test('names are cut where they tell least', () => {
  expect(shortName('Envoy::Http::ConnectionManagerImpl::onData(Envoy::Buffer::Instance&, bool)', 30)).toBe('ConnectionManagerImpl::onData');
  expect(shortName('istio.io/istio/pilot/pkg/xds.(*DiscoveryServer).Push', 30)).toBe('xds.(*DiscoveryServer).Push');
  expect(shortName('crypto/tls.(*Conn).Write', 12)).toBe('Conn.Write');
  expect(shortName('crypto/tls.(*Conn).Write', 6)).toBe('Write');
  expect(shortName('runtime.gcBgMarkWorker', 20)).toBe('gcBgMarkWorker');
  expect(shortName('k8s.io/x/wait.Until.func1', 12)).toBe('Until.func1');
  expect(shortName('finish_task_switch.isra.0', 12)).toBe('finish_task…');
  expect(shortName('<linkerd_stack::map_err::ResponseFuture<W,F> as core::future::future::Future>::poll', 25)).toBe('ResponseFuture::poll');
  expect(shortName('abcdefgh', 5)).toBe('abcd…');
});

test('the page of a profile draws, zooms, searches', () => {
  showProfiles(root, [view]);
  const boxes = (): Element[] => [...root.querySelectorAll('svg.flame g')];
  expect(boxes()).toHaveLength(6);
  expect(root.textContent).toContain('never seen');
  expect(root.textContent).toContain('vanished');
  boxes().find((b) => b.querySelector('title')?.textContent.startsWith('a ('))?.dispatchEvent(new MouseEvent('click', { bubbles: true }));
  expect(boxes()).toHaveLength(4);
  const reset = root.querySelector<HTMLButtonElement>('.flamebar button');
  expect(reset?.hidden).toBe(false);
  reset?.click();
  expect(boxes()).toHaveLength(6);
  const search = root.querySelector<HTMLInputElement>('input[type=search]');
  if (!search) throw new Error('no search');
  search.value = 'tcp_';
  search.dispatchEvent(new Event('input'));
  expect(root.querySelectorAll('svg.flame g.hit')).toHaveLength(1);
  expect(root.querySelector('[role=status]')?.textContent).toBe('40% of what is shown');
  expect(new XMLSerializer().serializeToString(root)).not.toMatch(/NaN|undefined|Infinity/);
});

test('without names it says so', () => {
  showProfiles(root, [{ ...view, enough: false, trust: 0.01, advice: ['Get debug files.'], against: null }]);
  expect(root.querySelector('.callout')?.textContent).toContain('Get debug files.');
});
