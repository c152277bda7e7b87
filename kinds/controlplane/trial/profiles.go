package trial

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
)

// Profiles of istiod.
const (
	profileLeast = 5 * time.Second
	profileMost  = 30 * time.Second
	profileTop   = 20 // functions in each table
)

// profiles profiles all of istiod's replicas while the cell's changes are repeated after the
// window, so that this does not disturb the measurement. It runs once per cell, in the first block
// that reaches it. A search or a tuning, with many cells and little time, takes no profiles.
func (t *controlTrial) profiles(ctx context.Context) []runner.Artefact {
	key := t.job.Cell.Key()
	if t.job.Block > 0 || t.c.study.Chooses() || t.c.profiled[key] || !verdict.Lived(t.seen.Before, t.seen.After) || len(t.after.pods) == 0 {
		return nil
	}
	t.c.profiled[key] = true
	t.c.say("profiles of istiod, while the changes are made again")
	out, err := t.takeProfiles(ctx)
	if err != nil && ctx.Err() == nil {
		t.warn(noteProfiles, err)
	}
	return out
}

func (t *controlTrial) takeProfiles(ctx context.Context) (files []runner.Artefact, err error) {
	plan, err := churn.NewPlan(churnSpec(t.c.study, t.job.Cell, t.levels, t.label()+"-p", t.job.Seed))
	if err != nil {
		return nil, err
	}
	again, err := t.c.newDriver(ctx, plan)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cleanErr := cleanUp(ctx, again); err == nil {
			err = cleanErr
		}
	}()
	if err := wake.Pause(ctx, t.levels.DebounceAfter+settleQuiet); err != nil {
		return nil, err
	}
	length := min(profileMost, max(profileLeast, controlplane.ChangeTime(t.c.study, t.job.Cell)+t.levels.DebounceAfter+time.Second))
	driving, stop := context.WithTimeout(ctx, length)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer stop() // deferred last, or a failure would wait for the last change
	wait.Go(func() {
		// Sightings are not recorded here.
		_, _ = again.Drive(driving, time.Now(), func(context.Context, []record.Marker) error { return nil })
	})
	servers := t.c.replicas(t.after.pods)
	taken := make([]replicaProfiles, len(servers))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, server := range servers {
		group.Go(func() (err error) {
			taken[i], err = profileReplica(groupCtx, server, length)
			return err
		})
	}
	err = group.Wait()
	for i, one := range taken {
		for _, kind := range []string{observe.ProfileCPU, observe.ProfileMutex, observe.ProfileBlock, observe.ProfileHeap} {
			if one.raw[kind] == nil {
				continue
			}
			more, summary, parseErr := t.profileFiles(i, kind, one)
			if parseErr != nil {
				t.warn(noteProfile, kind, servers[i].Name, parseErr)
			}
			files = append(files, more...)
			if summary != nil {
				t.out.Control.Profiles = append(t.out.Control.Profiles, *summary)
			}
		}
	}
	return files, err
}

// replicaProfiles holds one replica's profiles in pprof format by kind, and the earlier state of
// those that count from process start.
type replicaProfiles struct {
	raw, before map[string][]byte
	seconds     float64
}

func profileReplica(ctx context.Context, server observe.Replica, length time.Duration) (replicaProfiles, error) {
	out := replicaProfiles{raw: map[string][]byte{}, before: map[string][]byte{}}
	var err error
	begin := time.Now()
	for _, kind := range []string{observe.ProfileMutex, observe.ProfileBlock} {
		if out.before[kind], err = observe.FetchProfile(ctx, server, kind, 0); err != nil {
			return out, err
		}
	}
	if out.raw[observe.ProfileCPU], err = observe.FetchProfile(ctx, server, observe.ProfileCPU, length); err != nil {
		return out, err
	}
	for _, kind := range []string{observe.ProfileMutex, observe.ProfileBlock, observe.ProfileHeap} {
		if out.raw[kind], err = observe.FetchProfile(ctx, server, kind, 0); err != nil {
			return out, err
		}
	}
	out.seconds = time.Since(begin).Seconds()
	return out, nil
}

// profileFiles returns the files of one profile, and its most expensive functions.
func (t *controlTrial) profileFiles(replica int, kind string, p replicaProfiles) ([]runner.Artefact, *record.Profile, error) {
	name := fmt.Sprintf("istiod-%d-%s.pb.gz", replica, kind)
	files := []runner.Artefact{{Profile: true, Name: name, Data: p.raw[kind]}}
	stacks, err := profile.ReadPprof(bytes.NewReader(p.raw[kind]))
	if before := p.before[kind]; before != nil && err == nil {
		var had *profile.Profile
		if had, err = profile.ReadPprof(bytes.NewReader(before)); err == nil {
			stacks, err = profile.Since(had, stacks)
		}
	}
	if err != nil {
		return files, nil, err
	}
	out := &record.Profile{Replica: replica, Kind: kind, Unit: stacks.Unit, Total: stacks.Total(), Seconds: p.seconds,
		Flat: stacks.Top(profileTop), Cumulative: stacks.TopCumulative(profileTop)}
	if p.before[kind] != nil { // of the window alone
		var window bytes.Buffer
		if err := stacks.WritePprof(&window); err != nil {
			return files, out, err
		}
		files[0].Data = window.Bytes()
	}
	if out.Total > 0 {
		out.File = t.job.ID + "-" + name
	}
	return files, out, nil
}
