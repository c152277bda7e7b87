package record

// Edges summarizes, over changes, the time until the first proxy, half of the proxies and
// the last proxy acknowledged a change.
type Edges struct {
	// Changes is the number of changes summarized. Lacking of them were acknowledged by no
	// proxy, which counts as later than all others.
	Changes int `json:"changes"`
	Lacking int `json:"lacking"`

	First  Quantiles `json:"first_us"`
	Median Quantiles `json:"median_us"`
	Last   Quantiles `json:"last_us"`
}
