package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/node"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
)

// profiles repeats the trial's load and profiles the proxies meanwhile, so that the trial's own
// figures are unaffected. Failures are recorded; the error is only that of the context or of the
// generator.
func (t *trialRun) profiles(ctx context.Context, out *record.Trial) ([]runner.Artefact, error) {
	if t.d.profilers == nil {
		return nil, nil
	}
	parts := t.profiledParts()
	if len(parts) == 0 {
		return nil, nil
	}
	how := dataplane.ProfilingOf(t.o.Study)
	spec := t.spec
	spec.DurationS = (t.o.Study.Warmup.Max + how.Length + 4*dataplane.ProfileLead + spare(dataplane.Of(t.o.Study).Interval)).Seconds()
	if err := t.start(ctx, spec); err != nil {
		return nil, fmt.Errorf("start the generator for the profile: %w", err)
	}
	defer t.stop(ctx)
	if _, _, err := t.warmUp(ctx); err != nil {
		return nil, err
	}
	dumps, err := t.readConfigs(ctx)
	if err != nil {
		return nil, err
	}
	shots, taken, err := t.takeProfiles(ctx, parts, how)
	if err != nil {
		return nil, err
	}
	var files []runner.Artefact
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		p, more := t.profiled(part, taken[part], how)
		if edge, ok := shots[parts[part].node]; ok && p.Error == "" && !p.Ended {
			t.profiledCPU(&p, edge.Before, edge.After, taken[part].answer)
		}
		if filters, err := profile.ReadFilters(dumps[part]); err == nil && p.Error == "" {
			if data, err := json.Marshal(filters); err == nil {
				more = append(more, runner.Artefact{Profile: true, Name: part + ".filters.json", Data: data})
				p.Filters = t.profileFile(part + ".filters.json")
			}
		}
		files = append(files, more...)
		out.Profiles = append(out.Profiles, p)
		if p.Error != "" {
			t.seen.Unprofiled = append(t.seen.Unprofiled, fmt.Sprintf("no profile of %s: %s", nounOf(part), p.Error))
		}
	}
	return files, nil
}

func (t *trialRun) profileFile(name string) string {
	return store.DirProfiles + "/" + t.id + "-" + name
}

type profileTarget struct{ node, container string }

func (t *trialRun) profiledParts() map[string]profileTarget {
	out := map[string]profileTarget{}
	for part, pod := range t.proxies {
		for _, container := range containersOf(t.o.Mesh, part) {
			if id := pod.Containers[container]; id != "" {
				out[part] = profileTarget{pod.Node, id}
			}
		}
	}
	return out
}

// takenProfile is a node's response, or the reason why there is none.
type takenProfile struct {
	answer node.Answer
	err    error
}

// takeProfiles makes the nodes profile the parts simultaneously, and reads the parts' CPU at two
// times in between.
func (t *trialRun) takeProfiles(ctx context.Context, parts map[string]profileTarget, how dataplane.Profiling) (shots map[string]site.Shots, taken map[string]takenProfile, err error) {
	var mu sync.Mutex
	var profiles sync.WaitGroup
	taken = map[string]takenProfile{}
	for part, target := range parts {
		profiles.Go(func() {
			one := takenProfile{err: fmt.Errorf("no profile role runs on node %s", target.node)}
			if client, ok := t.d.profilers.ByNode[target.node]; ok {
				one.answer, one.err = client.Take(ctx, node.Request{ContainerID: target.container, Hz: how.Hz, Graph: how.Graph, Seconds: how.Taken().Seconds()})
			}
			mu.Lock()
			defer mu.Unlock()
			taken[part] = one
		})
	}
	start := t.now().Add(dataplane.ProfileLead)
	shots, err = t.snapshots(ctx, start, start.Add(how.Length), func(string, *observe.SnapshotsRequest) {})
	profiles.Wait()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err != nil {
		shots = nil // a profile without its cost is still a profile
	}
	return shots, taken, nil
}

// profiled turns a response into the record and its file.
func (t *trialRun) profiled(part string, taken takenProfile, how dataplane.Profiling) (record.Profiled, []runner.Artefact) {
	out := record.Profiled{Part: part, Hz: how.Hz, Graph: how.Graph, Seconds: taken.answer.Seconds, Trust: taken.answer.Trust.User, Ended: taken.answer.Ended}
	err := taken.err
	var p *profile.Profile
	if err == nil {
		p, err = taken.answer.Profile()
	}
	if err == nil && p.Len() == 0 {
		err = errors.New("the proxy used no CPU")
	}
	if err != nil {
		out.Error = err.Error()
		return out, nil
	}
	out.Samples, out.Notes = p.Taken(), p.Notes
	for _, b := range p.Binaries {
		if b.Why != "" && b.Weight > 0 {
			out.Notes = append(out.Notes, b.Path+": "+b.Why)
		}
	}
	name := part + ".pb.gz"
	out.File = t.profileFile(name)
	return out, []runner.Artefact{{Profile: true, Name: name, Data: taken.answer.Pprof}}
}

// profiledCPU records what a part used between two times, if perf sampled at both.
func (t *trialRun) profiledCPU(p *record.Profiled, before, after observe.Snapshot, answer node.Answer) {
	began, ended := answer.BeganUnixNS, answer.BeganUnixNS+int64(answer.Seconds*1e9)
	a, b := before.Targets[p.Part], after.Targets[p.Part]
	if began == 0 || a.AtUnixNS < began || b.AtUnixNS > ended {
		p.Notes = append(p.Notes, "perf did not sample for the whole time in which CPU was measured, so its cost is unknown")
		return
	}
	cpu, err := b.Since(a)
	if err != nil {
		p.Notes = append(p.Notes, "its CPU during the profile: "+err.Error())
		return
	}
	p.CPU, p.CPUSeconds = &cpu, float64(b.AtUnixNS-a.AtUnixNS)/1e9
}
