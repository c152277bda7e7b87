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
	Types // how many there are
)

var typeNames = [Types]string{"cds", "eds", "lds", "rds", "nds"}

// String is the type's short name.
func (t Type) String() string { return typeNames[t] }

// TypeSet is a set of types.
type TypeSet uint8

// SetOf makes a set.
func SetOf(types ...Type) TypeSet {
	var s TypeSet
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

// Has tells whether t is in the set.
func (s TypeSet) Has(t Type) bool { return s&(1<<t) != 0 }

// Kind is a kind of change.
type Kind struct {
	Name string
	// Weight is its share of all changes, beside the weights of the others.
	Weight float64
	// Types are what a proxy that needs such a change is sent; none for one
	// that no proxy needs.
	Types TypeSet
	// Bare are those of them in which it has no part of its own: the push brings
	// what every push of the type does, and nothing for this change.
	Bare TypeSet
	// Asks are types of which proxies ask for a part by themselves when they have the
	// rest, as for the endpoints of a cluster that is new: a push of its own.
	Asks TypeSet
	// Spoils are types that cannot be sent by difference in a push that merges such
	// a change, if other changes bring them: all of the type is sent.
	Spoils TypeSet
	// Context is the time of a push context that has such a change, all on one
	// CPU; that of several is the largest.
	Context float64
}

// Cost is what one push of a type takes, or brings.
type Cost struct {
	Base float64 // of every push
	// Each is for every change that the push merges and that has a part of its
	// own in the type; Whole is in its place where all of the type is sent.
	Each, Whole float64
	// Anew is what is added where istiod does not find the resources in its cache.
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

// Class is a number of proxies that are alike.
type Class struct {
	Name    string
	Proxies int // connected when the simulation begins, all replicas together
	// Returning are more of them that connect at [Input.StormAt].
	Returning int
	// Needs is the share of the changes that these proxies need, 0 to 1; a
	// change is needed by all of a class or by none.
	Needs float64
	// CPU and Bytes are what a push of each type takes and brings, by one proxy.
	CPU, Bytes [Types]Cost
	// Variants is how many sorts of these proxies there are that share nothing in
	// istiod's cache: their namespaces; 0: one.
	Variants int
	// Beside is the CPU time that others on istiod's CPUs spend on a push to such a
	// proxy, BesideByte what each byte adds: in a lab, the simulated proxies.
	Beside, BesideByte float64
	// Connect is the CPU time to serve a new stream its first configuration.
	Connect float64
	// Apply is how long it takes from the end of a turn until a proxy has
	// acknowledged, and ApplyByte how much longer for each byte.
	Apply, ApplyByte float64
}

// Costs are those that do not depend on the class.
type Costs struct {
	Watch  float64 // from a change's commit until istiod has been told
	Change float64 // CPU time of a change before any push, for each replica
	Skip   float64 // CPU time of a turn of a proxy that needs nothing
	// Parallel is the CPU time spent in all for each second of a turn's path,
	// 1 or more.
	Parallel float64
	// Idle is what istiod uses without any change, cores of each replica.
	Idle float64
}

// Settings are those of istiod.
type Settings struct {
	DebounceAfter, DebounceMax float64
	// DirectEndpoints has pushes of nothing but endpoints not debounced.
	DirectEndpoints bool
	// Throttle is how many turns may run at once; 0: as istiod chooses by its
	// CPUs.
	Throttle int
	// ConnectLimit is how many new streams a second are served; 0: as istiod
	// chooses.
	ConnectLimit float64
	Replicas     int
	Cores        float64 // of each replica
}

// DefaultThrottle is what istiod chooses for the push throttle, and for the
// streams that it accepts a second: 15 and 5 for each CPU, 100 at most.
func DefaultThrottle(cores float64) int {
	return min(15+5*int(math.Ceil(math.Max(cores, 1))), 100)
}

// Change is one change of configuration.
type Change struct {
	At   float64 // when it was committed
	Kind int     // index into [Input.Kinds]
	// Where is which proxies it is for, 0 to 1: those of a class with an even
	// share of the changes of its own.
	Where float64
}

// Input is what is simulated. Costs are finite and not below zero, Parallel is 1 or more, and there are a replica, cores
// and a horizon.
type Input struct {
	Settings Settings
	Costs    Costs
	Kinds    []Kind
	Classes  []Class
	Changes  []Change // in the order of time
	// Horizon is how long changes come; the simulation goes on until all are
	// delivered, Settle at most.
	Horizon, Settle float64
	// StormAt is when returning proxies begin to connect.
	StormAt float64
	// Seed of the order of proxies and of the times at which they come back.
	Seed uint64
	// Batch is how many proxies move as one; 0: what is accurate to a thousandth.
	Batch int
}

// MaxChanges bounds the changes of a schedule.
const MaxChanges = 2_000_000
