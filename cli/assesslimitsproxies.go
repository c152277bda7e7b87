package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
)

// recordedProxies returns a function that reads from a run's recorded configuration what its
// findings do not contain: clusters that proxies resolve by DNS themselves, and listeners of
// headless Services.
func recordedProxies(ctx context.Context, dir string) func([]*record.Trial) (map[*advice.Quantity]float64, []string) {
	return func(trials []*record.Trial) (map[*advice.Quantity]float64, []string) {
		folder, err := store.Folder(dir, store.DirConfigs)
		if err != nil {
			return nil, nil // the study does not record configuration
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, []string{"not read: " + err.Error()}
		}
		var all []scope.Proxy
		var notes []string
		for _, e := range entries {
			of := slices.ContainsFunc(trials, func(t *record.Trial) bool {
				return strings.HasPrefix(e.Name(), t.ID+"-")
			})
			kept := slices.ContainsFunc(scopeFiles, func(end string) bool { return strings.HasSuffix(e.Name(), end) })
			if !of || !kept || !e.Type().IsRegular() {
				continue
			}
			p, err := readScopeFile(ctx, nil, filepath.Join(folder, e.Name()), e.Name(), scope.Options{Keep: gather.KeepListeners})
			if err != nil { // part of a file would give counts that are too low
				notes = append(notes, fmt.Sprintf("not read: %s: %v", e.Name(), err))
				continue
			}
			all = append(all, p)
		}
		facts := map[*advice.Quantity]float64{}
		return facts, append(notes, gather.Held(all, facts)...)
	}
}

// proxies reads what a sample of the running sidecars hold and what they have called. What cannot
// be read becomes a note.
func (f *adviseFlags) proxies(ctx context.Context, env *Env, from *app.Istiods, e *advice.Evidence) error {
	began := map[string]time.Time{}
	var all []scope.Proxy
	var asked []corev1.Pod
	of := scopeFlags{lab: f.Lab, kubeconfig: f.Kubeconfig, context: f.Context, stats: true,
		choose: func(pods []corev1.Pod) []corev1.Pod {
			sample, all := gather.SampleSidecars(pods)
			if all > len(sample) {
				e.Notes = append(e.Notes, fmt.Sprintf("%d of %d sidecars were read", len(sample), all))
			}
			for _, pod := range sample {
				began[pod.Namespace+"/"+pod.Name] = gather.ProxyStarted(pod)
			}
			asked = sample
			return sample
		}}
	notes, err := labProxies(ctx, env, of, scope.Options{Keep: gather.KeepListeners}, func(p scope.Proxy) error {
		all = append(all, p)
		return nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		e.Notes = append(e.Notes, "the proxies' configuration could not be read: "+err.Error())
		return nil
	}
	e.Notes = append(e.Notes, notes...)
	e.Notes = append(e.Notes, gather.HeldFacts(all, began, time.Now(), e.Facts)...)
	share, err := from.Scoped(ctx, asked)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		e.Notes = append(e.Notes, "it is unknown which Sidecars apply to the proxies that were read: "+err.Error())
	case len(asked) > 0:
		e.Facts[advice.ScopedShare] = share
	}
	return nil
}
