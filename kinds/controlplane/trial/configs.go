package trial

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"math"
	neturl "net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
)

// Limits of the configuration that a trial keeps.
const (
	maxHoldings = 4 // kinds of simulated proxies whose configuration is kept
	maxOwners   = 12
	maxLargest  = 5
)

// configs saves the proxies' configuration at the end of a trial and records its owners: a real
// sidecar's in every trial, since the size of its dump is a finding, and that of one simulated
// proxy of each kind once per cell. The files are those of the cell's first block.
func (t *controlTrial) configs(ctx context.Context) []runner.Artefact {
	if !t.c.study.Measured(controlplane.MeasureConfig) {
		return nil
	}
	var files []runner.Artefact
	if len(t.c.reals) > 0 && t.c.reals[0].Proxy != nil {
		if file, err := t.realConfig(ctx); err != nil {
			t.warn(noteRealConfig, err)
		} else if t.job.Block == 0 {
			files = append(files, file)
		}
	}
	if t.job.Block > 0 || len(t.ids) == 0 {
		return files
	}
	more, err := t.simulatedConfigs(ctx)
	if err != nil {
		t.warn(noteConfig, err)
	}
	return append(files, more...)
}

// realConfig reads the config dump of the first real sidecar, with endpoints.
func (t *controlTrial) realConfig(ctx context.Context) (runner.Artefact, error) {
	p := t.c.reals[0]
	name := p.Name + "." + p.Namespace
	dump, err := p.Proxy.Get(ctx, "/config_dump", neturl.Values{"include_eds": {"true"}})
	if err != nil {
		return runner.Artefact{}, err
	}
	held, err := scope.ReadDump(bytes.NewReader(dump), name, scope.Options{Keep: maxLargest})
	if err != nil {
		return runner.Artefact{}, err
	}
	h := holding(held)
	h.Namespace, h.Type, h.Real, h.Proxies = p.Namespace, xds.NodeSidecar, true, len(t.c.reals)
	file, err := runner.Gzipped("real.json.gz", dump)
	if err != nil {
		return file, err
	}
	if t.job.Block == 0 {
		h.File = t.configPath(file.Name)
	}
	t.out.Control.Holdings = append(t.out.Control.Holdings, h)
	return file, nil
}

// simulatedConfigs requests from the fleet the configuration of one proxy of each kind: first the
// kind that a Sidecar applies to, then those with the most proxies.
func (t *controlTrial) simulatedConfigs(ctx context.Context) (files []runner.Artefact, err error) {
	all, err := t.fleet.holdings(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(h xds.Holding) bool { return h.Type == xds.NodeZtunnel }) // package scope reads Envoy configuration only
	for _, kind := range chosen(all, t.levers.Namespaces[0]) {
		data, err := t.fleet.configuration(ctx, kind)
		if err != nil {
			return files, err
		}
		plain, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return files, fmt.Errorf("%s: %w", kind.Name, err)
		}
		held, err := scope.ReadRecorded(plain, kind.Name, scope.Options{Keep: maxLargest})
		if err != nil {
			return files, fmt.Errorf("%s: %w", kind.Name, err)
		}
		for _, note := range held.Notes {
			t.warn(noteConfigOf, kind.Name, note)
		}
		h := holding(held)
		h.Namespace, h.Type, h.Proxies = kind.Namespace, kind.Type, kind.Proxies
		file := runner.Artefact{Name: fileName(kind), Data: data}
		h.File = t.configPath(file.Name)
		t.out.Control.Holdings = append(t.out.Control.Holdings, h)
		files = append(files, file)
	}
	return files, nil
}

// alike is the maximum relative size difference between two kinds for one to represent both: names
// of namespaces and services differ in length.
const alike = 0.02

// chosen returns the kinds to keep, at most maxHoldings: first that of the scope's namespace, then
// kinds with different content, one of every type of node first. A kind that holds as much as a
// kept one is counted with it.
func chosen(all []xds.Holding, scope string) []xds.Holding {
	ordered := slices.Clone(all)
	rank := func(h xds.Holding) int {
		switch {
		case h.Type == xds.NodeSidecar && h.Namespace == scope:
			return 0
		case h.Type != xds.NodeSidecar:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(ordered, func(a, b xds.Holding) int { return cmp.Compare(rank(a), rank(b)) })
	var out []xds.Holding
	for _, h := range ordered {
		like := slices.IndexFunc(out, func(o xds.Holding) bool {
			return o.Type == h.Type && math.Abs(float64(o.Bytes-h.Bytes)) <= alike*float64(o.Bytes)
		})
		switch {
		case like >= 0:
			out[like].Proxies += h.Proxies
		case len(out) < maxHoldings:
			out = append(out, h)
		}
	}
	return out
}

var notInFileName = regexp.MustCompile(`[^a-z0-9-]+`)

// fileName returns the file name of a kind's configuration in a run directory.
func fileName(kind xds.Holding) string {
	name := notInFileName.ReplaceAllString(strings.ToLower(kind.Type+"-"+kind.Namespace), "-")
	return name[:min(len(name), 50)] + confile.Extension
}

// configPath returns where the store puts a file of this trial.
func (t *controlTrial) configPath(name string) string {
	return "configs/" + t.job.ID + "-" + name
}

// holding summarizes package scope's result for a proxy.
func holding(p scope.Proxy) record.Holding {
	h := record.Holding{Proxy: p.Name, DumpBytes: p.DumpBytes, WireBytes: p.WireBytes, Resources: p.Resources, Owners: []record.OwnerBytes{}}
	for _, x := range p.Types {
		if x.Type == scope.TypeEndpoint {
			h.EndpointDumpBytes = x.DumpBytes
		}
	}
	for i, o := range p.Owners {
		if i < maxOwners {
			h.Owners = append(h.Owners, record.OwnerBytes{Owner: o.Owner.String(), DumpBytes: o.DumpBytes, WireBytes: o.WireBytes, Resources: o.Resources})
			continue
		}
		h.OtherOwners++
		h.Others.DumpBytes += o.DumpBytes
		h.Others.WireBytes += o.WireBytes
		h.Others.Resources += o.Resources
	}
	for _, r := range p.Largest {
		h.Largest = append(h.Largest, record.ResourceBytes{Type: r.Type, Name: r.Name, Owner: r.Owner.String(), DumpBytes: r.DumpBytes, WireBytes: r.WireBytes})
	}
	return h
}
