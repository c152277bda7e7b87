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

// truth is the value of a comparison; without one of its operands it is unknown.
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

// all is false as soon as one condition is, even where others are unknown.
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

// either is true as soon as one condition is, even where others are unknown.
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

// choose is yes or no by a condition, and unknown where that is.
func choose(c Truth, yes, no float64) float64 {
	switch c {
	case True:
		return yes
	case False:
		return no
	}
	return unknown
}

// firstKnown is the first value that is known.
func firstKnown(values ...float64) float64 {
	for _, v := range values {
		if known(v) {
			return v
		}
	}
	return unknown
}
