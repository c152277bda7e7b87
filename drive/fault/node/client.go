package node

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// maxAnswer bounds what a client reads of an answer.
const maxAnswer = 16 << 20

// Client talks to the fault role of one node.
type Client struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "http://127.0.0.1:15994"
	Token      string       // that the server wants
}

// Processes lists the processes of a container.
func (c Client) Processes(ctx context.Context, container Container) ([]Process, error) {
	out, err := do[ProcessesAnswer](ctx, c, http.MethodPost, "/v1/processes", container)
	return out.Processes, err
}

// Prepare has the node look for a pod ahead of a fault, which then begins some
// milliseconds sooner. It fails if the pod is none to act upon.
func (c Client) Prepare(ctx context.Context, podUID string) error {
	_, err := do[PrepareRequest](ctx, c, http.MethodPost, "/v1/prepare", PrepareRequest{PodUID: podUID})
	return err
}

// Look returns processes found before as they are now.
func (c Client) Look(ctx context.Context, processes []Process) ([]Process, error) {
	out, err := do[ProcessesAnswer](ctx, c, http.MethodPost, "/v1/look", LookRequest{Processes: processes})
	if err == nil && len(out.Processes) != len(processes) {
		err = fmt.Errorf("fault: asked for %d processes, got %d", len(processes), len(out.Processes))
	}
	return out.Processes, err
}

// Signal kills or stops processes. What it stops goes on when the fault is
// undone or its lease ends.
func (c Client) Signal(ctx context.Context, request SignalRequest) (Fault, error) {
	return do[Fault](ctx, c, http.MethodPost, "/v1/signal", request)
}

// Network disturbs packets until the fault is undone or its lease ends.
func (c Client) Network(ctx context.Context, request NetworkRequest) (Fault, error) {
	return do[Fault](ctx, c, http.MethodPost, "/v1/network", request)
}

// Extend has faults end so long from now. One that has ended is an error.
func (c Client) Extend(ctx context.Context, lease time.Duration, ids ...string) ([]Fault, error) {
	out, err := do[FaultsAnswer](ctx, c, http.MethodPost, "/v1/extend", ExtendRequest{IDs: ids, LeaseMS: lease.Milliseconds()})
	return out.Faults, err
}

// Fault returns a fault that stands, with its counters as they are now.
func (c Client) Fault(ctx context.Context, id string) (Fault, error) {
	return do[Fault](ctx, c, http.MethodGet, "/v1/faults/"+url.PathEscape(id), nil)
}

// List returns the faults that stand.
func (c Client) List(ctx context.Context) ([]Fault, error) {
	out, err := do[FaultsAnswer](ctx, c, http.MethodGet, "/v1/faults", nil)
	return out.Faults, err
}

// Undo ends a fault and returns it as it was at its end.
func (c Client) Undo(ctx context.Context, id string) (Fault, error) {
	return do[Fault](ctx, c, http.MethodDelete, "/v1/faults/"+url.PathEscape(id), nil)
}

// Offers has the node try out what it can do, which takes about a
// second, and longer where the node is busy.
func (c Client) Offers(ctx context.Context) ([]Offer, error) {
	out, err := do[OffersAnswer](ctx, c, http.MethodGet, "/v1/offers", nil)
	return out.Offers, err
}

// ClockOffset returns how far the node's clock is ahead of this process's,
// and the bound of the error.
func (c Client) ClockOffset(ctx context.Context) (offset, bound time.Duration, err error) {
	return c.json().ClockOffset(ctx)
}

// Keep extends a fault's lease again and again until the returned function is
// called, which waits for the end of that and returns the last error if the
// lease could not be extended. The fault itself stands until its lease ends
// or it is undone.
func (c Client) Keep(ctx context.Context, lease time.Duration, id string) (release func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var failed error
	var wait sync.WaitGroup
	wait.Go(func() {
		ticker := time.NewTicker(max(lease/4, time.Millisecond))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if _, err := c.Extend(ctx, lease, id); ctx.Err() == nil {
				failed = err
			}
		}
	})
	return func() error {
		cancel()
		wait.Wait()
		return failed
	}
}

func (c Client) json() jsonhttp.Client {
	return jsonhttp.Client{HTTPClient: c.HTTPClient, BaseURL: c.BaseURL, Name: "fault", MaxAnswer: maxAnswer, Token: c.Token}
}

func do[T any](ctx context.Context, c Client, method, path string, in any) (out T, err error) {
	err = c.json().Do(ctx, method, path, in, &out)
	return out, err
}
