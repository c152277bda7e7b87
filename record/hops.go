package record

// Hops breaks down the path of a request through two sidecars, for one combination of the
// study's other factors.
type Hops struct {
	Cell  Cell      `json:"cell"`  // the other factors that vary
	Terms []HopTerm `json:"terms"` // the residual and the total are last
	// Apart names the figures whose terms come from different blocks because too few blocks
	// have all of them. These terms need not add up.
	Apart []string `json:"apart,omitempty"`
}

// HopTerm is one term of the total, with figures keyed by measure (study.HopMeasures).
type HopTerm struct {
	Name    string            `json:"name"`
	Doc     string            `json:"doc"`
	Figures map[string]Priced `json:"figures"`
}
