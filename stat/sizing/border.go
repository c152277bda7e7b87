package sizing

import (
	"math"

	"github.com/meshtrial/meshtrial/stat"
)

// An Axis is a property of a mesh along which to look for the border between two ways. If
// the ways are not linear, their difference may fall along it and rise again.
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

// Rate returns the axis of the mean requests per second that each pod sends.
func Rate(high float64) Axis {
	return Axis{AlongRate, 0, high, func(m Mesh, x float64) Mesh { m.RPS = x * m.Pods; return m }}
}

// PodsOnNode returns the axis of pods per node, for the stated number of pods.
func PodsOnNode(high float64) Axis {
	return Axis{AlongPods, 1, high, func(m Mesh, x float64) Mesh { m.Nodes = m.Pods / x; return m }}
}

// L7 returns the axis of the share of requests that go through waypoints.
func L7(high float64) Axis {
	return Axis{AlongL7, 0, high, func(m Mesh, x float64) Mesh { m.L7 = x; return m }}
}

// Outcome classifies a border.
type Outcome string

const (
	// Lies: the order changes, between From and To.
	Lies Outcome = "lies"
	// None: the order is the same along the whole axis.
	None Outcome = "none"
	// Between: the order is the same at both ends of the axis, and reversed somewhere
	// between From and To.
	Between Outcome = "between"
	// Beyond: the order is known from one end of the axis to From. From there to the other
	// end the interval includes zero.
	Beyond Outcome = "beyond"
	// Unknown: the order is known at neither end.
	Unknown Outcome = "unknown"
)

// Border is the place on an axis where the difference of two ways changes sign.
type Border struct {
	Outcome Outcome
	// First and Last are the signs at the axis' low and high end; 0 if unknown.
	First, Last int
	// At is where the mean difference is zero, or one such place if there are several; NaN
	// if its sign is the same at both ends. The order of the low end holds up to From, and
	// that of the high end from To. For Beyond only From is set: the end of the known
	// order.
	At, From, To float64
}

// steps is the number of places to evaluate on an axis before the borders between them are
// bisected.
const steps = 500

// Border finds the places on the axis where a and b change order. The difference is a's use
// minus b's.
func (x Axis) Border(a, b Way, m Mesh) Border {
	difference := func(at float64) stat.Estimate { return Compare(a, b, x.Set(m, at)) }
	sign := func(at float64) int { return Sign(difference(at)) }
	place := func(i int) float64 { return x.Low + (x.High-x.Low)*float64(i)/steps }
	out := Border{First: sign(x.Low), Last: sign(x.High), At: x.zero(func(at float64) float64 { return difference(at).Value }), From: math.NaN(), To: math.NaN()}
	left, right := 0, steps // last places with the order of the low and the high end
	for left < steps && sign(place(left+1)) == out.First {
		left++
	}
	for right > 0 && sign(place(right-1)) == out.Last {
		right--
	}
	known := func(i int) float64 { // the order of the low end is lost from there
		return halve(place(i), place(i+1), func(at float64) bool { return sign(at) == out.First })
	}
	again := func(i int) float64 { // the order of the high end holds from there
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
		out.Outcome, out.First, out.Last = Unknown, 0, 0 // the interval in between is too wide to tell
	case out.Last == 0:
		out.Outcome, out.From = Beyond, known(left)
	case out.First == 0:
		out.Outcome, out.From = Beyond, again(right)
	default:
		out.Outcome, out.From, out.To = Lies, known(left), again(right)
	}
	return out
}

// zero returns a zero of a function whose signs at the ends of the axis differ; NaN if they
// are the same.
func (x Axis) zero(value func(at float64) float64) float64 {
	low, high := value(x.Low), value(x.High)
	if !stat.Finite(low) || !stat.Finite(high) || low*high > 0 || low == high {
		return math.NaN()
	}
	return halve(x.Low, x.High, func(at float64) bool { return value(at)*low > 0 })
}

// halve bisects for the place where holds, true at low and false at high, changes.
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
