package trial

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

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
