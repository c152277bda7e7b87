package record

// Bill is what named parts of a sidecar cost, one by one and all together, in
// one combination of the study's other factors.
type Bill struct {
	// Cell has the other factors that vary; empty if there are none.
	Cell Cell `json:"cell"`
	// Level is the probability that the intervals of a figure hold for all parts of a
	// list at once; those of sums have it each.
	Level float64 `json:"level"`
	// Parts are put over the base one at a time, dearest first; Removed are
	// those taken from all together.
	Parts    []BillPart `json:"parts"`
	Removed  []BillPart `json:"removed,omitempty"`
	Together *BillSum   `json:"together,omitempty"`
}

// BillPart is one part's price.
type BillPart struct {
	Name   string `json:"name"`
	Levels Cell   `json:"levels"` // that it changes
	// Figures are by what is priced (study.BillCPU and its like): cpu, latency_p50...
	// Of a removed part they are what is saved.
	Figures map[string]Priced `json:"figures"`
	// RankLow and RankHigh are the first and the last place that it may have by
	// CPU: parts that cannot be told apart share places. 0 without a price.
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
	// Reason is that of the verdict, as a finding has it.
	Reason string `json:"reason,omitempty"`
}

// PricedOf is a finding as a figure.
func PricedOf(f Finding) Priced {
	return Priced{Estimate: f.Estimate, Low: f.Low, High: f.High, Unit: f.Unit, Blocks: f.Blocks, Verdict: f.Verdict, Reason: f.Reason}
}

// BillSum sets all parts together beside the sum of what each costs alone, in
// CPU per request.
type BillSum struct {
	Parts       []string `json:"parts"`
	Sum         Priced   `json:"sum"`
	Together    Priced   `json:"together"`
	Interaction Priced   `json:"interaction"` // together less the sum
}
