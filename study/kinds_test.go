package study_test

import ( // studies of which tests of this package read
	_ "github.com/meshtrial/meshtrial/kinds/controlplane"
	_ "github.com/meshtrial/meshtrial/kinds/dataplane"
	_ "github.com/meshtrial/meshtrial/kinds/ingress"
	_ "github.com/meshtrial/meshtrial/kinds/resilience"
)
