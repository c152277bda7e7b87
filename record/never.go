package record

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Never stands for the time of something that did not happen or is unknown. No
// clock returns it. Every other number is a valid time, including -1: an event
// may be seen slightly before its cause is recorded.
const Never int64 = math.MinInt64

// Times are times that may be [Never], which JSON represents as null.
type Times []int64

// MarshalJSON implements [json.Marshaler]. The events of a large trial contain
// a million times.
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
