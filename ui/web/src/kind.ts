// What each kind of study calls things, where kinds differ. `findings.kind`
// says which kind a run is of; nothing else is asked.

export interface Kind {
  /** What a cell's median in each block is of. */
  readonly measured: string;
  /** The heading over differences to the baseline. */
  readonly differences: string;
  /** Differences without a valid block have no row. */
  readonly hidesInvalid: boolean;
  /** Parts of a trial that have another name than usual. */
  readonly parts: ReadonlyMap<string, string>;
}

const REQUESTS: Kind = { measured: 'latency', differences: 'Overhead', hidesInvalid: false, parts: new Map() };

const KINDS: Readonly<Record<string, Kind>> = {
  'data-plane': REQUESTS,
  // The only real sidecars are those that changes are read from.
  'control-plane': { measured: 'convergence', differences: 'Against the baseline', hidesInvalid: true, parts: new Map([['server_proxy', 'real sidecars']]) },
  resilience: REQUESTS,
};

export const kindOf = (name: string): Kind => (Object.hasOwn(KINDS, name) ? (KINDS[name] ?? REQUESTS) : REQUESTS);
