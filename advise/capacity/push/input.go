package push

import "math"

// Type is a type of resource that istiod generates.
type Type int

// The types, in the order in which a turn sends them.
const (
	CDS Type = iota
	EDS
	LDS
	RDS
	NDS
	Types // number of types
)

var typeNames = [Types]string{"cds", "eds", "lds", "rds", "nds"}

// String returns the type's short name.
func (t Type) String() string { return typeNames[t] }

// TypeSet is a set of types.
type TypeSet uint8

// SetOf returns a set of types.
func SetOf(types ...Type) TypeSet {
	var s TypeSet
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

// Has reports whether t is in the set.
func (s TypeSet) Has(t Type) bool { return s&(1<<t) != 0 }

// Kind is a kind of change.
type Kind struct {
	Name string
	// Weight is its share of all changes, relative to the other weights.
	Weight float64
	// Types are the types pushed to a proxy that needs the change; empty if no proxy needs it.
	Types TypeSet
	// Bare are those of the types in which the change has no part of its own: the push sends what
	// every push of the type does, and nothing for this change.
	Bare TypeSet
	// Asks are types of which proxies request a part once they have the rest, such as the endpoints
	// of a new cluster; each request is a separate push.
	Asks TypeSet
	// Spoils are types that cannot be sent as differences in a push that merges this change. If
	// other changes push them, the whole type is sent.
	Spoils TypeSet
	// Context is the duration of a push context with such a change, all on one CPU. With several
	// changes the largest counts.
	Context float64
}

// Cost is the cost, or size, of one push of a type.
type Cost struct {
	Base float64 // of every push
	// Each applies to every merged change with its own part in the type. Whole replaces it if the
	// whole type is sent.
	Each, Whole float64
	// Anew is added if istiod does not find the resources in its cache.
	Anew float64
}

func (c Cost) of(m merge) float64 {
	out := 0.0
	switch {
	case !m.sent:
	case m.whole:
		out = c.Base + c.Whole
	default:
		out = c.Base + c.Each*float64(m.own)
	}
	if m.asked > 0 {
		out += c.Base + c.Each*float64(m.asked)
	}
	return out + c.Anew*m.anew
}

// Class is a number of identical proxies.
type Class struct {
	Name    string
	Proxies int // connected at the start of the simulation, over all replicas
	// Returning is the number of additional proxies that connect at [Input.StormAt].
	Returning int
	// Needs is the share of the changes that these proxies need, 0 to 1. Either all proxies of a
	// class need a change or none.
	Needs float64
	// CPU and Bytes are the cost and the size of pushing each type to one proxy.
	CPU, Bytes [Types]Cost
	// Variants is the number of groups of these proxies that share nothing in istiod's cache, such
	// as their namespaces; 0 means one.
	Variants int
	// Beside is the CPU time that other processes on istiod's CPUs (in a lab, the simulated
	// proxies) spend on a push to such a proxy, and BesideByte the time for each byte.
	Beside, BesideByte float64
	// Connect is the CPU time to serve a new stream its initial configuration.
	Connect float64
	// Apply is the time from the end of a turn until a proxy has acknowledged it, and ApplyByte the
	// additional time for each byte.
	Apply, ApplyByte float64
}

// Costs are the costs that do not depend on the class.
type Costs struct {
	Watch  float64 // from a change's commit until istiod is notified
	Change float64 // CPU time of a change before any push, on each replica
	Skip   float64 // CPU time of the turn of a proxy that needs nothing
	// Parallel is the total CPU time for each second of a turn's path, 1 or more.
	Parallel float64
	// Idle is the number of cores that each replica uses without changes.
	Idle float64
}

// Settings are istiod's settings.
type Settings struct {
	DebounceAfter, DebounceMax float64
	// DirectEndpoints disables debouncing for pushes of endpoints only.
	DirectEndpoints bool
	// Throttle is the maximum number of concurrent turns; 0 means istiod's default for its CPUs.
	Throttle int
	// ConnectLimit is the number of new streams served per second; 0 means istiod's default.
	ConnectLimit float64
	Replicas     int
	Cores        float64 // of each replica
}

// DefaultThrottle returns istiod's default for the push throttle and for the streams accepted per
// second: 15 plus 5 for each CPU, at most 100.
func DefaultThrottle(cores float64) int {
	return min(15+5*int(math.Ceil(math.Max(cores, 1))), 100)
}

// Change is one change of configuration.
type Change struct {
	At   float64 // when it was committed
	Kind int     // index into [Input.Kinds]
	// Where determines which proxies need the change, 0 to 1: those of a class with an equal share
	// of the changes.
	Where float64
}

// Input is the input of a simulation. Costs are finite and not negative, Parallel is at least 1,
// and there are at least one replica, some cores and a horizon.
type Input struct {
	Settings Settings
	Costs    Costs
	Kinds    []Kind
	Classes  []Class
	Changes  []Change // in time order
	// Horizon is how long changes arrive. The simulation continues until all are delivered, for at
	// most Settle.
	Horizon, Settle float64
	// StormAt is when returning proxies begin to connect.
	StormAt float64
	// Seed determines the order of proxies and the times at which they return.
	Seed uint64
	// Batch is the number of proxies that move as one; 0 means a number that is accurate to a
	// thousandth.
	Batch int
}

// MaxChanges is the maximum number of changes in a schedule.
const MaxChanges = 2_000_000
