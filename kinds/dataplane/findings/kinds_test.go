package findings

import "github.com/meshtrial/meshtrial/analysis"

// kinds has only this kind.
var kinds = analysis.Kinds{Kind()}
