package report_test

import ( // whose findings tests of this package word
	_ "github.com/meshtrial/meshtrial/kinds/controlplane"
	_ "github.com/meshtrial/meshtrial/kinds/dataplane"
	_ "github.com/meshtrial/meshtrial/kinds/resilience"
)
