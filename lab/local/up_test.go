package local

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/lab/components"
)

func TestImagesOf(t *testing.T) {
	u := &starter{images: []components.Image{{Ref: components.PauseRef}, {Ref: "docker.io/istio/pilot:1"}}}
	plain := u.imagesOf()
	if plain.Istiod != "docker.io/istio/pilot:1" || plain.Hub != "docker.io/istio" || plain.Proxy != "docker.io/istio/proxyv2:1" || plain.Meshtrial != components.RolesRef {
		t.Errorf("%+v", plain)
	}
	if plain.LinkerdVersion != "" || plain.LinkerdProxy != "" || plain.LinkerdController != "" {
		t.Errorf("a lab without Linkerd has %+v", plain)
	}
	u.linkerd = &components.Linkerd{Version: "edge-1", Controller: "c:edge-1", Proxy: "p:edge-1"}
	u.o.Official = true
	if got := u.imagesOf(); got.LinkerdVersion != "edge-1" || got.LinkerdProxy != "p:edge-1" || got.LinkerdController != "c:edge-1" || got.Istiod != plain.Istiod {
		t.Errorf("%+v", got)
	}
}

// A lab that starts is given up as soon as its user does, or what is installed in it fails,
// although its init says nothing: nobody reads it any longer.
func TestAwaitGivesUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	gaveUp, noChart := errors.New("interrupted"), errors.New("no such chart")
	for name, want := range map[string]error{"before the API answers": gaveUp, "while things are installed": gaveUp, "what is installed fails": noChart} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := controlPair()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			defer theirs.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			u := &starter{began: time.Now(), o: Options{Progress: func(string) {}, OnAPI: func(ctx context.Context, _ *Lab) error {
				if want == noChart {
					return noChart
				}
				cancel(gaveUp)
				<-ctx.Done()
				return context.Cause(ctx)
			}}}
			if name == "before the API answers" {
				cancel(gaveUp)
			} else if _, err := io.WriteString(theirs, `{"event":"`+eventAPI+`"}`+"\n"); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				done <- u.await(ctx, &Lab{record: &record{}, config: &rest.Config{Host: server.URL}}, &initProcess{control: ours})
			}()
			select {
			case err := <-done:
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it waits for an init that says nothing")
			}
		})
	}
}
