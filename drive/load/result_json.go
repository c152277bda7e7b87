package load

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// resultSchema is the version of a Result's JSON.
const resultSchema = 2

// maxKinds bounds the kinds of failure read from JSON.
const maxKinds = 100

type resultJSON struct {
	Schema      int            `json:"schema"`
	Version     string         `json:"version"`
	Spec        Spec           `json:"spec"`
	StartUnixNS int64          `json:"start_unix_ns"`
	EndNS       int64          `json:"end_ns"`
	Interrupted bool           `json:"interrupted"`
	Replicas    int            `json:"replicas"`
	CPUs        int            `json:"cpus"`
	Opened      int64          `json:"opened"`
	Probes      int64          `json:"probes"`
	Changes     []RateChange   `json:"rate_changes,omitempty"`
	Intervals   []intervalJSON `json:"intervals"`

	Reasons map[string][]string `json:"failure_reasons,omitempty"`
}

type intervalJSON struct {
	Index      int   `json:"index"`
	StartNS    int64 `json:"start_ns"`
	DurationNS int64 `json:"duration_ns"`
	Account
	Within Within `json:"within"`
	// Histograms in the compressed V2 encoding of HdrHistogram, base64.
	Intended    string `json:"intended_hdr"`
	Send        string `json:"send_hdr"`
	Lag         string `json:"lag_hdr"`
	Wait        string `json:"wait_hdr"`
	Clamped     int64  `json:"clamped"`
	MaxInFlight int    `json:"max_in_flight"`
	BytesSent   int64  `json:"bytes_sent"`
	BytesRead   int64  `json:"bytes_read"`
	Connects    int64  `json:"connects"`
	CPU         CPU    `json:"cpu_s"`
	// Absent where there are none.
	Gaps   *gapsJSON   `json:"gaps,omitempty"`
	Serial *serialJSON `json:"latency_pairs,omitempty"`
}

// MarshalJSON implements [json.Marshaler]; histograms are in HdrHistogram's
// own encoding, so nothing is lost.
func (r *Result) MarshalJSON() ([]byte, error) {
	out := r.head()
	for i := range r.Intervals {
		j, err := intervalOut(&r.Intervals[i])
		if err != nil {
			return nil, err
		}
		out.Intervals = append(out.Intervals, j)
	}
	return json.Marshal(out)
}

// head is the result without its intervals.
func (r *Result) head() resultJSON {
	out := resultJSON{
		Schema: resultSchema, Version: r.Version, Spec: r.Spec, StartUnixNS: r.Start.UnixNano(),
		EndNS: r.EndNS, Interrupted: r.Interrupted, Replicas: r.Replicas, CPUs: r.CPUs, Opened: r.Opened, Probes: r.Probes, Changes: r.Changes,
		Reasons: r.Reasons, Intervals: make([]intervalJSON, 0, len(r.Intervals)),
	}
	out.Spec.Trace = nil // it can be large, and whoever started the run has it
	return out
}

// bare is the interval without its histograms.
func (iv *Interval) bare() intervalJSON {
	return intervalJSON{
		Index: iv.Index, StartNS: iv.StartNS, DurationNS: iv.DurationNS, Account: iv.Account, Within: iv.Within,
		Clamped: iv.Clamped, MaxInFlight: iv.MaxInFlight,
		BytesSent: iv.BytesSent, BytesRead: iv.BytesRead, Connects: iv.Connects, CPU: iv.CPU,
		Gaps: gapsOut(&iv.Gaps), Serial: serialOut(&iv.Serial),
	}
}

func intervalOut(iv *Interval) (intervalJSON, error) {
	j := iv.bare()
	for _, h := range []struct {
		from *hdrhistogram.PackedHistogram
		to   *string
	}{{iv.Intended, &j.Intended}, {iv.Send, &j.Send}, {iv.Lag, &j.Lag}, {iv.Wait, &j.Wait}} {
		if h.from.TotalCount() == 0 {
			continue // "" stands for an empty one
		}
		data, err := h.from.Encode()
		if err != nil {
			return j, fmt.Errorf("encode a histogram of interval %d: %w", iv.Index, err)
		}
		*h.to = string(data)
	}
	return j, nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Result) UnmarshalJSON(data []byte) error {
	var in resultJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if err := r.setHead(&in); err != nil {
		return err
	}
	if len(in.Intervals) > maxIntervals {
		return fmt.Errorf("load result: %d intervals are more than %d", len(in.Intervals), maxIntervals)
	}
	r.Intervals = make([]Interval, 0, len(in.Intervals))
	for i := range in.Intervals {
		iv, err := in.Intervals[i].in(i)
		if err != nil {
			return err
		}
		r.Intervals = append(r.Intervals, iv)
	}
	return nil
}

// setHead makes it what was read, without its intervals.
func (r *Result) setHead(in *resultJSON) error {
	if in.Schema != resultSchema {
		return fmt.Errorf("load result: schema %d, want %d", in.Schema, resultSchema)
	}
	if len(in.Reasons) > maxKinds {
		return fmt.Errorf("load result: reasons of %d kinds of failure", len(in.Reasons))
	}
	*r = Result{
		Spec: in.Spec, Version: in.Version, Start: time.Unix(0, in.StartUnixNS),
		EndNS: in.EndNS, Interrupted: in.Interrupted, Replicas: in.Replicas, CPUs: in.CPUs, Opened: in.Opened, Probes: in.Probes, Changes: in.Changes,
	}
	r.Reasons = mergeReasons(in.Reasons)
	return nil
}

// bare is the interval, which must be number i, with empty histograms.
func (j *intervalJSON) bare(i int) (Interval, error) {
	if j.Index != i {
		return Interval{}, fmt.Errorf("load result: interval %d stands at place %d", j.Index, i)
	}
	if len(j.Failed) > maxKinds {
		return Interval{}, fmt.Errorf("load result: interval %d: %d kinds of failure", i, len(j.Failed))
	}
	iv := Interval{
		Index: j.Index, StartNS: j.StartNS, DurationNS: j.DurationNS, Account: j.Account, Within: j.Within,
		Clamped: j.Clamped, MaxInFlight: j.MaxInFlight,
		BytesSent: j.BytesSent, BytesRead: j.BytesRead, Connects: j.Connects, CPU: j.CPU, Serial: j.Serial.in(),
		Intended: newPacked(), Send: newPacked(), Lag: newPacked(), Wait: newPacked(),
	}
	gaps, err := j.Gaps.in()
	if err != nil {
		return Interval{}, fmt.Errorf("load result: gaps of interval %d: %w", i, err)
	}
	iv.Gaps = gaps
	return iv, nil
}

// in is the interval, which must be number i.
func (j *intervalJSON) in(i int) (Interval, error) {
	iv, err := j.bare(i)
	if err != nil {
		return Interval{}, err
	}
	for _, h := range []struct {
		from string
		to   **hdrhistogram.PackedHistogram
	}{{j.Intended, &iv.Intended}, {j.Send, &iv.Send}, {j.Lag, &iv.Lag}, {j.Wait, &iv.Wait}} {
		if h.from == "" {
			continue
		}
		decoded, err := hdrhistogram.DecodePacked([]byte(h.from))
		if err != nil {
			return Interval{}, fmt.Errorf("load result: a histogram of interval %d: %w", i, err)
		}
		if decoded.LowestTrackableValue() != histLowest || decoded.HighestTrackableValue() != histHighest || decoded.SignificantFigures() != histDigits {
			return Interval{}, fmt.Errorf("load result: a histogram of interval %d has other bounds than ours", i)
		}
		*h.to = decoded
	}
	return iv, nil
}
