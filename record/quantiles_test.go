package record

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestQuantileNames(t *testing.T) {
	for _, tt := range []struct {
		q                 Quantile
		name, head, words string
		needs             int
	}{
		{0.5, "p50", "p50", "median", 0},
		{0.9, "p90", "p90", "90th percentile", 10},
		{0.95, "p95", "p95", "95th percentile", 20},
		{0.99, "p99", "p99", "99th percentile", 100},
		{0.999, "p999", "p99.9", "99.9th percentile", 1000},
		{0.9999, "p9999", "p99.99", "99.99th percentile", 10_000},
		{1, "max", "max", "maximum", 0},
	} {
		if q := tt.q; q.Name() != tt.name || q.Head() != tt.head || q.Words() != tt.words || q.Needs() != tt.needs {
			t.Errorf("%g: %s, %s, %s, needs %d", float64(q), q.Name(), q.Head(), q.Words(), q.Needs())
		}
	}
}

func TestQuantilesAscend(t *testing.T) {
	all := WithMax()
	for i, q := range all[1:] {
		if q <= all[i] {
			t.Errorf("%s follows %s", q.Head(), all[i].Head())
		}
	}
	if len(all) != len(Quantiles{}) || all[0] != 0.5 || all[len(all)-1] != 1 {
		t.Errorf("%v", all)
	}
}

func TestQuantilesJSON(t *testing.T) {
	q := QuantilesAt(0.5, 2.5, 1, 4)
	q.Unset(0.9)
	data, err := json.Marshal(q)
	if text := string(data); err != nil || !strings.HasPrefix(text, `{"p50":2.5,"p90":null,`) || !strings.HasSuffix(text, `"max":4}`) {
		t.Errorf("%s, %v", data, err)
	}
	var read Quantiles
	if err := json.Unmarshal(data, &read); err != nil || read != q {
		t.Errorf("%v, want %v: %v", read, q, err)
	}
	if err := json.Unmarshal([]byte(`{"p50":1,"p42":3}`), &read); err != nil || read != QuantilesAt(0.5, 1) {
		t.Errorf("a percentile of another version: %v, %v", read, err)
	}
	if _, err := json.Marshal(QuantilesAt(0.5, math.Inf(1))); err == nil {
		t.Error("infinity was written")
	}
}

// A latency in recorded runs is one flat object, with 0 for unknown values.
func TestLatencyJSON(t *testing.T) {
	l := Latency{Min: 1, Quantiles: QuantilesAt(0.5, 2, 0.99, 3, 1, 4), Mean: 2.5}
	data, err := json.Marshal(l)
	if text := string(data); err != nil || !strings.HasPrefix(text, `{"min":1,"p50":2,"p90":0,`) || !strings.HasSuffix(text, `"max":4,"mean":2.5}`) {
		t.Errorf("%s, %v", data, err)
	}
	var read Latency
	if err := json.Unmarshal(data, &read); err != nil || read != l {
		t.Errorf("%v, want %v: %v", read, l, err)
	}
	if err := json.Unmarshal([]byte(`{"p50":1,"p99":2,"max":3}`), &read); err != nil || read != LatencyAt(0.5, 1, 0.99, 2, 1, 3) {
		t.Errorf("without min, p90, p999 and mean: %v, %v", read, err)
	}
}

func TestCountedJSON(t *testing.T) {
	c := Counted{Count: 7, Quantiles: QuantilesAt(0.5, 2, 1, 4)}
	data, err := json.Marshal(c)
	if text := string(data); err != nil || !strings.HasPrefix(text, `{"count":7,"p50":2,"p90":0,`) {
		t.Errorf("%s, %v", data, err)
	}
	var read Counted
	if err := json.Unmarshal(data, &read); err != nil || read != c {
		t.Errorf("%v, want %v: %v", read, c, err)
	}
}

func TestLarger(t *testing.T) {
	a, b := QuantilesAt(0.5, 1, 0.9, 5), QuantilesAt(0.5, 2, 0.9, 4, 1, 9)
	if got := a.Larger(b); got != QuantilesAt(0.5, 2, 0.9, 5, 1, 9) {
		t.Errorf("%v", got)
	}
}

func TestLatencyOf(t *testing.T) {
	micros := make([]int64, 0, 100)
	for i := range int64(99) {
		micros = append(micros, 99-i)
	}
	l := LatencyOf(micros, 1)
	if l.Min != 1 || l.At(0.5) != 50 || l.At(0.99) != 99 || !math.IsInf(l.Max(), 1) || !math.IsInf(l.Mean, 1) {
		t.Errorf("%v", l)
	}
	if l := LatencyOf(nil, 0); l != (Latency{}) || l.Known(0.5) {
		t.Errorf("of no request: %v", l)
	}
}
