package xds

import "github.com/meshtrial/meshtrial/record"

// Status is the state of a fleet.
type Status struct {
	Proxies   int `json:"proxies"`  // sidecars, gateways and ztunnels
	Gateways  int `json:"gateways"` // of these
	Ztunnels  int `json:"ztunnels,omitempty"`
	Connected int `json:"connected"` // with a stream that istiod has answered
	// Synced counts proxies that hold every type they subscribed to.
	Synced int `json:"synced"`
	// EverSynced counts proxies that have ever been synced.
	EverSynced int `json:"ever_synced"`
	// LastMessageUnixNS is when any proxy last received a response; 0: never.
	LastMessageUnixNS int64 `json:"last_message_unix_ns"`
	// LastChangeUnixNS is the same for responses that changed what a proxy holds.
	LastChangeUnixNS int64 `json:"last_change_unix_ns"`
	NowUnixNS        int64 `json:"now_unix_ns"`
	// Waiting counts disconnected proxies by the reason why they lost their stream.
	Waiting map[string]int `json:"waiting,omitempty"`
	// LastError is the latest failure in full.
	LastError string `json:"last_error,omitempty"`
	Markers   int    `json:"markers"` // announced
}

// Quiet reports whether all proxies are synced and none received anything for ns
// nanoseconds.
func (s Status) Quiet(ns int64) bool {
	return s.Synced == s.Proxies && s.NowUnixNS-s.LastMessageUnixNS >= ns
}

// MarkerSightings lists the proxies that saw one marker, in order. Times
// are nanoseconds since 1970 by the clock of the fleet's machine.
type MarkerSightings struct {
	Change int    `json:"change"`
	Marker int    `json:"marker"` // index in the order of announcement
	Type   string `json:"type"`
	Gone   bool   `json:"gone,omitempty"`

	Columns
	// Unknown counts contents that could not be searched because their bytes were no longer
	// kept: proxies may be missing.
	Unknown int `json:"unknown,omitempty"`
	// Stays lists proxies that received content that shows the change while they already
	// showed it. They exist for markers whose text was marked with the opposite sense before
	// (an endpoint that disappears and returns), and for proxies that had not seen the
	// change.
	Stays *Columns `json:"stays,omitempty"`
	// SearchedFromNS is the time from which responses were searched for the marker. If its
	// change was committed later, a late announcement does not matter. 0: since the start.
	SearchedFromNS int64 `json:"searched_from_unix_ns,omitempty"`
}

// Columns has an entry for each sighting in all of its columns. Among stays a proxy may have several
// entries. If it received such content after the change was committed, and before it ever showed the
// previous change, it received both together and has the change from then on.
type Columns struct {
	Proxy      []int32      `json:"proxy"`
	ReceivedNS []int64      `json:"received_unix_ns"`
	AckedNS    record.Times `json:"acked_unix_ns"` // Never: not acknowledged (yet)
}

// add appends an entry and returns its index.
func (c *Columns) add(proxy int32, received, acked int64) int32 {
	c.Proxy, c.ReceivedNS, c.AckedNS = append(c.Proxy, proxy), append(c.ReceivedNS, received), append(c.AckedNS, acked)
	return int32(len(c.Proxy) - 1)
}

// first returns a copy of the first n entries; its columns are not nil.
func (c *Columns) first(n int) Columns {
	return Columns{append([]int32{}, c.Proxy[:n]...), append([]int64{}, c.ReceivedNS[:n]...), append(record.Times{}, c.AckedNS[:n]...)}
}

func (c *Columns) even() bool {
	return len(c.ReceivedNS) == len(c.Proxy) && len(c.AckedNS) == len(c.Proxy)
}

// Even reports whether all columns have equal lengths.
func (m MarkerSightings) Even() bool { return m.even() && (m.Stays == nil || m.Stays.even()) }

// After adds the first stay of each proxy since the change was committed, by the fleet's
// clock, to the sightings.
func (m MarkerSightings) After(committedNS int64) MarkerSightings {
	if m.Stays == nil {
		return m
	}
	out := m
	out.Columns, out.Stays = m.first(len(m.Proxy)), nil
	at := make(map[int32]int, len(m.Proxy))
	for i, p := range m.Proxy {
		at[p] = i
	}
	for i, p := range m.Stays.Proxy {
		received, acked := m.Stays.ReceivedNS[i], m.Stays.AckedNS[i]
		if received < committedNS {
			continue
		}
		switch known, ok := at[p]; {
		case !ok:
			at[p] = int(out.add(p, received, acked))
		case received < out.ReceivedNS[known]:
			out.ReceivedNS[known], out.AckedNS[known] = received, acked
		}
	}
	return out
}

// Sources of an account's lag.
const (
	LagKernel = "kernel" // the kernel's receive timestamps
	LagTimer  = "timer"  // how late a goroutine that sleeps 50 ms wakes up
)

// Account holds the counters of a fleet since its start.
type Account struct {
	UnixNS     int64                  `json:"unix_ns"`
	Proxies    int                    `json:"proxies"`
	Connected  int                    `json:"connected"`
	Synced     int                    `json:"synced"`
	Wire       map[string]record.Wire `json:"wire"`       // by short type
	Reconnects map[string]int64       `json:"reconnects"` // lost streams, by reason
	// Errors counts invalid messages.
	Errors int64 `json:"errors"`
	// Config has the median bytes of configuration per proxy, by type.
	Config map[string]int64 `json:"config_bytes"`
	// NamespaceConfig is the same by namespace.
	NamespaceConfig map[string]map[string]int64 `json:"namespace_config_bytes,omitempty"`
	// Sizes has the distribution: the number of proxies by the bytes that they hold, by
	// namespace and type.
	Sizes sizesOfAll `json:"sizes,omitempty"`
	// Ztunnel... is the same for the simulated ztunnels, which the three above exclude:
	// they hold the whole mesh, in another form. Wire includes what they received.
	ZtunnelWire   map[string]record.Wire `json:"ztunnel_wire,omitempty"`
	ZtunnelConfig map[string]int64       `json:"ztunnel_config_bytes,omitempty"`
	ZtunnelSizes  sizesOfAll             `json:"ztunnel_sizes,omitempty"`

	CPU      record.CPU `json:"cpu"` // of the whole process
	RSSBytes int64      `json:"rss_bytes"`
	// HeapBytes is Go's heap in use.
	HeapBytes int64 `json:"heap_bytes"`
	// Lag is how late the fleet read, in microseconds, since the previous account: from when
	// the kernel had the last byte of a read until the fleet recorded it. Without kernel
	// timestamps it is TimerLag.
	Lag record.Quantiles `json:"lag_us"`
	// Turn is how long messages took, in microseconds, since the previous account: from when
	// the kernel had the first of a batch until all immediate answers were written. It
	// excludes answers that wait for other messages, such as Envoy's acknowledgement of new
	// clusters, which waits for their endpoints.
	Turn record.Quantiles `json:"turn_us"`
	// TimerLag is how late a sleeping goroutine woke up, in microseconds: the
	// scheduler's delay on a busy machine.
	TimerLag record.Quantiles `json:"timer_lag_us"`
	// LagSource is the source of Lag: LagKernel or LagTimer.
	LagSource string `json:"lag_source"`
	// LagCount is the number of observations of Lag; 0: Lag is unknown.
	LagCount int64 `json:"lag_count"`
	// StampedReads and UnstampedReads count reads since the previous account, with and
	// without a kernel timestamp.
	StampedReads   int64 `json:"stamped_reads"`
	UnstampedReads int64 `json:"unstamped_reads,omitempty"`
	// Convergence is the time from when the first proxy received new content until the ACK
	// of each proxy that did, in microseconds, for proxies that were synced before.
	Convergence record.Counted `json:"convergence_us"`
}

// WireSince returns the traffic by type between two accounts.
func (a Account) WireSince(before Account) map[string]record.Wire {
	return wireSince(a.Wire, before.Wire)
}

// ZtunnelWireSince is the same for ztunnels alone; nil without any.
func (a Account) ZtunnelWireSince(before Account) map[string]record.Wire {
	if a.ZtunnelWire == nil {
		return nil
	}
	return wireSince(a.ZtunnelWire, before.ZtunnelWire)
}

func wireSince(after, before map[string]record.Wire) map[string]record.Wire {
	out := map[string]record.Wire{}
	for name, w := range after {
		b := before[name]
		out[name] = record.Wire{
			Responses: w.Responses - b.Responses, Bytes: w.Bytes - b.Bytes, Resources: w.Resources - b.Resources,
			Identical: w.Identical - b.Identical, IdenticalBytes: w.IdenticalBytes - b.IdenticalBytes,
			Removed: w.Removed - b.Removed, Acks: w.Acks - b.Acks, Nacks: w.Nacks - b.Nacks,
		}
	}
	return out
}
