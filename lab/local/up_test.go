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

	"github.com/meshtrial/meshtrial/testing/must"
)

// A starting lab is abandoned as soon as its user cancels or what is installed in it fails,
// even if its init sends nothing: events are no longer read.
func TestAwaitGivesUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	gaveUp, noChart := errors.New("interrupted"), errors.New("no such chart")
	for name, want := range map[string]error{"before the API answers": gaveUp, "while things are installed": gaveUp, "what is installed fails": noChart} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := controlPair()
			must.OK(t, err)
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

// A starting node is abandoned as soon as it sends something unintelligible.
func TestNodeSaysHowItStarts(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		ok   bool
	}{
		"up":         {`{"event":"` + eventSay + `"}` + "\n" + `{"event":"` + eventUp + `"}`, true},
		"failed":     {`{"event":"` + eventFailed + `","text":"no disk"}`, false},
		"unreadable": {`panic: no disk`, false},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := controlPair()
			must.OK(t, err)
			defer ours.Close()
			defer theirs.Close()
			up := make(chan error, 1)
			go follow(ours, up)
			must.OK(t, must.Err(io.WriteString(theirs, c.says+"\n")))
			select {
			case err := <-up:
				if (err == nil) != c.ok {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it waits")
			}
		})
	}
}
