// Package reports is the table of what reports know of the kinds of study.
package reports

import (
	controlplane "github.com/meshtrial/meshtrial/kinds/controlplane/sections"
	dataplane "github.com/meshtrial/meshtrial/kinds/dataplane/sections"
	resilience "github.com/meshtrial/meshtrial/kinds/resilience/sections"
	"github.com/meshtrial/meshtrial/report"
)

// All are the kinds of study that there are.
func All() report.Kinds {
	return report.Kinds{controlplane.Kind(), resilience.Kind(), dataplane.Kind()}
}
