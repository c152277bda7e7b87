package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile"
)

// Settings reads the settings of the running istiod and returns its version. Settings that cannot
// be read become a note.
func (i *Istiods) Settings(ctx context.Context, e *advice.Evidence) (version string, err error) {
	if _, err := i.Pods(ctx); err != nil { // finding no istiod is an error, not a note
		return "", err
	}
	if usual, _ := Istio().ControlPlane(); i.Namespace != usual {
		e.Notes = append(e.Notes, fmt.Sprintf("settings can be read only from an istiod in namespace %s, not in %s", usual, i.Namespace))
		return "", nil
	}
	plane, err := Istio().Control(ctx, i.config, i.Revision, nil)
	if err != nil {
		return "", err
	}
	defer plane.Close()
	found, err := plane.Found(ctx, mesh.Levers{})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		e.Notes = append(e.Notes, "istiod's settings could not be read: "+err.Error())
		return "", nil
	}
	e.Levers, e.Root = found, plane.Root()
	if i.of != Istio().RevisionOf(nil) {
		e.Deployment = "istiod-" + i.of // the name that Istio's chart gives it
	}
	return i.version(ctx, mesh.Version(found[controlplane.FactorIstiod])), nil
}

// version returns the version that a running istiod reports, as `pilot-discovery version --short`
// prints it. Failing that, it returns the tag of istiod's image, which may be a digest or have a
// suffix.
func (i *Istiods) version(ctx context.Context, tag string) string {
	for _, client := range i.clients {
		body, err := get(ctx, client, "http://istiod/version")
		if err != nil {
			continue
		}
		page, err := io.ReadAll(io.LimitReader(body, maxVersion))
		if errors.Join(err, body.Close()) == nil {
			if v, ok := shortVersion(string(page)); ok {
				return v
			}
		}
	}
	return tag
}

// maxVersion limits the size of istiod's version page, in bytes.
const maxVersion = 1 << 10

// shortVersion returns the part of VERSION-REVISION-STATUS that `version --short` prints.
func shortVersion(page string) (string, bool) {
	parts := strings.Split(strings.TrimSpace(page), "-")
	if len(parts) < 3 || strings.ContainsAny(page, "<> ") {
		return "", false
	}
	return strings.Join(parts[:len(parts)-2], "-"), true
}

// WatchLocks takes the mutex profile of each replica now and again when the returned function is
// called. The difference gives the number of goroutines that waited for a lock. If a profile
// cannot be taken, a note says so and the quantity stays unknown.
func (i *Istiods) WatchLocks(ctx context.Context) func(context.Context, *advice.Evidence) {
	before, err := i.mutexes(ctx)
	began := time.Now()
	return func(ctx context.Context, e *advice.Evidence) {
		waited := 0.0
		after, afterErr := i.mutexes(ctx)
		if err == nil {
			err = afterErr
		}
		for pod, now := range after {
			had, ok := before[pod]
			if !ok || err != nil {
				continue
			}
			if now.Total() == 0 {
				err = fmt.Errorf("%s has recorded no wait for a lock since it started: it may not record any (MUTEX_PROFILE_FRACTION)", pod)
				continue
			}
			var since *profile.Profile
			if since, err = profile.Since(had, now); err == nil {
				waited += float64(since.Total()) / 1e9
			}
		}
		if err != nil {
			e.Notes = append(e.Notes, "mutex profiles could not be recorded: "+err.Error())
			return
		}
		e.Facts[advice.LocksWaiting] = waited / time.Since(began).Seconds()
	}
}

// mutexes returns the mutex profiles of all replicas by pod.
func (i *Istiods) mutexes(ctx context.Context) (map[string]*profile.Profile, error) {
	targets, err := i.Pods(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]*profile.Profile{}
	for _, t := range targets {
		pod := t.Labels["pod"]
		replica := observe.Replica{Name: pod, HTTP: i.clients[pod]}
		raw, err := observe.FetchProfile(ctx, replica, observe.ProfileMutex, 0)
		if err != nil {
			return nil, err
		}
		if out[pod], err = profile.ReadPprof(bytes.NewReader(raw)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// WatchWrites records who writes which objects until the returned function is called. That
// function adds the result to the evidence.
func (i *Istiods) WatchWrites(ctx context.Context) func(*advice.Evidence) {
	objects, err := dynamic.NewForConfig(i.config)
	if err != nil {
		return func(e *advice.Evidence) { e.Notes = append(e.Notes, "writes were not watched: "+err.Error()) }
	}
	watching, stop := context.WithCancel(ctx)
	writes := gather.NewWrites(time.Now())
	ended := make(chan []string, 1)
	go func() { ended <- writes.Watch(watching, objects, gather.Watched) }()
	return func(e *advice.Evidence) {
		stop()
		e.Notes = append(e.Notes, <-ended...)
		facts, notes := writes.Facts(time.Now())
		maps.Copy(e.Facts, facts)
		e.Notes = append(e.Notes, notes...)
	}
}

// Scoped reports the share of pods to which a Sidecar in their own namespace applies.
func (i *Istiods) Scoped(ctx context.Context, pods []corev1.Pod) (float64, error) {
	objects, err := dynamic.NewForConfig(i.config)
	if err != nil {
		return 0, err
	}
	sidecars := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"}
	return gather.ScopedShare(ctx, objects.Resource(sidecars), pods)
}
