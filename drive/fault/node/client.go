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

// maxAnswer limits the bytes of an answer.
const maxAnswer = 16 << 20

// Client talks to the fault role of one node.
type Client struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "http://127.0.0.1:15994"
	Token      string
}

// Processes lists the processes of a container.
func (c Client) Processes(ctx context.Context, container Container) ([]Process, error) {
	return jsonhttp.Ask[[]Process](ctx, c.json(), http.MethodPost, "/v1/processes", container)
}

// Prepare makes the node find a pod ahead of a fault, which then begins some milliseconds
// sooner. It fails if the pod cannot be acted upon.
func (c Client) Prepare(ctx context.Context, podUID string) error {
	_, err := jsonhttp.Ask[jsonhttp.None](ctx, c.json(), http.MethodPost, "/v1/prepare", Container{PodUID: podUID})
	return err
}

// Look returns the current state of known processes.
func (c Client) Look(ctx context.Context, processes []Process) ([]Process, error) {
	out, err := jsonhttp.Ask[[]Process](ctx, c.json(), http.MethodPost, "/v1/look", processes)
	if err == nil && len(out) != len(processes) {
		err = fmt.Errorf("fault: asked for %d processes, got %d", len(processes), len(out))
	}
	return out, err
}

// Signal kills or stops processes. Stopped ones continue when the fault is reverted or its
// lease ends.
func (c Client) Signal(ctx context.Context, request SignalRequest) (Fault, error) {
	return jsonhttp.Ask[Fault](ctx, c.json(), http.MethodPost, "/v1/signal", request)
}

// Network disturbs packets until the fault is reverted or its lease ends.
func (c Client) Network(ctx context.Context, request NetworkRequest) (Fault, error) {
	return jsonhttp.Ask[Fault](ctx, c.json(), http.MethodPost, "/v1/network", request)
}

// Extend sets the rest of a fault's lease. An ended fault is an error.
func (c Client) Extend(ctx context.Context, lease time.Duration, id string) (Fault, error) {
	return jsonhttp.Ask[Fault](ctx, c.json(), http.MethodPost, "/v1/faults/"+url.PathEscape(id), ExtendRequest{lease.Milliseconds()})
}

// Fault returns a fault in force, with its current counters.
func (c Client) Fault(ctx context.Context, id string) (Fault, error) {
	return jsonhttp.Ask[Fault](ctx, c.json(), http.MethodGet, "/v1/faults/"+url.PathEscape(id), nil)
}

// List returns the faults in force.
func (c Client) List(ctx context.Context) ([]Fault, error) {
	return jsonhttp.Ask[[]Fault](ctx, c.json(), http.MethodGet, "/v1/faults", nil)
}

// Undo reverts a fault and returns it as it was at its end.
func (c Client) Undo(ctx context.Context, id string) (Fault, error) {
	return jsonhttp.Ask[Fault](ctx, c.json(), http.MethodDelete, "/v1/faults/"+url.PathEscape(id), nil)
}

// Offers makes the node try its abilities.
func (c Client) Offers(ctx context.Context) ([]Offer, error) {
	return jsonhttp.Ask[[]Offer](ctx, c.json(), http.MethodGet, "/v1/offers", nil)
}

// Clock compares the node's clock with this process's.
func (c Client) Clock(ctx context.Context) (jsonhttp.Clock, error) { return c.json().Clock(ctx) }

// Keep extends a fault's lease periodically until release is called, which returns the
// error of the last extension. The fault stays in force until its lease ends or it is
// reverted.
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
