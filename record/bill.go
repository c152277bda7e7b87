package record

// Bill is the cost of named parts of a sidecar, each alone and all together, for one
// combination of the study's other factors.
type Bill struct {
	// Cell has the other factors that vary; empty if there are none.
	Cell Cell `json:"cell"`
	// Level is the joint confidence level of the intervals of a figure over all parts of a
	// list. Each interval of a sum has this level individually.
	Level float64 `json:"level"`
	// Parts are added to the base one at a time, most expensive first. Removed parts are
	// taken from the full set one at a time.
	Parts    []BillPart `json:"parts"`
	Removed  []BillPart `json:"removed,omitempty"`
	Together *BillSum   `json:"together,omitempty"`
}

// BillPart is the price of one part.
type BillPart struct {
	Name   string `json:"name"`
	Levels Cell   `json:"levels"` // that the part changes
	// Figures is keyed by what is priced (study.BillCPU and so on): cpu, latency_p50... For a
	// removed part they are the savings.
	Figures map[string]Priced `json:"figures"`
	// RankLow and RankHigh bound the part's possible rank by CPU; indistinguishable parts
	// share ranks. Both are 0 without a price.
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
	// Reason is the reason for the verdict, as in a finding.
	Reason string `json:"reason,omitempty"`
}

// PricedOf converts a finding to a figure of a bill.
func PricedOf(f Finding) Priced {
	return Priced{Estimate: f.Estimate, Low: f.Low, High: f.High, Unit: f.Unit, Blocks: f.Blocks, Verdict: f.Verdict, Reason: f.Reason}
}

// BillSum compares the cost of all parts together with the sum of their individual costs, in
// CPU per request.
type BillSum struct {
	Parts       []string `json:"parts"`
	Sum         Priced   `json:"sum"`
	Together    Priced   `json:"together"`
	Interaction Priced   `json:"interaction"` // together less the sum
}
