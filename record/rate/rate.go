// Package rate represents the request rate that a study asks for and a
// generator keeps: a number of requests per second, or as many as possible.
package rate

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Word is the spelling of an unlimited rate everywhere: in studies, on the
// command line and in documents.
const Word = "max"

// Highest is the highest rate that a study may ask for.
const Highest = 10_000_000

// Rate is a rate in requests per second, or [Max]. The zero value means no rate
// is given. Its JSON is a number, or the string "max".
type Rate float64

// Max requests as many requests as the connections can carry: each connection
// sends its next request once it has received a response.
const Max Rate = -1

// Parse parses a rate as written on the command line and in studies: a positive
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

// IsMax reports whether the rate is unlimited and thus has no schedule.
func (r Rate) IsMax() bool { return r == Max }

// RPS returns the rate in requests per second; 0 if it is unlimited or not
// given.
func (r Rate) RPS() float64 { return max(0, float64(r)) }

// String formats the rate as [Parse] reads it.
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

// UnmarshalJSON implements [json.Unmarshaler]. It accepts any number except the
// value of [Max], so that the code that holds the rate can report what is wrong
// with it.
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
