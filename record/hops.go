package record

// Hops is what a request's way through two sidecars is made of, in one
// combination of the study's other factors.
type Hops struct {
	Cell  Cell      `json:"cell"`  // the other factors that vary
	Terms []HopTerm `json:"terms"` // the residual and the whole last
	Says  []string  `json:"says"`
}

// HopTerm is a part of the whole: figures by what they are of (study.HopMeasures).
type HopTerm struct {
	Name    string            `json:"name"`
	Doc     string            `json:"doc"`
	Figures map[string]Priced `json:"figures"`
}
