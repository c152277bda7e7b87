package xds

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/record"
)

// Limits that decide when a join is complete.
const (
	joinLimit = 30 * time.Second
	// joinQuiet is how long the stream must be quiet once the proxy has its configuration.
	joinQuiet = 500 * time.Millisecond
	// joinOptional is how long to wait for optional types.
	joinOptional = 2 * time.Second
	joinLook     = 10 * time.Millisecond
)

// Join connects the one proxy of spec, independently of any fleet, waits until it has its
// first configuration, and disconnects it. It fails if the proxy loses its stream, because
// the time would then include a retry.
func Join(ctx context.Context, spec Spec) (*record.Join, error) {
	if len(spec.Proxies) != 1 {
		return nil, errs.Usage("xds: exactly one proxy can join, not %d", len(spec.Proxies))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, joinLimit, fmt.Errorf("it did not have its configuration within %v", joinLimit))
	defer cancel()
	times := &joining{}
	f, err := start(ctx, spec, times)
	if err != nil {
		return nil, err
	}
	defer f.Stop()
	p := &spec.Proxies[0]
	fail := func(err error) (*record.Join, error) {
		return nil, fmt.Errorf("xds: %s.%s joins: %w", p.Name, p.Namespace, err)
	}
	for {
		if err := wake.Pause(ctx, joinLook); err != nil {
			return fail(err)
		}
		s := f.Status()
		if s.LastError != "" {
			return fail(fmt.Errorf("it lost its stream: %s", s.LastError))
		}
		wait := joinQuiet
		if f.proxies[0].wantsNDS() && f.wire[nds].responses.Load() == 0 {
			wait = joinOptional
		}
		if s.Quiet(int64(wait)) {
			break
		}
	}
	out := &record.Join{Proxy: p.Name + "." + p.Namespace, Namespace: p.Namespace, Types: map[string]record.JoinType{}}
	times.mu.Lock()
	defer times.mu.Unlock()
	for k := range kinds {
		w := f.wire[k].record()
		if w.Responses == 0 {
			continue
		}
		t := record.JoinType{Responses: w.Responses, Resources: w.Resources, Bytes: w.Bytes, FirstUS: times.since(times.first[k]), LastUS: times.since(times.last[k])}
		out.Types[k.String()] = t
		out.TotalUS = max(out.TotalUS, t.LastUS)
	}
	return out, nil
}

// joining records the times of requests and responses in Unix nanoseconds. A nil joining
// records nothing.
type joining struct {
	mu          sync.Mutex
	asked       int64                 // the first request of the first stream
	first, last [int(kinds) + 1]int64 // responses, by kind
}

// asks records a request about to be sent.
func (j *joining) asks() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.asked == 0 {
		j.asked = time.Now().UnixNano()
	}
}

// gets records a response.
func (j *joining) gets(k kind, at int64) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first[k] == 0 {
		j.first[k] = at
	}
	j.last[k] = at
}

func (j *joining) since(at int64) int64 { return (at - j.asked) / 1000 }
