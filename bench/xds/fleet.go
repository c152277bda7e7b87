package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/control"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/record"
)

// fleetMode is the argument with which this program runs the sidecars.
const fleetMode = "fleet"

// serveFleet prints the address of a control server and runs its fleets until
// in ends.
func serveFleet(ctx context.Context, in io.Reader, out io.Writer) error {
	return child.Serve(ctx, in, out, func(ctx context.Context, l net.Listener) error {
		return control.NewServer(ctx, "bench").Serve(l)
	})
}

// fleet is a process with simulated sidecars.
type fleet struct {
	*control.Client
	process *child.Process
}

// newFleet starts the process; it has no sidecars yet.
func newFleet(ctx context.Context) (*fleet, error) {
	p, err := child.Start(ctx, fleetMode, nil)
	if err != nil {
		return nil, err
	}
	return &fleet{Client: control.NewClient("http://"+p.Address, nil), process: p}, nil
}

// memory returns the current and the maximum memory of the process for each of n
// sidecars, in KB.
func (f *fleet) memory(n int) (now, most float64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.process.PID))
	if err != nil {
		return 0, 0, err
	}
	kb := func(key string) float64 {
		_, rest, _ := strings.Cut(string(data), key+":")
		var v float64
		if _, e := fmt.Sscan(rest, &v); e != nil {
			err = errors.Join(err, fmt.Errorf("%s of the sidecars' process: %w", key, e))
		}
		return v * 1.024 / float64(n)
	}
	now, most = kb("VmRSS"), kb("VmHWM")
	return now, most, err
}

// close ends the process and its sidecars.
func (f *fleet) close() error { return f.process.Close() }

// connect starts sidecars and waits until all have everything and no more
// arrives. It returns how long it took until all had everything.
func (f *fleet) connect(ctx context.Context, o *options, spec xds.Spec) (time.Duration, error) {
	if _, err := f.Start(ctx, spec); err != nil {
		return 0, err
	}
	begin, said := time.Now(), time.Now()
	var took time.Duration
	for {
		s, err := f.Status(ctx)
		if err != nil {
			return 0, err
		}
		if s.Synced == s.Proxies && took == 0 {
			took = time.Since(begin)
		}
		if s.Quiet(int64(quietFor)) {
			return took, nil
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			o.say("%d of %d sidecars have everything, %d are connected; waiting: %v; last error: %.200s", s.Synced, s.Proxies, s.Connected, s.Waiting, s.LastError)
		}
		if time.Since(begin) > connectLimit {
			return 0, fmt.Errorf("%d of %d sidecars had everything after %v; last error: %s", s.Synced, s.Proxies, connectLimit, s.LastError)
		}
		if err := wake.Pause(ctx, lookEvery); err != nil {
			return 0, err
		}
	}
}

const (
	quietFor = 5 * time.Second
	// lookEvery is the interval of queries to the fleet, each of which costs a
	// tenth of a connecting sidecar.
	lookEvery    = 200 * time.Millisecond
	connectLimit = 10 * time.Minute
	pushLimit    = 2 * time.Minute
)

// seen waits until all of n sidecars have seen a marker and acknowledged it.
func (f *fleet) seen(ctx context.Context, marker, n int) (xds.MarkerSightings, error) {
	begin := time.Now()
	for {
		all, err := f.sightings(ctx, marker)
		if err != nil {
			return xds.MarkerSightings{}, err
		}
		acked := 0
		if len(all) > 0 {
			for _, at := range all[0].AckedNS {
				if at > 0 {
					acked++
				}
			}
			if acked >= n {
				return all[0], nil
			}
		}
		if time.Since(begin) > pushLimit {
			account, err := f.Account(ctx)
			return xds.MarkerSightings{}, errors.Join(err, fmt.Errorf("%d of %d sidecars have a change after %v, %d acknowledged it; streams lost: %v, connected: %d",
				len(all[0].Proxy), n, pushLimit, acked, account.Reconnects, account.Connected))
		}
		if err := wake.Pause(ctx, 100*time.Millisecond); err != nil {
			return xds.MarkerSightings{}, err
		}
	}
}

// sightings returns who saw the markers from index from on.
func (f *fleet) sightings(ctx context.Context, from int) ([]xds.MarkerSightings, error) {
	s, err := f.Sightings(ctx, from)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.All()
}

// announce announces a marker to the sidecars and returns its index.
func (f *fleet) announce(ctx context.Context, m record.Marker) (int, error) {
	a, err := f.Announce(ctx, []record.Marker{m})
	return a.First, err
}

// seconds returns CPU time in seconds.
func seconds(c record.CPU) float64 { return c.UserS + c.SystemS }

// simulated names n sidecars without pods.
func simulated(n int) []xds.Proxy {
	out := make([]xds.Proxy, n)
	for i := range out {
		out[i] = xds.Proxy{Name: fmt.Sprintf("pod-%d", i), Namespace: fmt.Sprintf("namespace-%d", i%10),
			IP: fmt.Sprintf("10.%d.%d.%d", 1+i>>16, i>>8&255, i&255), ServiceAccount: "default", Labels: map[string]string{"app": fmt.Sprintf("service-%d", i)}}
	}
	return out
}
