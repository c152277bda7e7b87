package findings

import "github.com/meshtrial/meshtrial/analysis"

// kinds has this kind alone.
var kinds = analysis.Kinds{Kind()}
