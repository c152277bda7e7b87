// Package rate holds the rate of requests that a study asks for and a generator
// keeps: a number of requests per second, or as many as there can be.
package rate

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Word is how a rate without bound is written everywhere: in studies, on the
// command line, in documents.
const Word = "max"

// Highest is the highest rate that a study may ask for.
const Highest = 10_000_000

// Rate is in requests per second, or [Max]. Its zero value means that none is
// given. In JSON it is a number, or the string "max".
type Rate float64

// Max asks for as many requests as the connections can carry: each sends its
// next request when its response has come.
const Max Rate = -1

// Parse reads a rate as the command line and studies spell it: a positive
// number, or "max".
func Parse(s string) (Rate, error) {
	if s == Word {
		return Max, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return 0, fmt.Errorf(`rate %q: want a positive number of requests per second or "max"`, s)
	}
	return Rate(f), nil
}

// IsMax tells whether the rate has no bound, and so no schedule.
func (r Rate) IsMax() bool { return r == Max }

// RPS is the rate as a number, in requests per second; 0 if it has no bound or
// is not given.
func (r Rate) RPS() float64 { return max(0, float64(r)) }

// String returns the rate as [Parse] reads it.
func (r Rate) String() string {
	if r.IsMax() {
		return Word
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64)
}

// MarshalJSON implements [json.Marshaler].
func (r Rate) MarshalJSON() ([]byte, error) {
	if r.IsMax() {
		return []byte(`"` + Word + `"`), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON implements [json.Unmarshaler]. It takes any number but that of
// [Max], so that who holds the rate can say what is wrong with it.
func (r *Rate) UnmarshalJSON(data []byte) error {
	if string(data) == `"`+Word+`"` {
		*r = Max
		return nil
	}
	var f float64
	if err := json.Unmarshal(data, &f); err != nil || Rate(f).IsMax() {
		return fmt.Errorf(`rate: want a number of requests per second or "max", got %.40s`, data)
	}
	*r = Rate(f)
	return nil
}
