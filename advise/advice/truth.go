package advice

import "math"

// Truth is the value of a condition in three-valued logic.
type Truth int

// Values of conditions. The zero value is Unknown.
const (
	Unknown Truth = iota
	False
	True
)

// truth returns the result of a comparison, which is unknown if an operand is unknown.
func truth(holds bool, a, b float64) Truth {
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return Unknown
	case holds:
		return True
	}
	return False
}

func atLeast(a, b float64) Truth { return truth(a >= b, a, b) }
func atMost(a, b float64) Truth  { return truth(a <= b, a, b) }
func above(a, b float64) Truth   { return truth(a > b, a, b) }
func below(a, b float64) Truth   { return truth(a < b, a, b) }
func equal(a, b float64) Truth   { return truth(a == b, a, b) }

// all is false as soon as one condition is false, even if others are unknown.
func all(conditions ...Truth) Truth {
	out := True
	for _, c := range conditions {
		switch c {
		case False:
			return False
		case Unknown:
			out = Unknown
		}
	}
	return out
}

// either is true as soon as one condition is true, even if others are unknown.
func either(conditions ...Truth) Truth {
	out := False
	for _, c := range conditions {
		switch c {
		case True:
			return True
		case Unknown:
			out = Unknown
		}
	}
	return out
}

func not(c Truth) Truth {
	switch c {
	case True:
		return False
	case False:
		return True
	}
	return Unknown
}

// unknown is the value of a quantity without evidence. It propagates through arithmetic.
var unknown = math.NaN()

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// choose returns yes or no depending on a condition, and unknown if that is unknown.
func choose(c Truth, yes, no float64) float64 {
	switch c {
	case True:
		return yes
	case False:
		return no
	}
	return unknown
}

// firstKnown returns the first known value.
func firstKnown(values ...float64) float64 {
	for _, v := range values {
		if known(v) {
			return v
		}
	}
	return unknown
}
