package record

// Edges are how long changes took to the first proxy, to half of the proxies
// and to the last one, over changes.
type Edges struct {
	// Changes is how many changes these summarize; Lacking of them were acknowledged by no
	// proxy, which counts as later than all others.
	Changes int `json:"changes"`
	Lacking int `json:"lacking"`

	First  Quantiles `json:"first_us"`
	Median Quantiles `json:"median_us"`
	Last   Quantiles `json:"last_us"`
}
