// @vitest-environment happy-dom
import { beforeEach, expect, test } from 'vitest';
import { h } from '../src/dom';
import { profile } from '../src/flame';
import { show } from '../src/page';
import { changes, found, layout, matcher, shortName, tree, treeBefore, type Call } from '../src/profile';
import { broken, profilePage, profileView, source } from './fixtures';

/** main calls a and b; a calls the kernel; b was dearer before, and gone vanished; a library has no names. */
const view = profileView();

const whole = { thread: -1, space: 'all', inverted: false } as const;
const draw = (c: Call): string => `${c.frame < 0 ? 'all' : (view.names?.[c.frame] ?? '')}=${c.total.toFixed(0)}${c.calls.size > 0 ? `(${[...c.calls.values()].map(draw).join(' ')})` : ''}`;

let root: HTMLElement;
beforeEach(() => {
  root = h('div');
  document.body.replaceChildren(root);
});

test('a tree has every sample once', () => {
  expect(draw(tree(view, whole))).toBe('all=4000(main=3240(a=2040(tcp_sendmsg=1640) b=1200) [libx.so]=760)');
});

test('by thread, by user and kernel, and from the innermost function', () => {
  expect(draw(tree(view, { ...whole, thread: 0 }))).toBe('all=2040(main=2040(a=2040(tcp_sendmsg=1640)))');
  expect(draw(tree(view, { ...whole, space: 'user' }))).toBe('all=4000(main=3240(a=2040 b=1200) [libx.so]=760)');
  expect(draw(tree(view, { ...whole, space: 'kernel' }))).toBe('all=1640(tcp_sendmsg=1640)');
  expect(draw(tree(view, { ...whole, inverted: true }))).toBe('all=4000(a=400(main=400) tcp_sendmsg=1640(a=1640(main=1640)) b=1200(main=1200) [libx.so]=760)');
});

test('what was before has the stacks that vanished', () => {
  if (!view.against) throw new Error('no difference');
  expect(draw(treeBefore(view, view.against))).toBe('all=4000(main=3457(a=1457(tcp_sendmsg=1171) b=1429 gone=571) [libx.so]=543)');
  expect(changes(view.against).get(6)?.after).toBe(0);
});

test('a search counts each sample once', () => {
  const t = tree(view, whole);
  expect(found(view, t, matcher('A') ?? (() => false))).toBe(3240);
  expect(found(view, t, matcher('/^(b|tcp_)/') ?? (() => false))).toBe(2840);
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
  show(root, profilePage());
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
  expect(root.querySelector('[role=status]')?.textContent).toBe('41% of what is shown');
  expect(source(root)).not.toMatch(broken);
});

test('without names it says so', () => {
  root.append(profile({ ...view, enough: false, trust: 0.01, advice: ['Get debug files.'] }));
  expect(root.querySelector('.callout')?.textContent).toContain('Get debug files.');
});
