package controlplane_test

import ( // studies of other kinds are told apart by what they say themselves
	_ "github.com/meshtrial/meshtrial/kinds/dataplane"
	_ "github.com/meshtrial/meshtrial/kinds/resilience"
)
