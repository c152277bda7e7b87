package record

// Bill is the cost of named parts of a sidecar, one by one and all together, in one
// combination of the study's other factors.
type Bill struct {
	// Cell has the other factors that vary; empty if there are none.
	Cell Cell `json:"cell"`
	// Level is the probability that the intervals of a figure hold for all parts of a list at
	// once; each interval of a sum has it by itself.
	Level float64 `json:"level"`
	// Parts are added to the base one at a time, most expensive first; Removed are taken from
	// all together.
	Parts    []BillPart `json:"parts"`
	Removed  []BillPart `json:"removed,omitempty"`
	Together *BillSum   `json:"together,omitempty"`
}

// BillPart is one part's price.
type BillPart struct {
	Name   string `json:"name"`
	Levels Cell   `json:"levels"` // that it changes
	// Figures are keyed by what is priced (study.BillCPU and its like): cpu, latency_p50...
	// For a removed part they are the savings.
	Figures map[string]Priced `json:"figures"`
	// RankLow and RankHigh are the first and last rank that it may have by CPU:
	// indistinguishable parts share ranks. 0 without a price.
	RankLow  int `json:"rank_low"`
	RankHigh int `json:"rank_high"`
}

// Priced is a figure of a bill with its interval.
type Priced struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Unit     string  `json:"unit"`
	Blocks   int     `json:"blocks"`
	Verdict  string  `json:"verdict"`
	// Reason is the verdict's, as in a finding.
	Reason string `json:"reason,omitempty"`
}

// PricedOf is a finding as a figure of a bill.
func PricedOf(f Finding) Priced {
	return Priced{Estimate: f.Estimate, Low: f.Low, High: f.High, Unit: f.Unit, Blocks: f.Blocks, Verdict: f.Verdict, Reason: f.Reason}
}

// BillSum compares all parts together with the sum of their single costs, in CPU per request.
type BillSum struct {
	Parts       []string `json:"parts"`
	Sum         Priced   `json:"sum"`
	Together    Priced   `json:"together"`
	Interaction Priced   `json:"interaction"` // together less the sum
}
