package app

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/assess"
)

// oneRevision keeps the pages of one revision's istiods: of several, their sum would be of no istiod that there is.
// The one with most processes is kept, as of a running mesh. Pages of which nobody says whose they are belong to the
// only revision that there is; otherwise their versions tell them apart.
func (r *filesRead) oneRevision() {
	revisions, pods := map[string]string{}, map[string]bool{} // of the listed istiods
	known := map[string]bool{}
	for _, p := range r.proxies {
		if p.Kind == assess.Istiod {
			pod := p.Namespace + "/" + p.Pod
			revisions[pod], pods[pod], known[p.Revision] = p.Revision, true, true
		}
	}
	of, unplaced := map[string][]string{}, 0 // processes by revision, or by version
	for _, process := range slices.Sorted(maps.Keys(r.istiods)) {
		first := r.istiods[process][0]
		revision, placed := revisions[cmp.Or(first.file.pod, podIn(first.file.name, pods))]
		name := "revision " + revision
		switch {
		case placed:
		case len(known) == 1:
			name = "revision " + slices.Collect(maps.Keys(known))[0]
		default:
			name = "version " + cmp.Or(first.tag, "unknown")
			unplaced++
		}
		of[name] = append(of[name], process)
	}
	names := slices.Sorted(maps.Keys(of))
	chosen := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(len(of[a]), len(of[b])) })
	for _, name := range names {
		for _, process := range of[name] {
			if name != chosen {
				delete(r.istiods, process)
				continue
			}
			for _, p := range r.istiods[process] {
				r.e.Istiod = cmp.Or(p.tag, r.e.Istiod)
			}
		}
	}
	if len(names) > 1 {
		r.unknown(assess.OtherIstiods.Of(strings.Join(names, ", "), chosen))
	}
	if len(r.istiods) > 1 && unplaced > 0 {
		r.unknown(assess.PagesUnplaced.Of(unplaced))
	}
}
