package programs

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func pinned(t *testing.T) {
	t.Helper()
	if Find("taskset") == "" || Find("sleep") == "" {
		t.Skip("taskset or sleep is missing")
	}
}

// A server that does not answer is not waited for when the context ends, and
// nothing of it stays.
func TestServeEndsWithItsContext(t *testing.T) {
	pinned(t)
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	s, err := Serve(ctx, "http://"+address+"/", 0, Find("sleep"), "60")
	if s != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("server %v, %v", s, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestServe(t *testing.T) {
	pinned(t)
	asked := 0
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			panic(http.ErrAbortHandler) // not up yet
		}
	}))
	defer at.Close()
	s, err := Serve(t.Context(), at.URL, 0, Find("sleep"), "60")
	if err != nil {
		t.Fatal(err)
	}
	if asked < 2 || s.PID() == 0 {
		t.Errorf("asked %d times, PID %d", asked, s.PID())
	}
	s.Stop()
	if s.cmd.ProcessState == nil {
		t.Error("it was not waited for")
	}
}
