// Package analyses is the table of what analysis asks of the kinds of study.
package analyses

import (
	"github.com/meshtrial/meshtrial/analysis"
	controlplane "github.com/meshtrial/meshtrial/kinds/controlplane/findings"
	dataplane "github.com/meshtrial/meshtrial/kinds/dataplane/findings"
	resilience "github.com/meshtrial/meshtrial/kinds/resilience/findings"
)

// All are the kinds of study that there are.
func All() analysis.Kinds {
	return analysis.Kinds{dataplane.Kind(), controlplane.Kind(), resilience.Kind()}
}
