package runner

import (
	"context"
	"sync"
	"time"

	"github.com/meshmark/meshmark/mesh"
	"github.com/meshmark/meshmark/observe"
	"github.com/meshmark/meshmark/record"
)

// Reading of istiod's log, which is done after the window.
const (
	logsMargin = time.Second            // before the first change
	logsQuiet  = 500 * time.Millisecond // nothing more comes
	logsLimit  = 20 * time.Second
)

// stages works out the stages of the changes' way from istiod's log, its
// metrics and the proxies' times.
func (t *controlTrial) stages(ctx context.Context, events []record.Event) {
	logs, err := t.readLogs(ctx)
	if err != nil {
		t.warn("istiod's log could not be read, so that stages come from its metrics: %v", err)
	}
	var names []string
	for _, p := range t.proxies() {
		names = append(names, p.Name+"."+p.Namespace)
	}
	way := observe.MakeStages(observe.StagesInput{Events: events, Proxies: names, Rises: t.out.Control.Istiod, Logs: logs})
	t.out.Control.Stages = way.Stages
	if way.Pairs > 0 && !way.Within() {
		t.warn("%.1f ms of a mean way of %.1f ms are in no stage (%d of %d sightings are in istiod's log from end to end)",
			way.ResidualUS/1000, way.MeanUS/1000, way.Logged, way.Pairs)
	}
}

// readLogs reads what istiod's replicas wrote in the window.
func (t *controlTrial) readLogs(ctx context.Context) ([]*observe.IstiodLog, error) {
	ctx, cancel := context.WithTimeout(ctx, logsLimit)
	defer cancel()
	since := t.out.Window.Start.Add(-logsMargin)
	var logs []*observe.IstiodLog
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	for _, pod := range t.after.pods {
		log := &observe.IstiodLog{}
		if o, err := t.c.observerOf(pod.Node); err == nil {
			if ahead, bound, err := o.ClockOffset(ctx); err == nil && ahead.Abs() > bound {
				log.AheadNS = int64(ahead)
			}
		}
		stream, err := t.c.mesh.Logs(ctx, pod, since)
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
		reading.Go(func() {
			defer stream.Close()
			_ = log.Read(ctx, stream) // what was read is what there is
		})
	}
	// The log is followed; it has been read when nothing more comes.
	end := t.out.Window.Start.Add(time.Duration(t.out.Window.Seconds * float64(time.Second)))
	lines, still := -1, time.Now()
	for ctx.Err() == nil {
		now, past := 0, true
		for _, log := range logs {
			n, last := log.Seen()
			now += n
			past = past && last.Add(-time.Duration(log.AheadNS)).After(end)
		}
		if now != lines {
			lines, still = now, time.Now()
		}
		if past && len(logs) > 0 || time.Since(still) >= logsQuiet {
			break
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			break
		}
	}
	return logs, nil
}

// Profiles of istiod.
const (
	profileLeast = 5 * time.Second
	profileMost  = 30 * time.Second
)

// profiles takes istiod's profiles while the cell's changes are made once
// more, after the window, so that they disturb nothing that is measured: once
// for each cell, in the first block that gets to it.
func (t *controlTrial) profiles(ctx context.Context) []artefact {
	key := t.job.cell.Key()
	if t.job.block > 0 || t.c.profiled[key] || !t.before.same(t.after) || len(t.after.pods) == 0 {
		return nil
	}
	t.c.profiled[key] = true
	t.c.say("profiles of istiod, while the changes are made again")
	out, err := t.takeProfiles(ctx)
	if err != nil && ctx.Err() == nil {
		t.warn("profiles of istiod: %v", err)
	}
	return out
}

func (t *controlTrial) takeProfiles(ctx context.Context) (files []artefact, err error) {
	again, err := t.c.newDriver(ctx, churnSpec(t.c.study, t.job.cell, t.levels, trialLabel(t.c.run, t.job.id)+"-p", t.job.seed))
	if err != nil {
		return nil, err
	}
	defer func() {
		if cleanErr := cleanUp(again); err == nil {
			err = cleanErr
		}
	}()
	if err := pause(ctx, t.levels.DebounceAfter+settleQuiet); err != nil {
		return nil, err
	}
	length := min(profileMost, max(profileLeast, t.c.study.ChangeTime(t.job.cell)+t.levels.DebounceAfter+time.Second))
	server := t.c.replicas([]mesh.ControlPod{t.after.pods[0]})[0]
	driving, stop := context.WithTimeout(ctx, length)
	defer stop()
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		// Who gets which change is not looked at.
		_, _ = again.Drive(driving, time.Now(), func(context.Context, []record.Marker) error { return nil })
	})
	before := map[string][]byte{}
	for _, kind := range []string{observe.ProfileMutex, observe.ProfileBlock} {
		if before[kind], err = observe.FetchProfile(ctx, server, kind, 0); err != nil {
			return nil, err
		}
	}
	cpu, err := observe.FetchProfile(ctx, server, observe.ProfileCPU, length)
	if err != nil {
		return nil, err
	}
	files = append(files, artefact{profile: true, name: "istiod-cpu.pb.gz", data: cpu})
	if stacks, err := observe.ParseProfile(cpu); err == nil && stacks.Total > 0 {
		files = append(files, artefact{profile: true, name: "istiod-cpu.svg", data: []byte(stacks.Flame("istiod, CPU: " + t.c.label(t.job.cell)))})
	}
	for _, kind := range []string{observe.ProfileMutex, observe.ProfileBlock, observe.ProfileHeap} {
		after, err := observe.FetchProfile(ctx, server, kind, 0)
		if err != nil {
			return files, err
		}
		files = append(files, artefact{profile: true, name: "istiod-" + kind + ".pb.gz", data: after})
		if before[kind] == nil {
			continue
		}
		if stacks, err := observe.ProfileSince(before[kind], after); err == nil && stacks.Total > 0 {
			files = append(files, artefact{profile: true, name: "istiod-" + kind + ".svg", data: []byte(stacks.Flame("istiod, " + kind + ": " + t.c.label(t.job.cell)))})
		}
	}
	return files, nil
}

// artefact is a file that a trial leaves beside its line.
type artefact struct {
	profile bool // profiles/, not configs/
	name    string
	data    []byte
}

// configs are the configurations of the real pods' sidecars, once for each
// cell.
func (t *controlTrial) configs(ctx context.Context) []artefact {
	if t.job.block > 0 || len(t.c.reals) == 0 || t.c.reals[0].proxy == nil {
		return nil
	}
	dump, err := t.c.reals[0].proxy.ConfigDump(ctx)
	if err != nil {
		t.warn("configuration of a real sidecar: %v", err)
		return nil
	}
	return []artefact{{name: "real.json", data: dump}}
}
