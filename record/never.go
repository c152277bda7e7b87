package record

import (
	"bytes"
	"encoding/json"
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
	if data = bytes.TrimSpace(data); string(data) == "null" {
		*t = nil
		return nil
	}
	return json.Unmarshal(bytes.ReplaceAll(data, []byte("null"), strconv.AppendInt(nil, Never, 10)), (*[]int64)(t))
}
