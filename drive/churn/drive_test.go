package churn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// server imitates an API server of which only the times and codes of responses
// matter: it accepts Services, and reports them to one watch.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	names   []string // in order of requests
	answer  func(n int, w http.ResponseWriter) bool
	told    chan []byte
	deleted int
}

func newServer(t *testing.T, answer func(n int, w http.ResponseWriter) bool) *server {
	s := &server{answer: answer, told: make(chan []byte, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Service","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		w.(http.Flusher).Flush()
		for {
			select {
			case o := <-s.told:
				fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", o)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	case r.Method == http.MethodGet:
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"ServiceList","metadata":{"resourceVersion":"1"},"items":[]}`)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		s.deleted++
		s.mu.Unlock()
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Success"}`)
	default:
		var object map[string]any
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		metadata := object["metadata"].(map[string]any)
		s.mu.Lock()
		n := len(s.names)
		s.names = append(s.names, metadata["name"].(string))
		s.mu.Unlock()
		metadata["resourceVersion"] = fmt.Sprint(n + 2)
		text, _ := json.Marshal(object)
		if s.answer == nil || s.answer(n, w) {
			s.told <- text
			w.WriteHeader(http.StatusCreated)
			w.Write(text)
		}
	}
}

func refuse(w http.ResponseWriter) {
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"not today"}`)
}

func services(t *testing.T, count int, rps float64) *Plan {
	p, err := NewPlan(Spec{Trial: "t", Kind: KindService, Arrival: ArrivalUniform, Shape: rate(rps), Count: count, Population: population.Sizes{Namespaces: 1}})
	must.OK(t, err)
	return p
}

// run executes a plan against a server.
func run(t *testing.T, ctx context.Context, s *server, p *Plan) ([]record.Event, []record.Marker, error) {
	d, err := NewDriver(&rest.Config{Host: s.URL, QPS: -1}, p)
	must.OK(t, err)
	must.OK(t, d.Prepare(t.Context()))
	var mu sync.Mutex
	var announced []record.Marker
	events, err := d.Drive(ctx, time.Now().Add(100*time.Millisecond), func(_ context.Context, m []record.Marker) error {
		mu.Lock()
		defer mu.Unlock()
		announced = append(announced, m...)
		return nil
	})
	must.OK(t, d.Cleanup(context.Background()))
	if len(events) != len(p.Changes) {
		t.Fatalf("%d events of %d changes", len(events), len(p.Changes))
	}
	return events, announced, err
}

// TestOpenLoop makes the server delay one change and reject another: the others
// are sent as planned, and each is accounted for.
func TestOpenLoop(t *testing.T) {
	release := make(chan struct{})
	s := newServer(t, func(n int, w http.ResponseWriter) bool {
		switch n {
		case 1:
			<-release
		case 3:
			refuse(w)
			return false
		case 8:
			close(release)
		}
		return true
	})
	p := services(t, 10, 50)
	events, announced, err := run(t, t.Context(), s, p)
	must.OK(t, err)
	if len(announced) != 10 {
		t.Errorf("%d markers announced", len(announced))
	}
	refused := 0
	for i, e := range events {
		if e.SentNS < e.PlannedNS || e.Change != i || e.PlannedNS-events[0].PlannedNS != p.Changes[i].OffsetNS {
			t.Errorf("event %+v", e)
		}
		if e.Error != "" {
			refused++
			if !strings.Contains(e.Error, "not today") || e.CommittedNS != 0 || e.WatchedNS != 0 {
				t.Errorf("the refused change: %+v", e)
			}
			continue
		}
		if e.CommittedNS < e.SentNS || e.WatchedNS < e.SentNS {
			t.Errorf("event %+v", e)
		}
	}
	if refused != 1 {
		t.Errorf("%d changes were refused", refused)
	}
	// The delayed change was answered after others had been sent. It is not
	// necessarily the second planned one: on a busy machine many are sent at
	// once.
	held := slices.IndexFunc(events, func(e record.Event) bool { return strings.HasSuffix(e.Object, s.names[1]) })
	if held < 0 {
		t.Fatalf("no event of %s: %+v", s.names[1], events)
	}
	meanwhile := 0
	for i, e := range events {
		if i != held && e.SentNS < events[held].CommittedNS {
			meanwhile++
		}
	}
	if meanwhile < 8 {
		t.Errorf("only %d changes left before the answer that the server held", meanwhile)
	}
	if s.deleted != 10 {
		t.Errorf("%d objects were deleted of 10", s.deleted)
	}
}

// TestLostAnswer breaks a connection after the server accepted the change: the
// watch shows that it was committed.
func TestLostAnswer(t *testing.T) {
	var s *server
	s = newServer(t, func(n int, w http.ResponseWriter) bool {
		s.mu.Lock()
		first := s.names[n] == "mm-t-00000"
		s.mu.Unlock()
		if !first {
			return true
		}
		s.told <- []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"mm-t-00000","namespace":"mm-0","resourceVersion":"5","annotations":{"` + changeAnnotation + `":"0"}}}`)
		panic(http.ErrAbortHandler)
	})
	events, _, err := run(t, t.Context(), s, services(t, 2, 5))
	must.OK(t, err)
	if e := events[0]; e.Error != "" || e.CommittedNS == 0 || e.CommittedNS != e.WatchedNS {
		t.Errorf("%+v", e)
	}
}

// TestCancelled cancels a run halfway.
func TestCancelled(t *testing.T) {
	var events []record.Event
	for limit := 400 * time.Millisecond; ; limit *= 4 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("enough"))
		var err error
		events, _, err = run(t, ctx, newServer(t, nil), services(t, 10, 0.2))
		cancel()
		if err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("%v", err)
		}
		if events[0].CommittedNS != 0 || limit > 20*time.Second {
			break // otherwise the machine was too busy to reach the first change
		}
	}
	if events[0].Error != "" || events[0].CommittedNS == 0 {
		t.Errorf("the first: %+v", events[0])
	}
	if e := events[9]; e.SentNS != 0 || !strings.Contains(e.Error, "not sent: enough") {
		t.Errorf("the last: %+v", e)
	}
}

// TestGroupsKeepTheirOrder sends the three objects of a repetition one after
// the other, though all are planned for the same time.
func TestGroupsKeepTheirOrder(t *testing.T) {
	s := newServer(t, func(n int, _ http.ResponseWriter) bool {
		time.Sleep(20 * time.Millisecond)
		return true
	})
	p, err := NewPlan(Spec{Trial: "t", Kind: KindPublished, Arrival: ArrivalUniform, Shape: rate(20), Count: 3, Population: population.Sizes{Namespaces: 1}})
	must.OK(t, err)
	events, announced, err := run(t, t.Context(), s, p)
	must.OK(t, err)
	if len(announced) != 6 {
		t.Errorf("%d markers: want one of each Service and VirtualService", len(announced))
	}
	for i := range events {
		if i%3 > 0 && events[i].SentNS < events[i-1].CommittedNS {
			t.Errorf("%s was sent before %s had its answer", events[i].Object, events[i-1].Object)
		}
	}
}
