package trial

import (
	"context"
	"errors"
	neturl "net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestHolds(t *testing.T) {
	for _, tt := range []struct {
		body, text string
		want       bool
	}{
		{`"10.0.0.1"`, "10.0.0.1", true}, {`"10.0.0.12"`, "10.0.0.1", false}, {`"10.0.0.12" "10.0.0.1"`, "10.0.0.1", true},
		{"name", "name", true}, {"names", "name", false}, {"", "x", false}, {"aé", "a", false}, {"a-b", "a", true},
	} {
		if got := holds([]byte(tt.body), tt.text); got != tt.want {
			t.Errorf("%q in %q: %v", tt.text, tt.body, got)
		}
	}
}

// admin responds like Envoy's config dump: one resource of each type.
type admin map[string]string // field of the dump: one element of configs

func (a admin) get(_ context.Context, path string, q neturl.Values) ([]byte, error) {
	if path != "/config_dump" || q.Get("resource") == "" {
		return nil, errors.New("not asked for one type's resources")
	}
	return []byte(`{"configs": [` + a[q.Get("resource")] + `]}`), nil
}

// needsAll lets each Envoy need all changes at once.
func needsAll(_, _ int) (bool, time.Duration) { return true, 0 }

func TestEnvoyWatch(t *testing.T) {
	w := &envoyWatch{wants: needsAll, seen: []map[int]int64{{}, nil}}
	w.begin(time.Now())
	w.announce([]record.Marker{
		{Change: 0, Type: "cds", Resource: "outbound|80||a", Text: "outbound|80||a"},
		{Change: 0, Type: "lds", Text: "0.0.0.0_9000"},
		{Change: 1, Type: "eds", Resource: "outbound|80||a", Text: "10.0.0.1", Gone: true},
		{Change: 2, Type: "nds", Text: "nobody can see it"},
	})
	look := func(a admin, there map[int]bool) {
		for kind, wanted := range w.next(0) {
			if dumped[kind] != "" {
				body, err := a.get(t.Context(), "/config_dump", dumpQuery(kind, w.named(wanted)))
				must.OK(t, err)
				w.note(0, wanted, resourcesIn(body), there)
			}
		}
	}
	shown := func() (n [4]int) { // number of Envoys that showed each marker
		for i, s := range w.sightings(5) {
			n[i] = len(s.Proxy)
		}
		return n
	}
	there := map[int]bool{}
	// The cluster is present, its listener is only warming, and the endpoint was never seen, so it
	// cannot be gone.
	look(admin{
		"dynamic_active_clusters": `{"cluster": {"name": "outbound|80||a"}}`,
		"dynamic_listeners":       `{"name": "0.0.0.0_9000", "active_state": {"listener": {"name": "other"}}, "warming_state": {"listener": {"name": "0.0.0.0_9000"}}}`,
	}, there)
	if got := shown(); got != [4]int{1} {
		t.Errorf("seen %v", got)
	}
	before := time.Now().UnixNano()
	look(admin{
		"dynamic_listeners":        `{"name": "0.0.0.0_9000", "active_state": {"listener": {"name": "0.0.0.0_9000"}}}`,
		"dynamic_endpoint_configs": `{"endpoint_config": {"cluster_name": "outbound|80||a", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "10.0.0.1"}}}}]}]}}`,
	}, there)
	got := w.sightings(5)
	if shown() != [4]int{1, 1} || got[1].Proxy[0] != 5 || got[1].ReceivedNS[0] < before || got[1].AckedNS[0] != record.Never || got[1].Change != 0 || !got[2].Gone {
		t.Errorf("seen %v", got)
	}
	look(admin{"dynamic_endpoint_configs": `{"endpoint_config": {"cluster_name": "outbound|80||a", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "10.0.0.12"}}}}]}]}}`}, there)
	if got := shown(); got != [4]int{1, 1, 1} {
		t.Errorf("the endpoint is gone, seen %v", got)
	}
	if (&envoyWatch{}).sightings(0) != nil {
		t.Error("sightings without Envoys")
	}
}

// Envoys are searched for the first outstanding changes and the newest: one that never arrives
// hides none.
func TestEnvoyWatchNext(t *testing.T) {
	w := &envoyWatch{wants: needsAll, seen: []map[int]int64{{0: 1}}}
	w.begin(time.Now())
	for change := range 100 {
		w.announce([]record.Marker{{Change: change, Type: "cds", Text: "x"}})
	}
	next := w.next(0)["cds"]
	if len(next) != 2*envoyAhead || next[0] != 1 || next[len(next)-1] != 99 {
		t.Errorf("looks for %v", next)
	}
}

// An Envoy is queried neither for changes that it does not need nor for those not yet due.
func TestEnvoyWatchWants(t *testing.T) {
	w := &envoyWatch{seen: []map[int]int64{{}, {}}}
	w.wants = func(envoy, change int) (bool, time.Duration) {
		return change%2 == envoy, time.Duration(change) * time.Minute
	}
	for change := range 6 {
		w.announce([]record.Marker{{Change: change, Type: "cds", Text: "x"}})
	}
	if got := w.next(0); len(got) != 0 {
		t.Errorf("before it is known when: %v", got)
	}
	w.begin(time.Now().Add(-3 * time.Minute))
	for envoy, want := range map[int][]int{0: {0, 2}, 1: {1, 3}} {
		if got := w.next(envoy)["cds"]; !slices.Equal(got, want) {
			t.Errorf("Envoy %d is asked for %v, want %v", envoy, got, want)
		}
	}
}

func FuzzResourcesIn(f *testing.F) {
	f.Add([]byte(`{"configs": [{"name": "a", "active_state": {}}, {"cluster": {"name": "b"}}]}`))
	f.Add([]byte(`{"configs": [1, null, {"endpoint_config": {"cluster_name": "c"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, resource := range resourcesIn(body) {
			if len(resource) > len(body) || len(name) > 8*len(body) {
				t.Fatalf("%q has %d bytes of %d", name, len(resource), len(body))
			}
			_ = holds(resource, strings.TrimSpace(name)+"x")
		}
	})
}
