package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advice"
	"github.com/meshtrial/meshtrial/advice/gather"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/scope"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/store"
)

// sampledProxies is how many proxies of a running mesh are asked what they hold.
const sampledProxies = 5

// recordedProxies returns what a run's proxies held beside what findings say: how many
// clusters they resolve by DNS themselves, most of any.
func recordedProxies(ctx context.Context, dir string) func([]*record.Trial) (map[string]float64, []string) {
	return func(trials []*record.Trial) (map[string]float64, []string) {
		folder, err := store.Folder(dir, store.DirConfigs)
		if err != nil {
			return nil, nil // the study did not ask for them
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, []string{"not read: " + err.Error()}
		}
		facts, notes := map[string]float64{}, []string(nil)
		for _, e := range entries {
			of := slices.ContainsFunc(trials, func(t *record.Trial) bool { return strings.HasPrefix(e.Name(), t.ID+"-") })
			kept := slices.ContainsFunc(scopeFiles, func(end string) bool { return strings.HasSuffix(e.Name(), end) })
			if !of || !kept || !e.Type().IsRegular() {
				continue
			}
			err := withFile(ctx, nil, filepath.Join(folder, e.Name()), func(r io.Reader) error {
				n, err := gather.DNSClusters(r)
				if err == nil { // a part of a file would be too few
					facts["dns_clusters"] = max(facts["dns_clusters"], float64(n))
				}
				return err
			})
			if err != nil {
				notes = append(notes, fmt.Sprintf("not read: %s: %v", e.Name(), err))
			}
		}
		return facts, notes
	}
}

// proxies asks some of the running proxies what they hold and what they called. What
// cannot be had is a note.
func (f *adviseFlags) proxies(ctx context.Context, env *Env, e *advice.Evidence) error {
	names := map[string]int{}
	of := scopeFlags{lab: f.lab, kubeconfig: f.kubeconfig, context: f.context, proxies: sampledProxies, stats: true,
		each: func(name string, r io.Reader) error {
			n, err := gather.DNSClusters(r)
			names[name] = n
			return err
		}}
	all, notes, err := labProxies(ctx, env, of, scope.Options{})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		e.Notes = append(e.Notes, "what proxies hold could not be read: "+err.Error())
		return nil
	}
	e.Notes = append(e.Notes, notes...)
	if len(all) == 0 {
		e.Notes = append(e.Notes, "no proxy was there to be asked what it holds")
		return nil
	}
	var sizes []float64
	for _, p := range all {
		sizes = append(sizes, float64(p.DumpBytes))
	}
	e.Facts["config_bytes"] = stat.Median(sizes)
	for _, n := range names {
		e.Facts["dns_clusters"] = max(e.Facts["dns_clusters"], float64(n))
	}
	if u := scope.Merge(all, 1).Uncalled; u != nil && u.Clusters > 0 {
		e.Facts["unused_share"] = float64(u.Never) / float64(u.Clusters)
		e.Facts["unused_clusters"] = float64(u.Never) / float64(len(all))
	}
	return nil
}
