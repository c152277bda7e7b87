package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Never stands for a time at which something did not happen, or that is not
// known. No clock reads it: every other number is a time, also -1, which may be
// that of something that was seen a little before its cause was noted.
const Never int64 = math.MinInt64

// Times are times of which some may be [Never]. In JSON those are null.
type Times []int64

// MarshalJSON implements [json.Marshaler]. There are a million of them in the
// events of a large trial.
func (t Times) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	out := make([]byte, 0, 2+12*len(t))
	out = append(out, '[')
	for i, at := range t {
		if i > 0 {
			out = append(out, ',')
		}
		if at == Never {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendInt(out, at, 10)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Times) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if string(data) == "null" {
		*t = nil
		return nil
	}
	if len(data) < 2 || data[0] != '[' || data[len(data)-1] != ']' {
		return fmt.Errorf("times: want a list of whole numbers and null, got %.40s", data)
	}
	data = bytes.TrimSpace(data[1 : len(data)-1])
	out := make(Times, 0, bytes.Count(data, []byte(","))+1)
	for len(data) > 0 {
		one, rest, more := bytes.Cut(data, []byte(","))
		switch one = bytes.TrimSpace(one); {
		case string(one) == "null":
			out = append(out, Never)
		default:
			at, err := strconv.ParseInt(string(one), 10, 64)
			if err != nil || at == Never {
				return fmt.Errorf("times: want whole numbers and null, got %.40s", one)
			}
			out = append(out, at)
		}
		if rest = bytes.TrimSpace(rest); more && len(rest) == 0 {
			return &json.SyntaxError{Offset: int64(len(data))}
		}
		data = rest
	}
	*t = out
	return nil
}
