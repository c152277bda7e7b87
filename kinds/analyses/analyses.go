// Package analyses is the table of what each kind of study supplies to analysis.
package analyses

import (
	"github.com/meshtrial/meshtrial/analysis"
	controlplane "github.com/meshtrial/meshtrial/kinds/controlplane/findings"
	dataplane "github.com/meshtrial/meshtrial/kinds/dataplane/findings"
	ingress "github.com/meshtrial/meshtrial/kinds/ingress/findings"
	resilience "github.com/meshtrial/meshtrial/kinds/resilience/findings"
)

// All returns all kinds of study.
func All() analysis.Kinds {
	return analysis.Kinds{dataplane.Kind(), controlplane.Kind(), resilience.Kind(), ingress.Kind()}
}
