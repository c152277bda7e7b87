package trial

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/drive/xds"
	xdscontrol "github.com/meshtrial/meshtrial/drive/xds/control"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

// roleAhead serves a role of simulated proxies whose clock leads this machine's by that many
// nanoseconds.
func roleAhead(ctx context.Context, ahead *atomic.Int64) http.Handler {
	role := xdscontrol.NewServer(ctx, "v").Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/clock" {
			role.ServeHTTP(w, r)
			return
		}
		jsonhttp.Answer(w, map[string]int64{"unix_ns": time.Now().UnixNano() + ahead.Load()})
	})
}

// discovery returns a server of three services, and a fleet of five proxies.
func discovery(t *testing.T) (*xdsserver.Server, xds.Spec) {
	t.Helper()
	c, err := xdsserver.Synthetic(3, 1)
	must.OK(t, err)
	s := xdsserver.New(c)
	spec := xds.DefaultSpec(loopback.Serve(t, s.Serve, s.Close))
	for i := range 5 {
		spec.Proxies = append(spec.Proxies, xds.Proxy{Name: fmt.Sprintf("p-%d", i), Namespace: "n", IP: fmt.Sprintf("10.0.0.%d", i+1)})
	}
	return s, spec
}

// startedPair starts a fleet of two pods until the test ends; the clock of the second is ahead.
func startedPair(t *testing.T, spec xds.Spec, ahead *atomic.Int64) *fleet {
	t.Helper()
	var right atomic.Int64
	a, b := httptest.NewServer(roleAhead(t.Context(), &right)), httptest.NewServer(roleAhead(t.Context(), ahead))
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	f := fleetAt(a.URL, b.URL)
	must.OK(t, f.start(t.Context(), spec))
	t.Cleanup(func() { f.stop(context.WithoutCancel(t.Context())) })
	f.allSynced(t)
	return f
}

// fleetAt returns pods that answer at these addresses, each on its own node.
func fleetAt(addresses ...string) *fleet {
	var of []simulator
	for i, address := range addresses {
		of = append(of, simulator{site.Pod{Name: fmt.Sprintf("xds-%d", i), Node: fmt.Sprintf("node-%d", i)}, xdscontrol.NewClient(address, nil)})
	}
	return newFleet(of)
}

func (f *fleet) allSynced(t *testing.T) {
	t.Helper()
	eventually.Holds(t, "all have everything", func() bool {
		s, err := f.status(t.Context())
		must.OK(t, err)
		return s.Proxies == 5 && s.Synced == 5 && s.Connected == 5
	})
}

// Proxies in two pods are one fleet: they are numbered over both, and sightings are by one clock,
// although the second's is 5 ms ahead. A clock that is set in the meantime makes the trial invalid.
func TestFleetOfTwo(t *testing.T) {
	s, spec := discovery(t)
	var ahead atomic.Int64
	ahead.Store(int64(5 * time.Millisecond))
	f := startedPair(t, spec, &ahead)
	clock := f.clocks[1]
	if off := clock.Ahead - 5*time.Millisecond; off.Abs() > clock.Bound || f.clocks[0] != (hands.Clock{}) {
		t.Errorf("the clock is %v ahead, within %v", clock.Ahead, clock.Bound)
	}
	must.OK(t, must.Err(f.account(t.Context())))
	must.OK(t, f.announce(t.Context(), []record.Marker{{Change: 0, Type: "eds", Text: "another"}, {Change: 1, Type: "eds", Text: "never"}}))
	changed, err := xdsserver.SyntheticEndpoints(0, 1, "another")
	must.OK(t, err)
	s.Push(xdsserver.Change{Type: xdsserver.EndpointType, Changed: []xdsserver.Resource{changed}})
	var seen []xds.MarkerSightings
	eventually.Holds(t, "all acknowledge it", func() bool {
		seen, err = f.sightings(t.Context())
		must.OK(t, err)
		return len(seen) == 2 && len(seen[0].Proxy) == 5 && !slices.Contains(seen[0].AckedNS, record.Never)
	})
	sorted := slices.Sorted(slices.Values(seen[0].Proxy))
	if !slices.Equal(sorted, []int32{0, 1, 2, 3, 4}) || len(seen[1].Proxy) > 0 || seen[1].Change != 1 || !slices.IsSorted(seen[0].ReceivedNS) {
		t.Errorf("%+v", seen)
	}
	own, err := f.apis[1].Sightings(t.Context(), 0)
	must.OK(t, err)
	second, err := own.Next()
	if err != nil || len(second.Proxy) != 3 {
		t.Fatalf("%+v, %v", second, err)
	}
	_ = own.Close()
	for i, p := range second.Proxy {
		k := slices.Index(seen[0].Proxy, p+2)
		if seen[0].ReceivedNS[k] != second.ReceivedNS[i]-int64(clock.Ahead) || seen[0].AckedNS[k] != second.AckedNS[i]-int64(clock.Ahead) {
			t.Errorf("proxy %d: received at %d, which was %d by its own clock", p+2, seen[0].ReceivedNS[k], second.ReceivedNS[i])
		}
	}
	held, err := f.holdings(t.Context())
	if err != nil || len(held) != 1 || held[0].Proxies != 5 || held[0].Bytes == 0 {
		t.Fatalf("%+v, %v", held, err)
	}
	for proxy := range spec.Proxies {
		held[0].Proxy = proxy
		packed, err := f.configuration(t.Context(), held[0])
		must.OK(t, err)
		plain, err := gzip.NewReader(bytes.NewReader(packed))
		must.OK(t, err)
		if file, err := confile.NewReader(plain); err != nil || file.Header.Proxy != fmt.Sprintf("p-%d.n", proxy) {
			t.Errorf("configuration of proxy %d: %+v, %v", proxy, file, err)
		}
	}
	account, err := f.account(t.Context())
	if err != nil || account.Proxies != 5 || account.Wire["eds"].Acks < 5 || account.Config["cds"] == 0 || account.NamespaceConfig["n"]["cds"] != account.Config["cds"] {
		t.Fatalf("%+v, %v", account, err)
	}
	for _, set := range []time.Duration{0, 5 * time.Millisecond} {
		ahead.Add(int64(set))
		after, err := f.compare(t.Context())
		must.OK(t, err)
		trial := record.Trial{Cell: record.Cell{controlplane.FactorSimulators: "2"}, Control: &record.Control{Simulators: f.record(after)}}
		for i, s := range trial.Control.Simulators {
			if s.Pod != f.Pods[i].Name || s.Proxies != 2+i || s.RSSBytes == 0 {
				t.Errorf("%+v", s)
			}
		}
		out, _ := verdict.Of(trial, verdict.Evidence{EndNS: 1, Audience: verdict.Audience{Proxies: make([]verdict.Proxy, 5), Simulated: 5}, AccountAfter: account}, nil)
		ok := map[string]bool{}
		for _, c := range out.Validity.Checks {
			ok[c.Name] = c.OK
		}
		// The precision of clock comparisons depends on how busy this machine is.
		known := clock.Bound+after[1].Bound < 500*time.Microsecond
		if !ok["simulators"] || known && ok["simulators-apart"] != (set == 0) {
			t.Errorf("a clock was set by %v, known %v: %+v", set, known, out.Validity)
		}
	}
}

// A pod that is lost or restarted makes the trial fail; other errors are not marked as lost. The
// other pod is free afterwards.
func TestASimulatorIsLost(t *testing.T) {
	_, spec := discovery(t)
	for _, how := range []string{"is gone", "restarts"} {
		var right atomic.Int64
		a := httptest.NewServer(roleAhead(t.Context(), &right))
		role := atomic.Pointer[http.Handler]{}
		serve := func() {
			h := roleAhead(t.Context(), &right)
			role.Store(&h)
		}
		serve()
		b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*role.Load()).ServeHTTP(w, r) }))
		f := fleetAt(a.URL, b.URL)
		must.OK(t, f.start(t.Context(), spec))
		f.allSynced(t)
		other := errors.New("observe node n: gone")
		if err := f.asLost(t.Context(), other); err != other {
			t.Errorf("all are there: %v", err)
		}
		if how == "is gone" {
			b.CloseClientConnections()
			b.Close()
		} else {
			serve()
		}
		if err := f.asLost(t.Context(), other); !errors.Is(err, hands.ErrLost) || !errors.Is(err, other) {
			t.Errorf("%s: an observer noticed it: %v", how, err)
		}
		for name, ask := range map[string]func() error{
			"status":    func() error { _, err := f.status(t.Context()); return err },
			"sightings": func() error { _, err := f.sightings(t.Context()); return err },
			"account":   func() error { _, err := f.account(t.Context()); return err },
			"announce":  func() error { return f.announce(t.Context(), []record.Marker{{Type: "cds", Text: "x"}}) },
		} {
			if err := ask(); !errors.Is(err, hands.ErrLost) || !strings.Contains(err.Error(), "xds-1") || strings.Contains(err.Error(), "xds-0") {
				t.Errorf("%s: %s: %v", how, name, err)
			}
		}
		f.stop(t.Context())
		alone := fleetAt(a.URL)
		if err := alone.start(t.Context(), spec); err != nil {
			t.Errorf("the other one still runs: %v", err)
		}
		if _, err := alone.status(t.Context()); err != nil {
			t.Error(err)
		}
		alone.stop(t.Context())
		if _, err := alone.status(t.Context()); err == nil || errors.Is(err, hands.ErrLost) {
			t.Errorf("one that was the only one is one of several: %v", err)
		}
		b.Close()
		a.Close()
	}
}

// Of several pods, one that is lost with its node is replaced within the time limit for pods to
// become ready; a single one stays where it is.
func TestPodsOfALostNode(t *testing.T) {
	for _, pods := range []int{1, 3} {
		all := xdsDeployment("n", lab.Images{}, "r", pods).Spec.Template.Spec.Tolerations
		if pods == 1 && len(all) > 0 || pods > 1 && len(all) != 2 {
			t.Errorf("%d pods tolerate %+v", pods, all)
		}
		for _, one := range all {
			if one.Operator != corev1.TolerationOpExists || one.Effect != corev1.TaintEffectNoExecute || one.TolerationSeconds == nil ||
				noticed+time.Duration(*one.TolerationSeconds)*time.Second > site.ReadyTimeout/2 {
				t.Errorf("%d pods tolerate %+v", pods, one)
			}
		}
	}
}

// noticed is how long a cluster takes to notice that a node has died.
const noticed = 50 * time.Second

// If no connection to a pod was left to stop its proxies, they are stopped when it is reached
// again, and the next trial can start.
func TestReachStopsWhatRuns(t *testing.T) {
	_, spec := discovery(t)
	var right atomic.Int64
	a, role := httptest.NewServer(roleAhead(t.Context(), &right)), roleAhead(t.Context(), &right)
	defer a.Close()
	var away atomic.Bool
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		role.ServeHTTP(w, r)
	}))
	defer b.Close()
	before := fleetAt(a.URL, b.URL)
	if err := before.reach(t.Context()); err != nil {
		t.Fatalf("nothing runs there yet: %v", err)
	}
	must.OK(t, before.start(t.Context(), spec))
	away.Store(true)
	before.stop(t.Context())
	if err := before.reach(t.Context()); err == nil {
		t.Error("a pod that is away was reached")
	}
	away.Store(false)
	f := fleetAt(a.URL, b.URL)
	must.OK(t, f.reach(t.Context()))
	must.OK(t, f.start(t.Context(), spec))
	defer f.stop(t.Context())
	f.allSynced(t)
}

// All proxies of all pods lose their streams and return.
func TestOutageOfTwo(t *testing.T) {
	_, spec := discovery(t)
	f := startedPair(t, spec, new(atomic.Int64))
	must.OK(t, f.beginOutage(t.Context(), true))
	var o xds.Outage
	eventually.Holds(t, "all are back", func() bool {
		var err error
		o, err = f.outage(t.Context())
		must.OK(t, err)
		return o.Over()
	})
	if len(o.LostNS) != 5 || o.Losses != 5 || o.Down.Count != 5 || o.Down.Max() <= 0 || o.DownCounts != nil || slices.Min(o.BackNS) < o.SinceUnixNS {
		t.Errorf("%+v", o)
	}
}

// Concurrent changes do not wait for each other's markers: however long a pod takes to receive one,
// and in whatever order, each marker's sightings cover all pods.
func TestMarkersInAnyOrder(t *testing.T) {
	s, spec := discovery(t)
	var right atomic.Int64
	role, other, heard := roleAhead(t.Context(), &right), roleAhead(t.Context(), &right), make(chan struct{}, 2)
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		role.ServeHTTP(w, r)
		if r.URL.Path == "/v1/markers" {
			heard <- struct{}{}
		}
	}))
	defer a.Close()
	var asked atomic.Int32
	second := make(chan struct{})
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/markers" {
			if asked.Add(1) == 1 {
				select {
				case <-second:
				case <-time.After(10 * time.Second):
				}
			} else {
				defer close(second)
			}
		}
		other.ServeHTTP(w, r)
	}))
	defer b.Close()
	f := fleetAt(a.URL, b.URL)
	must.OK(t, f.start(t.Context(), spec))
	defer f.stop(t.Context())
	f.allSynced(t)
	var changes sync.WaitGroup
	for i, text := range []string{"another", "never"} {
		changes.Go(func() {
			if err := f.announce(t.Context(), []record.Marker{{Change: i, Type: "eds", Text: text}}); err != nil {
				t.Error(err)
			}
		})
		eventually.Holds(t, "both pods were told of the first", func() bool { return len(heard) > 0 && asked.Load() > 0 })
	}
	changes.Wait()
	own, err := f.apis[1].Sightings(t.Context(), 0)
	must.OK(t, err)
	if m, err := own.Next(); err != nil || m.Change != 1 {
		t.Errorf("the second pod heard of change %d first, %v", m.Change, err)
	}
	_ = own.Close()
	changed, err := xdsserver.SyntheticEndpoints(0, 1, "another")
	must.OK(t, err)
	s.Push(xdsserver.Change{Type: xdsserver.EndpointType, Changed: []xdsserver.Resource{changed}})
	var seen []xds.MarkerSightings
	eventually.Holds(t, "all see it", func() bool {
		seen, err = f.sightings(t.Context())
		must.OK(t, err)
		return len(seen) == 2 && len(seen[0].Proxy) == 5
	})
	if sorted := slices.Sorted(slices.Values(seen[0].Proxy)); !slices.Equal(sorted, []int32{0, 1, 2, 3, 4}) || seen[0].Change != 0 || seen[1].Change != 1 || len(seen[1].Proxy) != 0 {
		t.Errorf("%+v", seen)
	}
}
