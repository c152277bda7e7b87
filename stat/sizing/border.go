package sizing

import (
	"math"

	"github.com/meshtrial/meshtrial/stat"
)

// An Axis is something of a mesh along which the border between two ways is looked
// for. Of ways that are bent a difference may fall along it and rise again.
type Axis struct {
	Name      string
	Low, High float64
	Set       func(m Mesh, x float64) Mesh
}

// Names of axes.
const (
	AlongRate = "requests per second of each pod"
	AlongPods = "pods on each node"
	AlongL7   = "share of requests that need L7"
)

// Rate is along the requests per second that each pod sends, on the mean.
func Rate(high float64) Axis {
	return Axis{AlongRate, 0, high, func(m Mesh, x float64) Mesh { m.RPS = x * m.Pods; return m }}
}

// PodsOnNode is along how many pods share a node, their number being as stated.
func PodsOnNode(high float64) Axis {
	return Axis{AlongPods, 1, high, func(m Mesh, x float64) Mesh { m.Nodes = m.Pods / x; return m }}
}

// L7 is along the share of requests that go through waypoints.
func L7(high float64) Axis {
	return Axis{AlongL7, 0, high, func(m Mesh, x float64) Mesh { m.L7 = x; return m }}
}

// Outcome is what can be said of a border.
type Outcome string

// Outcomes.
const (
	// Lies: the order changes, between From and To.
	Lies Outcome = "lies"
	// None: the order is the same all along the axis.
	None Outcome = "none"
	// Between: the order is the same at both ends of the axis, and another somewhere
	// between From and To.
	Between Outcome = "between"
	// Beyond: one order is known to hold from one end of the axis as far as From; from
	// there to the other end the interval includes zero.
	Beyond Outcome = "beyond"
	// Unknown: neither end has an order.
	Unknown Outcome = "unknown"
)

// Border is where along an axis the difference of two ways changes its sign.
type Border struct {
	Outcome Outcome
	// First and Last are the signs at the axis' low and high end; 0 where it cannot
	// be said.
	First, Last int
	// At is where the mean difference is zero, one such place if there are several; NaN if
	// its sign is the same at both ends of the axis. From is where the order of the low end
	// is no longer known, and To from where on that of the high end is; of Beyond From
	// alone, the end of what can be said.
	At, From, To float64
}

// steps is how many places of an axis are looked at, before the borders between
// them are halved.
const steps = 500

// Border finds where on the axis a and b change places; difference is what a takes
// more than b there.
func (x Axis) Border(a, b Way, m Mesh) Border {
	difference := func(at float64) stat.Estimate { return Compare(a, b, x.Set(m, at)) }
	sign := func(at float64) int { return Sign(difference(at)) }
	place := func(i int) float64 { return x.Low + (x.High-x.Low)*float64(i)/steps }
	out := Border{First: sign(x.Low), Last: sign(x.High), At: x.zero(func(at float64) float64 { return difference(at).Value }), From: math.NaN(), To: math.NaN()}
	left, right := 0, steps // the ends of what has the order of either end
	for left < steps && sign(place(left+1)) == out.First {
		left++
	}
	for right > 0 && sign(place(right-1)) == out.Last {
		right--
	}
	known := func(i int) float64 { // from there on the order of the low end is lost
		return halve(place(i), place(i+1), func(at float64) bool { return sign(at) == out.First })
	}
	again := func(i int) float64 { // from there on it is that of the high end
		return halve(place(i-1), place(i), func(at float64) bool { return sign(at) != out.Last })
	}
	switch {
	case out.First == 0 && out.Last == 0:
		out.Outcome = Unknown
	case out.First == out.Last:
		out.Outcome = None
		if left == steps {
			break
		}
		for i := left + 1; i < right; i++ {
			if sign(place(i)) == -out.First {
				out.Outcome, out.From, out.To = Between, known(left), again(right)
				return out
			}
		}
		out.Outcome, out.First, out.Last = Unknown, 0, 0 // so wide in between that it says nothing there
	case out.Last == 0:
		out.Outcome, out.From = Beyond, known(left)
	case out.First == 0:
		out.Outcome, out.From = Beyond, again(right)
	default:
		out.Outcome, out.From, out.To = Lies, known(left), again(right)
	}
	return out
}

// zero is where a function is zero whose signs at the ends of the axis differ; NaN if
// they do not.
func (x Axis) zero(value func(at float64) float64) float64 {
	low, high := value(x.Low), value(x.High)
	if !stat.Finite(low) || !stat.Finite(high) || low*high > 0 || low == high {
		return math.NaN()
	}
	return halve(x.Low, x.High, func(at float64) bool { return value(at)*low > 0 })
}

// halve is the end of where something holds: at low it does, at high it does not.
func halve(low, high float64, holds func(at float64) bool) float64 {
	for range 60 {
		if mid := (low + high) / 2; holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}
