package dataplane_test

import ( // studies of other kinds are told apart by what they say themselves
	_ "github.com/meshtrial/meshtrial/kinds/controlplane"
	_ "github.com/meshtrial/meshtrial/kinds/resilience"
)
