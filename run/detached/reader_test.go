package detached

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/run/site"
)

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// A pod that is busy with one file for a long time still receives signs of life. It
// receives none after the end.
func TestReaderIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		silence, beats := time.Duration(0), 0
		r := &reader{dialer: lab.NewDialer(&rest.Config{}), end: func(context.Context) error { return nil }}
		r.Client = jsonhttp.Client{BaseURL: lab.InPod, Name: "results", MaxAnswer: maxAnswer, HTTPClient: &http.Client{Transport: answers(func(req *http.Request) (*http.Response, error) {
			beats++
			if beats == 2 { // one is lost
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			silence, last = max(silence, time.Since(last)), time.Now()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})}}
		last = time.Now()
		r.beat(t.Context())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if silence > site.Alone || beats < 20 {
			t.Errorf("%d signs of life in 10 min, and none for %v", beats, silence)
		}
		if err := r.close(t.Context()); err != nil {
			t.Error(err)
		}
		said := beats
		time.Sleep(time.Minute)
		if beats != said {
			t.Errorf("%d signs of life after the end", beats-said)
		}
	})
}
