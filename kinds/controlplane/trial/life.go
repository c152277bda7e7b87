package trial

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
)

// lifeOf names the containers that make up istiod. A different container starts a different life.
func lifeOf(replicas []verdict.Replica) string {
	var names []string
	for _, r := range replicas {
		names = append(names, fmt.Sprintf("%s/%d", r.Pod, r.Restarts))
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// sidecarLife names the containers of the real sidecars likewise; "" without any.
func (t *controlTrial) sidecarLife() string {
	var ids []string
	for _, p := range t.c.reals {
		for _, id := range p.Containers {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, ",")
}
