package record

// Hops is what a request's way through two sidecars is made of, in one
// combination of the study's other factors.
type Hops struct {
	Cell  Cell      `json:"cell"`  // the other factors that vary
	Terms []HopTerm `json:"terms"` // the residual and the whole last
	// Apart names the figures whose terms are of different blocks, and need not add up: too
	// few blocks have all.
	Apart []string `json:"apart,omitempty"`
}

// HopTerm is a part of the whole: figures by what they are of (study.HopMeasures).
type HopTerm struct {
	Name    string            `json:"name"`
	Doc     string            `json:"doc"`
	Figures map[string]Priced `json:"figures"`
}
