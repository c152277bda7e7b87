package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/testing/must"
)

var errRefused = errors.New("connection errRefused")

// cluster responds to a keeper depending on the time since its start.
type cluster struct {
	begin  time.Time
	lease  func(at time.Duration) (*Lease, error)
	delete func(at time.Duration) error // nil: it succeeds

	removed []time.Duration
	log     bytes.Buffer
}

// follow makes a keeper of run r watch the cluster for the given time.
func follow(t *testing.T, c *cluster, length time.Duration) {
	t.Helper()
	c.begin = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	k := keeper{
		log: slog.New(slog.NewTextHandler(&c.log, nil)), watch: watch{run: "r"},
		read: func(context.Context) (*Lease, error) { return c.lease(time.Since(c.begin)) },
		remove: func(context.Context) error {
			at := time.Since(c.begin)
			c.removed = append(c.removed, at)
			if c.delete == nil {
				return nil
			}
			return c.delete(at)
		},
	}
	k.run(ctx)
}

// renewed returns a Lease of run r that is renewed every 10 s until the given
// time.
func renewed(until time.Duration) func(time.Duration) (*Lease, error) {
	return func(at time.Duration) (*Lease, error) {
		return &Lease{Holder: "r", Version: fmt.Sprint(int(min(at, until) / (10 * time.Second)))}, nil
	}
}

func TestKeeper(t *testing.T) {
	const second = time.Second
	alive := renewed(1000 * time.Hour)
	for _, c := range []struct {
		name    string
		lease   func(time.Duration) (*Lease, error)
		removed time.Duration // 0: never
		log     string
	}{
		{"a run at work", alive, 0, ""},
		{"a runner that died", renewed(100 * second), 138 * second, "not renewed its Lease for 36s"},
		{"one that never renewed", renewed(0), 36 * second, "not renewed"},
		{"another run's", func(at time.Duration) (*Lease, error) {
			if at < 60*second {
				return alive(at)
			}
			return &Lease{Holder: "s", Version: "9"}, nil
		}, 60 * second, "run s holds"},
		{"nobody's", func(at time.Duration) (*Lease, error) {
			return &Lease{Version: "9"}, nil
		}, 1, "nobody holds"},
		{"gone", func(at time.Duration) (*Lease, error) {
			if at < 30*second {
				return alive(at)
			}
			return nil, nil
		}, 30 * second, "Lease is gone"},
		{"an API server that is away for an hour", func(at time.Duration) (*Lease, error) {
			if at > 100*second && at < time.Hour {
				return nil, errRefused
			}
			if at < time.Hour+30*second { // the runner needs a while to recover
				at = min(at, 100*second)
			}
			return alive(at)
		}, 0, "can be read again"},
		{"an API server that is away, and a runner that died meanwhile", func(at time.Duration) (*Lease, error) {
			if at > 20*second && at < 200*second {
				return nil, errRefused
			}
			return renewed(20 * second)(at)
		}, 237 * second, "not renewed its Lease for 36s"},
		{"an API server that never answers", func(time.Duration) (*Lease, error) { return nil, errRefused }, 0, "cannot be read"},
		{"a keeper that may not read it", func(time.Duration) (*Lease, error) {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, journal.LeaseName, errors.New("no"))
		}, 0, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &cluster{lease: c.lease}
				follow(t, seen, 3*time.Hour)
				at := c.removed / second * second
				switch {
				case c.removed == 0 && len(seen.removed) > 0, c.removed > 0 && (len(seen.removed) != 1 || seen.removed[0] != at):
					t.Errorf("removed at %v, want %v\n%s", seen.removed, at, &seen.log)
				case !strings.Contains(seen.log.String(), c.log):
					t.Errorf("log lacks %q:\n%s", c.log, &seen.log)
				case strings.Count(seen.log.String(), "\n") > 3:
					t.Errorf("it says the same again and again:\n%s", &seen.log)
				}
			})
		})
	}
}

// The deletion of a namespace is retried while the run is still over.
func TestKeeperTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{lease: renewed(0), delete: func(at time.Duration) error {
			if at < 45*time.Second {
				return errRefused
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, "n", errors.New("the UID is another"))
		}}
		follow(t, c, time.Hour)
		if len(c.removed) != 4 || c.removed[3] != 45*time.Second {
			t.Errorf("tried at %v", c.removed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{delete: func(time.Duration) error { return errRefused }, lease: func(at time.Duration) (*Lease, error) {
			if at < 38*time.Second {
				return renewed(0)(at)
			}
			return renewed(1000 * time.Hour)(at)
		}}
		follow(t, c, time.Hour)
		if len(c.removed) != 1 {
			t.Errorf("the runner came back, but the namespace was tried at %v", c.removed)
		}
	})
}

// Time in which the keeper itself stood still does not count as silence of the
// runner, which may have stood still too.
func TestWatchThatStoodStill(t *testing.T) {
	w, now := watch{run: "r"}, time.Now()
	lease := &Lease{Holder: "r", Version: "1"}
	for _, step := range []struct {
		after time.Duration
		over  bool
	}{{0, false}, {5 * time.Second, false}, {time.Hour, false}, {5 * time.Second, false}, {20 * time.Second, false}, {time.Hour, false}, {5 * time.Second, false}, {1999 * time.Millisecond, false}, {time.Millisecond, true}} {
		now = now.Add(step.after)
		if why := w.saw(now, lease); (why != "") != step.over {
			t.Errorf("after %v: %q, silent for %v", step.after, why, w.silent)
		}
	}
}

func TestRead(t *testing.T) {
	answer, status := "", 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/coordination.k8s.io/v1/namespaces/meshtrial-journal/leases/meshtrial" || r.Method != http.MethodGet || r.Header.Get("Accept") != "application/json" {
			t.Errorf("%s %s, %s", r.Method, r.URL, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must.OK(t, err)
	for _, c := range []struct {
		status int
		answer string
		want   *Lease
		failed string
	}{
		{200, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"meshtrial","resourceVersion":"77"},"spec":{"holderIdentity":"r","renewTime":"2026-01-01T00:00:00.000000Z"}}`, &Lease{"r", "77"}, ""},
		{200, `{"metadata":{"resourceVersion":"78"},"spec":{}}`, &Lease{"", "78"}, ""},
		{200, `<html>`, nil, "invalid character"},
		{404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, nil, ""},
		{403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, nil, "read Lease meshtrial-journal/meshtrial"},
	} {
		answer, status = c.answer, c.status
		got, err := Read(t.Context(), kube)
		if (err != nil) != (c.failed != "") || err != nil && !strings.Contains(err.Error(), c.failed) || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%d %s: %+v, %v", c.status, c.answer, got, err)
		}
	}
}
