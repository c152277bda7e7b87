package xds

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// Status says how a fleet stands.
type Status struct {
	Proxies   int `json:"proxies"`  // sidecars, gateways and ztunnels
	Gateways  int `json:"gateways"` // of them
	Ztunnels  int `json:"ztunnels,omitempty"`
	Connected int `json:"connected"` // have a stream that istiod answered on
	// Synced counts proxies that hold every type they asked for and wait
	// for nothing.
	Synced int `json:"synced"`
	// EverSynced counts those that were so at some time.
	EverSynced int `json:"ever_synced"`
	// LastMessageUnixNS is when a response came last to any proxy; a fleet
	// is quiet when that is some time ago. 0: never.
	LastMessageUnixNS int64 `json:"last_message_unix_ns"`
	// LastChangeUnixNS is the same of responses that changed what a proxy
	// holds.
	LastChangeUnixNS int64 `json:"last_change_unix_ns"`
	NowUnixNS        int64 `json:"now_unix_ns"`
	// Waiting counts streams by what went wrong with them last, of proxies
	// that are not connected.
	Waiting map[string]int `json:"waiting,omitempty"`
	// LastError is the latest failure in full.
	LastError string `json:"last_error,omitempty"`
	Markers   int    `json:"markers"` // announced
}

// Quiet says that all proxies are synced and none got anything for ns
// nanoseconds.
func (s Status) Quiet(ns int64) bool {
	return s.Synced == s.Proxies && s.NowUnixNS-s.LastMessageUnixNS >= ns
}

// MarkerSightings are the proxies that saw one marker, in the order they did:
// an entry for each in all three columns. Times are nanoseconds since 1970 on
// the clock of the machine the fleet runs on.
type MarkerSightings struct {
	Change int    `json:"change"`
	Marker int    `json:"marker"` // index in the order of announcement
	Type   string `json:"type"`
	Gone   bool   `json:"gone,omitempty"`

	Proxy      []int32      `json:"proxy"`
	ReceivedNS []int64      `json:"received_unix_ns"`
	AckedNS    record.Times `json:"acked_unix_ns"` // Never: not acknowledged (yet)
	// Unknown counts contents that could not be searched for this marker
	// since their bytes were no longer kept: proxies may be missing.
	Unknown int `json:"unknown,omitempty"`
	// Stays are proxies that were sent content which shows the change while
	// they showed it already; of markers whose text was marked before the
	// other way round (an endpoint that goes and comes back), of proxies that
	// had not seen the change.
	Stays *Stays `json:"stays,omitempty"`
	// SearchedFromNS is from when on what proxies got was searched for the
	// marker: where its change was committed later than that, it does not
	// matter that it was announced late. 0: since the start.
	SearchedFromNS int64 `json:"searched_from_unix_ns,omitempty"`
}

// Even says that all columns have a value for each entry.
func (m MarkerSightings) Even() bool {
	even := func(proxies, received, acked int) bool { return received == proxies && acked == proxies }
	return even(len(m.Proxy), len(m.ReceivedNS), len(m.AckedNS)) &&
		(m.Stays == nil || even(len(m.Stays.Proxy), len(m.Stays.ReceivedNS), len(m.Stays.AckedNS)))
}

// Stays are columns as those of MarkerSightings, of which a proxy may be in
// several entries. One that received such content after the change was
// committed, and before it ever showed the change before, was sent both
// together: it has the change from then on.
type Stays struct {
	Proxy      []int32      `json:"proxy"`
	ReceivedNS []int64      `json:"received_unix_ns"`
	AckedNS    record.Times `json:"acked_unix_ns"`
}

// After returns the marker's sightings with those of its stays that are from
// a time on, which is when the change was committed by the fleet's clock, the
// first of each proxy.
func (m MarkerSightings) After(committedNS int64) MarkerSightings {
	if m.Stays == nil {
		return m
	}
	out := m
	out.Proxy, out.ReceivedNS, out.AckedNS = slices.Clone(m.Proxy), slices.Clone(m.ReceivedNS), slices.Clone(m.AckedNS)
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
			at[p] = len(out.Proxy)
			out.Proxy, out.ReceivedNS, out.AckedNS = append(out.Proxy, p), append(out.ReceivedNS, received), append(out.AckedNS, acked)
		case received < out.ReceivedNS[known]:
			out.ReceivedNS[known], out.AckedNS[known] = received, acked
		}
	}
	out.Stays = nil
	return out
}

// Where an account's lag is from.
const (
	LagKernel = "kernel" // the kernel's time stamps of what was read
	LagTimer  = "timer"  // a goroutine that sleeps 50 ms at a time, and how much longer it took
)

// Account is what a fleet counted since its start.
type Account struct {
	UnixNS     int64                  `json:"unix_ns"`
	Proxies    int                    `json:"proxies"`
	Connected  int                    `json:"connected"`
	Synced     int                    `json:"synced"`
	Wire       map[string]record.Wire `json:"wire"`       // by short type
	Reconnects map[string]int64       `json:"reconnects"` // streams lost, by why
	// StoppedReading counts proxies that stopped reading, as their behaviour
	// is; they count as connected until they are stopped. UnreadBytes is what
	// the kernel holds for them, and StoppedLost counts those whose connection
	// it says is over: istiod gave them up, which shows minutes later, since
	// istiod's goodbye waits behind what nobody reads.
	StoppedReading int   `json:"stopped_reading,omitempty"`
	StoppedLost    int   `json:"stopped_lost,omitempty"`
	UnreadBytes    int64 `json:"unread_bytes,omitempty"`
	// Errors counts messages that could not be understood.
	Errors int64 `json:"errors"`
	// Config has the bytes of configuration that a proxy holds, by type: the
	// median over proxies.
	Config map[string]int64 `json:"config_bytes"`
	// NamespaceConfig has the same of the proxies in each namespace.
	NamespaceConfig map[string]map[string]int64 `json:"namespace_config_bytes,omitempty"`
	// Sizes is what these are medians of: how many proxies hold so many bytes, by
	// namespace and type.
	Sizes sizesOfAll `json:"sizes,omitempty"`
	// Ztunnel... is the same of the simulated ztunnels, which the three above leave out:
	// they hold all of the mesh, and another kind of configuration. What came to them
	// is in Wire too.
	ZtunnelWire   map[string]record.Wire `json:"ztunnel_wire,omitempty"`
	ZtunnelConfig map[string]int64       `json:"ztunnel_config_bytes,omitempty"`
	ZtunnelSizes  sizesOfAll             `json:"ztunnel_sizes,omitempty"`
	// Behind is how what sidecars hold of workloads differs from what these hold; nil
	// where there are not both.
	Behind *Behind `json:"workloads_behind,omitempty"`

	CPU      record.CPU `json:"cpu"` // of the whole process
	RSSBytes int64      `json:"rss_bytes"`
	// HeapBytes is Go's heap in use.
	HeapBytes int64 `json:"heap_bytes"`
	// Lag is how late the fleet noted what had come, microseconds, since the
	// account before: from when the kernel had the last byte of what was read
	// until the fleet noted it, of every read; where the kernel does not say
	// when that was, it is TimerLag.
	Lag record.Quantiles `json:"lag_us"`
	// Turn is how long messages took, microseconds, since the account before:
	// from when the kernel had the first of those taken together until all
	// that was to be said at once about them was written. What waits for
	// something else to come, as Envoy's acknowledgement of new clusters does
	// for their endpoints, is not in it.
	Turn record.Quantiles `json:"turn_us"`
	// TimerLag is how late a goroutine that only sleeps woke up: what the
	// scheduler adds when the machine is busy; microseconds.
	TimerLag record.Quantiles `json:"timer_lag_us"`
	// LagSource says where Lag is from: LagKernel or LagTimer.
	LagSource string `json:"lag_source"`
	// LagCount is how many observations Lag is of; 0: the account before was
	// a moment ago, and Lag says nothing.
	LagCount int64 `json:"lag_count"`
	// Reads since the account before with a time of the kernel, and without.
	StampedReads   int64 `json:"stamped_reads"`
	UnstampedReads int64 `json:"unstamped_reads,omitempty"`
	// Convergence is from the first proxy that got new content to the ACK of
	// each that did, microseconds, of proxies that were synced before.
	Convergence record.Counted `json:"convergence_us"`
}

// WireSince returns what came by type between two accounts.
func (a Account) WireSince(before Account) map[string]record.Wire {
	return wireSince(a.Wire, before.Wire)
}

// ZtunnelWireSince is that of ztunnels alone; nil without any.
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
