package record

// Edges are how long changes took to the first proxy, to half of the proxies
// and to the last one, over changes.
type Edges struct {
	// Changes is how many these are of; Lacking of them were acknowledged by
	// no proxy, which lies beyond all others.
	Changes int `json:"changes"`
	Lacking int `json:"lacking"`

	First  ChangeQuantiles `json:"first_us"`
	Median ChangeQuantiles `json:"median_us"`
	Last   ChangeQuantiles `json:"last_us"`
}

// ChangeQuantiles are quantiles over changes, microseconds; nil where there
// are too few changes to tell: each takes as many as leave one beyond it.
type ChangeQuantiles struct {
	P50  *float64 `json:"p50"`
	P90  *float64 `json:"p90"`
	P99  *float64 `json:"p99"`
	P999 *float64 `json:"p999"`
	Max  *float64 `json:"max"`
}
