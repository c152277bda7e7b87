package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/record"
)

// oneRevision keeps the pages of one revision's istiods: of several, their sum would be of no istiod that there is.
// The one with most processes is kept, as of a running mesh. Pages of which nobody says whose they are belong to the
// only revision that there is; otherwise their versions tell them apart.
func (r *filesRead) oneRevision() {
	r.withoutReplaced()
	revisions, pods := map[string]string{}, map[string]bool{} // of the listed istiods
	known := map[string]bool{}
	for _, p := range r.proxies {
		if p.Kind == assess.Istiod {
			pod := p.Namespace + "/" + p.Pod
			revisions[pod], pods[pod], known[p.Revision] = p.Revision, true, true
		}
	}
	of := map[string][]string{} // processes by revision, or by version
	const versions = "version "
	for _, process := range slices.Sorted(maps.Keys(r.istiods)) {
		first := r.istiods[process][0]
		revision, placed := revisions[cmp.Or(first.file.pod, podIn(first.file.name, pods))]
		name := "revision " + revision
		switch {
		case placed:
		case len(known) == 1:
			name = "revision " + slices.Collect(maps.Keys(known))[0]
		default:
			name = versions + cmp.Or(first.tag, "unknown")
		}
		of[name] = append(of[name], process)
	}
	if len(known) == 1 {
		r.revision = slices.Collect(maps.Keys(known))[0]
	}
	names := slices.Sorted(maps.Keys(of))
	if len(names) == 0 {
		return
	}
	chosen := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(len(of[a]), len(of[b])) })
	if revision, is := strings.CutPrefix(chosen, "revision "); is {
		r.revision = revision
	}
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
	if n := len(of[chosen]); n > 1 && strings.HasPrefix(chosen, versions) {
		r.unknown(assess.PagesUnplaced.Of(n))
	}
}

// kindConfig is the kind of the object with a revision's mesh configuration.
const kindConfig = "ConfigMap"

// config keeps the mesh configuration of a revision.
func (r *filesRead) config(name string, raw json.RawMessage) error {
	var o corev1.ConfigMap
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("%s %s: %w", kindConfig, name, err)
	}
	if text, is := o.Data["mesh"]; is && len(r.meshes) < mostMeshes {
		r.meshes[name] = []byte(text)
	}
	return nil
}

// mostMeshes limits the mesh configurations that are kept.
const mostMeshes = 100

// settings are those of the istiods of the revision that is assessed, as far as their objects were listed.
func (r *filesRead) settings() record.Cell {
	usual := Istio().RevisionOf(nil)
	revision := cmp.Or(r.revision, usual)
	pods := slices.DeleteFunc(slices.Clone(r.istiodPods), func(p corev1.Pod) bool { return Istio().RevisionOf(p.Labels) != revision })
	if len(pods) == 0 {
		return nil
	}
	name := "istio"
	if revision != usual {
		name += "-" + revision
	}
	found, err := Istio().FoundInObjects(pods, r.meshes[pods[0].Namespace+"/"+name])
	if err != nil {
		r.unknown(assess.FileNotRead.Of(err))
		return nil
	}
	r.e.Settings = changedSettings(found)
	return found
}
